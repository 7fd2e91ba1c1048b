//! Limits and defaults, in one place.

use std::time::Duration;

/// The largest body of a request, in bytes.
pub const REQUEST_BYTES: usize = 64 << 10;
/// The largest answer that a client reads, in bytes.
pub const ANSWER_BYTES: usize = 16 << 20;
/// The longest line of a stream that a client reads, in bytes.
pub const LINE_BYTES: usize = 1 << 20;
/// Connections served at once; more wait.
pub const CONNECTIONS: usize = 64;
/// Time for the head of a request to arrive.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for the body of a request to arrive.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for a handler to begin its answer.
pub const HANDLER_TIMEOUT: Duration = Duration::from_secs(60);
/// Time that connections have to end when serving stops.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause after an `accept` that failed.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Lines of a stream that may wait for a slow reader.
pub const STREAM_QUEUE: usize = 64;
/// Time that a client gives a connection and an answer, unless told otherwise.
pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest path of a socket, in bytes: what the smaller of the two platforms takes.
pub const SOCKET_PATH_BYTES: usize = 103;
