//! What is kept of the person's files before a command changes or replaces them.

use super::No;
use super::ledger::{Ledger, os};
use super::object::{Id, Kind, Stat, State, handle, path_of, reopen, stat, stat_at};
use super::sys::Lease;
use super::turn::Turn;
use crate::limits;
use crate::plan::Guard;
use crate::report::Kept;
use hands_activity::{Announced, Dropped, Noted, Notes, Recovery, RecoveryError, RecoveryLimits};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

/// Locks, whatever a panic elsewhere has done: the data is whole after each statement.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The recovery folder as the broker uses it.
pub(super) struct Keeper {
    guard: Guard,
    recovery: OnceLock<Option<Recovery>>,
    /// The file system that the folder is on.
    device: OnceLock<Option<u64>>,
    kept: Mutex<Vec<Kept>>,
    aside: AtomicU64,
    /// Which names files have for a moment.
    notes: Notes,
    /// Others take the next calls while something is copied.
    turn: Arc<Turn>,
}

impl Keeper {
    pub(super) fn new(guard: &Guard, turn: Arc<Turn>) -> Self {
        Self {
            guard: guard.clone(),
            recovery: OnceLock::new(),
            device: OnceLock::new(),
            kept: Mutex::default(),
            aside: AtomicU64::new(0),
            notes: Notes::in_folder(&guard.recovery),
            turn,
        }
    }

    /// The folder itself: also where short-lived files of the broker's own may lie.
    pub(super) fn folder(&self) -> &Path {
        &self.guard.recovery
    }

    /// The command is over: nothing gets a name for a moment any more.
    pub(super) fn close(&self) {
        self.notes.close();
    }

    /// All that was kept in this call.
    pub(super) fn kept(&self) -> Vec<Kept> {
        lock(&self.kept).clone()
    }

    /// What was dropped from the folder in this call, to make room.
    pub(super) fn dropped(&self) -> Vec<Dropped> {
        let recovery = self.recovery.get().and_then(Option::as_ref);
        recovery.map(Recovery::take_dropped).unwrap_or_default()
    }

    fn recovery(&self) -> Result<&Recovery, No> {
        let limits = RecoveryLimits {
            max_file_bytes: self.guard.file_bytes,
            max_total_bytes: self.guard.quota_bytes,
            min_age: Duration::from_secs(self.guard.min_age_s),
            ..RecoveryLimits::default()
        };
        let open = || {
            let opened = Recovery::open_briefly(&self.guard.recovery, limits).ok()?;
            Some(opened.for_session(&self.guard.session_id))
        };
        let opened = self.recovery.get_or_init(open).as_ref();
        opened.ok_or_else(|| No {
            errno: Errno::ACCESS,
            why: Some(format!(
                "the recovery folder {} cannot be used",
                self.guard.recovery.display()
            )),
        })
    }

    fn note(&self, origin: &Path, path: &Path, reason: &str) {
        let mut kept = lock(&self.kept);
        kept.push(Kept {
            origin: origin.to_path_buf(),
            path: path.to_path_buf(),
            reason: reason.into(),
        });
    }

    /// Keeps the present content of a regular file that the call did not make, once for each
    /// state the file is in. Reads through the caller's view, so that a mask stays a mask.
    pub(super) fn keep(
        &self,
        ledger: &Mutex<Ledger>,
        object: &OwnedFd,
        reason: &str,
    ) -> Result<(), No> {
        let seen = stat(object)?;
        if !seen.is(Kind::File) || seen.size == 0 || known(&lock(ledger), seen.id, seen.state) {
            return Ok(());
        }
        let file = File::from(reopen(object, OFlags::RDONLY | OFlags::NONBLOCK)?);
        self.copy(ledger, &file, &path_of(object)?, reason)
    }

    fn copy(
        &self,
        ledger: &Mutex<Ledger>,
        file: &File,
        origin: &Path,
        reason: &str,
    ) -> Result<(), No> {
        let before = stat(file)?;
        if before.size == 0 || known(&lock(ledger), before.id, before.state) {
            return Ok(());
        }
        let recovery = self.recovery()?;
        if before.size > self.guard.file_bytes {
            return Err(too_large(before.size, self.guard.file_bytes));
        }
        self.turn.step_aside();
        // What this call has kept of a file once is on disk; what it does to it then is its own.
        let durable = !lock(ledger).was_kept(&before.id);
        let stored = match durable {
            true => recovery.store_file(file, origin, &self.guard.turn_id, reason),
            false => recovery
                .without_sync()
                .store_file(file, origin, &self.guard.turn_id, reason),
        };
        let entry = stored.map_err(|e| failed(&e))?;
        self.note(origin, &entry.path, reason);
        lock(ledger).note_kept(before.id, before.state);
        Ok(())
    }

