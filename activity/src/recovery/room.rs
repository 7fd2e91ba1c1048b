//! How much the folder holds, and making room in it.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::count::Held;
use super::entry::Entry;
use super::error::{RecoveryError, io_at};
use super::{Recovery, names, today};
use crate::clock;
use crate::fsx;
use crate::limits::{
    COUNT_FOR, DROPS_READ, FULL_FOR, FULL_SHARE, LOCK_PAUSE, LOCK_WAIT, SPARE_PART,
};

/// Held by whoever drops or compresses entries.
const LOCK: &str = ".rotate.lock";
/// What was dropped, one JSON object a line.
const DROPS: &str = "dropped.jsonl";

/// What is known of the folder's size.
#[derive(Debug, Default)]
pub(super) struct Room {
    counted: Option<(Held, Instant)>,
    /// Until when it is taken for granted that nothing can make room.
    full: Option<Instant>,
    /// What was dropped since somebody asked.
    dropped: Vec<Dropped>,
}

/// Entries that were dropped at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// When, RFC 3339 in UTC.
    pub ts: String,
    /// Who did it: `room` where room was made for something new, else `rotation`.
    pub by: String,
    /// How many.
    pub entries: u64,
    /// What they held on disk, in bytes.
    pub bytes: u64,
    /// When the youngest of them had been kept, RFC 3339 in UTC.
    pub until: String,
}

