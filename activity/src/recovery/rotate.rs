//! Rotation: what is old is compressed, and what is beyond the limits is dropped.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, unlinkat};
use time::OffsetDateTime;

use super::entry::{Entry, Kind};
use super::error::{RecoveryError, io_at};
use super::meta::Meta;
use super::room::Dropped;
use super::{Recovery, digest, names, open_kept, pack};
use crate::clock;
use crate::fsx::{self, Temp, copy_attributes};
use crate::limits::{PACK_AFTER, PACK_FROM, UNFINISHED_AFTER};

/// What a rotation is to leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotation {
    /// Entries older than this are dropped.
    pub max_age: Option<Duration>,
    /// Entries that may stay.
    pub max_entries: u64,
    /// Bytes on disk that may stay.
    pub max_bytes: u64,
    /// Age below which no entry is dropped for their number or size.
    pub min_age: Duration,
    /// Whether entries over a day old are compressed first.
    pub compress: bool,
    /// Whether it is only told what would be done.
    pub dry_run: bool,
}

/// What a rotation did, or would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rotated {
    /// Leftovers of killed processes that became entries.
    pub settled: u64,
    /// Files that a killed process had left under a name for a moment, by the name they have again.
    pub put_back: Vec<PathBuf>,
    /// Such names that were left alone.
    pub found: Vec<PathBuf>,
    /// Leftovers that were removed.
    pub cleared: u64,
    /// What was compressed; in a dry run what would be looked at, with its size as both numbers.
    pub compressed: Vec<Shrunk>,
    /// What was dropped, oldest first.
    pub dropped: Vec<Entry>,
    /// The same summed up; none where nothing was dropped, and in a dry run.
    pub noted: Option<Dropped>,
    /// What could not be compressed, and why.
    pub failed: Vec<String>,
    /// Files in the folder that are no entries: left alone.
    pub strange: Vec<PathBuf>,
    /// Entries that stay.
    pub entries: u64,
    /// Bytes on disk of those.
    pub bytes: u64,
}

/// A content that was compressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shrunk {
    /// The entry's short name.
    pub id: String,
    /// Bytes before.
    pub before: u64,
    /// Bytes now.
    pub after: u64,
}

impl Recovery {
    /// Compresses old entries, then drops what is beyond the limits, the oldest first. Nothing
    /// outside the recovery folder is touched, whatever lies in it.
    ///
    /// # Errors
    /// [`RecoveryError::Busy`], [`RecoveryError::Io`]; what was done so far stays done.
    pub fn rotate(&self, wish: &Rotation) -> Result<Rotated, RecoveryError> {
        let mut done = Rotated::default();
        let _held = match wish.dry_run {
            true => None,
            false => Some(self.lock(Duration::ZERO)?),
        };
        if !wish.dry_run {
            let settled = self.settle(UNFINISHED_AFTER)?;
            done.settled = settled.kept;
            done.put_back = settled.put_back;
            done.found = settled.found;
            done.cleared = settled.cleared + self.clear_twins()?;
        }
        let (mut entries, strange) = self.survey()?;
        done.strange = strange;
        let now = OffsetDateTime::now_utc();
        if wish.compress {
            // What is about to be dropped for its age need not be compressed.
            let too_old = beyond(&entries, wish, now).for_age;
            let stays = entries.iter_mut().skip(too_old);
            for entry in stays.filter(|entry| is_packable(entry, now)) {
                match self.shrink(entry, wish.dry_run) {
                    Ok(shrunk) => done.compressed.extend(shrunk),
                    Err(e) => done.failed.push(format!("{}: {e}", entry.path.display())),
                }
            }
        }
        // Compressed, more may fit.
        let count = beyond(&entries, wish, now).all;
        let stay = entries.split_off(count);
        done.dropped = entries;
        done.entries = stay.len() as u64;
        done.bytes = stay.iter().map(|entry| entry.stored_bytes).sum();
        if !wish.dry_run && !done.dropped.is_empty() {
            done.noted = Some(self.drop_entries(&done.dropped, "rotation")?);
        }
        if !wish.dry_run {
            self.remove_empty_days();
        }
        Ok(done)
    }

    /// Removes compressed contents whose plain ones are still there: a rotation was killed between
    /// the two. The plain one is the entry, and is compressed anew.
    fn clear_twins(&self) -> Result<u64, RecoveryError> {
        let mut cleared = 0;
        for day in self.days()? {
            for item in fs::read_dir(&day).map_err(io_at("list the folder", &day))? {
                let path = item.map_err(io_at("list the folder", &day))?.path();
                let is_twin = path.file_name().is_some_and(names::is_packed)
                    && names::plain_path(&path).symlink_metadata().is_ok();
                if is_twin {
                    self.unlink(&path).map_err(io_at("remove", &path))?;
                    cleared += 1;
                }
            }
        }
        Ok(cleared)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        let day = self.open_day(path)?;
        let name = path.file_name().unwrap_or_default();
        Ok(unlinkat(day, name, AtFlags::empty())?)
    }

