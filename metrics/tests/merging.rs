//! Figures of several processes on one page.
#![allow(clippy::unwrap_used)]

use hands_metrics::limits::{MAX_SAMPLES, MAX_SOURCES};
use hands_metrics::{
    Child, JobState, MetricsError, Process, Registry, Sample, Snapshot, TABLE, Value,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

fn value(page: &str, sample: &str) -> Option<f64> {
    let line = page
        .lines()
        .find(|line| line.starts_with(&format!("{sample} ")))?;
    line.rsplit(' ').next()?.parse().ok()
}

const BASH: &str = r#"hands_calls_total{tool="bash",code="ok"}"#;
const COUNT: &str = r#"hands_call_duration_seconds_count{tool="bash"}"#;

fn server(calls: u64, sessions: u64) -> Registry {
    let registry = Registry::new(Process::Server, "1").unwrap();
    for _ in 0..calls {
        registry.record_call("bash", "ok", Duration::from_millis(3), 1, 1);
    }
    registry.set_sessions(sessions);
    registry
}

/// As it goes over a socket.
fn sent(registry: &Registry) -> Snapshot {
    serde_json::from_str(&serde_json::to_string(&registry.snapshot()).unwrap()).unwrap()
}

#[test]
fn a_snapshot_survives_json_unchanged() {
    let registry = server(3, 1);
    registry.record_call("git", "conflict", Duration::from_nanos(1_234_567), 1, 1);
    let snapshot = registry.snapshot();
    let text = serde_json::to_string(&snapshot).unwrap();
    assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), snapshot);
}

