//! The registry: one typed recorder for every metric.

use crate::error::MetricsError;
use crate::labels::{
    CODES, Child, ChildState, Guardrail, JobState, PollOutcome, PostOutcome, Process, TOOLS, known,
};
use crate::limits::{MAX_LABEL_BYTES, SNAPSHOT_FORMAT};
use crate::merge::{MergeReport, Merged};
use crate::process::Usage;
use crate::render;
use crate::snapshot::{Families, Histogram, Snapshot, Value};
use crate::table::{self, Spec};
use prometheus::core::Collector;
use prometheus::proto::MetricType;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use uuid::Uuid;

/// The figures of this process, and of those whose snapshots were merged. Shared by reference; no recorder blocks on I/O.
#[derive(Debug)]
pub struct Registry {
    process: Process,
    instance: String,
    sequence: Mutex<u64>,
    inner: prometheus::Registry,
    metrics: Metrics,
    polling: Mutex<Polling>,
    watched: Mutex<BTreeMap<Process, u32>>,
    merged: Mutex<Merged>,
}

#[derive(Debug)]
struct Metrics {
    build: IntGaugeVec,
    ready: IntGaugeVec,
    local_only: IntGaugeVec,
    calls: IntCounterVec,
    call_seconds: HistogramVec,
    call_received: IntCounterVec,
    call_sent: IntCounterVec,
    calls_in_flight: IntGaugeVec,
    calls_queued: IntGaugeVec,
    denials: IntCounterVec,
    sessions: IntGaugeVec,
    sessions_opened: IntCounterVec,
    jobs: IntGaugeVec,
    recovery_bytes: IntGaugeVec,
    recovery_limit: IntGaugeVec,
    recovery_entries: IntGaugeVec,
    jobs_started: IntCounterVec,
    child_state: IntGaugeVec,
    restarts: IntCounterVec,
    polls: IntCounterVec,
    posts: IntCounterVec,
    commands_in_flight: IntGaugeVec,
    commands_queued: IntGaugeVec,
}

/// What the age of the last good poll is reckoned from.
#[derive(Debug, Default)]
struct Polling {
    /// The last good poll, or the start of polling; none while nothing polls.
    since: Option<Instant>,
    /// The last good poll by the clock.
    last_good: Option<SystemTime>,
}

impl Registry {
    /// A registry for a process of that kind and version. The metrics it reports by closed labels start at 0, so that
    /// the first event of a kind is seen as a rise.
    ///
    /// # Errors
    /// The table of metrics is wrong; it never is in a build whose tests passed.
    pub fn new(process: Process, version: &str) -> Result<Registry, MetricsError> {
        let inner = prometheus::Registry::new();
        let registry = Registry {
            process,
            instance: Uuid::now_v7().to_string(),
            sequence: Mutex::default(),
            metrics: Metrics::register(&inner)?,
            inner,
            polling: Mutex::default(),
            watched: Mutex::new(BTreeMap::from([(process, std::process::id())])),
            merged: Mutex::default(),
        };
        registry.metrics.begin(process, version);
        Ok(registry)
    }

    /// A tool call was answered after `duration`, with arguments and result of so many bytes.
    pub fn record_call(
        &self,
        tool: &str,
        code: &str,
        duration: Duration,
        received: u64,
        sent: u64,
    ) {
        let (tool, code) = (known(TOOLS, tool), known(CODES, code));
        let metrics = &self.metrics;
        metrics.calls.with_label_values(&[tool, code]).inc();
        let seconds = metrics.call_seconds.with_label_values(&[tool]);
        seconds.observe(duration.as_secs_f64());
        metrics
            .call_received
            .with_label_values(&[tool])
            .inc_by(received);
        metrics.call_sent.with_label_values(&[tool]).inc_by(sent);
    }

    /// So many calls are at work, and so many wait for a place.
    pub fn set_calls(&self, in_flight: u64, queued: u64) {
        set(&self.metrics.calls_in_flight, &[], in_flight);
        set(&self.metrics.calls_queued, &[], queued);
    }

    /// A guardrail refused a call.
    pub fn record_denial(&self, guardrail: Guardrail) {
        let labels = [guardrail.as_str()];
        self.metrics.denials.with_label_values(&labels).inc();
    }

