//! The verbs that run a daemon and ask it.
#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests are not marked as tests.

mod common;

use common::{Ended, Place, built, with_input};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

/// A place whose daemon, if any, is stopped at the end.
struct Running(Place);

impl Running {
    fn new() -> Running {
        // The daemon starts it.
        built("handsd");
        built("hands-mcp");
        Running(Place::new())
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.0.command(args);
        command.env("HANDS_HTTP_LISTEN", "127.0.0.1:0");
        command
    }

    fn run(&self, args: &[&str]) -> Ended {
        Ended::of(self.command(args).output().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.command(&["down"]).output();
    }
}

#[test]
fn without_a_daemon_its_verbs_exit_with_3_and_say_what_to_do() {
    let place = Running::new();
    for verb in [
        &["status"][..],
        &["sessions"],
        &["restart"],
        &["restart", "server"],
        &["tunnel", "status"],
    ] {
        let ended = place.run(verb);
        assert_eq!(ended.code, Some(3), "{verb:?} {ended:?}");
        assert!(ended.err.contains("handsctl up"), "{verb:?} {ended:?}");
    }
    let ended = place.run(&["status", "--json"]);
    assert_eq!(
        (ended.code, &ended.json()["code"]),
        (Some(3), &"not_running".into())
    );
    let ended = place.run(&["down"]);
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (Some(0), "handsd does not run\n")
    );
}

#[test]
fn up_status_restart_and_down() {
    let place = Running::new();
    let up = place.run(&["up"]);
    // 4 where this machine has no whole sandbox.
    assert!(matches!(up.code, Some(0 | 4)), "{up:?}");
    assert!(up.out.contains("ready     yes, local only"), "{up:?}");
    let status = place.run(&["status", "--json"]);
    let first = status.json();
    let held = &first["server_status"]["recovery"];
    assert_eq!(held["bytes"], 0, "{status:?}");
    assert!(held["max_bytes"].as_u64().unwrap() > 1 << 30);
    let screen = place.run(&["status"]).out;
    assert!(screen.contains("recovery  0 B of 16.0 GiB"), "{screen}");
    assert_eq!(first["running"], true);
    assert_eq!(first["readiness"]["ready"], true);
    assert_eq!(first["sessions"], Value::Array(Vec::new()));
    assert!(
        first["next"][0].as_str().unwrap().contains("tunnel setup"),
        "{first}"
    );

    let again = place.run(&["up"]);
    let named = format!("handsd runs already, pid {}", first["daemon"]["pid"]);
    assert!(
        again.out.starts_with(&format!("{named}\n")) && again.code == up.code,
        "{again:?}"
    );
    let foreground = place.run(&["up", "--foreground"]);
    assert!(
        foreground.code == Some(1) && foreground.err.contains(&named),
        "{foreground:?}"
    );
    let server = place.run(&["restart", "server", "--json"]).json();
    assert_eq!(server["daemon"]["pid"], first["daemon"]["pid"]);
    assert_ne!(server["server"]["pid"], first["server"]["pid"]);
    assert_eq!(server["readiness"]["ready"], true);
    let tunnel = place.run(&["restart", "tunnel"]);
    assert!(
        tunnel.code == Some(1) && tunnel.err.contains("tunnel setup"),
        "{tunnel:?}"
    );
    place.0.config("workspaces = 5\n");
    let refused = place.run(&["restart"]);
    assert!(
        refused.code == Some(1)
            && refused.err.contains("config.toml:1")
            && refused.err.contains("nothing was changed"),
        "{refused:?}"
    );
    let kept = place.run(&["status", "--json"]).json();
    assert_eq!(kept["daemon"]["pid"], first["daemon"]["pid"]);
    assert_eq!(kept["server"]["pid"], server["server"]["pid"]);
    std::fs::remove_file(place.0.home().config_file()).unwrap();
    let all = place.run(&["restart", "--json"]).json();
    assert_ne!(all["daemon"]["pid"], first["daemon"]["pid"]);
    assert_eq!(all["readiness"]["ready"], true);

    let log = place.run(&["logs", "daemon", "-n", "500"]);
    assert!(log.out.contains("child_start"), "{log:?}");
    let sessions = place.run(&["sessions"]);
    assert_eq!(
        (sessions.code, sessions.out.as_str()),
        (Some(0), "no client is connected\n")
    );
    let down = place.run(&["down"]);
    assert_eq!(
        (down.code, down.out.as_str()),
        (Some(0), "handsd is stopped\n")
    );
    assert_eq!(place.run(&["status"]).code, Some(3));
}

