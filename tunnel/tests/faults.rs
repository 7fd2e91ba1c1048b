//! The control plane in trouble, and deadlines.

mod common;

use std::time::{Duration, Instant};

use common::{Rig, SOON, Setup, ping};
use hands_testkit::{ControlPlane, Endpoint, Fault, RetryAfter, Script, Span};
use serde_json::json;

/// When each poll arrived.
fn polls(plane: &ControlPlane) -> Vec<Instant> {
    let exchanges = plane.exchanges();
    let polls = exchanges
        .iter()
        .filter(|e| e.endpoint == Some(Endpoint::Poll));
    polls.map(|e| e.at).collect()
}

#[tokio::test]
async fn polls_survive_every_kind_of_trouble() {
    let rig = Rig::start().await;
    rig.ready().await;
    let faults = [
        Fault::Status(500),
        Fault::Status(502),
        Fault::Status(503),
        Fault::Status(504),
        Fault::Status(429),
        Fault::Drop,
        Fault::DropInBody,
        Fault::TruncatedJson,
        Fault::SlowBody(Duration::from_millis(50)),
    ];
    for (n, fault) in (0..).zip(faults) {
        rig.plane
            .inject(Endpoint::Poll, fault.clone(), Span::Next(1));
        let id = rig.plane.push(ping(n));
        // A poll that waits already is spared by the fault; the next one is not.
        let again = rig.plane.push(ping(n));
        for id in [id, again] {
            rig.plane.final_answer(&id, SOON).await;
            assert_eq!(rig.plane.answers(&id).finals(), 1, "after {fault:?}");
        }
        rig.plane
            .wait_for("the fault to be met", SOON, |plane| {
                (plane.waiting_polls() > 0).then_some(())
            })
            .await;
    }
    rig.check().await;
}

#[tokio::test]
async fn polls_back_off_and_return_at_once() {
    let rig = Rig::start().await;
    rig.ready().await;
    rig.plane
        .inject(Endpoint::Poll, Fault::Status(503), Span::UntilHealed);
    rig.status_is("failed polls", |status| {
        status["poll"]["failures_in_a_row"].as_u64() >= Some(4)
    })
    .await;
    assert!(rig.reasons().await.contains(&"polls_fail".to_owned()));
    let at = polls(&rig.plane);
    let gaps: Vec<_> = at.windows(2).rev().take(3).map(|w| w[1] - w[0]).collect();
    // 0.2, 0.4, 0.8 s, each shortened by up to half.
    assert!(gaps[2] >= Duration::from_millis(100), "{gaps:?}");
    assert!(
        gaps[0] >= Duration::from_millis(350) && gaps[0] < Duration::from_secs(2),
        "{gaps:?}"
    );
    rig.plane.heal();
    rig.ready().await;
    rig.check().await;
}

#[tokio::test]
async fn retry_after_is_a_minimum_in_both_forms() {
    let rig = Rig::start().await;
    rig.ready().await;
    for after in [
        RetryAfter::Seconds(2),
        RetryAfter::DateIn(Duration::from_secs(3)),
    ] {
        let fault = Fault::StatusRetryAfter(429, after);
        rig.plane.inject(Endpoint::Poll, fault, Span::Next(1));
        // The poll that waits is spared; it is the next one that meets the fault.
        let before = rig.plane.polls();
        let id = rig.plane.push(ping(1));
        rig.plane.final_answer(&id, SOON).await;
        rig.plane
            .wait_for("a poll after the fault", SOON, |plane| {
                (plane.waiting_polls() > 0 && plane.polls() > before + 1).then_some(())
            })
            .await;
        let at = polls(&rig.plane);
        let refused = rig
            .plane
            .exchanges()
            .iter()
            .rfind(|e| e.status == Some(429))
            .unwrap()
            .at;
        let next = at.iter().find(|at| **at > refused);
        // The poll that waits now is not recorded yet: it came later than it would be counted.
        let waited = next.map_or(refused.elapsed(), |next| *next - refused);
        assert!(waited >= Duration::from_millis(1900), "{waited:?}");
    }
    rig.check().await;
}