    /// A session began.
    pub fn session_opened(&self) {
        none(&self.metrics.sessions_opened).inc();
    }

    /// So many sessions are open.
    pub fn set_sessions(&self, open: u64) {
        set(&self.metrics.sessions, &[], open);
    }

    /// A job was started, or a command became one.
    pub fn job_started(&self) {
        none(&self.metrics.jobs_started).inc();
    }

    /// So many jobs are in that state.
    pub fn set_jobs(&self, state: JobState, count: u64) {
        set(&self.metrics.jobs, &[state.as_str()], count);
    }

    /// The recovery folder holds so many bytes of so many that it may, in so many entries.
    pub fn set_recovery(&self, bytes: u64, limit: u64, entries: u64) {
        set(&self.metrics.recovery_bytes, &[], bytes);
        set(&self.metrics.recovery_limit, &[], limit);
        set(&self.metrics.recovery_entries, &[], entries);
    }

    /// A child is started again after it failed.
    pub fn record_restart(&self, child: Child) {
        self.metrics
            .restarts
            .with_label_values(&[child.as_str()])
            .inc();
    }

    /// A child is in that state now, and in no other.
    pub fn set_child_state(&self, child: Child, state: ChildState) {
        for other in ChildState::ALL {
            let labels = [child.as_str(), other.as_str()];
            set(
                &self.metrics.child_state,
                &labels,
                u64::from(*other == state),
            );
        }
    }

    /// Whether a planner's call would work now.
    pub fn set_ready(&self, ready: bool) {
        set(&self.metrics.ready, &[], u64::from(ready));
    }

    /// Whether no tunnel is configured.
    pub fn set_local_only(&self, local_only: bool) {
        set(&self.metrics.local_only, &[], u64::from(local_only));
    }

    /// Polling begins: from now on the last good poll has an age.
    pub fn polling_started(&self) {
        lock(&self.polling).since = Some(Instant::now());
    }

    /// Polling ends on purpose: the age disappears.
    pub fn polling_stopped(&self) {
        *lock(&self.polling) = Polling::default();
    }

    /// A poll ended now.
    pub fn record_poll(&self, outcome: PollOutcome) {
        self.record_polls(outcome, 1);
        if outcome.is_good() {
            self.last_good_poll(Duration::ZERO);
        }
    }

    /// So many polls ended that way, at a moment unknown: figures of a client that only reports totals.
    pub fn record_polls(&self, outcome: PollOutcome, count: u64) {
        let labels = [outcome.as_str()];
        self.metrics.polls.with_label_values(&labels).inc_by(count);
    }

    /// The last good poll ended that long ago. An older one than is known already changes nothing.
    pub fn last_good_poll(&self, ago: Duration) {
        let mut polling = lock(&self.polling);
        // A machine that started after that moment has no instant for it; then the age starts now.
        let at = Instant::now().checked_sub(ago);
        let at = at.unwrap_or_else(Instant::now);
        if polling.last_good.is_none() || polling.since.is_none_or(|since| since < at) {
            polling.since = Some(at);
            polling.last_good = SystemTime::now().checked_sub(ago);
        }
    }

    /// The delivery of an answer ended.
    pub fn record_post(&self, outcome: PostOutcome) {
        self.record_posts(outcome, 1);
    }

    /// The delivery of so many answers ended that way.
    pub fn record_posts(&self, outcome: PostOutcome, count: u64) {
        let labels = [outcome.as_str()];
        self.metrics.posts.with_label_values(&labels).inc_by(count);
    }

    /// So many commands of the tunnel are at work, and so many are not begun.
    pub fn set_commands(&self, in_flight: u64, queued: u64) {
        set(&self.metrics.commands_in_flight, &[], in_flight);
        set(&self.metrics.commands_queued, &[], queued);
    }

    /// Reports the processor time, memory and descriptors of that process too, or of none any more: for a child that
    /// cannot report them itself. This process's own are always reported.
    pub fn watch(&self, process: Process, pid: Option<u32>) {
        let mut watched = lock(&self.watched);
        match pid {
            Some(pid) => watched.insert(process, pid),
            None => watched.remove(&process),
        };
    }

