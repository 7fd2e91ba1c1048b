//! A daemon with a tunnel, against a control plane on loopback.
#![allow(clippy::unwrap_used)] // Helpers of tests are not marked as tests.

mod common;

use common::tunneled::{self, TunnelClient, key, reads_a_file, relay_of};
use common::{Daemon, Place, alive, send};
use hands_control::types::daemon::{ChildState, Done};
use hands_testkit::{ControlPlane, Endpoint, Fault, Planner, Script, Span};
use rustix::process::Signal;
use serde_json::json;
use std::process::Command;
use std::time::Duration;

fn configure(command: &mut Command, plane: &ControlPlane) {
    tunneled::configure(command, plane, &TunnelClient::of_this_run());
}

async fn start(place: &Place, plane: &ControlPlane) -> Daemon {
    tunneled::start(place, plane, &TunnelClient::of_this_run()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planners_call_goes_all_the_way_and_no_secret_shows() {
    let plane = ControlPlane::start(Script::default()).await;
    let place = Place::new();
    let daemon = start(&place, &plane).await;
    let status = daemon.ready().await;
    assert!(status.tunnel.configured && !status.readiness.local_only);
    Planner::new(&plane).initialize().await;
    reads_a_file(&place, &plane).await;

    let secret = plane.api_key();
    let file = place.home().tunnel_key_file();
    for path in ["/api/status", "/readyz", "/metrics", "/healthz"] {
        let (_, body) = daemon.get(path).await;
        assert!(
            !body.contains(secret) && !body.contains(file.to_str().unwrap()),
            "{path}: {body}"
        );
        assert!(!body.contains("hello.txt"), "{path}: {body}");
    }
    assert!(!place.log().contains(secret));
    for pid in [daemon.status().await.server.pid, status.tunnel.child.pid] {
        let environment = std::fs::read(format!("/proc/{}/environ", pid.unwrap())).unwrap();
        let arguments = std::fs::read(format!("/proc/{}/cmdline", pid.unwrap())).unwrap();
        for bytes in [environment, arguments] {
            assert!(!String::from_utf8_lossy(&bytes).contains(secret));
        }
    }
    let (_, page) = daemon.get("/metrics").await;
    assert!(
        page.contains("hands_child_state{child=\"tunnel\",state=\"ready\"} 1"),
        "{page}"
    );
    assert!(
        page.contains("hands_tunnel_last_good_poll_age_seconds"),
        "{page}"
    );
    let tunnel = status.tunnel.child.pid.unwrap();
    daemon.stop().await;
    assert!(!alive(tunnel));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_tunnel_and_a_killed_server_come_back() {
    let plane = ControlPlane::start(Script::default()).await;
    let place = Place::new();
    let daemon = start(&place, &plane).await;
    let first = daemon.ready().await;
    send(first.tunnel.child.pid.unwrap(), Signal::KILL);
    let second = daemon
        .until("another tunnel", |status| {
            status.readiness.ready && status.tunnel.child.restarts == 1
        })
        .await;
    assert_eq!(
        (second.tunnel.child.restarts, second.server.restarts),
        (1, 0)
    );
    send(second.server.pid.unwrap(), Signal::KILL);
    let third = daemon
        .until("another server", |status| {
            status.readiness.ready && status.server.pid != second.server.pid
        })
        .await;
    assert_eq!(
        third.tunnel.child.pid, second.tunnel.child.pid,
        "the relay waits for the server"
    );
    reads_a_file(&place, &plane).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_key_needs_the_operator_and_nothing_is_restarted() {
    let plane = ControlPlane::start(Script::default()).await;
    let place = Place::new();
    key(&place, "sk-not-the-right-one");
    let daemon = place.start_with(|command| configure(command, &plane)).await;
    let status = daemon
        .until("refused", |status| {
            status.tunnel.child.state == ChildState::NeedsOperator
        })
        .await;
    assert!(!status.readiness.ready);
    let codes: Vec<&str> = status
        .readiness
        .reasons
        .iter()
        .map(|r| r.code.as_str())
        .collect();
    assert_eq!(codes, ["tunnel_needs_operator"]);
    assert_eq!(daemon.get("/readyz").await.0, 503);
    // Mended by the operator: the right key, and a restart.
    key(&place, plane.api_key());
    let client = daemon.client().await;
    let _: Done = client
        .post("/v1/restart", &json!({"what": "tunnel"}))
        .await
        .unwrap();
    let status = daemon.ready().await;
    assert_eq!(
        status.tunnel.child.restarts, 0,
        "the operator's own restart is not counted"
    );
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_in_trouble_is_waited_for_without_a_restart() {
    let plane = ControlPlane::start(Script::default()).await;
    let place = Place::new();
    let daemon = start(&place, &plane).await;
    let first = daemon.ready().await;
    plane.inject(
        Endpoint::Poll,
        Fault::Status(503),
        Span::For(Duration::from_secs(15)),
    );
    let status = daemon
        .within(Duration::from_secs(30), "not ready", |status| {
            !status.readiness.ready
        })
        .await;
    assert_eq!(status.readiness.reasons[0].code, "tunnel_unreachable");
    let status = daemon
        .within(Duration::from_secs(60), "ready again", |status| {
            status.readiness.ready
        })
        .await;
    assert_eq!(status.tunnel.child.pid, first.tunnel.child.pid);
    assert_eq!(status.tunnel.child.restarts, 0);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_tunnel_is_seen_and_replaced() {
    let plane = ControlPlane::start(Script::default()).await;
    let place = Place::new();
    let daemon = start(&place, &plane).await;
    let hung = daemon.ready().await.tunnel.child.pid.unwrap();
    send(hung, Signal::STOP);
    daemon
        .within(Duration::from_secs(25), "not ready", |status| {
            !status.readiness.ready
        })
        .await;
    let status = daemon
        .within(Duration::from_secs(90), "replaced", |status| {
            status.readiness.ready && status.tunnel.child.pid != Some(hung)
        })
        .await;
    assert_eq!(status.tunnel.child.restarts, 1);
    assert!(!alive(hung));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_without_its_key_is_told_and_starts_once_it_is_set_up() {
    let plane = ControlPlane::start(Script::default()).await;
    let place = Place::new();
    let daemon = place.start_with(|command| configure(command, &plane)).await;
    let status = daemon
        .until("told", |status| {
            status.tunnel.child.state == ChildState::NeedsOperator
        })
        .await;
    assert!(status.tunnel.child.reason.unwrap().contains("tunnel setup"));
    key(&place, plane.api_key());
    daemon.signal(Signal::HUP);
    daemon.ready().await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_relay_comes_back_with_either_client() {
    // The built-in client starts another one; the official one ends with exit 0, and is started again.
    let plane = ControlPlane::start(Script::default()).await;
    let place = Place::new();
    let daemon = start(&place, &plane).await;
    let status = daemon.ready().await;
    let relay = relay_of(status.tunnel.child.pid.unwrap()).unwrap();
    send(relay, Signal::KILL);
    common::gone(relay).await;
    daemon.ready().await;
    // Its restart may be a moment away still.
    let planner = Planner::new(&plane);
    let deadline = tokio::time::Instant::now() + common::SOON;
    loop {
        let call = planner.list_tools();
        let answer = plane
            .final_answer(&call.request_id, Duration::from_secs(20))
            .await;
        if answer.json()["result"]["tools"].is_array() {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{answer:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(daemon.status().await.server.restarts, 0);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_daemons_tunnel_and_relay_are_gone_after_the_next_start() {
    let plane = ControlPlane::start(Script::default()).await;
    let place = Place::new();
    let first = start(&place, &plane).await;
    let tunnel = first.ready().await.tunnel.child.pid.unwrap();
    let relay = relay_of(tunnel).unwrap();
    first.kill();
    let second = start(&place, &plane).await;
    second.ready().await;
    common::gone(tunnel).await;
    common::gone(relay).await;
    reads_a_file(&place, &plane).await;
    second.stop().await;
    common::none_left(&place).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_do_not_reach_the_server_are_seen_and_mended() {
    let plane = ControlPlane::start(Script::default()).await;
    let place = Place::new();
    let daemon = start(&place, &plane).await;
    let first = daemon.ready().await.tunnel.child.pid.unwrap();
    Planner::new(&plane).initialize().await;
    reads_a_file(&place, &plane).await;
    let status = daemon
        .until("answered, and not just now", |status| {
            status.tunnel.last_answered_s >= Some(6)
        })
        .await;
    assert_eq!(status.tunnel.at_work_s, None);
    // Between the two, and neither can tell alone: the tunnel has passed them on, the server has nothing to do.
    let relay = relay_of(first).unwrap();
    send(relay, Signal::STOP);
    let call = Planner::new(&plane).list_tools();
    let status = daemon
        .within(Duration::from_secs(25), "seen", |status| {
            let reasons = &status.readiness.reasons;
            reasons.iter().any(|reason| {
                reason.code == "tunnel_calls_fail" && reason.message.contains("none of them")
            })
        })
        .await;
    assert_eq!(status.server.restarts, 0);
    let status = daemon
        .within(Duration::from_secs(60), "mended", |status| {
            status.readiness.ready && status.tunnel.child.pid != Some(first)
        })
        .await;
    assert_eq!(
        (status.tunnel.child.restarts, status.server.restarts),
        (1, 0)
    );
    common::gone(relay).await;
    // The one that was held has its one answer, and the next one works.
    let answers = plane.answers(&call.request_id);
    assert!(answers.finals() <= 1, "{answers:?}");
    reads_a_file(&place, &plane).await;
    daemon.stop().await;
}
