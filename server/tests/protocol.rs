//! The protocol on the pipe: versions, methods, ids, and nothing else on standard output.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{ANSWER, Place, SOON, running_in, until};
use serde_json::{Value, json};

/// The protocol versions that begin with `initialize`.
const WITH_INITIALIZE: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// The one that does without.
const WITHOUT_INITIALIZE: &str = "2026-07-28";

/// What a request of the newest protocol carries.
fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": WITHOUT_INITIALIZE,
        "io.modelcontextprotocol/clientInfo": {"name": "test-client", "version": "1.2.3"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

fn error_code(answer: &Value) -> i64 {
    let code = answer["error"]["code"].as_i64();
    code.unwrap_or_else(|| panic!("no error: {answer}"))
}

#[test]
fn each_version_with_initialize_is_agreed_on_and_serves() {
    let place = Place::new();
    place.write("a.txt", "hello\n");
    for version in WITH_INITIALIZE {
        let mut server = place.start().spawn();
        let result = server.initialize(version);
        assert_eq!(result["protocolVersion"], version);
        assert_eq!(result["serverInfo"]["name"], "hands");
        server.notify("notifications/initialized", json!({}));
        let read = server.call("read_file", json!({"path": "a.txt"})).ok();
        assert_eq!(read.text(), "hello\n", "{version}");
        server.end();
    }
}

#[test]
fn the_newest_version_needs_no_initialize() {
    let place = Place::new();
    place.write("a.txt", "hello\n");
    let mut server = place.start().spawn();
    let found = server.request("server/discover", json!({"_meta": meta()}));
    let supported = found["result"]["supportedVersions"].to_string();
    assert!(supported.contains(WITHOUT_INITIALIZE), "{found}");
    let listed = server.request("tools/list", json!({"_meta": meta()}));
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 4);
    let params = json!({"name": "read_file", "arguments": {"path": "a.txt"}, "_meta": meta()});
    let read = server.request("tools/call", params);
    assert_eq!(read["result"]["content"][0]["text"], "hello\n", "{read}");
    server.end();
}

#[test]
fn unknown_versions_get_one_that_the_server_has() {
    let place = Place::new();
    for version in ["2031-01-01", "1.0", "", WITHOUT_INITIALIZE] {
        let mut server = place.start().spawn();
        let result = server.initialize(version);
        let agreed = result["protocolVersion"].as_str().unwrap();
        assert!(WITH_INITIALIZE.contains(&agreed), "{version}: {agreed}");
        server.bash("echo hi").ok();
        server.end();
    }
}

#[test]
fn discover_first_then_initialize() {
    let place = Place::new();
    let mut server = place.start().spawn();
    let probe = json!({
        "jsonrpc": "2.0", "id": "openai-mcp-discover", "method": "server/discover",
        "params": {"_meta": meta()},
    });
    server.send(&probe);
    let found = server.answer(&json!("openai-mcp-discover"));
    assert!(found.get("result").is_some() || found.get("error").is_some());
    server.send(&probe);
    server.answer(&json!("openai-mcp-discover"));
    assert_eq!(server.times_answered(&json!("openai-mcp-discover")), 2);
    let result = server.initialize("2025-06-18");
    assert_eq!(result["protocolVersion"], "2025-06-18");
    server.notify("notifications/initialized", json!({}));
    assert_eq!(server.bash("echo hi").ok().stdout(), "hi\n");
    server.end();
}

#[test]
fn discover_with_nothing_is_answered_too() {
    let place = Place::new();
    for params in [json!({}), Value::Null, json!({"_meta": {}})] {
        let mut server = place.start().spawn();
        let found = server.request("server/discover", params);
        assert!(found.get("result").is_some() || found.get("error").is_some());
        server.initialize("2025-06-18");
        server.bash("true").ok();
        server.end();
    }
}

#[test]
fn an_incomplete_meta_first_is_an_error_and_then_all_is_normal() {
    let place = Place::new();
    let mut server = place.start().spawn();
    let partial = json!({"io.modelcontextprotocol/protocolVersion": WITHOUT_INITIALIZE});
    for method in ["server/discover", "tools/list", "ping"] {
        let answer = server.request(method, json!({"_meta": partial}));
        assert!(
            answer.get("result").is_some() || error_code(&answer) != 0,
            "{answer}"
        );
    }
    let answer = server.request("tools/list", json!({"_meta": partial}));
    error_code(&answer);
    server.initialize("2025-06-18");
    server.bash("echo hi").ok();
    server.end();
}

