//! The daemon's socket: `/v1/status`, `/v1/sessions`, `/v1/readiness`, `POST /v1/stop`, `POST /v1/restart`,
//! `POST /v1/reload`, `/v1/events` (NDJSON).

use super::server::{Sandbox, ServerStatus};
use serde::{Deserialize, Serialize};

/// `GET /v1/status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The daemon itself.
    pub daemon: Daemon,
    /// The child that is the MCP server.
    pub server: Child,
    /// What that server says of itself; none where it does not answer.
    #[serde(default)]
    pub server_status: Option<ServerStatus>,
    /// The tunnel.
    pub tunnel: Tunnel,
    /// What confines commands; none where the server does not say.
    #[serde(default)]
    pub sandbox: Option<Sandbox>,
    /// Whether a planner's call would work now.
    pub readiness: Readiness,
    /// The last calls of the trail, oldest first, without arguments.
    #[serde(default)]
    pub last_calls: Vec<Call>,
    /// What a person should know, each on a line.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// The daemon itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Daemon {
    /// Its process id.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// When it started, RFC 3339.
    pub started_at: String,
    /// Its home.
    pub home: String,
    /// Where it serves HTTP, `host:port`; none where that failed.
    #[serde(default)]
    pub http: Option<String>,
    /// Whether it is on its way down.
    #[serde(default)]
    pub stopping: bool,
    /// The service manager that started it, `systemd` or `launchd`; none where a person did.
    #[serde(default)]
    pub manager: Option<String>,
}

/// What a child is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildState {
    /// Not started, or stopped on purpose.
    Stopped,
    /// Started, not working yet.
    Starting,
    /// At work.
    Running,
    /// Asked to end.
    Stopping,
    /// Ended; waiting for the next start.
    Backoff,
    /// Alive, but what it is there for does not work.
    Failed,
    /// Only the operator can mend it.
    NeedsOperator,
}

impl ChildState {
    /// The state's name, as on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Backoff => "backoff",
            Self::Failed => "failed",
            Self::NeedsOperator => "needs_operator",
        }
    }
}

/// A child of the daemon, as its supervisor sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Child {
    /// What it is doing.
    pub state: ChildState,
    /// Its process id, while it lives.
    #[serde(default)]
    pub pid: Option<u32>,
    /// When it came into this state, RFC 3339.
    pub since: String,
    /// How often it was started again after it failed.
    #[serde(default)]
    pub restarts: u64,
    /// Why it is in this state, where that needs saying.
    #[serde(default)]
    pub reason: Option<String>,
    /// How it ended last.
    #[serde(default)]
    pub last_exit: Option<String>,
    /// When it will be started next, RFC 3339.
    #[serde(default)]
    pub next_start: Option<String>,
}

/// The tunnel, as the daemon sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tunnel {
    /// Whether one is configured; if not, the daemon is `local only`.
    pub configured: bool,
    /// The tunnel's id, shortened.
    #[serde(default)]
    pub id: Option<String>,
    /// Which client runs: `builtin` or `official`.
    #[serde(default)]
    pub client: Option<String>,
    /// The child.
    pub child: Child,
    /// What its health address says.
    #[serde(default)]
    pub ready: Option<bool>,
    /// Seconds since its last good poll.
    #[serde(default)]
    pub last_good_poll_s: Option<u64>,
    /// When its client tries again what failed, RFC 3339; none where it waits for nothing, and of the official client.
    #[serde(default)]
    pub next_try: Option<String>,
    /// Seconds since the server last answered a request that came through it; none where there was none since that server's start.
    #[serde(default)]
    pub last_answered_s: Option<u64>,
    /// Seconds that the oldest unanswered request has been at work.
    #[serde(default)]
    pub at_work_s: Option<u64>,
}

/// Whether a planner's call would work now. Also the body of `/readyz`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Readiness {
    /// Whether it would.
    pub ready: bool,
    /// Whether no tunnel is configured, so that only local clients call.
    #[serde(default)]
    pub local_only: bool,
    /// Why not; empty when ready.
    #[serde(default)]
    pub reasons: Vec<Reason>,
    /// When this was found, RFC 3339.
    #[serde(default)]
    pub checked_at: String,
}

/// One reason why a call would not work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// For programs: `server_…` or `tunnel_…`.
    pub code: String,
    /// For people.
    pub message: String,
    /// What to do; none where waiting is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// One call of the trail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// When it was answered, RFC 3339.
    pub ts: String,
    /// The tool.
    pub tool: String,
    /// Its diagnostic code.
    pub code: String,
    /// How long it took.
    #[serde(default)]
    pub duration_ms: Option<u64>,
}

/// What `POST /v1/restart` restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The MCP server; connected clients stay connected.
    Server,
    /// The tunnel client.
    Tunnel,
}

/// The body of `POST /v1/restart`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restart {
    /// Which child.
    pub what: What,
}

/// The answer to a `POST`: what was begun or done, in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// In words.
    pub message: String,
    /// What a person should know.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// A line of `/v1/events`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, RFC 3339.
    pub ts: String,
    /// What happened: `child`, `readiness`, `reload`, `stop`, or `lost` (the reader was too slow, `count` are missing).
    pub event: String,
    /// What else there is to say.
    #[serde(default)]
    pub detail: serde_json::Value,
}
