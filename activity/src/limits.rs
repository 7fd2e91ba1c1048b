//! Every limit and default of this crate, in one place.

use std::time::Duration;

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

/// How large recovery files may be, one and all together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveryLimits {
    /// Bytes of the largest content that is kept.
    pub max_file_bytes: u64,
    /// Bytes that the whole folder may hold. Where more is to be kept, the oldest entries make room
    /// if they are old enough; otherwise nothing more is kept.
    pub max_total_bytes: u64,
    /// Age below which no entry is dropped to make room.
    pub min_age: Duration,
    /// Name of the setting that raises the limit of one file, for the error message.
    pub setting: &'static str,
}

impl Default for RecoveryLimits {
    fn default() -> Self {
        Self {
            max_file_bytes: 256 * MIB,
            max_total_bytes: 16 * 1024 * MIB,
            min_age: 30 * DAY,
            setting: "limits.recovery_file_bytes",
        }
    }
}

/// One day.
pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);

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
/// Bytes of the list of a file's extended attributes, and of one of them: what Linux allows.
pub(crate) const ATTRIBUTE_BYTES: usize = 64 * 1024;
/// Names tried for a temporary file while others clear leftovers.
pub(crate) const TEMP_TRIES: usize = 16;
/// Age in seconds after which a temporary file is a dead process's, where locks do not say so.
pub(crate) const STALE_TEMP_S: u64 = 24 * 3600;
/// Bytes copied at a time.
pub(crate) const COPY_BLOCK: usize = 256 * 1024;
/// Time for which a count of the recovery folder's bytes is trusted: other processes add to it too.
pub(crate) const COUNT_FOR: Duration = Duration::from_secs(60);
/// Age of a change from which on another one would show in a folder's time.
pub(crate) const SETTLED_AFTER: Duration = Duration::from_secs(2);
/// Bytes of the sizes of past days that are read: more than a thousand years of them.
pub(crate) const SIZES_READ: u64 = 64 * MIB;
/// Least time for which a folder that was found full is taken to be so, and how many times longer
/// than finding it out took.
pub(crate) const FULL_FOR: Duration = Duration::from_secs(1);
pub(crate) const FULL_SHARE: u32 = 10;
/// Time for which whoever needs room waits for another process that drops entries.
pub(crate) const LOCK_WAIT: Duration = Duration::from_secs(2);
/// Pause between two tries for that lock.
pub(crate) const LOCK_PAUSE: Duration = Duration::from_millis(20);
/// Share of the recovery folder that is freed on top of what is needed, so that not every keeping
/// has to make room: one part in this many.
pub(crate) const SPARE_PART: u64 = 64;
/// Age from which a record without its content is what a killed process left. Between the two lies
/// one rename.
pub(crate) const UNFINISHED_AFTER: Duration = Duration::from_secs(60);
/// Age from which a record that was reserved for another process, and never used, is cleared.
pub(crate) const UNUSED_AFTER: Duration = Duration::from_secs(3600);
/// Age from which a rotation compresses a content.
pub(crate) const PACK_AFTER: Duration = DAY;
/// Bytes below which compressing a content saves nothing: a file system's block.
pub(crate) const PACK_FROM: u64 = 4096;
/// Bytes of a content that are compressed to see whether all of it is worth it.
pub(crate) const PACK_SAMPLE: u64 = 1024 * 1024;
/// Percent of its size to which a content must shrink to be kept compressed.
pub(crate) const PACK_PERCENT: u64 = 90;
/// Bytes of a line in the list of what was dropped, and how much of its end is read.
pub(crate) const DROPS_READ: u64 = 64 * 1024;
/// How often a destination that somebody else changes meanwhile is looked at anew.
pub(crate) const RESTORE_TRIES: usize = 3;