    /// Compresses an entry's content, if that makes it enough smaller. The plain content goes when
    /// the compressed one is on disk, and was read back.
    fn shrink(&self, entry: &mut Entry, dry_run: bool) -> Result<Option<Shrunk>, RecoveryError> {
        let io = || io_at("compress", &entry.path);
        let content = open_kept(&entry.path).map_err(io())?;
        let before = content.metadata().map_err(io())?;
        // A file with another name can be changed by that.
        if before.nlink() > 1 || !pack::is_worth_it(&content).map_err(io())? {
            return Ok(None);
        }
        let mut shrunk = Shrunk {
            id: entry.id.clone(),
            before: before.len(),
            after: before.len(),
        };
        if dry_run {
            return Ok(Some(shrunk));
        }
        let day = entry.path.parent().unwrap_or(&self.folder);
        let temp = Temp::in_dir(day).map_err(io_at("create a file in", day))?;
        let read = pack::pack(&content, &temp.file).map_err(io())?;
        copy_attributes(&content, &temp.file);
        if let Ok(modified) = before.modified() {
            let _ = temp.file.set_modified(modified);
        }
        temp.file.sync_all().map_err(io())?;
        let again = File::open(temp.path()).map_err(io())?;
        let same = digest(pack::unpack(again)).map_err(io())? == read;
        let after = content.metadata().map_err(io())?;
        let still = (after.len(), after.mtime(), after.mtime_nsec())
            == (before.len(), before.mtime(), before.mtime_nsec());
        let damaged = entry.sha256.as_ref().is_some_and(|sha| *sha != read.1);
        if !same || !still || damaged {
            // Somebody still writes it, or its record says something else: it stays as it is.
            return Err(RecoveryError::Damaged {
                path: entry.path.clone(),
            });
        }
        shrunk.after = temp.file.metadata().map_err(io())?.len();
        self.take_packed_place(entry, &temp, read)?;
        entry.stored_bytes = shrunk.after;
        Ok(Some(shrunk))
    }

    /// Gives the compressed content its name and takes the plain one's.
    fn take_packed_place(
        &self,
        entry: &mut Entry,
        temp: &Temp,
        (bytes, sha256): (u64, String),
    ) -> Result<(), RecoveryError> {
        let plain = entry.path.clone();
        let (packed, record) = (names::packed_path(&plain), names::meta_path(&plain));
        // The record says how large it was before the content itself no longer does.
        let meta = Meta::load(&record).ok_or_else(|| RecoveryError::Damaged {
            path: record.clone(),
        })?;
        let meta = meta.with_content(bytes, sha256);
        fsx::replace(&record, &meta.to_bytes()).map_err(io_at("write", &record))?;
        if !temp.publish_new(&packed).map_err(io_at("name", &packed))? {
            return Err(io_at("name", &packed)(io::ErrorKind::AlreadyExists.into()));
        }
        let day = plain.parent().unwrap_or(&self.folder);
        fsx::sync_dir(day).map_err(io_at("write", day))?;
        self.unlink(&plain).map_err(io_at("remove", &plain))?;
        entry.path = packed;
        entry.packed = true;
        entry.bytes = bytes;
        Ok(())
    }
}

/// How many of the entries, which are in the order of their age, are to go.
struct Beyond {
    /// Those that are too old.
    for_age: usize,
    /// Those, and what is too many or too much.
    all: usize,
}

fn beyond(entries: &[Entry], wish: &Rotation, now: OffsetDateTime) -> Beyond {
    let older =
        |entry: &Entry, age: Duration| clock::parse(&entry.ts).is_some_and(|kept| kept + age < now);
    let too_old = |entry: &&Entry| wish.max_age.is_some_and(|age| older(entry, age));
    let for_age = entries.iter().take_while(too_old).count();
    let mut left = (entries.len() - for_age) as u64;
    let mut bytes: u64 = entries[for_age..].iter().map(|e| e.stored_bytes).sum();
    let mut all = for_age;
    for entry in &entries[for_age..] {
        let fits = left <= wish.max_entries && bytes <= wish.max_bytes;
        if fits || !older(entry, wish.min_age) {
            break;
        }
        left -= 1;
        bytes = bytes.saturating_sub(entry.stored_bytes);
        all += 1;
    }
    Beyond { for_age, all }
}

fn is_packable(entry: &Entry, now: OffsetDateTime) -> bool {
    let is_old = clock::parse(&entry.ts).is_some_and(|kept| kept + PACK_AFTER < now);
    let is_content = matches!(entry.kind, Kind::File | Kind::Output);
    is_old && is_content && !entry.packed && entry.stored_bytes >= PACK_FROM
}