#[test]
fn calls_are_served_when_initialized_never_comes() {
    let place = Place::new();
    let mut server = place.start().spawn();
    server.initialize("2025-03-26");
    assert_eq!(server.bash("echo hi").ok().stdout(), "hi\n");
    let listed = server.request("tools/list", json!({}));
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 4);
    server.end();
}

#[test]
fn a_second_initialize_resets_nothing() {
    let place = Place::new();
    place.write("old.txt", "old");
    let mut server = place.open();
    let args = |text: &str| json!({"path": "old.txt", "content": text, "overwrite": true});
    server.call_granted("write_file", args("new")).ok();
    let again = server.initialize("2025-11-25");
    assert_eq!(again["serverInfo"]["name"], "hands");
    // The grant is still there.
    server.call("write_file", args("newer")).ok();
    assert_eq!(place.read("old.txt"), b"newer");
    server.end();
}

#[test]
fn initialize_may_lack_what_it_should_have() {
    let place = Place::new();
    for params in [json!({}), Value::Null, json!({"protocolVersion": null})] {
        let mut server = place.start().spawn();
        let answer = server.request("initialize", params);
        assert!(answer["result"]["protocolVersion"].is_string(), "{answer}");
        server.bash("true").ok();
        server.end();
    }
}

#[test]
fn nothing_comes_before_the_initialize_answer() {
    let place = Place::new();
    // A warning at start and a notification before anything else tempt it.
    let gone = place.root().join("unplugged");
    let mut server = place.start().workspaces(&[gone, place.workspace()]).spawn();
    server.notify("notifications/initialized", json!({}));
    server.notify("notifications/roots/list_changed", json!({}));
    let id = json!("first");
    server.send(
        &json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {"roots": {}, "sampling": {}},
            "clientInfo": {"name": "t", "version": "1"},
        }}),
    );
    assert_eq!(server.next()["id"], id);
    let ended = server.end();
    assert_eq!(ended.messages, Vec::<Value>::new());
}

#[test]
fn the_list_holds_the_four_tools_with_true_schemas() {
    let place = Place::new();
    let mut server = place.open();
    let listed = server.request("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<_> = tools.iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["bash", "read_file", "write_file", "edit"]);
    for tool in tools {
        let input = &tool["inputSchema"];
        assert_eq!(input["type"], "object");
        assert_eq!(input["additionalProperties"], false, "{tool}");
        for (name, property) in input["properties"].as_object().unwrap() {
            let text = property["description"].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "{name} of {} says nothing", tool["name"]);
        }
        assert_eq!(tool["outputSchema"]["type"], "object");
        let hints = &tool["annotations"];
        for hint in [
            "readOnlyHint",
            "destructiveHint",
            "idempotentHint",
            "openWorldHint",
        ] {
            assert!(hints[hint].is_boolean(), "{hint} of {}", tool["name"]);
        }
        assert!(hints["title"].is_string());
        assert_eq!(hints["readOnlyHint"] == true, tool["name"] == "read_file");
    }
    let bytes = listed.to_string().len();
    assert!(bytes <= 12_000, "tools/list has {bytes} bytes");
    server.end();
}

#[test]
fn unknown_methods_and_tools_are_the_protocols_own_errors() {
    let place = Place::new();
    let mut server = place.open();
    for method in [
        "no/such",
        "tools/",
        "",
        "notifications/cancelled",
        "logging/nope",
    ] {
        let answer = server.request(method, json!({}));
        assert_eq!(error_code(&answer), -32601, "{method}: {answer}");
    }
    let answer = server.request("tools/call", json!({"name": "rm_rf", "arguments": {}}));
    assert_eq!(error_code(&answer), -32602, "{answer}");
    let shown = answer.to_string();
    assert!(
        shown.contains("rm_rf") && shown.contains("read_file"),
        "{answer}"
    );
    server.bash("true").ok();
    server.end();
}

#[test]
fn ids_of_every_kind_come_back_as_they_were() {
    let place = Place::new();
    let mut server = place.open();
    let ids = [
        json!(0),
        json!(-7),
        json!(""),
        json!("0"),
        json!("ünïcode \u{1F642} \"quoted\""),
        json!(9_007_199_254_740_993_u64),
        json!(u64::MAX),
        json!(1.5),
        json!("x".repeat(10_000)),
    ];
    for id in &ids {
        server.start_call_as(id, "bash", json!({"command": "echo hi"}));
    }
    for id in &ids {
        assert_eq!(server.reply(id).ok().stdout(), "hi\n", "{id}");
        assert_eq!(server.times_answered(id), 1, "{id}");
    }
    server.end();
}

