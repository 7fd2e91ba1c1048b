//! Keeping: copies, moves and reservations.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use rustix::fs::{AtFlags, CWD, RenameFlags, fstat, renameat_with, statat};
use sha2::{Digest, Sha256};

use super::entry::{Entry, Kind};
use super::error::{RecoveryError, io_at};
use super::meta::{Facts, Meta, Pending, Purpose};
use super::{Recovery, name_of, names, reflink};
use crate::fsx::{self, Identity, Temp, copy_attributes, hex};
use crate::limits::{COPY_BLOCK, MAX_PER_TURN};
use crate::lines::read_at;

/// A record that waits for the file it tells of. Dropped, it is gone again.
#[derive(Debug)]
pub struct Announced {
    path: PathBuf,
    meta: Option<Meta>,
}

impl Drop for Announced {
    fn drop(&mut self) {
        if self.meta.is_some() {
            // A record without content says nothing; if it cannot be removed it is not listed.
            let _ = fs::remove_file(names::meta_path(&self.path));
        }
    }
}

impl Recovery {
    /// Moves the regular file at `name` in `dir` here, whoever may have it open. Its record names
    /// `origin`. Nothing is written out: the file itself stays as durable as it was.
    ///
    /// # Errors
    /// [`RecoveryError::Io`], with `EXDEV` where the file lies on another file system;
    /// [`RecoveryError::Full`], [`RecoveryError::Exhausted`]. The file is where it was then.
    pub fn adopt(
        &self,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        origin: &Path,
        turn_id: &str,
        reason: &str,
    ) -> Result<Entry, RecoveryError> {
        let announced = self.announce((dir, name), origin, None, turn_id, reason)?;
        self.complete(announced, dir, name)
    }

    /// Writes the record of a file, at `name` in `dir`, that [`Recovery::complete`] is about to
    /// move here. `between` is the path under which it lies just before, if that is another one: a
    /// file that a kill leaves there is found by its record ([`Recovery::settle`]).
    ///
    /// # Errors
    /// [`RecoveryError::Io`], [`RecoveryError::Full`], [`RecoveryError::Exhausted`].
    pub fn announce(
        &self,
        (dir, name): (BorrowedFd<'_>, &OsStr),
        origin: &Path,
        between: Option<&Path>,
        turn_id: &str,
        reason: &str,
    ) -> Result<Announced, RecoveryError> {
        let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|e| io_at("look at", origin)(e.into()))?;
        self.make_room(u64::try_from(stat.st_size).unwrap_or(0))?;
        let purpose = Purpose {
            kind: Kind::File,
            origin: Some(origin),
            turn_id,
            name: &name_of(origin),
            reason,
            facts: Some(Facts::of(&stat)),
            pending: between.map(|at| Pending::new(at, &stat)),
            durable: false,
        };
        let day = self.day()?;
        let (path, meta) = self.claim(&day, &purpose, None)?;
        Ok(Announced {
            path,
            meta: Some(meta),
        })
    }

    /// Moves an announced file here from `name` in `dir`.
    ///
    /// # Errors
    /// [`RecoveryError::Io`], with `EXDEV` where the file lies on another file system. The file is
    /// where it was then.
    pub fn complete(
        &self,
        mut announced: Announced,
        dir: BorrowedFd<'_>,
        name: &OsStr,
    ) -> Result<Entry, RecoveryError> {
        let path = announced.path.clone();
        renameat_with(dir, name, CWD, &path, RenameFlags::NOREPLACE)
            .map_err(|e| io_at("move to the recovery folder", Path::new(name))(e.into()))?;
        let info = fs::symlink_metadata(&path).map_err(io_at("look at", &path))?;
        if !info.is_file() {
            // Somebody put something else there. It has its name back, or stays here.
            let _ = renameat_with(CWD, &path, dir, name, RenameFlags::NOREPLACE);
            return Err(RecoveryError::NotAFile {
                path: PathBuf::from(name),
            });
        }
        let bytes = info.len();
        let meta = announced.meta.take();
        let meta = meta.ok_or_else(|| io_at("name", &path)(io::ErrorKind::Other.into()))?;
        Ok(meta.into_entry(path, bytes))
    }

    /// Moves a file that was adopted to `name` in `dir`, which must be free, and drops its record.
    ///
    /// # Errors
    /// [`RecoveryError::Io`]; the file stays here then.
    pub fn give_back(
        &self,
        path: &Path,
        dir: BorrowedFd<'_>,
        name: &OsStr,
    ) -> Result<(), RecoveryError> {
        renameat_with(CWD, path, dir, name, RenameFlags::NOREPLACE)
            .map_err(|e| io_at("give back", path)(e.into()))?;
        // A record without content says nothing.
        let _ = fs::remove_file(names::meta_path(path));
        Ok(())
    }

