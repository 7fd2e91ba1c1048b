//! Every limit and default of the server that is not a setting, in one place. Settings (and their
//! defaults) stand in `hands_config`.

use std::time::Duration;

/// Requests one connection may have at work or answered and not yet written; when there are more,
/// its input waits.
pub const FLIGHTS: usize = 256;
/// Bytes of answers that may wait for a slow reader; when there are more, its input waits.
pub const UNSENT_BYTES: usize = 16 * 1024 * 1024;
/// Messages in one batch; a larger one is refused whole.
pub const BATCH: usize = 256;
/// Lines that wait between the reading thread and the protocol.
pub const INPUT_QUEUE: usize = 64;
/// Answers that wait for the writing thread.
pub const OUTPUT_QUEUE: usize = 64;
/// Bytes read from the client at once.
pub const READ_BYTES: usize = 64 * 1024;
/// After the end of input: time for calls at work to finish by themselves, so that
/// `printf … | hands-mcp` gets its answers.
pub const EOF_PATIENCE: Duration = Duration::from_millis(350);
/// After the end of input: time by which cancelled calls must have answered.
pub const EOF_DEADLINE: Duration = Duration::from_millis(800);
/// Time for the last answers to be written before the process ends.
pub const FLUSH: Duration = Duration::from_millis(150);
/// Time between SIGTERM and SIGKILL for a command whose client is gone.
pub const CLIENT_GONE_GRACE: Duration = Duration::from_millis(200);
/// Time on top of a command's own limits after which its runner is given up.
pub const RUNNER_SLACK: Duration = Duration::from_secs(5);
/// Longest question of `hands-mcp --explain`, bytes.
pub const QUESTION_BYTES: u64 = 1024 * 1024;
/// Longest line that a runner may answer, bytes.
pub const RUNNER_LINE_BYTES: usize = 32 * 1024 * 1024;
/// Longest name of a tool or method that an error repeats, bytes.
pub const NAME_BYTES: usize = 200;
/// Longest message or hint of a result, bytes: they may repeat what the planner sent.
pub const MESSAGE_BYTES: usize = 4000;
/// Least and greatest time for which a look at the disk for secrets and repositories counts.
pub const HIDDEN_FOR: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(60));
/// How many times as long as it took a look counts: it then costs a twentieth of the time at most.
pub const HIDDEN_SHARE: u32 = 20;
/// Secrets and repositories that are hidden from or sealed against commands; each is a mount, and
/// bubblewrap takes 9,000 arguments.
pub const HIDDEN_MOUNTS: usize = 2000;
/// Folders that are closed to commands where only granted ones are open; each is a mount as well.
pub const CLOSED_FOLDERS: usize = 300;
/// Lines that wait for a slow standard error; more are counted and dropped.
pub const STDERR_QUEUE: usize = 1024;
/// Longest excerpt of arguments in a line on standard error, bytes.
pub const STDERR_ARGS_BYTES: usize = 400;
/// Bytes of a call's arguments that are looked through for secrets before the excerpt is cut from
/// them: more than the excerpt, so that a secret at its end is still recognised.
pub const STDERR_REDACT_BYTES: usize = 8 * 1024;
/// Files whose analysis (hash, line count, encoding) is remembered.
pub const ANALYSIS_CACHE: usize = 64;
/// A file changed more recently than this may change again without its times showing it; its
/// analysis is not remembered.
pub const ANALYSIS_SETTLED: Duration = Duration::from_secs(2);
/// Largest file that is hashed and counted, bytes.
pub const WHOLE_FILE_BYTES: u64 = 64 * 1024 * 1024;
/// Lines of a text that `read_file` shows when no `limit` is given.
pub const READ_LINES: u64 = 2000;
/// Longest line that `read_file` shows, bytes; the rest is cut with a marker.
pub const READ_LINE_BYTES: usize = 4000;
/// Entries of a folder that `read_file` lists.
pub const FOLDER_ENTRIES: usize = 2000;
/// Bytes looked at to tell text from other kinds.
pub const SNIFF_BYTES: usize = 8192;
/// Unchanged lines around each change in a diff.
pub const DIFF_CONTEXT: usize = 3;
/// Longest diff in a result, bytes.
pub const DIFF_BYTES: usize = 64 * 1024;
/// Edits one call may hold.
pub const EDITS: usize = 1000;
/// Files one `edit` call may change.
pub const EDIT_FILES: usize = 100;
/// Working copies beside one file before their names run out.
pub const WORKING_COPIES: u32 = 1000;
/// Times that files are resolved anew because another call changed them just then.
pub const HOLD_TRIES: usize = 16;
/// Time within which the other side of the home's socket must have said what it is.
pub const HELLO: Duration = Duration::from_secs(5);
/// Longest first line on the home's socket, bytes.
pub const HELLO_BYTES: usize = 1024;
/// Pause after a client could not be accepted.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time a relay keeps requests while the server is gone; then they are answered with an error.
pub const RELAY_PATIENCE: Duration = Duration::from_secs(20);
/// Least and greatest time between two tries to reach the server.
pub const RELAY_RETRY: (Duration, Duration) =
    (Duration::from_millis(25), Duration::from_millis(500));
/// Messages that a relay keeps while the server is gone.
pub const RELAY_QUEUE: usize = 1024;

/// Files whose kept content a command's answer names in its text.
pub const KEPT_SHOWN: usize = 5;
/// Refusals of the broker that a command's answer names in its text.
pub const REFUSED_SHOWN: usize = 5;
/// Longest command line that a planner is told to bring to its user, bytes; a longer one would be cut.
pub const COMMAND_LINE_BYTES: usize = 3000;
/// How often grants and nonces are looked through for those whose time is over, so that the trail
/// has it. That they are over does not depend on it.
pub const LAPSE_LOOK: Duration = Duration::from_secs(10);
/// Times that a sandbox is set up for one command where something changes on the machine meanwhile.
pub const SETUP_TRIES: u32 = 3;
