//! Limits and defaults, in one place.

use std::time::Duration;

/// Pause between two looks at the children.
pub const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Time that the server has to answer a ping.
pub const PING_TIMEOUT: Duration = Duration::from_secs(4);
/// Time that the tunnel's health address has to answer.
pub const HEALTH_TIMEOUT: Duration = Duration::from_secs(3);
/// Pings over one connection before a new one is opened, which tries the way in as well.
pub const PINGS_A_CONNECTION: u32 = 15;
/// Pause between two looks while something is not well.
pub const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// Time that a child which was well may be silent before it is restarted.
pub const SERVER_PATIENCE: Duration = Duration::from_secs(10);
/// Time that a child has from its start until it must be well.
pub const START_PATIENCE: Duration = Duration::from_secs(20);
/// Time that the tunnel's own restart of a broken part has before the whole is restarted.
pub const TUNNEL_PATIENCE: Duration = Duration::from_secs(15);

/// The first delay before a child is started again.
pub const BACKOFF_MIN: Duration = Duration::from_millis(200);
/// The longest delay before a child is started again.
pub const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// The first delay where only the operator can mend it.
pub const OPERATOR_MIN: Duration = Duration::from_secs(60);
/// The longest delay where only the operator can mend it.
pub const OPERATOR_MAX: Duration = Duration::from_secs(600);
/// Time that a child must be well for its failures to be forgotten.
pub const STABLE_AFTER: Duration = Duration::from_secs(60);

/// Time from SIGTERM to SIGKILL for the server.
pub const STOP_SERVER: Duration = Duration::from_secs(10);
/// Time from SIGTERM to SIGKILL for the tunnel; the official client takes up to 15 s.
pub const STOP_TUNNEL: Duration = Duration::from_secs(16);
/// Time from SIGTERM to SIGKILL, at most, for a child that is restarted because it does not do its work.
pub const STOP_UNWELL: Duration = Duration::from_secs(5);
/// Time from SIGTERM to SIGKILL for children of a predecessor.
pub const STOP_ORPHAN: Duration = Duration::from_secs(5);
/// Pause between two looks at another process: whether it has ended, or has written its number.
pub const PROCESS_LOOK: Duration = Duration::from_millis(20);
/// Time that another daemon of the home has to write its process id once it has the lock.
pub const PID_PATIENCE: Duration = Duration::from_secs(1);
/// Time after SIGKILL within which a process must be gone.
pub const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// How long after the poll time-out a poll still counts as recent.
pub const POLL_STALE_AFTER: Duration = Duration::from_secs(10);
/// Answers in a row with an error of the official client before its calls count as failing.
pub const BAD_ANSWERS: u64 = 3;

/// Time that the tunnel may hold commands of which none reaches the server.
pub const RELAY_PATIENCE: Duration = Duration::from_secs(10);
/// Time over the reply budget that a call of the tunnel may be at work: it may have waited for a place, and its end takes a while.
pub const REPLY_SLACK: Duration = Duration::from_secs(60);

/// Free bytes in the home below which no call is promised.
pub const HOME_FREE_MIN: u64 = 4 << 20;
/// Bytes written on trial, to see whether the home can be written.
pub const HOME_TRY_BYTES: usize = 4096;
/// Time for which a home that could be written counts as one that can.
pub const HOME_LOOK_EVERY: Duration = Duration::from_secs(15);
/// Time for the home's disk to answer.
pub const HOME_TIMEOUT: Duration = Duration::from_secs(3);

/// Connections to the HTTP endpoints at once; one more ends the oldest that asks nothing.
pub const HTTP_CONNECTIONS: usize = 32;
/// Time for a request's head to arrive.
pub const HTTP_HEAD_TIMEOUT: Duration = Duration::from_secs(3);
/// Time that one HTTP connection may last.
pub const HTTP_CONNECTION_TIMEOUT: Duration = Duration::from_secs(15);
/// Pause before an address that was taken is tried again.
pub const HTTP_RETRY: Duration = Duration::from_secs(5);
/// Time for a server's socket to answer when its figures or sessions are asked for.
pub const ASK_SERVER: Duration = Duration::from_secs(2);
/// Calls shown in a status.
pub const LAST_CALLS: usize = 5;
/// Events that a slow reader may be behind.
pub const EVENTS_KEPT: usize = 256;
/// Orders that may wait for a child's keeper.
pub const ORDERS: usize = 16;

/// Longest line of a child's output that is logged, in bytes; the rest of it is dropped.
pub const LOG_LINE_BYTES: usize = 4096;
/// Size at which `handsd.log` is rotated, in bytes.
pub const LOG_BYTES: u64 = 8 << 20;
/// Rotated logs that are kept.
pub const LOG_KEEP: u32 = 3;
/// The longest ping answer or message that the probe reads, in bytes.
pub const PROBE_LINE_BYTES: u64 = 1 << 20;
