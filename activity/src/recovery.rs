//! Recovery files: what a file held before it was changed, and the whole of a result that was cut.
//!
//! **On disk.** `<day>/<turn>-<n>-<name>` is a content, `….meta.json` beside it its record. A content
//! gets its name only when it is whole, and only after its record has it: killed at any point, a
//! writer leaves a temporary file (its lock went with it) or a record without a content, and
//! neither counts as an entry. [`Recovery::settle`] and a rotation clear them.
//!
//! **Moving instead of copying.** A file that is replaced is moved here. Its record is written
//! before the replacement and says where the old file lies in between, so that one that was left
//! there by a kill is found and kept ([`Recovery::settle`]). Other names that files have for a moment
//! are written down as well ([`asides`]).
//!
//! **Room.** Before anything is kept, the folder's size is looked at. When it is full the oldest
//! entries go, if they are older than the least age; otherwise nothing is kept, and the change
//! that needed it is not made.

mod asides;
mod count;
mod entry;
mod error;
mod meta;
mod names;
mod pack;
mod place;
#[cfg_attr(
    any(target_os = "linux", target_os = "android"),
    path = "recovery/linux.rs"
)]
#[cfg_attr(
    not(any(target_os = "linux", target_os = "android")),
    path = "recovery/macos.rs"
)]
mod reflink;
mod restore;
mod room;
mod rotate;
mod settle;
mod store;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};

use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use crate::clock;
use crate::fsx::{self, hex};
use crate::limits::{COPY_BLOCK, RecoveryLimits};
pub use asides::{Aside, Noted, Notes};
pub use count::Held;
pub use entry::{Entry, Kind, Stamp};
pub use error::RecoveryError;
use error::io_at;
use meta::Meta;
pub use place::Now;
pub use restore::Restored;
pub use room::Dropped;
pub use rotate::{Rotated, Rotation, Shrunk};
pub use settle::Settled;
pub use store::Announced;

/// The recovery folder: `<day>/<turn>-<n>-<name>`, each with a `.meta.json` beside it.
#[derive(Debug, Clone)]
pub struct Recovery {
    /// The folder as it was given.
    given: PathBuf,
    /// The folder without links on the way, since callers ask with resolved paths.
    folder: PathBuf,
    limits: RecoveryLimits,
    durable: bool,
    /// Whether this value was opened for more than looking.
    changes: bool,
    session_id: Option<Arc<str>>,
    /// The number last taken for a turn, so that the next one is found at once.
    last: Arc<Mutex<(String, u32)>>,
    room: Arc<Mutex<room::Room>>,
    notes: Notes,
}

/// Which leftovers of killed processes are looked for when the folder is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leftovers {
    OfAllDays,
    OfLately,
    None,
}

impl Recovery {
    /// The folder, without links on the way.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Opens the folder, making it (mode 0700) if it is missing, and clears up what killed
    /// processes left in it.
    ///
    /// # Errors
    /// [`RecoveryError::Io`] if the folder cannot be made or resolved.
    pub fn open(folder: &Path, limits: RecoveryLimits) -> Result<Self, RecoveryError> {
        fsx::private_dir(folder).map_err(io_at("make the folder", folder))?;
        Self::resolve(folder, limits, Leftovers::OfAllDays)
    }

    /// The same, for a process that opens it for one command: leftovers are looked for in the
    /// folders of today and yesterday only.
    ///
    /// # Errors
    /// As for [`Recovery::open`].
    pub fn open_briefly(folder: &Path, limits: RecoveryLimits) -> Result<Self, RecoveryError> {
        fsx::private_dir(folder).map_err(io_at("make the folder", folder))?;
        Self::resolve(folder, limits, Leftovers::OfLately)
    }