#[test]
fn an_id_may_be_used_again() {
    let place = Place::new();
    let mut server = place.open();
    let id = json!(0);
    for n in 1..=3 {
        server.start_call_as(&id, "bash", json!({"command": format!("echo {n}")}));
        assert_eq!(server.reply(&id).ok().stdout(), format!("{n}\n"));
    }
    // After a cancellation: the cancelled one is answered, then the new one.
    server.start_call_as(&id, "bash", json!({"command": "touch begun; sleep 60"}));
    until("the first began", SOON, || place.at("begun").exists());
    server.notify("notifications/cancelled", json!({"requestId": id}));
    server.reply(&id).expect("cancelled");
    server.start_call_as(&id, "bash", json!({"command": "echo again"}));
    assert_eq!(server.reply(&id).ok().stdout(), "again\n");
    // Cancelled and used again at once, as clients do after a time-out.
    server.start_call_as(&id, "bash", json!({"command": "touch begun2; sleep 60"}));
    until("the second began", SOON, || place.at("begun2").exists());
    server.notify("notifications/cancelled", json!({"requestId": id}));
    server.start_call_as(&id, "bash", json!({"command": "echo at once"}));
    let newest = server.wait("the newest", ANSWER, |message| {
        message["id"] == id && message.to_string().contains("at once")
    });
    assert_eq!(newest["result"]["structuredContent"]["code"], "ok");
    server.end();
}

#[test]
fn an_id_used_again_in_flight_answers_the_newest_once() {
    let place = Place::new();
    let mut server = place.open();
    let id = json!("same");
    server.start_call_as(
        &id,
        "bash",
        json!({"command": "touch begun; sleep 60; echo first"}),
    );
    until("the first began", SOON, || place.at("begun").exists());
    server.start_call_as(&id, "bash", json!({"command": "echo second"}));
    assert_eq!(server.reply(&id).ok().stdout(), "second\n");
    // The first has to be gone, and must not have been answered.
    until("the first is ended", SOON, || {
        running_in(place.root())
            .iter()
            .all(|p| !p.command.contains("sleep 60"))
    });
    let ended = server.end();
    assert_eq!(ended.messages, Vec::<Value>::new());
}

#[test]
fn stdout_is_the_protocols_alone() {
    let place = Place::new();
    let mut server = place.open();
    // Each of these once reached a client's pipe in some server.
    let commands = [
        "echo junk; echo junk >&2; echo junk > /dev/stdout; echo junk > /dev/stderr",
        "for fd in /proc/[0-9]*/fd/*; do echo junk 2>/dev/null > $fd; done; true",
        "echo junk > /proc/1/fd/1; echo junk > /proc/self/fd/0; true",
        "for n in 3 4 5 6 7 8 9; do eval \"echo junk >&$n\"; done 2>/dev/null; true",
        "echo junk > /dev/tty; true",
    ];
    for command in commands {
        server.bash(command).expect_one_of(&["ok", "process"]);
    }
    // The client checks each line; what is left must be nothing.
    let ended = server.end();
    assert_eq!(ended.messages, Vec::<Value>::new());
}

#[test]
fn only_known_kinds_of_content_are_sent() {
    let place = Place::new();
    place.write("a.txt", "x");
    place.write(
        "a.png",
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0",
    );
    let mut server = place.open();
    let replies = [
        server.bash("echo hi"),
        server.call("read_file", json!({"path": "a.txt"})),
        server.call("read_file", json!({"path": "a.png"})),
        server.call("read_file", json!({"path": "."})),
    ];
    for reply in replies {
        for block in reply.content() {
            let kind = block["type"].as_str().unwrap();
            assert!(["text", "image"].contains(&kind), "{block}");
        }
    }
    server.end();
}

#[test]
fn each_call_and_result_is_shown_on_stderr() {
    let place = Place::new();
    let mut server = place.open();
    let ok = server.bash("echo hi").ok();
    let bad = server.bash("exit 3").expect("process");
    let evil = server.bash("echo '\u{1b}[31mred\u{7}'").ok();
    let ended = server.end();
    for (reply, code) in [(&ok, "ok"), (&bad, "process"), (&evil, "ok")] {
        let turn = reply.string("turn_id");
        let lines: Vec<_> = ended.stderr.lines().filter(|l| l.contains(turn)).collect();
        assert_eq!(lines.len(), 2, "{}", ended.stderr);
        assert!(lines[0].starts_with("call") && lines[0].contains("bash"));
        assert!(
            lines[1].starts_with("result") && lines[1].contains(code) && lines[1].contains(" ms")
        );
    }
    assert!(
        !ended.stderr.contains(['\u{1b}', '\u{7}']),
        "{}",
        ended.stderr
    );
}
