//! Putting a content in its place, whole or not at all.
//!
//! A new file comes into being with all its content; a replaced one is exchanged, looked at, and
//! put back if somebody saved it in the meantime. Between two steps there is never a moment in
//! which neither the old nor the new content is under the file's name.

use super::existing::{Existing, State};
use crate::outcome::{Code, Outcome, system};
use hands_activity::{Aside, Noted, Notes};
use rustix::fs::{self, AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// A place in a folder that is held by descriptor.
#[derive(Debug)]
pub struct Spot<'a> {
    /// The folder.
    pub folder: &'a OwnedFd,
    /// The file's name in it.
    pub name: &'a OsStr,
    /// How messages name it.
    pub shown: &'a Path,
    /// Where the names that files have for a moment are written down, for the case of a kill.
    pub notes: &'a Notes,
}

impl Spot<'_> {
    fn failed(&self, what: &str) -> impl Fn(Errno) -> Outcome + '_ {
        failed(what, self.shown)
    }

    /// Makes a file that must not be there yet, mode 0666 or 0777 less the umask.
    ///
    /// # Errors
    /// `conflict` when something of that name is there; otherwise the system's refusal. Nothing is
    /// left behind.
    ///
    /// What comes back is the file that was made, whatever its name is now.
    pub fn create(&self, bytes: &[u8], executable: bool) -> Result<File, Outcome> {
        let mode = if executable { 0o777 } else { 0o666 };
        let draft = Draft::make(self, bytes, Mode::from_raw_mode(mode))?;
        draft.sync(self)?;
        draft.link_as(self, self.name).map_err(|e| match e {
            Errno::EXIST => Outcome::fail(
                Code::Conflict,
                format!(
                    "{} was made by somebody else meanwhile",
                    self.shown.display()
                ),
            ),
            e => self.failed("creating")(e),
        })?;
        self.sync_folder();
        Ok(draft.file)
    }

    /// Replaces the content of a file that was read as `old`, see [`Spot::stage`].
    ///
    /// # Errors
    /// As [`Spot::stage`] and [`Staged::commit`].
    pub fn replace(
        &self,
        old: &Existing,
        bytes: &[u8],
        executable: bool,
    ) -> Result<Option<File>, Outcome> {
        Ok(self.stage(old, bytes, executable)?.commit()?.finish())
    }

    /// Makes everything ready to replace the content of a file that was read as `old`, so that the
    /// replacement itself is one step that hardly can fail. Mode, owner and extended attributes
    /// stay; a file with several hard links is written in place, so that they stay one file.
    ///
    /// # Errors
    /// The system's refusal; nothing has changed then.
    pub fn stage<'a>(
        &'a self,
        old: &'a Existing,
        bytes: &'a [u8],
        executable: bool,
    ) -> Result<Staged<'a>, Outcome> {
        check_writable(self.folder, self.name, self.shown, old)?;
        let mut staged = Staged {
            spot: self,
            old,
            bytes,
            draft: None,
            noted: None,
        };
        if old.metadata.nlink() > 1 {
            return Ok(staged);
        }
        let draft = Draft::make(self, bytes, Mode::RUSR | Mode::WUSR)?;
        draft.take_after(old, executable);
        draft.sync(self)?;
        let aside = free_name();
        let files = [draft.id(), Some(old.state.id)];
        let noted = self.note(&aside, &files.into_iter().flatten().collect::<Vec<_>>());
        let linked = draft.link_as(self, &aside);
        linked.map_err(self.failed("writing beside"))?;
        staged.draft = Some((aside, draft));
        staged.noted = Some(noted);
        Ok(staged)
    }

    /// Writes down which files may lie under a name for a moment.
    fn note(&self, name: &OsStr, files: &[(u64, u64)]) -> Noted {
        self.notes.note(&Aside {
            folder: self.shown.parent().unwrap_or(Path::new("/")),
            name,
            origin: self.name,
            files,
            goes_back: false,
        })
    }

    /// Where the file system cannot exchange: look, then rename. The gap between the two is as
    /// small as it can be made.
    fn rename_over(&self, aside: &OsStr, expected: State) -> Result<(), Outcome> {
        if self.state_of(self.name) != Some(expected) {
            return Err(self.changed());
        }
        fs::renameat(self.folder, aside, self.folder, self.name).map_err(self.failed("replacing"))
    }

    fn swap_with(&self, aside: &OsStr) -> Result<(), Errno> {
        fs::renameat_with(
            self.folder,
            aside,
            self.folder,
            self.name,
            RenameFlags::EXCHANGE,
        )
    }

    /// Writes in place. A write that fails half way (a full disk) is taken back: `before` is what
    /// the file held.
    fn overwrite(&self, expected: State, bytes: &[u8], before: &[u8]) -> Result<(), Outcome> {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = fs::openat(self.folder, self.name, flags, Mode::empty())
            .map_err(self.failed("writing"))?;
        let file = File::from(file);
        let failed = |e| system(format!("writing {}", self.shown.display()), &e);
        if State::of(&file.metadata().map_err(failed)?) != expected {
            return Err(self.changed());
        }
        let put = |bytes: &[u8]| {
            file.write_all_at(bytes, 0)?;
            file.set_len(bytes.len() as u64)?;
            file.sync_all()
        };
        put(bytes).map_err(|e| match put(before) {
            Ok(()) => failed(e),
            Err(_) => failed(e).hint(
                "The file may hold parts of both contents now; its recovery file has the old one.",
            ),
        })
    }

    fn changed(&self) -> Outcome {
        Outcome::fail(
            Code::Conflict,
            format!(
                "{} changed while this call was at work",
                self.shown.display()
            ),
        )
        .hint("Nothing was written. Read it again and repeat the call.")
    }

    fn state_of(&self, name: &OsStr) -> Option<State> {
        let stat = fs::statat(self.folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        #[allow(
            clippy::unnecessary_cast,
            clippy::cast_lossless,
            clippy::cast_sign_loss
        )]
        // The fields' types differ between platforms.
        Some(State {
            id: (stat.st_dev as u64, stat.st_ino as u64),
            size: stat.st_size as u64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
        })
    }

    /// Removes a name that this process gave itself.
    fn discard(&self, aside: &OsStr) {
        let _ = fs::unlinkat(self.folder, aside, AtFlags::empty());
    }

    /// Makes the new name durable. The content is already; a failure here loses nothing.
    fn sync_folder(&self) {
        if let Ok(folder) = fs::openat(
            self.folder,
            ".",
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        ) {
            let _ = fs::fsync(folder);
        }
    }
}

