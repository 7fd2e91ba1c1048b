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

/// Lines that take away what they made themselves, and the name that must be gone.
const CLEANING_UP: &[(&str, &str)] = &[
    ("touch a; rm a", "a"),
    ("echo x > t.txt && cat t.txt && rm -f t.txt", "t.txt"),
    (
        "f=$(mktemp ./x.XXXX); echo $f; rm \"$f\"; ln -s v $f; unlink \"$f\"",
        "x.XXXX",
    ),
    ("mkdir -p d/e && touch d/e/f && rm -r d", "d"),
    ("mkdir d && rmdir d", "d"),
    ("cp v copy && shred -u copy", "copy"),
    ("touch a.o b.o; find . -name '*.o' -delete", "a.o"),
    ("touch one two; printf 'one\\ntwo\\n' | xargs rm", "two"),
    ("trap 'rm -f lock' EXIT; touch lock; cat lock", "lock"),
    ("cd sub && touch t && rm t", "sub/t"),
    ("sh -c 'touch a; rm a'", "a"),
    (
        "for n in 1 2; do touch t$n; done; for n in 1 2; do rm t$n; done",
        "t1",
    ),
];

#[test]
fn work_takes_away_what_it_made() {
    let place = Place::new();
    place.write("v", "keep me");
    place.write("sub/w", "keep me too");
    let mut server = place.open();
    for (command, name) in CLEANING_UP {
        let reply = server.bash(command).ok();
        assert!(!place.at(name).exists(), "{command}\n{}", reply.text());
    }
    // What an earlier command of the session made.
    for (makes, removes, name) in [
        ("echo 1 > made", "rm made", "made"),
        ("mkdir folder; touch folder/file", "rm -rf folder", "folder"),
        (
            "touch in.sub; mv in.sub sub/",
            "cd sub && rm in.sub",
            "sub/in.sub",
        ),
    ] {
        server.bash(makes).ok();
        server.bash(removes).ok();
        assert!(!place.at(name).exists(), "{removes}");
    }
    assert_eq!(place.read("v"), b"keep me");
    assert_eq!(place.read("sub/w"), b"keep me too");
    server.end();
}

#[test]
fn what_was_there_is_refused_before_anything_runs() {
    let place = Place::new();
    place.write("v", "keep me");
    place.write("sub/w", "keep me too");
    let mut server = place.open();
    for (command, part, path) in [
        ("touch ran; rm -f v", "rm -f v", "v"),
        ("touch ran && cd sub && rm w", "rm w", "sub/w"),
        ("touch ran; sh -c 'rm -r sub'", "rm -r sub", "sub"),
        ("touch ran; rm \"$PWD/v\"", "rm \"$PWD/v\"", "v"),
        ("touch ran; unlink ~/Hands/v", "unlink ~/Hands/v", "v"),
        ("touch ran; find . -delete", "find . -delete", "."),
    ] {
        let reply = server.bash(command).expect("delete_blocked");
        let message = reply.string("message").to_string();
        let there = format!("{} was there before", place.text(path));
        assert!(
            message.contains(part) && message.contains(&there),
            "{command}: {message}"
        );
        for way in ["edit or write_file", "ask your user", "mv"] {
            let hint = reply.string("hint");
            assert!(
                hint.contains(way) || command.contains("find"),
                "{command}: {hint}"
            );
        }
        assert!(!place.at("ran").exists(), "{command}");
    }
    // Another session's work is old.
    server.bash("touch made").ok();
    server.end();
    let mut server = place.open();
    server.bash("rm made").expect("delete_blocked");
    assert!(place.at("made").exists());
    server.end();
}

#[test]
fn where_commands_remove_nothing_the_check_refuses_all_of_it() {
    for (name, value) in [
        ("HANDS_SANDBOX_MODE", "strict"),
        ("HANDS_SANDBOX_MODE", "read-only"),
        ("HANDS_SANDBOX_BROKER", "false"),
    ] {
        let place = Place::new();
        let mut server = place.start().env(name, value).open();
        for command in ["touch a; rm a", "rm missing", "git clean -fd"] {
            let reply = server.bash(command).expect("delete_blocked");
            let message = reply.string("message");
            assert!(
                message.contains("commands delete no files here"),
                "{name}={value}: {message}"
            );
        }
        // In the private tmp it is free, wherever the line is.
        server.bash("cd /tmp && touch x && rm x").ok();
        assert!(!place.at("a").exists());
        server.end();
    }
}

/// The check leaves to the broker what it cannot know, and the broker decides.
#[test]
fn what_the_check_does_not_know_the_broker_decides() {
    let place = Place::new();
    place.write("target/old.o", "keep me");
    place.write("v", "keep me too");
    let mut server = place.open();
    for command in ["rm -rf target", "rm *", "rm $(ls)", "ls | xargs rm -rf"] {
        let reply = server.bash(command).expect("process");
        let refused = reply.field("refused").to_string();
        assert!(refused.contains("was there before"), "{command}: {refused}");
        assert_eq!(place.read("target/old.o"), b"keep me", "{command}");
        assert_eq!(place.read("v"), b"keep me too", "{command}");
    }
    server.end();
}

/// A refusal must not tell what a protected folder holds.
#[test]
fn the_check_tells_nothing_of_protected_folders() {
    let place = Place::new();
    common::put(&place.ann().join(".ssh/id_x"), "secret");
    let mut server = place.open();
    for (there, missing) in [
        ("rm ~/.ssh/id_x", "rm ~/.ssh/id_y"),
        ("rmdir ~/.ssh", "rmdir ~/.sshx"),
    ] {
        let (there, missing) = (server.bash(there), server.bash(missing));
        assert_eq!(there.code(), "process", "{}", there.text());
        assert_eq!(missing.code(), "process", "{}", missing.text());
    }
    assert!(place.ann().join(".ssh/id_x").exists());
    server.end();
}
