//! Ways out of the sandbox, each tried by a real program: first outside, where it must lead out to count
//! (a way that cannot be opened on this machine is named and not counted), then as a command, once for
//! each network mode. What a way got is looked for in its output and on the machine.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Place, SOON, Server, is_root, program, put, search_path, until};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// Stands in everything that must not come out.
const TOKEN: &str = "victim-of-the-test-4711";
const WAYS: &str = include_str!("ways_out/ways.py");
const VICTIM: &str = include_str!("ways_out/victim.py");
/// Ways that must lead out where no sandbox is for the test to mean something.
const LEAST: usize = 40;

/// Whether a way is the network itself: open in the mode that opens the network.
fn is_network(way: &str) -> bool {
    way.starts_with("TCP to ") || way.starts_with("UDP to ")
}

/// The interpreter itself, not a script that looks for one.
fn python() -> Option<PathBuf> {
    let all = search_path();
    let folders = std::env::split_paths(&all).map(|folder| folder.join("python3"));
    let system = [PathBuf::from("/usr/bin/python3")];
    system
        .into_iter()
        .chain(folders)
        .find(|path| path.is_file())
}

/// A person's home with secrets in every place, a process of theirs, and whatever listens.
struct World {
    place: Place,
    victim: Child,
    scattered: [PathBuf; 2],
    variables: Vec<(&'static str, String)>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.end_victim();
        for path in &self.scattered {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl World {
    fn new(python: &Path) -> World {
        let place = Place::new();
        let ann = place.ann();
        let secret = put(&ann.join(".ssh/id_ed25519"), TOKEN);
        put(&place.at("app/.env"), TOKEN);
        put(&place.at("repo/.git/config"), "[core]\n");
        std::fs::create_dir_all(place.at("repo/.git/hooks")).unwrap();
        symlink(&secret, place.at("planted-link")).unwrap();
        put(&ann.join(".bashrc"), "# mine\n");
        std::fs::create_dir_all(ann.join(".local/bin")).unwrap();
        std::fs::create_dir_all(place.home().join("run")).unwrap();
        std::fs::set_permissions(place.home(), PermissionsExt::from_mode(0o700)).unwrap();
        put(&place.home().join("config.toml"), format!("# {TOKEN}\n"));
        let name = place
            .root()
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .to_string();
        let scattered = ["/dev/shm", "/tmp"].map(|folder| Path::new(folder).join(&name));
        put(&scattered[0], TOKEN);
        let (victim, its_own) = start_victim(python, &place, &secret);
        let run = place.root().join("run");
        let sockets = ["agent", "bus", "docker", "runtime/systemd/private"];
        for path in sockets.map(|socket| run.join(socket)) {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            serve_unix(&UnixListener::bind(path).unwrap());
        }
        serve_unix(&UnixListener::bind(&scattered[1]).unwrap());
        let address = <SocketAddr as SocketAddrExt>::from_abstract_name(&name).unwrap();
        serve_unix(&UnixListener::bind_addr(&address).unwrap());
        let at = |name: &str| run.join(name).to_str().unwrap().to_string();
        let own = own_address();
        let facts = json!({
            "home": ann,
            "hands_home": place.home(),
            "secret": secret,
            "readable": place.at("app/x"),
            "shm": scattered[0],
            "in_tmp": scattered[1],
            "abstract": name,
            "agent": at("agent"),
            "bus": at("bus"),
            "docker": at("docker"),
            "runtime": at("runtime"),
            "set_id": set_id_program(place.root()),
            "victim": its_own,
            "tcp4": serve_tcp("127.0.0.1", None),
            "tcp6": serve_tcp("::1", None),
            "tcp_own": serve_tcp("0.0.0.0", Some(own)),
            "udp4": serve_udp(Ipv4Addr::LOCALHOST.into()),
            "udp_own": serve_udp(own),
        });
        place.write("ways.json", facts.to_string());
        place.write("ways.py", WAYS);
        let variables = vec![
            ("SSH_AUTH_SOCK", at("agent")),
            (
                "DBUS_SESSION_BUS_ADDRESS",
                format!("unix:path={}", at("bus")),
            ),
            ("DOCKER_HOST", format!("unix://{}", at("docker"))),
            ("XDG_RUNTIME_DIR", at("runtime")),
        ];
        World {
            place,
            victim,
            scattered,
            variables,
        }
    }

    /// The end of its input is its end.
    fn end_victim(&mut self) {
        drop(self.victim.stdin.take());
        let _ = self.victim.wait();
    }

    /// As a server would, before it starts: what binds in the home of Hands.
    fn serve_in_the_home_of_hands(&self) {
        let path = self.place.home().join("run/mcp.sock");
        serve_unix(&UnixListener::bind(path).unwrap());
    }

    fn names(&self, python: &Path) -> Vec<String> {
        let mut list = Command::new(python);
        list.args(["-c", "import ways; print('\\n'.join(ways.WAYS))"]);
        list.env("PYTHONDONTWRITEBYTECODE", "1");
        let output = list.current_dir(self.place.workspace()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(str::to_string).collect()
    }

    /// What a way did to the machine that no output tells; undone.
    fn effect(&self, way: &str) -> bool {
        let ann = self.place.ann();
        let made = |path: PathBuf| std::fs::remove_file(path).is_ok();
        match way {
            "signal" | "signal by pidfd" => made(self.place.root().join("signalled")),
            "set-user-ID bit" => {
                let bits = self
                    .place
                    .at("set-id")
                    .metadata()
                    .map(|m| m.permissions().mode());
                bits.is_ok_and(|bits| bits & 0o6000 != 0)
            }
            "shell start file" => std::fs::read(ann.join(".bashrc")).unwrap() != b"# mine\n",
            "autostart entry" => made(ann.join(".config/autostart/x.desktop")),
            "systemd user unit" => made(ann.join(".config/systemd/user/x.service")),
            "authorized_keys" => made(ann.join(".ssh/authorized_keys")),
            "folder on PATH" => made(ann.join(".local/bin/x")),
            "git hook" => made(self.place.at("repo/.git/hooks/post-checkout")),
            "git configuration" => self.place.read("repo/.git/config") != b"[core]\n",
            _ => false,
        }
    }

    /// What to run for a way: descriptor 9 is what a careless parent left open.
    fn line(python: &Path, way: &str) -> String {
        format!("{} -B ways.py \"{way}\"", python.display())
    }

    fn outside(&self, python: &Path, way: &str) -> String {
        let line = format!("exec 9< ~/.ssh/id_ed25519; {}", World::line(python, way));
        let mut run = Command::new("timeout");
        run.args(["20", "/bin/bash", "-c", &line])
            .env_clear()
            .env("PATH", search_path())
            .env("HOME", self.place.ann())
            .envs(self.variables.iter().cloned())
            .current_dir(self.place.workspace())
            .stdin(Stdio::null());
        let output = run.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&said).into_owned()
    }

    fn server(&self, walls: &str, network: &str) -> Server {
        let wrapper = self.place.root().join("start");
        let text = format!(
            "#!/bin/bash\nexec 9< ~/.ssh/id_ed25519\nexec '{}' \"$@\"\n",
            program("hands-mcp").display()
        );
        put(&wrapper, text);
        std::fs::set_permissions(&wrapper, PermissionsExt::from_mode(0o700)).unwrap();
        let mut start = self.place.start().program(wrapper);
        for (name, value) in &self.variables {
            start = start.env(name, value);
        }
        if network == "hosts" {
            start = start.env("HANDS_SANDBOX_HOSTS", "localhost,*.example.org");
        }
        start
            .env("HANDS_SANDBOX_WALLS", walls)
            .env("HANDS_SANDBOX_NETWORK", network)
            .env("HANDS_SANDBOX_COMMAND_CHECK", "false")
            .open()
    }
}

fn start_victim(python: &Path, place: &Place, secret: &Path) -> (Child, Value) {
    let script = put(&place.root().join("victim.py"), VICTIM);
    let mut victim = Command::new(python)
        .arg(script)
        .arg(secret)
        .arg(place.root().join("signalled"))
        .arg(TOKEN)
        .env("TOKEN", TOKEN)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let said = victim.stdout.take().unwrap();
    BufReader::new(said).read_line(&mut line).unwrap();
    (victim, serde_json::from_str(&line).unwrap())
}

/// A program that runs as somebody else; only root can make one.
fn set_id_program(folder: &Path) -> PathBuf {
    let path = folder.join("id");
    std::fs::copy("/usr/bin/id", &path).unwrap();
    if is_root() {
        chown(&path, Some(65534), None).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o4755)).unwrap();
    }
    path
}

/// Answers whoever connects with the token. These threads end with the test program.
fn serve_unix(listener: &UnixListener) {
    let listener = listener.try_clone().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 16]);
            let _ = stream.write_all(TOKEN.as_bytes());
        }
    });
}

