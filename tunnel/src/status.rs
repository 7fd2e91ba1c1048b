//! What the client says about itself: whether a planner's call would work, and why not.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::control_plane::Metadata;
use crate::limits;
use crate::metrics::Metrics;
use crate::poller::{PollState, PollTrouble};
use crate::poster::PostState;
use crate::session::ChildState;
use crate::sessions::Sessions;
use crate::sync::lock;

/// Where the facts come from.
#[derive(Debug)]
pub struct Status {
    /// The tunnel's id.
    pub tunnel_id: String,
    /// How long after a good poll the next one is late.
    pub stale_after: Duration,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// How polls fail.
    pub polls: Arc<PollState>,
    /// How posts fail.
    pub posts: Arc<PostState>,
    /// The children.
    pub sessions: Arc<Sessions>,
    /// The tunnel's record, once it was fetched.
    pub metadata: Mutex<Option<Metadata>>,
    /// Cancelled once the client stops.
    pub stopping: CancellationToken,
}

/// One reason not to be ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// A stable word.
    pub code: &'static str,
    /// What it means, and what to do.
    pub message: String,
}

/// The page `/api/status`.
#[derive(Debug, Serialize)]
pub struct Page {
    client: Client,
    ready: bool,
    reasons: Vec<Reason>,
    tunnel: Tunnel,
    poll: Poll,
    server: Server,
    commands: Commands,
}

#[derive(Debug, Serialize)]
struct Client {
    name: &'static str,
    version: &'static str,
    pid: u32,
    uptime_s: u64,
}

#[derive(Debug, Serialize)]
struct Tunnel {
    id: String,
    name: Option<String>,
}

#[derive(Debug, Serialize)]
struct Poll {
    last_good_age_ms: Option<u64>,
    /// How long no poll was made because no further call can be taken.
    busy_ms: Option<u64>,
    failures_in_a_row: u64,
    trouble: Option<PollTrouble>,
    by_outcome: std::collections::BTreeMap<&'static str, u64>,
}

#[derive(Debug, Serialize)]
struct Server {
    #[serde(flatten)]
    child: ChildState,
    restarts: u64,
    sessions: usize,
}

#[derive(Debug, Serialize)]
struct Commands {
    in_flight: u64,
    failures_in_a_row: u64,
    deadlines_passed: u64,
    posts_by_outcome: std::collections::BTreeMap<&'static str, u64>,
    failures_by_source: std::collections::BTreeMap<&'static str, u64>,
}

impl Status {
    /// Why a planner's call would not work now; empty where it would.
    pub fn reasons(&self) -> Vec<Reason> {
        let mut found = Vec::new();
        let mut add = |code, message: String| found.push(Reason { code, message });
        if self.stopping.is_cancelled() {
            add("stopping", "the client is stopping".into());
        }
        let child = self.sessions.main_state();
        if child.pid.is_none() {
            let why = child.last_end.as_deref().unwrap_or("it is starting");
            add(
                "server_down",
                format!("the MCP server is not running: {why}"),
            );
        } else if !child.answers {
            let text = "the MCP server has not answered a request yet, or not the last one";
            add("server_silent", text.into());
        }
        self.poll_reasons(&mut add);
        if let Some(trouble) = self.posts.trouble(self.metrics.poll_age()) {
            if trouble.needs_operator {
                let advice = "check the API key and its right to use the tunnel";
                add("needs_operator", format!("{}: {advice}", trouble.message));
            } else {
                add("posts_refused", trouble.message);
            }
        }
        let failures = self.metrics.failures_in_a_row.get();
        if failures >= limits::CALL_FAILURES_UNREADY {
            add(
                "calls_fail",
                format!("the last {failures} calls got no answer of the server"),
            );
        }
        found
    }

    fn poll_reasons(&self, add: &mut impl FnMut(&'static str, String)) {
        if let Some(trouble) = self.polls.trouble() {
            if let Some(advice) = trouble.needs_operator {
                add("needs_operator", format!("{}: {advice}", trouble.message));
                return;
            }
            let failures = self.metrics.poll_failures.get();
            if failures >= limits::POLL_FAILURES_UNREADY {
                let text = format!("the last {failures} polls failed: {}", trouble.message);
                add("polls_fail", text);
                return;
            }
        }
        let age = self.metrics.poll_age();
        if age.is_some_and(|age| self.polls.silence(age) <= self.stale_after) {
            return;
        }
        if let Some(receiving) = self.polls.receiving() {
            let seconds = receiving.as_secs();
            let text = format!(
                "the service answers polls slowly: it has been sending the last answer for {seconds} s"
            );
            add("polls_slow", text);
            return;
        }
        match age {
            None => add("no_poll", "no poll was answered well yet".into()),
            Some(age) => {
                let text = format!("the last good poll was {} s ago", age.as_secs());
                add("polls_stale", text);
            }
        }
    }

    /// The whole page.
    pub fn page(&self) -> Page {
        let metrics = &self.metrics;
        let reasons = self.reasons();
        let age = metrics.poll_age().map(|age| age.as_millis() as u64);
        Page {
            client: Client {
                name: limits::CLIENT_NAME,
                version: env!("CARGO_PKG_VERSION"),
                pid: std::process::id(),
                uptime_s: metrics.started.elapsed().as_secs(),
            },
            ready: reasons.is_empty(),
            reasons,
            tunnel: Tunnel {
                id: self.tunnel_id.clone(),
                name: lock(&self.metadata)
                    .as_ref()
                    .map(|record| record.name.clone()),
            },
            poll: Poll {
                last_good_age_ms: age,
                busy_ms: self.polls.busy().map(|busy| busy.as_millis() as u64),
                failures_in_a_row: metrics.poll_failures.get(),
                trouble: self.polls.trouble(),
                by_outcome: metrics.polls.counts(),
            },
            server: Server {
                child: self.sessions.main_state(),
                restarts: metrics.restarts.get(),
                sessions: self.sessions.count(),
            },
            commands: Commands {
                in_flight: metrics.in_flight.get(),
                failures_in_a_row: metrics.failures_in_a_row.get(),
                deadlines_passed: metrics.deadlines.get(),
                posts_by_outcome: metrics.posts.counts(),
                failures_by_source: metrics.failures.counts(),
            },
        }
    }
}
