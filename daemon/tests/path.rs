//! The whole path: control plane, tunnel client, relay, server, tool, and back; each a process of its own that a
//! real daemon started. With `HANDS_TUNNEL_CLIENT` set the tests run on that client of the tunnel too.
#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests are not marked as tests.

mod common;

use common::tunneled::{TunnelClient, parent_of, relay_of, start};
use common::{Daemon, Place, none_left};
use hands_activity::Stored;
use hands_control::types::daemon::Status;
use hands_testkit::{Call, ControlPlane, Planner, Script};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// The official client, or a word on why nothing is tried.
fn official(test: &str) -> Option<TunnelClient> {
    let client = TunnelClient::official();
    if client.is_none() {
        eprintln!("{test}: skipped, for HANDS_TUNNEL_CLIENT names no official client");
    }
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_reach_the_tools_through_the_builtin_client() {
    works(TunnelClient::Builtin).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_reach_the_tools_through_the_official_client() {
    if let Some(client) = official("calls through the official client") {
        works(client).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chatgpts_ways_are_served_through_the_builtin_client() {
    is_chatgpts_way(TunnelClient::Builtin).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn chatgpts_ways_are_served_through_the_official_client() {
    if let Some(client) = official("ChatGPT's ways through the official client") {
        is_chatgpts_way(client).await;
    }
}

async fn works(client: TunnelClient) {
    let plane = ControlPlane::start(Script::default()).await;
    let place = Place::new();
    let daemon = start(&place, &plane, &client).await;
    let status = daemon.ready().await;
    check_processes(&daemon, &status, &client);
    let planner = Planner::new(&plane);
    let hello = planner.initialize().await;
    assert_eq!(hello["serverInfo"]["name"], "hands");

    let mut turns = Vec::new();
    let file = place.workspace().join("notes.txt");
    let args = json!({"path": file, "content": "one\ntwo\nthree\n"});
    turns.push(("write_file", done(planner.call("write_file", args)).await));
    assert_eq!(content(&file), "one\ntwo\nthree\n");

    let answer = done(planner.call("read_file", json!({"path": file}))).await;
    assert!(text(&answer).contains("one\ntwo\nthree\n"), "{answer}");
    turns.push(("read_file", answer));

    // The first change of what was there needs the person's consent.
    let mut args = json!({"path": file, "old": "two", "new": "zwei"});
    let asked = ends(planner.call("edit", args.clone()), "permission_required").await;
    assert_eq!(content(&file), "one\ntwo\nthree\n");
    args["nonce"] = data(&asked)["nonce"].clone();
    turns.push(("edit", asked));
    turns.push(("edit", done(planner.call("edit", args)).await));
    assert_eq!(content(&file), "one\nzwei\nthree\n");

    let command = "tr a-z A-Z <notes.txt | tee shouted.txt";
    let answer = done(planner.call("bash", json!({"command": command}))).await;
    assert_eq!(data(&answer)["stdout"], "ONE\nZWEI\nTHREE\n", "{answer}");
    assert_eq!(
        content(&place.workspace().join("shouted.txt")),
        "ONE\nZWEI\nTHREE\n"
    );
    turns.push(("bash", answer));

    // What fails and what is refused leaves its records as well.
    let args = json!({"command": "cat no-such-file"});
    turns.push(("bash", ends(planner.call("bash", args), "process").await));
    let old = place.workspace().join("old.txt");
    std::fs::write(&old, "the person's").unwrap();
    let args = json!({"command": "rm old.txt"});
    let refused = ends(planner.call("bash", args), "delete_blocked").await;
    turns.push(("bash", refused));
    assert!(old.exists());
    let args = json!({"path": place.home().tunnel_key_file()});
    let refused = ends(planner.call("read_file", args), "protected_path").await;
    assert!(!refused.to_string().contains(plane.api_key()), "{refused}");
    turns.push(("read_file", refused));

    assert_eq!(daemon.status().await.server.pid, status.server.pid);
    daemon.stop().await;
    check_trail(&place.trail(), &turns, status.server.pid);
    none_left(&place).await;
}

/// What the newest clients and ChatGPT do that the protocol's book does not tell.
async fn is_chatgpts_way(client: TunnelClient) {
    let plane = ControlPlane::start(Script::default()).await;
    let place = Place::new();
    let daemon = start(&place, &plane, &client).await;
    let first = daemon.ready().await;
    let planner = Planner::new(&plane);
    let file = place.workspace().join("a.txt");
    std::fs::write(&file, "as it was\n").unwrap();
    let read = json!({"path": file});

    // A probe of the newest protocol, before anything else.
    let found = planner.discover().result().await;
    let versions = found["supportedVersions"].to_string();
    assert!(versions.contains("2026-07-28"), "{found}");
    // A call before any handshake; its id 0 is a real id.
    let answer = done(planner.call_as(0, "read_file", read.clone())).await;
    assert!(text(&answer).contains("as it was"), "{answer}");
    // An old-style handshake after all, and a second one; no `initialized` ever comes.
    for _ in 0..2 {
        let hello = planner.initialize_only().result().await;
        assert_eq!(hello["protocolVersion"], "2025-06-18", "{hello}");
    }
    let listed = planner.request("list", "tools/list", json!({}));
    let names = listed.result().await["tools"].to_string();
    for tool in ["bash", "read_file", "write_file", "edit"] {
        assert!(names.contains(tool), "{names}");
    }
    leaves_optional_parameters_blank(&planner, &place).await;
    uses_an_id_again(&plane, &client).await;
    if let TunnelClient::Official(_) = client {
        // It may now fail every call for ever, and looks healthy all the while: the daemon starts it again.
        works_in_the_end(&plane, &read).await;
    }
    // And the path still works for whoever comes next, with ids of either kind.
    daemon.ready().await;
    for id in [json!(0), json!("0"), json!("call-1")] {
        let call = Planner::new(&plane).call_as(id, "read_file", read.clone());
        done(call).await;
    }
    let last = daemon.status().await;
    assert_eq!(last.server.pid, first.server.pid, "the server went on");
    daemon.stop().await;
    place.trail();
    none_left(&place).await;
}

/// Every optional parameter is there, as "" and as null: both mean that it is not.
async fn leaves_optional_parameters_blank(planner: &Planner<'_>, place: &Place) {
    let tools = planner.list_tools().result().await;
    let folder = place.workspace();
    let first = folder.join("first.txt");
    std::fs::write(&first, "a").unwrap();
    let mut args = json!({"path": first, "old": "a", "new": "b"});
    let asked = ends(planner.call("edit", args.clone()), "permission_required").await;
    args["nonce"] = data(&asked)["nonce"].clone();
    done(planner.call("edit", args)).await;
    for (round, blank) in [json!(""), Value::Null].into_iter().enumerate() {
        let file = folder.join(format!("blank-{round}.txt"));
        let calls = [
            ("write_file", json!({"path": file, "content": "old\n"})),
            ("read_file", json!({"path": file})),
            ("edit", json!({"path": file, "old": "old", "new": "new"})),
            ("bash", json!({"command": "printf done"})),
        ];
        for (tool, mut args) in calls {
            let properties = properties_of(&tools, tool);
            assert!(properties.len() > 2, "{tool}: {properties:?}");
            for name in properties {
                let fields = args.as_object_mut().unwrap();
                fields.entry(name).or_insert_with(|| blank.clone());
            }
            let answer = done(planner.call(tool, args)).await;
            if tool == "bash" {
                assert_eq!(data(&answer)["stdout"], "done");
            }
        }
        assert_eq!(content(&file), "new\n");
    }
}

fn properties_of(tools: &Value, tool: &str) -> Vec<String> {
    let mut all = tools["tools"].as_array().unwrap().iter();
    let found = all.find(|one| one["name"] == tool).unwrap();
    let properties = found["inputSchema"]["properties"].as_object().unwrap();
    properties.keys().cloned().collect()
}

/// A call that outlasts its time-out, and the next one under the same id at once.
async fn uses_an_id_again(plane: &ControlPlane, client: &TunnelClient) {
    let hasty = Planner::new(plane).timeout("1s");
    let late = hasty.call_as(0, "bash", json!({"command": "sleep 3; echo first"}));
    let given_up = || plane.answers(&late.request_id).delivered.first().copied();
    let delivered = plane
        .wait_for("the call to be handed out", common::SOON, |_| given_up())
        .await;
    tokio::time::sleep_until((delivered + Duration::from_millis(1500)).into()).await;
    let again = Planner::new(plane).call_as(0, "bash", json!({"command": "echo second"}));
    match client {
        TunnelClient::Builtin => {
            let answer = done(again.clone()).await;
            assert_eq!(data(&answer)["stdout"], "second\n", "{answer}");
            // The first is past its deadline: nothing is posted for it, then or ever.
            assert_eq!(plane.answers(&late.request_id).finals(), 0);
        }
        // It may fail such a call; what it may not is answer it with the other's result.
        TunnelClient::Official(_) => {
            let answer = again.answer().await;
            let output = &data(&answer.json()["result"])["stdout"];
            assert!(output.is_null() || output == "second\n", "{answer:?}");
        }
    }
    assert_eq!(plane.answers(&again.request_id).finals(), 1);
}

async fn works_in_the_end(plane: &ControlPlane, read: &Value) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(90);
    loop {
        let call = Planner::new(plane).call("read_file", read.clone());
        if call.answer().await.json()["result"].is_object() {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "every call fails");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// The result of a call that went well.
async fn done(call: Call<'_>) -> Value {
    ends(call, "ok").await
}

/// The result of a call that ended with this code.
async fn ends(call: Call<'_>, code: &str) -> Value {
    let result = call.result().await;
    assert_eq!(data(&result)["code"], code, "{result}");
    assert_eq!(data(&result)["ok"], code == "ok", "{result}");
    result
}

fn data(result: &Value) -> &Value {
    &result["structuredContent"]
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

fn content(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// Each part is the process that it should be, started by the part before it.
fn check_processes(daemon: &Daemon, status: &Status, client: &TunnelClient) {
    assert_eq!(status.tunnel.client.as_deref(), Some(client.name()));
    let tunnel = status.tunnel.child.pid.unwrap();
    let server = status.server.pid.unwrap();
    assert_eq!(parent_of(tunnel), Some(daemon.pid()));
    assert_eq!(parent_of(server), Some(daemon.pid()));
    let program = match client {
        TunnelClient::Builtin => common::built("hands-tunnel"),
        TunnelClient::Official(program) => program.canonicalize().unwrap(),
    };
    let runs = std::fs::read_link(format!("/proc/{tunnel}/exe")).unwrap();
    assert_eq!(runs, program.canonicalize().unwrap());
    let relay = relay_of(tunnel).unwrap();
    for (pid, flag) in [(relay, "--relay"), (server, "--serve")] {
        let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
        let words: Vec<&str> = words.split('\0').collect();
        assert!(words[0].ends_with("hands-mcp"), "{words:?}");
        assert!(words.contains(&flag), "{words:?}");
    }
}

/// A call and its result beside it, one pair after the other, in the order in which they were made. Between the two
/// stands only what a person was asked and granted.
fn check_trail(records: &[Stored], turns: &[(&str, Value)], server: Option<u32>) {
    for (record, seq) in records.iter().zip(1..) {
        assert_eq!(record.seq, Some(seq), "{record:?}");
        assert_eq!(record.pid, server, "{record:?}");
        assert_eq!(record.session_id, records[0].session_id, "{record:?}");
        let client = record.client.as_ref().map(|client| client.name.as_str());
        assert_eq!(client, Some("planner"), "{record:?}");
    }
    // With the session ends what was granted in it; that belongs to no turn.
    let last = records.iter().rposition(|record| record.turn_id.is_some());
    let (records, ends) = records.split_at(last.map_or(0, |last| last + 1));
    for end in ends {
        let what = (end.event.as_deref(), end.status.as_deref());
        assert_eq!(what, (Some("grant"), Some("ended")), "{end:?}");
    }
    let groups: Vec<&[Stored]> = records.chunk_by(|a, b| a.turn_id == b.turn_id).collect();
    assert_eq!(groups.len(), turns.len(), "{records:#?}");
    for (group, (tool, answer)) in groups.into_iter().zip(turns) {
        let turn = data(answer)["turn_id"].as_str();
        for record in group {
            assert_eq!(record.turn_id.as_deref(), turn, "{record:?}");
            assert_eq!(record.tool.as_deref(), Some(*tool), "{record:?}");
        }
        let code = data(answer)["code"].as_str().unwrap();
        let events = group.iter().map(|record| record.event.as_deref().unwrap());
        let expected: &[&str] = match (code, data(answer)["nonce"].is_string()) {
            ("permission_required", true) => &["call", "permission", "denied"],
            ("delete_blocked" | "protected_path", _) => &["call", "denied"],
            _ if group.len() == 3 => &["call", "grant", "result"],
            _ => &["call", "result"],
        };
        assert_eq!(events.collect::<Vec<_>>(), expected);
        let (call, end) = (&group[0], &group[group.len() - 1]);
        assert!(call.args.is_some(), "{call:?}");
        assert_eq!(end.code.as_deref(), Some(code), "{end:?}");
        assert!(end.duration_ms.is_some() && end.bytes_out.is_some());
    }
    let grants = records
        .iter()
        .filter(|r| r.event.as_deref() == Some("grant"));
    assert_eq!(grants.count(), 1);
}