#[tokio::test]
async fn a_refused_key_is_shown_and_rarely_tried() {
    for status in [401, 403] {
        let rig = Rig::start().await;
        rig.ready().await;
        let id = rig.plane.push(ping(1));
        rig.plane.final_answer(&id, SOON).await;
        rig.plane
            .inject(Endpoint::Poll, Fault::Status(status), Span::UntilHealed);
        let shown = rig
            .status_is("the operator's need", |status| {
                status["reasons"][0]["code"] == "needs_operator"
            })
            .await;
        let message = shown["reasons"][0]["message"].as_str().unwrap();
        assert!(message.contains(&status.to_string()), "{message}");
        let (code, page) = rig.page("/readyz").await;
        assert_eq!(code, 503, "{page}");
        let wait = shown["poll"]["trouble"]["retry_in_ms"].as_u64().unwrap();
        assert!((15_000..=300_000).contains(&wait), "{wait}");
        rig.check().await;
    }
}

#[tokio::test]
async fn half_open_polls_end_by_their_deadline() {
    let rig = Setup::default()
        .args(&[
            "--control-plane.poll-timeout",
            "500ms",
            "--control-plane.poll-deadline-guardrail",
            "300ms",
        ])
        .start()
        .await;
    rig.ready().await;
    rig.plane
        .inject(Endpoint::Poll, Fault::HalfOpen, Span::Next(2));
    rig.status_is("a poll in vain", |status| {
        status["poll"]["by_outcome"]["timeout"].as_u64() == Some(2)
    })
    .await;
    let id = rig.plane.push(ping(1));
    rig.plane.final_answer(&id, SOON).await;
    rig.ready().await;
    rig.check().await;
}

#[tokio::test]
async fn a_final_answer_is_tried_again_with_the_identical_body() {
    let rig = Rig::start().await;
    let faults = [
        Fault::Status(408),
        Fault::Status(429),
        Fault::Status(502),
        Fault::Status(503),
        Fault::Status(504),
        Fault::Drop,
    ];
    for fault in faults {
        rig.plane
            .inject(Endpoint::Response, fault.clone(), Span::Next(2));
        let id = rig.plane.push(ping(1));
        rig.plane.final_answer(&id, SOON).await;
        let posts = rig.plane.answers(&id).posts;
        assert_eq!(posts.len(), 3, "{fault:?}");
        assert!(posts.iter().all(|post| post.payload == posts[0].payload));
        assert!(
            posts
                .iter()
                .all(|post| post.shard_token == posts[0].shard_token)
        );
    }
    // It took effect and the connection broke: the second try is told 404, and that is the end.
    rig.plane
        .inject(Endpoint::Response, Fault::AcceptThenDrop, Span::Next(1));
    let id = rig.plane.push(ping(1));
    rig.status_is("a fulfilled command", |status| {
        status["commands"]["posts_by_outcome"]["already_fulfilled"] == 1
    })
    .await;
    let statuses: Vec<_> = rig
        .plane
        .answers(&id)
        .posts
        .iter()
        .map(|p| p.status)
        .collect();
    assert_eq!(statuses, [Some(200), Some(404)]);
    rig.check().await;
}

#[tokio::test]
async fn what_the_service_refuses_is_not_tried_again() {
    let rig = Rig::start().await;
    for status in [400, 404] {
        rig.plane
            .inject(Endpoint::Response, Fault::Status(status), Span::Next(1));
        let id = rig.plane.push(ping(1));
        rig.plane
            .wait_for("the refused post", SOON, |plane| {
                (plane.answers(&id).posts.len() == 1).then_some(())
            })
            .await;
        rig.status_is("nothing in flight", |s| s["commands"]["in_flight"] == 0)
            .await;
        let next = rig.plane.push(ping(2));
        rig.plane.final_answer(&next, SOON).await;
        assert_eq!(rig.plane.answers(&id).posts.len(), 1, "{status}");
    }
    rig.check().await;
}

