//! What is recorded stands on the page.
#![allow(clippy::unwrap_used)]

use hands_metrics::{
    Child, ChildState, Guardrail, JobState, PollOutcome, PostOutcome, Process, Registry,
};
use std::time::{Duration, Instant};

fn has(page: &str, line: &str) {
    assert!(
        page.lines().any(|found| found == line),
        "no {line:?} in\n{page}"
    );
}

/// The value of a sample.
fn value(page: &str, sample: &str) -> Option<f64> {
    let line = page
        .lines()
        .find(|line| line.starts_with(&format!("{sample} ")))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[test]
fn calls_are_counted_by_tool_and_code_with_their_time_and_size() {
    let registry = Registry::new(Process::Server, "1.2.3").unwrap();
    registry.record_call("bash", "ok", Duration::from_millis(3), 10, 200);
    registry.record_call("bash", "timeout", Duration::from_secs(50), 5, 7);
    registry.record_call(
        "rm -rf / \"\n",
        "no such code",
        Duration::from_secs(500),
        1,
        1,
    );
    registry.record_denial(Guardrail::Deletion);
    registry.set_calls(2, 1);

    let page = registry.render();
    has(&page, r#"hands_calls_total{tool="bash",code="ok"} 1"#);
    has(&page, r#"hands_calls_total{tool="bash",code="timeout"} 1"#);
    has(&page, r#"hands_calls_total{tool="other",code="other"} 1"#);
    has(&page, r#"hands_calls_total{tool="git",code="ok"} 0"#);
    has(
        &page,
        r#"hands_call_duration_seconds_bucket{tool="bash",le="0.0025"} 0"#,
    );
    has(
        &page,
        r#"hands_call_duration_seconds_bucket{tool="bash",le="0.005"} 1"#,
    );
    has(
        &page,
        r#"hands_call_duration_seconds_bucket{tool="bash",le="60"} 2"#,
    );
    has(
        &page,
        r#"hands_call_duration_seconds_bucket{tool="other",le="120"} 0"#,
    );
    has(
        &page,
        r#"hands_call_duration_seconds_bucket{tool="other",le="+Inf"} 1"#,
    );
    has(&page, r#"hands_call_duration_seconds_count{tool="bash"} 2"#);
    has(&page, r#"hands_call_received_bytes_total{tool="bash"} 15"#);
    has(&page, r#"hands_call_sent_bytes_total{tool="bash"} 207"#);
    has(&page, r#"hands_denials_total{guardrail="deletion"} 1"#);
    has(&page, r#"hands_denials_total{guardrail="git"} 0"#);
    has(&page, "hands_calls_in_flight 2");
    has(&page, "hands_calls_queued 1");
    assert!(!page.contains("rm -rf"));
}

#[test]
fn a_child_is_in_one_state() {
    let registry = Registry::new(Process::Daemon, "1").unwrap();
    registry.set_child_state(Child::Tunnel, ChildState::Starting);
    registry.set_child_state(Child::Tunnel, ChildState::NeedsOperator);
    registry.record_restart(Child::Tunnel);
    registry.set_jobs(JobState::Running, 3);

    let page = registry.render();
    has(
        &page,
        r#"hands_child_state{child="tunnel",state="starting"} 0"#,
    );
    has(
        &page,
        r#"hands_child_state{child="tunnel",state="needs_operator"} 1"#,
    );
    has(&page, r#"hands_child_restarts_total{child="tunnel"} 1"#);
    has(&page, r#"hands_child_restarts_total{child="server"} 0"#);
    has(&page, "hands_ready 0");
    registry.set_ready(true);
    has(&registry.render(), "hands_ready 1");
}

#[test]
fn the_last_good_poll_has_an_age_from_the_start_of_polling_on() {
    const AGE: &str = "hands_tunnel_last_good_poll_age_seconds";
    const TIME: &str = "hands_tunnel_last_good_poll_timestamp_seconds";
    let registry = Registry::new(Process::Tunnel, "1").unwrap();
    assert_eq!(value(&registry.render(), AGE), None);

    registry.polling_started();
    registry.record_poll(PollOutcome::ServerError);
    let page = registry.render();
    assert!(value(&page, AGE).unwrap() < 60.0);
    assert_eq!(value(&page, TIME), None, "a failed poll is not a good one");

    // Polling has gone on for no time yet, so a poll of long ago is the only one known.
    registry.last_good_poll(Duration::from_secs(1000));
    let old = value(&registry.render(), AGE).unwrap();
    assert!((1000.0..1060.0).contains(&old), "{old}");
    registry.last_good_poll(Duration::from_secs(2000));
    assert!(
        value(&registry.render(), AGE).unwrap() < 1060.0,
        "an older one changes nothing"
    );

    registry.record_poll(PollOutcome::Empty);
    registry.record_post(PostOutcome::AlreadyFulfilled);
    let page = registry.render();
    assert!(value(&page, AGE).unwrap() < 60.0);
    assert!(value(&page, TIME).unwrap() > 1.6e9);
    has(
        &page,
        r#"hands_tunnel_polls_total{outcome="server_error"} 1"#,
    );
    has(&page, r#"hands_tunnel_polls_total{outcome="empty"} 1"#);
    has(
        &page,
        r#"hands_tunnel_posts_total{outcome="already_fulfilled"} 1"#,
    );

    registry.polling_stopped();
    assert_eq!(value(&registry.render(), AGE), None);
}

#[test]
fn a_watched_child_is_reported_beside_ourselves() {
    const CHILD: &str = r#"hands_process_resident_memory_bytes{process="tunnel"}"#;
    let registry = Registry::new(Process::Daemon, "1").unwrap();
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    registry.watch(Process::Tunnel, Some(child.id()));
    // Just after its start it has next to nothing in memory.
    let deadline = Instant::now() + Duration::from_secs(20);
    let page = loop {
        let page = registry.render();
        let is_up = value(&page, CHILD).is_some_and(|bytes| bytes > 10_000.0);
        if is_up || Instant::now() >= deadline {
            break page;
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(value(&page, CHILD).unwrap() > 10_000.0);
    let own = r#"hands_process_resident_memory_bytes{process="daemon"}"#;
    assert!(value(&page, own).unwrap() > 1_000_000.0);

    let page = registry.render();
    assert_eq!(value(&page, CHILD), None, "it ended");
    registry.watch(Process::Tunnel, None);
    assert!(value(&registry.render(), own).is_some());
}

#[test]
fn a_long_version_is_cut_at_a_character() {
    let registry = Registry::new(Process::Daemon, &"é".repeat(100)).unwrap();
    let expected = format!("version=\"{}\"", "é".repeat(32));
    assert!(registry.render().contains(&expected));
}
