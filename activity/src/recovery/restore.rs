//! Putting an entry back.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps, UTIME_OMIT, Uid,
    fchmod, fchown, fstat, futimens, mkdirat, openat, renameat_with, symlinkat, unlinkat,
};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::asides::{Aside, Noted, identity};
use super::entry::{Entry, Kind, Stamp};
use super::error::{RecoveryError, io_at};
use super::place::{Folder, name_at};
use super::{Recovery, digest, open_kept};
use crate::fsx::{copy_attributes, hex};
use crate::limits::{COPY_BLOCK, RESTORE_TRIES, RecoveryLimits};

/// What a restoration did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restored {
    /// Nothing was there; now it is.
    Created,
    /// Something else was there, and is this entry now.
    Replaced(Box<Entry>),
    /// It was there already, just as it was kept.
    Unchanged,
}

impl Recovery {
    /// Puts an entry back at `to`, an absolute path, at once and whole, with its permissions and
    /// its time. Missing folders are made. What it replaces is kept as an entry of `turn_id`
    /// first, whatever its size. No link is followed, neither on the way nor at the end.
    ///
    /// # Errors
    /// [`RecoveryError::Place`] where a folder, a device or a link on the way is in its place, or
    /// somebody changes what is there meanwhile; [`RecoveryError::Damaged`];
    /// [`RecoveryError::Full`] where what it replaces cannot be kept; [`RecoveryError::Io`].
    /// Nothing was replaced then.
    pub fn restore(
        &self,
        entry: &Entry,
        to: &Path,
        turn_id: &str,
    ) -> Result<Restored, RecoveryError> {
        let folder = Folder::above_or_make(to)?;
        let spot = Spot {
            folder: &folder,
            name: name_at(to)?,
            path: to,
        };
        match entry.kind {
            Kind::Folder => spot.make_folder(entry),
            Kind::Symlink => {
                let mut text = Vec::new();
                let read = self.read(entry)?.read_to_end(&mut text);
                read.map_err(io_at("read", &entry.path))?;
                let target = PathBuf::from(OsStr::from_bytes(&text));
                if spot.look()?.is_some_and(is_link) && spot.link()? == target {
                    return Ok(Restored::Unchanged);
                }
                self.put(&spot, &Draft::link(self, &spot, &target)?, turn_id)
            }
            Kind::File | Kind::Output => {
                if self.is_there(entry, &spot)? {
                    return Ok(Restored::Unchanged);
                }
                let draft = Draft::file(self, &spot, entry)?;
                self.put(&spot, &draft, turn_id)
            }
        }
    }

    /// Whether a file of this content and these permissions is there.
    fn is_there(&self, entry: &Entry, spot: &Spot<'_>) -> Result<bool, RecoveryError> {
        let Some(seen) = spot.look()?.filter(|seen| is_file(*seen)) else {
            return Ok(false);
        };
        let differs = entry.mode.is_some_and(|mode| mode != mode_of(&seen));
        if differs || u64::try_from(seen.st_size) != Ok(entry.bytes) {
            return Ok(false);
        }
        let now = spot.folder.open(spot.name).map_err(spot.io("open"))?;
        let now = digest(now).map_err(io_at("read", spot.path))?;
        let kept = digest(self.read(entry)?).map_err(io_at("read", &entry.path))?;
        Ok(now == kept && entry.sha256.as_ref().is_none_or(|wanted| *wanted == kept.1))
    }

    /// Gives a draft its name, keeping what had it.
    fn put(
        &self,
        spot: &Spot<'_>,
        draft: &Draft<'_>,
        turn_id: &str,
    ) -> Result<Restored, RecoveryError> {
        // A person may keep what they replace, however large it is.
        let keeper = Self {
            limits: RecoveryLimits {
                max_file_bytes: u64::MAX,
                ..self.limits
            },
            ..self.clone()
        };
        for _ in 0..RESTORE_TRIES {
            let Some(seen) = spot.look()? else {
                match draft.rename(spot, RenameFlags::NOREPLACE) {
                    Err(Errno::EXIST) => continue,
                    done => done.map_err(spot.io("write"))?,
                }
                spot.folder.sync();
                return Ok(Restored::Created);
            };
            let kept = keeper.keep(spot, &seen, turn_id)?;
            if draft.replace(spot, &seen)? {
                spot.folder.sync();
                return Ok(Restored::Replaced(Box::new(kept)));
            }
        }
        Err(spot.refused("somebody keeps changing what is there; try again"))
    }

    /// Writes down which files may lie under a name for a moment, for the case of a kill.
    fn note(&self, spot: &Spot<'_>, name: &OsStr, files: &[(u64, u64)]) -> Noted {
        self.notes().note(&Aside {
            folder: spot.path.parent().unwrap_or(Path::new("/")),
            name,
            origin: spot.name,
            files,
            goes_back: false,
        })
    }

