//! Why a path was refused.

use std::io;

use rustix::io::Errno;

/// The sort of a [`Refusal`]; the caller maps it to a diagnostic code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// The text is no usable path (empty, NUL, too long, `..` after a folder that does not exist).
    Validation,
    /// Nothing is there.
    NotFound,
    /// The policy forbids it.
    Protected,
    /// It is there, but of a kind that is not served (FIFO, socket, device, a folder where a file is needed).
    Unsupported,
    /// A component in the middle of the path is not a folder.
    NotADirectory,
    /// More symbolic links than allowed.
    Loop,
    /// The operating system refused; permission is told apart from absence.
    System(io::ErrorKind),
}

/// A path was refused: what was attempted, on what, why, and what to do instead.
///
/// The text names only the path that was asked for and what it leads to, never other roots.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The sort of refusal.
    pub kind: RefusalKind,
    /// What was attempted, on what, and why it failed.
    pub message: String,
    /// What to do instead, where there is something.
    pub hint: Option<String>,
    /// The rule that refused, for the trail (`credentials`, `system_path`, `outside_workspace`, …).
    pub rule: Option<&'static str>,
}

impl Refusal {
    pub(crate) fn new(kind: RefusalKind, message: String) -> Self {
        Refusal {
            kind,
            message,
            hint: None,
            rule: None,
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn rule(mut self, rule: &'static str) -> Self {
        self.rule = Some(rule);
        self
    }

    /// A failed system call while `doing` something to `what`.
    pub(crate) fn system(doing: &str, what: &str, error: Errno) -> Self {
        let (kind, why) = match error {
            Errno::NOENT => (
                RefusalKind::NotFound,
                "no such file or directory".to_owned(),
            ),
            Errno::NOTDIR => (
                RefusalKind::NotADirectory,
                "a part of it is not a directory".to_owned(),
            ),
            Errno::LOOP => (
                RefusalKind::Loop,
                "too many levels of symbolic links".to_owned(),
            ),
            Errno::NAMETOOLONG => (RefusalKind::Validation, "the name is too long".to_owned()),
            Errno::ACCESS | Errno::PERM => (
                RefusalKind::System(io::ErrorKind::PermissionDenied),
                "permission denied by the operating system".to_owned(),
            ),
            other => {
                let error = io::Error::from(other);
                (RefusalKind::System(error.kind()), error.to_string())
            }
        };
        Refusal::new(kind, format!("cannot {doing} {what}: {why}"))
    }

    /// What was looked at is not what is there now.
    pub(crate) fn changed(what: &str) -> Self {
        Refusal::new(
            RefusalKind::Protected,
            format!("{what} changed while it was being looked at, so it was left alone"),
        )
        .rule("path_changed")
        .hint("try again when nothing else is moving files there")
    }
}