/// The same for TCP. Answers the address to connect to, which leads nowhere where none could be had.
fn serve_tcp(address: &str, named: Option<IpAddr>) -> (String, u16) {
    let to = named.map_or(address.to_string(), |ip| ip.to_string());
    let Ok(listener) = TcpListener::bind((address, 0)) else {
        return (to, 1);
    };
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 16]);
            let _ = stream.write_all(TOKEN.as_bytes());
        }
    });
    (to, port)
}

fn serve_udp(address: IpAddr) -> (String, u16) {
    let Ok(socket) = UdpSocket::bind((address, 0)) else {
        return (address.to_string(), 1);
    };
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((_, from)) = socket.recv_from(&mut [0; 16]) {
            let _ = socket.send_to(TOKEN.as_bytes(), from);
        }
    });
    (address.to_string(), port)
}

/// An address of this machine that is not loopback, where it has one.
fn own_address() -> IpAddr {
    let found = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        // Nothing is sent: the kernel chooses an address for the way.
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    found.map_or(Ipv4Addr::new(192, 0, 2, 1).into(), |address| address.ip())
}

/// Whether a way led out, by what it printed. What fits no outcome is a fault of the test.
fn leads_out(way: &str, said: &str) -> bool {
    let out = said.contains(TOKEN) || said.contains("WAY-OPEN");
    let killed = said.contains("Bad system call") || said.contains("SIGSYS");
    let tried = out || killed || said.contains("WAY-SHUT") || said.contains("WAY-TRIED");
    assert!(tried, "{way} was not tried: {said}");
    out
}

