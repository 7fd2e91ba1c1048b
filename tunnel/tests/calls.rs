//! Calls through a real client to a real server.

mod common;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use common::{Rig, SOON, Setup};
use hands_testkit::{Command, Script};
use serde_json::{Value, json};

#[tokio::test]
async fn discover_first_then_initialize_then_calls() {
    let rig = Rig::start().await;
    let planner = rig.planner();
    assert!(planner.discover().result().await["supportedVersions"].is_array());
    let result = planner.initialize().await;
    assert_eq!(result["serverInfo"]["name"], "mcp-echo");
    assert_eq!(
        planner.list_tools().result().await["tools"][0]["name"],
        "echo"
    );
    let text = planner.call("echo", json!({"text": "hello"})).text().await;
    assert_eq!(text, "hello");
    rig.check().await;
}

#[tokio::test]
async fn a_server_that_does_not_know_discover_is_served_all_the_same() {
    let rig = Setup::default()
        .echo(&["--no-discover", "--strict"])
        .start()
        .await;
    let planner = rig.planner();
    let call = planner.discover();
    let error = call.error().await;
    assert!(
        [-32601, -32602].contains(&error["code"].as_i64().unwrap()),
        "{error}"
    );
    // A call before `initialize` is the server's to judge; its error passes untouched.
    let error = planner.call("echo", json!({})).error().await;
    assert_eq!(error, json!({"code": -32602, "message": "not initialized"}));
    planner.initialize().await;
    assert_eq!(planner.call("echo", json!({"text": "x"})).text().await, "x");
    rig.check().await;
}

#[tokio::test]
async fn ids_of_every_kind_come_back_and_never_collide() {
    let rig = Rig::start().await;
    let planner = rig.planner();
    let ids = [
        json!(0),
        json!("0"),
        json!(""),
        json!(-5),
        json!(1.5),
        json!("öλ\n\""),
        json!(u64::MAX),
    ];
    // The same id four times at once: each gets its own answer.
    let calls: Vec<_> = (0..4)
        .flat_map(|round| ids.iter().map(move |id| (round, id.clone())))
        .map(|(round, id)| {
            let text = format!("{round} {id}");
            let args = json!({"text": text, "ms": 30 * (4 - round)});
            (planner.call_as(id, "echo", args), text)
        })
        .collect();
    for (call, text) in calls {
        assert_eq!(call.text().await, text);
    }
    rig.check().await;
}

#[tokio::test]
async fn many_calls_share_one_child_at_once() {
    let rig = Rig::start().await;
    let planner = rig.planner();
    let pid = planner.call("pid", json!({})).text().await;
    let began = Instant::now();
    let calls: Vec<_> = (0..50)
        .map(|n| planner.call("echo", json!({"text": n.to_string(), "ms": 300})))
        .collect();
    for (n, call) in calls.iter().enumerate() {
        assert_eq!(call.text().await, n.to_string());
    }
    let took = began.elapsed();
    assert!(
        took < Duration::from_secs(6),
        "50 calls of 0.3 s took {took:?}"
    );
    assert_eq!(planner.call("pid", json!({})).text().await, pid);
    rig.check().await;
}

#[tokio::test]
async fn a_batch_beyond_the_limit_is_carried_out_whole() {
    let script = Script {
        batch: Some(60),
        ..Script::default()
    };
    let rig = Setup {
        script,
        ..Setup::default()
    }
    .args(&["--mcp.max-concurrent-requests", "3"])
    .start()
    .await;
    let planner = rig.planner();
    planner.initialize().await;
    let command = |n: i32| {
        let params = json!({"name": "echo", "arguments": {"text": n.to_string()}});
        Command::jsonrpc(
            json!({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params}),
        )
    };
    let ids = rig.plane.push_all((0..60).map(command));
    for (n, id) in ids.iter().enumerate() {
        let post = rig.plane.final_answer(id, SOON).await;
        assert_eq!(post.json()["result"]["content"][0]["text"], n.to_string());
        assert_eq!(rig.plane.answers(id).finals(), 1);
    }
    rig.check().await;
}