    /// Keeps a file's content and shortens it, with nobody else writing in between: whoever opens
    /// the file meanwhile waits. Where others have it open already, the file is looked at
    /// directly before it is cut.
    pub(super) fn cut(
        &self,
        ledger: &Mutex<Ledger>,
        object: &OwnedFd,
        length: u64,
        reason: &str,
    ) -> Result<(), No> {
        let file = File::from(reopen(object, OFlags::RDWR | OFlags::NONBLOCK)?);
        let origin = path_of(object)?;
        self.turn.step_aside();
        let lease = wait_for_lease(file.as_fd());
        for _ in 0..limits::KEEP_TRIES {
            self.copy(ledger, &file, &origin, reason)?;
            let now = stat(&file)?;
            let same = now.size == 0 || lock(ledger).is_kept(&now.id, now.state);
            if same || lease.is_some() {
                rustix::fs::ftruncate(&file, length)?;
                return Ok(());
            }
        }
        Err(Errno::BUSY.into())
    }

    /// Moves an entry into the recovery folder, whatever is there by now; where it cannot be moved
    /// it is copied, set aside, and let go of.
    pub(super) fn take(
        &self,
        dir: BorrowedFd,
        name: &CStr,
        origin: &Path,
        reason: &'static str,
    ) -> Result<Taken, No> {
        let ready = self.prepare((dir, name), &stat_at(dir, name)?, origin, None, reason)?;
        self.finish(ready, dir, name)
    }

    /// The first half of [`Keeper::take`], before anything happens to the name: from now on a kill
    /// at any point leaves the content where it was or in the recovery folder, or under the name
    /// `between`, where its record says that it lies.
    pub(super) fn prepare(
        &self,
        (dir, name): (BorrowedFd, &CStr),
        seen: &Stat,
        origin: &Path,
        between: Option<&Path>,
        reason: &'static str,
    ) -> Result<Ready, No> {
        let recovery = self.recovery()?;
        let how = if seen.is(Kind::File) && seen.links <= 1 && self.is_near(seen.id) {
            let (name, turn) = (os(name), &self.guard.turn_id);
            let announced = recovery.announce((dir, &name), origin, between, turn, reason);
            How::Move(announced.map_err(|e| failed(&e))?, seen.permissions())
        } else {
            How::Copied(self.copy_object(&handle(dir, name)?, origin, reason)?)
        };
        Ok(Ready {
            origin: origin.to_path_buf(),
            reason,
            how,
        })
    }

    /// The second half: what was prepared lies at this name now, and leaves it.
    pub(super) fn finish(&self, ready: Ready, dir: BorrowedFd, name: &CStr) -> Result<Taken, No> {
        let recovery = self.recovery()?;
        let (announced, permissions) = match ready.how {
            How::Move(announced, permissions) => (announced, permissions),
            How::Copied(copied) => {
                return self.let_go(copied, dir, name, &ready.origin, ready.reason);
            }
        };
        let twin = own_view(dir);
        let from = twin.as_ref().map_or(dir, AsFd::as_fd);
        match recovery.complete(announced, from, &os(name)) {
            Ok(entry) => {
                self.note(&ready.origin, &entry.path, ready.reason);
                Ok(Taken::File {
                    path: entry.path,
                    permissions,
                })
            }
            Err(RecoveryError::Io { source, .. }) if source.raw_os_error() == Some(libc::EXDEV) => {
                let object = handle(dir, name)?;
                let copied = self.copy_object(&object, &ready.origin, ready.reason)?;
                self.let_go(copied, dir, name, &ready.origin, ready.reason)
            }
            Err(e) => Err(failed(&e)),
        }
    }

