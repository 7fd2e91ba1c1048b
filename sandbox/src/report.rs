//! What owner and runner say to each other: JSON objects, one a line.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// From the owner, after the request. The end of the stream means that the owner is gone, and
/// ends the command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// End the command: SIGTERM to all of it, SIGKILL after `grace_ms`.
    Stop {
        /// Milliseconds between the two signals.
        grace_ms: u64,
    },
}

/// From the runner.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Frame {
    /// The command is still at work.
    Progress(Progress),
    /// The command is over, with all it did. The last frame.
    Done(Box<Done>),
    /// The command was not started. The last frame.
    Refused {
        /// Why, in one line.
        message: String,
        /// What to do about it.
        hint: String,
        /// Whether something changed on the machine just while the sandbox was set up, so that it may
        /// come up if it is tried again.
        #[serde(default)]
        again: bool,
    },
}

/// How far a command has come.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Progress {
    /// Bytes of output so far, both streams.
    pub bytes: u64,
    /// The last whole line of output, cut at [`crate::limits::PROGRESS_LINE_BYTES`].
    pub line: String,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It exited with this code.
    Exit(i32),
    /// A signal of this number ended it.
    Signal(i32),
}

/// A stream's beginning and end, with the count of all of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Excerpt {
    /// All bytes that came.
    pub total: u64,
    /// The first bytes, base64. Together with `tail` it is everything when `total` says so.
    pub head: String,
    /// The last bytes after `head`, base64.
    pub tail: String,
}

/// A finished command.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Done {
    /// How it ended.
    pub ending: Ending,
    /// It ran into its time limit and was ended.
    pub timed_out: bool,
    /// The owner ended it, or was gone.
    pub stopped: bool,
    /// Names of processes that it left behind and that were ended with it.
    pub left_behind: Vec<String>,
    /// Standard output.
    pub stdout: Excerpt,
    /// Standard error.
    pub stderr: Excerpt,
    /// Both, in the order in which the bytes arrived.
    pub both: Excerpt,
    /// The file that holds all of `both`, if one was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spill: Option<PathBuf>,
    /// Bytes in that file.
    pub spilled_bytes: u64,
    /// Why `spill` lacks something, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spill_error: Option<String>,
    /// What it used more of than it may, and was ended for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overuse: Option<Overuse>,
    /// Wall time, milliseconds.
    pub wall_ms: u64,
    /// What the broker kept, put back and refused, where there was one.
    #[serde(default, skip_serializing_if = "Guarded::is_empty")]
    pub guarded: Guarded,
}

/// A command that used more than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overuse {
    /// Of what.
    pub what: Resource,
    /// How much it used when that was seen.
    pub used: u64,
    /// How much it may use.
    pub limit: u64,
}

/// What a runner looks at while its command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// Memory of all processes together, in bytes.
    Memory,
    /// Processes and threads.
    Processes,
}

/// What came of a command's creating, replacing and removing calls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guarded {
    /// Old contents that were kept, the first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<Kept>,
    /// How many there were.
    #[serde(default)]
    pub kept_total: usize,
    /// Files that a program set aside without making a new one, put back at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub put_back: Vec<PathBuf>,
    /// Old recovery entries that were dropped to make room.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<hands_activity::Dropped>,
    /// What was refused and why, the first of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

/// An old content in the recovery folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The file it came from.
    #[serde(with = "crate::path_bytes::one")]
    pub origin: PathBuf,
    /// Where it is now.
    #[serde(with = "crate::path_bytes::one")]
    pub path: PathBuf,
    /// Why it was kept.
    pub reason: String,
}

impl Guarded {
    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Bytes as they stand in a frame.
pub fn encode_bytes(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The bytes of a frame's field.
///
/// # Errors
/// When the text is not base64: the other side speaks another version.
pub fn decode_bytes(text: &str) -> Result<Vec<u8>, base64::DecodeError> {
    STANDARD.decode(text)
}
