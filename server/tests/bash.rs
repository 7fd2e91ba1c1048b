//! `bash`: what a command prints, how it ends, and that nothing of it outlives its call.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{END, Place, SOON, has, program, running_in, until};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Both kinds of place: `/tmp` is special for commands.
fn places() -> [Place; 2] {
    [Place::new(), Place::in_tmp()]
}

#[test]
fn output_and_exit_code_come_back() {
    for place in places() {
        let mut server = place.open();
        let reply = server.bash("echo out; echo err >&2; exit 0").ok();
        assert_eq!((reply.stdout(), reply.string("stderr")), ("out\n", "err\n"));
        assert_eq!(reply.field("exit_code"), 0);
        assert_eq!(reply.field("timed_out"), false);
        assert!(reply.field("truncated").is_null());
        for code in [1, 2, 42, 126, 127, 255] {
            let reply = server.bash(&format!("exit {code}")).expect("process");
            assert_eq!(reply.field("exit_code"), code);
        }
        let reply = server.bash("no-such-program-here").expect("process");
        assert_eq!(reply.field("exit_code"), 127);
        assert!(reply.string("stderr").contains("not found"));
        server.end();
    }
}

#[test]
fn both_streams_are_shown_in_the_order_they_came() {
    let place = Place::new();
    let mut server = place.open();
    let command = "for n in 1 2 3; do echo out $n; sleep 0.05; echo err $n >&2; sleep 0.05; done";
    let reply = server.bash(command).ok();
    assert_eq!(reply.text(), "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n");
    server.end();
}

#[test]
fn a_signal_is_named() {
    let place = Place::new();
    let mut server = place.open();
    for (signal, name) in [
        ("TERM", "SIGTERM"),
        ("KILL", "SIGKILL"),
        ("SEGV", "SIGSEGV"),
    ] {
        let reply = server
            .bash(&format!("echo before; kill -{signal} $$"))
            .expect("process");
        assert_eq!(reply.string("signal"), name);
        assert!(reply.field("exit_code").is_null());
        assert_eq!(reply.stdout(), "before\n");
    }
    server.end();
}

#[test]
fn a_hundred_echoes_lose_nothing() {
    let place = Place::new();
    let mut server = place.open();
    let ids: Vec<Value> = (0..100)
        .map(|n| server.start_call("bash", json!({"command": format!("echo tok{n}")})))
        .collect();
    for (n, id) in ids.iter().enumerate() {
        let answer = server.wait("an echo", 4 * common::ANSWER, |m| &m["id"] == id);
        assert_eq!(answer["result"]["content"][0]["text"], format!("tok{n}\n"));
    }
    let reply = server
        .bash("for n in {1..100}; do /bin/echo tok; done")
        .ok();
    assert_eq!(reply.stdout(), "tok\n".repeat(100));
    server.end();
}