fn failed(what: &str, shown: &Path) -> impl Fn(Errno) -> Outcome + use<> {
    let what = format!("{what} {}", shown.display());
    move |e| system(&what, &std::io::Error::from(e))
}

/// Whether this user may replace the file that was read as `old`.
///
/// # Errors
/// The system's refusal.
pub fn check_writable(
    folder: &OwnedFd,
    name: &OsStr,
    shown: &Path,
    old: &Existing,
) -> Result<(), Outcome> {
    // A rename would not ask for this: a file that is read-only is meant to be.
    let may = |name: &OsStr, access| fs::accessat(folder, name, access, AtFlags::EACCESS);
    may(name, fs::Access::WRITE_OK).map_err(failed("writing", shown))?;
    match old.metadata.nlink() {
        // It is written in place.
        2.. => Ok(()),
        _ => may(OsStr::new("."), fs::Access::WRITE_OK | fs::Access::EXEC_OK)
            .map_err(failed("writing in the folder of", shown)),
    }
}

/// A name that nobody else has.
fn free_name() -> OsString {
    format!(".hands-{}", uuid::Uuid::now_v7().simple()).into()
}

/// A replacement that is ready. Dropping it leaves nothing behind.
pub struct Staged<'a> {
    spot: &'a Spot<'a>,
    old: &'a Existing,
    bytes: &'a [u8],
    /// The new content and its name for now; none for a file that is written in place.
    draft: Option<(OsString, Draft)>,
    /// That this name is the draft's, and then perhaps the old file's.
    noted: Option<Noted>,
}