#[test]
fn counters_and_sessions_add_up_and_jobs_do_not() {
    let daemon = Registry::new(Process::Daemon, "1").unwrap();
    for (from, calls, sessions) in [("server", 3, 2), ("server-9", 4, 1)] {
        let registry = server(calls, sessions);
        registry.set_jobs(JobState::Running, 5);
        daemon.merge(from, &sent(&registry)).unwrap();
    }
    let page = daemon.render();
    assert_eq!(value(&page, BASH), Some(7.0));
    assert_eq!(value(&page, COUNT), Some(7.0));
    assert_eq!(value(&page, "hands_sessions"), Some(3.0));
    assert_eq!(value(&page, r#"hands_jobs{state="running"}"#), Some(5.0));
    assert!(value(&page, r#"hands_snapshot_age_seconds{process="server"}"#).unwrap() < 60.0);
}

#[test]
fn a_restarted_server_makes_no_counter_go_down() {
    let daemon = Registry::new(Process::Daemon, "1").unwrap();
    let first = server(5, 2);
    assert!(!daemon.merge("server", &sent(&first)).unwrap().restarted);
    first.record_call("bash", "ok", Duration::ZERO, 1, 1);
    daemon.merge("server", &sent(&first)).unwrap();
    assert_eq!(
        value(&daemon.render(), BASH),
        Some(6.0),
        "the newest counts, not the sum"
    );

    assert!(
        daemon
            .merge("server", &sent(&server(1, 1)))
            .unwrap()
            .restarted
    );
    let page = daemon.render();
    assert_eq!(value(&page, BASH), Some(7.0));
    assert_eq!(value(&page, COUNT), Some(7.0));
    assert_eq!(
        value(&page, "hands_sessions"),
        Some(1.0),
        "a gauge ends with its process"
    );

    daemon.forget("server");
    let page = daemon.render();
    assert_eq!(value(&page, BASH), Some(7.0));
    assert_eq!(value(&page, "hands_sessions"), None);
}

#[test]
fn an_older_snapshot_that_comes_late_changes_nothing() {
    let daemon = Registry::new(Process::Daemon, "1").unwrap();
    let registry = server(1, 1);
    let early = sent(&registry);
    registry.record_call("bash", "ok", Duration::ZERO, 1, 1);
    daemon.merge("server", &sent(&registry)).unwrap();
    assert!(daemon.merge("server", &early).unwrap().stale);
    assert_eq!(value(&daemon.render(), BASH), Some(2.0));
}

#[test]
fn a_server_speaks_only_for_itself() {
    let daemon = Registry::new(Process::Daemon, "1").unwrap();
    let registry = server(1, 1);
    registry.set_ready(true);
    registry.record_restart(Child::Tunnel);
    let report = daemon.merge("server", &sent(&registry)).unwrap();
    assert_eq!(report.ignored, 2);
    let page = daemon.render();
    assert_eq!(value(&page, "hands_ready"), Some(0.0));
    assert_eq!(
        value(&page, r#"hands_child_restarts_total{child="tunnel"}"#),
        Some(0.0)
    );
}

#[test]
fn codes_of_a_newer_server_become_other_and_unsound_values_are_left_out() {
    let daemon = Registry::new(Process::Daemon, "1").unwrap();
    let mut snapshot = sent(&server(0, 0));
    snapshot.samples.clear();
    let mut put = |name: &str, labels: &[(&str, &str)], number: f64| {
        snapshot.samples.push(Sample {
            name: name.to_owned(),
            labels: labels
                .iter()
                .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
                .collect(),
            value: Value::Number(number),
        });
    };
    put(
        "hands_calls_total",
        &[("tool", "bash"), ("code", "new_1")],
        2.0,
    );
    put(
        "hands_calls_total",
        &[("tool", "bash"), ("code", "new_2")],
        3.0,
    );
    put("hands_calls_total", &[("tool", "bash")], 9.0);
    put(
        "hands_calls_total",
        &[("tool", "bash"), ("code", "ok"), ("x", "y")],
        9.0,
    );
    put("hands_denials_total", &[("guardrail", "new")], 9.0);
    put("hands_sessions", &[], -1.0);
    put("hands_sessions", &[], f64::NAN);
    put("hands_sessions", &[], f64::INFINITY);
    put("hands_call_duration_seconds", &[("tool", "bash")], 1.0);
    put("process_max_fds", &[], 1.0);
    let report = daemon.merge("server", &snapshot).unwrap();
    assert_eq!(report.ignored, 8);
    let page = daemon.render();
    assert_eq!(
        value(&page, r#"hands_calls_total{tool="bash",code="other"}"#),
        Some(5.0)
    );
    assert_eq!(value(&page, "hands_sessions"), None);
}

#[test]
fn another_format_and_a_crowd_of_sources_are_refused_in_words() {
    let daemon = Registry::new(Process::Daemon, "1").unwrap();
    let registry = server(1, 1);
    let mut snapshot = sent(&registry);
    for number in 0..MAX_SOURCES {
        daemon
            .merge(&format!("server-{number}"), &snapshot)
            .unwrap();
    }
    let error = daemon.merge("server-x", &snapshot).unwrap_err();
    assert!(
        matches!(error, MetricsError::TooManySources { .. }),
        "{error}"
    );
    daemon.merge("server-0", &sent(&registry)).unwrap();

    snapshot.format += 1;
    let error = daemon.merge("server-0", &snapshot).unwrap_err().to_string();
    assert!(
        error.contains("server-0") && error.contains("restart"),
        "{error}"
    );
}

/// Samples near the table: real and foreign names and labels, sound and unsound values.
fn any_sample() -> impl Strategy<Value = Sample> {
    let names: Vec<String> = TABLE.iter().map(|spec| spec.name.to_owned()).collect();
    let name = prop_oneof![9 => proptest::sample::select(names), 1 => "[a-z_]{0,12}"];
    let label = prop_oneof![
        proptest::sample::select(vec!["tool", "code", "process", "child", "state", "version"])
            .prop_map(str::to_owned),
        ".{0,8}"
    ];
    let text = prop_oneof![
        proptest::sample::select(vec!["bash", "ok", "server", "running", "empty"])
            .prop_map(str::to_owned),
        ".{0,80}"
    ];
    let labels = proptest::collection::btree_map(label, text, 0..4);
    let number = prop_oneof![any::<f64>(), (0u32..1000).prop_map(f64::from)];
    let value = prop_oneof![
        4 => number.prop_map(Value::Number),
        1 => (proptest::collection::vec(any::<f64>(), 0..4), any::<u64>(), any::<f64>()).prop_map(
            |(bounds, count, sum)| Value::Histogram(hands_metrics::Histogram {
                cumulative: vec![count; bounds.len()],
                bounds,
                count,
                sum,
            })
        ),
    ];
    (name, labels, value).prop_map(|(name, labels, value)| Sample {
        name,
        labels,
        value,
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(
            std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(64)
        )
    })]

    /// Whatever is sent: the page stays readable line by line, holds only metrics of the table, and no two samples of one name and labels.
    #[test]
    fn a_hostile_snapshot_never_spoils_the_page(samples in proptest::collection::vec(any_sample(), 0..40)) {
        let daemon = Registry::new(Process::Daemon, "1").unwrap();
        let mut snapshot = server(0, 0).snapshot();
        snapshot.samples = samples;
        let report = daemon.merge("server", &snapshot).unwrap();
        prop_assert!(report.ignored <= snapshot.samples.len());
        let mut seen = BTreeSet::new();
        for line in daemon.render().lines() {
            if line.starts_with("# ") {
                continue;
            }
            let (sample, number) = line.rsplit_once(' ').unwrap();
            let number: f64 = number.parse().unwrap();
            prop_assert!(number.is_finite() && number >= 0.0, "{}", line);
            prop_assert!(seen.insert(sample.to_owned()), "twice: {}", line);
            let name = sample.split('{').next().unwrap();
            prop_assert!(TABLE.iter().any(|spec| name.starts_with(spec.name)), "{}", line);
        }
    }

    /// However servers come, report, restart and go: a counter is the sum of what all of them had reported.
    #[test]
    fn no_restart_loses_or_repeats_a_count(steps in proptest::collection::vec((0usize..3, 0u64..4, any::<bool>(), any::<bool>()), 1..30)) {
        let daemon = Registry::new(Process::Daemon, "1").unwrap();
        let mut servers: BTreeMap<usize, Registry> = BTreeMap::new();
        let mut expected = 0;
        let mut last = 0.0;
        for (index, calls, restart, forget) in steps {
            if restart {
                servers.remove(&index);
            }
            if forget && servers.remove(&index).is_some() {
                daemon.forget(&index.to_string());
            }
            let registry = servers.entry(index).or_insert_with(|| server(0, 1));
            for _ in 0..calls {
                registry.record_call("bash", "ok", Duration::ZERO, 0, 0);
            }
            expected += calls;
            daemon.merge(&index.to_string(), &registry.snapshot()).unwrap();
            let page = daemon.render();
            let now = value(&page, BASH).unwrap();
            prop_assert_eq!(now, expected as f64);
            prop_assert!(now >= last);
            last = now;
        }
    }
}

#[test]
fn only_so_many_samples_are_looked_at() {
    let daemon = Registry::new(Process::Daemon, "1").unwrap();
    let mut snapshot = sent(&server(0, 0));
    let one = Sample {
        name: "hands_sessions".to_owned(),
        labels: BTreeMap::new(),
        value: Value::Number(1.0),
    };
    snapshot.samples = vec![one; MAX_SAMPLES + 10];
    assert_eq!(daemon.merge("server", &snapshot).unwrap().ignored, 10);
    assert_eq!(
        value(&daemon.render(), "hands_sessions"),
        Some(MAX_SAMPLES as f64)
    );
}
