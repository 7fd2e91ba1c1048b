//! Bad input on the pipe: an answer or the protocol's own error, and service goes on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{ANSWER, Place};
use serde_json::{Value, json};

fn error_code(answer: &Value) -> i64 {
    let code = answer["error"]["code"].as_i64();
    code.unwrap_or_else(|| panic!("no error: {answer}"))
}

#[test]
fn what_is_no_message_is_answered_and_service_goes_on() {
    let place = Place::new();
    let mut server = place.open();
    let bad: [(&[u8], i64); 10] = [
        (b"hello", -32700),
        (b"{", -32700),
        (b"\xff\xfe\x00", -32700),
        (b"\x00", -32700),
        (b"3", -32600),
        (b"null", -32600),
        (b"\"text\"", -32600),
        (b"[]", -32600),
        (b"{}", -32600),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}",
            -32600,
        ),
    ];
    for (line, code) in bad {
        server.raw([line, b"\n"].concat());
        let answer = server.answer_without_id();
        let shown = String::from_utf8_lossy(line);
        assert_eq!(error_code(&answer), code, "{shown}: {answer}");
        server.request("ping", json!({}));
    }
    // Where an id can be read, the answer carries it: nobody waits in vain.
    let with_id: [(&[u8], i64); 3] = [
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"", -32700),
        (
            b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\",\"id\":1}",
            -32601,
        ),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\\ud83d\"}",
            -32601,
        ),
    ];
    for (line, code) in with_id {
        server.raw([line, b"\n"].concat());
        let answer = server.answer(&json!(1));
        assert_eq!(error_code(&answer), code, "{answer}");
    }
    let deep = "[".repeat(100_000);
    server.raw(format!("{deep}\n"));
    error_code(&server.answer_without_id());
    server.bash("true").ok();
    server.end();
}

