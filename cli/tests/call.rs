//! `handsctl call` and `handsctl tools`.
#![allow(clippy::unwrap_used)] // Helpers of tests are not marked as tests.

mod common;

use common::{Ended, Place, built, with_input};

/// A server that answers as scripted: `$RESULT` to every tool call.
const SERVER: &str = r#"
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*)
      answer='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1"}}' ;;
    *'"method":"tools/list"'*)
      answer='{"tools":[{"name":"bash","description":"Runs a command.\nMore.","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/call"'*)
      printf '%s\n' "$line" > "$HANDS_HOME/seen"
      case "$RESULT" in
        die) echo 'dying words' >&2; exit 3 ;;
        hang) continue ;;
        unknown) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"unknown tool"}}\n' "$id"; continue ;;
      esac
      answer=$RESULT ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$answer"
done
"#;

fn call(place: &Place, result: &str, args: &[&str]) -> Ended {
    place.prepare();
    let server = place.script("server", SERVER);
    let mut command = place.command(args);
    command.env("HANDS_MCP_BIN", server).env("RESULT", result);
    Ended::of(command.output().unwrap())
}

const OK: &str = r#"{"content":[{"type":"text","text":"hello"},{"type":"image","data":"QUJD","mimeType":"image/png"}],"structuredContent":{"ok":true,"code":"ok"},"isError":false}"#;

#[test]
fn a_result_is_printed_and_the_arguments_arrive() {
    let place = Place::new();
    let ended = call(
        &place,
        OK,
        &["call", "bash", r#"{"command":"echo \"hé\""}"#],
    );
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.out, "hello\n[image image/png, 4 bytes as base64]\n");
    let seen = std::fs::read_to_string(place.home().root().join("seen")).unwrap();
    let seen: serde_json::Value = serde_json::from_str(&seen).unwrap();
    assert_eq!(seen["params"]["name"], "bash");
    assert_eq!(seen["params"]["arguments"]["command"], "echo \"hé\"");
}

#[test]
fn json_prints_the_whole_result() {
    let ended = call(&Place::new(), OK, &["--json", "call", "bash"]);
    assert_eq!(ended.code, Some(0));
    assert_eq!(ended.json()["structuredContent"]["code"], "ok");
}

#[test]
fn a_failed_result_exits_with_1() {
    let refused = r#"{"content":[{"type":"text","text":"[validation] no"}],"structuredContent":{"ok":false,"code":"validation"},"isError":true}"#;
    let nonzero =
        r#"{"content":[],"structuredContent":{"ok":false,"code":"process"},"isError":false}"#;
    for result in [refused, nonzero] {
        let ended = call(&Place::new(), result, &["call", "bash"]);
        assert_eq!(ended.code, Some(1), "{result}: {ended:?}");
    }
}

