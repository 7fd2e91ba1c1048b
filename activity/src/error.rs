//! What can go wrong with the trail.

use std::io;
use std::path::{Path, PathBuf};

/// A failure to open, write or read the trail.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrailError {
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
    /// The key of the trail is not usable.
    #[error(
        "the trail's key {} is not usable: {reason}; restore it from a backup, or move it aside \
         to begin a new trail (older records can then no longer be verified)",
        path.display()
    )]
    Key {
        /// The key file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The session id cannot name a chain.
    #[error(
        "session id {id:?} cannot be used for the trail: it must be 1 to 128 letters, digits, \
         '-', '_', '.' or ':' and not start with '.'"
    )]
    SessionId {
        /// The id, cut to a readable length.
        id: String,
    },
    /// Another process is writing this session's chain.
    #[error(
        "session {id} is already being recorded by another process; use a new session id, or end \
         the other process"
    )]
    SessionBusy {
        /// The session.
        id: String,
    },
    /// The record cannot be written as JSON.
    #[error("could not write a record of turn {turn_id} as JSON: {reason}; nothing was recorded")]
    Encode {
        /// The turn of the record.
        turn_id: String,
        /// The encoder's reason.
        reason: String,
    },
    /// The operating system gave no random bytes.
    #[error("could not get random bytes for {what}: {reason}; try again, or check /dev/urandom")]
    Random {
        /// What they were for.
        what: &'static str,
        /// The system's reason.
        reason: String,
    },
}

/// Builds the closure that turns an [`io::Error`] into a [`TrailError`] about `path`.
pub(crate) fn io_at(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TrailError {
    let path = path.to_path_buf();
    move |source| {
        let hint = hint_for(&source);
        TrailError::Io {
            what,
            path,
            source,
            hint,
        }
    }
}

/// What a person can do about a file system error of this kind.
pub(crate) fn hint_for(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "check that the folder belongs to you and is not read-only"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space on this disk",
        io::ErrorKind::NotFound => "check that the folder exists",
        io::ErrorKind::ReadOnlyFilesystem => "put the home on a disk that can be written",
        _ => "check the disk and the folder's permissions",
    }
}
