//! What a command sees of the machine: no privilege, no other process, no other session, and the
//! network only where it may.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Place, SOON, Server, has, is_root, picture, put, until};
use serde_json::{Value, json};
use std::io::Read;
use std::net::TcpListener;
use std::process::Command;

/// Both kinds of place: below `/tmp` other rules are at work.
fn places() -> [Place; 2] {
    [Place::new(), Place::in_tmp()]
}

/// A server without the command check.
fn unchecked(place: &Place) -> Server {
    place
        .start()
        .env("HANDS_SANDBOX_COMMAND_CHECK", "false")
        .open()
}

#[test]
fn other_processes_are_neither_seen_nor_signalled() {
    let place = Place::new();
    let mut victim = Command::new("sleep").arg("300").spawn().unwrap();
    let mut server = unchecked(&place);
    let own = server.pid();
    for pid in [victim.id(), own, std::process::id()] {
        server
            .bash(&format!("kill -9 {pid}; kill -9 -{pid}"))
            .expect_one_of(&["ok", "process"]);
    }
    server
        .bash("kill -9 -1; pkill -9 sleep; kill -9 1; true")
        .expect_one_of(&["ok", "process"]);
    assert!(
        victim.try_wait().unwrap().is_none(),
        "it was killed from inside"
    );
    let seen = server.bash("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").ok();
    assert!(!seen.stdout().contains("sleep 300"), "{}", seen.stdout());
    assert!(!seen.stdout().contains("hands-mcp"), "{}", seen.stdout());
    server.bash("echo alive").ok();
    victim.kill().unwrap();
    victim.wait().unwrap();
    server.end();
}

#[test]
fn no_privilege_is_left_to_use() {
    let place = Place::new();
    let mut server = unchecked(&place);
    let reply =
        server.bash("grep -E '^(Cap(Eff|Prm|Bnd|Amb)|NoNewPrivs|Seccomp):' /proc/self/status");
    let status = reply.ok();
    for line in status
        .stdout()
        .lines()
        .filter(|l| l.starts_with("CapEff") || l.starts_with("CapPrm"))
    {
        assert!(line.ends_with("0000000000000000"), "{line}");
    }
    assert!(status.stdout().contains("NoNewPrivs:\t1") && status.stdout().contains("Seccomp:\t2"));
    for attack in [
        "mount -t tmpfs x /mnt",
        "unshare -r true",
        "unshare -Um true",
        "bwrap --ro-bind / / true",
        "chroot / true",
        "mknod dev c 1 3",
        "echo 1 > /proc/sys/kernel/panic",
        "echo x > /proc/sysrq-trigger",
        "date -s 2001-01-01",
        "hostname evil && test \"$(uname -n)\" != evil",
        "strace true",
    ] {
        server.bash(attack).expect("process");
    }
    if is_root() {
        // Root inside must not be root outside: other people's files stay.
        let theirs = put(&place.at("theirs"), "theirs");
        assert!(
            Command::new("chown")
                .arg("65534")
                .arg(&theirs)
                .status()
                .unwrap()
                .success()
        );
        server.bash("chown 0 theirs").expect("process");
    }
    server.end();
}

#[test]
fn read_only_mode_leaves_only_the_private_tmp() {
    for place in places() {
        place.write("v", "old v");
        place.write("d/y", "old y");
        let before = picture(&place.workspace());
        let start = place.start().env("HANDS_SANDBOX_MODE", "read-only");
        let mut server = start.env("HANDS_SANDBOX_COMMAND_CHECK", "false").open();
        for attack in [
            "echo x > v",
            "touch new",
            "mkdir n",
            "rm v",
            "mv v z",
            "chmod 777 v",
            "ln v n",
        ] {
            server.bash(attack).expect("process");
        }
        assert_eq!(picture(&place.workspace()), before);
        server
            .bash("cat v d/y; echo fine > \"$TMPDIR/x\"; rm \"$TMPDIR/x\"")
            .ok();
        server.end();
    }
}

#[test]
fn strict_mode_keeps_new_files_too() {
    let place = Place::new();
    let start = place.start().env("HANDS_SANDBOX_MODE", "strict");
    let mut server = start.env("HANDS_SANDBOX_COMMAND_CHECK", "false").open();
    server.bash("echo x > made; rm made").expect("process");
    assert_eq!(place.read("made"), b"x\n");
    server.end();
}

#[test]
fn the_network_is_off_where_it_was_asked_for() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo hello >&3");
    let mut server = unchecked(&place);
    let off = json!({"command": connect, "network": false});
    server.call("bash", off.clone()).expect("process");
    assert!(
        listener.accept().is_err(),
        "it connected with the network off"
    );
    server
        .call("bash", json!({"command": connect, "network": true}))
        .ok();
    let mut heard = None;
    until("the other one connects", SOON, || {
        heard = listener.accept().ok();
        heard.is_some()
    });
    let mut text = String::new();
    let (mut stream, _) = heard.unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text, "hello\n");
    server.end();
    // The configuration's default.
    let start = place.start().env("HANDS_SANDBOX_NETWORK", "false");
    let mut server = start.open();
    server.bash(&connect).expect("process");
    assert!(listener.accept().is_err());
    server.end();
}

#[test]
fn sessions_do_not_see_each_others_tmp() {
    for place in places() {
        let mut one = unchecked(&place);
        let mut two = unchecked(&place);
        one.bash("echo secret > /tmp/mine").ok();
        // Not the whole machine, which may be large: where it could be.
        let home = place.root().display();
        let listed = two.bash(&format!(
            "ls -a /tmp; cat /tmp/mine; find '{home}' /dev/shm -name mine 2>/dev/null"
        ));
        assert!(!listed.stdout().contains("mine"), "{}", listed.text());
        two.end_beside(&one);
        one.end();
    }
}

#[test]
fn ordinary_work_is_possible() {
    for place in places() {
        let mut server = unchecked(&place);
        server
            .bash("echo 'int main(void){return 0;}' > m.c; (cc m.c -o m && ./m) || ! command -v cc")
            .ok();
        if has("python3") {
            let reply = server.bash(
                "python3 -c 'import multiprocessing as m; print(sum(m.Pool(2).map(abs, [1, -2])))'",
            );
            assert_eq!(reply.ok().stdout(), "3\n");
            server
                .bash("echo 'print(40 + 2)' > s.py && python3 s.py")
                .ok();
        }
        server
            .bash("seq 1 1000 | sort -R | sort -n | tail -1; diff <(echo a) <(echo a)")
            .ok();
        server
            .bash("for n in 1 2 3; do (sleep 0.05; echo $n) & done; wait")
            .ok();
        server.end();
    }
}

#[test]
fn the_trail_tells_what_was_tried() {
    let place = Place::new();
    place.write("v", "old");
    let mut server = unchecked(&place);
    server.bash("rm v").expect("process");
    server
        .bash("cat /etc/shadow")
        .expect_one_of(&["ok", "process"]);
    server.end();
    let trail = place.trail();
    let commands: Vec<&Value> = trail.iter().map(|r| &r["args"]["command"]).collect();
    assert!(commands.contains(&&json!("rm v")) && commands.contains(&&json!("cat /etc/shadow")));
}
