//! A service and a planner that ask for the worst.

mod common;

use common::Setup;
use serde_json::json;

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
