//! Who may open the sockets in `run/`: the owner's own processes, unless they come from inside the sandbox. And what is on loopback for
//! everybody.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // Helpers of tests are not marked as tests.

mod common;

use common::{Daemon, Place, tunneled};
use hands_testkit::{ControlPlane, Planner, Script};
use serde_json::json;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Connects to each socket of its arguments, says something that each of them would answer, and prints what comes back.
const CLIENT: &str = r#"
import socket, sys
for path in sys.argv[1:]:
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(10)
    try:
        s.connect(path)
    except OSError as error:
        print(path, "NOT CONNECTED", type(error).__name__)
        continue
    answer = b""
    try:
        if path.endswith("mcp.sock"):
            s.sendall(b'{"hands": "relay", "version": "0", "pid": 1}\n')
            answer = s.recv(4096)
        else:
            page = "/api/status" if path.endswith("tunnel.sock") else "/v1/status"
            s.sendall(f"GET {page} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            while len(answer) < 1 << 20:
                part = s.recv(4096)
                if not part:
                    break
                answer += part
    except OSError as error:
        answer += f" {type(error).__name__}".encode()
    print(path, "CONNECTED", answer)
"#;

/// Another one, further up on PATH, may lie in a home.
const PYTHON: &str = "/usr/bin/python3";

/// The sockets of a daemon with a tunnel.
async fn sockets(daemon: &Daemon, place: &Place) -> Vec<PathBuf> {
    let status = daemon.ready().await;
    let server = format!("server-{}.sock", status.server.pid.unwrap());
    let names = ["handsd.sock", "mcp.sock", &server, "tunnel.sock"];
    let paths = names.map(|name| place.run_dir().join(name)).to_vec();
    // All that there are: one that comes later belongs in the list.
    let mut found: Vec<PathBuf> = std::fs::read_dir(place.run_dir())
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "sock"))
        .collect();
    found.sort();
    let mut listed = paths.clone();
    listed.sort();
    assert_eq!(found, listed);
    paths
}

/// What the client says of each socket; none where this machine has no Python.
fn tried(command: &mut Command, paths: &[PathBuf]) -> Option<Vec<String>> {
    command.args(["-c", CLIENT]).args(paths);
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!(
                "skipped: {} cannot be run: {error}",
                command.get_program().display()
            );
            return None;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), paths.len(), "{text} {output:?}");
    Some(lines)
}

