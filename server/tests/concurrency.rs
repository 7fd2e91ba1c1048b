//! Calls at the same time: each answered once, none in another's way.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{ANSWER, Place, SOON, running_in, until};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[test]
fn no_child_reads_the_clients_messages() {
    let place = Place::new();
    let mut server = place.open();
    let id = server.start_call(
        "bash",
        json!({"command": "cat; cat /dev/stdin; read x; echo [$x]"}),
    );
    for n in 0..20 {
        let pong = server.request("ping", json!({}));
        assert!(pong["result"].is_object(), "{n}");
    }
    assert_eq!(server.reply(&id).ok().stdout(), "[]\n");
    server.end();
}

/// Memory of a process, in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.unwrap().split_whitespace().next().unwrap();
    number.parse().unwrap()
}

#[test]
fn a_client_that_does_not_read_is_not_read_either() {
    const CALLS: usize = 1500;
    let place = Place::new();
    place.write("a.txt", "0123456789abcde\n".repeat(15_000));
    let mut child = place.start().command().spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let written = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&written);
    let writer = std::thread::spawn(move || {
        for id in 0..CALLS {
            let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
                              "params": {"name": "read_file", "arguments": {"path": "a.txt"}}});
            stdin.write_all(format!("{call}\n").as_bytes()).unwrap();
            count.fetch_add(1, Ordering::SeqCst);
        }
        stdin
    });
    // It has done what it will when its memory stands still.
    let (mut last, mut since) = (0, Instant::now());
    until("its memory stands still", 6 * SOON, || {
        let now = resident(child.id());
        if now.abs_diff(last) > 1024 {
            (last, since) = (now, Instant::now());
        }
        written.load(Ordering::SeqCst) > 0 && since.elapsed() > Duration::from_secs(2)
    });
    assert!(last < 600 * 1024, "{last} KiB");
    let taken = written.load(Ordering::SeqCst);
    assert!(taken < CALLS, "all {taken} calls were read");
    // And then every call has its answer.
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = Vec::new();
    let mut answered = HashSet::new();
    while answered.len() < CALLS {
        line.clear();
        assert_ne!(output.read_until(b'\n', &mut line).unwrap(), 0);
        let head = String::from_utf8_lossy(&line[..60]).into_owned();
        assert!(
            answered.insert(head.split(',').nth(1).unwrap().to_owned()),
            "{head}"
        );
    }
    drop(writer.join().unwrap());
    assert!(child.wait().unwrap().success());
}

#[test]
fn two_hundred_calls_at_once_are_answered_once_each() {
    let place = Place::new();
    place.write("a.txt", "hello\n");
    let mut server = place.open();
    let mut expected = Vec::new();
    for n in 0..200 {
        let (tool, args, text) = match n % 4 {
            0 | 1 => (
                "bash",
                json!({"command": format!("echo tok-{n}")}),
                format!("tok-{n}\n"),
            ),
            2 => ("read_file", json!({"path": "a.txt"}), "hello\n".to_string()),
            _ => {
                let args = json!({"path": format!("new/{n}"), "content": n.to_string()});
                ("write_file", args, String::new())
            }
        };
        expected.push((server.start_call(tool, args), n, text));
    }
    for (id, n, text) in &expected {
        let reply = server.wait("a call of two hundred", 4 * ANSWER, |m| &m["id"] == id);
        let shown = reply["result"]["content"][0]["text"].as_str().unwrap();
        match text.is_empty() {
            true => assert_eq!(place.read(&format!("new/{n}")), n.to_string().as_bytes()),
            false => assert_eq!(shown, text, "{n}"),
        }
    }
    let ids: HashSet<String> = expected.iter().map(|(id, ..)| id.to_string()).collect();
    assert_eq!(ids.len(), 200);
    for (id, ..) in &expected {
        assert_eq!(server.times_answered(id), 1, "{id}");
    }
    let ended = server.end();
    assert_eq!(ended.messages, Vec::<Value>::new());
}