#[test]
fn wrong_shapes_with_an_id_answer_that_id() {
    let place = Place::new();
    let mut server = place.open();
    let wrong = [
        json!({"id": 1, "method": "ping"}),
        json!({"jsonrpc": "1.0", "id": 2, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": 3, "method": 7}),
        json!({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": [1]}),
        json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": "x"}),
        json!({"jsonrpc": "2.0", "id": 6, "method": "tools/call"}),
        json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": 5}}),
        json!({"jsonrpc": "2.0", "id": 8, "method": "tools/call",
               "params": {"name": "bash", "arguments": "ls"}}),
        json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call",
               "params": {"name": "bash", "arguments": [1, 2]}}),
        json!({"jsonrpc": "2.0", "id": 10, "method": "initialize", "params": 5}),
        json!({"jsonrpc": "2.0", "id": 11, "method": "initialize", "params": {"protocolVersion": 5}}),
    ];
    for message in &wrong {
        server.send(message);
        let answer = server.answer(&message["id"]);
        error_code(&answer);
    }
    for message in &wrong {
        assert_eq!(server.times_answered(&message["id"]), 1, "{message}");
    }
    server.bash("true").ok();
    server.end();
}

#[test]
fn arguments_of_the_wrong_type_are_results_that_name_the_field() {
    let place = Place::new();
    let mut server = place.open();
    let wrong = [
        ("bash", json!({"command": 5}), "command"),
        ("bash", json!({}), "command"),
        ("bash", json!({"command": ""}), "command"),
        (
            "bash",
            json!({"command": "true", "timeout_s": "fast"}),
            "timeout_s",
        ),
        (
            "bash",
            json!({"command": "true", "timeout_s": 0}),
            "timeout_s",
        ),
        (
            "bash",
            json!({"command": "true", "timeout_s": 3601}),
            "timeout_s",
        ),
        (
            "bash",
            json!({"command": "true", "timeout_s": 1.5}),
            "timeout_s",
        ),
        ("bash", json!({"command": "true", "env": ["A=1"]}), "env"),
        ("bash", json!({"command": "true", "env": {"A": 1}}), "env.A"),
        (
            "bash",
            json!({"command": "true", "network": "off"}),
            "network",
        ),
        ("bash", json!({"command": "true", "cwd": {}}), "cwd"),
        ("read_file", json!({"path": ["a"]}), "path"),
        ("read_file", json!({"path": "a", "offset": "1"}), "offset"),
        ("read_file", json!({"path": "a", "limit": 0}), "limit"),
        ("read_file", json!({"path": "a", "as": "pdf"}), "as"),
        ("write_file", json!({"path": "a", "content": 5}), "content"),
        ("write_file", json!({"path": "a"}), "content"),
        (
            "write_file",
            json!({"path": "a", "content_base64": "%%%"}),
            "content_base64",
        ),
        (
            "write_file",
            json!({"path": "a", "content": "x", "eol": "cr"}),
            "eol",
        ),
        (
            "write_file",
            json!({"path": "a", "content": "x", "overwrite": "yes"}),
            "overwrite",
        ),
        ("edit", json!({"path": "a", "edits": "x"}), "edits"),
        ("edit", json!({"path": "a", "edits": [5]}), "edits[0]"),
        (
            "edit",
            json!({"path": "a", "edits": [{"old": "a"}]}),
            "edits[0].new",
        ),
        (
            "edit",
            json!({"path": "a", "edits": [{"old": 5, "new": ""}]}),
            "edits[0].old",
        ),
        ("edit", json!({"path": "a", "edits": []}), "edits"),
        ("edit", json!({"path": "a"}), "edits"),
    ];
    for (tool, args, field) in wrong {
        let reply = server.call(tool, args.clone()).expect("validation");
        let named = format!("`{field}`");
        assert!(
            reply.text().contains(&named),
            "{tool} {args}: {}",
            reply.text()
        );
    }
    assert_eq!(common::picture(&place.workspace()), []);
    server.end();
}

#[test]
fn unknown_parameters_are_named_with_the_nearest() {
    let place = Place::new();
    place.write("a", "x");
    let mut server = place.open();
    let wrong = [
        (
            "read_file",
            json!({"path": "a", "view_range": [1, 2]}),
            "view_range",
            "",
        ),
        (
            "read_file",
            json!({"path": "a", "ofset": 1}),
            "ofset",
            "offset",
        ),
        (
            "bash",
            json!({"command": "true", "timeout": 5}),
            "timeout",
            "timeout_s",
        ),
        (
            "write_file",
            json!({"path": "b", "content": "", "overwite": true}),
            "overwite",
            "overwrite",
        ),
        (
            "edit",
            json!({"path": "a", "edits": [{"old": "x", "new": "y", "replaceall": true}]}),
            "edits[0].replaceall",
            "edits[0].replace_all",
        ),
    ];
    for (tool, args, unknown, near) in wrong {
        let reply = server.call(tool, args).expect("validation");
        assert!(
            reply.text().contains(&format!("`{unknown}`")),
            "{}",
            reply.text()
        );
        if !near.is_empty() {
            assert!(
                reply.text().contains(&format!("`{near}`")),
                "{}",
                reply.text()
            );
        }
    }
    assert_eq!(place.read("a"), b"x");
    assert!(!place.at("b").exists());
    server.end();
}

#[test]
fn null_and_empty_mean_absent() {
    let place = Place::new();
    place.write("a", "one\ntwo\n");
    let mut server = place.open();
    let args = json!({"path": "a", "offset": null, "limit": "", "pages": "", "sheet": null,
                      "range": "", "as": "", "encoding": null, "line_numbers": "", "max_dim": null});
    assert_eq!(server.call("read_file", args).ok().text(), "one\ntwo\n");
    let args = json!({"command": "echo hi", "cwd": "", "timeout_s": null, "stdin": "",
                      "env": null, "network": ""});
    assert_eq!(server.call("bash", args).ok().stdout(), "hi\n");
    let args = json!({"path": "new", "content": "x", "content_base64": "", "overwrite": null,
                      "append": "", "nonce": "", "encoding": "", "eol": null, "executable": ""});
    server.call("write_file", args).ok();
    let args = json!({"path": "new", "edits": [{"old": "x", "new": "", "replace_all": null,
                      "start_line": null, "end_line": "", "insert_at": null}],
                      "old": "", "new": "", "files": null, "if_sha256": "", "dry_run": null,
                      "nonce": ""});
    server.call_granted("edit", args).ok();
    assert_eq!(place.read("new"), b"");
    for params in [Value::Null, json!({})] {
        let pong = server.request("ping", params.clone());
        assert!(pong["result"].is_object(), "{pong}");
        let listed = server.request("tools/list", params);
        assert!(listed["result"]["tools"].is_array(), "{listed}");
    }
    server.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                        "params": {"name": "bash", "arguments": null}}));
    server.reply(&json!(1)).expect("validation");
    server.end();
}

