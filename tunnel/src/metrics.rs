//! Counters of this process, and their text for a monitor.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use crate::sync::lock;

/// A counter split by one label.
#[derive(Debug, Default)]
pub struct Labelled(Mutex<BTreeMap<&'static str, u64>>);

impl Labelled {
    /// Adds one.
    pub fn add(&self, label: &'static str) {
        *self.map().entry(label).or_default() += 1;
    }

    /// The counts so far.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.map().clone()
    }

    fn map(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        lock(&self.0)
    }
}

/// A plain counter or level.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds one.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes one off a level.
    pub fn sub(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Sets it.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Its value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A level that goes back when its holder is dropped.
#[derive(Debug)]
pub struct Held<'a>(&'a Count);

impl<'a> Held<'a> {
    /// Adds one until dropped.
    pub fn new(count: &'a Count) -> Self {
        count.add();
        Self(count)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.sub();
    }
}

/// All that is counted.
#[derive(Debug)]
pub struct Metrics {
    /// When the process started.
    pub started: Instant,
    /// Polls by outcome: `commands`, `empty`, or a kind of failure.
    pub polls: Labelled,
    /// Polls that failed since the last good one.
    pub poll_failures: Count,
    /// When a poll was last answered well.
    last_good_poll: Mutex<Option<Instant>>,
    /// Commands by type.
    pub commands: Labelled,
    /// Commands received and not yet done with.
    pub in_flight: Count,
    /// Final and other posts by outcome.
    pub posts: Labelled,
    /// Answers made up by this client, by source.
    pub failures: Labelled,
    /// Failures of calls since the server's last own answer.
    pub failures_in_a_row: Count,
    /// The child that took the last failed call with it.
    lost_with: Mutex<Option<u32>>,
    /// Commands whose deadline passed.
    pub deadlines: Count,
    /// Answers of a child that nobody waited for.
    pub late_answers: Count,
    /// Lines of a child that were no message.
    pub lines_skipped: Count,
    /// Restarts of a child.
    pub restarts: Count,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            polls: Labelled::default(),
            poll_failures: Count::default(),
            last_good_poll: Mutex::default(),
            commands: Labelled::default(),
            in_flight: Count::default(),
            posts: Labelled::default(),
            failures: Labelled::default(),
            failures_in_a_row: Count::default(),
            lost_with: Mutex::default(),
            deadlines: Count::default(),
            late_answers: Count::default(),
            lines_skipped: Count::default(),
            restarts: Count::default(),
        }
    }
}

impl Metrics {
    /// Notes a poll that was answered well.
    pub fn good_poll(&self) {
        *self.last_poll() = Some(Instant::now());
        self.poll_failures.set(0);
    }

    /// Notes a call that the server gave no answer to. Those that one child took with it are one
    /// failure: a death says nothing of the next child.
    pub fn call_failed(&self, lost_with: Option<u32>) {
        let last = std::mem::replace(&mut *lock(&self.lost_with), lost_with);
        if lost_with.is_none() || lost_with != last {
            self.failures_in_a_row.add();
        }
    }

    /// Notes an answer of the server.
    pub fn call_answered(&self) {
        *lock(&self.lost_with) = None;
        self.failures_in_a_row.set(0);
    }

    /// How long ago the last good poll was; none where there was none.
    pub fn poll_age(&self) -> Option<std::time::Duration> {
        self.last_poll().map(|at| at.elapsed())
    }

    fn last_poll(&self) -> MutexGuard<'_, Option<Instant>> {
        lock(&self.last_good_poll)
    }

    /// The text that a Prometheus server reads.
    pub fn text(&self, ready: bool) -> String {
        let mut out = Text::default();
        let version = concat!("version=\"", env!("CARGO_PKG_VERSION"), "\"");
        out.head("build_info", "gauge", "The version of this client.");
        out.line("build_info", version, 1.0);
        out.one(
            "ready",
            "gauge",
            "1 when a planner's call would work.",
            f64::from(u8::from(ready)),
        );
        let up = self.started.elapsed().as_secs_f64();
        out.one("uptime_seconds", "gauge", "Time since the start.", up);
        out.labelled("polls_total", "Polls by outcome.", "outcome", &self.polls);
        let age = self.poll_age().map_or(f64::NAN, |age| age.as_secs_f64());
        let help = "Time since a poll was last answered well; NaN before the first.";
        out.one("last_good_poll_age_seconds", "gauge", help, age);
        let help = "Commands received, by type.";
        out.labelled("commands_total", help, "type", &self.commands);
        let help = "Commands received and not yet done with.";
        out.one(
            "commands_in_flight",
            "gauge",
            help,
            self.in_flight.get() as f64,
        );
        out.labelled("posts_total", "Posts by outcome.", "outcome", &self.posts);
        let help = "Answers made up because the server gave none, by source.";
        out.labelled("failures_total", help, "source", &self.failures);
        let counters = [
            (
                "deadlines_passed_total",
                "Commands whose deadline passed.",
                &self.deadlines,
            ),
            (
                "late_answers_total",
                "Answers that nobody waited for.",
                &self.late_answers,
            ),
            (
                "child_lines_skipped_total",
                "Lines that were no message.",
                &self.lines_skipped,
            ),
            (
                "child_restarts_total",
                "Restarts of the MCP server.",
                &self.restarts,
            ),
        ];
        for (name, help, count) in counters {
            out.one(name, "counter", help, count.get() as f64);
        }
        out.0
    }
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP hands_tunnel_{name} {help}");
        let _ = writeln!(self.0, "# TYPE hands_tunnel_{name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &str, value: f64) {
        let labels = if labels.is_empty() {
            String::new()
        } else {
            format!("{{{labels}}}")
        };
        let _ = writeln!(self.0, "hands_tunnel_{name}{labels} {value}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.head(name, kind, help);
        self.line(name, "", value);
    }

    fn labelled(&mut self, name: &str, help: &str, label: &str, counts: &Labelled) {
        self.head(name, "counter", help);
        for (key, count) in counts.counts() {
            self.line(name, &format!("{label}=\"{key}\""), count as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_what_a_monitor_reads() {
        let metrics = Metrics::default();
        metrics.polls.add("empty");
        metrics.polls.add("empty");
        let text = metrics.text(false);
        assert!(text.contains("hands_tunnel_polls_total{outcome=\"empty\"} 2\n"));
        assert!(text.contains("hands_tunnel_last_good_poll_age_seconds NaN\n"));
        assert!(text.contains("hands_tunnel_ready 0\n"));
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (_, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
}