impl<'a> Staged<'a> {
    /// Puts the new content in the file's place.
    ///
    /// # Errors
    /// `conflict` when the file changed since it was read: then the newer content stays. Otherwise
    /// the system's refusal, and the old content stays.
    pub fn commit(mut self) -> Result<Committed<'a>, Outcome> {
        let Some((aside, draft)) = self.draft.take() else {
            self.spot
                .overwrite(self.old.state, self.bytes, &self.old.bytes)?;
            return Ok(Committed {
                spot: self.spot,
                old: self.old,
                aside: None,
                successor: None,
                _noted: None,
            });
        };
        let spot = self.spot;
        let aside = match self.put(&aside, &draft) {
            Ok(displaced) => displaced.then_some(aside),
            Err((outcome, ours)) => {
                if ours {
                    spot.discard(&aside);
                }
                return Err(outcome);
            }
        };
        spot.sync_folder();
        Ok(Committed {
            spot,
            old: self.old,
            aside,
            successor: Some(draft.file),
            _noted: self.noted.take(),
        })
    }

    /// Swaps the draft in, and out again if what it displaced is not what was read. Tells whether
    /// the old content lies aside now; on failure, whether what lies aside is our own draft.
    fn put(&self, aside: &OsStr, draft: &Draft) -> Result<bool, (Outcome, bool)> {
        let spot = self.spot;
        match spot.swap_with(aside) {
            Ok(()) => {}
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                let renamed = spot.rename_over(aside, self.old.state);
                return renamed.map(|()| false).map_err(|outcome| (outcome, true));
            }
            Err(Errno::NOENT) => return Err((spot.changed(), true)),
            Err(e) => return Err((spot.failed("replacing")(e), true)),
        }
        if spot.state_of(aside) == Some(self.old.state) {
            return Ok(true);
        }
        // Somebody saved it meanwhile. If they did so again before it is back in place, what then
        // lies aside is theirs and stays.
        let back = spot.swap_with(aside);
        let ours = spot.state_of(aside).map(|s| s.id) == draft.id();
        match back {
            Ok(()) => Err((spot.changed(), ours)),
            Err(e) => Err((spot.failed("putting back")(e), ours)),
        }
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if let Some((aside, _)) = &self.draft {
            self.spot.discard(aside);
        }
    }
}

/// A replacement that was made and can still be undone.
pub struct Committed<'a> {
    spot: &'a Spot<'a>,
    old: &'a Existing,
    /// Where the old content lies, if it does.
    aside: Option<OsString>,
    /// The file that is in the old one's place; none where the old one itself was written.
    successor: Option<File>,
    _noted: Option<Noted>,
}

impl<'a> Committed<'a> {
    /// Lets go of the old content (its recovery copy stays). Answers the file that is in its place
    /// now, unless the old one itself was written.
    pub fn finish(self) -> Option<File> {
        if let Some(aside) = &self.aside {
            self.spot.discard(aside);
        }
        self.successor
    }

    /// The file that was replaced.
    pub fn old(&self) -> &'a File {
        &self.old.file
    }

    /// Brings the old content back.
    ///
    /// # Errors
    /// The system's refusal; the new content stays then.
    pub fn undo(self) -> Result<(), Outcome> {
        match &self.aside {
            Some(aside) => {
                let back = self.spot.swap_with(aside);
                back.map_err(self.spot.failed("bringing back"))?;
                self.spot.discard(aside);
                Ok(())
            }
            None => {
                let now = self.spot.state_of(self.spot.name);
                let now = now.ok_or_else(|| self.spot.changed())?;
                self.spot.overwrite(now, &self.old.bytes, &self.old.bytes)
            }
        }
    }
}

/// A content on disk that has no name yet, or one of its own.
struct Draft {
    file: File,
    /// The name it has on file systems that cannot hold nameless files.
    named: Option<OsString>,
    _noted: Option<Noted>,
}

impl Draft {
    fn make(spot: &Spot, bytes: &[u8], mode: Mode) -> Result<Self, Outcome> {
        let draft = Self::open(spot, mode)?;
        let written = (&draft.file).write_all(bytes);
        written.map_err(|e| {
            draft.forget(spot);
            system(format!("writing {}", spot.shown.display()), &e)
        })?;
        Ok(draft)
    }

