//! How it ends, and that nothing outlives it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{END, Place, SOON, none_left, until};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

#[test]
fn end_of_input_lets_short_calls_finish_and_answers_them_all() {
    let place = Place::new();
    place.write("a.txt", "hello\n");
    for _ in 0..10 {
        let mut server = place.start().spawn();
        let id = json!("last");
        server.send(
            &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": {"name": "printf", "version": "1"},
            }}),
        );
        server.start_call_as(&id, "read_file", json!({"path": "a.txt"}));
        let ended = {
            server.close_input();
            server.ended()
        };
        let answered: Vec<_> = ended.messages.iter().map(|m| &m["id"]).collect();
        assert!(
            answered.contains(&&id),
            "{:?}\n{}",
            ended.messages,
            ended.stderr
        );
        assert_eq!(answered.len(), 2);
    }
}

#[test]
fn end_of_input_in_the_middle_of_calls_ends_them_and_their_children() {
    let place = Place::new();
    let mut server = place.open();
    let stubborn = "trap '' TERM HUP INT; touch begun-$N; while :; do sleep 60; done";
    let ids: Vec<Value> = (0..5)
        .map(|n| {
            let args = json!({"command": stubborn, "env": {"N": n.to_string()}});
            server.start_call("bash", args)
        })
        .collect();
    until("all began", SOON, || {
        (0..5).all(|n| place.at(&format!("begun-{n}")).exists())
    });
    let ended = server.end();
    for id in &ids {
        let answers = ended.messages.iter().filter(|m| &m["id"] == id).count();
        assert!(answers <= 1, "{id} was answered {answers} times");
    }
}

#[test]
fn signals_end_it_cleanly() {
    let place = Place::new();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut server = place.open();
        let name = format!("begun-{}", signal.as_raw());
        let id = server.start_call(
            "bash",
            json!({"command": format!("touch {name}; sleep 60")}),
        );
        until("it began", SOON, || place.at(&name).exists());
        server.signal(signal);
        let ended = server.ended();
        let answer = ended.messages.iter().find(|m| m["id"] == id);
        let answer = answer.unwrap_or_else(|| panic!("{signal:?}: no answer\n{}", ended.stderr));
        assert_eq!(answer["result"]["structuredContent"]["code"], "cancelled");
    }
}

#[test]
fn a_supervisor_may_start_and_stop_it_in_a_loop() {
    let place = Place::new();
    for _ in 0..8 {
        let mut server = place.start().spawn();
        server.request("ping", json!({}));
        server.signal(Signal::TERM);
        server.ended();
    }
    // At any moment of the start: before it listens for signals one ends it as it ends any process.
    for ms in 0..8 {
        let mut server = place.start().spawn();
        std::thread::sleep(Duration::from_millis(2 * ms));
        server.signal(Signal::TERM);
        let status = server.exited(END).status;
        let by_signal = std::os::unix::process::ExitStatusExt::signal(&status);
        assert!(status.success() || by_signal == Some(15), "{status:?}");
    }
    let mut server = place.open();
    server.bash("true").ok();
    server.end();
    assert_eq!(place.verify()["ok"], true);
}

#[test]
fn a_client_that_is_gone_ends_it() {
    let place = Place::new();
    let mut server = place.open();
    server.start_call("bash", json!({"command": "touch begun; sleep 60"}));
    until("it began", SOON, || place.at("begun").exists());
    server.forget_output();
    // It notices when it next has something to say.
    let ping = json!({"jsonrpc": "2.0", "id": "a", "method": "ping"});
    let began = Instant::now();
    loop {
        server.send(&ping);
        if server.is_over() {
            break;
        }
        assert!(began.elapsed() < SOON, "it goes on without a client");
        std::thread::sleep(Duration::from_millis(20));
    }
    none_left(place.root());
}

#[test]
fn a_killed_server_leaves_no_child() {
    let place = Place::new();
    let mut server = place.open();
    let stubborn = "trap '' TERM HUP INT; touch begun; while :; do sleep 60; done";
    server.start_call("bash", json!({"command": stubborn}));
    until("it began", SOON, || place.at("begun").exists());
    server.kill();
}

#[test]
fn two_servers_serve_the_same_home_side_by_side() {
    let place = Place::new();
    let mut first = place.open();
    let mut second = place.open();
    for n in 0..3 {
        let content = json!({"path": format!("f{n}"), "content": "x"});
        first.call("write_file", content).ok();
        let read = second.call("read_file", json!({"path": format!("f{n}")}));
        assert_eq!(read.ok().text(), "x");
    }
    first.end_beside(&second);
    second.bash("echo still here").ok();
    second.end();
    assert_eq!(place.verify()["ok"], true);
}

#[test]
fn a_missing_workspace_is_a_warning() {
    let place = Place::new();
    let gone = place.root().join("unplugged");
    let mut server = place
        .start()
        .workspaces(&[place.workspace(), gone.clone()])
        .open();
    server
        .call("write_file", json!({"path": "a", "content": "x"}))
        .ok();
    server.bash("echo hi > b").ok();
    assert_eq!(place.read("b"), b"hi\n");
    let ended = server.end();
    assert!(
        ended.stderr.contains(gone.to_str().unwrap()),
        "{}",
        ended.stderr
    );
}

#[test]
fn fifty_calls_in_a_row() {
    let place = Place::new();
    let mut server = place.open();
    for n in 0..50 {
        let reply = server.bash(&format!("echo {n}")).ok();
        assert_eq!(reply.stdout(), format!("{n}\n"));
    }
    let began = Instant::now();
    server.end();
    assert!(began.elapsed() < END + SOON);
}

#[test]
fn what_a_killed_command_had_set_aside_is_put_back_at_the_start() {
    use std::os::unix::fs::MetadataExt;
    let place = Place::new();
    // One server makes the home.
    place.open().end();
    let aside = place.write(".hands-aside-1-0", "the person's\n");
    let info = aside.metadata().unwrap();
    let note = json!({
        "folder": place.workspace(),
        "name": ".hands-aside-1-0",
        "origin": "letter.txt",
        "files": [[info.dev(), info.ino()]],
        "goes_back": true,
    });
    let notes = place.home().join("work/recovery/asides");
    common::put(&notes.join("killed"), format!("{note}\n"));
    let server = place.open();
    assert_eq!(place.read("letter.txt"), b"the person's\n");
    assert!(!aside.exists() && !notes.join("killed").exists());
    let log = place.home().join("logs/server_lifecycle.jsonl");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(
        log.contains("leftovers") && log.contains("letter.txt"),
        "{log}"
    );
    server.end();
}