#[test]
fn bytes_that_are_no_text_are_kept_byte_for_byte() {
    let place = Place::new();
    let mut server = place.open();
    let reply = server.bash(r#"printf "a\377b""#).ok();
    assert_eq!(reply.stdout(), "a\u{fffd}b");
    assert!(
        reply.text().starts_with("a\u{fffd}b\n["),
        "{}",
        reply.text()
    );
    let kept = reply.path("recovery_path");
    assert_eq!(std::fs::read(&kept).unwrap(), b"a\xffb");
    assert!(reply.text().contains(kept.to_str().unwrap()));
    // Every byte there is, and a character cut off at the end.
    let every = r#"printf '%b' "$(printf '\\x%x' {1..255})"; printf '\xc3'"#;
    let reply = server.bash(every).ok();
    let mut expected: Vec<u8> = (1..=255).collect();
    expected.push(0xc3);
    assert_eq!(
        std::fs::read(reply.path("recovery_path")).unwrap(),
        expected
    );
    let reply = server.bash(r"printf 'a\0b'").ok();
    assert_eq!(reply.stdout(), "a\0b");
    server.end();
}

#[test]
fn long_output_is_cut_honestly_and_the_whole_is_kept() {
    for place in places() {
        let mut server = place.open();
        let reply = server.bash("seq 1 200000").ok();
        let whole: String = (1..=200_000).map(|n| format!("{n}\n")).collect();
        assert_eq!(reply.field("truncated"), true);
        assert_eq!(reply.field("total_bytes"), whole.len());
        let kept = reply.path("recovery_path");
        assert!(std::fs::read(&kept).unwrap() == whole.as_bytes());
        let text = reply.text();
        assert!(text.starts_with("1\n2\n3\n") && text.ends_with("199999\n200000\n"));
        let marker = text.lines().find(|line| line.starts_with('[')).unwrap();
        assert!(marker.contains(kept.to_str().unwrap()), "{marker}");
        assert!(
            marker.contains(&format!("of {} bytes", whole.len())),
            "{marker}"
        );
        // What is shown and what is said to be cut make the whole.
        let shown: usize = text
            .lines()
            .filter(|l| *l != marker)
            .map(|l| l.len() + 1)
            .sum();
        let cut: usize = marker.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert_eq!(shown + cut, whole.len());
        assert!(text.len() < 80_000);
        // `read_file` pages through it.
        let args = json!({"path": kept, "offset": 100_000, "limit": 2});
        let page = server.call("read_file", args).ok();
        assert_eq!(page.string("text"), "100000\n100001\n");
        server.end();
    }
}

#[test]
fn one_endless_line_and_very_long_output_are_bounded() {
    let place = Place::new();
    let mut server = place
        .start()
        .env("HANDS_LIMITS_SPILL_BYTES", "100000")
        .open();
    let reply = server.bash("head -c 3000000 /dev/zero | tr '\\0' x").ok();
    assert_eq!(reply.field("total_bytes"), 3_000_000);
    assert!(reply.text().len() < 80_000);
    // The file has a limit of its own, which is said.
    assert!(
        reply.text().contains("100000"),
        "{}",
        &reply.text()[reply.text().len() - 300..]
    );
    let endless = server.call("bash", json!({"command": "yes", "timeout_s": 1}));
    let endless = endless.expect("timeout");
    assert!(endless.text().len() < 80_000);
    server.end();
}

#[test]
fn recovery_files_of_output_are_private() {
    use std::os::unix::fs::MetadataExt;
    let place = Place::new();
    let mut server = place.open();
    let kept = server.bash("seq 1 100000").ok().path("recovery_path");
    assert_eq!(kept.metadata().unwrap().mode() & 0o777, 0o600);
    assert!(
        kept.starts_with(place.home().join("work/recovery")),
        "{}",
        kept.display()
    );
    server.end();
}

#[test]
fn the_timeout_is_enforced_down_to_grandchildren() {
    for place in places() {
        let mut server = place
            .start()
            .env("HANDS_LIMITS_KILL_GRACE_MS", "300")
            .open();
        let command = "trap '' TERM INT HUP; echo so far
            (trap '' TERM; setsid sleep 301 & sleep 302) &
            setsid bash -c 'trap \"\" TERM; while :; do sleep 303; done' &
            while :; do sleep 304; done";
        let began = Instant::now();
        let reply = server.call("bash", json!({"command": command, "timeout_s": 1}));
        let reply = reply.expect("timeout");
        assert!(began.elapsed() < SOON);
        assert_eq!(reply.field("timed_out"), true);
        assert_eq!(reply.stdout(), "so far\n");
        assert!(reply.text().contains("timeout_s"), "{}", reply.text());
        until("all of it is gone", SOON, || {
            running_in(place.root())
                .iter()
                .all(|p| !p.command.contains("sleep 30"))
        });
        server.end();
    }
}

#[test]
fn sigterm_comes_first_so_that_a_command_can_tidy_up() {
    let place = Place::new();
    let mut server = place.open();
    let command = "trap 'echo tidy; echo done > tidy; exit 3' TERM; while :; do sleep 0.05; done";
    let reply = server.call("bash", json!({"command": command, "timeout_s": 1}));
    assert_eq!(reply.expect("timeout").stdout(), "tidy\n");
    assert_eq!(place.read("tidy"), b"done\n");
    server.end();
}

#[test]
fn the_reply_budget_ends_a_command() {
    let place = Place::new();
    let mut server = place.start().env("HANDS_REPLY_BUDGET_S", "1").open();
    let began = Instant::now();
    let reply = server.bash("echo so far; sleep 300").expect("timeout");
    assert!(began.elapsed() < SOON);
    assert_eq!(reply.stdout(), "so far\n");
    assert!(!reply.string("hint").is_empty());
    server.end();
}

#[test]
fn a_stubborn_command_is_answered_within_the_reply_budget() {
    let place = Place::new();
    let mut server = place
        .start()
        .env("HANDS_REPLY_BUDGET_S", "4")
        .env("HANDS_LIMITS_KILL_GRACE_MS", "1000")
        .open();
    let stubborn = "trap '' TERM; while :; do sleep 300; done";
    let reply = server.bash(stubborn).expect("timeout");
    let took = reply.field("duration_ms").as_u64().unwrap();
    assert!(took <= 4000, "{took} ms");
    assert!(!reply.text().contains("timeout_s"), "{}", reply.text());
    server.end();
}

#[test]
fn a_missing_workspace_is_passed_over() {
    let place = Place::new();
    let gone = place.root().join("unplugged");
    let there = place.workspace();
    let mut server = place
        .start()
        .workspaces(&[gone.clone(), there.clone()])
        .open();
    let reply = server.bash("pwd").ok();
    assert_eq!(reply.stdout(), format!("{}\n", there.display()));
    let missing = server.call("bash", json!({"command": "pwd", "cwd": there.join("no")}));
    let missing = missing.expect("not_found");
    assert!(
        missing.string("hint").contains("`cwd`"),
        "{}",
        missing.text()
    );
    server.end();
    let mut server = place.start().workspaces(std::slice::from_ref(&gone)).open();
    let none = server.bash("pwd").expect("not_found");
    assert!(none.string("hint").contains("`cwd`"), "{}", none.text());
    let elsewhere = json!({"command": "pwd", "cwd": there});
    assert_eq!(server.call("bash", elsewhere).ok().stdout(), reply.stdout());
    server.end();
}

#[test]
fn what_the_sandbox_refuses_is_said_where_something_was_refused() {
    let place = Place::new();
    place.write("a", "x");
    let mut server = place.open();
    let note = "[the sandbox refuses to remove what a command did not make";
    let removed = server.bash("unlink a 2>/dev/null || python3 -c 'import os; os.rmdir(\".\")'");
    assert!(!removed.text().contains(note), "{}", removed.text());
    let outside = server.bash("echo x > ~/new").expect("process");
    assert!(outside.text().contains(note), "{}", outside.text());
    for command in [
        "ls nosuch",
        "echo Permission denied >&2",
        "echo Permission denied; exit 1",
    ] {
        let reply = server.bash(command);
        assert!(!reply.text().contains("sandbox"), "{}", reply.text());
    }
    server.end();
}

#[test]
fn a_call_returns_when_its_command_ends_not_when_its_time_is_up() {
    let place = Place::new();
    let mut server = place.open();
    let began = Instant::now();
    server
        .call(
            "bash",
            json!({"command": "printf 'no prompt'", "timeout_s": 120}),
        )
        .ok();
    assert!(began.elapsed() < SOON);
    server.end();
}

#[test]
fn what_is_left_in_the_background_is_ended_and_named() {
    for place in places() {
        let mut server = place.open();
        let began = Instant::now();
        let reply = server.bash("sleep 300 & echo started").ok();
        assert!(began.elapsed() < SOON);
        assert_eq!(reply.stdout(), "started\n");
        assert!(
            reply.text().contains("background processes"),
            "{}",
            reply.text()
        );
        let hard = "(setsid nohup bash -c 'trap \"\" TERM HUP; touch begun; exec sleep 301' \
            >/dev/null 2>&1 &)
            until [ -e begun ]; do sleep 0.01; done
            until grep -qx sleep /proc/[0-9]*/comm 2>/dev/null; do :; done
            exec echo started";
        let reply = server.bash(hard).ok();
        assert_eq!(reply.stdout(), "started\n");
        assert!(reply.text().contains("sleep"), "{}", reply.text());
        until("both are gone", SOON, || {
            running_in(place.root())
                .iter()
                .all(|p| !p.command.contains("sleep 30"))
        });
        server.end();
    }
}

#[test]
fn a_killed_runner_takes_its_command_with_it() {
    let place = Place::new();
    let mut server = place.open();
    let id = server.start_call("bash", json!({"command": "touch begun; sleep 300"}));
    until("it began", SOON, || place.at("begun").exists());
    let runner = running_in(place.root())
        .into_iter()
        .find(|p| p.command.trim_end().ends_with("hands-runner"));
    let Some(runner) = runner else { return }; // No /proc here.
    let pid = rustix::process::Pid::from_raw(i32::try_from(runner.pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    server.reply(&id).expect("internal");
    until("its command is gone", SOON, || {
        running_in(place.root())
            .iter()
            .all(|p| !p.command.contains("sleep 300"))
    });
    server.bash("echo next").ok();
    server.end();
}

#[test]
fn without_a_runner_commands_are_refused_and_files_served() {
    let place = Place::new();
    place.write("a.txt", "hello\n");
    let alone = place.root().join("bin");
    std::fs::create_dir(&alone).unwrap();
    // Copied by another process: a file still open for writing here could not be executed.
    let copied = std::process::Command::new("cp")
        .arg(program("hands-mcp"))
        .arg(&alone)
        .status()
        .unwrap();
    assert!(copied.success());
    let mut server = place.start().program(alone.join("hands-mcp")).open();
    let reply = server.bash("touch ran").expect("sandbox");
    assert!(reply.text().contains("hands-runner"), "{}", reply.text());
    assert!(!place.at("ran").exists());
    let read = server.call("read_file", json!({"path": "a.txt"}));
    assert_eq!(read.ok().text(), "hello\n");
    server.end();
}

#[test]
fn the_working_folder_is_the_first_workspace_or_what_was_asked_for() {
    let place = Place::new();
    std::fs::create_dir_all(place.at("sub/ünïcode dir; $x")).unwrap();
    place.write("file", "x");
    std::fs::create_dir(place.ann().join("elsewhere")).unwrap();
    let mut server = place.open();
    let real = |p: &std::path::Path| format!("{}\n", p.display());
    assert_eq!(server.bash("pwd").ok().stdout(), real(&place.workspace()));
    let mut pwd = |cwd: &str| server.call("bash", json!({"command": "pwd", "cwd": cwd}));
    assert_eq!(pwd("sub").ok().stdout(), real(&place.at("sub")));
    let odd = "sub/ünïcode dir; $x";
    assert_eq!(pwd(odd).ok().stdout(), real(&place.at(odd)));
    assert_eq!(pwd("sub/..").ok().stdout(), real(&place.workspace()));
    assert_eq!(pwd("~/Hands").ok().stdout(), real(&place.workspace()));
    assert_eq!(
        pwd("~/elsewhere").ok().stdout(),
        real(&place.ann().join("elsewhere"))
    );
    pwd("file").expect("validation");
    pwd("gone").failed();
    pwd("/etc").expect("protected_path");
    pwd("~/.ssh").failed();
    server.end();
}

#[test]
fn standard_input_is_empty_or_what_was_given() {
    let place = Place::new();
    let mut server = place.open();
    assert_eq!(server.bash("cat | wc -c").ok().stdout().trim(), "0");
    let reply = server.call("bash", json!({"command": "cat", "stdin": "línea\nno end"}));
    assert_eq!(reply.ok().stdout(), "línea\nno end");
    let long = "x".repeat(2_000_000);
    let reply = server.call("bash", json!({"command": "wc -c", "stdin": long}));
    assert_eq!(reply.ok().stdout().trim(), "2000000");
    // Nobody reads it.
    let reply = server.call(
        "bash",
        json!({"command": "exec <&-; echo hi", "stdin": long}),
    );
    assert_eq!(reply.ok().stdout(), "hi\n");
    server.end();
}

#[test]
fn the_environment_holds_what_is_listed_and_no_secret() {
    let place = Place::new();
    let mut server = place
        .start()
        .env("FAKE_SECRET_TOKEN", "s3cr3t-value")
        .env("AWS_SECRET_ACCESS_KEY", "s3cr3t-value")
        .env("SSH_AUTH_SOCK", "/s3cr3t-value")
        .env("LANG", "C.UTF-8")
        .env("HTTPS_PROXY", "http://user:s3cr3t-value@127.0.0.1:9")
        .open();
    let reply = server
        .bash("env; cat /proc/[0-9]*/environ | tr '\\0' '\\n'")
        .ok();
    let env = reply.stdout();
    assert!(!env.contains("s3cr3t-value"), "{env}");
    assert!(!env.contains("HANDS_"), "{env}");
    for line in [
        "TERM=dumb",
        "LANG=C.UTF-8",
        "HTTPS_PROXY=http://127.0.0.1:9",
    ] {
        assert!(env.lines().any(|l| l == line), "{line} is not in\n{env}");
    }
    let home = format!("HOME={}", place.ann().display());
    assert!(env.lines().any(|l| l == home), "{env}");
    let args = json!({"command": "echo $A$B", "env": {"A": "1; $(touch x)", "B": "ü\n"}});
    assert_eq!(server.call("bash", args).ok().stdout(), "1; $(touch x)ü\n");
    assert!(!place.at("x").exists());
    let bad = json!({"command": "true", "env": {"A=B": "1"}});
    server.call("bash", bad).expect("validation");
    server.end();
    // What the person lists passes.
    let mut server = place
        .start()
        .env("FAKE_SECRET_TOKEN", "passed-value")
        .env("HANDS_ENV_PASS", "FAKE_SECRET_TOKEN")
        .open();
    assert_eq!(
        server.bash("echo $FAKE_SECRET_TOKEN").ok().stdout(),
        "passed-value\n"
    );
    server.end();
}

#[test]
fn prompts_fail_fast() {
    let place = Place::new();
    let mut server = place.open();
    let began = Instant::now();
    let tty = server
        .bash("tty; test -t 0 || test -t 1 || test -t 2 || echo none")
        .ok();
    assert!(tty.stdout().contains("none"), "{}", tty.stdout());
    let stat = server
        .bash("cut -d')' -f2 /proc/self/stat | cut -d' ' -f6")
        .ok();
    assert_eq!(stat.stdout(), "0\n", "a controlling terminal");
    server
        .bash("read -r -s -p Password: x < /dev/tty")
        .expect("process");
    server.bash("read -r -p Continue? x; echo \"[$x]\"").ok();
    if has("python3") {
        server
            .bash("python3 -c 'import getpass; getpass.getpass()'")
            .expect("process");
        server.bash("python3 -c 'input()'").expect("process");
    }
    if has("sudo") {
        server.bash("sudo true").expect("process");
    }
    if has("su") && !common::is_root() {
        server.bash("su -c true").expect("process");
    }
    if has("ssh") {
        let ssh = "ssh -o ConnectTimeout=2 -p 9 nobody@127.0.0.1 true";
        server.bash(ssh).expect("process");
    }
    if has("git") {
        let pushed = server.bash("git ls-remote https://user@127.0.0.1:9/x.git");
        pushed.expect("process");
    }
    assert!(began.elapsed() < 2 * SOON, "{:?}", began.elapsed());
    server.end();
}

#[test]
fn odd_commands_are_taken_as_they_are() {
    let place = Place::new();
    let mut server = place.open();
    assert_eq!(
        server
            .bash("echo 'ünï \u{1F642}' \"$(printf '%s' '$x')\"")
            .ok()
            .stdout(),
        "ünï \u{1F642} $x\n"
    );
    assert_eq!(
        server.bash("cat <<'E'\na $b\nE\necho c").ok().stdout(),
        "a $b\nc\n"
    );
    assert_eq!(server.bash("# nothing").ok().text(), "(no output)");
    assert_eq!(
        server
            .bash("echo a\r\necho b")
            .ok()
            .stdout()
            .replace('\r', ""),
        "a\nb\n"
    );
    server.bash("echo 'unbalanced").expect("process");
    server.bash("true\0false").expect("validation");
    // As long as the system takes, and longer.
    let long = format!("echo {}", "x".repeat(120_000));
    assert_eq!(server.bash(&long).ok().field("total_bytes"), 120_001);
    server.bash(&"x".repeat(200_000)).expect("too_large");
    // Built to make a parser slow.
    let began = Instant::now();
    for evil in ["(", "$(", "{a,", "`", "\"$(", "<<E ", "[[ a && "] {
        // Bash takes some of them.
        let reply = server.bash(&evil.repeat(4000));
        reply.expect_one_of(&["ok", "process", "delete_blocked"]);
    }
    assert!(began.elapsed() < 2 * SOON, "{:?}", began.elapsed());
    server.end();
}

#[test]
fn the_private_tmp_lasts_as_long_as_the_session() {
    for place in places() {
        let mut server = place.open();
        server.bash("echo kept > /tmp/hands-test-note").ok();
        assert_eq!(
            server.bash("cat /tmp/hands-test-note").ok().stdout(),
            "kept\n"
        );
        assert!(!std::path::Path::new("/tmp/hands-test-note").exists());
        // The file tools look there first.
        let read = server.call("read_file", json!({"path": "/tmp/hands-test-note"}));
        assert_eq!(read.ok().text(), "kept\n");
        let write = json!({"path": "/tmp/hands-test-two", "content": "two"});
        server.call("write_file", write).ok();
        assert_eq!(server.bash("cat /tmp/hands-test-two").ok().stdout(), "two");
        let mut other = place.open();
        other.bash("test ! -e /tmp/hands-test-note").ok();
        other.end_beside(&server);
        server.end();
        let mut next = place.open();
        next.bash("test ! -e /tmp/hands-test-note").ok();
        next.end();
    }
}

#[test]
fn ending_is_quick_when_commands_are_stubborn() {
    let place = Place::new();
    let mut server = place.open();
    server.start_call(
        "bash",
        json!({"command": "trap '' TERM; touch begun; while :; do sleep 60; done"}),
    );
    until("it began", SOON, || place.at("begun").exists());
    server.close_input();
    let (status, took) = server.exit(END);
    assert_eq!(status.code(), Some(0));
    assert!(took < END && took > Duration::ZERO);
    common::none_left(place.root());
}