    /// This process's figures, to be sent to another.
    pub fn snapshot(&self) -> Snapshot {
        // Held while the figures are read, so that a higher number never comes with older figures.
        let mut sequence = lock(&self.sequence);
        *sequence += 1;
        Snapshot {
            format: SNAPSHOT_FORMAT,
            process: self.process,
            instance: self.instance.clone(),
            sequence: *sequence,
            samples: self.own().samples(),
        }
    }

    /// Takes in the figures of another process. `from` names the source, the same for every snapshot of it and through
    /// its restarts (such as `server` or `server-4711`).
    ///
    /// # Errors
    /// The snapshot has another format, or too many sources are merged.
    pub fn merge(&self, from: &str, snapshot: &Snapshot) -> Result<MergeReport, MetricsError> {
        lock(&self.merged).put(from, snapshot, Instant::now())
    }

    /// The source is gone for good: its gauges disappear, what it counted stays in the sums.
    pub fn forget(&self, from: &str) {
        lock(&self.merged).forget(from);
    }

    /// This process's figures joined with the merged ones, as Prometheus text ([`crate::CONTENT_TYPE`]).
    pub fn render(&self) -> String {
        let mut page = self.own();
        lock(&self.merged).add_to(&mut page, Instant::now());
        render::text(&page)
    }

    fn own(&self) -> Families {
        let mut families = Families::default();
        for family in self.inner.gather() {
            if let Some(spec) = table::find(family.name()) {
                for metric in family.get_metric() {
                    families.join(
                        spec,
                        key(spec, metric),
                        &value(family.get_field_type(), metric),
                    );
                }
            }
        }
        self.add_polling(&mut families);
        self.add_usage(&mut families);
        families
    }

    fn add_polling(&self, families: &mut Families) {
        let polling = lock(&self.polling);
        if let Some(since) = polling.since {
            let age = Value::Number(since.elapsed().as_secs_f64());
            families.join(&table::POLL_AGE, Vec::new(), &age);
        }
        let unix = polling.last_good.map(|at| at.duration_since(UNIX_EPOCH));
        if let Some(Ok(unix)) = unix {
            let time = Value::Number(unix.as_secs_f64());
            families.join(&table::POLL_TIME, Vec::new(), &time);
        }
    }

    fn add_usage(&self, families: &mut Families) {
        for (process, pid) in lock(&self.watched).iter() {
            // A child that just ended has no figures; the next watch names its successor.
            let Ok(usage) = Usage::of(*pid) else {
                continue;
            };
            let figures = [
                (&table::CPU, Some(usage.cpu_s)),
                (&table::MEMORY, Some(usage.resident_bytes as f64)),
                (&table::OPEN_FDS, usage.open_fds.map(|count| count as f64)),
                (&table::MAX_FDS, usage.max_fds.map(|count| count as f64)),
                (&table::START_TIME, Some(usage.started_unix_s)),
            ];
            for (spec, figure) in figures {
                if let Some(number) = figure {
                    let key = vec![process.as_str().to_owned()];
                    families.join(spec, key, &Value::Number(number));
                }
            }
        }
    }
}

impl Metrics {
    fn register(registry: &prometheus::Registry) -> Result<Metrics, MetricsError> {
        let gauge = |spec| register(registry, spec, IntGaugeVec::new);
        let counter = |spec| register(registry, spec, IntCounterVec::new);
        Ok(Metrics {
            build: gauge(&table::BUILD)?,
            ready: gauge(&table::READY)?,
            local_only: gauge(&table::LOCAL_ONLY)?,
            calls: counter(&table::CALLS)?,
            call_seconds: register(registry, &table::CALL_SECONDS, |opts, labels| {
                let buckets = crate::limits::CALL_SECONDS.to_vec();
                HistogramVec::new(HistogramOpts::from(opts).buckets(buckets), labels)
            })?,
            call_received: counter(&table::CALL_RECEIVED)?,
            call_sent: counter(&table::CALL_SENT)?,
            calls_in_flight: gauge(&table::CALLS_IN_FLIGHT)?,
            calls_queued: gauge(&table::CALLS_QUEUED)?,
            denials: counter(&table::DENIALS)?,
            sessions: gauge(&table::SESSIONS)?,
            sessions_opened: counter(&table::SESSIONS_OPENED)?,
            jobs: gauge(&table::JOBS)?,
            jobs_started: counter(&table::JOBS_STARTED)?,
            recovery_bytes: gauge(&table::RECOVERY_BYTES)?,
            recovery_limit: gauge(&table::RECOVERY_LIMIT)?,
            recovery_entries: gauge(&table::RECOVERY_ENTRIES)?,
            child_state: gauge(&table::CHILD_STATE)?,
            restarts: counter(&table::RESTARTS)?,
            polls: counter(&table::POLLS)?,
            posts: counter(&table::POSTS)?,
            commands_in_flight: gauge(&table::COMMANDS_IN_FLIGHT)?,
            commands_queued: gauge(&table::COMMANDS_QUEUED)?,
        })
    }