#[test]
fn arguments_come_from_stdin_too() {
    let place = Place::new();
    place.prepare();
    let mut command = place.command(&["call", "bash", "-"]);
    command
        .env("HANDS_MCP_BIN", place.script("server", SERVER))
        .env("RESULT", OK);
    let ended = with_input(command, "{\"command\": \"ls\"}\n");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let seen = std::fs::read_to_string(place.home().root().join("seen")).unwrap();
    assert!(seen.contains(r#""arguments":{"command":"ls"}"#), "{seen}");
}

#[test]
fn arguments_that_are_no_object_are_usage_errors() {
    for text in ["[1]", "{", "", "3"] {
        let ended = Place::new().run(&["call", "bash", text]);
        assert_eq!(ended.code, Some(2), "{text:?}");
        assert!(
            ended
                .err
                .starts_with("handsctl: reading the arguments failed: they are not "),
            "{ended:?}"
        );
    }
    assert_eq!(Place::new().run(&["call"]).code, Some(2));
    assert_eq!(Place::new().run(&["frobnicate"]).code, Some(2));
}

#[test]
fn an_unknown_tool_is_told() {
    let ended = call(&Place::new(), "unknown", &["call", "nope"]);
    assert_eq!(ended.code, Some(1));
    assert_eq!(
        ended.err,
        "handsctl: the request failed: unknown tool (JSON-RPC error -32602); `handsctl tools` lists the tools\n"
    );
}

#[test]
fn a_server_that_dies_or_hangs_is_told() {
    let ended = call(&Place::new(), "die", &["call", "bash"]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.err.starts_with(
            "handsctl: the request failed: it ended without an answer (exit status: 3); it said: dying words; "
        ),
        "{ended:?}"
    );
    let ended = call(&Place::new(), "hang", &["call", "bash", "--wait", "1"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("no answer within 1 s"), "{ended:?}");
}

#[test]
fn a_server_that_does_not_start_says_why() {
    let place = Place::new();
    let broken = place.script(
        "server",
        "echo 'config.toml:3: key `x`: is not known' >&2\nexit 1\n",
    );
    let mut command = place.command(&["--json", "call", "bash"]);
    let ended = Ended::of(command.env("HANDS_MCP_BIN", broken).output().unwrap());
    assert_eq!(ended.code, Some(1));
    assert!(
        ended
            .err
            .contains("it said: config.toml:3: key `x`: is not known"),
        "{ended:?}"
    );
    assert_eq!(ended.json()["ok"], false);
    assert!(
        ended.json()["message"]
            .as_str()
            .unwrap()
            .contains("it ended without an answer (exit status: 1); it said: config.toml:3"),
        "{ended:?}"
    );

    let mut command = place.command(&["call", "bash"]);
    let ended = Ended::of(command.env("HANDS_MCP_BIN", "nope").output().unwrap());
    assert_eq!(ended.code, Some(1));
    assert!(
        ended
            .err
            .contains("HANDS_MCP_BIN is nope, which is not the absolute path of a program"),
        "{ended:?}"
    );
}

/// The reason comes after the server has hung up, and it must not be killed before it has given it.
#[test]
fn the_last_words_are_waited_for() {
    let place = Place::new();
    let broken = place.script(
        "server",
        "exec >&-\necho early >&2\nsleep 0.5\necho 'the reason' >&2\nexit 78\n",
    );
    for args in [
        &["--json", "call", "bash"][..],
        &["--json", "tools"],
        &["tools"],
    ] {
        let mut command = place.command(args);
        let ended = Ended::of(command.env("HANDS_MCP_BIN", &broken).output().unwrap());
        assert_eq!(ended.code, Some(1));
        let words = "it ended without an answer (exit status: 78); it said: the reason";
        assert!(ended.err.contains(words), "{ended:?}");
        if args[0] == "--json" {
            let message = ended.json()["message"].to_string();
            assert!(message.contains(words), "{ended:?}");
        }
    }
}

/// A server that hung up and does not end is not waited for without limit.
#[test]
fn a_server_that_lingers_is_left_after_a_moment() {
    let place = Place::new();
    let lingering = place.script("server", "echo words >&2\nexec sleep 600 >&-\n");
    let began = std::time::Instant::now();
    let mut command = place.command(&["tools"]);
    let ended = Ended::of(command.env("HANDS_MCP_BIN", &lingering).output().unwrap());
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("it said: words"), "{ended:?}");
    assert!(began.elapsed() < std::time::Duration::from_secs(15));
}

#[test]
fn the_real_server_says_why_it_does_not_start() {
    built("hands-mcp");
    let place = Place::new();
    place.config("workspaces = 3\n");
    for _ in 0..5 {
        let ended = place.run(&["--json", "call", "bash"]);
        assert_eq!(ended.code, Some(1));
        let message = ended.json()["message"].to_string();
        assert!(
            message.contains("config.toml:1: key `workspaces`"),
            "{ended:?}"
        );
    }
}

#[test]
fn a_server_that_cannot_be_run_is_told_with_its_mend() {
    let place = Place::new();
    let script = place.script("server", "exit 0\n");
    let run = || {
        let mut command = place.command(&["tools"]);
        Ended::of(command.env("HANDS_MCP_BIN", &script).output().unwrap()).err
    };
    common::chmod(&script, 0o644);
    let err = run();
    assert!(
        err.contains("server is not executable; chmod +x '"),
        "{err}"
    );
    std::fs::write(&script, "").unwrap();
    common::chmod(&script, 0o755);
    let err = run();
    assert!(
        err.contains("server is empty (0 bytes); build hands-mcp again"),
        "{err}"
    );
}

#[test]
fn tools_are_listed() {
    let ended = call(&Place::new(), OK, &["tools"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.out, "TOOL  WHAT IT DOES\nbash  Runs a command.\n");
    let ended = call(&Place::new(), OK, &["tools", "--json"]);
    assert_eq!(ended.json()[0]["name"], "bash");
}

#[test]
fn the_real_server_answers_and_leaves_its_trail() {
    built("hands-mcp");
    let place = Place::new();
    let file = place.workspace().join("note.txt");
    std::fs::write(&file, "one\ntwo\n").unwrap();
    let arguments = serde_json::json!({"path": file}).to_string();
    let ended = place.run(&["call", "read_file", &arguments]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains("one\ntwo"), "{ended:?}");

    let missing = serde_json::json!({"path": place.workspace().join("no")}).to_string();
    let ended = place.run(&["--json", "call", "read_file", &missing]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(ended.json()["structuredContent"]["code"], "not_found");

    let records = place
        .run(&["logs", "--json", "--tool", "read_file"])
        .json_lines();
    assert!(
        records.iter().any(|record| record["code"] == "not_found"),
        "{records:?}"
    );
    assert_eq!(place.run(&["logs", "verify"]).code, Some(0));
}