    /// The folder as it is, for looking at; `None` if there is none. Changes nothing.
    ///
    /// # Errors
    /// [`RecoveryError::Io`] if the folder cannot be resolved.
    pub fn look(folder: &Path, limits: RecoveryLimits) -> Result<Option<Self>, RecoveryError> {
        match Self::resolve(folder, limits, Leftovers::None) {
            Err(RecoveryError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            opened => opened.map(Some),
        }
    }

    fn resolve(
        folder: &Path,
        limits: RecoveryLimits,
        leftovers: Leftovers,
    ) -> Result<Self, RecoveryError> {
        let resolved = fs::canonicalize(folder).map_err(io_at("resolve the folder", folder))?;
        let recovery = Self {
            given: folder.to_path_buf(),
            notes: Notes::in_folder(&resolved),
            folder: resolved,
            limits,
            durable: true,
            changes: leftovers != Leftovers::None,
            session_id: None,
            last: Arc::default(),
            room: Arc::default(),
        };
        let mut days = match leftovers {
            Leftovers::None => Vec::new(),
            _ => recovery.days()?,
        };
        if leftovers == Leftovers::OfLately {
            days.drain(..days.len().saturating_sub(2));
        }
        for day in days {
            fsx::clear_abandoned(&day);
            recovery.settle_day(&day, crate::limits::UNFINISHED_AFTER);
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

    /// The same folder, for what is kept in this session.
    #[must_use]
    pub fn for_session(&self, session_id: &str) -> Self {
        Self {
            session_id: Some(session_id.into()),
            ..self.clone()
        }
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

    /// Whether the content that was kept at `path` is compressed now.
    #[must_use]
    pub fn is_packed(&self, path: &Path) -> bool {
        let plain = names::plain_path(path);
        path.starts_with(&self.folder)
            && plain.symlink_metadata().is_err()
            && names::packed_path(path).symlink_metadata().is_ok()
    }

    /// All recovery files, oldest first. One that was reserved and never written, or whose record
    /// cannot be read, is left out.
    ///
    /// # Errors
    /// [`RecoveryError::Io`] if a folder cannot be read.
    pub fn list(&self) -> Result<Vec<Entry>, RecoveryError> {
        Ok(self.survey()?.0)
    }

    /// All recovery files as [`Recovery::list`] has them, and what lies among them that is none:
    /// contents without a readable record, and whatever else somebody put there.
    ///
    /// # Errors
    /// [`RecoveryError::Io`] if a folder cannot be read.
    pub fn survey(&self) -> Result<(Vec<Entry>, Vec<PathBuf>), RecoveryError> {
        self.survey_days(self.days()?)
    }

    fn survey_days(&self, days: Vec<PathBuf>) -> Result<(Vec<Entry>, Vec<PathBuf>), RecoveryError> {
        let (mut entries, mut strange) = (Vec::new(), Vec::new());
        for day in days {
            let io = || io_at("list the folder", &day);
            for item in fs::read_dir(&day).map_err(io())? {
                let item = item.map_err(io())?;
                if !names::is_content(&item.file_name()) {
                    continue;
                }
                let path = item.path();
                match Self::entry(&path) {
                    // A rotation that was killed left it twice.
                    Some(entry) if entry.packed && entry.first_path().exists() => {}
                    Some(entry) => entries.push(entry),
                    // It may have gone just now.
                    None => strange.extend(path.symlink_metadata().is_ok().then_some(path)),
                }
            }
        }
        entries.sort_by(|a, b| (&a.ts, &a.path).cmp(&(&b.ts, &b.path)));
        strange.sort();
        Ok((entries, strange))
    }

    /// The entry that a person means: by its id or the beginning of one, or by the path of its
    /// content (also the one it had before it was compressed).
    ///
    /// # Errors
    /// [`RecoveryError::Unknown`], [`RecoveryError::Ambiguous`], [`RecoveryError::Io`].
    pub fn find(&self, wanted: &str) -> Result<Entry, RecoveryError> {
        let path = Path::new(wanted);
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let by_path = |entry: &Entry| {
            let first = entry.first_path();
            let below = first.strip_prefix(&self.folder).ok();
            let spelt = [&real, path].into_iter().any(|path| {
                let inside = path.strip_prefix(&self.given).ok();
                path == first || path == entry.path || (inside.is_some() && inside == below)
            });
            spelt || below == Some(path)
        };
        let mut all = self.list()?;
        all.retain(|entry| by_path(entry) || (wanted.len() > 3 && entry.id.starts_with(wanted)));
        match all.len() {
            0 => Err(RecoveryError::Unknown {
                wanted: wanted.into(),
            }),
            1 => Ok(all.remove(0)),
            count => Err(RecoveryError::Ambiguous {
                wanted: wanted.into(),
                count,
            }),
        }
    }

    /// Opens an entry's content for reading, as it was when it was kept.
    ///
    /// # Errors
    /// [`RecoveryError::Io`].
    pub fn read(&self, entry: &Entry) -> Result<Box<dyn Read>, RecoveryError> {
        let io = || io_at("open", &entry.path);
        let file = open_kept(&entry.path).map_err(io())?;
        Ok(match entry.packed {
            true => Box::new(pack::unpack(file)),
            false => Box::new(file),
        })
    }

    /// Whether an entry's content is what was kept, as far as its record says. Reads all of it.
    ///
    /// # Errors
    /// [`RecoveryError::Damaged`], [`RecoveryError::Io`].
    pub fn check(&self, entry: &Entry) -> Result<(), RecoveryError> {
        let Some(wanted) = &entry.sha256 else {
            return Ok(());
        };
        let (_, found) = digest(self.read(entry)?).map_err(|e| io_at("read", &entry.path)(e))?;
        match *wanted == found {
            true => Ok(()),
            false => Err(RecoveryError::Damaged {
                path: entry.path.clone(),
            }),
        }
    }

    fn entry(path: &Path) -> Option<Entry> {
        let info = fs::symlink_metadata(path)
            .ok()
            .filter(fs::Metadata::is_file)?;
        let meta = Meta::load(&names::meta_path(path))?;
        Some(meta.into_entry(path.to_path_buf(), info.len()))
    }

    /// The folders of the days, oldest first. A link of such a name is none.
    fn days(&self) -> Result<Vec<PathBuf>, RecoveryError> {
        let io = || io_at("list the folder", &self.folder);
        let mut days = Vec::new();
        for item in fs::read_dir(&self.folder).map_err(io())? {
            let item = item.map_err(io())?;
            if names::is_day(&item.file_name()) && item.file_type().map_err(io())?.is_dir() {
                days.push(item.path());
            }
        }
        days.sort();
        Ok(days)
    }

    fn day(&self) -> Result<PathBuf, RecoveryError> {
        let day = self.folder.join(today());
        fsx::private_dir(&day).map_err(io_at("make the folder", &day))?;
        Ok(day)
    }
}

/// The name of today's folder.
fn today() -> String {
    clock::date(OffsetDateTime::now_utc())
}

/// The name of the file at a path, for a recovery file's own.
fn name_of(origin: &Path) -> String {
    let name = origin.file_name().unwrap_or(OsStr::new("file"));
    name.to_string_lossy().into_owned()
}

/// Opens a content for reading. One that was moved here has kept its permissions; where they keep
/// its owner out, they are widened for the owner.
fn open_kept(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::PermissionsExt;
    let none = || io::Error::from(io::ErrorKind::NotFound);
    let open = || fsx::open_read(path)?.ok_or_else(none);
    match open() {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            let info = fs::symlink_metadata(path)?;
            if !info.is_file() {
                return Err(e);
            }
            let mode = info.permissions().mode() | 0o400;
            fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777))?;
            open()
        }
        opened => opened,
    }
}

/// Size and SHA-256 of all that is read.
fn digest(mut from: impl Read) -> io::Result<(u64, String)> {
    let mut hash = Sha256::new();
    let mut block = vec![0; COPY_BLOCK];
    let mut bytes = 0;
    loop {
        let count = match from.read(&mut block) {
            Ok(0) => break,
            Ok(count) => count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        hash.update(&block[..count]);
        bytes += count as u64;
    }
    Ok((bytes, hex(&hash.finalize())))
}

#[cfg(test)]
mod tests;
