//! The command check in front of the sandbox: a good message early, and no false alarm.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Place, survives};

/// Ways to write a removal of `v`: none may work.
const REMOVALS: &[&str] = &[
    "rm v",
    "rm -rf -- v",
    "/usr/bin/rm v",
    "/bin/rm -f v",
    "echo ok\nrm v",
    "true && rm v; true",
    "\"rm\" v",
    "'r'm v",
    "r\\m v",
    "env rm v",
    "command rm v",
    "bash -c 'rm v'",
    "w=r; ${w}m v",
    "$(echo rm) v",
    "eval 'r''m v'",
    "bash <<E\nrm v\nE",
    "echo 'rm v' | sh",
    "printf '\\162\\155 v' | bash",
    "echo cm0gdgo= | base64 -d | bash",
    "echo v | xargs rm",
    "find . -name v -exec rm {} \\;",
    "find . -name v -delete",
    "unlink v",
    "mv v /tmp/v",
    "mv v w",
    "cp /dev/null w && mv w v",
    "exec rm v",
    "(rm v)",
    "if rm v; then :; fi",
    "f() { rm \"$1\"; }; f v",
    "rm ./sub/../v",
    "rm \"$PWD/v\"",
    "cd /; rm -f \"$OLDPWD/v\"",
    "git init -q . && git add v && git rm -f v",
];

#[test]
fn no_way_of_writing_a_removal_gets_by() {
    let place = Place::new();
    std::fs::create_dir(place.at("sub")).unwrap();
    let mut server = place.start().env("HANDS_SANDBOX_BROKER", "false").open();
    for command in REMOVALS {
        place.write("v", "keep me");
        let reply = server.bash(command);
        assert!(
            place.at("v").exists(),
            "{command}: it is gone\n{}",
            reply.text()
        );
        assert_eq!(place.read("v"), b"keep me", "{command}\n{}", reply.text());
    }
    // The plain ones are refused early, with what to do instead.
    for command in &REMOVALS[..6] {
        let reply = server.bash(command).expect("delete_blocked");
        assert!(!reply.string("hint").is_empty(), "{command}");
    }
    server.end();
}

#[test]
fn no_way_of_writing_a_removal_loses_a_file() {
    let place = Place::new();
    std::fs::create_dir(place.at("sub")).unwrap();
    let mut server = place.open();
    for (number, command) in REMOVALS.iter().enumerate() {
        let content = format!("keep me {number}");
        place.write("v", &content);
        let reply = server.bash(command);
        let is_there = survives(&place, &content);
        assert!(is_there, "{command}: it is gone\n{}", reply.text());
    }
    server.end();
}

#[test]
fn words_that_only_look_like_removals_run() {
    let place = Place::new();
    place.write("v", "rm -rf /");
    let mut server = place.open();
    for command in [
        "echo rm v",
        "grep -n 'rm -rf' v",
        "printf '%s\\n' 'unlink v'",
        "rm --version >/dev/null",
        "touch /tmp/x; rm /tmp/x",
        "mkdir -p \"$TMPDIR/a/b\"; echo x > \"$TMPDIR/a/b/c\"; rm -r \"$TMPDIR/a\"",
        "f=$(mktemp); echo hi > $f; mv $f $f.2; rm $f.2",
    ] {
        server.bash(command).ok();
    }
    server.end();
}
