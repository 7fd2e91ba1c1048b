//! The table of all metrics.

use crate::labels::{
    CODES, Child, ChildState, Guardrail, JobState, PollOutcome, PostOutcome, Process, TOOLS,
};

/// Type of a metric, as Prometheus names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, from 0 at the start of the daemon.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by upper bound, with sum and count.
    Histogram,
}

/// Unit of a metric's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A plain number of things.
    Count,
    /// 1 for yes, 0 for no.
    Bool,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// Seconds since 1970-01-01 UTC.
    UnixSeconds,
}

/// How the values of several processes become one. Counters and histograms are always [`Merge::Sum`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// They are added up.
    Sum,
    /// The largest counts: all tell of the same thing.
    Max,
    /// The largest counts, plus the time since the figure was taken.
    Age,
}

/// A label of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// The values it may have; none: any short text.
    pub values: Option<&'static [&'static str]>,
}

/// One metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spec {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Its labels, in the order in which the recorders give their values.
    pub labels: &'static [Label],
    /// Its unit.
    pub unit: Unit,
    /// How the values of several processes are joined.
    pub merge: Merge,
    /// The processes that report it; from any other it is not accepted.
    pub from: &'static [Process],
    /// What it counts.
    pub help: &'static str,
}

const fn closed(name: &'static str, values: &'static [&'static str]) -> Label {
    let values = Some(values);
    Label { name, values }
}

const fn free(name: &'static str) -> Label {
    Label { name, values: None }
}

const PROCESS: Label = closed("process", Process::TEXTS);
const TOOL: Label = closed("tool", TOOLS);
const CHILD: Label = closed("child", Child::TEXTS);

const ALL: &[Process] = &[Process::Daemon, Process::Server, Process::Tunnel];
const DAEMON: &[Process] = &[Process::Daemon];
const SERVER: &[Process] = &[Process::Server];
// The daemon reports for an official client, which cannot.
const TUNNEL: &[Process] = &[Process::Daemon, Process::Tunnel];

const fn counter(
    name: &'static str,
    labels: &'static [Label],
    unit: Unit,
    from: &'static [Process],
    help: &'static str,
) -> Spec {
    Spec {
        name,
        kind: Kind::Counter,
        labels,
        unit,
        merge: Merge::Sum,
        from,
        help,
    }
}

const fn gauge(
    name: &'static str,
    labels: &'static [Label],
    unit: Unit,
    merge: Merge,
    from: &'static [Process],
    help: &'static str,
) -> Spec {
    Spec {
        name,
        kind: Kind::Gauge,
        labels,
        unit,
        merge,
        from,
        help,
    }
}

pub(crate) const BUILD: Spec = gauge(
    "hands_build_info",
    &[PROCESS, free("version"), free("os"), free("arch")],
    Unit::Bool,
    Merge::Max,
    ALL,
    "Always 1; the labels say what runs.",
);
pub(crate) const CALLS: Spec = counter(
    "hands_calls_total",
    &[TOOL, closed("code", CODES)],
    Unit::Count,
    SERVER,
    "Tool calls answered, by tool and diagnostic code.",
);
pub(crate) const CALL_SECONDS: Spec = Spec {
    name: "hands_call_duration_seconds",
    kind: Kind::Histogram,
    labels: &[TOOL],
    unit: Unit::Seconds,
    merge: Merge::Sum,
    from: SERVER,
    help: "Time from a call's arrival to its answer.",
};
pub(crate) const CALL_RECEIVED: Spec = counter(
    "hands_call_received_bytes_total",
    &[TOOL],
    Unit::Bytes,
    SERVER,
    "Size of the calls' arguments.",
);
pub(crate) const CALL_SENT: Spec = counter(
    "hands_call_sent_bytes_total",
    &[TOOL],
    Unit::Bytes,
    SERVER,
    "Size of the calls' results.",
);
pub(crate) const CALLS_IN_FLIGHT: Spec = gauge(
    "hands_calls_in_flight",
    &[],
    Unit::Count,
    Merge::Sum,
    SERVER,
    "Calls at work now.",
);
pub(crate) const CALLS_QUEUED: Spec = gauge(
    "hands_calls_queued",
    &[],
    Unit::Count,
    Merge::Sum,
    SERVER,
    "Calls waiting for a free place.",
);
pub(crate) const DENIALS: Spec = counter(
    "hands_denials_total",
    &[closed("guardrail", Guardrail::TEXTS)],
    Unit::Count,
    SERVER,
    "Calls refused, by guardrail.",
);
pub(crate) const SESSIONS: Spec = gauge(
    "hands_sessions",
    &[],
    Unit::Count,
    Merge::Sum,
    SERVER,
    "MCP sessions open now.",
);
pub(crate) const SESSIONS_OPENED: Spec = counter(
    "hands_sessions_opened_total",
    &[],
    Unit::Count,
    SERVER,
    "MCP sessions opened.",
);
pub(crate) const JOBS: Spec = gauge(
    "hands_jobs",
    &[closed("state", JobState::TEXTS)],
    Unit::Count,
    // Every server of a home sees the same jobs.
    Merge::Max,
    SERVER,
    "Jobs known, by state.",
);
pub(crate) const JOBS_STARTED: Spec = counter(
    "hands_jobs_started_total",
    &[],
    Unit::Count,
    SERVER,
    "Jobs started, and commands that became one.",
);
pub(crate) const RECOVERY_BYTES: Spec = gauge(
    "hands_recovery_bytes",
    &[],
    Unit::Bytes,
    Merge::Max,
    SERVER,
    "Size of all contents in the recovery folder; a minute old at most.",
);
pub(crate) const RECOVERY_LIMIT: Spec = gauge(
    "hands_recovery_limit_bytes",
    &[],
    Unit::Bytes,
    Merge::Max,
    SERVER,
    "Most that the recovery folder may hold (`limits.recovery_bytes`).",
);
pub(crate) const RECOVERY_ENTRIES: Spec = gauge(
    "hands_recovery_entries",
    &[],
    Unit::Count,
    Merge::Max,
    SERVER,
    "Entries in the recovery folder; a minute old at most.",
);
pub(crate) const RESTARTS: Spec = counter(
    "hands_child_restarts_total",
    &[CHILD],
    Unit::Count,
    DAEMON,
    "Restarts of a child after it failed.",
);
pub(crate) const CHILD_STATE: Spec = gauge(
    "hands_child_state",
    &[CHILD, closed("state", ChildState::TEXTS)],
    Unit::Bool,
    Merge::Max,
    DAEMON,
    "1 for the state that a child is in, 0 for the others.",
);
pub(crate) const READY: Spec = gauge(
    "hands_ready",
    &[],
    Unit::Bool,
    Merge::Max,
    DAEMON,
    "Whether a planner's call would work now; the same as /readyz.",
);
pub(crate) const LOCAL_ONLY: Spec = gauge(
    "hands_local_only",
    &[],
    Unit::Bool,
    Merge::Max,
    DAEMON,
    "Whether no tunnel is configured.",
);
pub(crate) const POLLS: Spec = counter(
    "hands_tunnel_polls_total",
    &[closed("outcome", PollOutcome::TEXTS)],
    Unit::Count,
    TUNNEL,
    "Polls of the tunnel's control plane, by outcome.",
);
pub(crate) const POLL_AGE: Spec = gauge(
    "hands_tunnel_last_good_poll_age_seconds",
    &[],
    Unit::Seconds,
    Merge::Age,
    TUNNEL,
    "Time since the last good poll, or since polling began if there was none; absent without a tunnel. Not moved by changes of the clock.",
);
pub(crate) const POLL_TIME: Spec = gauge(
    "hands_tunnel_last_good_poll_timestamp_seconds",
    &[],
    Unit::UnixSeconds,
    Merge::Max,
    TUNNEL,
    "When the last good poll ended; absent until there was one.",
);
pub(crate) const POSTS: Spec = counter(
    "hands_tunnel_posts_total",
    &[closed("outcome", PostOutcome::TEXTS)],
    Unit::Count,
    TUNNEL,
    "Answers to be delivered to the tunnel's control plane, by outcome of the last try.",
);
pub(crate) const COMMANDS_IN_FLIGHT: Spec = gauge(
    "hands_tunnel_commands_in_flight",
    &[],
    Unit::Count,
    Merge::Sum,
    TUNNEL,
    "Commands received and at work, not answered yet.",
);
pub(crate) const COMMANDS_QUEUED: Spec = gauge(
    "hands_tunnel_commands_queued",
    &[],
    Unit::Count,
    Merge::Sum,
    TUNNEL,
    "Commands received and not begun.",
);
pub(crate) const SNAPSHOT_AGE: Spec = gauge(
    "hands_snapshot_age_seconds",
    &[PROCESS],
    Unit::Seconds,
    Merge::Max,
    DAEMON,
    "Time since the oldest of that kind of process last reported its figures.",
);
pub(crate) const CPU: Spec = counter(
    "hands_process_cpu_seconds_total",
    &[PROCESS],
    Unit::Seconds,
    ALL,
    "Processor time used, user and system.",
);
pub(crate) const MEMORY: Spec = gauge(
    "hands_process_resident_memory_bytes",
    &[PROCESS],
    Unit::Bytes,
    Merge::Sum,
    ALL,
    "Resident memory.",
);
pub(crate) const OPEN_FDS: Spec = gauge(
    "hands_process_open_fds",
    &[PROCESS],
    Unit::Count,
    Merge::Max,
    ALL,
    "Open file descriptors; of several processes, the one with most.",
);
pub(crate) const MAX_FDS: Spec = gauge(
    "hands_process_max_fds",
    &[PROCESS],
    Unit::Count,
    Merge::Max,
    ALL,
    "Most file descriptors a process may open.",
);
pub(crate) const START_TIME: Spec = gauge(
    "hands_process_start_time_seconds",
    &[PROCESS],
    Unit::UnixSeconds,
    Merge::Max,
    ALL,
    "When the process started; of several, the youngest.",
);

/// Every metric, in the order of the page.
pub const TABLE: &[Spec] = &[
    BUILD,
    READY,
    LOCAL_ONLY,
    CALLS,
    CALL_SECONDS,
    CALL_RECEIVED,
    CALL_SENT,
    CALLS_IN_FLIGHT,
    CALLS_QUEUED,
    DENIALS,
    SESSIONS,
    SESSIONS_OPENED,
    JOBS,
    JOBS_STARTED,
    RECOVERY_BYTES,
    RECOVERY_LIMIT,
    RECOVERY_ENTRIES,
    CHILD_STATE,
    RESTARTS,
    POLLS,
    POLL_AGE,
    POLL_TIME,
    POSTS,
    COMMANDS_IN_FLIGHT,
    COMMANDS_QUEUED,
    SNAPSHOT_AGE,
    CPU,
    MEMORY,
    OPEN_FDS,
    MAX_FDS,
    START_TIME,
];

/// The metric of that name.
pub(crate) fn find(name: &str) -> Option<&'static Spec> {
    TABLE.iter().find(|spec| spec.name == name)
}