#[test]
fn blank_lines_and_other_line_ends_do_no_harm() {
    let place = Place::new();
    let mut server = place.open();
    server.raw("\n\r\n   \n\t\n");
    server.raw("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r\n");
    assert!(server.answer(&json!(1))["result"].is_object());
    server.raw("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n");
    assert!(server.answer(&json!(2))["result"].is_object());
    server.raw("  {\"jsonrpc\": \"2.0\", \"id\" : 3 , \"method\":\"ping\"}  \n");
    assert!(server.answer(&json!(3))["result"].is_object());
    // In pieces, cut in a character.
    let line = "{\"jsonrpc\":\"2.0\",\"id\":\"é\",\"method\":\"ping\"}\n".as_bytes();
    for byte in line {
        server.raw([*byte]);
    }
    assert!(server.answer(&json!("é"))["result"].is_object());
    let ended = server.end();
    assert_eq!(ended.messages, Vec::<Value>::new());
}

#[test]
fn half_a_line_at_the_end_of_input_ends_it_cleanly() {
    let place = Place::new();
    let server = place.open();
    server.raw("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"to");
    let ended = server.end();
    for message in &ended.messages {
        error_code(message);
    }
    // A whole message without its line end is one all the same.
    let server = place.open();
    server.raw("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}");
    let ended = server.end();
    assert_eq!(ended.messages.len(), 1);
    assert!(
        ended.messages[0]["result"].is_object(),
        "{:?}",
        ended.messages
    );
    // Nothing at all.
    let ended = place.start().spawn().end();
    assert_eq!(ended.messages, Vec::<Value>::new());
}

#[test]
fn answers_to_requests_never_made_are_ignored() {
    let place = Place::new();
    let mut server = place.open();
    server.send(&json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    server.send(&json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}}));
    server.notify("notifications/no_such", json!({}));
    server.notify("notifications/cancelled", json!({"requestId": "never"}));
    server.notify("notifications/cancelled", json!({}));
    server.notify(
        "notifications/progress",
        json!({"progressToken": 1, "progress": 1}),
    );
    server.bash("true").ok();
    let ended = server.end();
    assert_eq!(ended.messages, Vec::<Value>::new());
}

#[test]
fn a_line_of_64_mib_is_refused_and_the_next_one_served() {
    let place = Place::new();
    let mut server = place.open();
    let mut line =
        b"{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"tools/call\",\"params\":{\"x\":\"".to_vec();
    line.resize(64 * 1024 * 1024, b'x');
    line.extend(b"\"}}\n");
    server.raw(line);
    assert_eq!(error_code(&server.answer(&json!(77))), -32600);
    assert_eq!(server.bash("echo hi").ok().stdout(), "hi\n");
    // One without any sign of an id.
    let mut line = vec![b'x'; 64 * 1024 * 1024];
    line.push(b'\n');
    server.raw(line);
    error_code(&server.answer_without_id());
    server.bash("true").ok();
    server.end();
}

#[test]
fn a_call_of_20_mib_is_served() {
    let place = Place::new();
    let mut server = place.open();
    let content = "0123456789abcde\n".repeat(20 * 1024 * 1024 / 16);
    let written = server.call("write_file", json!({"path": "big.txt", "content": content}));
    assert_eq!(written.ok().field("bytes"), content.len());
    assert!(place.read("big.txt") == content.as_bytes());
    server.end();
}

#[test]
fn a_batch_is_answered_as_a_batch() {
    let place = Place::new();
    let mut server = place.start().spawn();
    server.initialize("2025-03-26");
    let call = |id: Value, command: &str| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
               "params": {"name": "bash", "arguments": {"command": command}}})
    };
    let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let ping = json!({"jsonrpc": "2.0", "id": "p", "method": "ping"});
    server.send(&json!([
        call(json!(1), "echo one"),
        note,
        ping,
        call(json!(2), "echo two"),
        5
    ]));
    let batch = server.wait("the batch", ANSWER, Value::is_array);
    let answers = batch.as_array().unwrap();
    assert_eq!(answers.len(), 4, "{batch}");
    let of = |id: Value| answers.iter().find(|a| a["id"] == id).unwrap();
    assert_eq!(
        of(json!(1))["result"]["structuredContent"]["stdout"],
        "one\n"
    );
    assert_eq!(
        of(json!(2))["result"]["structuredContent"]["stdout"],
        "two\n"
    );
    assert!(of(json!("p"))["result"].is_object());
    assert_eq!(error_code(of(Value::Null)), -32600);
    // Nothing but notifications: no answer at all.
    server.send(&json!([note, note]));
    // One that is too large is refused whole.
    let touch = vec![call(json!(3), "touch made"); 257];
    server.send(&Value::Array(touch));
    let refused = server.answer_without_id();
    assert_eq!(error_code(&refused), -32600, "{refused}");
    assert!(!place.at("made").exists());
    let ended = server.end();
    assert_eq!(ended.messages, Vec::<Value>::new());
}
