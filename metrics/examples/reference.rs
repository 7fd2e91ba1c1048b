//! Prints the reference page of the metrics: `cargo run -p hands-metrics --example reference > docs/metrics.md`.
use std::io::Write as _;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(hands_metrics::reference_page().as_bytes())
}
