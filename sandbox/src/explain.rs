//! What a plan lets a command do at one path, said before anything is done.

use crate::plan::{Mode, Plan};
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
pub use crate::linux::broker::Made;

/// What commands of a session made. Without a broker nobody keeps count.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub struct Made;

#[cfg(not(target_os = "linux"))]
impl Made {
    /// Says nothing.
    #[must_use]
    pub fn load(_ledger: &Path) -> Self {
        Self
    }

    /// Nothing is known to be made by a command.
    #[must_use]
    pub fn holds(&self, _path: &Path) -> bool {
        false
    }

    /// Whether this very object was made in the session: nothing is known of that here.
    #[must_use]
    pub fn has(&self, _: impl std::os::fd::AsFd) -> bool {
        false
    }

    /// Nothing is noted here, where commands remove nothing.
    ///
    /// # Errors
    /// None.
    pub fn note<T: std::os::fd::AsFd>(_: &std::path::Path, _: &[T]) -> std::io::Result<()> {
        Ok(())
    }
}

/// Whether something is allowed, and by which rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// Whether it is.
    pub allowed: bool,
    /// The rule's name.
    pub rule: &'static str,
    /// The rule, in words.
    pub why: String,
}

impl Ruling {
    pub(crate) fn yes(rule: &'static str, why: impl Into<String>) -> Self {
        Self {
            allowed: true,
            rule,
            why: why.into(),
        }
    }

    pub(crate) fn no(rule: &'static str, why: impl Into<String>) -> Self {
        Self {
            allowed: false,
            rule,
            why: why.into(),
        }
    }
}

/// What a command may do at a path. Permissions of the system come on top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rulings {
    /// Reading and listing.
    pub read: Ruling,
    /// Creating, or changing the content.
    pub write: Ruling,
    /// Removing; and moving away, but for what the rule says.
    pub remove: Ruling,
}

impl Rulings {
    fn same(ruling: Ruling) -> Self {
        Self {
            read: ruling.clone(),
            write: ruling.clone(),
            remove: ruling,
        }
    }
}

impl Plan {
    /// What the command of this plan may do at `path`: absolute, with no link on the way, and the
    /// machine's own name for it (but for the private tmp, which is meant by `/tmp` on Linux). Looks
    /// at the disk.
    #[must_use]
    pub fn explain(&self, path: &Path) -> Rulings {
        let covering = |list: &[PathBuf]| list.iter().find(|p| path.starts_with(p)).cloned();
        let root = self.roots().filter(|root| path.starts_with(root));
        let root = root.max_by_key(|root| root.components().count());
        if root.is_none() && self.is_private_tmp(path) {
            return self.explain_tmp(path);
        }
        if let Some(mask) = covering(&self.masks) {
            let why = format!("{} is hidden from commands", mask.display());
            return Rulings::same(Ruling::no("hidden", why));
        }
        let read = match path.symlink_metadata() {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                Ruling::yes("not_there", "nothing is there to be read")
            }
            _ => Ruling::yes("readable", "commands read what is not hidden from them"),
        };
        let (write, remove) = match root {
            _ if self.mode == Mode::ReadOnly => both(Ruling::no(
                "read_only_mode",
                "in this mode only the private tmp is written",
            )),
            None => both(Ruling::no(
                "outside_workspace",
                "outside the workspaces, `write.extra` and the private tmp nothing is written",
            )),
            Some(root) => match covering(&self.sealed) {
                Some(sealed) => both(Ruling::no(
                    "sealed",
                    format!("{} is read-only to commands", sealed.display()),
                )),
                None => self.explain_in(root, path),
            },
        };
        Rulings {
            read,
            write,
            remove,
        }
    }

    /// Below a writable root, where nothing is hidden or sealed.
    fn explain_in(&self, root: &Path, path: &Path) -> (Ruling, Ruling) {
        if path == root {
            let why = "it is the workspace itself";
            return (
                Ruling::yes("workspace", "what is in it may be written"),
                Ruling::no("workspace", why),
            );
        }
        #[cfg(target_os = "linux")]
        if let Some(guard) = self.active_guard() {
            return crate::linux::broker::explain(self, guard, path);
        }
        let kept = Ruling::yes("workspace", "overwritten content is not kept");
        let is_free = |path: &Path| {
            crate::macos::freed(self)
                .iter()
                .any(|f| path.starts_with(f))
        };
        if cfg!(target_os = "macos") && is_free(path) {
            let why = "git ignores what is in this folder of build products";
            return (kept, Ruling::yes("build_folder", why));
        }
        (
            kept,
            Ruling::no(
                "no_broker",
                "without the removal broker nothing in a workspace is removed or renamed",
            ),
        )
    }

    /// On Linux a private folder stands in the place of `/tmp`: what the machine has there is not seen.
    fn explain_tmp(&self, path: &Path) -> Rulings {
        let own = Ruling::yes("private_tmp", "the session's private tmp");
        let Ok(below) = path.strip_prefix("/tmp") else {
            return Rulings::same(own);
        };
        let is_there = |path: &Path| path.symlink_metadata().is_ok();
        let is_machines = is_there(path) && !is_there(&self.tmp.join(below));
        if !cfg!(target_os = "linux") || !is_machines {
            return Rulings::same(own);
        }
        let unseen = Ruling::no(
            "private_tmp",
            "commands see the session's private tmp in this place, and not what the machine has there",
        );
        Rulings {
            read: unseen.clone(),
            write: own,
            remove: unseen,
        }
    }

    fn is_private_tmp(&self, path: &Path) -> bool {
        if self.is_reduced() {
            return path.starts_with(&self.tmp);
        }
        match cfg!(target_os = "linux") {
            true => path.starts_with("/tmp"),
            false => path.starts_with(&self.tmp) || path.starts_with("/private/tmp"),
        }
    }
}

fn both(ruling: Ruling) -> (Ruling, Ruling) {
    (ruling.clone(), ruling)
}
