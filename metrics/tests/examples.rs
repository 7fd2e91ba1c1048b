//! The examples agree with the table, and Prometheus' own tool accepts them. Without `promtool` (Debian's package
//! `prometheus`) that half is skipped, and says so.
#![allow(clippy::unwrap_used)]

use hands_metrics::{Kind, PollOutcome, Process, Registry, Spec, TABLE};
use regex::Regex;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");

fn example(name: &str) -> String {
    std::fs::read_to_string(format!("{EXAMPLES}/{name}")).unwrap()
}

/// Runs promtool; none if it is not installed.
fn promtool(arguments: &[&str], input: &str) -> Option<()> {
    let mut command = Command::new("promtool");
    command.args(arguments).stdin(Stdio::piped());
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: promtool is not installed (Debian's package `prometheus`)");
            return None;
        }
        child => child.unwrap(),
    };
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "promtool {arguments:?}: {text}");
    Some(())
}

fn spec_of(sample: &str) -> Option<&'static Spec> {
    TABLE.iter().find(|spec| {
        let rest = sample.strip_prefix(spec.name);
        match spec.kind {
            Kind::Histogram => matches!(rest, Some("_bucket" | "_sum" | "_count")),
            _ => rest == Some(""),
        }
    })
}

/// Says what is wrong with the metrics and labels of an expression.
fn faults(expression: &str) -> Vec<String> {
    let sample = Regex::new(r"\b(hands_[a-z_]+)\b(?:\{([^}]*)\})?").unwrap();
    let matcher = Regex::new(r#"([a-z_]+)\s*(=~|!~|!=|=)\s*"([^"]*)""#).unwrap();
    let mut faults = Vec::new();
    for found in sample.captures_iter(expression) {
        let Some(spec) = spec_of(&found[1]) else {
            faults.push(format!("{} is not in the table", &found[1]));
            continue;
        };
        let matchers = found.get(2).map_or("", |text| text.as_str());
        for matched in matcher.captures_iter(matchers).filter(|it| &it[1] != "job") {
            let Some(label) = spec.labels.iter().find(|label| label.name == &matched[1]) else {
                faults.push(format!("{} has no label {}", spec.name, &matched[1]));
                continue;
            };
            let values = label.values.unwrap_or_default();
            for value in matched[3]
                .split('|')
                .filter(|value| !values.contains(value))
            {
                faults.push(format!("{} of {} is never {value}", label.name, spec.name));
            }
        }
    }
    faults
}

/// The texts under a key, anywhere in a document.
fn texts<'a>(document: &'a serde_json::Value, key: &str, found: &mut Vec<&'a str>) {
    match document {
        serde_json::Value::Object(members) => {
            for (name, member) in members {
                if name == key {
                    found.extend(member.as_str());
                }
                texts(member, key, found);
            }
        }
        serde_json::Value::Array(items) => {
            for item in items {
                texts(item, key, found);
            }
        }
        _ => {}
    }
}

#[test]
fn the_check_of_expressions_finds_what_is_wrong() {
    assert!(faults("sum by (le) (rate(hands_call_duration_seconds_bucket[5m]))").is_empty());
    assert_eq!(faults("hands_call_duration_seconds").len(), 1);
    assert_eq!(faults("hands_nothing_total + hands_ready_bucket").len(), 2);
    assert_eq!(faults(r#"hands_calls_total{code="okay"}"#).len(), 1);
    assert_eq!(
        faults(r#"hands_calls_total{color="ok",tool=~"bash|git"}"#).len(),
        1
    );
}

#[test]
fn the_dashboard_asks_for_metrics_that_exist_and_shows_all_of_them() {
    let dashboard: serde_json::Value = serde_json::from_str(&example("dashboard.json")).unwrap();
    let mut expressions = Vec::new();
    texts(&dashboard, "expr", &mut expressions);
    texts(&dashboard, "query", &mut expressions);
    assert!(expressions.len() > 20);
    for expression in &expressions {
        assert_eq!(faults(expression), Vec::<String>::new(), "{expression}");
    }
    let all = expressions.join("\n");
    for spec in TABLE {
        assert!(all.contains(spec.name), "{} is on no panel", spec.name);
    }
    let legends = Regex::new(r"\{\{(\w+)\}\}").unwrap();
    let mut formats = Vec::new();
    texts(&dashboard, "legendFormat", &mut formats);
    for found in legends.captures_iter(&formats.join(" ")) {
        let known = TABLE
            .iter()
            .any(|spec| spec.labels.iter().any(|it| it.name == &found[1]));
        assert!(known || &found[1] == "le", "no label {}", &found[1]);
    }
}

#[test]
fn the_alert_rules_ask_for_metrics_that_exist() {
    let rules = example("alerts.yml");
    assert!(rules.matches("hands_").count() > 10);
    assert_eq!(faults(&rules), Vec::<String>::new());
}

#[test]
fn the_scrape_example_is_for_the_monitor_and_its_port() {
    let scrape = example("scrape.yml");
    assert!(scrape.contains("monitor: SERVER_MONITOR") && scrape.contains("127.0.0.1:8768"));
}

#[test]
fn promtool_accepts_configuration_and_rules() {
    let _ = promtool(&["check", "config", &format!("{EXAMPLES}/scrape.yml")], "");
    let _ = promtool(&["check", "rules", &format!("{EXAMPLES}/alerts.yml")], "");
}

#[test]
fn alerts_fire_on_what_they_are_for() {
    let cases = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/alerts_test.yml");
    let _ = promtool(&["test", "rules", cases], "");
}

#[test]
fn promtool_reads_the_page_and_has_nothing_against_its_names() {
    let server = Registry::new(Process::Server, "1 \"quoted\" \\ back").unwrap();
    server.record_call("bash", "ok", Duration::from_millis(3), 1, 1);
    let daemon = Registry::new(Process::Daemon, "1").unwrap();
    daemon.record_poll(PollOutcome::Commands);
    daemon.merge("server", &server.snapshot()).unwrap();
    let _ = promtool(&["check", "metrics"], &daemon.render());
}