    /// Whether the recovery folder is on the same file system.
    fn is_near(&self, id: Id) -> bool {
        let ours = self.device.get_or_init(|| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let folder = rustix::fs::open(&self.guard.recovery, flags, Mode::empty());
            folder.and_then(stat).map(|seen| seen.id.dev).ok()
        });
        *ours == Some(id.dev)
    }

    /// Removes a name whose object was copied. Somebody may have written to it since: then it is
    /// copied once more.
    fn let_go(
        &self,
        copied: Copied,
        dir: BorrowedFd,
        name: &CStr,
        origin: &Path,
        reason: &str,
    ) -> Result<Taken, No> {
        let (aside, _noted) = self.set_aside(dir, name, copied.seen.id)?;
        let look = || -> Result<Option<Copied>, No> {
            let now = stat_at(dir, &aside)?;
            if copied.is_still(&now) {
                return Ok(None);
            }
            Ok(Some(self.copy_object(
                &handle(dir, &aside)?,
                origin,
                reason,
            )?))
        };
        let taken = match look() {
            Ok(None) => copied.taken,
            Ok(Some(newer)) => newer.taken,
            Err(no) => {
                // What cannot be kept stays; somebody who took the name meanwhile has the newer
                // file.
                let _ = renameat_with(dir, &*aside, dir, name, RenameFlags::NOREPLACE);
                return Err(no);
            }
        };
        match &taken {
            Taken::File { path, .. } => self.note(origin, path, reason),
            Taken::Link { path, .. } => self.note(origin, path, reason),
            Taken::Nothing => {}
        }
        rustix::fs::unlinkat(dir, &*aside, AtFlags::empty())?;
        Ok(taken)
    }

    /// Keeps that there was a folder. Its going is no loss of content, and so is not held up.
    pub(super) fn note_folder(&self, folder: &OwnedFd, origin: &Path, reason: &str) {
        if let Ok(recovery) = self.recovery() {
            let turn = &self.guard.turn_id;
            let _ = recovery.store_folder(folder.as_fd(), origin, turn, reason);
        }
    }

    /// Gives an entry a private name in its own folder, where nobody looks for it. What comes
    /// along is to be held until that name is gone: after a kill it gives `judged`, if it is what
    /// lies there, its name back.
    pub(super) fn set_aside(
        &self,
        dir: BorrowedFd,
        name: &CStr,
        judged: Id,
    ) -> Result<(CString, Noted), No> {
        let aside = self.private_name()?;
        let noted = self.notes.note(&hands_activity::Aside {
            folder: &path_of(dir)?,
            name: &os(&aside),
            origin: &os(name),
            files: &[judged.as_system_has_it()],
            goes_back: true,
        });
        renameat_with(dir, name, dir, &*aside, RenameFlags::NOREPLACE)?;
        Ok((aside, noted))
    }

    /// A name that nobody else has.
    pub(super) fn private_name(&self) -> Result<CString, Errno> {
        let number = self.aside.fetch_add(1, Ordering::Relaxed);
        let own = format!("{}-{number}", std::process::id());
        let name = [super::policy::ASIDE, own.as_bytes()].concat();
        CString::new(name).map_err(|_| Errno::INVAL)
    }

    fn copy_object(&self, object: &OwnedFd, origin: &Path, reason: &str) -> Result<Copied, No> {
        let recovery = self.recovery()?;
        let seen = stat(object)?;
        let turn = &self.guard.turn_id;
        let mut alone = None;
        let taken = match seen.kind() {
            Kind::File if seen.size > self.guard.file_bytes => {
                return Err(too_large(seen.size, self.guard.file_bytes));
            }
            Kind::File => {
                self.turn.step_aside();
                let file = File::from(reopen(object, OFlags::RDONLY | OFlags::NONBLOCK)?);
                alone = wait_for_lease(file.as_fd());
                let entry = recovery.store_file(&file, origin, turn, reason);
                Taken::File {
                    path: entry.map_err(|e| failed(&e))?.path,
                    permissions: seen.permissions(),
                }
            }
            Kind::Link => {
                let text = rustix::fs::readlinkat(object, c"", Vec::new())?;
                let entry = recovery.store_link(text.as_bytes(), origin, turn, reason);
                Taken::Link {
                    path: entry.map_err(|e| failed(&e))?.path,
                    text,
                }
            }
            Kind::Folder => return Err(Errno::ISDIR.into()),
            // A pipe or a socket holds nothing.
            Kind::Pipe | Kind::Socket | Kind::Other => Taken::Nothing,
        };
        Ok(Copied { taken, seen, alone })
    }

    /// Gives an entry that was taken its name back, if that is free.
    pub(super) fn give_back(&self, taken: &Taken, dir: BorrowedFd, name: &CStr) -> bool {
        match taken {
            Taken::Nothing => false,
            Taken::Link { text, .. } => rustix::fs::symlinkat(&**text, dir, name).is_ok(),
            Taken::File { path, permissions } => {
                let given = self.move_back(path, dir, name);
                given || copy_back(path, *permissions, dir, name).is_ok()
            }
        }
    }

    fn move_back(&self, path: &Path, dir: BorrowedFd, name: &CStr) -> bool {
        let Ok(recovery) = self.recovery() else {
            return false;
        };
        let given = recovery.give_back(path, dir, &os(name)).is_ok();
        if given {
            lock(&self.kept).retain(|kept| kept.path != path);
        }
        given
    }
}

