//! The table agrees with Prometheus' conventions, with the page of documentation and with what a registry reports.
#![allow(clippy::unwrap_used)]

use hands_metrics::{
    Child, ChildState, JobState, Kind, Merge, PollOutcome, Process, Registry, TABLE, Unit,
    reference_page,
};
use std::collections::BTreeSet;
use std::time::Duration;

#[test]
fn the_reference_page_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");
    let page = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        page == reference_page(),
        "docs/metrics.md is not current: cargo run -p hands-metrics --example reference > docs/metrics.md"
    );
}

#[test]
fn names_are_unique_and_end_in_their_unit() {
    let names: BTreeSet<_> = TABLE.iter().map(|spec| spec.name).collect();
    assert_eq!(names.len(), TABLE.len());
    for spec in TABLE {
        assert!(spec.name.starts_with("hands_"), "{}", spec.name);
        let base = spec.name.strip_suffix("_total").unwrap_or(spec.name);
        assert_eq!(
            base != spec.name,
            spec.kind == Kind::Counter,
            "{}",
            spec.name
        );
        let suffix = match spec.unit {
            Unit::Bytes => "_bytes",
            Unit::Seconds => "_seconds",
            Unit::UnixSeconds => "_time_seconds",
            Unit::Count | Unit::Bool => "",
        };
        let ends = base.ends_with(suffix)
            || (spec.unit == Unit::UnixSeconds && base.ends_with("_timestamp_seconds"));
        assert!(ends, "{}", spec.name);
        if spec.kind != Kind::Gauge {
            assert_eq!(spec.merge, Merge::Sum, "{}", spec.name);
        }
        assert!(
            spec.help.ends_with('.') && !spec.from.is_empty(),
            "{}",
            spec.name
        );
    }
}

/// Every metric of the table is on the page when everything was recorded, and nothing else is.
#[test]
fn everything_in_the_table_can_be_recorded_and_nothing_more() {
    let server = Registry::new(Process::Server, "1").unwrap();
    server.record_call("bash", "ok", Duration::from_millis(3), 1, 1);
    server.set_jobs(JobState::Running, 1);
    server.set_recovery(1, 2, 3);
    let tunnel = Registry::new(Process::Tunnel, "1").unwrap();
    tunnel.record_poll(PollOutcome::Empty);
    let daemon = Registry::new(Process::Daemon, "1").unwrap();
    daemon.set_local_only(false);
    daemon.set_child_state(Child::Server, ChildState::Ready);
    for (from, registry) in [("server", server), ("tunnel", tunnel)] {
        assert_eq!(daemon.merge(from, &registry.snapshot()).unwrap().ignored, 0);
    }

    let page = daemon.render();
    let found: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    let expected: Vec<&str> = TABLE.iter().map(|spec| spec.name).collect();
    assert_eq!(found, expected);
    for spec in TABLE {
        let kind = match spec.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        assert!(page.contains(&format!("# TYPE {} {kind}\n", spec.name)));
        assert!(page.contains(&format!("# HELP {} {}\n", spec.name, spec.help)));
    }
}
