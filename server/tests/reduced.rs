//! Machines on which no sandbox can be made: nothing runs, and whoever asks is told why and what mends it.
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

/// Whether this machine lets the tests change a machine.
fn can_be_changed() -> bool {
    let made = Command::new("unshare").args(["-Urm", "true"]).status();
    let can = made.is_ok_and(|status| status.success());
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
fn without_a_sandbox_nothing_runs_and_the_answer_says_why_and_what_mends_it() {
    if !can_be_changed() {
        return;
    }
    for machine in MACHINES {
        let place = Place::new();
        place.write("old", "old");
        let start = place.start().program(on(&place, machine, "hands-mcp"));
        for command in ["echo ran > ran", "rm old"] {
            let check_off = place.start().program(on(&place, machine, "hands-mcp"));
            let mut server = check_off.env("HANDS_SANDBOX_COMMAND_CHECK", "false").open();
            let reply = server.bash(command).expect("sandbox");
            for part in ["no sandbox", machine.reason, machine.cure] {
                assert!(reply.text().contains(part), "{part}: {}", reply.text());
            }
            server.end();
        }
        assert!(!place.at("ran").exists());
        assert_eq!(place.read("old"), b"old");
        // The other tools need none.
        let mut server = start.open();
        let read = server
            .call("read_file", json!({"path": "old"}))
            .expect("ok");
        assert!(read.text().contains("old"));
        server.end();
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
        assert_eq!(report["state"], "none", "{report}");
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
        assert_eq!(sandbox["state"], "fail", "{sandbox}");
        let detail = sandbox["detail"].as_str().unwrap();
        assert!(
            detail.contains("none") && detail.contains(machine.reason),
            "{detail}"
        );
        // How to install depends on the system.
        let mend = sandbox["mend"].as_str().unwrap();
        let command = machine.cure.rsplit_once(' ').unwrap().1;
        assert!(mend.contains(command), "{mend}");
    }
}
