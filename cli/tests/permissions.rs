//! `handsctl permissions`: listing, granting and revoking, on real servers.
#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests are not marked as tests.

mod common;

use common::{Ended, Place, built};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A planner's client, connected to a `hands-mcp`. Hangs up when dropped.
struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    id: u64,
}

impl Client {
    /// One with a server of its own.
    fn alone(place: &Place, name: &str) -> Client {
        Client::start(place, name, &["--standalone"], "nonce")
    }

    /// The same, where only the person grants.
    fn human(place: &Place, name: &str) -> Client {
        Client::start(place, name, &["--standalone"], "human")
    }

    /// One that the home's server serves.
    fn relayed(place: &Place, name: &str) -> Client {
        Client::start(place, name, &["--relay"], "nonce")
    }

    fn start(place: &Place, name: &str, flags: &[&str], mode: &str) -> Client {
        built("hands-runner");
        let mut child = Command::new(built("hands-mcp"))
            .args(flags)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", place.ann())
            .env("HANDS_HOME", place.home().root())
            .env("HANDS_WORKSPACES", place.workspace())
            .env("HANDS_PERMISSIONS_MODE", mode)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut client = Client {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
            id: 0,
        };
        client.ask(
            "initialize",
            &json!({
                "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": {"name": name, "version": "1"},
            }),
        );
        client.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn say(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.id += 1;
        let id = self.id;
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "it hung up");
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == id {
                return answer["result"].clone();
            }
        }
    }

    /// Calls a tool; its structured content.
    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        self.ask("tools/call", &params)["structuredContent"].clone()
    }

    /// Tries to replace a file; the code.
    fn overwrite(&mut self, path: &str) -> String {
        let change = json!({"path": path, "content": "new", "overwrite": true});
        self.call("write_file", &change)["code"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Hangs up and waits for its end.
    fn end(mut self) {
        drop(self.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write(place: &Place, name: &str, text: &str) {
    let path = place.workspace().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn read(place: &Place, name: &str) -> String {
    std::fs::read_to_string(place.workspace().join(name)).unwrap()
}

fn folder(place: &Place, name: &str) -> String {
    place.workspace().join(name).to_str().unwrap().to_owned()
}

fn run(place: &Place, args: &[&str]) -> Ended {
    place.run(&[&["permissions"], args].concat())
}

fn ok(place: &Place, args: &[&str]) -> Ended {
    let ended = run(place, args);
    assert_eq!(ended.code, Some(0), "{args:?}: {ended:?}");
    ended
}

/// The sessions that are listed.
fn listed(place: &Place) -> Vec<Value> {
    let list = ok(place, &["list", "--json"]).json();
    list["sessions"].as_array().unwrap().clone()
}

/// Waits until so many sessions are listed: one ends a moment after its client.
fn wait_for_sessions(place: &Place, count: usize) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while listed(place).len() != count {
        assert!(Instant::now() < deadline, "{:?}", listed(place));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn without_a_server_each_verb_exits_with_3_and_changes_nothing() {
    let place = Place::new();
    place.prepare();
    let here = folder(&place, "d");
    for args in [
        &["list"][..],
        &["grant", &here],
        &["grant", "--all-sessions", &here],
        &["revoke", &here],
        &["revoke", "--all"],
    ] {
        let ended = run(&place, args);
        assert_eq!(ended.code, Some(3), "{ended:?}");
        assert!(ended.err.contains("no server runs"), "{ended:?}");
        let json = run(&place, &[args, &["--json"]].concat());
        assert_eq!(
            (json.code, &json.json()["code"]),
            (Some(3), &"not_running".into())
        );
    }
    // A socket that a killed server left is no server.
    let socket = place.home().run_dir().join("server-2147483647.sock");
    drop(std::os::unix::net::UnixListener::bind(socket).unwrap());
    assert_eq!(run(&place, &["grant", &here]).code, Some(3));
}

#[test]
fn the_only_session_is_meant_where_none_is_named() {
    let place = Place::new();
    write(&place, "d/a", "old");
    let mut client = Client::human(&place, "planner");
    assert!(ok(&place, &["list"]).out.contains("nothing is open"));
    assert_eq!(client.overwrite("d/a"), "permission_required");
    let list = ok(&place, &["list"]).out;
    assert!(
        list.contains("overwrite") && list.contains("waits for"),
        "{list}"
    );
    let pending = listed(&place)[0]["pending"][0].clone();
    assert_eq!(pending["folder"], folder(&place, "d"));
    let granted = ok(&place, &["grant", &folder(&place, "d"), "--for", "10m"]);
    let line = format!("{} is open in session s-", folder(&place, "d"));
    assert!(granted.out.starts_with(&line), "{granted:?}");
    assert_eq!(client.overwrite("d/a"), "ok");
    assert_eq!(read(&place, "d/a"), "new");
    let session = listed(&place)[0].clone();
    assert_eq!(session["permissions"], "human");
    assert_eq!(session["pending"], json!([]));
    let grant = &session["grants"][0];
    assert_eq!(
        (&grant["by"], &grant["use"]),
        (&"person".into(), &"change files".into())
    );
    assert_eq!(grant["direct_only"], false);
    let time = |name: &str| {
        let text = grant[name].as_str().unwrap();
        time::OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339).unwrap()
    };
    assert_eq!(
        (time("expires_at") - time("granted_at")).whole_seconds(),
        600
    );
    let revoked = ok(&place, &["revoke", &folder(&place, "d"), "--json"]).json();
    assert_eq!(
        revoked["revoked"][0]["grants"][0]["folder"],
        folder(&place, "d")
    );
    assert_eq!(client.overwrite("d/a"), "permission_required");
    assert_eq!(
        ok(&place, &["revoke", &folder(&place, "x")]).out,
        "nothing was open\n"
    );
    client.end();
    assert_eq!(run(&place, &["list"]).code, Some(3));
}

#[test]
fn of_several_sessions_one_must_be_named_and_closing_means_all() {
    let place = Place::new();
    write(&place, "d/a", "old");
    write(&place, "e/a", "old");
    let mut one = Client::alone(&place, "first-planner");
    let mut two = Client::alone(&place, "second-planner");
    let (d, e) = (folder(&place, "d"), folder(&place, "e"));
    let unclear = run(&place, &["grant", &d]);
    assert_eq!(unclear.code, Some(2), "{unclear:?}");
    for word in [
        "first-planner",
        "second-planner",
        "--session",
        "--all-sessions",
    ] {
        assert!(unclear.err.contains(word), "{unclear:?}");
    }
    assert!(listed(&place).iter().all(|s| s["grants"] == json!([])));
    let id_of = |name: &str| {
        let found = listed(&place)
            .into_iter()
            .find(|s| s["client"]["name"] == name);
        found.unwrap()["id"].as_str().unwrap().to_owned()
    };
    let first = id_of("first-planner");
    ok(&place, &["grant", "--session", &first, &d]);
    assert_eq!(one.overwrite("d/a"), "ok");
    assert_eq!(two.overwrite("d/a"), "permission_required");
    // The beginning of an id is enough, unless it is that of several.
    let second = id_of("second-planner");
    let common = first
        .bytes()
        .zip(second.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    ok(&place, &["grant", "--session", &second[..=common], &e]);
    let both = run(&place, &["grant", "--session", &second[..common], &e]);
    assert_eq!(both.code, Some(2), "{both:?}");
    let none = run(&place, &["grant", "--session", "s-none", &e]);
    assert_eq!(none.code, Some(1), "{none:?}");
    assert!(none.err.contains("first-planner"), "{none:?}");
    assert_eq!(two.overwrite("e/a"), "ok");
    assert_eq!(one.overwrite("e/a"), "permission_required");
    ok(&place, &["grant", "--all-sessions", &d, &e]);
    for client in [&mut one, &mut two] {
        assert_eq!(
            (client.overwrite("d/a"), client.overwrite("e/a")),
            ("ok".into(), "ok".into())
        );
    }
    ok(&place, &["revoke", "--session", &first, &d]);
    assert_eq!(one.overwrite("d/a"), "permission_required");
    assert_eq!(two.overwrite("d/a"), "ok");
    ok(&place, &["revoke", &e]);
    for client in [&mut one, &mut two] {
        assert_eq!(client.overwrite("e/a"), "permission_required");
    }
    ok(&place, &["revoke", "--all"]);
    assert_eq!(two.overwrite("d/a"), "permission_required");
    one.end();
    two.end();
}

/// Stops the daemon of a place, whatever a test comes to.
struct Stopped<'a>(&'a Place);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        let _ = self.0.command(&["down"]).output();
    }
}

#[test]
fn with_a_daemon_its_own_session_is_not_among_them() {
    built("handsd");
    let place = Place::new();
    write(&place, "d/a", "old");
    place.config(&format!("workspaces = [{:?}]\n", place.workspace()));
    let run_verb = |args: &[&str]| {
        let mut command = place.command(args);
        command.env("HANDS_HTTP_LISTEN", "127.0.0.1:0");
        Ended::of(command.output().unwrap())
    };
    let _stopped = Stopped(&place);
    let up = run_verb(&["up"]);
    // 4 where this machine has no whole sandbox.
    assert!(matches!(up.code, Some(0 | 4)), "{up:?}");
    assert_eq!(ok(&place, &["list"]).out, "no client is connected\n");
    let refused = run(&place, &["grant", &folder(&place, "d")]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.err.contains("no client is connected"),
        "{refused:?}"
    );
    let mut client = Client::relayed(&place, "relayed-planner");
    wait_for_sessions(&place, 1);
    assert_eq!(client.overwrite("d/a"), "permission_required");
    ok(&place, &["grant", &folder(&place, "d")]);
    assert_eq!(client.overwrite("d/a"), "ok");
    let sessions = run_verb(&["sessions", "--json"]).json();
    assert_eq!(sessions["sessions"][0]["grants"][0]["by"], "person");
    client.end();
    wait_for_sessions(&place, 0);
    assert_eq!(run_verb(&["down"]).code, Some(0));
    assert_eq!(run(&place, &["list"]).code, Some(3));
}

#[test]
fn folders_are_taken_from_where_the_person_stands() {
    let place = Place::new();
    write(&place, "d/deep/a", "old");
    write(&place, "e/a", "old");
    std::os::unix::fs::symlink("e", place.workspace().join("harmless")).unwrap();
    let mut client = Client::alone(&place, "planner");
    let from = |folder: &str, args: &[&str]| {
        let mut command = place.command(&[&["permissions"], args].concat());
        command.current_dir(place.workspace().join(folder));
        Ended::of(command.output().unwrap())
    };
    assert_eq!(from("d", &["grant", "."]).code, Some(0));
    assert_eq!(client.overwrite("d/deep/a"), "ok");
    let root = from("", &["grant", "."]);
    assert!(root.out.contains("files directly in it"), "{root:?}");
    for (place_of, named) in [("", "harmless"), ("d", "deep"), ("d", "../e"), ("", "gone")] {
        let refused = from(place_of, &["grant", named]);
        assert_eq!(refused.code, Some(1), "{named}: {refused:?}");
    }
    assert_eq!(client.overwrite("e/a"), "permission_required");
    assert_eq!(read(&place, "e/a"), "old");
    for wrong in [
        &["grant"][..],
        &["grant", "--for", "soon", "d"],
        &["revoke"],
    ] {
        assert_eq!(from("", wrong).code, Some(2), "{wrong:?}");
    }
    client.end();
}

#[test]
fn what_runs_below_a_runner_grants_and_lists_nothing() {
    let place = Place::new();
    write(&place, "d/a", "old");
    let mut client = Client::human(&place, "planner");
    // Outside the sandbox, where the socket can be reached: a shell that goes by the runner's name.
    let runner = place.workspace().parent().unwrap().join("hands-runner");
    std::fs::copy("/bin/sh", &runner).unwrap();
    let d = folder(&place, "d");
    for verb in [
        &["grant", &d][..],
        &["grant", "--all-sessions", &d],
        &["revoke", "--all"],
        &["list"],
    ] {
        let plain = place.command(&[&["permissions"], verb].concat());
        let mut below = Command::new(&runner);
        below
            .args(["-c", "\"$@\"; exit $?", "sh"])
            .arg(plain.get_program())
            .args(plain.get_args());
        below.env_clear();
        for (name, value) in plain.get_envs() {
            below.env(name, value.unwrap_or_default());
        }
        let ended = Ended::of(below.stdin(Stdio::null()).output().unwrap());
        assert_eq!(ended.code, Some(1), "{verb:?} {ended:?}");
        assert!(ended.err.contains("runs inside the sandbox"), "{ended:?}");
    }
    // The planner's own way to a program: a child of `bash`.
    let line = format!(
        "HANDS_HOME={} {} permissions grant --all-sessions {d}; echo code $?",
        place.home().root().display(),
        built("handsctl").display()
    );
    let tried = client.call("bash", &json!({"command": line}));
    if tried["code"] != "sandbox" {
        let stdout = tried["stdout"].as_str().unwrap();
        assert!(
            stdout.starts_with("code ") && stdout != "code 0\n",
            "{tried}"
        );
    }
    assert_eq!(listed(&place)[0]["grants"], json!([]));
    assert_eq!(client.overwrite("d/a"), "permission_required");
    assert_eq!(read(&place, "d/a"), "old");
    client.end();
}
