//! Limits and defaults, in one place.

use std::time::Duration;

/// The service's own base URL.
pub const BASE_URL: &str = "https://api.openai.com";
/// The name sent in `X-Tunnel-Client-Name`.
pub const CLIENT_NAME: &str = "hands-tunnel";
/// The channel that commands without one belong to, and the only one served.
pub const MAIN_CHANNEL: &str = "main";

/// The largest batch that may be asked for in one poll.
pub const POLL_LIMIT: usize = 25;
/// How long the service is asked to hold an empty poll.
pub const POLL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long after that the poll's headers must have arrived.
pub const POLL_GUARDRAIL: Duration = Duration::from_secs(5);
/// The longest that poll time-out and guardrail together may be.
pub const POLL_DEADLINE_MAX: Duration = Duration::from_secs(600);
/// How long a poll's body may take after its headers: the commands in it are lost otherwise.
pub const POLL_BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest poll body read, in bytes.
pub const POLL_BODY_MAX: usize = 64 << 20;
/// How long after the poll time-out a poll still counts as recent.
pub const POLL_STALE_AFTER: Duration = Duration::from_secs(10);
/// How long after its deadline a poll's failure must be known at the latest.
pub const POLL_ANSWER_SLACK: Duration = Duration::from_secs(5);
/// Polls in a row that must fail before the client says it is not ready.
pub const POLL_FAILURES_UNREADY: u64 = 3;

/// The first delay of a backoff.
pub const BACKOFF_MIN: Duration = Duration::from_millis(200);
/// The longest delay of a backoff.
pub const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// The first delay after a 401 or 403.
pub const OPERATOR_BACKOFF_MIN: Duration = Duration::from_secs(30);
/// The longest delay after a 401 or 403.
pub const OPERATOR_BACKOFF_MAX: Duration = Duration::from_secs(300);
/// The longest `Retry-After` that is obeyed.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// How long a connection to the control plane may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Tries of one final answer before it waits for the next good poll.
pub const POST_TRIES: u32 = 3;
/// Size of an answer, in bytes, that no service can find too large.
pub const SMALL_POST: usize = 4096;
/// How long one try may take, beside its body.
pub const POST_TIMEOUT: Duration = Duration::from_secs(15);
/// The slowest upload that a try waits for, in bytes a second.
pub const POST_RATE_MIN: u64 = 64 << 10;
/// How long one progress notification may hold its call up.
pub const NOTIFY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an answer that could not be delivered is kept for the next good poll.
pub const UNDELIVERED_MAX: Duration = Duration::from_secs(600);
/// Answers in a row that must not be taken before the client says it is not ready.
pub const POST_FAILURES_UNREADY: u64 = 3;
/// How long after the last try it counts that answers were not taken.
pub const POST_TROUBLE_KEPT: Duration = Duration::from_secs(60);
/// The longest text of the service that is shown, in characters.
pub const SERVICE_TEXT_MAX: usize = 200;
/// The longest message that is shown with such a text in it, in characters.
pub const MESSAGE_MAX: usize = 500;
/// Polls in a row that must find no such tunnel before the operator is asked for.
pub const UNKNOWN_TUNNEL_POLLS: u64 = 3;
/// The largest body posted by default, in bytes. The service's own limit is not published; it
/// answers 413 above it, which becomes the same honest error.
pub const POST_BODY_MAX: usize = 10 << 20;
/// Room in a body for what stands around the result, in bytes.
pub const POST_ENVELOPE: usize = 4 << 10;
/// The longest error body of the control plane that is read, in bytes.
pub const ERROR_BODY_MAX: usize = 64 << 10;

/// Calls that run at once by default.
pub const CONCURRENT: usize = 100;
/// The most calls at once that may be configured.
pub const CONCURRENT_MAX: usize = 10_000;
/// How long a call without a deadline may take.
pub const CALL_TTL: Duration = Duration::from_secs(600);
/// How long a cancelled call may still answer for itself.
pub const CANCEL_GRACE: Duration = Duration::from_secs(2);
/// How many answered commands are remembered, so that none runs twice.
pub const ANSWERED_KEPT: usize = 1024;

/// How long a request waits for a child that is being restarted.
pub const LINK_WAIT: Duration = Duration::from_secs(10);
/// How long the replayed handshake may take.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long calls wait for a new child's first answer, where no handshake is due.
pub const FIRST_SIGN: Duration = Duration::from_millis(500);
/// How long a child must live for its restarts to be forgotten.
pub const STABLE_AFTER: Duration = Duration::from_secs(60);
/// How often a quiet child is asked whether it answers.
pub const PROBE_INTERVAL: Duration = Duration::from_secs(3);
/// How long it may take to answer.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(4);
/// Unanswered probes in a row that end a child with nothing to do.
pub const PROBES_IDLE: u32 = 2;
/// Unanswered probes in a row that end a child with calls in flight: it may be busy.
pub const PROBES_BUSY: u32 = 15;
/// Messages that may wait for a child to read them.
pub const CHILD_QUEUE: usize = 64;
/// The head of an oversized line that is kept, to find its id.
pub const LINE_HEAD: usize = 64 << 10;
/// The end of an oversized line that is kept, to find its id.
pub const LINE_TAIL: usize = 256;
/// Progress notifications that may wait for one call.
pub const PROGRESS_QUEUE: usize = 64;
/// Waiting progress that is still sent once the result is there.
pub const PROGRESS_LAST: usize = 8;

/// Server sessions beside the main one.
pub const SESSIONS_MAX: usize = 16;
/// How long a session beside the main one may be idle.
pub const SESSION_IDLE: Duration = Duration::from_secs(1800);

/// How long calls in flight may take after SIGTERM.
pub const STOP_CALLS: Duration = Duration::from_secs(7);
/// How long the answers to the rest may take.
pub const STOP_ANSWERS: Duration = Duration::from_secs(3);
/// How long a child has after its input was closed, and again after SIGTERM.
pub const STOP_CHILD: Duration = Duration::from_millis(1500);

/// Bytes of journal after which it is compacted.
pub const JOURNAL_COMPACT: u64 = 1 << 20;
/// The longest file that a secret is read from, in bytes.
pub const SECRET_MAX: u64 = 64 << 10;
/// How long the system's store for secrets may take; a person may have to unlock it.
pub const KEYCHAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest file of certificates read, in bytes.
pub const CA_BUNDLE_MAX: u64 = 16 << 20;
/// The largest configuration file read, in bytes.
pub const CONFIG_MAX: u64 = 1 << 20;
/// Connections at once to the health address.
pub const HEALTH_CONNECTIONS: usize = 32;
/// How long a health request may take to arrive.
pub const HEALTH_HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// Failures of calls in a row that make the client not ready.
pub const CALL_FAILURES_UNREADY: u64 = 3;