#[tokio::test]
async fn progress_comes_before_the_result_and_under_the_planners_token() {
    let rig = Rig::start().await;
    let planner = rig.planner();
    let tokens = [json!("tok"), json!(0), json!("tok")];
    let calls: Vec<_> = tokens
        .iter()
        .map(|token| {
            planner.call_with_progress(token.clone(), "progress", json!({"steps": 3, "ms": 20}))
        })
        .collect();
    for (call, token) in calls.iter().zip(&tokens) {
        assert_eq!(call.text().await, "done");
        let answers = rig.plane.answers(&call.request_id);
        let news = answers.notifies();
        let steps: Vec<_> = news.iter().map(|post| &post.json()["params"]).collect();
        assert_eq!(steps.len(), 3, "{steps:?}");
        for (n, step) in steps.iter().enumerate() {
            assert_eq!(step["progressToken"], *token);
            assert_eq!(step["progress"], json!(n + 1));
        }
        assert!(answers.posts.last().unwrap().is_final());
    }
    // Without a token nothing is told.
    let call = planner.call("progress", json!({"steps": 2}));
    call.text().await;
    assert!(rig.plane.answers(&call.request_id).notifies().is_empty());
    rig.check().await;
}

#[tokio::test]
async fn notifications_and_the_end_of_a_session_are_acknowledged() {
    let rig = Rig::start().await;
    let planner = rig.planner();
    planner.initialize().await;
    let id = planner.notify("notifications/roots/list_changed", json!({}));
    let ack = rig.plane.final_answer(&id, SOON).await;
    assert_eq!(
        (ack.kind(), ack.payload["resp_code"].as_u64()),
        ("notify_ack", Some(202))
    );
    let id = rig.plane.push(Command::session_termination("session-1"));
    let end = rig.plane.final_answer(&id, SOON).await;
    assert_eq!(end.kind(), "session_termination_response");
    assert_eq!(end.payload["resp_code"], 204);
    let seen = planner.call("seen", json!({})).text().await;
    assert!(
        seen.ends_with("notifications/initialized notifications/roots/list_changed tools/call"),
        "{seen}"
    );
    rig.check().await;
}

#[tokio::test]
async fn each_mcp_session_has_a_server_of_its_own() {
    let rig = Rig::start().await;
    let (main, one, two) = (
        rig.planner(),
        rig.planner().in_session("one"),
        rig.planner().in_session("two"),
    );
    let mut pids = HashSet::new();
    for planner in [&main, &one, &two] {
        planner.initialize().await;
        pids.insert(planner.call("pid", json!({})).text().await);
    }
    assert_eq!(pids.len(), 3);
    let pid = one.call("pid", json!({})).text().await;
    assert!(pids.contains(&pid));
    let id = rig.plane.push(Command::session_termination("one"));
    rig.plane.final_answer(&id, SOON).await;
    common::gone(&pid).await;
    assert_eq!(
        two.call("echo", json!({"text": "still"})).text().await,
        "still"
    );
    rig.check().await;
}

#[tokio::test]
async fn a_result_passes_byte_for_byte() {
    let rig = Rig::start().await;
    let raw = r#"{"a":1.0,"z":12345678901234567890123,"e":1E+2,"s":"\u00e9\ud83d\ude00","n":[ ]}"#;
    let call = rig.planner().call("raw", json!({"raw": raw}));
    // The test's own JSON reader would lose the large numbers: look at the bytes.
    rig.plane
        .wait_for("the post", SOON, |plane| {
            plane.exchanges().into_iter().find(|e| {
                let body = String::from_utf8_lossy(&e.body);
                body.contains(&call.request_id) && body.contains(raw)
            })
        })
        .await;
    drop(call);
    rig.check().await;
}

#[tokio::test]
async fn an_oversized_result_becomes_an_error_that_names_the_size() {
    let rig = Setup::default()
        .args(&["--post.max-bytes", "200000"])
        .start()
        .await;
    let planner = rig.planner();
    assert_eq!(
        planner
            .call("big", json!({"bytes": 150_000}))
            .text()
            .await
            .len(),
        150_000
    );
    for args in [
        json!({"bytes": 5_000_000}),
        json!({"bytes": 5_000_000, "id_last": true}),
    ] {
        let error = planner.call("big", args).error().await;
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains("50000") && message.contains("too large"),
            "{message}"
        );
        assert_eq!(error["data"]["tunnel_failure"]["source"], "protocol");
    }
    assert_eq!(
        planner.call("echo", json!({"text": "on"})).text().await,
        "on"
    );
    rig.check().await;
}

#[tokio::test]
async fn what_the_service_refuses_for_its_size_becomes_an_error_too() {
    let script = Script {
        max_body: 100_000,
        ..Script::default()
    };
    let rig = Setup {
        script,
        ..Setup::default()
    }
    .start()
    .await;
    let error = rig
        .planner()
        .call("big", json!({"bytes": 300_000}))
        .error()
        .await;
    assert!(
        error["message"].as_str().unwrap().contains("413"),
        "{error}"
    );
    rig.check().await;
}