fn open_to_all(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Refused before anything is told: no byte, or the one word.
fn is_refusal(line: &str) -> bool {
    let nothing = ["''", "' ConnectionResetError'", "' BrokenPipeError'"]
        .iter()
        .any(|end| line.ends_with(&format!(" CONNECTED b{end}")));
    nothing || line.contains("403 Forbidden") && line.contains("\"refused\"")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owners_processes_are_served() {
    let plane = ControlPlane::start(Script::default()).await;
    let place = Place::new();
    let daemon = tunneled::start_with(&place, &plane, |_| {}).await;
    // The tunnel's health is for the daemon, which tells more.
    let paths = sockets(&daemon, &place).await;
    let Some(lines) = tried(&mut Command::new("python3"), &paths) else {
        return;
    };
    for line in &lines[..3] {
        assert!(
            line.contains("CONNECTED b") && !is_refusal(line),
            "the trial itself works: {line}"
        );
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_user_opens_no_socket_even_where_the_folders_let_it() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: becoming another user takes root");
        return;
    }
    let plane = ControlPlane::start(Script::default()).await;
    let place = Place::new();
    let daemon = tunneled::start_with(&place, &plane, |_| {}).await;
    let paths = sockets(&daemon, &place).await;
    let other = || {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", PYTHON]);
        command
    };
    if !Path::new(PYTHON).exists() {
        eprintln!("skipped: there is no {PYTHON}, which every user can run");
        return;
    }
    // As they are; with folders that can be searched; with sockets that can be written as well.
    let Some(lines) = tried(&mut other(), &paths) else {
        return;
    };
    assert!(
        lines
            .iter()
            .all(|line| line.contains("NOT CONNECTED PermissionError")),
        "{lines:#?}"
    );
    let folders = [place.root(), place.home().root(), &place.run_dir()].map(Path::to_path_buf);
    for folder in &folders {
        open_to_all(folder, 0o711);
    }
    let lines = tried(&mut other(), &paths).unwrap();
    assert!(
        lines
            .iter()
            .all(|line| line.contains("NOT CONNECTED PermissionError")),
        "{lines:#?}"
    );
    for path in &paths {
        open_to_all(path, 0o666);
    }
    let official = std::env::var_os("HANDS_TUNNEL_CLIENT").is_some();
    for line in tried(&mut other(), &paths).unwrap() {
        if official && line.contains("tunnel.sock") {
            // Its own program asks nobody who it is: its mode and the folder are what protects it.
            continue;
        }
        assert!(is_refusal(&line), "{line}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_descends_from_a_runner_is_refused_without_a_sandbox_too() {
    let plane = ControlPlane::start(Script::default()).await;
    let place = Place::new();
    let daemon = tunneled::start_with(&place, &plane, |_| {}).await;
    let paths = sockets(&daemon, &place).await;
    // A shell that goes by the runner's name, and a client below it.
    let runner = place.root().join("hands-runner");
    std::fs::copy("/bin/sh", &runner).unwrap();
    let mut below = Command::new(&runner);
    below.args(["-c", "python3 \"$@\"; exit $?", "sh"]);
    let Some(lines) = tried(&mut below, &paths) else {
        return;
    };
    let official = std::env::var_os("HANDS_TUNNEL_CLIENT").is_some();
    for line in lines {
        if official && line.contains("tunnel.sock") {
            continue;
        }
        assert!(is_refusal(&line), "{line}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_of_the_planner_opens_no_socket() {
    let plane = ControlPlane::start(Script::default()).await;
    let place = Place::new();
    let daemon = tunneled::start_with(&place, &plane, |_| {}).await;
    let paths = sockets(&daemon, &place).await;
    let planner = Planner::new(&plane);
    planner.initialize().await;
    let script = place.workspace().join("client.py");
    std::fs::write(&script, CLIENT).unwrap();
    // By another way as well: a link into the folder, and the working folder within it.
    let words: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let line = format!(
        "ln -s {run} way; python3 {script} {all} way/handsd.sock way/mcp.sock; cd {run} && python3 {script} handsd.sock; \
         ls -A {run}; echo the end",
        run = place.run_dir().display(),
        script = script.display(),
        all = words.join(" ")
    );
    let text = planner.call("bash", json!({"command": line})).text().await;
    if text.contains("python3: command not found") {
        eprintln!("skipped: there is no python3 here");
        return daemon.stop().await;
    }
    assert!(text.contains("the end"), "{text}");
    assert_eq!(
        text.matches("NOT CONNECTED").count(),
        text.matches("CONNECTED").count(),
        "{text}"
    );
    assert!(
        text.matches("NOT CONNECTED").count() >= paths.len() + 2,
        "{text}"
    );
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_on_loopback_for_everybody_tells_nothing_of_the_person() {
    let plane = ControlPlane::start(Script::default()).await;
    let place = Place::new();
    let daemon = tunneled::start_with(&place, &plane, |_| {}).await;
    daemon.ready().await;
    let planner = Planner::new(&plane);
    planner.initialize().await;
    let secret = place.workspace().join("a-name-of-the-persons.txt");
    std::fs::write(&secret, "what it holds").unwrap();
    planner
        .call("read_file", json!({"path": secret}))
        .text()
        .await;
    // Reasons of failure name programs, files and folders elsewhere; here they are for everybody.
    let shown = |bodies: &mut Vec<String>, body: String| bodies.push(body);
    let mut bodies = Vec::new();
    for path in ["/healthz", "/readyz", "/api/status", "/metrics"] {
        shown(&mut bodies, daemon.get(path).await.1);
    }
    std::fs::set_permissions(
        place.home().tunnel_key_file(),
        std::fs::Permissions::from_mode(0o644),
    )
    .unwrap();
    daemon.signal(rustix::process::Signal::HUP);
    let client = daemon.client().await;
    let _: hands_control::types::daemon::Done = client
        .post("/v1/restart", &json!({"what": "tunnel"}))
        .await
        .unwrap();
    daemon
        .until("not ready", |status| !status.readiness.ready)
        .await;
    for path in ["/readyz", "/api/status", "/metrics"] {
        shown(&mut bodies, daemon.get(path).await.1);
    }
    let root = place.root().to_str().unwrap().to_owned();
    for body in &bodies {
        for text in [
            root.as_str(),
            plane.api_key(),
            plane.tunnel_id(),
            "a-name-of-the-persons",
            "what it holds",
        ] {
            assert!(!body.contains(text), "{text}: {body}");
        }
    }
    daemon.stop().await;
}

/// Every file and folder below this one.
fn below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        found.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            below(&entry.path(), found);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_home_holds_is_private_whatever_the_umask_and_what_commands_make_is_not() {
    let plane = ControlPlane::start(Script::default()).await;
    for (umask, made) in [("000", 0o666), ("022", 0o644), ("077", 0o600)] {
        let place = Place::new();
        let daemon = tunneled::start_with(&place, &plane, |command| {
            let program = command.get_program().to_owned();
            let mut shell = Command::new("/bin/sh");
            shell
                .args(["-c", &format!("umask {umask}; exec \"$0\" \"$@\"")])
                .arg(program)
                .args(command.get_args())
                .env_clear();
            for (name, value) in command.get_envs() {
                shell.envs(value.map(|value| (name, value)));
            }
            shell
                .stdin(std::process::Stdio::null())
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::piped());
            *command = shell;
        })
        .await;
        daemon.ready().await;
        let planner = Planner::new(&plane);
        planner.initialize().await;
        let by_command = json!({"command": "echo hello > by-command.txt; seq 1 300000"});
        planner.call("bash", by_command).text().await;
        let by_tool = place.workspace().join("by-tool.txt");
        let arguments = json!({"path": by_tool, "content": "hello"});
        planner.call("write_file", arguments).text().await;
        let mode = |path: &Path| path.symlink_metadata().unwrap().permissions().mode() & 0o777;
        for name in ["by-command.txt", "by-tool.txt"] {
            let found = mode(&place.workspace().join(name));
            assert_eq!(found, made, "{name} with {umask}: {found:o}");
        }
        let mut all = vec![place.home().root().to_path_buf()];
        below(place.home().root(), &mut all);
        assert!(all.len() > 20, "{all:#?}");
        for path in all {
            // What a command has in its private tmp is its own affair.
            let text = path.display().to_string();
            if path.is_symlink() || text.contains("/scratch/") && text.contains("/tmp/") {
                continue;
            }
            assert_eq!(
                mode(&path) & 0o077,
                0,
                "{text} with {umask}: {:o}",
                mode(&path)
            );
        }
        daemon.stop().await;
    }
}
