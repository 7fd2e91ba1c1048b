//! What can go wrong with recovery files.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::hint_for;
use crate::limits::MAX_PER_TURN;

/// A failure to keep, find or bring back a recovery file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoveryError {
    /// The file system refused.
    #[error("could not {what} {}: {source}; {hint}", path.display())]
    Io {
        /// What was attempted.
        what: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
        /// What to do about it.
        hint: &'static str,
    },
    /// The content is larger than a recovery file may be.
    #[error(
        "could not keep a recovery copy of {what}: it has {bytes} bytes and the limit is {limit}; \
         raise `{setting}` in config.toml"
    )]
    TooLarge {
        /// What should have been kept.
        what: String,
        /// Its size in bytes.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
        /// The setting that raises it.
        setting: &'static str,
    },
    /// The folder holds as much as it may, and nothing in it is old enough to make room.
    #[error(
        "could not keep {bytes} bytes: the recovery folder {} may hold {limit} and holds {used}, \
         none of it old enough to be dropped; run `handsctl recovery rotate`, or raise \
         `limits.recovery_bytes` in config.toml", folder.display()
    )]
    Full {
        /// The folder.
        folder: PathBuf,
        /// What should have been kept, in bytes.
        bytes: u64,
        /// What the folder holds, in bytes.
        used: u64,
        /// What it may hold, in bytes.
        limit: u64,
    },
    /// What should be kept is a folder, device, pipe or socket.
    #[error("could not keep a recovery copy of {}: it is not a regular file", path.display())]
    NotAFile {
        /// What should have been kept.
        path: PathBuf,
    },
    /// One turn has too many recovery files.
    #[error(
        "could not name a recovery file for turn {turn_id}: the turn has {MAX_PER_TURN} already"
    )]
    Exhausted {
        /// The turn.
        turn_id: String,
    },
    /// No entry is meant.
    #[error("there is no recovery entry {wanted:?}; `handsctl recovery list` names them")]
    Unknown {
        /// What was asked for.
        wanted: String,
    },
    /// More than one entry is meant.
    #[error("{wanted:?} means {count} recovery entries; write more of the id")]
    Ambiguous {
        /// What was asked for.
        wanted: String,
        /// How many there are.
        count: usize,
    },
    /// The content is not what its record says.
    #[error(
        "{} is damaged: its content is not what was kept; look at it with `handsctl recovery show`",
        path.display()
    )]
    Damaged {
        /// The recovery file.
        path: PathBuf,
    },
    /// An entry cannot be put back at a path, and nothing there was changed.
    #[error("could not restore to {}: {why}", path.display())]
    Place {
        /// The destination.
        path: PathBuf,
        /// Why not, and what to do instead.
        why: String,
    },
    /// Somebody else rotates or makes room.
    #[error("the recovery folder {} is being rotated by another process; try again", folder.display())]
    Busy {
        /// The folder.
        folder: PathBuf,
    },
}

pub(super) fn io_at(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RecoveryError {
    let path = path.to_path_buf();
    move |source| RecoveryError::Io {
        what,
        hint: hint_for(&source),
        path,
        source,
    }
}
