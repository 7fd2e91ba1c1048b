//! Many clients on the home's socket, each through a relay that outlives the server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Place, SOON, Start, program, until};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The home's server. Killed when dropped.
struct Home<'a> {
    place: &'a Place,
    child: Child,
}

impl<'a> Home<'a> {
    fn serve(place: &'a Place) -> Home<'a> {
        let mut command = Start::new(place).command();
        command
            .args(["--serve"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = without_standalone(command).spawn().unwrap();
        let home = Home { place, child };
        until("the server listens", SOON, || home.connect().is_ok());
        home
    }

    fn connect(&self) -> std::io::Result<UnixStream> {
        UnixStream::connect(self.place.home().join("run/mcp.sock"))
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn terminate(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let mut code = None;
        until("the server ends", Duration::from_secs(5), || {
            code = self.child.try_wait().unwrap().map(|status| status.code());
            code.is_some()
        });
        code.flatten()
    }
}

impl Drop for Home<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The tests' common start asks for a server of the client's own.
fn without_standalone(command: Command) -> Command {
    let mut plain = Command::new(command.get_program());
    plain.args(command.get_args().filter(|arg| *arg != "--standalone"));
    plain.env_clear();
    for (name, value) in command.get_envs() {
        plain.envs(value.map(|value| (name, value)));
    }
    plain
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    plain
}

/// A client that is relayed. Killed when dropped.
struct Client {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    next: u64,
}

impl Client {
    fn start(place: &Place) -> Client {
        let mut client = Client::silent(place, &[]);
        let id = client.initialize();
        client.initialized(&id);
        client
    }

    /// One that has said nothing yet.
    fn silent(place: &Place, flags: &[&str]) -> Client {
        let mut command = without_standalone(Start::new(place).command());
        command.args(flags);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Client {
            child,
            output,
            next: 100,
        }
    }

    fn initialize(&mut self) -> Value {
        self.send(
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {},
                   "clientInfo": {"name": "relayed", "version": "1"}}),
        )
    }

    /// Takes the answer to `initialize`.
    fn initialized(&mut self, id: &Value) {
        let answer = self.answer();
        assert_eq!(
            (&answer["id"], answer["error"].is_null()),
            (id, true),
            "{answer}"
        );
        self.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    fn say(&mut self, message: &Value) {
        let stdin = self.child.stdin.as_mut().unwrap();
        writeln!(stdin, "{message}").unwrap();
        stdin.flush().unwrap();
    }

    fn send(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = json!(self.next);
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    fn send_call(&mut self, tool: &str, args: Value) -> Value {
        self.send("tools/call", json!({"name": tool, "arguments": args}))
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"))
    }

    fn call(&mut self, tool: &str, args: Value) -> Value {
        let id = self.send_call(tool, args);
        let answer = self.answer();
        assert_eq!(answer["id"], id, "{answer}");
        answer["result"]["structuredContent"].clone()
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        let mut status = None;
        until("the relay ends", Duration::from_secs(5), || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        assert_eq!(status.unwrap().code(), Some(0));
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn clients_share_a_server_and_not_their_grants() {
    let place = Place::new();
    place.write("a.txt", "hello\n");
    let home = Home::serve(&place);
    let (mut one, mut two) = (Client::start(&place), Client::start(&place));
    assert_eq!(
        one.call("read_file", json!({"path": "a.txt"}))["text"],
        "hello\n"
    );
    let change =
        |nonce: Value| json!({"path": "a.txt", "old": "hello", "new": "hallo", "nonce": nonce});
    let asked = one.call("edit", change(Value::Null));
    assert_eq!(asked["code"], "permission_required");
    // The nonce is the session's: nobody else's opens anything.
    let stolen = two.call("edit", change(asked["nonce"].clone()));
    assert_eq!(stolen["code"], "permission_required");
    assert_eq!(place.read("a.txt"), b"hello\n");
    assert_eq!(
        one.call("edit", change(asked["nonce"].clone()))["code"],
        "ok"
    );
    assert_eq!(place.read("a.txt"), b"hallo\n");
    let other = two.call("edit", json!({"path": "a.txt", "old": "hallo", "new": "x"}));
    assert_eq!(other["code"], "permission_required");
    one.end();
    assert_eq!(
        two.call("read_file", json!({"path": "a.txt"}))["code"],
        "ok"
    );
    two.end();
    assert_eq!(home.terminate(), Some(0));
    assert_eq!(place.verify()["first_bad"], Value::Null);
}

#[test]
fn a_killed_server_costs_one_error_and_the_connection_stays() {
    let place = Place::new();
    place.write("a.txt", "hello\n");
    let home = Home::serve(&place);
    let mut client = Client::start(&place);
    let lost = client.send_call("bash", json!({"command": "touch begun; sleep 60"}));
    until("the command runs", SOON, || place.at("begun").exists());
    home.kill();
    let answer = client.answer();
    assert_eq!(answer["id"], lost);
    assert!(
        answer["error"]["message"]
            .as_str()
            .unwrap()
            .contains("restarted"),
        "{answer}"
    );
    // What comes while there is no server waits for the next one.
    let waiting = client.send_call("read_file", json!({"path": "a.txt"}));
    let home = Home::serve(&place);
    let answer = client.answer();
    assert_eq!(answer["id"], waiting);
    assert_eq!(answer["result"]["structuredContent"]["text"], "hello\n");
    client.end();
    drop(home);
    until("no command is left", SOON, || {
        common::running_in(place.root()).is_empty()
    });
}

#[test]
fn a_relay_never_becomes_a_server() {
    let place = Place::new();
    let home = Home::serve(&place);
    let mut client = Client::start(&place);
    home.kill();
    let id = client.send("tools/list", json!({}));
    // Hanging up ends the wait: the request is answered, by an error that says what is missing.
    drop(client.child.stdin.take());
    let answer = client.answer();
    assert_eq!(answer["id"], id);
    assert!(
        answer["error"]["message"]
            .as_str()
            .unwrap()
            .contains("not running"),
        "{answer}"
    );
}

#[test]
fn a_client_may_come_before_the_homes_server() {
    // Told by the flag, or by a daemon's socket.
    for flags in [&["--relay"][..], &[]] {
        let place = Place::new();
        place.write("a.txt", "hello\n");
        let run = place.home().join("run");
        std::fs::create_dir_all(&run).unwrap();
        let mode = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(place.home(), mode.clone()).unwrap();
        std::fs::set_permissions(&run, mode).unwrap();
        let _daemon = flags
            .is_empty()
            .then(|| UnixListener::bind(run.join("handsd.sock")).unwrap());
        let mut client = Client::silent(&place, flags);
        let id = client.initialize();
        let home = Home::serve(&place);
        client.initialized(&id);
        let answer = client.call("read_file", json!({"path": "a.txt"}));
        assert_eq!(answer["text"], "hello\n");
        // It speaks to the home's server, and so is gone with it.
        let lost = client.send_call("bash", json!({"command": "touch begun; sleep 60"}));
        until("the command runs", SOON, || place.at("begun").exists());
        home.kill();
        let answer = client.answer();
        assert_eq!((&answer["id"], answer["error"].is_null()), (&lost, false));
    }
}

#[test]
fn the_socket_is_the_owners_alone_and_has_one_server() {
    let place = Place::new();
    let home = Home::serve(&place);
    let socket = place.home().join("run/mcp.sock");
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&socket), 0o600);
    assert_eq!(mode(socket.parent().unwrap()), 0o700);
    assert_eq!(
        socket.metadata().unwrap().uid(),
        rustix::process::geteuid().as_raw()
    );
    let mut second = Command::new(program("hands-mcp"));
    let second = second
        .arg("--serve")
        .env("HANDS_HOME", place.home())
        .env("HOME", place.ann())
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("another server has"));
    assert!(home.connect().is_ok(), "the first still listens");
}

#[test]
fn who_is_no_relay_is_not_served() {
    let place = Place::new();
    let home = Home::serve(&place);
    let mut stranger = home.connect().unwrap();
    stranger
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    writeln!(stranger, "{ping}").unwrap();
    let mut line = String::new();
    BufReader::new(&stranger).read_line(&mut line).unwrap();
    assert_eq!(line, "");
}