#[tokio::test]
async fn an_answer_outlives_what_the_operator_or_the_service_mends() {
    let rig = Rig::start().await;
    rig.ready().await;
    for status in [401, 403, 500] {
        rig.plane
            .inject(Endpoint::Response, Fault::Status(status), Span::Next(1));
        let id = rig.plane.push(ping(1));
        let answer = rig.plane.final_answer(&id, SOON).await;
        let answers = rig.plane.answers(&id);
        let statuses: Vec<_> = answers.posts.iter().map(|post| post.status).collect();
        assert_eq!(statuses, [Some(status), Some(200)]);
        assert_eq!(answers.posts[0].payload, answer.payload);
    }
    rig.check().await;
}

#[tokio::test]
async fn an_answer_outlives_a_longer_trouble() {
    let rig = Rig::start().await;
    rig.ready().await;
    rig.plane
        .inject(Endpoint::Response, Fault::Status(503), Span::Next(5));
    let id = rig.plane.push(ping(1));
    let began = Instant::now();
    rig.plane.final_answer(&id, SOON).await;
    assert_eq!(
        rig.plane.answers(&id).finals(),
        6,
        "after {:?}",
        began.elapsed()
    );
    rig.check().await;
}

#[tokio::test]
async fn progress_is_posted_at_most_once_and_costs_no_result() {
    let rig = Rig::start().await;
    let planner = rig.planner();
    planner.initialize().await;
    // 429: not seen by the service, so it is sent again.
    rig.plane
        .inject(Endpoint::Response, Fault::Status(429), Span::Next(1));
    let call = planner.call_with_progress(json!(1), "progress", json!({"steps": 1, "ms": 100}));
    assert_eq!(call.text().await, "done");
    assert_eq!(rig.plane.answers(&call.request_id).notifies().len(), 1);
    // 503 and a broken connection: it may have been seen, so it is not; nor is the rest.
    for fault in [Fault::Status(503), Fault::AcceptThenDrop] {
        rig.plane
            .inject(Endpoint::Response, fault.clone(), Span::Next(1));
        let args = json!({"steps": 3, "ms": 100});
        let call = planner.call_with_progress(json!(2), "progress", args);
        assert_eq!(call.text().await, "done");
        let answers = rig.plane.answers(&call.request_id);
        let progress = answers.posts.iter().filter(|post| !post.is_final()).count();
        assert_eq!(progress, 1, "{fault:?}");
    }
    rig.check().await;
}

#[tokio::test]
async fn past_its_deadline_a_command_is_dropped_and_its_id_can_come_again() {
    let rig = Rig::start().await;
    let planner = rig.planner();
    planner.initialize().await;
    let pid = planner.call("pid", json!({})).text().await;
    let slow = rig.planner().timeout("300ms");
    let late = slow.call_as(0, "echo", json!({"text": "too late", "ms": 900}));
    let end = Instant::now() + Duration::from_millis(300);
    rig.status_is("a passed deadline", |s| {
        s["commands"]["deadlines_passed"] == 1
    })
    .await;
    assert!(Instant::now() >= end);
    // The same id while the first answer is still to come.
    let again = rig
        .planner()
        .call_as(0, "echo", json!({"text": "in time", "ms": 1000}));
    assert_eq!(again.text().await, "in time");
    assert!(rig.plane.answers(&late.request_id).posts.is_empty());
    let told = planner.call("cancelled", json!({})).text().await;
    assert_ne!(told, "[]", "the child is told that nobody waits");
    assert_eq!(planner.call("pid", json!({})).text().await, pid);
    rig.status_is("the late answer", |_| {
        rig.log().contains("discarded an answer nobody waits for")
    })
    .await;
    rig.check().await;
}