    /// Keeps what is at a spot.
    fn keep(&self, spot: &Spot<'_>, seen: &Stat, turn_id: &str) -> Result<Entry, RecoveryError> {
        const REASON: &str = "replaced by a restoration";
        match FileType::from_raw_mode(seen.st_mode) {
            FileType::RegularFile => {
                let file = spot.folder.open(spot.name).map_err(spot.io("open"))?;
                self.store_file(&file, spot.path, turn_id, REASON)
            }
            FileType::Symlink => {
                let target = spot.link()?;
                let target = target.as_os_str().as_bytes();
                self.store_link(target, spot.path, turn_id, REASON)
            }
            FileType::Directory => {
                Err(spot.refused("a folder is there; name another path with --to"))
            }
            _ => {
                Err(spot
                    .refused("a device, a pipe or a socket is there; name another path with --to"))
            }
        }
    }
}

/// A name in a folder that is held by descriptor.
struct Spot<'a> {
    folder: &'a Folder,
    name: &'a OsStr,
    path: &'a Path,
}

impl Spot<'_> {
    fn io(&self, what: &'static str) -> impl Fn(Errno) -> RecoveryError + '_ {
        move |e| io_at(what, self.path)(e.into())
    }

    fn refused(&self, why: &str) -> RecoveryError {
        RecoveryError::Place {
            path: self.path.to_path_buf(),
            why: why.into(),
        }
    }

    fn look(&self) -> Result<Option<Stat>, RecoveryError> {
        self.folder.look(self.name).map_err(self.io("look at"))
    }

    fn link(&self) -> Result<PathBuf, RecoveryError> {
        self.folder.link(self.name).map_err(self.io("look at"))
    }

    fn make_folder(&self, entry: &Entry) -> Result<Restored, RecoveryError> {
        match self.look()? {
            Some(seen) if FileType::from_raw_mode(seen.st_mode) == FileType::Directory => {
                return Ok(Restored::Unchanged);
            }
            Some(_) => {
                return Err(self.refused("something else is there; name another path with --to"));
            }
            None => {}
        }
        let mode = Mode::from_raw_mode(bits(entry.mode.unwrap_or(0o700)));
        mkdirat(self.folder, self.name, mode).map_err(self.io("make the folder"))?;
        let made = self.folder.open_folder(self.name);
        let made = made.map_err(self.io("open"))?;
        fchmod(&made, mode).map_err(self.io("set the permissions of"))?;
        set_modified(&made, entry.modified);
        self.folder.sync();
        Ok(Restored::Created)
    }
}

/// What is to be put at a spot, under a name of its own in the same folder. Dropped, it is gone.
struct Draft<'a> {
    /// Written down for the case of a kill: what lies under the name.
    noted: RefCell<Vec<Noted>>,
    recovery: &'a Recovery,
    folder: &'a Folder,
    name: OsString,
    /// What may be removed under that name: the draft itself, and what it replaced and was kept.
    ours: RefCell<Vec<Stat>>,
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        let lies = self.folder.look(&self.name).ok().flatten();
        let is_ours = |lies: &Stat| self.ours.borrow().iter().any(|ours| is_same(ours, lies));
        if lies.as_ref().is_some_and(is_ours) {
            let _ = unlinkat(self.folder, &*self.name, AtFlags::empty());
        }
    }
}

impl<'a> Draft<'a> {
    fn name() -> OsString {
        format!(".hands-restore-{}", uuid::Uuid::now_v7().simple()).into()
    }

    fn link(recovery: &'a Recovery, spot: &Spot<'a>, target: &Path) -> Result<Self, RecoveryError> {
        let name = Self::name();
        let _planned = recovery.note(spot, &name, &[]);
        symlinkat(target, spot.folder, &*name).map_err(spot.io("write"))?;
        Self::of(recovery, spot, name)
    }

    fn of(recovery: &'a Recovery, spot: &Spot<'a>, name: OsString) -> Result<Self, RecoveryError> {
        let made = spot.folder.look(&name).map_err(spot.io("look at"))?;
        let draft = Self {
            noted: RefCell::default(),
            recovery,
            folder: spot.folder,
            name,
            ours: RefCell::new(made.into_iter().collect()),
        };
        made.iter().for_each(|made| draft.note(spot, made));
        Ok(draft)
    }

    fn note(&self, spot: &Spot<'_>, file: &Stat) {
        let noted = self.recovery.note(spot, &self.name, &[identity(file)]);
        self.noted.borrow_mut().push(noted);
    }

    /// Takes the state that it has now for its own.
    fn is_done(&self, file: &File) -> Result<(), Errno> {
        self.ours.borrow_mut().push(fstat(file)?);
        Ok(())
    }

