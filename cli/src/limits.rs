//! Limits and defaults of the controller.

use std::time::Duration;

/// Time within which `hands-mcp` answers the first request: more than the 20 s for which a relay waits for the daemon's
/// server, so that its reason is heard.
pub(crate) const CONNECT: Duration = Duration::from_secs(25);
/// Seconds to wait for a tool's answer, unless the caller says otherwise. The longest command has 3,600 s.
pub(crate) const CALL_TIMEOUT_S: u64 = 3_700;
/// Time for the sandbox's self-test.
pub(crate) const CANARY: Duration = Duration::from_secs(60);
/// Time for the server to explain its policy: it tries the sandbox and looks through the workspaces first.
pub(crate) const EXPLAIN: Duration = Duration::from_secs(150);
/// Time for a program to say its version.
pub(crate) const VERSION: Duration = Duration::from_secs(10);
/// Time that a server which did not start has for its last words and its end.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(2);
/// Time that a server has to end after its input is closed, and again after SIGTERM.
pub(crate) const SERVER_END: Duration = Duration::from_secs(3);
/// Time for bubblewrap to say its version, or to make an empty sandbox.
#[cfg(target_os = "linux")]
pub(crate) const BWRAP: Duration = Duration::from_secs(5);
/// Pause between two looks at a followed log.
pub(crate) const FOLLOW_PAUSE: Duration = Duration::from_millis(200);
/// Records, entries or faults shown when the caller does not say.
pub(crate) const LAST: usize = 20;
/// Bytes of a program's stderr kept for a message.
pub(crate) const STDERR_TAIL: usize = 4096;
/// Recovery entries listed when the caller does not say.
pub(crate) const ENTRIES: usize = 50;
/// Largest content that is compared line by line, or printed as JSON, in bytes.
pub(crate) const CONTENT: u64 = 64 << 20;
/// Longest comparison that is printed, in bytes.
pub(crate) const DIFF: usize = 1 << 20;
/// Lines around a difference.
pub(crate) const CONTEXT: usize = 3;
/// Bytes of a content that are looked at to tell whether a terminal can show it.
pub(crate) const PEEK: u64 = 64 << 10;
/// Bytes of one line that a terminal is shown at a time.
pub(crate) const SHOWN_LINE: u64 = 64 << 10;
/// Characters of a reason in a list.
pub(crate) const REASON_CHARS: usize = 40;
/// Characters of a call's arguments shown in a line of the log.
pub(crate) const ARGS_CHARS: usize = 60;
/// Free bytes in the home below which the doctor warns.
pub(crate) const DISK_WARN: u64 = 1 << 30;
/// Free bytes in the home below which the doctor calls it a failure.
pub(crate) const DISK_FAIL: u64 = 100 << 20;
/// Time for the daemon to answer a request.
pub(crate) const ASK_DAEMON: Duration = Duration::from_secs(10);
/// Time for the daemon to open its socket after its start.
pub(crate) const DAEMON_UP: Duration = Duration::from_secs(30);
/// Time for it to be ready, once it is up.
pub(crate) const DAEMON_READY: Duration = Duration::from_secs(20);
/// Time for it to end: tunnel, then server, each with its own deadline.
pub(crate) const DAEMON_DOWN: Duration = Duration::from_secs(50);
/// Pause between two looks at the daemon.
pub(crate) const LOOK: Duration = Duration::from_millis(50);
/// Looks of the daemon after a restart from which on its verdict is about the new process.
pub(crate) const LOOKS: usize = 3;
/// Largest part of the end of `handsd.log` that is read, in bytes.
pub(crate) const LOG_TAIL: u64 = 4 << 20;
/// Longest key that is read, in bytes.
pub(crate) const KEY_BYTES: u64 = 8 << 10;
/// Time for the system's store for secrets; a person may have to unlock it.
pub(crate) const KEY_STORE: Duration = Duration::from_secs(40);
/// Time for a trial of the tunnel.
pub(crate) const TUNNEL_TEST: Duration = Duration::from_secs(90);
