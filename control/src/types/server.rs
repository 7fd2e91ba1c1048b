//! A server's socket: `/v1/status`, `/v1/sessions`, `/v1/grants`, `/v1/metrics` (a snapshot of `hands_metrics`),
//! `POST /v1/grants`, `POST /v1/grants/revoke`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a server serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// One client, over standard input and output.
    Standalone,
    /// Many clients, on the home's socket.
    Serve,
}

/// `GET /v1/status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// Its process id.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// When it started, RFC 3339.
    pub started_at: String,
    /// How it serves.
    pub mode: Mode,
    /// What confines commands; none while it is not tried yet.
    #[serde(default)]
    pub sandbox: Option<Sandbox>,
    /// Sessions open now.
    #[serde(default)]
    pub sessions: u64,
    /// Calls since its start.
    #[serde(default)]
    pub calls: Calls,
    /// The approved workspaces.
    #[serde(default)]
    pub workspaces: Vec<String>,
    /// What the recovery folder holds; none where the server does not say.
    #[serde(default)]
    pub recovery: Option<RecoveryUse>,
}

/// What the recovery folder holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryUse {
    /// Bytes of all contents; a minute old at most.
    pub bytes: u64,
    /// What they may be.
    pub max_bytes: u64,
    /// How many there are; as old as the bytes.
    #[serde(default)]
    pub entries: u64,
    /// What was dropped last; none where nothing ever was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_dropped: Option<Dropped>,
}

/// Recovery entries that were dropped at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// When, RFC 3339.
    pub ts: String,
    /// `room` where room was made for something new, `rotation` where a person asked for it.
    pub by: String,
    /// How many.
    pub entries: u64,
    /// What they held on disk, bytes.
    pub bytes: u64,
    /// When the youngest of them had been kept, RFC 3339.
    pub until: String,
}

/// What confines commands, as it was seen to work on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    /// The sandbox that was tried.
    pub backend: String,
    /// `full`, `reduced`, `none`: how much of it works.
    pub state: String,
    /// What stands in its way, in one word that names no path (`hands_sandbox::canary::Cause`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Why the state is not `full`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What mends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Calls since a server's start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// Answered.
    #[serde(default)]
    pub total: u64,
    /// At work now.
    #[serde(default)]
    pub in_flight: u64,
    /// Answered, by diagnostic code.
    #[serde(default)]
    pub by_code: BTreeMap<String, u64>,
}

/// `GET /v1/sessions`: `{"sessions": […]}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sessions {
    /// Those open now, oldest first.
    #[serde(default)]
    pub sessions: Vec<Session>,
}

/// One client's session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Its id, as in the trail.
    pub id: String,
    /// The server it belongs to.
    #[serde(default)]
    pub server_pid: u32,
    /// Who is connected, in its own words; none before it said so.
    #[serde(default)]
    pub client: Option<Client>,
    /// When it was opened, RFC 3339.
    pub opened_at: String,
    /// Calls answered.
    #[serde(default)]
    pub calls: u64,
    /// The process at the other end of its socket; none over standard input and output.
    #[serde(default)]
    pub peer_pid: Option<u32>,
    /// Whether it came through the tunnel; only the daemon knows.
    #[serde(default)]
    pub through_tunnel: bool,
    /// Milliseconds since its client's last request; pings do not count, here and below.
    #[serde(default)]
    pub asked_ms_ago: Option<u64>,
    /// Milliseconds since the last answer.
    #[serde(default)]
    pub answered_ms_ago: Option<u64>,
    /// Milliseconds that its oldest unanswered request has been at work.
    #[serde(default)]
    pub at_work_ms: Option<u64>,
    /// Whose word opens a folder in it: `nonce`, `human`.
    #[serde(default)]
    pub permissions: String,
    /// What the person has allowed in it.
    #[serde(default)]
    pub grants: Vec<Grant>,
    /// What was asked for in it and is not open.
    #[serde(default)]
    pub pending: Vec<Pending>,
}

/// Who is connected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// Name.
    pub name: String,
    /// Version.
    #[serde(default)]
    pub version: String,
}

/// `GET /v1/grants`: `{"grants": […]}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grants {
    /// Those in force in any session.
    #[serde(default)]
    pub grants: Vec<SessionGrant>,
}

/// A grant, with the session it holds in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionGrant {
    /// The session's id.
    pub session: String,
    /// The grant.
    #[serde(flatten)]
    pub grant: Grant,
}

/// What a person has allowed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The folder it holds for.
    pub folder: String,
    /// What it allows there.
    #[serde(rename = "use")]
    pub purpose: String,
    /// Whether it holds only for the files directly in the folder, which is then a workspace.
    #[serde(default)]
    pub direct_only: bool,
    /// What opened it: `nonce` (the planner sent one back) or `person` (over this socket).
    #[serde(default)]
    pub by: String,
    /// When it was opened, RFC 3339.
    #[serde(default)]
    pub granted_at: String,
    /// When it ends at the latest, RFC 3339.
    pub expires_at: String,
}

/// A folder that was asked for and is not open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// The folder.
    pub folder: String,
    /// What was to be done: `overwrite`, `append`, `edit`.
    pub act: String,
    /// When it was asked for, RFC 3339.
    pub asked_at: String,
    /// When its nonce stops working, RFC 3339; none where no nonce was made.
    #[serde(default)]
    pub expires_at: Option<String>,
}

/// The body of `POST /v1/grants`: opens folders in one session. All of them, or none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantRequest {
    /// The session's id.
    pub session: String,
    /// Absolute paths: top-level folders of a workspace, workspaces (the files directly in them), folders of `write.extra`.
    pub folders: Vec<String>,
    /// Seconds after which the grants end; none: as long as the configuration lets them last.
    #[serde(default)]
    pub for_s: Option<u64>,
}

/// The body of `POST /v1/grants/revoke`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RevokeRequest {
    /// The session's id.
    pub session: String,
    /// Absolute paths, as they stand in the grants; none: every folder.
    #[serde(default)]
    pub folders: Option<Vec<String>>,
}

/// The answer to `POST /v1/grants/revoke`: what that ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoked {
    /// The session's id.
    pub session: String,
    /// Grants that were in force.
    #[serde(default)]
    pub grants: Vec<Grant>,
    /// Nonces that were not used yet.
    #[serde(default)]
    pub nonces: Vec<Pending>,
    /// What a person should know.
    #[serde(default)]
    pub warnings: Vec<String>,
}