    fn file(recovery: &'a Recovery, spot: &Spot<'a>, entry: &Entry) -> Result<Self, RecoveryError> {
        let name = Self::name();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR;
        // Until its inode is known and written down.
        let planned = recovery.note(spot, &name, &[]);
        let file = openat(spot.folder, &*name, flags | OFlags::CLOEXEC, mode);
        let file = File::from(file.map_err(spot.io("write"))?);
        let draft = Self::of(recovery, spot, name)?;
        drop(planned);
        let found = copy_all(recovery.read(entry)?, &file);
        draft.is_done(&file).map_err(spot.io("look at"))?;
        let found = found.map_err(io_at("write", spot.path))?;
        if entry.sha256.as_ref().is_some_and(|wanted| *wanted != found) {
            return Err(RecoveryError::Damaged {
                path: entry.path.clone(),
            });
        }
        if let Some(seen) = spot.look()? {
            // What this user may not set stays as it is.
            let (owner, group) = (Uid::from_raw(seen.st_uid), Gid::from_raw(seen.st_gid));
            let _ = fchown(&file, Some(owner), Some(group));
        }
        if let Ok(kept) = open_kept(&entry.path) {
            copy_attributes(&kept, &file);
        }
        let mode = Mode::from_raw_mode(bits(entry.mode.unwrap_or(0o600)));
        fchmod(&file, mode).map_err(spot.io("set the permissions of"))?;
        set_modified(&file, entry.modified);
        draft.is_done(&file).map_err(spot.io("look at"))?;
        file.sync_all().map_err(io_at("write", spot.path))?;
        Ok(draft)
    }

    fn rename(&self, spot: &Spot<'_>, flags: RenameFlags) -> Result<(), Errno> {
        renameat_with(self.folder, &*self.name, spot.folder, spot.name, flags)
    }

    /// Takes the place of what was `seen` and kept; `false` where something else turned out to be
    /// there, which has its place again.
    fn replace(&self, spot: &Spot<'_>, seen: &Stat) -> Result<bool, RecoveryError> {
        let io = spot.io("replace");
        self.note(spot, seen);
        match self.rename(spot, RenameFlags::EXCHANGE) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(false),
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                // A file system that cannot swap: the last look is as late as it can be.
                if !spot.look()?.is_some_and(|now| is_same(&now, seen)) {
                    return Ok(false);
                }
                self.rename(spot, RenameFlags::empty()).map_err(io)?;
                return Ok(true);
            }
            Err(e) => return Err(io(e)),
        }
        let out = self.folder.look(&self.name).map_err(spot.io("look at"))?;
        if out.is_some_and(|out| is_same(&out, seen)) {
            self.ours.borrow_mut().push(*seen);
            return Ok(true);
        }
        // Somebody saved it meanwhile. If they did so again before it is back in its place, what
        // then lies aside is theirs and stays.
        let back = self.rename(spot, RenameFlags::EXCHANGE);
        let lies = self.folder.look(&self.name).map_err(spot.io("look at"))?;
        let is_ours = |lies: &Stat| self.ours.borrow().iter().any(|ours| is_same(ours, lies));
        if back.is_err() || !lies.as_ref().is_some_and(is_ours) {
            let why = format!(
                "somebody changed it meanwhile; what they wrote is now in {}",
                spot.path.with_file_name(&self.name).display()
            );
            return Err(spot.refused(&why));
        }
        Ok(false)
    }
}

/// Copies to the end and answers the SHA-256 of it.
fn copy_all(mut from: impl Read, mut to: &File) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut block = vec![0; COPY_BLOCK];
    loop {
        let count = from.read(&mut block)?;
        if count == 0 {
            return Ok(hex(&hash.finalize()));
        }
        hash.update(&block[..count]);
        to.write_all(&block[..count])?;
    }
}

/// Whether this is the same file in the same state. A rename changes none of it.
fn is_same(one: &Stat, other: &Stat) -> bool {
    let state = |stat: &Stat| {
        (
            (stat.st_dev, stat.st_ino, stat.st_size),
            (stat.st_mtime, stat.st_mtime_nsec),
        )
    };
    state(one) == state(other)
}

fn is_file(stat: Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

fn is_link(stat: Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
}

#[allow(clippy::useless_conversion, reason = "16 bits on macOS, 32 on Linux")]
fn mode_of(stat: &Stat) -> u32 {
    u32::from(stat.st_mode) & 0o7777
}

#[allow(clippy::unnecessary_cast, reason = "16 bits on macOS, 32 on Linux")]
fn bits(mode: u32) -> rustix::fs::RawMode {
    (mode & 0o7777) as rustix::fs::RawMode
}

/// Best effort: a file with another time is still the file.
fn set_modified(file: impl AsFd, modified: Option<Stamp>) {
    let Some(stamp) = modified else { return };
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: stamp.s,
            tv_nsec: stamp.ns.into(),
        },
    };
    let _ = futimens(file, &times);
}
