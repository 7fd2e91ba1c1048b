//! What can go wrong with a service.

use std::io;
use std::path::{Path, PathBuf};

/// Why a service could not be defined, installed, started, stopped or asked after.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// A path or argument cannot stand in a definition.
    #[error("cannot put {what} {value:?} into a service definition: {reason}; {hint}")]
    Text {
        /// What it is.
        what: &'static str,
        /// Its value.
        value: String,
        /// Why it cannot.
        reason: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// The definition's file is a symlink.
    #[error(
        "{path} is a symlink; a service definition is written only as a plain file: \
         remove the link, or manage the service yourself"
    )]
    Symlink {
        /// The link.
        path: PathBuf,
    },
    /// The file is there and was not written by us.
    #[error(
        "{path} was not written by handsctl, or has been changed to stay as it is (its marker line is missing); \
         move it away, or force it"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A folder that the definition or the logs lie in cannot be used.
    #[error("cannot use the folder {path}: {reason}; {hint}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why not.
        reason: String,
        /// What to do.
        hint: &'static str,
    },
    /// A file operation failed.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was attempted.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The property list could not be built.
    #[error("cannot write the property list: {0}")]
    Plist(String),
    /// There is no definition to start from.
    #[error("the service is not installed ({path} is missing); run `handsctl service install`")]
    NotInstalled {
        /// Where it would be.
        path: PathBuf,
    },
    /// The manager's program is missing, or this system has none.
    #[error("cannot manage a service here: {reason}; run the daemon with `handsctl up` instead")]
    NoManager {
        /// Why.
        reason: String,
    },
    /// The manager of this person's services does not answer.
    #[error("`{command}` cannot reach the service manager: {reason}; {hint}")]
    Unreachable {
        /// The command.
        command: String,
        /// What it said.
        reason: String,
        /// What to do.
        hint: &'static str,
    },
    /// The manager's program, or what it was to bring about, took too long.
    #[error("`{command}` had no effect within {seconds} s; look with `handsctl service status`")]
    Timeout {
        /// The command.
        command: String,
        /// The time given.
        seconds: u64,
    },
    /// The manager's program could not be run.
    #[error("cannot run `{command}`: {source}")]
    Run {
        /// The command.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// The manager refused.
    #[error("`{command}` failed ({exit}): {reason}; {hint}")]
    Failed {
        /// The command.
        command: String,
        /// Its exit status or signal.
        exit: String,
        /// Why, in its words or ours.
        reason: String,
        /// What to do.
        hint: String,
    },
}

impl ServiceError {
    /// For `map_err` on a file operation.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ServiceError {
        let path = path.to_path_buf();
        move |source| ServiceError::Io {
            action,
            path,
            source,
        }
    }
}