#[test]
fn a_call_goes_through_the_daemons_server_unless_it_is_to_stand_alone() {
    let place = Running::new();
    assert!(matches!(place.run(&["up"]).code, Some(0 | 4)));
    let server = place.run(&["status", "--json"]).json()["server"]["pid"].clone();
    let folder = serde_json::json!({"path": place.0.workspace()}).to_string();
    let who = |arguments: &[&str]| {
        let ended = place.run(arguments);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let last = place.run(&["logs", "-n", "1", "--json"]).json();
        last["pid"].clone()
    };
    assert_eq!(who(&["call", "read_file", &folder]), server);
    let alone = who(&["call", "--standalone", "read_file", &folder]);
    assert!(alone.is_u64() && alone != server, "{alone} {server}");
    assert_eq!(place.run(&["tools"]).code, Some(0));
    assert_eq!(place.run(&["tools", "--standalone"]).code, Some(0));
}

#[test]
fn a_daemon_that_cannot_start_says_why() {
    let place = Running::new();
    place.0.config("workspaces = 5\n");
    let ended = place.run(&["up"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.err.contains("config.toml:1") && ended.err.contains("workspaces"),
        "{ended:?}"
    );
}

#[test]
fn an_id_that_is_copied_in_part_replaces_nothing_unless_it_is_meant() {
    let place = Running::new();
    let good = "tunnel_0123456789abcdef0123456789abcdef";
    let setup = |id: &str, force: bool| {
        let mut words = vec!["tunnel", "setup", "--id", id, "--no-test"];
        words.extend(force.then_some("--force"));
        with_input(place.command(&words), "sk-0123456789abcdef\n")
    };
    assert_eq!(setup(good, false).code, Some(0));
    let part = &good[..good.len() - 1];
    let refused = setup(part, false);
    assert!(
        refused.code == Some(2) && refused.err.contains("--force"),
        "{refused:?}"
    );
    let config = || std::fs::read_to_string(place.0.home().config_file()).unwrap();
    assert!(config().contains(good), "{}", config());
    let check = place.run(&["config", "check"]);
    assert!(
        !format!("{check:?}").contains("does not look like"),
        "{check:?}"
    );
    assert_eq!(setup(part, true).code, Some(0));
    assert!(!config().contains(good), "{}", config());
    let check = place.run(&["config", "check"]);
    assert!(
        format!("{check:?}").contains("does not look like"),
        "{check:?}"
    );
}

#[test]
fn starts_at_once_all_end_with_the_one_daemon() {
    let place = Running::new();
    let mut starts: Vec<_> = (0..3)
        .map(|_| {
            let mut command = place.command(&["up", "--json"]);
            command.stdout(std::process::Stdio::piped());
            command.stderr(std::process::Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    let ended: Vec<Ended> = starts
        .drain(..)
        .map(|start| Ended::of(start.wait_with_output().unwrap()))
        .collect();
    for one in &ended {
        assert!(matches!(one.code, Some(0 | 4)), "{ended:?}");
        assert_eq!(
            one.json()["daemon"]["pid"],
            ended[0].json()["daemon"]["pid"]
        );
    }
}

#[test]
fn setup_keeps_the_key_apart_and_shows_it_nowhere() {
    let place = Running::new();
    let secret = "sk-0123456789abcdef";
    let id = "tunnel_0123456789abcdef0123456789abcdef";
    let command = place.command(&["tunnel", "setup", "--id", id, "--no-test"]);
    let ended = with_input(command, &format!("{secret}\n"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        !ended.out.contains(secret) && !ended.err.contains(secret),
        "{ended:?}"
    );
    let key = place.0.home().tunnel_key_file();
    assert_eq!(std::fs::read_to_string(&key).unwrap().trim(), secret);
    assert_eq!(
        std::fs::metadata(&key).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let config = std::fs::read_to_string(place.0.home().config_file()).unwrap();
    assert!(config.contains(id) && !config.contains(secret), "{config}");

    // A key that is none is refused without being repeated, and the one before stays.
    for wrong in ["two words-sk", "", "sk-é"] {
        let command = place.command(&["tunnel", "setup", "--id", id, "--no-test"]);
        let ended = with_input(command, &format!("{wrong}\n"));
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(wrong.is_empty() || !ended.err.contains(wrong), "{ended:?}");
    }
    let ended = with_input(
        place.command(&["tunnel", "setup", "--id", "a/b", "--no-test"]),
        secret,
    );
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert_eq!(std::fs::read_to_string(&key).unwrap().trim(), secret);
    assert!(
        place.run(&["tunnel", "test"]).code != Some(0),
        "there is no such tunnel"
    );
}

/// Runs a program on a terminal, types there once it asks for the key, and tells what the terminal showed, whether it echoes
/// afterwards, and how the program ended.
const TERMINAL: &str = r#"
import os, pty, sys, termios
typed = sys.argv[1].encode().decode("unicode_escape").encode()
master, slave = os.openpty()
pid = os.fork()
if pid == 0:
    os.setsid()
    import fcntl
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for fd in (0, 1, 2):
        os.dup2(slave, fd)
    os.execv(sys.argv[2], sys.argv[2:])
shown = b""
while b"key (not shown)" not in shown:
    shown += os.read(master, 4096)
os.write(master, typed)
_, status = os.waitpid(pid, 0)
os.set_blocking(master, False)
try:
    while True:
        shown += os.read(master, 4096)
except OSError:
    pass
echo = bool(termios.tcgetattr(slave)[3] & termios.ECHO)
print(repr(shown), "echo", echo, "status", os.waitstatus_to_exitcode(status))
"#;

#[test]
fn a_key_that_is_typed_is_not_shown_and_the_terminal_is_put_right() {
    let place = Running::new();
    let id = "tunnel_0123456789abcdef0123456789abcdef";
    let on_terminal = |typed: &str| {
        let plain = place.command(&["tunnel", "setup", "--id", id, "--no-test"]);
        let mut command = Command::new("python3");
        command
            .args(["-c", TERMINAL, typed])
            .arg(plain.get_program())
            .args(plain.get_args())
            .env_clear();
        for (name, value) in plain.get_envs() {
            command.envs(value.map(|value| (name, value)));
        }
        command.output().map(Ended::of)
    };
    let Ok(ended) = on_terminal("sk-typed\\n") else {
        eprintln!("skipped: there is no python3 here");
        return;
    };
    assert!(
        ended.out.contains("echo True status 0") && !ended.out.contains("sk-typed"),
        "{ended:?}"
    );
    let key = place.0.home().tunnel_key_file();
    assert_eq!(std::fs::read_to_string(&key).unwrap(), "sk-typed\n");
    // Ctrl-C in the middle of it.
    let ended = on_terminal("sk-hal\\x03").unwrap();
    assert!(
        ended.out.contains("echo True status 1") && ended.out.contains("nothing was changed"),
        "{ended:?}"
    );
    assert!(!ended.out.contains("sk-hal"), "{ended:?}");
    assert_eq!(std::fs::read_to_string(&key).unwrap(), "sk-typed\n");
}

#[test]
fn the_key_goes_into_the_secret_service_by_choice_and_is_in_one_place_only() {
    let Some(service) = hands_testkit::SecretService::start() else {
        return;
    };
    let place = Running::new();
    let id = "tunnel_0123456789abcdef0123456789abcdef";
    let setup = |words: &[&str], key: &str| {
        let mut all = vec!["tunnel", "setup", "--id", id, "--no-test", "--json"];
        all.extend(words);
        let mut command = place.command(&all);
        command.env("DBUS_SESSION_BUS_ADDRESS", service.address());
        with_input(command, &format!("{key}\n"))
    };
    let held = || service.lookup(&["service", "Hands tunnel", "username", id]);
    let file = place.0.home().tunnel_key_file();
    assert_eq!(setup(&[], "sk-first").json()["store"], "file");
    let ended = setup(&["--store", "keychain"], "sk-second");
    assert_eq!(ended.json()["store"], "keychain");
    assert!(
        !ended.out.contains("sk-") && !ended.err.contains("sk-"),
        "{ended:?}"
    );
    assert_eq!(held().as_deref(), Some("sk-second"));
    assert!(!file.exists(), "the first one is not left behind");
    let config = || std::fs::read_to_string(place.0.home().config_file()).unwrap();
    assert!(config().contains("key_store = \"keychain\"") && !config().contains("sk-"));
    // Where it is kept is remembered.
    assert_eq!(setup(&[], "sk-third").json()["store"], "keychain");
    assert_eq!(held().as_deref(), Some("sk-third"));
    let ended = setup(&["--store", "file"], "sk-fourth");
    assert_eq!(ended.json()["store"], "file");
    assert_eq!(held(), None);
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), "sk-fourth");
    assert!(config().contains("key_store = \"file\""), "{}", config());

    // A store that is not there: nothing is changed, and what helps is said.
    let mut command = place.command(&[
        "tunnel",
        "setup",
        "--id",
        id,
        "--no-test",
        "--store",
        "secret-service",
    ]);
    command.env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere/bus");
    let ended = with_input(command, "sk-fifth\n");
    assert!(
        ended.code == Some(1) && ended.err.contains("--store file") && !ended.err.contains("sk-"),
        "{ended:?}"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), "sk-fourth");
    assert!(config().contains("key_store = \"file\""), "{}", config());
    // Nor is it for a client that could not read it.
    let mut command = place.command(&[
        "tunnel",
        "setup",
        "--id",
        id,
        "--no-test",
        "--store",
        "keychain",
    ]);
    command
        .env("DBUS_SESSION_BUS_ADDRESS", service.address())
        .env("HANDS_TUNNEL_CLIENT", "/opt/tunnel-client");
    let ended = with_input(command, "sk-sixth\n");
    assert!(
        ended.code == Some(2) && ended.err.contains("official"),
        "{ended:?}"
    );
    assert_eq!(held(), None);
}

#[test]
fn the_service_is_printed_without_a_key_and_without_touching_anything() {
    let place = Running::new();
    let ended = place.run(&["service", "print"]);
    if ended.code != Some(0) {
        eprintln!("skipped: no service manager here ({})", ended.err.trim());
        return;
    }
    assert!(
        ended.out.contains("handsd") && ended.out.contains("HANDS_HOME"),
        "{ended:?}"
    );
    assert!(!ended.out.contains("KEY"), "{ended:?}");
    assert!(!place.0.ann().join(".config/systemd").exists());
}

#[test]
fn completions_and_pages_cover_every_verb() {
    let place = Running::new();
    for shell in ["bash", "zsh", "fish"] {
        let ended = place.run(&["completions", shell]);
        assert!(
            ended.code == Some(0) && ended.out.contains("sessions"),
            "{ended:?}"
        );
    }
    let page = place.run(&["man"]);
    assert!(
        page.code == Some(0) && page.out.contains(".TH handsctl"),
        "{page:?}"
    );
    let dir = place.0.ann().join("man");
    let ended = place.run(&["man", "--dir", dir.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for verb in [
        "up",
        "down",
        "restart",
        "status",
        "sessions",
        "tunnel",
        "tunnel-setup",
        "service",
        "logs-daemon",
    ] {
        let page = dir.join(format!("handsctl-{verb}.1"));
        assert!(page.is_file(), "{}", page.display());
    }
}

#[test]
fn a_command_in_the_sandbox_cannot_talk_to_the_daemon() {
    let place = Running::new();
    assert!(matches!(place.run(&["up"]).code, Some(0 | 4)));
    let socket = place.0.home().run_dir().join("handsd.sock");
    let curl = format!(
        "curl -sS --max-time 5 --unix-socket {} http://hands/v1/status",
        socket.display()
    );
    // The same command works outside, so its failure inside means something.
    let outside = Command::new("sh").args(["-c", &curl]).output().unwrap();
    if !outside.status.success() {
        eprintln!("skipped: there is no curl here");
        return;
    }
    let arguments = serde_json::json!({"command": format!("{curl}; echo exit $?")}).to_string();
    let ended = place.run(&["call", "bash", &arguments]);
    assert!(!ended.out.contains("started_at"), "{ended:?}");
    assert!(!ended.out.contains("exit 0"), "{ended:?}");
}