#[tokio::test]
async fn errors_of_the_server_pass_untouched() {
    let rig = Rig::start().await;
    let call = rig.planner().call("fail", json!({}));
    assert_eq!(
        call.error().await,
        json!({"code": -32003, "message": "a capability is missing"})
    );
    assert_eq!(call.answer().await.payload["resp_code"], 200);
    rig.check().await;
}

#[tokio::test]
async fn a_request_of_the_server_is_refused_and_never_forwarded() {
    let rig = Rig::start().await;
    let planner = rig.planner();
    let call = planner.call("ask", json!({"method": "sampling/createMessage"}));
    let answer: Value = serde_json::from_str(&call.text().await).unwrap();
    assert_eq!(answer["error"]["code"], -32601);
    assert_eq!(rig.plane.answers(&call.request_id).posts.len(), 1);
    let ping = planner.call("ask", json!({"method": "ping"})).text().await;
    assert_eq!(
        serde_json::from_str::<Value>(&ping).unwrap()["result"],
        json!({})
    );
    rig.check().await;
}

#[tokio::test]
async fn what_is_no_message_is_skipped() {
    let rig = Setup::default().echo(&["--garbage"]).start().await;
    let planner = rig.planner();
    planner.initialize().await;
    assert_eq!(
        planner.call("garbage", json!({})).text().await,
        "after garbage"
    );
    assert_eq!(
        planner.call("stray", json!({})).text().await,
        "after a stray"
    );
    assert_eq!(planner.call("twice", json!({})).text().await, "first");
    assert_eq!(planner.call("echo", json!({"text": "x"})).text().await, "x");
    let status = rig.status().await;
    assert_eq!(status["server"]["restarts"], 0);
    let metrics = rig.page("/metrics").await.1;
    assert!(
        metrics.contains("hands_tunnel_child_lines_skipped_total 6"),
        "{metrics}"
    );
    assert!(
        metrics.contains("hands_tunnel_late_answers_total 3"),
        "{metrics}"
    );
    rig.check().await;
}

#[tokio::test]
async fn commands_that_cannot_be_carried_out() {
    let rig = Rig::start().await;
    let plane = &rig.plane;
    let unknown = plane.push(Command::unknown("oauth_from_the_future"));
    let ping = || Command::jsonrpc(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    let channel = plane.push(ping().channel("harpoon"));
    let no_message = plane.push(Command::jsonrpc(json!([1])).off_contract());
    let no_method = plane.push(Command::jsonrpc(json!({"id": 7})));
    let no_type = plane.push(ping().without("command_type").without("channel"));
    for id in [&channel, &no_message, &no_method] {
        let post = plane.final_answer(id, SOON).await;
        assert_eq!(post.payload["resp_code"], 400, "{}", post.payload);
        assert_eq!(post.json()["error"]["code"], -32603);
    }
    assert_eq!(
        plane.final_answer(&channel, SOON).await.payload["channel"],
        "harpoon"
    );
    assert_eq!(
        plane.final_answer(&no_type, SOON).await.json()["result"],
        json!({})
    );
    assert!(plane.answers(&unknown).posts.is_empty());
    assert!(rig.log().contains("oauth_from_the_future"));
    rig.check().await;
}

#[tokio::test]
async fn a_cancellation_reaches_its_request_under_the_childs_id() {
    let rig = Rig::start().await;
    let planner = rig.planner();
    planner.initialize().await;
    let other = planner.call_as("keep", "echo", json!({"text": "kept", "ms": 1500}));
    let call = planner.call_as("stop", "silent", json!({}));
    rig.status_is("two calls in flight", |status| {
        status["commands"]["in_flight"] == 2
    })
    .await;
    planner.notify("notifications/cancelled", json!({"requestId": "stop"}));
    let error = call.error().await;
    assert!(
        error["message"].as_str().unwrap().contains("cancelled"),
        "{error}"
    );
    assert_eq!(other.text().await, "kept");
    let told: Vec<u64> =
        serde_json::from_str(&planner.call("cancelled", json!({})).text().await).unwrap();
    assert_eq!(told.len(), 1);
    rig.check().await;
}

#[tokio::test]
async fn the_key_reaches_neither_server_nor_log() {
    let rig = Setup::default()
        .args(&["--control-plane.api-key", "env:MY_OWN_KEY"])
        .env("MY_OWN_KEY", "test-key-0123456789")
        .env("CONTROL_PLANE_API_KEY", "another-key")
        .env("KEPT", "kept")
        .start()
        .await;
    let environment = rig.planner().call("environment", json!({})).text().await;
    assert!(environment.contains("KEPT=kept"));
    for secret in ["test-key-0123456789", "another-key"] {
        assert!(!environment.contains(secret), "{environment}");
    }
    rig.check().await;
}