    /// Keeps the present content of `src` byte for byte, from its first byte on and without moving
    /// its offset: as a clone where the file system can, else as a copy. Content, record and names
    /// are durable when this returns.
    ///
    /// # Errors
    /// [`RecoveryError::TooLarge`], [`RecoveryError::Full`], [`RecoveryError::NotAFile`],
    /// [`RecoveryError::Io`]; nothing is kept then.
    pub fn store_file(
        &self,
        src: &File,
        origin: &Path,
        turn_id: &str,
        reason: &str,
    ) -> Result<Entry, RecoveryError> {
        let info = src.metadata().map_err(io_at("look at", origin))?;
        if !info.is_file() {
            return Err(RecoveryError::NotAFile {
                path: origin.to_path_buf(),
            });
        }
        let stat = fstat(src).map_err(|e| io_at("look at", origin)(e.into()))?;
        let what = || origin.display().to_string();
        self.check_size(what, info.len())?;
        self.make_room(info.len())?;
        let purpose = Purpose {
            kind: Kind::File,
            origin: Some(origin),
            turn_id,
            name: &name_of(origin),
            reason,
            facts: Some(Facts::of(&stat)),
            pending: None,
            durable: self.durable,
        };
        self.store(&purpose, |temp| {
            let cloned = reflink::clone_file(src, temp).is_ok();
            let source = if cloned { temp } else { src };
            let target = (!cloned).then_some(temp);
            let (bytes, sha256) =
                copy(source, target, self.limits.max_file_bytes).map_err(io_at("copy", origin))?;
            self.check_size(what, bytes)?;
            copy_attributes(src, temp);
            Ok((bytes, sha256))
        })
    }

    /// Keeps `bytes`: the whole of a result that was cut (`origin` is `None`; not made durable),
    /// or a file's previous content that is in memory already. `suffix` ends the file's name, e.g.
    /// `stdout.txt`.
    ///
    /// # Errors
    /// [`RecoveryError::TooLarge`], [`RecoveryError::Full`], [`RecoveryError::Io`]; nothing is kept
    /// then.
    pub fn store_bytes(
        &self,
        bytes: &[u8],
        origin: Option<&Path>,
        turn_id: &str,
        suffix: &str,
        reason: &str,
    ) -> Result<Entry, RecoveryError> {
        let purpose = Purpose {
            kind: match origin {
                Some(_) => Kind::File,
                None => Kind::Output,
            },
            origin,
            turn_id,
            name: suffix,
            reason,
            facts: None,
            pending: None,
            durable: origin.is_some(),
        };
        self.store_small(bytes, &purpose)
    }

    /// Keeps where the symbolic link at `origin` leads.
    ///
    /// # Errors
    /// As for [`Recovery::store_bytes`].
    pub fn store_link(
        &self,
        target: &[u8],
        origin: &Path,
        turn_id: &str,
        reason: &str,
    ) -> Result<Entry, RecoveryError> {
        let purpose = Purpose {
            kind: Kind::Symlink,
            origin: Some(origin),
            turn_id,
            name: &name_of(origin),
            reason,
            facts: None,
            pending: None,
            durable: true,
        };
        self.store_small(target, &purpose)
    }

    /// Keeps that there was a folder `dir` at `origin`, and its permissions. What was in it is
    /// kept by itself.
    ///
    /// # Errors
    /// As for [`Recovery::store_bytes`].
    pub fn store_folder(
        &self,
        dir: BorrowedFd<'_>,
        origin: &Path,
        turn_id: &str,
        reason: &str,
    ) -> Result<Entry, RecoveryError> {
        let stat = fstat(dir).map_err(|e| io_at("look at", origin)(e.into()))?;
        let purpose = Purpose {
            kind: Kind::Folder,
            origin: Some(origin),
            turn_id,
            name: &name_of(origin),
            reason,
            facts: Some(Facts::of(&stat)),
            pending: None,
            durable: false,
        };
        self.store_small(b"", &purpose)
    }

    fn store_small(&self, bytes: &[u8], purpose: &Purpose<'_>) -> Result<Entry, RecoveryError> {
        let what = || match purpose.origin {
            Some(origin) => origin.display().to_string(),
            None => purpose.name.to_owned(),
        };
        self.check_size(what, bytes.len() as u64)?;
        self.make_room(bytes.len() as u64)?;
        self.store(purpose, |mut temp| {
            temp.write_all(bytes)
                .map_err(io_at("write", &self.folder))?;
            Ok((bytes.len() as u64, hex(&Sha256::digest(bytes))))
        })
    }