#[test]
fn ping_and_files_do_not_wait_for_commands() {
    let place = Place::new();
    place.write("a.txt", "hello\n");
    let mut server = place.open();
    for n in 0..10 {
        let command = format!("touch begun-{n}; sleep 60");
        server.start_call("bash", json!({"command": command}));
    }
    until("ten commands run", 2 * SOON, || {
        (0..10).all(|n| place.at(&format!("begun-{n}")).exists())
    });
    for _ in 0..10 {
        let began = Instant::now();
        server.request("ping", json!({}));
        server.call("read_file", json!({"path": "a.txt"})).ok();
        let took = began.elapsed();
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
    server.end();
}

#[test]
fn a_cancelled_call_is_answered_once_and_its_process_is_gone() {
    let place = Place::new();
    let mut server = place.open();
    let stubborn = "trap '' TERM; touch begun; echo so far; while :; do sleep 60; done";
    let id = server.start_call("bash", json!({"command": stubborn}));
    until("it began", SOON, || place.at("begun").exists());
    assert!(!running_in(place.root()).is_empty());
    let running = || {
        let all = running_in(place.root());
        all.into_iter().any(|p| p.command.contains("sleep 60"))
    };
    assert!(running());
    server.notify(
        "notifications/cancelled",
        json!({"requestId": id, "reason": "enough"}),
    );
    let reply = server.reply(&id).expect("cancelled");
    assert_eq!(reply.stdout(), "so far\n");
    until("the process is gone", SOON, || !running());
    server.notify("notifications/cancelled", json!({"requestId": id}));
    server.bash("true").ok();
    assert_eq!(server.times_answered(&id), 1);
    let ended = server.end();
    assert_eq!(ended.messages, Vec::<Value>::new());
}

#[test]
fn a_call_cancelled_while_it_waits_for_its_turn_does_nothing() {
    let place = Place::new();
    let mut server = place.start().env("HANDS_LIMITS_CONCURRENCY", "1").open();
    let first = server.start_call("bash", json!({"command": "touch begun; sleep 60"}));
    until("the first began", SOON, || place.at("begun").exists());
    let second = server.start_call("bash", json!({"command": "touch second"}));
    server.notify("notifications/cancelled", json!({"requestId": second}));
    server.reply(&second).expect("cancelled");
    server.notify("notifications/cancelled", json!({"requestId": first}));
    server.reply(&first).expect("cancelled");
    assert!(!place.at("second").exists());
    server.end();
}

#[test]
fn progress_is_told_where_it_was_asked_for() {
    let place = Place::new();
    let mut server = place.open();
    let command = "for n in 1 2 3 4 5 6 7 8; do echo line $n; sleep 0.3; done";
    for token in [json!(7), json!("tok")] {
        let id = server.fresh_id();
        server.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
            "name": "bash", "arguments": {"command": command}, "_meta": {"progressToken": token},
        }}));
        let mut last = -1.0;
        let mut with_lines = 0;
        while with_lines < 2 {
            let news = server.wait("progress", ANSWER, |m| {
                m["method"] == "notifications/progress"
            });
            assert_eq!(news["params"]["progressToken"], token);
            let progress = news["params"]["progress"].as_f64().unwrap();
            assert!(progress > last, "{news}");
            last = progress;
            // A loaded machine has not begun the command when the first of them comes.
            match news["params"]["message"].as_str().unwrap() {
                "no output so far" => assert_eq!(with_lines, 0, "{news}"),
                message if message.contains("last line: line ") => with_lines += 1,
                _ => panic!("{news}"),
            }
        }
        server.reply(&id).ok();
        while server.comes(Duration::ZERO, |m| m["method"] == "notifications/progress") {
            server.wait("the rest", ANSWER, |m| {
                m["method"] == "notifications/progress"
            });
        }
    }
    // Without a token there is none.
    server
        .call("bash", json!({"command": "echo a; sleep 1.2; echo b"}))
        .ok();
    let ended = server.end();
    assert_eq!(ended.messages, Vec::<Value>::new());
}
