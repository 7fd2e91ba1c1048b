//! Renaming folders, and what they bring along.
//!
//! In a folder of build products old files may go without a copy, so that nothing old must ever
//! come into one: neither by itself, nor in a folder that the command made around it, nor because
//! a folder of such a name gets to where git ignores it. What other calls do at the same time is
//! kept apart by a lock that all brokers of one home share.

use super::Broker;
use super::No;
use super::entries::Entry;
use super::exceptions::ignored_among;
use super::ledger::{Ledger, os};
use super::object::{Kind, Stat, stat_at};
use crate::limits;
use rustix::fs::{Dir, FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// The right to move what is old, among all calls of this home. Dropped, it is given back.
pub(super) struct MoveLock<'a>(&'a OwnedFd);

impl Drop for MoveLock<'_> {
    fn drop(&mut self) {
        // A lock that cannot be given up goes with this process.
        let _ = flock(self.0, FlockOperation::Unlock);
    }
}

/// What a folder holds.
#[derive(Default)]
struct Load {
    /// Whether something in it, or it itself, was there before.
    old: bool,
    /// Folders in it with the name of a folder of build products, from it down.
    build: Vec<PathBuf>,
}

impl Broker {
    /// Waits for the lock: alone for moving a folder into one of build products, together with
    /// others for moving anything old.
    pub(super) fn lock_moves(&self, alone: bool) -> Result<MoveLock<'_>, No> {
        let open = || {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::open(self.keeper.folder(), flags, Mode::empty()).ok()
        };
        let folder = self
            .move_lock
            .get_or_init(open)
            .as_ref()
            .ok_or(Errno::ACCESS)?;
        let wanted = match alone {
            true => FlockOperation::NonBlockingLockExclusive,
            false => FlockOperation::NonBlockingLockShared,
        };
        for _ in 0..limits::MOVE_LOCK_TRIES {
            match flock(folder, wanted) {
                Ok(()) => return Ok(MoveLock(folder)),
                Err(Errno::WOULDBLOCK) => {
                    self.turn.step_aside();
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(e) => return Err(e.into()),
            }
        }
        Err(Errno::BUSY.into())
    }

    /// Renames, by `act`, to a name that is free or an empty folder's, when nothing old comes into
    /// a folder of build products by that.
    pub(super) fn bring(
        &self,
        from: &Entry,
        to: &Entry,
        source: &Stat,
        ledger: &Ledger,
        act: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), No> {
        let is_made = ledger.is_made(&source.id);
        if is_made && !source.is(Kind::Folder) {
            return Ok(act()?);
        }
        let alone = !self.may_come(&from.path()?, &to.path()?);
        let _lock = self.lock_moves(alone)?;
        // While others had their turn, the folders themselves may have been moved.
        let (before, after) = (from.path()?, to.path()?);
        let comes_in = !self.may_come(&before, &after);
        if comes_in && !alone {
            return Err(Errno::BUSY.into());
        }
        if !is_made && comes_in {
            return Err(into_build());
        }
        if !source.is(Kind::Folder) {
            return Ok(act()?);
        }
        if !comes_in && self.is_in_build_folder(&before, ledger) {
            return Ok(act()?);
        }
        let load = self.look_into(from, is_made, ledger)?;
        self.may_bring(&load, comes_in, (&before, &after), ledger)?;
        act()?;
        // The person may have saved into it between the look and the move.
        if comes_in && self.look_into(to, is_made, ledger).map_or(true, |l| l.old) {
            self.take_back(from, to)?;
            return Err(into_build());
        }
        Ok(())
    }

    /// Whether every folder of build products around the one path is around the other as well.
    pub(super) fn may_come(&self, from: &Path, to: &Path) -> bool {
        let before = self.policy.build_folders(from);
        let into = self.policy.build_folders(to);
        into.iter().all(|folder| before.contains(folder))
    }

