//! Every limit and default of this crate, in one place.

/// Size and number of the files a log is kept in.
///
/// ```
/// let limits = hands_activity::TrailLimits::default();
/// assert_eq!((limits.max_bytes, limits.keep), (16 * 1024 * 1024, 8));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrailLimits {
    /// Bytes a file may hold before it is rotated. A record larger than this still gets a file.
    pub max_bytes: u64,
    /// How many rotated files stay beside the current one; at least one is always kept.
    pub keep: u32,
}

impl Default for TrailLimits {
    fn default() -> Self {
        ACTIVITY
    }
}

/// How large a recovery file may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveryLimits {
    /// Bytes of the largest content that is kept.
    pub max_file_bytes: u64,
    /// Name of the setting that raises the limit, for the error message.
    pub setting: &'static str,
}

impl Default for RecoveryLimits {
    fn default() -> Self {
        Self {
            max_file_bytes: 256 * MIB,
            setting: "limits.recovery_file_bytes",
        }
    }
}

const MIB: u64 = 1024 * 1024;

/// `agent_activity.jsonl`.
pub(crate) const ACTIVITY: TrailLimits = TrailLimits {
    max_bytes: 16 * MIB,
    keep: 8,
};
/// `server_lifecycle.jsonl` and `server_faults.log`.
pub(crate) const LIFECYCLE: TrailLimits = TrailLimits {
    max_bytes: 4 * MIB,
    keep: 4,
};
/// The largest count of rotated files that is looked for by a reader.
pub(crate) const MAX_KEEP: u32 = 999;

/// A string longer than this (bytes) is kept as head, length and hash.
pub(crate) const MAX_STRING: usize = 2048;
/// Bytes of a long string that are kept as its head.
pub(crate) const STRING_HEAD: usize = 1024;
/// Bytes of a long string that redaction sees before the head is cut from them: a secret that
/// lies across the end of the head is then still recognised as one.
pub(crate) const REDACT_WINDOW: usize = 16 * 1024;
/// All arguments of one record together, in bytes of JSON; larger ones are kept like a long string.
pub(crate) const MAX_ARGS: usize = 64 * 1024;
/// Nesting of arguments beyond which the inner value is kept as text: a reader's parser stops at 128.
pub(crate) const MAX_DEPTH: usize = 48;
/// Bytes of a short field (tool, code, turn id, client name); the rest is cut.
pub(crate) const MAX_FIELD: usize = 256;
/// Bytes of a tool name that is taken for one without a look for secrets, if its letters are right.
pub(crate) const MAX_TOOL_NAME: usize = 24;
/// Bytes of a session id.
pub(crate) const MAX_SESSION_ID: usize = 128;

/// Bytes a follower reads in one poll, and the length at which a line is given up as damaged.
pub(crate) const MAX_LINE: usize = 4 * 1024 * 1024;

/// Bytes of a fault (message and backtrace) that are kept.
pub(crate) const MAX_FAULT: usize = 64 * 1024;
/// How often a panicking thread tries for the lock of the fault log before it writes without.
pub(crate) const FAULT_LOCK_TRIES: u32 = 20;

/// Characters of the last part of a recovery file's name.
pub(crate) const MAX_NAME_CHARS: usize = 80;
/// The same in bytes, so that the whole name stays below the 255 that file systems allow.
pub(crate) const MAX_NAME_BYTES: usize = 120;
/// Characters of a turn id inside a recovery file's name.
pub(crate) const MAX_TURN_CHARS: usize = 64;
/// Numbers tried for one turn before giving up.
pub(crate) const MAX_PER_TURN: u32 = 100_000;
/// Age in seconds after which a temporary file is a dead process's.
pub(crate) const STALE_TEMP_S: u64 = 24 * 3600;
/// Bytes copied at a time.
pub(crate) const COPY_BLOCK: usize = 256 * 1024;