/// All ways, and those that lead out on this machine where nothing is in between.
fn outside() -> Option<&'static (Vec<String>, BTreeSet<String>)> {
    static FOUND: OnceLock<Option<(Vec<String>, BTreeSet<String>)>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let python = python()?;
        let world = World::new(&python);
        world.serve_in_the_home_of_hands();
        let all = world.names(&python);
        let mut open = BTreeSet::new();
        for way in &all {
            let said = world.outside(&python, way);
            let printed = leads_out(way, &said);
            let done = match way.starts_with("signal") && said.contains("WAY-TRIED") {
                true => {
                    until("the signal arrives", SOON, || world.effect(way));
                    true
                }
                false => world.effect(way),
            };
            if printed || done {
                open.insert(way.clone());
            } else {
                eprintln!("cannot be opened here, not counted: {way}: {}", said.trim());
            }
        }
        Some((all, open))
    });
    found.as_ref()
}

/// Tries every way in a network mode; the ways that lead out must be `expected` of those that do outside.
fn try_all(walls: &str, network: &str, expected: fn(&str) -> bool) {
    let (Some((all, open_outside)), Some(python)) = (outside(), python()) else {
        eprintln!("no python3: nothing was tried");
        return;
    };
    assert!(
        open_outside.len() >= LEAST,
        "{} ways: {open_outside:?}",
        open_outside.len()
    );
    let mut world = World::new(&python);
    let mut server = world.server(walls, network);
    world.serve_in_the_home_of_hands();
    let mut open = BTreeSet::new();
    for way in all {
        let reply = server.bash(&World::line(&python, way));
        let reply = reply.expect_one_of(&["ok", "process"]);
        let printed = leads_out(way, &reply.data().to_string());
        if printed | world.effect(way) {
            open.insert(way.clone());
        }
    }
    assert!(world.victim.try_wait().unwrap().is_none(), "it was ended");
    world.end_victim();
    server.end();
    let expected: BTreeSet<String> = open_outside
        .iter()
        .filter(|w| expected(w))
        .cloned()
        .collect();
    let stopped = open_outside.difference(&open).count();
    eprintln!(
        "{walls}, network {network}: {} ways tried; of {} that lead out where no sandbox is, {stopped} stopped, {} open: {open:?}",
        all.len(),
        open_outside.len(),
        open.len()
    );
    assert_eq!(open, expected, "{walls}, network {network}");
    assert!(!world.effect("signal"), "a signal came late");
}

#[test]
fn with_the_network_on_only_the_network_is_reached() {
    try_all("whole", "on", is_network);
}

#[test]
fn with_the_network_off_every_way_is_shut() {
    try_all("whole", "off", |_| false);
}

#[test]
fn on_a_shared_loopback_every_way_is_shut() {
    try_all("whole", "loopback", |_| false);
}

#[test]
fn with_named_hosts_every_way_is_shut() {
    try_all("whole", "hosts", |_| false);
}

#[test]
fn without_namespaces_only_the_network_is_reached() {
    try_all("reduced", "on", is_network);
}

#[test]
fn without_namespaces_and_with_the_network_off_every_way_is_shut() {
    try_all("reduced", "off", |_| false);
}
