//! The reference page of all metrics, made from the table.

use crate::labels::Process;
use crate::limits::CALL_SECONDS;
use crate::table::{Kind, Label, Merge, Spec, TABLE, Unit};
use std::fmt::Write as _;

/// The text of `docs/metrics.md`.
pub fn reference_page() -> String {
    let mut page = String::from(INTRO);
    page.push_str(
        "| metric | type | labels | unit | from | several processes | what it counts |\n",
    );
    page.push_str("|---|---|---|---|---|---|---|\n");
    for spec in TABLE {
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} | {} | {} | {} |",
            spec.name,
            kind_text(spec.kind),
            names(spec.labels),
            unit_text(spec.unit),
            from_text(spec),
            merge_text(spec.merge),
            spec.help
        );
    }
    page.push_str("\nValues of the labels:\n\n| label | values |\n|---|---|\n");
    for label in labels() {
        let values = match label.values {
            Some(set) => quoted(set),
            None => "a short text".to_owned(),
        };
        let _ = writeln!(page, "| `{}` of {} | {values} |", label.name, users(&label));
    }
    let bounds: Vec<String> = CALL_SECONDS.iter().map(f64::to_string).collect();
    let _ = writeln!(
        page,
        "\nUpper bounds of the buckets of `hands_call_duration_seconds`: {}.",
        bounds.join(", ")
    );
    page.push_str(OUTRO);
    page
}

/// Every label once, in order of appearance.
fn labels() -> Vec<Label> {
    let mut seen = Vec::new();
    for label in TABLE.iter().flat_map(|spec| spec.labels) {
        if !seen.contains(label) {
            seen.push(*label);
        }
    }
    seen
}

/// The metrics that have this label.
fn users(label: &Label) -> String {
    let with: Vec<&str> = TABLE
        .iter()
        .filter(|spec| spec.labels.contains(label))
        .map(|spec| spec.name)
        .collect();
    match with.as_slice() {
        [first, second, _, ..] => format!("`{first}`, `{second}`, …"),
        few => quoted(few),
    }
}

fn quoted(texts: &[&str]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| format!("`{text}`")).collect();
    quoted.join(", ")
}

fn names(labels: &[Label]) -> String {
    quoted(&labels.iter().map(|label| label.name).collect::<Vec<_>>())
}

fn from_text(spec: &Spec) -> String {
    let all = spec.from.len() == Process::ALL.len();
    let texts: Vec<&str> = spec.from.iter().map(|process| process.as_str()).collect();
    if all {
        "all".to_owned()
    } else {
        texts.join(", ")
    }
}

fn kind_text(kind: Kind) -> &'static str {
    match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    }
}

fn unit_text(unit: Unit) -> &'static str {
    match unit {
        Unit::Count => "",
        Unit::Bool => "0 or 1",
        Unit::Bytes => "bytes",
        Unit::Seconds => "s",
        Unit::UnixSeconds => "s since 1970",
    }
}

fn merge_text(merge: Merge) -> &'static str {
    match merge {
        Merge::Sum => "sum",
        Merge::Max => "largest",
        Merge::Age => "largest, goes on while its source is silent",
    }
}

const INTRO: &str = "# Metrics

The daemon serves them at `/metrics` on its loopback address, as Prometheus text. The page joins the figures of the daemon,
of every MCP server of the home and of the tunnel client. What a process that ended had counted stays in the sums, so a
restarted server makes no counter go down; a restarted daemon begins at 0. What a process counted between its last
report and being killed is lost.

No argument, path, name of a session, key or address is in them. A metric appears when its process has reported it.

";

const OUTRO: &str = "
Examples in `metrics/examples/`: `scrape.yml` (a scrape configuration for the monitor SERVER_MONITOR, port 8768),
`alerts.yml` (alert rules), `dashboard.json` (a Grafana dashboard).
";
