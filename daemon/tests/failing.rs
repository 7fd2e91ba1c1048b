//! Ready but failing: processes that are there and do not do their work. Each is seen by `/readyz` within the poll
//! time-out and 15 s, with its reason, and mended by a restart.
#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests are not marked as tests.

mod common;

use common::tunneled::{self, TunnelClient, reads_a_file, relay_of};
use common::{Daemon, Place, alive, built, none_left, send};
use hands_control::types::daemon::Status;
use hands_testkit::{ControlPlane, Planner, Script};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

/// The poll time-out of these tests.
const POLL: &str = "10";
/// Within this the failure must show.
const SEEN_WITHIN: Duration = Duration::from_secs(10 + 15);
/// Within this the restart must have mended it: a process that is hung is given time to end by itself.
const MENDED_WITHIN: Duration = Duration::from_secs(75);

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_server() {
    let rig = Rig::start(TunnelClient::of_this_run(), |_, _| {}).await;
    let hung = rig.first.server.pid.unwrap();
    send(hung, Signal::STOP);
    let mended = rig.is_seen_and_mended("server_silent").await;
    assert_eq!(
        (mended.server.restarts, mended.tunnel.child.restarts),
        (1, 0)
    );
    assert!(!alive(hung));
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_that_does_not_poll_any_more() {
    let rig = Rig::start(TunnelClient::of_this_run(), |_, _| {}).await;
    let hung = rig.first.tunnel.child.pid.unwrap();
    send(hung, Signal::STOP);
    let mended = rig.is_seen_and_mended("tunnel_silent").await;
    assert_eq!(
        (mended.server.restarts, mended.tunnel.child.restarts),
        (0, 1)
    );
    assert!(!alive(hung));
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_that_is_gone_with_exit_status_0() {
    let rig = Rig::start(TunnelClient::of_this_run(), |_, _| {}).await;
    // Both clients end so when they are asked to; nobody of ours has asked.
    send(rig.first.tunnel.child.pid.unwrap(), Signal::TERM);
    let mended = rig.is_seen_and_mended("tunnel_down").await;
    assert_eq!(
        (mended.server.restarts, mended.tunnel.child.restarts),
        (0, 1)
    );
    let exit = mended.tunnel.child.last_exit.unwrap();
    assert_eq!(exit, "exit status 0");
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_answers_nothing() {
    let rig = Rig::start(TunnelClient::Builtin, |_, _| {}).await;
    let relay = relay_of(rig.first.tunnel.child.pid.unwrap()).unwrap();
    send(relay, Signal::STOP);
    // The tunnel's client replaces it, or is itself replaced: either mends it.
    let mended = rig.is_seen_and_mended("tunnel_link").await;
    assert_eq!(mended.server.restarts, 0);
    common::gone(relay).await;
    rig.end().await;
}

/// A relay that is well as long as nothing is asked of it, and takes every call with it; under another tunnel client
/// than its first it is a real one.
const BROKEN_RELAY: &str = r#"#!/bin/sh
case "$1" in --relay) ;; *) exec "$REAL_MCP" "$@" ;; esac
[ -e "$FIRST_PARENT" ] || echo "$PPID" >"$FIRST_PARENT"
[ "$(cat "$FIRST_PARENT")" = "$PPID" ] || exec "$REAL_MCP" "$@"
while read -r line; do
    case "$line" in
    *tools/call*) exit 1 ;;
    *'"id":'*) id=${line#*'"id":'}; printf '{"jsonrpc":"2.0","id":%s,"result":{}}\n' "${id%%[!0-9]*}" ;;
    esac
done
"#;

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_all_fail() {
    let rig = Rig::start(TunnelClient::Builtin, |place, command| {
        let script = place.root().join("relay");
        std::fs::write(&script, BROKEN_RELAY).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        command
            .env("HANDS_MCP_BIN", script)
            .env("REAL_MCP", built("hands-mcp"))
            .env("FIRST_PARENT", place.root().join("first-parent"));
    })
    .await;
    for _ in 0..3 {
        let answer = rig
            .planner()
            .call("read_file", json!({"path": "a"}))
            .answer()
            .await;
        assert_eq!(answer.payload["resp_code"], 502, "{answer:?}");
    }
    let mended = rig.is_seen_and_mended("tunnel_calls_fail").await;
    assert_eq!(
        (mended.server.restarts, mended.tunnel.child.restarts),
        (0, 1)
    );
    rig.end().await;
}

/// A call that outlasts its time-out and an id that comes again make the official client fail every call from then on.
#[tokio::test(flavor = "multi_thread")]
async fn calls_that_all_fail_in_the_official_client() {
    let Some(client) = TunnelClient::official() else {
        eprintln!("skipped, for HANDS_TUNNEL_CLIENT names no official client");
        return;
    };
    let rig = Rig::start(client, |_, _| {}).await;
    let hasty = Planner::new(&rig.plane).timeout("1s");
    let late = hasty.call_as(0, "bash", json!({"command": "sleep 3"}));
    let handed_out =
        |plane: &ControlPlane| plane.answers(&late.request_id).delivered.first().copied();
    rig.plane
        .wait_for("the call to be handed out", common::SOON, handed_out)
        .await;
    let calling = async {
        // Some version may do better: then there is nothing to be seen.
        let mut failed = 0;
        while failed < 3 {
            let call = rig
                .planner()
                .call_as(0, "read_file", json!({"path": "/etc/hostname"}));
            let answer = call.answer().await;
            if answer.json()["result"].is_object() {
                break;
            }
            failed += 1;
        }
        failed == 3
    };
    if calling.await {
        let mended = rig.is_seen_and_mended("tunnel_calls_fail").await;
        assert_eq!(
            (mended.server.restarts, mended.tunnel.child.restarts),
            (0, 1)
        );
    } else {
        eprintln!("this official client goes on after a time-out: nothing to mend");
    }
    rig.end().await;
}

struct Rig {
    daemon: Daemon,
    plane: ControlPlane,
    place: Place,
    /// As it was when all was well.
    first: Status,
}

impl Rig {
    async fn start(client: TunnelClient, change: impl FnOnce(&Place, &mut Command)) -> Rig {
        let script = Script {
            max_wait: Duration::from_secs(10),
            ..Script::default()
        };
        let plane = ControlPlane::start(script).await;
        let place = Place::new();
        tunneled::key(&place, plane.api_key());
        let configured = |command: &mut Command| {
            tunneled::configure(command, &plane, &client);
            command.env("HANDS_TUNNEL_POLL_TIMEOUT_S", POLL);
            change(&place, command);
        };
        let daemon = place.start_with(configured).await;
        let first = daemon.ready().await;
        Rig {
            daemon,
            plane,
            place,
            first,
        }
    }

    fn planner(&self) -> Planner<'_> {
        Planner::new(&self.plane).patience(Duration::from_secs(60))
    }

    /// `/readyz` says 503 with this reason in time, and 200 after a restart, when a call works again.
    async fn is_seen_and_mended(&self, reason: &str) -> Status {
        let begun = Instant::now();
        let mut seen = BTreeSet::new();
        let mut seen_after = None;
        loop {
            let (code, body) = self.daemon.get("/readyz").await;
            let page: Value = serde_json::from_str(&body).unwrap();
            for found in page["reasons"].as_array().unwrap() {
                assert!(!found["message"].as_str().unwrap().is_empty(), "{body}");
                seen.insert(found["code"].as_str().unwrap().to_owned());
            }
            assert_eq!(code == 200, page["reasons"] == json!([]), "{code} {body}");
            match (code, seen_after) {
                (503, None) => seen_after = Some(begun.elapsed()),
                (200, Some(_)) => break,
                (200 | 503, _) => {}
                _ => panic!("{code} {body}"),
            }
            let limit = if seen_after.is_some() {
                MENDED_WITHIN
            } else {
                SEEN_WITHIN
            };
            assert!(
                begun.elapsed() < limit,
                "{seen_after:?} {body}\n{}",
                self.place.log()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(seen_after.unwrap() < SEEN_WITHIN);
        assert!(seen.contains(reason), "{seen:?}");
        eprintln!(
            "{reason}: seen after {:.1?}, mended after {:.1?}",
            seen_after.unwrap(),
            begun.elapsed()
        );
        reads_a_file(&self.place, &self.plane).await;
        self.daemon.status().await
    }

    async fn end(self) {
        self.daemon.stop().await;
        none_left(&self.place).await;
    }
}
