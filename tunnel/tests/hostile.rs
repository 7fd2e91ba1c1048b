//! A service and a planner that ask for the worst.

mod common;

use std::time::{Duration, Instant};

use common::{Rig, SOON, Setup, ping};
use hands_testkit::{Command, ControlPlane, Endpoint, Fault, Script, Span};
use serde_json::{Value, json};

/// The message of a reason not to be ready.
fn reason(status: &Value, code: &str) -> Option<String> {
    let mut reasons = status["reasons"].as_array()?.iter();
    let found = reasons.find(|reason| reason["code"] == code)?;
    found["message"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn a_client_with_all_slots_taken_is_ready_and_polls_again() {
    let rig = Setup::default()
        .args(&[
            "--mcp.max-concurrent-requests",
            "1",
            "--control-plane.poll-timeout",
            "100ms",
        ])
        .start()
        .await;
    rig.ready().await;
    // Longer than a poll may stay away.
    let planner = rig.planner();
    let call = planner.call("echo", json!({"text": "done", "ms": 11_500}));
    rig.status_is("no free slot", |s| s["poll"]["busy_ms"].as_u64() > Some(0))
        .await;
    let full = rig
        .status_is("a good poll that is long ago", |s| {
            assert_eq!(s["ready"], true, "{s:#}");
            s["poll"]["last_good_age_ms"].as_u64() > Some(10_500)
        })
        .await;
    assert!(full["poll"]["busy_ms"].as_u64() > Some(9_000), "{full:#}");
    assert_eq!(call.text().await, "done");
    assert_eq!(rig.reasons().await, [""; 0]);
    rig.check().await;
}

#[tokio::test]
async fn a_slow_answer_to_a_poll_is_the_services_slowness() {
    let rig = Setup::default()
        .args(&["--control-plane.poll-timeout", "100ms"])
        .start()
        .await;
    rig.ready().await;
    let slow = Fault::SlowBody(Duration::from_secs(4));
    rig.plane.inject(Endpoint::Poll, slow, Span::UntilHealed);
    // The poll that waits already is spared.
    let before = rig.plane.polls();
    rig.plane
        .wait_for("another poll", SOON, |plane| {
            (plane.polls() > before + 1).then_some(())
        })
        .await;
    let id = rig.plane.push(ping(1));
    rig.status_is("a slow poll", |s| {
        assert_eq!(reason(s, "polls_stale"), None);
        reason(s, "polls_slow").is_some()
    })
    .await;
    rig.plane.heal();
    rig.plane.final_answer(&id, SOON).await;
    rig.ready().await;
    rig.check().await;
}

#[tokio::test]
async fn more_sessions_than_there_may_be_are_refused_and_cost_no_other() {
    let rig = Rig::start().await;
    rig.ready().await;
    let names: Vec<_> = (0..20).map(|n| format!("session-{n}")).collect();
    let planners: Vec<_> = names
        .iter()
        .map(|name| rig.planner().in_session(name))
        .collect();
    let calls: Vec<_> = planners
        .iter()
        .map(|planner| planner.call("echo", json!({"text": "done", "ms": 1500})))
        .collect();
    let mut refused = 0;
    for call in &calls {
        let answer = call.answer().await.json().clone();
        if answer["result"].is_object() {
            assert_eq!(answer["result"]["content"][0]["text"], "done");
            continue;
        }
        let error = &answer["error"];
        let source = &error["data"]["tunnel_failure"]["source"];
        assert_eq!(source, "client_internal", "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("16 sessions are in use"), "{message}");
        refused += 1;
    }
    assert_eq!(refused, 4);
    assert_eq!(rig.reasons().await, [""; 0]);
    // One that nobody uses any more makes room.
    let text = rig
        .planner()
        .in_session("another")
        .call("echo", json!({"text": "room"}));
    assert_eq!(text.text().await, "room");
    rig.check().await;
}

#[tokio::test]
async fn a_call_of_a_session_that_is_ended_is_answered_at_once_and_counts_against_nobody() {
    let rig = Rig::start().await;
    rig.ready().await;
    for n in 0..3 {
        let name = format!("session-{n}");
        let planner = rig.planner().in_session(&name);
        planner.list_tools().result().await;
        let call = planner.call("silent", json!({}));
        rig.status_is("the call", |s| s["commands"]["in_flight"] == 1)
            .await;
        let began = Instant::now();
        rig.plane.push(Command::session_termination(&name));
        let error = call.error().await;
        assert_eq!(error["data"]["tunnel_failure"]["source"], "client_internal");
        assert!(began.elapsed() < Duration::from_secs(9));
    }
    assert_eq!(rig.reasons().await, [""; 0]);
    rig.check().await;
}

#[tokio::test]
async fn refused_answers_make_the_client_not_ready_until_one_is_taken() {
    let rig = Rig::start().await;
    rig.ready().await;
    let cases = [
        (401, "needs_operator", "unauthorized"),
        (403, "needs_operator", "unauthorized"),
        (503, "posts_refused", "server_error"),
        (400, "posts_refused", "client_error"),
    ];
    for (status, code, outcome) in cases {
        let fault = Fault::Status(status);
        rig.plane
            .inject(Endpoint::Response, fault, Span::UntilHealed);
        let ids = rig.plane.push_all((0..3).map(ping));
        let page = rig
            .status_is("refused answers", |s| {
                reason(s, code).is_some()
                    && s["commands"]["posts_by_outcome"][outcome].as_u64() > Some(0)
            })
            .await;
        let message = reason(&page, code).unwrap();
        assert!(message.contains(&status.to_string()), "{message}");
        rig.plane.heal();
        let next = rig.plane.push(ping(9));
        rig.plane.final_answer(&next, SOON).await;
        rig.ready().await;
        if status != 400 {
            for id in ids {
                rig.plane.final_answer(&id, SOON).await;
            }
        }
    }
    rig.check().await;
}

#[tokio::test]
async fn an_unknown_tunnel_needs_the_operator() {
    // With no record of the tunnel either it is plain at once.
    let plane = ControlPlane::start(Script::default()).await;
    for endpoint in [Endpoint::Metadata, Endpoint::Poll] {
        plane.inject(endpoint, Fault::Status(404), Span::UntilHealed);
    }
    let unknown = Setup::default()
        .args(&["--control-plane.base-url", &plane.base_url()])
        .start()
        .await;
    let page = unknown
        .status_is("the operator's need", |s| {
            reason(s, "needs_operator").is_some()
        })
        .await;
    let message = reason(&page, "needs_operator").unwrap();
    assert!(message.contains("handsctl tunnel setup"), "{message}");
    unknown.check().await;

    let gone = Rig::start().await;
    gone.ready().await;
    gone.plane
        .inject(Endpoint::Poll, Fault::Status(404), Span::UntilHealed);
    let page = gone
        .status_is("the operator's need", |s| {
            reason(s, "needs_operator").is_some()
        })
        .await;
    assert_eq!(page["poll"]["by_outcome"]["not_found"], 3);
    gone.plane.heal();
    gone.ready().await;
    gone.check().await;
}
