//! Names: removing, renaming, linking and making them.

use super::caller::Caller;
use super::keeper::{Ready, lock};
use super::ledger::{Ledger, os};
use super::object::{Kind, Stat, handle, own_name, path_of, stat, stat_at};
use super::sys::Call;
use super::{Answer, At, Broker, Ground, No, Reply};
use crate::limits;
use rustix::fs::{AtFlags, CWD, FileType, Mode, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

/// A name in a folder on our ground; the object need not exist.
pub(super) struct Entry {
    pub(super) dir: OwnedFd,
    pub(super) dir_seen: Stat,
    pub(super) name: CString,
    pub(super) ground: Ground,
    pub(super) slash: bool,
}

impl Entry {
    pub(super) fn folder_path(&self) -> Result<PathBuf, Errno> {
        path_of(&self.dir)
    }

    pub(super) fn path(&self) -> Result<PathBuf, Errno> {
        Ok(self.folder_path()?.join(os(&self.name)))
    }

    /// For messages.
    fn shown(&self) -> PathBuf {
        self.path().unwrap_or_else(|_| os(&self.name).into())
    }

    fn seen(&self) -> Result<Stat, Errno> {
        stat_at(&self.dir, &self.name)
    }
}

/// Undoes a swap. Somebody who has saved to the target meanwhile keeps the name: what was there
/// before then stays where it is.
fn swap_back(from: &Entry, to: &Entry, source: &Stat) -> Result<(), Errno> {
    let swap = || {
        let flag = RenameFlags::EXCHANGE;
        renameat_with(&from.dir, &*from.name, &to.dir, &*to.name, flag)
    };
    if to.seen()?.id != source.id {
        return Ok(());
    }
    swap()?;
    if from.seen()?.id != source.id {
        swap()?;
    }
    Ok(())
}

const REPLACED: &str = "replaced by another file";

impl Broker {
    /// The entry that a path names, when its folder lies on our ground. Otherwise the kernel
    /// judges.
    fn entry(&self, call: &Call, caller: &Caller, at: At) -> Option<Entry> {
        let path = caller.path(at.1).ok()?;
        let place = caller.resolve_entry(at.0, &path).ok()?;
        let slash = place.slash;
        let (dir, name) = place.entry?;
        let dir_seen = stat(&dir).ok()?;
        let ground = self.ground(&dir, &dir_seen)?;
        // Only while the caller waits was it the one that was looked at.
        self.listener.still_waits(call).then_some(Entry {
            dir,
            dir_seen,
            name,
            ground,
            slash,
        })
    }

    /// What stands at an entry, if it may be moved or removed at all. (The kernel's own refusal to
    /// touch a mount point looks at the broker's mounts, not at the caller's.)
    fn movable(&self, entry: &Entry, ledger: &Ledger) -> Result<Stat, No> {
        let seen = entry.seen()?;
        if seen.is_mount_root || seen.mount != entry.dir_seen.mount {
            return Err(No {
                errno: Errno::BUSY,
                why: Some("it is protected".into()),
            });
        }
        let folder = entry.folder_path()?;
        self.policy.may_move(&seen, &folder, &entry.name, ledger)?;
        Ok(seen)
    }

    pub(super) fn remove(&self, call: &Call, caller: &Caller, at: At, folder: bool) -> Answer {
        let Some(entry) = self.entry(call, caller, at) else {
            return Ok(Reply::GoOn);
        };
        let removed = match folder {
            true => self.remove_folder(caller, &entry),
            false => self.remove_name(caller, &entry),
        };
        removed
            .map(|()| Reply::Value(0))
            .map_err(|no| self.refuse("remove", || entry.shown(), no))
    }

    fn remove_folder(&self, caller: &Caller, entry: &Entry) -> Result<(), No> {
        let mut ledger = lock(&self.ledger);
        let seen = self.movable(entry, &ledger)?;
        if !seen.is(Kind::Folder) {
            return Err(Errno::NOTDIR.into());
        }
        let free = entry.ground == Ground::Scratch;
        if !free && !self.policy.removes {
            return Err(No::because(
                "nothing is removed in a workspace in this mode",
            ));
        }
        let mut old = None;
        if !free && !ledger.is_made(&seen.id) {
            self.may_remove_old_folder(caller, entry, &seen, &ledger)?;
            old = Some((handle(&entry.dir, &entry.name)?, entry.path()?));
        }
        // It is empty, or the kernel refuses.
        rustix::fs::unlinkat(&entry.dir, &*entry.name, AtFlags::REMOVEDIR)?;
        ledger.note_gone(&seen.id);
        if let Some((folder, path)) = old {
            self.note_old_folder(&folder, &path, &ledger);
        }
        Ok(())
    }

    fn remove_name(&self, caller: &Caller, entry: &Entry) -> Result<(), No> {
        let mut ledger = lock(&self.ledger);
        let seen = self.movable(entry, &ledger)?;
        if seen.is(Kind::Folder) {
            return Err(Errno::ISDIR.into());
        }
        if entry.slash {
            return Err(Errno::NOTDIR.into());
        }
        if entry.ground == Ground::Scratch {
            rustix::fs::unlinkat(&entry.dir, &*entry.name, AtFlags::empty())?;
            return Ok(());
        }
        if !self.policy.removes {
            return Err(No::because(
                "nothing is removed in a workspace in this mode",
            ));
        }
        // A second name that this call made: the old one stays.
        let second = seen.links > 1 && ledger.has_name(entry.dir_seen.id, &entry.name);
        if ledger.is_made(&seen.id) || second {
            self.discard(entry, &entry.name, &seen)?;
            ledger.forget_name(entry.dir_seen.id, &entry.name);
            if seen.links <= 1 {
                ledger.note_gone(&seen.id);
            }
            return Ok(());
        }
        drop(ledger);
        self.remove_old(caller, entry, &seen)
    }

    /// Removes a name only if it still is what was judged: somebody may have saved over it since.
    /// It gets a private name, is looked at, and goes, or gets its name back.
    pub(super) fn discard(&self, entry: &Entry, name: &CString, judged: &Stat) -> Result<(), No> {
        let dir = entry.dir.as_fd();
        let (aside, _noted) = self.keeper.set_aside(dir, name, judged.id)?;
        if stat_at(dir, &aside)?.id == judged.id {
            rustix::fs::unlinkat(dir, &*aside, AtFlags::empty())?;
            return Ok(());
        }
        if renameat_with(dir, &*aside, dir, &**name, RenameFlags::NOREPLACE).is_err() {
            // A still newer one has the name; the one in between is kept.
            let origin = entry.folder_path()?.join(os(name));
            self.keeper
                .take(dir, &aside, &origin, "saved while a command removed it")?;
        }
        Err(Errno::BUSY.into())
    }

    pub(super) fn rename(
        &self,
        call: &Call,
        caller: &Caller,
        from: At,
        to: At,
        flags: u32,
    ) -> Answer {
        let from = self.entry(call, caller, from);
        let to = self.entry(call, caller, to);
        let (from, to) = match (from, to) {
            (Some(from), Some(to)) => (from, to),
            (None, None) => return Ok(Reply::GoOn),
            // Out of a workspace or into one: the caller copies.
            _ => return Err(Errno::XDEV.into()),
        };
        self.rename_here(&from, &to, RenameFlags::from_bits_retain(flags))
            .map(|()| Reply::Value(0))
            .map_err(|no| self.refuse("rename", || from.shown(), no))
    }

    fn rename_here(&self, from: &Entry, to: &Entry, flags: RenameFlags) -> Result<(), No> {
        if from.dir_seen.mount != to.dir_seen.mount || from.ground != to.ground {
            return Err(Errno::XDEV.into());
        }
        if flags.intersects(!RenameFlags::NOREPLACE) {
            return Err(Errno::INVAL.into());
        }
        if from.ground == Ground::Scratch {
            renameat_with(&from.dir, &*from.name, &to.dir, &*to.name, flags)?;
            return Ok(());
        }
        if !self.policy.removes {
            return Err(No::because(
                "nothing is renamed in a workspace in this mode",
            ));
        }
        let mut ledger = lock(&self.ledger);
        for _ in 0..limits::BROKER_TRIES {
            let source = self.movable(from, &ledger)?;
            let target = match self.movable(to, &ledger) {
                Ok(target) => target,
                Err(No {
                    errno: Errno::NOENT,
                    ..
                }) => match self.rename_to_free(from, to, &source, &mut ledger) {
                    // Somebody took the name just now: look again.
                    Err(No {
                        errno: Errno::EXIST,
                        ..
                    }) if flags.is_empty() => continue,
                    done => return done,
                },
                Err(no) => return Err(no),
            };
            if !flags.is_empty() {
                return Err(Errno::EXIST.into());
            }
            if target.id == source.id {
                // Two names of one file: both stay, as the kernel has it.
                return Ok(());
            }
            return self.rename_over((from, &source), (to, &target), &mut ledger);
        }
        Err(Errno::AGAIN.into())
    }

    fn rename_to_free(
        &self,
        from: &Entry,
        to: &Entry,
        source: &Stat,
        ledger: &mut Ledger,
    ) -> Result<(), No> {
        // `movable` stops at what is not there before it asks about the name.
        let folder = to.folder_path()?;
        self.policy.may_name(&folder, &to.name, ledger)?;
        if source.is(Kind::Folder) {
            // It may bring along what must not come to be in a git directory.
            let inside = to.path()?.join("attributes");
            self.policy.may_control(&inside, ledger)?;
        }
        let is_made = ledger.is_made(&source.id);
        let before = from.path()?;
        self.bring(from, to, source, ledger, || {
            let free = RenameFlags::NOREPLACE;
            renameat_with(&from.dir, &*from.name, &to.dir, &*to.name, free)
        })?;
        if ledger.forget_name(from.dir_seen.id, &from.name) {
            ledger.note_name(to.dir_seen.id, &to.name);
        }
        if !is_made {
            ledger.note_moved(source.id, &before);
        } else if self.takes_an_old_name(&folder, &to.name) {
            ledger.note_gone(&source.id);
        }
        Ok(())
    }

    fn rename_over(
        &self,
        (from, source): (&Entry, &Stat),
        (to, target): (&Entry, &Stat),
        ledger: &mut Ledger,
    ) -> Result<(), No> {
        match (source.is(Kind::Folder), target.is(Kind::Folder)) {
            (true, false) => return Err(Errno::NOTDIR.into()),
            (false, true) => return Err(Errno::ISDIR.into()),
            (true, true) => return self.rename_over_folder(from, to, source, target, ledger),
            (false, false) => {}
        }
        if !ledger.is_made(&source.id) && !self.may_put_old_over(from, to, ledger) {
            return Err(No::because(
                "only a file that the command itself made may take the place of another",
            ));
        }
        if ledger.is_made(&target.id) || self.is_free_to_remove(to, ledger) {
            return self.exchange((from, source), (to, target), None, ledger);
        }
        let staged = self.stage(from, to)?;
        let via = staged.as_ref().unwrap_or(from);
        // A kill in the middle must not leave the old content under a name that nobody knows.
        let ready = self.keeper.prepare(
            (to.dir.as_fd(), &to.name),
            target,
            &to.path()?,
            Some(&via.path()?),
            REPLACED,
        );
        let done =
            ready.and_then(|ready| self.exchange((via, source), (to, target), Some(ready), ledger));
        if let (Err(_), Some(staged)) = (&done, &staged) {
            let free = RenameFlags::NOREPLACE;
            // Where the name is taken by now, the command's own file stays beside the target.
            let _ = renameat_with(&staged.dir, &*staged.name, &from.dir, &*from.name, free);
        }
        done
    }

    /// A file in a folder of build products is first brought beside what it is to replace: the old
    /// content must not get into that folder, not even for the moment of the exchange.
    fn stage(&self, from: &Entry, to: &Entry) -> Result<Option<Entry>, No> {
        if self.policy.build_folders(&from.path()?).is_empty() {
            return Ok(None);
        }
        let staged = Entry {
            dir: to.dir.try_clone().map_err(|_| Errno::MFILE)?,
            dir_seen: to.dir_seen,
            name: self.keeper.private_name()?,
            ground: to.ground,
            slash: false,
        };
        let free = RenameFlags::NOREPLACE;
        renameat_with(&from.dir, &*from.name, &staged.dir, &*staged.name, free)?;
        Ok(Some(staged))
    }

    /// Swaps two files and settles what came out.
    fn exchange(
        &self,
        (from, source): (&Entry, &Stat),
        (to, target): (&Entry, &Stat),
        ready: Option<Ready>,
        ledger: &mut Ledger,
    ) -> Result<(), No> {
        let swap = RenameFlags::EXCHANGE;
        match renameat_with(&from.dir, &*from.name, &to.dir, &*to.name, swap) {
            Ok(()) => {}
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                return self.replace_without_swap((from, source), (to, target), ready, ledger);
            }
            Err(e) => return Err(e.into()),
        }
        // What really came out is judged, not what was there before.
        let out = stat_at(&from.dir, &from.name)?;
        let settled = if ledger.is_made(&out.id) || self.is_free_to_remove(to, ledger) {
            let done = self.discard(from, &from.name, &out);
            if done.is_ok() && out.links <= 1 {
                ledger.note_gone(&out.id);
            }
            done
        } else {
            let dir = from.dir.as_fd();
            let taken = match ready {
                Some(ready) => self.keeper.finish(ready, dir, &from.name),
                None => self.keeper.take(dir, &from.name, &to.path()?, REPLACED),
            };
            if taken.is_ok() {
                // It has an old file's name now, which stays.
                ledger.note_gone(&source.id);
            }
            taken.map(drop)
        };
        if settled.is_err() {
            swap_back(from, to, source)?;
        }
        settled
    }

    /// For file systems that cannot swap two names.
    fn replace_without_swap(
        &self,
        (from, source): (&Entry, &Stat),
        (to, target): (&Entry, &Stat),
        ready: Option<Ready>,
        ledger: &mut Ledger,
    ) -> Result<(), No> {
        match ready {
            None => self.discard(to, &to.name, target)?,
            Some(ready) => {
                self.keeper.finish(ready, to.dir.as_fd(), &to.name)?;
                ledger.note_gone(&source.id);
            }
        }
        let free = RenameFlags::empty();
        renameat_with(&from.dir, &*from.name, &to.dir, &*to.name, free)?;
        Ok(())
    }

    fn rename_over_folder(
        &self,
        from: &Entry,
        to: &Entry,
        source: &Stat,
        target: &Stat,
        ledger: &mut Ledger,
    ) -> Result<(), No> {
        if !ledger.is_made(&target.id) {
            return Err(No::because("the folder in its way was there before"));
        }
        let before = from.path()?;
        // The target is empty, or the kernel refuses.
        self.bring(from, to, source, ledger, || {
            let over = RenameFlags::empty();
            renameat_with(&from.dir, &*from.name, &to.dir, &*to.name, over)
        })?;
        if !ledger.is_made(&source.id) {
            ledger.note_moved(source.id, &before);
        }
        ledger.note_gone(&target.id);
        Ok(())
    }

    pub(super) fn link(
        &self,
        call: &Call,
        caller: &Caller,
        from: At,
        to: At,
        flags: i32,
    ) -> Answer {
        let Some(to) = self.entry(call, caller, to) else {
            return Ok(Reply::GoOn);
        };
        let raw = caller.path(from.1)?;
        let place = if raw.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
            let name = format!("/proc/self/fd/{}", from.0);
            caller.resolve(libc::AT_FDCWD, name.as_bytes(), true)?
        } else {
            caller.resolve(from.0, &raw, flags & libc::AT_SYMLINK_FOLLOW != 0)?
        };
        let (object, seen) = place.object.ok_or(Errno::NOENT)?;
        if !self.listener.still_waits(call) {
            return Ok(Reply::Later);
        }
        self.link_here(&object, &seen, &to)
            .map(|()| Reply::Value(0))
            .map_err(|no| self.refuse("link to", || path_of(&object).unwrap_or_default(), no))
    }

    fn link_here(&self, object: &OwnedFd, seen: &Stat, to: &Entry) -> Result<(), No> {
        let ground = self.ground(object, seen);
        if ground != Some(to.ground) || seen.mount != to.dir_seen.mount {
            return Err(Errno::XDEV.into());
        }
        let mut ledger = lock(&self.ledger);
        self.policy.may_change(seen)?;
        // By another name it could be changed.
        if self.policy.has_shallow() {
            self.policy.may_reach(&path_of(object)?, &ledger)?;
        }
        self.policy
            .may_name(&to.folder_path()?, &to.name, &ledger)?;
        let _lock = match ledger.is_made(&seen.id) {
            true => None,
            false => Some(self.lock_moves(false)?),
        };
        // The object that was judged, not its name.
        let from = own_name(object);
        let follow = AtFlags::SYMLINK_FOLLOW;
        match seen.kind() {
            Kind::Link => return Err(Errno::PERM.into()),
            _ => rustix::fs::linkat(CWD, &*from, &to.dir, &*to.name, follow)?,
        }
        if !ledger.is_made(&seen.id) {
            ledger.note_name(to.dir_seen.id, &to.name);
        }
        Ok(())
    }

    pub(super) fn symlink(&self, call: &Call, caller: &Caller, text: u64, at: At) -> Answer {
        let text = CString::new(caller.path(text)?).map_err(|_| Errno::INVAL)?;
        self.make(call, caller, at, |entry| {
            rustix::fs::symlinkat(&*text, &entry.dir, &*entry.name)
        })
    }

    pub(super) fn mkdir(&self, call: &Call, caller: &Caller, at: At, mode: u32) -> Answer {
        let mode = Mode::from_bits_truncate(mode & 0o7777);
        self.make(call, caller, at, |entry| {
            rustix::fs::mkdirat(&entry.dir, &*entry.name, mode)
        })
    }

    pub(super) fn mknod(&self, call: &Call, caller: &Caller, at: At, mode: u32) -> Answer {
        let kind = match mode & libc::S_IFMT {
            0 | libc::S_IFREG => FileType::RegularFile,
            libc::S_IFIFO => FileType::Fifo,
            libc::S_IFSOCK => FileType::Socket,
            // Devices: the caller has no right to any.
            _ => return Ok(Reply::GoOn),
        };
        let mode = Mode::from_bits_truncate(mode & 0o7777);
        self.make(call, caller, at, |entry| {
            rustix::fs::mknodat(&entry.dir, &*entry.name, kind, mode, 0)
        })
    }

    fn make(
        &self,
        call: &Call,
        caller: &Caller,
        at: At,
        act: impl Fn(&Entry) -> Result<(), Errno>,
    ) -> Answer {
        let Some(entry) = self.entry(call, caller, at) else {
            return Ok(Reply::GoOn);
        };
        let mut ledger = lock(&self.ledger);
        let folder = entry.folder_path()?;
        let allowed = self.policy.may_name(&folder, &entry.name, &ledger);
        if let Err(no) = allowed {
            // What is there already is said first, as the kernel does.
            return match handle(&entry.dir, &entry.name) {
                Ok(_) => Err(Errno::EXIST.into()),
                Err(_) => Err(self.refuse("create", || entry.shown(), no)),
            };
        }
        let _umask = self.take_umask(caller);
        let begun = super::object::clock();
        act(&entry)?;
        let made = entry.seen()?.id;
        // Somebody may have moved an older one there since.
        if made.is_born_since(begun) && !self.takes_an_old_name(&folder, &entry.name) {
            ledger.note_made(made);
        }
        Ok(Reply::Value(0))
    }
}