impl Recovery {
    /// What was dropped to make room since this was last asked, through this value and its clones.
    #[must_use]
    pub fn take_dropped(&self) -> Vec<Dropped> {
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut room.dropped)
    }

    /// What was dropped last, by whatever process.
    #[must_use]
    pub fn last_dropped(&self) -> Option<Dropped> {
        let mut file = fsx::open_read(&self.folder.join(DROPS)).ok()??;
        let size = file.metadata().ok()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(DROPS_READ)))
            .ok()?;
        let mut text = Vec::new();
        file.take(DROPS_READ).read_to_end(&mut text).ok()?;
        let mut lines = text.split(|byte| *byte == b'\n').rev();
        lines.find_map(|line| serde_json::from_slice(line).ok())
    }

    /// What the folder holds, and how many bytes it may hold. The count may be a minute old.
    #[must_use]
    pub fn usage(&self) -> (Held, u64) {
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        let used = match room.counted {
            Some((used, at)) if at.elapsed() < COUNT_FOR => used,
            _ => {
                let used = self.held();
                room.counted = Some((used, Instant::now()));
                used
            }
        };
        (used, self.limits.max_total_bytes)
    }

    /// Another process is known to have added to the folder: it is counted anew before it is added
    /// to or asked for.
    pub fn recount(&self) {
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        room.counted = None;
    }

    /// Counts `bytes` towards what the folder may hold, dropping the oldest entries if they are
    /// old enough and enough of them are.
    pub(super) fn make_room(&self, bytes: u64) -> Result<(), RecoveryError> {
        let most = self.limits.max_total_bytes;
        let fits = |used: Held| used.bytes.saturating_add(bytes) <= most;
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((used, at)) = room.counted
            && at.elapsed() < COUNT_FOR
            && fits(used)
        {
            room.counted = Some((used.and_one(bytes), at));
            return Ok(());
        }
        let began = Instant::now();
        let known = room.full.is_some_and(|until| began < until);
        let mut used = match room.counted {
            Some((used, _)) if known => used,
            _ => self.held(),
        };
        if !fits(used) && !known && bytes <= most {
            let lack = used.bytes.saturating_add(bytes).saturating_sub(most);
            if let Some(dropped) = self.drop_oldest(lack)? {
                room.dropped.push(dropped);
            }
            used = self.held();
        }
        let now = Instant::now();
        if fits(used) {
            room.counted = Some((used.and_one(bytes), now));
            room.full = None;
            return Ok(());
        }
        room.counted = Some((used, now));
        if !known {
            // The longer it takes to find out, the more seldom it is tried.
            room.full = Some(now + FULL_FOR.max(began.elapsed() * FULL_SHARE));
        }
        Err(RecoveryError::Full {
            folder: self.folder.clone(),
            bytes,
            used: used.bytes,
            limit: most,
        })
    }

    /// Drops the oldest entries that are old enough until `lack` bytes and a little more are
    /// free; none where that cannot be reached.
    fn drop_oldest(&self, lack: u64) -> Result<Option<Dropped>, RecoveryError> {
        let _held = self.lock(LOCK_WAIT)?;
        let latest = OffsetDateTime::now_utc() - self.limits.min_age;
        let last_day = clock::date(latest);
        let is_old = |entry: &Entry| clock::parse(&entry.ts).is_some_and(|kept| kept <= latest);
        let mut days = self.days()?;
        days.retain(|day| {
            let name = day.file_name().unwrap_or_default();
            name.as_encoded_bytes() <= last_day.as_bytes()
        });
        let (mut old, _) = self.survey_days(days)?;
        old.retain(is_old);
        let wanted = lack.saturating_add(self.limits.max_total_bytes / SPARE_PART);
        let mut freed = 0u64;
        let mut count = 0;
        while count < old.len() && freed < wanted {
            freed = freed.saturating_add(old[count].stored_bytes);
            count += 1;
        }
        if freed < lack {
            return Ok(None);
        }
        old.truncate(count);
        self.drop_entries(&old, "room").map(Some)
    }

    /// Drops entries, after it was written down that they go.
    pub(super) fn drop_entries(&self, all: &[Entry], by: &str) -> Result<Dropped, RecoveryError> {
        let dropped = Dropped {
            ts: clock::now(),
            by: by.into(),
            entries: all.len() as u64,
            bytes: all.iter().map(|entry| entry.stored_bytes).sum(),
            until: all
                .iter()
                .map(|entry| entry.ts.clone())
                .max()
                .unwrap_or_default(),
        };
        self.note_dropped(&dropped)
            .map_err(io_at("write down what is dropped in", &self.folder))?;
        for entry in all {
            self.remove(&entry.first_path())
                .map_err(io_at("drop", &entry.path))?;
        }
        self.remove_empty_days();
        Ok(dropped)
    }

    fn note_dropped(&self, dropped: &Dropped) -> io::Result<()> {
        let mut line = serde_json::to_vec(dropped)?;
        line.push(b'\n');
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
        let mut file = fsx::open(&self.folder.join(DROPS), flags)?;
        file.write_all(&line)?;
        file.sync_all()
    }

    /// Removes an entry: the content first, so that what a kill leaves is no content without a
    /// record. By names in folders that are opened without following a link: nothing outside is
    /// reached.
    pub(super) fn remove(&self, first_path: &Path) -> io::Result<()> {
        let packed = names::packed_path(first_path);
        let record = names::meta_path(first_path);
        let day = self.open_day(first_path)?;
        for path in [first_path, &packed, &record] {
            let name = path.file_name().unwrap_or_default();
            match unlinkat(&day, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// The folder of the day in which a content lies.
    pub(super) fn open_day(&self, content: &Path) -> io::Result<OwnedFd> {
        let day = content.parent().and_then(Path::file_name);
        let day = day.filter(|day| names::is_day(day));
        let day = day.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&self.folder, flags, Mode::empty())?;
        Ok(openat(folder, day, flags, Mode::empty())?)
    }

    /// Removes the folders of past days that are empty. Today's may be about to be used.
    pub(super) fn remove_empty_days(&self) {
        let today = today();
        let days = self.days().unwrap_or_default();
        let past = |day: &&std::path::PathBuf| {
            let name = day.file_name().unwrap_or_default();
            name.as_encoded_bytes() < today.as_bytes()
        };
        for day in days.iter().filter(past) {
            // One that is not empty stays.
            let _ = fs::remove_dir(day);
        }
    }

    /// Keeps others from dropping and compressing for as long as the file is open.
    pub(super) fn lock(&self, wait: Duration) -> Result<File, RecoveryError> {
        let path = self.folder.join(LOCK);
        let flags = OFlags::RDWR | OFlags::CREATE;
        let file = fsx::open(&path, flags).map_err(io_at("open", &path))?;
        let until = Instant::now() + wait;
        loop {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(file),
                Err(Errno::WOULDBLOCK) if Instant::now() < until => {
                    std::thread::sleep(LOCK_PAUSE);
                }
                Err(Errno::WOULDBLOCK) => {
                    return Err(RecoveryError::Busy {
                        folder: self.folder.clone(),
                    });
                }
                Err(e) => return Err(io_at("lock", &path)(e.into())),
            }
        }
    }
}