#[tokio::test]
async fn timeouts_valid_zero_malformed_and_absent() {
    let rig = Rig::start().await;
    let plane = &rig.plane;
    let zero = plane.push(ping(1).timeout("0s"));
    let zero_batch = plane.push_all([ping(2).timeout("0ms"), ping(3)]);
    for value in [json!("30s"), json!("1h"), json!("4500ms"), json!(null)] {
        let id = plane.push(ping(4).timeout(value));
        plane.final_answer(&id, SOON).await;
    }
    for value in [
        json!("1m30s"),
        json!(30),
        json!("-1s"),
        json!("5 s"),
        json!({}),
        json!("99999999h"),
    ] {
        let id = plane.push(ping(5).timeout(value.clone()).off_contract());
        plane.final_answer(&id, SOON).await;
    }
    plane.final_answer(&zero_batch[1], SOON).await;
    assert!(plane.answers(&zero).posts.is_empty());
    assert!(plane.answers(&zero_batch[0]).posts.is_empty());
    rig.check().await;
}

#[tokio::test]
async fn a_deadline_covers_the_delivery_too() {
    let rig = Rig::start().await;
    rig.ready().await;
    rig.plane
        .inject(Endpoint::Response, Fault::Status(503), Span::UntilHealed);
    let id = rig.plane.push(ping(1).timeout("500ms"));
    rig.status_is("a passed deadline", |s| {
        s["commands"]["deadlines_passed"] == 1
    })
    .await;
    rig.plane.heal();
    let next = rig.plane.push(ping(2));
    rig.plane.final_answer(&next, SOON).await;
    assert!(rig.plane.answers(&id).last().is_none());
    rig.check().await;
}

#[tokio::test]
async fn a_command_that_comes_again_is_not_carried_out_again() {
    let rig = Rig::start().await;
    let planner = rig.planner();
    let call = planner.call("echo", json!({"text": "x", "ms": 600}));
    rig.status_is("a call in flight", |s| s["commands"]["in_flight"] == 1)
        .await;
    rig.plane.redeliver(&call.request_id);
    call.text().await;
    rig.plane.redeliver(&call.request_id);
    rig.status_is("the second delivery", |_| {
        rig.log().contains("it is not repeated")
    })
    .await;
    let seen = planner.call("seen", json!({})).text().await;
    assert_eq!(seen.matches("tools/call").count(), 2, "{seen}");
    rig.check().await;
}

#[tokio::test]
async fn a_service_that_is_not_there_is_waited_for() {
    let script = Script::default();
    let first = ControlPlane::start(script.clone()).await;
    let address = first.address();
    drop(first);
    let rig = Setup::default()
        .args(&["--control-plane.base-url", &format!("http://{address}")])
        .start()
        .await;
    rig.status_is("failed polls", |s| {
        s["poll"]["failures_in_a_row"].as_u64() >= Some(1)
    })
    .await;
    assert!(
        rig.reasons().await.contains(&"no_poll".to_owned())
            || rig.reasons().await.contains(&"polls_fail".to_owned())
    );
    let second = ControlPlane::start(Script {
        listen: address,
        ..script
    })
    .await;
    let id = second.push(ping(1));
    second.final_answer(&id, SOON).await;
    rig.check().await;
}

#[tokio::test]
async fn a_small_answer_that_is_called_too_large_is_kept_and_told_once() {
    let rig = Rig::start().await;
    rig.ready().await;
    let fault = Fault::Status(413);
    rig.plane.inject(Endpoint::Response, fault, Span::Next(2));
    let id = rig.plane.push(ping(1));
    let answer = rig.plane.final_answer(&id, SOON).await;
    assert!(answer.json()["result"].is_object(), "{answer:?}");
    assert_eq!(rig.plane.answers(&id).finals(), 3);
    rig.check().await;
}
