//! Machines on which no namespaces can be had: commands run within what is left of the sandbox, and whoever
//! asks is told what is missing and what mends it. Where nothing is left, nothing runs.
//! The machine is changed for one process at a time, in namespaces of its own.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Place, program, put, search_path};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

/// A machine that lacks something: how to make it so, what is told, and the command that mends it.
struct Lacking {
    make: &'static str,
    cause: &'static str,
    reason: &'static str,
    cure: &'static str,
}

const MACHINES: &[Lacking] = &[
    Lacking {
        // Counted for each user namespace: the machine's own setting stays.
        make: "echo 0 > /proc/sys/user/max_user_namespaces",
        cause: "namespaces-off",
        reason: "user.max_user_namespaces is 0",
        cure: "sudo sysctl -w user.max_user_namespaces=15000",
    },
    Lacking {
        make: "for p in /usr/bin/bwrap /usr/local/bin/bwrap; do \
               [ ! -e $p ] || mount --bind /dev/null $p; done",
        cause: "bubblewrap-missing",
        reason: "bubblewrap was not found",
        cure: "apt-get install bubblewrap",
    },
];

/// A script that starts one of our programs on such a machine.
fn on(place: &Place, machine: &Lacking, name: &str) -> PathBuf {
    let text = format!(
        "#!/bin/sh\nexec unshare -Urm sh -c '{}; exec \"$@\"' sh '{}' \"$@\"\n",
        machine.make,
        program(name).display()
    );
    let path = put(&place.root().join(format!("start-{name}")), text);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

/// Whether this machine lets the tests change a machine. For anybody but root the system's programs
/// would be nobody's there, and git no system's git.
fn can_be_changed() -> bool {
    let made = Command::new("unshare").args(["-Urm", "true"]).status();
    let can = common::is_root() && made.is_ok_and(|status| status.success());
    if !can {
        eprintln!("no namespaces to change a machine in: nothing was tried");
    }
    can
}

fn json_of(command: &mut Command) -> Value {
    let output = command
        .env_clear()
        .env("PATH", search_path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(text.trim()).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

#[test]
fn commands_run_within_what_is_left_and_the_first_answer_says_what_is_missing() {
    if !can_be_changed() {
        return;
    }
    for machine in MACHINES {
        let place = Place::new();
        place.write("old", "old");
        place.write(".env", "TOKEN=precious");
        let start = place.start().program(on(&place, machine, "hands-mcp"));
        let mut server = start.env("HANDS_SANDBOX_COMMAND_CHECK", "false").open();
        let first = server.bash("echo ran > ran; cat ran old").expect("ok");
        for part in [
            "ran\nold",
            "reduced",
            machine.reason,
            machine.cure,
            "$TMPDIR",
        ] {
            assert!(first.text().contains(part), "{part}: {}", first.text());
        }
        let removed = server
            .bash("rm -f old; cat old; cat .env")
            .expect("process");
        assert!(removed.text().contains("old"), "{}", removed.text());
        assert!(!removed.text().contains("precious"), "{}", removed.text());
        assert!(!removed.text().contains("reduced"), "{}", removed.text());
        let own =
            "rm ran; echo x > $TMPDIR/f && cat $TMPDIR/f && rm $TMPDIR/f && echo y > /tmp/hands-y";
        let own = server.bash(own).expect("process");
        assert!(own.text().contains("\nx\n"), "{}", own.text());
        server.bash("cp /bin/true ./built && ./built").expect("ok");
        server.end();
        assert!(!place.at("ran").exists());
        assert!(!PathBuf::from("/tmp/hands-y").exists());
        assert_eq!(place.read("old"), b"old");
    }
}

#[test]
fn nothing_is_written_in_read_only_mode_and_a_network_of_its_own_is_refused() {
    if !can_be_changed() {
        return;
    }
    let machine = &MACHINES[0];
    let place = Place::new();
    place.write("old", "old");
    let start = || place.start().program(on(&place, machine, "hands-mcp"));
    let mut server = start().env("HANDS_SANDBOX_MODE", "read-only").open();
    let reply = server.bash("cat old; echo x > $TMPDIR/f; cat $TMPDIR/f; echo x > new");
    let reply = reply.expect("process");
    assert!(reply.text().contains("oldx\n"), "{}", reply.text());
    server.end();
    assert!(!place.at("new").exists());

    let mut server = start().env("HANDS_SANDBOX_NETWORK", "loopback").open();
    let reply = server.bash("echo ran > ran").expect("sandbox");
    assert!(reply.text().contains("namespace"), "{}", reply.text());
    server.end();
    assert!(!place.at("ran").exists());
}

#[test]
fn where_nothing_is_left_nothing_runs() {
    if !can_be_changed() {
        return;
    }
    for machine in MACHINES {
        let place = Place::new();
        place.write("old", "old");
        let start = place.start().program(on(&place, machine, "hands-mcp"));
        let mut server = start.env("HANDS_SANDBOX_BROKER", "false").open();
        let reply = server.bash("echo ran > ran").expect("sandbox");
        for part in ["no sandbox", machine.reason, "removal broker", machine.cure] {
            assert!(reply.text().contains(part), "{part}: {}", reply.text());
        }
        // The other tools need none.
        let read = server
            .call("read_file", json!({"path": "old"}))
            .expect("ok");
        assert!(read.text().contains("old"));
        server.end();
        assert!(!place.at("ran").exists());
        assert_eq!(place.read("old"), b"old");
    }
}

#[test]
fn self_test_and_doctor_name_the_same_cause_and_cure() {
    if !can_be_changed() {
        return;
    }
    for machine in MACHINES {
        let place = Place::new();
        let mut canary = Command::new(on(&place, machine, "hands-runner"));
        let report = json_of(canary.args(["canary", "--scratch"]).arg(place.root()));
        assert_eq!(report["state"], "reduced", "{report}");
        assert_eq!(report["cause"], machine.cause, "{report}");
        assert!(
            report["reason"].as_str().unwrap().contains(machine.reason),
            "{report}"
        );
        assert!(
            report["hint"].as_str().unwrap().contains(machine.cure),
            "{report}"
        );

        let output = Command::new(on(&place, machine, "handsctl"))
            .env_clear()
            .env("PATH", search_path())
            .env("HOME", place.ann())
            .env("HANDS_HOME", place.home())
            .args(["--json", "doctor"])
            .output()
            .unwrap();
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        let checks = told["checks"].as_array().unwrap();
        let sandbox = checks
            .iter()
            .find(|check| check["name"] == "sandbox")
            .unwrap();
        assert_eq!(sandbox["state"], "warn", "{sandbox}");
        let detail = sandbox["detail"].as_str().unwrap();
        assert!(
            detail.contains("reduced") && detail.contains(machine.reason),
            "{detail}"
        );
        // How to install depends on the system.
        let mend = sandbox["mend"].as_str().unwrap();
        let command = machine.cure.rsplit_once(' ').unwrap().1;
        assert!(mend.contains(command), "{mend}");
    }
}
