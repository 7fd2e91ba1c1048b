//! What killed processes left: records whose content never came.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, RenameFlags, renameat_with, statat};

use super::error::RecoveryError;
use super::meta::Meta;
use super::place::Folder;
use super::{Recovery, names};
use crate::fsx;
use crate::limits::UNUSED_AFTER;

/// What became of leftovers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settled {
    /// Files that had been replaced and lay where they were moved from; they are entries now.
    pub kept: u64,
    /// Records without a content, and temporary files, that were removed.
    pub cleared: u64,
    /// Files that lay under a name for a moment and have their own again.
    pub put_back: Vec<PathBuf>,
    /// Names for a moment that were left alone: something else lies there, or it cannot be kept.
    pub found: Vec<PathBuf>,
}

impl Settled {
    /// Whether a person should hear of it.
    #[must_use]
    pub fn is_news(&self) -> bool {
        !self.put_back.is_empty() || !self.found.is_empty()
    }
}

impl Recovery {
    /// Clears up what killed processes left: a file that had been replaced and not yet moved here
    /// is moved here; a record that never got its content, and a half-written temporary file, are
    /// removed; and what [`Recovery::settle_asides`] says. Records younger than `age` may be somebody's work and are left alone.
    ///
    /// # Errors
    /// [`RecoveryError::Io`] if the folder cannot be read.
    pub fn settle(&self, age: Duration) -> Result<Settled, RecoveryError> {
        let mut all = Settled::default();
        for day in self.days()? {
            fsx::each_abandoned(&day, |path| {
                all.cleared += u64::from(fs::remove_file(path).is_ok());
            });
            let of_day = self.settle_day(&day, age);
            all.kept += of_day.kept;
            all.cleared += of_day.cleared;
        }
        self.put_right(&mut all);
        Ok(all)
    }

    /// The same for the records of one day. Best effort: what cannot be settled now is settled
    /// another time.
    pub(super) fn settle_day(&self, day: &Path, age: Duration) -> Settled {
        let mut settled = Settled::default();
        let items = fs::read_dir(day).into_iter().flatten().flatten();
        let there: HashSet<OsString> = items.map(|item| item.file_name()).collect();
        let lacks_content = |content: &PathBuf| {
            let packed = names::packed_path(content);
            !there.contains(content.as_os_str()) && !there.contains(packed.as_os_str())
        };
        // Most records have their content: those need no further look.
        let alone = there.iter().filter(|name| {
            let content = names::content_path(Path::new(name));
            content.as_ref().is_some_and(lacks_content)
        });
        for record in alone {
            match self.settle_record(&day.join(record), age) {
                Ok(Some(true)) => settled.kept += 1,
                Ok(Some(false)) => settled.cleared += 1,
                Ok(None) | Err(_) => {}
            }
        }
        settled
    }

    /// Whether a record got its content (`true`), was removed (`false`), or was left alone.
    fn settle_record(&self, record: &Path, age: Duration) -> io::Result<Option<bool>> {
        let Some(content) = names::content_path(record) else {
            return Ok(None);
        };
        let is_there = |path: &Path| path.symlink_metadata().is_ok();
        if is_there(&content) || is_there(&names::packed_path(&content)) {
            return Ok(None);
        }
        let written = fs::symlink_metadata(record)?.modified()?;
        let since = SystemTime::now().duration_since(written);
        let since = since.unwrap_or_default();
        let pending = Meta::load(record).and_then(|meta| meta.pending);
        let least = match pending {
            Some(_) => age,
            None => age.max(UNUSED_AFTER),
        };
        if since < least {
            return Ok(None);
        }
        let Some(pending) = pending else {
            return self.forget(record);
        };
        let Some(at) = pending.at() else {
            return self.forget(record);
        };
        let (Ok(folder), Some(name)) = (Folder::above(&at), at.file_name()) else {
            return self.forget(record);
        };
        let is_it = statat(folder.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|seen| pending.is(&seen));
        if !is_it {
            // It never left its place.
            return self.forget(record);
        }
        let flag = RenameFlags::NOREPLACE;
        renameat_with(folder.as_fd(), name, CWD, &content, flag)?;
        Ok(Some(true))
    }

    fn forget(&self, record: &Path) -> io::Result<Option<bool>> {
        fs::remove_file(record)?;
        Ok(Some(false))
    }
}
