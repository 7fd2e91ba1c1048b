//! Recovery files: what a file held before it was changed, and the whole of a result that was cut.

mod meta;
mod names;
#[cfg_attr(
    any(target_os = "linux", target_os = "android"),
    path = "recovery/linux.rs"
)]
#[cfg_attr(
    not(any(target_os = "linux", target_os = "android")),
    path = "recovery/macos.rs"
)]
mod reflink;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use crate::clock;
use crate::error::hint_for;
use crate::fsx::{self, Identity, Temp, hex};
use crate::limits::{COPY_BLOCK, MAX_PER_TURN, RecoveryLimits};
use crate::lines::read_at;
use meta::Meta;

/// A failure to keep or find a recovery file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoveryError {
    /// The file system refused.
    #[error("could not {what} {}: {source}; {hint}", path.display())]
    Io {
        /// What was attempted.
        what: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
        /// What to do about it.
        hint: &'static str,
    },
    /// The content is larger than a recovery file may be.
    #[error(
        "could not keep a recovery copy of {what}: it has {bytes} bytes and the limit is {limit}; \
         raise `{setting}` in config.toml"
    )]
    TooLarge {
        /// What should have been kept.
        what: String,
        /// Its size in bytes.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
        /// The setting that raises it.
        setting: &'static str,
    },
    /// What should be kept is a folder, device, pipe or socket.
    #[error("could not keep a recovery copy of {}: it is not a regular file", path.display())]
    NotAFile {
        /// What should have been kept.
        path: PathBuf,
    },
    /// One turn has too many recovery files.
    #[error(
        "could not name a recovery file for turn {turn_id}: the turn has {MAX_PER_TURN} already"
    )]
    Exhausted {
        /// The turn.
        turn_id: String,
    },
}

fn io_at(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RecoveryError {
    let path = path.to_path_buf();
    move |source| RecoveryError::Io {
        what,
        hint: hint_for(&source),
        path,
        source,
    }
}

/// One recovery file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where the content is.
    pub path: PathBuf,
    /// The file the content came from; `None` if it is a tool's output.
    pub origin: Option<PathBuf>,
    /// The turn that made it.
    pub turn_id: String,
    /// When, RFC 3339 in UTC.
    pub ts: String,
    /// Why, in a few words.
    pub reason: String,
    /// Size of the content in bytes.
    pub bytes: u64,
    /// SHA-256 of the content in hexadecimal; `None` for one that another process wrote.
    pub sha256: Option<String>,
}

/// The recovery folder: `<day>/<turn>-<n>-<name>`, each with a `.meta.json` beside it.
#[derive(Debug, Clone)]
pub struct Recovery {
    /// The folder as it was given.
    given: PathBuf,
    /// The folder without links on the way, since callers ask with resolved paths.
    folder: PathBuf,
    limits: RecoveryLimits,
    durable: bool,
    /// The number last taken for a turn, so that the next one is found at once.
    last: Arc<Mutex<(String, u32)>>,
}

/// What is to be kept, but for the content.
struct Purpose<'a> {
    origin: Option<&'a Path>,
    turn_id: &'a str,
    name: &'a str,
    reason: &'a str,
    durable: bool,
}

impl Recovery {
    /// The folder, without links on the way.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Opens the folder, making it (mode 0700) if it is missing, and clears what processes that
    /// died a day ago or longer left half-written.
    ///
    /// # Errors
    /// [`RecoveryError::Io`] if the folder cannot be made or resolved.
    pub fn open(folder: &Path, limits: RecoveryLimits) -> Result<Self, RecoveryError> {
        fsx::private_dir(folder).map_err(io_at("make the folder", folder))?;
        let resolved = fs::canonicalize(folder).map_err(io_at("resolve the folder", folder))?;
        let recovery = Self {
            given: folder.to_path_buf(),
            folder: resolved,
            limits,
            durable: true,
            last: Arc::default(),
        };
        for day in recovery.days()? {
            fsx::clear_stale(&day);
        }
        Ok(recovery)
    }

    /// The same folder, for contents whose earlier state is kept durably already: writing these
    /// out is left to the system.
    #[must_use]
    pub fn without_sync(&self) -> Self {
        Self {
            durable: false,
            ..self.clone()
        }
    }