    #[cfg(target_os = "linux")]
    fn open(spot: &Spot, mode: Mode) -> Result<Self, Outcome> {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        match fs::openat(spot.folder, ".", flags, mode) {
            Ok(fd) => Ok(Self {
                file: fd.into(),
                named: None,
                _noted: None,
            }),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {
                Self::open_named(spot, mode)
            }
            Err(e) => Err(spot.failed("writing")(e)),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn open(spot: &Spot, mode: Mode) -> Result<Self, Outcome> {
        Self::open_named(spot, mode)
    }

    fn open_named(spot: &Spot, mode: Mode) -> Result<Self, Outcome> {
        let name = free_name();
        // Until its inode is known and written down.
        let _planned = spot.note(&name, &[]);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let fd = fs::openat(spot.folder, &name, flags, mode).map_err(spot.failed("writing"))?;
        let mut draft = Self {
            file: fd.into(),
            named: Some(name.clone()),
            _noted: None,
        };
        let files: Vec<_> = draft.id().into_iter().collect();
        draft._noted = Some(spot.note(&name, &files));
        Ok(draft)
    }

    /// Mode, owner and extended attributes of the file it is to replace. What this user may not
    /// set stays as it is.
    fn take_after(&self, old: &Existing, executable: bool) {
        let (uid, gid) = (old.metadata.uid(), old.metadata.gid());
        let own = self.file.metadata().map(|m| (m.uid(), m.gid())).ok();
        if own != Some((uid, gid)) {
            let owner = Some(fs::Uid::from_raw(uid));
            let group = Some(fs::Gid::from_raw(gid));
            if fs::fchown(&self.file, owner, group).is_err() {
                let _ = fs::fchown(&self.file, None, group);
            }
        }
        copy_attributes(&old.file, &self.file);
        let mut mode = old.metadata.mode() & 0o7777;
        if executable {
            mode |= (mode & 0o444) >> 2;
        }
        #[allow(clippy::unnecessary_cast, reason = "16 bits on macOS, 32 on Linux")]
        let _ = fs::fchmod(&self.file, Mode::from_raw_mode(mode as fs::RawMode));
    }

    fn sync(&self, spot: &Spot) -> Result<(), Outcome> {
        self.file.sync_all().map_err(|e| {
            self.forget(spot);
            system(format!("writing {}", spot.shown.display()), &e)
        })
    }

    fn id(&self) -> Option<(u64, u64)> {
        self.file.metadata().ok().map(|m| (m.dev(), m.ino()))
    }

    /// Gives the content this name, which must be free.
    fn link_as(&self, spot: &Spot, name: &OsStr) -> Result<(), Errno> {
        let linked = match &self.named {
            None => fs::linkat(
                fs::CWD,
                format!("/proc/self/fd/{}", self.file.as_raw_fd()),
                spot.folder,
                name,
                AtFlags::SYMLINK_FOLLOW,
            ),
            Some(own) => {
                fs::renameat_with(spot.folder, own, spot.folder, name, RenameFlags::NOREPLACE)
                    .or_else(|e| match e {
                        Errno::INVAL | Errno::NOSYS | Errno::NOTSUP => {
                            fs::linkat(spot.folder, own, spot.folder, name, AtFlags::empty())
                                .map(|()| spot.discard(own))
                        }
                        e => Err(e),
                    })
            }
        };
        linked.inspect_err(|_| self.forget(spot))
    }

    /// Leaves nothing behind.
    fn forget(&self, spot: &Spot) {
        if let Some(name) = &self.named {
            spot.discard(name);
        }
    }
}

/// Copies extended attributes, ACLs among them, as far as this user may.
fn copy_attributes(from: &File, to: &File) {
    let mut names = vec![0u8; 64 * 1024];
    let Ok(length) = fs::flistxattr(from, &mut names[..]) else {
        return;
    };
    let mut value = vec![0u8; 64 * 1024];
    for name in names[..length].split(|b| *b == 0).filter(|n| !n.is_empty()) {
        let name = OsStr::from_bytes(name);
        if let Ok(length) = fs::fgetxattr(from, name, &mut value[..]) {
            let _ = fs::fsetxattr(to, name, &value[..length], fs::XattrFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests;