    /// Sets the metrics of a process to their first values.
    fn begin(&self, process: Process, version: &str) {
        let version = &version[..version.floor_char_boundary(MAX_LABEL_BYTES)];
        let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
        set(&self.build, &[process.as_str(), version, os, arch], 1);
        match process {
            Process::Server => self.begin_server(),
            Process::Tunnel => self.begin_tunnel(),
            Process::Daemon => self.begin_daemon(),
        }
    }

    fn begin_server(&self) {
        for tool in TOOLS {
            self.calls.with_label_values(&[*tool, "ok"]);
            self.call_received.with_label_values(&[*tool]);
            self.call_sent.with_label_values(&[*tool]);
        }
        for guardrail in Guardrail::TEXTS {
            self.denials.with_label_values(&[*guardrail]);
        }
        for gauge in [&self.calls_in_flight, &self.calls_queued, &self.sessions] {
            set(gauge, &[], 0);
        }
        none(&self.sessions_opened);
        none(&self.jobs_started);
    }

    fn begin_tunnel(&self) {
        for outcome in PollOutcome::TEXTS {
            self.polls.with_label_values(&[*outcome]);
        }
        for outcome in PostOutcome::TEXTS {
            self.posts.with_label_values(&[*outcome]);
        }
        set(&self.commands_in_flight, &[], 0);
        set(&self.commands_queued, &[], 0);
    }

    fn begin_daemon(&self) {
        for child in Child::TEXTS {
            self.restarts.with_label_values(&[*child]);
        }
        // Not ready until someone says so.
        set(&self.ready, &[], 0);
    }
}

fn register<C: Collector + Clone + 'static>(
    registry: &prometheus::Registry,
    spec: &'static Spec,
    make: impl FnOnce(Opts, &[&str]) -> prometheus::Result<C>,
) -> Result<C, MetricsError> {
    let labels: Vec<&str> = spec.labels.iter().map(|label| label.name).collect();
    let made = make(Opts::new(spec.name, spec.help), &labels);
    made.and_then(|metric| registry.register(Box::new(metric.clone())).map(|()| metric))
        .map_err(|source| MetricsError::Table {
            name: spec.name,
            source,
        })
}

fn set(gauge: &IntGaugeVec, labels: &[&str], number: u64) {
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    gauge.with_label_values(labels).set(number);
}

/// The only member of a metric without labels.
fn none(counter: &IntCounterVec) -> prometheus::IntCounter {
    counter.with_label_values::<&str>(&[])
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under these locks is complete in itself, so a panic elsewhere leaves them usable.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The values of a gathered metric's labels in the table's order.
fn key(spec: &Spec, metric: &prometheus::proto::Metric) -> Vec<String> {
    let value_of = |name: &str| {
        let pair = metric.get_label().iter().find(|pair| pair.name() == name);
        pair.map_or(String::new(), |pair| pair.value().to_owned())
    };
    spec.labels
        .iter()
        .map(|label| value_of(label.name))
        .collect()
}

fn value(kind: MetricType, metric: &prometheus::proto::Metric) -> Value {
    match kind {
        MetricType::COUNTER => Value::Number(metric.get_counter().get_value()),
        MetricType::HISTOGRAM => {
            let histogram = metric.get_histogram();
            let buckets = histogram.get_bucket();
            Value::Histogram(Histogram {
                bounds: buckets.iter().map(|bucket| bucket.upper_bound()).collect(),
                cumulative: buckets
                    .iter()
                    .map(|bucket| bucket.cumulative_count())
                    .collect(),
                count: histogram.get_sample_count(),
                sum: histogram.get_sample_sum(),
            })
        }
        _ => Value::Number(metric.get_gauge().get_value()),
    }
}