/// What was taken, and how it can be given back.
pub(super) enum Taken {
    File {
        path: PathBuf,
        permissions: u32,
    },
    Link {
        path: PathBuf,
        text: CString,
    },
    /// A pipe or a socket.
    Nothing,
}

/// An old object that is about to lose its name.
pub(super) struct Ready {
    origin: PathBuf,
    reason: &'static str,
    how: How,
}

enum How {
    /// Its record is written; it itself will be moved.
    Move(Announced, u32),
    Copied(Copied),
}

/// An object that was copied.
struct Copied {
    taken: Taken,
    /// As it was before.
    seen: Stat,
    /// Keeps others from writing to it.
    alone: Option<Lease>,
}

impl Copied {
    /// Whether the copy has what the object holds.
    fn is_still(&self, now: &Stat) -> bool {
        let alone = self.alone.is_some() || !now.is(Kind::File);
        alone && now.id == self.seen.id && now.state.has_content_of(self.seen.state)
    }
}

/// For what could not be moved to the recovery folder, and so cannot be moved back; the copy
/// there stays.
fn copy_back(path: &Path, permissions: u32, dir: BorrowedFd, name: &CStr) -> Result<(), No> {
    let io = |e: std::io::Error| Errno::from_io_error(&e).unwrap_or(Errno::IO);
    let mut from = File::open(path).map_err(io)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mode = Mode::from_bits_truncate(permissions);
    let mut to = File::from(rustix::fs::openat(
        dir,
        name,
        flags,
        Mode::RUSR | Mode::WUSR,
    )?);
    std::io::copy(&mut from, &mut to).map_err(io)?;
    to.sync_all().map_err(io)?;
    rustix::fs::fchmod(&to, mode)?;
    Ok(())
}

/// Whether this very content is kept already. A file changed just now may change again within
/// one tick of the clock that stamps it, and is not trusted to be the same.
fn known(ledger: &Ledger, id: super::object::Id, state: State) -> bool {
    ledger.is_made(&id) || (ledger.is_kept(&id, state) && !state.is_young(SystemTime::now()))
}

fn too_large(bytes: u64, most: u64) -> No {
    No {
        errno: Errno::FBIG,
        why: Some(format!(
            "it has {bytes} bytes, and at most {most} are kept of a file before it is changed: \
             raise `limits.recovery_file_bytes`"
        )),
    }
}

fn failed(error: &RecoveryError) -> No {
    let errno = match error {
        RecoveryError::Io { source, .. } => source.raw_os_error().map(Errno::from_raw_os_error),
        RecoveryError::TooLarge { .. } => Some(Errno::FBIG),
        RecoveryError::Full { .. } => Some(Errno::DQUOT),
        _ => None,
    };
    No {
        errno: errno.unwrap_or(Errno::IO),
        why: Some(error.to_string()),
    }
}

/// The same folder as this process reaches it. The kernel moves nothing between two mounts, not
/// even of one file system, and the caller's are not ours.
pub(super) fn own_view(dir: BorrowedFd) -> Option<OwnedFd> {
    let seen = stat(dir).ok()?;
    let theirs = dir.try_clone_to_owned().ok()?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let ours = rustix::fs::open(path_of(&theirs).ok()?, flags, Mode::empty()).ok()?;
    let same = stat(&ours).is_ok_and(|ours| ours.id == seen.id);
    same.then_some(ours)
}

/// A save takes a moment; whoever keeps the file open for longer is not waited for.
fn wait_for_lease(file: BorrowedFd) -> Option<Lease> {
    for _ in 0..limits::LEASE_TRIES {
        match Lease::take(file) {
            Ok(lease) => return Some(lease),
            Err(Errno::AGAIN) => std::thread::sleep(Duration::from_millis(1)),
            Err(_) => return None,
        }
    }
    None
}