    /// Bytes of all contents.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        let days = self.days().unwrap_or_default();
        let items = days
            .iter()
            .flat_map(|day| fs::read_dir(day).into_iter().flatten().flatten());
        let contents = items.filter(|item| names::is_content(&item.file_name()));
        contents
            .filter_map(|item| item.metadata().ok())
            .map(|info| info.len())
            .sum()
    }

    /// Moves the regular file at `name` in `dir` here, whoever may have it open. Its record names
    /// `origin`. Nothing is written out: the file itself stays as durable as it was.
    ///
    /// # Errors
    /// [`RecoveryError::Io`], with `EXDEV` where the file lies on another file system;
    /// [`RecoveryError::Exhausted`]. The file is where it was then.
    pub fn adopt(
        &self,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        origin: &Path,
        turn_id: &str,
        reason: &str,
    ) -> Result<Entry, RecoveryError> {
        let shown = origin.file_name().unwrap_or(OsStr::new("file"));
        let purpose = Purpose {
            origin: Some(origin),
            turn_id,
            name: &shown.to_string_lossy(),
            reason,
            durable: false,
        };
        let day = self.day()?;
        let (path, meta) = self.claim(&day, &purpose, None)?;
        let moved = renameat_with(dir, name, CWD, &path, RenameFlags::NOREPLACE);
        if let Err(e) = moved {
            // A record without content says nothing; if it cannot be removed it is not listed.
            let _ = fs::remove_file(names::meta_path(&path));
            return Err(io_at("move to the recovery folder", origin)(e.into()));
        }
        let bytes = fs::symlink_metadata(&path).map_or(0, |info| info.len());
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
    /// [`RecoveryError::TooLarge`], [`RecoveryError::NotAFile`], [`RecoveryError::Io`]; nothing is
    /// kept then.
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
        let what = || origin.display().to_string();
        self.check_size(what, info.len())?;
        let name = origin.file_name().unwrap_or(OsStr::new("file"));
        let purpose = Purpose {
            origin: Some(origin),
            turn_id,
            name: &name.to_string_lossy(),
            reason,
            durable: self.durable,
        };
        self.store(&purpose, |temp| {
            let cloned = reflink::clone_file(src, temp).is_ok();
            let source = if cloned { temp } else { src };
            let target = (!cloned).then_some(temp);
            let (bytes, sha256) =
                copy(source, target, self.limits.max_file_bytes).map_err(io_at("copy", origin))?;
            self.check_size(what, bytes)?;
            Ok((bytes, sha256))
        })
    }

    /// Keeps `bytes`: the whole of a result that was cut (`origin` is `None`; not made durable),
    /// or a file's previous content that is in memory already. `suffix` ends the file's name, e.g.
    /// `stdout.txt`.
    ///
    /// # Errors
    /// [`RecoveryError::TooLarge`], [`RecoveryError::Io`]; nothing is kept then.
    pub fn store_bytes(
        &self,
        bytes: &[u8],
        origin: Option<&Path>,
        turn_id: &str,
        suffix: &str,
        reason: &str,
    ) -> Result<Entry, RecoveryError> {
        let what = || origin.map_or_else(|| suffix.to_owned(), |p| p.display().to_string());
        self.check_size(what, bytes.len() as u64)?;
        let purpose = Purpose {
            origin,
            turn_id,
            name: suffix,
            reason,
            durable: origin.is_some(),
        };
        self.store(&purpose, |mut temp| {
            temp.write_all(bytes)
                .map_err(io_at("write", &self.folder))?;
            Ok((bytes.len() as u64, hex(&Sha256::digest(bytes))))
        })
    }

    /// Reserves a path for another process, which creates the file with `O_EXCL`. Nobody else is
    /// given the path, and [`Recovery::origin_of`] knows it from now on.
    ///
    /// # Errors
    /// [`RecoveryError::Io`], [`RecoveryError::Exhausted`].
    pub fn reserve(
        &self,
        turn_id: &str,
        suffix: &str,
        reason: &str,
    ) -> Result<PathBuf, RecoveryError> {
        let purpose = Purpose {
            origin: None,
            turn_id,
            name: suffix,
            reason,
            durable: false,
        };
        let day = self.day()?;
        let (path, _) = self.claim(&day, &purpose, None)?;
        Ok(path)
    }

    /// Whether `path` (absolute, resolved) is a recovery file, and which file it came from:
    /// `None` if it is no recovery file or its record cannot be read, `Some(None)` for a tool's
    /// output.
    #[must_use]
    pub fn origin_of(&self, path: &Path) -> Option<Option<PathBuf>> {
        let inside = path
            .strip_prefix(&self.folder)
            .or_else(|_| path.strip_prefix(&self.given))
            .ok()?;
        let mut parts = inside.components();
        let (Some(Component::Normal(day)), Some(Component::Normal(name)), None) =
            (parts.next(), parts.next(), parts.next())
        else {
            return None;
        };
        if !names::is_day(day) || !names::is_content(name) {
            return None;
        }
        Some(Meta::load(&names::meta_path(path))?.origin())
    }

    /// All recovery files, oldest day first. One that was reserved and never written, or whose
    /// record cannot be read, is left out.
    ///
    /// # Errors
    /// [`RecoveryError::Io`] if a folder cannot be read.
    pub fn list(&self) -> Result<Vec<Entry>, RecoveryError> {
        let mut entries = Vec::new();
        for day in self.days()? {
            let io = || io_at("list the folder", &day);
            for item in fs::read_dir(&day).map_err(io())? {
                let item = item.map_err(io())?;
                if names::is_content(&item.file_name()) {
                    entries.extend(Self::entry(&item.path()));
                }
            }
        }
        entries.sort_by(|a, b| (&a.ts, &a.path).cmp(&(&b.ts, &b.path)));
        Ok(entries)
    }

    fn entry(path: &Path) -> Option<Entry> {
        let info = fs::symlink_metadata(path)
            .ok()
            .filter(fs::Metadata::is_file)?;
        let meta = Meta::load(&names::meta_path(path))?;
        Some(meta.into_entry(path.to_path_buf(), info.len()))
    }

    fn days(&self) -> Result<Vec<PathBuf>, RecoveryError> {
        let io = || io_at("list the folder", &self.folder);
        let mut days = Vec::new();
        for item in fs::read_dir(&self.folder).map_err(io())? {
            let item = item.map_err(io())?;
            if names::is_day(&item.file_name()) {
                days.push(item.path());
            }
        }
        days.sort();
        Ok(days)
    }

    fn check_size(&self, what: impl FnOnce() -> String, bytes: u64) -> Result<(), RecoveryError> {
        let RecoveryLimits {
            max_file_bytes: limit,
            setting,
        } = self.limits;
        if bytes <= limit {
            return Ok(());
        }
        Err(RecoveryError::TooLarge {
            what: what(),
            bytes,
            limit,
            setting,
        })
    }

    fn day(&self) -> Result<PathBuf, RecoveryError> {
        let day = self.folder.join(clock::date(OffsetDateTime::now_utc()));
        fsx::private_dir(&day).map_err(io_at("make the folder", &day))?;
        Ok(day)
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
        let meta = Meta::new(purpose.origin, purpose.turn_id, purpose.reason, content);
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

#[cfg(test)]
mod tests;
