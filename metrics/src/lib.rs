//! Metric names and registry: what Hands counts, how it is called, and its text for Prometheus.
//!
//! **What it is.** One table of every metric ([`TABLE`]), a [`Registry`] with one typed recorder for each, and
//! the joining of several processes' figures into one page. `docs/metrics.md` is made from the table.
//!
//! **What it is not.** It opens no port and no socket: the daemon serves [`Registry::render`], and carries
//! [`Snapshot`]s from the server and the tunnel to itself. It stores no history and judges nothing; alert rules and a
//! dashboard that do are in `examples/`.
//!
//! **Theory of operation.** Every process has a registry of its own. A server's [`Registry::snapshot`] (plain data)
//! goes to the daemon, whose [`Registry::merge`] keeps the newest one of each source. `render` adds them up:
//! counters and histograms are summed, a gauge follows its [`Merge`] rule. What a process that ended had counted is
//! kept in a remainder, so that a restarted server never makes a counter of the page go down. Ages are counted on the monotonic
//! clock and go on while a source is silent. A snapshot comes from outside: families, labels and values not in the
//! table are left out, so that no sender can grow the page. Label values are closed sets; an unknown tool or code is `other`.
//! No argument, path or name of a person's is ever a label.
#![forbid(unsafe_code)]

mod error;
pub mod labels;
pub mod limits;
mod merge;
mod process;
mod reference;
mod registry;
mod render;
mod snapshot;
mod table;

pub use error::MetricsError;
pub use labels::{Child, ChildState, Guardrail, JobState, PollOutcome, PostOutcome, Process};
pub use merge::MergeReport;
pub use process::Usage;
pub use reference::reference_page;
pub use registry::Registry;
pub use render::CONTENT_TYPE;
pub use snapshot::{Histogram, Sample, Snapshot, Value};
pub use table::{Kind, Label, Merge, Spec, TABLE, Unit};