    fn may_bring(
        &self,
        load: &Load,
        comes_in: bool,
        (before, after): (&Path, &Path),
        ledger: &Ledger,
    ) -> Result<(), No> {
        if !load.old {
            return Ok(());
        }
        if comes_in {
            return Err(into_build());
        }
        let free = |place: &Path, folders: &[&PathBuf]| {
            let folders: Vec<PathBuf> = folders.iter().map(|inner| place.join(inner)).collect();
            ignored_among(&folders, ledger, self.keeper.folder())
        };
        // What lies in a free one is free already.
        let all: HashSet<&Path> = load.build.iter().map(PathBuf::as_path).collect();
        let is_outermost = |inner: &&PathBuf| !inner.ancestors().skip(1).any(|up| all.contains(up));
        let outermost: Vec<&PathBuf> = load.build.iter().filter(is_outermost).collect();
        if outermost.len() > limits::MOVED_BUILDS {
            return Err(too_much());
        }
        let of_old = free(before, &outermost);
        let is_free =
            |inner: &&PathBuf| before.join(inner).ancestors().any(|up| of_old.contains(up));
        let rest: Vec<&PathBuf> = load.build.iter().filter(|inner| !is_free(inner)).collect();
        if rest.len() > limits::MOVED_BUILDS {
            return Err(too_much());
        }
        let (was, will_be) = (free(before, &rest), free(after, &rest));
        let gets_free = |inner: &&&PathBuf| {
            !was.contains(&before.join(inner)) && will_be.contains(&after.join(inner))
        };
        match rest.iter().find(gets_free) {
            Some(inner) => Err(No::because(&format!(
                "git ignores {} there, and old files in it would lose their protection",
                inner.display()
            ))),
            None => Ok(()),
        }
    }

    /// Looks through a folder.
    fn look_into(&self, entry: &Entry, is_made: bool, ledger: &Ledger) -> Result<Load, No> {
        let unseen = |_| No::because("not all that it holds could be looked at");
        let mut load = Load {
            old: !is_made,
            ..Load::default()
        };
        let top = entry.dir.try_clone().map_err(|_| Errno::MFILE)?;
        let mut waiting = vec![(Rc::new(top), entry.name.clone(), PathBuf::new())];
        let mut seen = 0;
        while let Some((above, name, inner)) = waiting.pop() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = rustix::fs::openat(&*above, &*name, flags, Mode::empty());
            let folder = Rc::new(opened.map_err(unseen)?);
            for name in names_in(&folder).map_err(unseen)? {
                seen += 1;
                if seen > limits::MOVED_ENTRIES {
                    return Err(too_much());
                }
                let found = stat_at(folder.as_fd(), &name).map_err(unseen)?;
                load.old |= !ledger.is_made(&found.id);
                if !found.is(Kind::Folder) {
                    continue;
                }
                let inner = inner.join(os(&name));
                if self.policy.is_build_name(&os(&name)) {
                    load.build.push(inner.clone());
                }
                waiting.push((Rc::clone(&folder), name, inner));
            }
        }
        Ok(load)
    }

    /// Undoes a move: to the name before or, where that is taken, to a private one beside it.
    fn take_back(&self, from: &Entry, to: &Entry) -> Result<(), No> {
        use rustix::fs::{RenameFlags, renameat_with};
        let flag = RenameFlags::NOREPLACE;
        let back = |name: &CString| renameat_with(&to.dir, &*to.name, &from.dir, &**name, flag);
        match back(&from.name) {
            Err(Errno::EXIST) => Ok(back(&self.keeper.private_name()?)?),
            done => Ok(done?),
        }
    }
}

fn names_in(folder: &OwnedFd) -> Result<Vec<CString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

fn into_build() -> No {
    No::because(
        "it, or something in it, was there before and would come into a folder of build products",
    )
}

fn too_much() -> No {
    No::because("it holds too much to be looked through")
}
