//! What is kept of the person's files before a command changes or replaces them.

use super::No;
use super::ledger::{Ledger, os};
use super::object::{Kind, State, handle, path_of, reopen, stat, stat_at};
use super::sys::Lease;
use crate::limits;
use crate::plan::Guard;
use crate::report::Kept;
use hands_activity::{Recovery, RecoveryError, RecoveryLimits};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

/// Locks, whatever a panic elsewhere has done: the data is whole after each statement.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The recovery folder as the broker uses it.
pub(super) struct Keeper {
    guard: Guard,
    recovery: OnceLock<Option<Recovery>>,
    /// Bytes in the folder, once counted.
    used: Mutex<Option<u64>>,
    kept: Mutex<Vec<Kept>>,
    aside: AtomicU64,
}

impl Keeper {
    pub(super) fn new(guard: &Guard) -> Self {
        Self {
            guard: guard.clone(),
            recovery: OnceLock::new(),
            used: Mutex::default(),
            kept: Mutex::default(),
            aside: AtomicU64::new(0),
        }
    }

    /// The folder itself: also where short-lived files of the broker's own may lie.
    pub(super) fn folder(&self) -> &Path {
        &self.guard.recovery
    }

    /// All that was kept in this call.
    pub(super) fn kept(&self) -> Vec<Kept> {
        lock(&self.kept).clone()
    }

    fn recovery(&self) -> Result<&Recovery, No> {
        let limits = RecoveryLimits {
            max_file_bytes: self.guard.file_bytes,
            ..RecoveryLimits::default()
        };
        let open = || Recovery::open(&self.guard.recovery, limits).ok();
        let opened = self.recovery.get_or_init(open).as_ref();
        opened.ok_or_else(|| No {
            errno: Errno::ACCESS,
            why: Some(format!(
                "the recovery folder {} cannot be used",
                self.guard.recovery.display()
            )),
        })
    }

    /// Counts `bytes` towards what the folder may hold.
    fn reserve(&self, recovery: &Recovery, bytes: u64) -> Result<(), No> {
        let mut used = lock(&self.used);
        let before = used.unwrap_or_else(|| recovery.total_bytes());
        let after = before.saturating_add(bytes);
        *used = Some(before);
        if after > self.guard.quota_bytes {
            return Err(No {
                errno: Errno::DQUOT,
                why: Some(format!(
                    "the recovery folder would hold {after} bytes and may hold {}: remove old days \
                     from {} or raise `limits.recovery_bytes`",
                    self.guard.quota_bytes,
                    self.guard.recovery.display()
                )),
            });
        }
        *used = Some(after);
        Ok(())
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
        self.copy(ledger, &file, &path_of(object), reason)
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
        self.reserve(recovery, before.size)?;
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
        let origin = path_of(object);
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
    /// it is set aside, copied, and let go of.
    pub(super) fn take(
        &self,
        dir: BorrowedFd,
        name: &CStr,
        origin: &Path,
        reason: &str,
    ) -> Result<Taken, No> {
        let recovery = self.recovery()?;
        let seen = stat_at(dir, name)?;
        if seen.is(Kind::File) && seen.links <= 1 {
            self.reserve(recovery, seen.size)?;
            let twin = own_view(dir);
            let from = twin.as_ref().map_or(dir, AsFd::as_fd);
            match recovery.adopt(from, &os(name), origin, &self.guard.turn_id, reason) {
                Ok(entry) => {
                    self.note(origin, &entry.path, reason);
                    return Ok(Taken::File {
                        path: entry.path,
                        permissions: seen.permissions(),
                    });
                }
                Err(RecoveryError::Io { source, .. })
                    if source.raw_os_error() == Some(libc::EXDEV) => {}
                Err(e) => return Err(failed(&e)),
            }
        }
        let aside = self.set_aside(dir, name)?;
        let stored = self.store_entry(recovery, dir, &aside, origin, reason);
        if stored.is_err() {
            // What cannot be kept stays; somebody who took the name meanwhile has the newer file.
            let _ = renameat_with(dir, &*aside, dir, name, RenameFlags::NOREPLACE);
            return stored;
        }
        rustix::fs::unlinkat(dir, &*aside, AtFlags::empty())?;
        stored
    }

    /// Gives an entry a private name in its own folder, where nobody looks for it.
    pub(super) fn set_aside(&self, dir: BorrowedFd, name: &CStr) -> Result<CString, No> {
        let number = self.aside.fetch_add(1, Ordering::Relaxed);
        let aside = format!(".hands-aside-{}-{number}", std::process::id());
        let aside = CString::new(aside).map_err(|_| Errno::INVAL)?;
        renameat_with(dir, name, dir, &*aside, RenameFlags::NOREPLACE)?;
        Ok(aside)
    }

    fn store_entry(
        &self,
        recovery: &Recovery,
        dir: BorrowedFd,
        name: &CStr,
        origin: &Path,
        reason: &str,
    ) -> Result<Taken, No> {
        let object = handle(dir, name)?;
        let seen = stat(&object)?;
        let turn = &self.guard.turn_id;
        let entry = match seen.kind() {
            Kind::File if seen.size > self.guard.file_bytes => {
                return Err(too_large(seen.size, self.guard.file_bytes));
            }
            Kind::File => {
                self.reserve(recovery, seen.size)?;
                let file = File::from(reopen(&object, OFlags::RDONLY | OFlags::NONBLOCK)?);
                let _lease = wait_for_lease(file.as_fd());
                recovery.store_file(&file, origin, turn, reason)
            }
            Kind::Link => {
                let text = rustix::fs::readlinkat(&object, c"", Vec::new())?;
                let bytes = text.as_bytes();
                let stored = recovery.store_bytes(bytes, Some(origin), turn, "link.txt", reason);
                let path = stored.map_err(|e| failed(&e))?.path;
                self.note(origin, &path, reason);
                return Ok(Taken::Link(text));
            }
            Kind::Folder => return Err(Errno::ISDIR.into()),
            // A pipe or a socket holds nothing.
            Kind::Pipe | Kind::Socket | Kind::Other => return Ok(Taken::Nothing),
        };
        let entry = entry.map_err(|e| failed(&e))?;
        self.note(origin, &entry.path, reason);
        Ok(Taken::File {
            path: entry.path,
            permissions: seen.permissions(),
        })
    }

    /// Gives an entry that was taken its name back, if that is free.
    pub(super) fn give_back(&self, taken: &Taken, dir: BorrowedFd, name: &CStr) -> bool {
        match taken {
            Taken::Nothing => false,
            Taken::Link(text) => rustix::fs::symlinkat(&**text, dir, name).is_ok(),
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
    Link(CString),
    /// A pipe or a socket.
    Nothing,
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
    let ours = rustix::fs::open(path_of(&theirs), flags, Mode::empty()).ok()?;
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
