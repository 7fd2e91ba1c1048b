//! What the broker would answer, said beforehand and by the same rules.

use super::caller::look_here;
use super::exceptions::is_free;
use super::ledger::Ledger;
use super::object::{Kind, Stat, stat};
use super::policy::Policy;
use super::{No, session_ledger};
use crate::explain::Ruling;
use crate::plan::{Guard, Plan};
use std::ffi::CString;
use std::os::fd::AsFd;
use std::path::Path;

/// What commands of a session made, by its ledger.
#[derive(Debug)]
pub struct Made(Ledger);

impl Made {
    /// Reads a session's ledger. One that is not there or cannot be read says nothing.
    #[must_use]
    pub fn load(ledger: &Path) -> Self {
        Self(Ledger::load(Some(ledger)))
    }

    /// Whether a command of the session made what stands at this path; a link is not followed.
    #[must_use]
    pub fn holds(&self, path: &Path) -> bool {
        look_here(path).is_some_and(|seen| self.0.is_made(&seen.id))
    }

    /// Whether this very object was made in the session.
    #[must_use]
    pub fn has(&self, object: impl AsFd) -> bool {
        stat(object).is_ok_and(|seen| self.0.is_made(&seen.id))
    }

    /// Notes in a session's ledger, which lies out of every command's reach, that these very
    /// objects were made in the session: its later commands may remove them. What has no time of
    /// birth is not noted.
    ///
    /// # Errors
    /// When an object cannot be looked at, or the ledger not be written.
    pub fn note<T: AsFd>(ledger: &Path, objects: &[T]) -> std::io::Result<()> {
        let mut news = Ledger::default();
        for object in objects {
            news.note_made(stat(object)?.id);
        }
        news.save(Some(ledger))
    }
}

/// What the next command of the session may do at `path`, which lies in a writable root and is
/// neither hidden nor read-only there: writing, and removing by a program that is not known for
/// more.
pub(crate) fn explain(plan: &Plan, guard: &Guard, path: &Path) -> (Ruling, Ruling) {
    let case = Case {
        policy: Policy::new(plan, guard),
        ledger: session_ledger(plan, guard, false),
        guard,
        path,
        seen: look_here(path),
    };
    (
        case.write().unwrap_or_else(|no| refused("protected", no)),
        case.remove().unwrap_or_else(|no| refused("protected", no)),
    )
}

fn refused(rule: &'static str, no: No) -> Ruling {
    let why = no.why.unwrap_or_else(|| no.errno.to_string());
    Ruling::no(rule, why)
}

struct Case<'a> {
    policy: Policy,
    ledger: Ledger,
    guard: &'a Guard,
    path: &'a Path,
    seen: Option<Stat>,
}

impl Case<'_> {
    fn name(&self) -> (&Path, CString) {
        let folder = self.path.parent().unwrap_or(self.path);
        let name = self.path.file_name().unwrap_or_default();
        (
            folder,
            CString::new(name.as_encoded_bytes()).unwrap_or_default(),
        )
    }

    /// As `Broker::open_there` and `Broker::create_file` judge.
    fn write(&self) -> Result<Ruling, No> {
        let Some(seen) = &self.seen else {
            let (folder, name) = self.name();
            self.policy.may_name(folder, &name, &self.ledger)?;
            return Ok(Ruling::yes("workspace", "a command may create it"));
        };
        self.policy.may_change(seen)?;
        self.policy.may_write_at(self.path, &self.ledger)?;
        if self.ledger.is_made(&seen.id) {
            return Ok(Ruling::yes(
                "made_by_session",
                "a command of this session made it",
            ));
        }
        if seen.links <= 1
            && let Some(folder) = self.build_folder()
        {
            return Ok(Ruling::yes("build_folder", free(&folder)));
        }
        if seen.is(Kind::File) && seen.size > self.guard.file_bytes {
            return Ok(Ruling::no(
                "too_large",
                format!(
                    "it has {} bytes, and contents of at most {} are kept (`limits.recovery_file_bytes`)",
                    seen.size, self.guard.file_bytes
                ),
            ));
        }
        Ok(Ruling::yes(
            "workspace",
            "its old content is kept in a recovery file first",
        ))
    }

    /// As `Broker::remove_name` and `Broker::remove_old` judge.
    fn remove(&self) -> Result<Ruling, No> {
        let Some(seen) = &self.seen else {
            return Ok(Ruling::yes("not_there", "nothing is there"));
        };
        let (folder, name) = self.name();
        self.policy.may_move(seen, folder, &name, &self.ledger)?;
        if !self.policy.removes {
            return Ok(Ruling::no(
                "strict_mode",
                "nothing is removed or renamed in a workspace in this mode",
            ));
        }
        if self.ledger.is_made(&seen.id) {
            return Ok(Ruling::yes(
                "made_by_session",
                "a command of this session made it",
            ));
        }
        if let Some(folder) = self.build_folder() {
            return Ok(Ruling::yes("build_folder", free(&folder)));
        }
        Ok(Ruling::no(
            "was_there",
            "it was there before; commands remove only what they made. A free name in the workspace can be given to it, and \
             the system's git may remove what it tracks",
        ))
    }

    fn build_folder(&self) -> Option<std::path::PathBuf> {
        let free = |folder: &std::path::PathBuf| {
            self.policy.removes && is_free(folder, &self.ledger, &self.guard.recovery)
        };
        self.policy.build_folders(self.path).into_iter().find(free)
    }
}

fn free(folder: &Path) -> String {
    format!(
        "{} holds build products, which git ignores",
        folder.display()
    )
}
