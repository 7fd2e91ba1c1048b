//! Every limit and default of this crate, in one place.

use std::time::Duration;

/// Bytes of a stream's beginning that a [`crate::Capture`] keeps when the request names no size.
pub const DEFAULT_HEAD_BYTES: usize = 24 * 1024;
/// Bytes of a stream's end that a [`crate::Capture`] keeps when the request names no size.
pub const DEFAULT_TAIL_BYTES: usize = 40 * 1024;
/// Largest head or tail a request may ask for, bytes.
pub const MAX_KEEP_BYTES: usize = 1024 * 1024;
/// Bytes taken from a pipe in one read; the kernel's default pipe size.
pub const READ_BYTES: usize = 64 * 1024;
/// Time between SIGTERM and SIGKILL when the request names none.
pub const DEFAULT_GRACE: Duration = Duration::from_millis(2000);
/// Time between SIGTERM and SIGKILL when the owner is gone: it must be over within a second.
pub const ORPHAN_GRACE: Duration = Duration::from_millis(250);
/// Time that processes left in the background get between SIGTERM and the end of their namespace.
pub const LEFT_BEHIND_GRACE: Duration = Duration::from_millis(150);
/// Least time between two progress frames.
pub const PROGRESS_EVERY: Duration = Duration::from_millis(500);
/// Longest last line that a progress frame carries, bytes.
pub const PROGRESS_LINE_BYTES: usize = 200;
/// Names of processes left behind that are reported.
pub const LEFT_BEHIND_NAMES: usize = 8;
/// Longest single argument that Linux passes to a program (`MAX_ARG_STRLEN`, 32 pages), less the
/// terminating NUL; a longer command line is refused before it is tried.
pub const MAX_ARG_BYTES: usize = 128 * 1024 - 1;
/// Longest report of the helper inside, bytes: it runs beside the command.
pub const INNER_REPORT_BYTES: u64 = 64 * 1024;
/// Longest request line that the runner reads, bytes.
pub const MAX_REQUEST_BYTES: u64 = 64 * 1024 * 1024;
/// Processes and threads a command may have when the plan does not say (`RLIMIT_NPROC`, which does
/// not bind root; and counted by the runner).
pub const MAX_PROCESSES: u64 = 4096;
/// Files that one process of a command may have open when the plan does not say (`RLIMIT_NOFILE`).
pub const MAX_OPEN_FILES: u64 = 65_536;
/// Bytes of a file that a command writes when the plan does not say (`RLIMIT_FSIZE`).
pub const MAX_FILE_BYTES: u64 = 64 << 30;
/// From a command's start to the first look at what it uses.
pub const WATCH_FIRST: Duration = Duration::from_millis(100);
/// Between two looks at what a command uses.
pub const WATCH_EVERY: Duration = Duration::from_millis(250);
/// The same for one that uses over half of what it may.
pub const WATCH_CLOSELY: Duration = Duration::from_millis(50);
/// How much sooner than another process a command's are ended by the system when memory runs out
/// (`oom_score_adj`).
pub const OOM_SCORE: u32 = 500;
/// Bytes that the canary's recovery folder may hold; its files are a few words long.
pub const CANARY_BYTES: u64 = 64 * 1024;
/// Age below which none of those files is dropped.
pub const CANARY_KEEPS: Duration = Duration::from_secs(24 * 3600);
/// Time the whole canary may take.
pub const CANARY_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of a sandbox program's own complaint that are passed on.
pub const COMPLAINT_BYTES: usize = 2000;
/// Threads that answer the calls of a command.
pub const BROKER_THREADS: usize = 4;
/// Time that one of them may be at a call before another takes the next one.
pub const BROKER_PATIENCE: Duration = Duration::from_millis(2);
/// Calls that may wait at once for a pipe's other end or for somebody's lease.
pub const BROKER_WAITING: u32 = 64;
/// Bytes of a file whose copy is left to a thread of its own.
pub const LARGE_COPY: u64 = 4 * 1024 * 1024;
/// How often a name that others change meanwhile is looked at anew.
pub const BROKER_TRIES: usize = 16;
/// How often a file that others write meanwhile is copied anew before it is cut.
pub const KEEP_TRIES: usize = 8;
/// Milliseconds for which others are waited for who have a file open that is to be cut.
pub const LEASE_TRIES: usize = 20;
/// Coarsest tick of the clock that stamps files, with some to spare.
pub const CLOCK_TICK: Duration = Duration::from_millis(30);
/// Refusals of the broker that a report names.
pub const BROKER_NOTES: usize = 20;
/// Recovery files that a report names.
pub const KEPT_NAMED: usize = 100;
/// Connections of a command that the proxy serves at once; more are closed.
pub const PROXY_CONNECTIONS: usize = 128;
/// Longest head of a request that the proxy reads, bytes.
pub const PROXY_HEAD_BYTES: usize = 64 * 1024;
/// Time within which a head must come.
pub const PROXY_HEAD_TIME: Duration = Duration::from_secs(30);
/// Least time for which one read of it waits, and pause after a connection that could not be taken.
pub const PROXY_TICK: Duration = Duration::from_millis(5);
/// Time for connecting to one address of a host.
pub const PROXY_CONNECT_TIME: Duration = Duration::from_secs(10);
/// Folders below a workspace in which the macOS profile looks for build folders, levels.
pub const BUILD_DEPTH: usize = 4;
/// Folders that are looked through for that in all.
pub const BUILD_LOOKS: usize = 2000;
/// Build folders that git is asked about, and so the most that a profile frees.
pub const BUILD_FOLDERS: usize = 16;
/// Bytes of a `.gitignore` in which the names of absent ones are looked for.
pub const IGNORE_FILE_BYTES: u64 = 64 * 1024;
/// Entries of a folder that are looked at before it is moved.
pub const MOVED_ENTRIES: usize = 1_000_000;
/// Folders by the name of build products that git is asked about before one around them is moved.
pub const MOVED_BUILDS: usize = 1000;
/// Tries, a millisecond apart, to get the lock under which what is old is moved.
pub const MOVE_LOCK_TRIES: usize = 5000;
/// Time that git may take to say whether it ignores a folder. A repository can make it wait for
/// ever.
pub const GIT_PATIENCE: Duration = Duration::from_secs(3);
/// Bytes of git's answers that are read: a few files of rules and the folders around them.
pub const GIT_BYTES: u64 = 64 * 1024 * 1024;
/// Folders that a broker keeps open for putting back what was set aside.
pub const HELD_FOLDERS: usize = 256;
/// Generations of processes that are followed up to the command, within reduced walls.
pub const GENERATIONS: usize = 1024;
/// Times, a millisecond apart, that a command's processes are looked for to be ended there.
pub const END_TRIES: usize = 2000;