    /// Reserves a path for `bytes` that another process wrote, which brings the file there. Nobody
    /// else is given the path, and [`Recovery::origin_of`] knows it from now on.
    ///
    /// # Errors
    /// [`RecoveryError::Io`], [`RecoveryError::Full`], [`RecoveryError::Exhausted`].
    pub fn reserve(
        &self,
        bytes: u64,
        turn_id: &str,
        suffix: &str,
        reason: &str,
    ) -> Result<PathBuf, RecoveryError> {
        self.make_room(bytes)?;
        let purpose = Purpose {
            kind: Kind::Output,
            origin: None,
            turn_id,
            name: suffix,
            reason,
            facts: None,
            pending: None,
            durable: false,
        };
        let day = self.day()?;
        let (path, _) = self.claim(&day, &purpose, None)?;
        Ok(path)
    }

    fn check_size(&self, what: impl FnOnce() -> String, bytes: u64) -> Result<(), RecoveryError> {
        if bytes <= self.limits.max_file_bytes {
            return Ok(());
        }
        Err(RecoveryError::TooLarge {
            what: what(),
            bytes,
            limit: self.limits.max_file_bytes,
            setting: self.limits.setting,
        })
    }

    /// Content first, under a temporary name; then its record, which takes the name; then the
    /// content gets it. Killed at any point, no content is visible without its record.
    fn store(
        &self,
        purpose: &Purpose<'_>,
        fill: impl FnOnce(&File) -> Result<(u64, String), RecoveryError>,
    ) -> Result<Entry, RecoveryError> {
        let day = self.day()?;
        let temp = Temp::in_dir(&day).map_err(io_at("create a file in", &day))?;
        let (bytes, sha256) = fill(&temp.file)?;
        if purpose.durable {
            temp.file.sync_all().map_err(io_at("write", &day))?;
        }
        let (path, meta) = self.claim(&day, purpose, Some((bytes, sha256)))?;
        if let Err(e) = name_content(&temp, &path) {
            // A record without content says nothing; if it cannot be removed it is not listed.
            let _ = fs::remove_file(names::meta_path(&path));
            return Err(io_at("name the recovery file", &path)(e));
        }
        if purpose.durable {
            for dir in [&day, &self.folder] {
                fsx::sync_dir(dir).map_err(io_at("write", dir))?;
            }
        }
        Ok(meta.into_entry(path, bytes))
    }

    /// Takes a free name by creating its record, which exists once or not at all.
    fn claim(
        &self,
        day: &Path,
        purpose: &Purpose<'_>,
        content: Option<(u64, String)>,
    ) -> Result<(PathBuf, Meta), RecoveryError> {
        let meta = Meta::new(purpose, self.session_id.as_deref(), content);
        let mut temp = Temp::in_dir(day).map_err(io_at("create a file in", day))?;
        let io = || io_at("write the record of a recovery file in", day);
        temp.file.write_all(&meta.to_bytes()).map_err(io())?;
        if purpose.durable {
            temp.file.sync_all().map_err(io())?;
        }
        for number in self.last_number(purpose.turn_id)..=MAX_PER_TURN {
            let path = day.join(names::content_name(purpose.turn_id, number, purpose.name));
            // Content without a record: left by hand, not ours to take.
            if Identity::at(&path).map_err(io())?.is_some() {
                continue;
            }
            if temp.publish_new(&names::meta_path(&path)).map_err(io())? {
                let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
                *last = (purpose.turn_id.to_owned(), number);
                return Ok((path, meta));
            }
        }
        Err(RecoveryError::Exhausted {
            turn_id: purpose.turn_id.to_owned(),
        })
    }

    /// From where a free number is looked for. Names differ, so a number may serve again.
    fn last_number(&self, turn_id: &str) -> u32 {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.0 == turn_id { last.1 } else { 1 }
    }
}

fn name_content(temp: &Temp, path: &Path) -> io::Result<()> {
    if temp.publish_new(path)? {
        Ok(())
    } else {
        Err(io::Error::from(io::ErrorKind::AlreadyExists))
    }
}

/// Hashes `source` from its first byte and writes it to `target` if there is one. Stops soon after
/// `limit`, so that a file that grows meanwhile ends too.
fn copy(source: &File, target: Option<&File>, limit: u64) -> io::Result<(u64, String)> {
    let mut hash = Sha256::new();
    let mut block = vec![0; COPY_BLOCK];
    let mut at = 0;
    while at <= limit {
        let count = read_at(source, &mut block, at)?;
        if count == 0 {
            break;
        }
        hash.update(&block[..count]);
        if let Some(mut target) = target {
            target.write_all(&block[..count])?;
        }
        at += count as u64;
    }
    Ok((at, hex(&hash.finalize())))
}
