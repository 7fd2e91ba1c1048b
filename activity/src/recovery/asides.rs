//! Names that files have for a moment while they are replaced, removed or put back, in the folders
//! where they lie. A process that is killed at that moment leaves such a name behind, and perhaps
//! a file that has no other.
//!
//! So it is written down before: which file gets which name for a while, and which name it had. The
//! note lies in the recovery folder, in a file that its process holds locked as long as it lives.
//! What an unlocked one tells of is put right by the next process that opens the folder, and only
//! if the very file that was noted lies there: nobody gets a file a name by laying another one in
//! its place.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FileType, RenameFlags, Stat, renameat_with};
use serde::{Deserialize, Serialize};

use super::meta::Bytes;
use super::place::Folder;
use super::{Recovery, Settled};
use crate::fsx;

/// Folder of the notes, in the recovery folder.
const FOLDER: &str = "asides";
/// Beginning of a note's name that is not locked yet.
const NEW: &str = ".new-";
/// Bytes of one record, its line end included. A longer one is not written.
const SLOT_BYTES: usize = 16 * 1024;
/// Records of one process at a time; further ones are not written.
const SLOTS: usize = 64;
/// The turn of an entry that is made of a leftover.
const TURN: &str = "leftover";
/// Why such an entry was kept.
const REASON: &str = "left by a process that was killed";

/// A file that is about to get another name for a moment.
#[derive(Debug, Clone, Copy)]
pub struct Aside<'a> {
    /// The folder, an absolute path without links.
    pub folder: &'a Path,
    /// The name for a moment.
    pub name: &'a OsStr,
    /// The name that it had, or that it is to get.
    pub origin: &'a OsStr,
    /// Device and inode of each file that may lie under the name for a moment. None where the file
    /// is about to be made, and has no inode yet: an empty one under the name is it then.
    pub files: &'a [(u64, u64)],
    /// Whether it gets the other name back after a kill, where that is free. Otherwise it becomes a
    /// recovery entry.
    pub goes_back: bool,
}

/// One record.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    folder: Bytes,
    name: Bytes,
    origin: Bytes,
    files: Vec<(u64, u64)>,
    goes_back: bool,
}

/// The notes of this process.
#[derive(Debug)]
struct Journal {
    path: PathBuf,
    file: File,
    /// A bit for each record that is in use.
    busy: Mutex<u64>,
}

impl Drop for Journal {
    fn drop(&mut self) {
        // One that stays tells of nothing and goes at the next start.
        let _ = fs::remove_file(&self.path);
    }
}

/// A record, for as long as it is needed.
#[derive(Debug)]
#[must_use = "dropped, it tells of nothing any more"]
pub struct Noted(Option<(Arc<Journal>, usize)>);

impl Drop for Noted {
    fn drop(&mut self) {
        if let Some((journal, slot)) = &self.0 {
            // A record that stays tells of a name that is gone.
            let _ = journal.file.write_all_at(b"\n", offset(*slot));
            *lock(&journal.busy) &= !(1 << slot);
        }
    }
}

/// Where this process writes down which names files have for a moment.
#[derive(Debug, Clone)]
pub struct Notes {
    recovery: PathBuf,
    journal: Arc<Mutex<Option<Arc<Journal>>>>,
}

impl Notes {
    /// Notes in this recovery folder. Nothing is made before the first of them.
    #[must_use]
    pub fn in_folder(recovery: &Path) -> Self {
        Self {
            recovery: recovery.to_path_buf(),
            journal: Arc::default(),
        }
    }

    /// Writes down that a file is about to get a name for a moment. Best effort: where it cannot be
    /// written, a kill at that moment leaves a name that nobody looks for.
    pub fn note(&self, aside: &Aside<'_>) -> Noted {
        Noted(self.open().and_then(|journal| {
            let slot = journal.write(&Record::of(aside))?;
            Some((journal, slot))
        }))
    }

    /// Takes the notes away: for a process that is about to end, and with it threads that never let
    /// go of them. The file stays as long as something is noted in it.
    pub fn close(&self) {
        drop(lock(&self.journal).take());
    }

    fn open(&self) -> Option<Arc<Journal>> {
        let mut journal = lock(&self.journal);
        if journal.is_none() {
            *journal = Journal::open(&self.recovery).ok().map(Arc::new);
        }
        journal.clone()
    }
}

impl Recovery {
    /// Where this process writes down which names files have for a moment.
    #[must_use]
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// Puts right what killed processes left under names for a moment: a file that was about to be
    /// removed or replaced gets its name back, where nothing else has it; another one becomes an
    /// entry; what is not the file that was noted, or cannot be kept, stays where it is and is
    /// named.
    #[must_use]
    pub fn settle_asides(&self) -> Settled {
        let mut settled = Settled::default();
        self.put_right(&mut settled);
        settled
    }

    pub(super) fn put_right(&self, settled: &mut Settled) {
        let notes = fs::read_dir(self.folder.join(FOLDER));
        for note in notes.into_iter().flatten().flatten() {
            let path = note.path();
            let name = note.file_name();
            if name.as_encoded_bytes().starts_with(NEW.as_bytes()) {
                fsx::remove_stale(&path);
                continue;
            }
            let opened = fsx::open_read(&path).ok().flatten();
            // Whoever holds it locked is alive.
            let Some(file) = opened.filter(|file| file.try_lock().is_ok()) else {
                continue;
            };
            let left = records(&file)
                .into_iter()
                .filter(|record| !self.settle_aside(record, settled));
            if left.count() == 0 {
                let _ = fs::remove_file(&path);
            }
        }
    }

    /// Puts one right; whether nothing is left to be done about it.
    fn settle_aside(&self, record: &Record, settled: &mut Settled) -> bool {
        let paths = (
            record.folder.path(),
            record.name.path(),
            record.origin.path(),
        );
        let (Some(folder), Some(name), Some(origin)) = paths else {
            return true;
        };
        let (path, origin) = (folder.join(&name), folder.join(&origin));
        // It may be on a disk that is not there now.
        let Ok(dir) = Folder::above(&path) else {
            return false;
        };
        let Ok(Some(seen)) = dir.look(name.as_os_str()) else {
            return true;
        };
        let is_file = FileType::from_raw_mode(seen.st_mode) == FileType::RegularFile;
        let is_known = match record.files.as_slice() {
            [] => is_file && seen.st_size == 0,
            files => files.contains(&identity(&seen)),
        };
        if is_known && record.goes_back && put_back(&dir, name.as_os_str(), &origin) {
            settled.put_back.push(origin);
            return true;
        }
        if is_known && is_file {
            let (dir, name) = (dir.as_fd(), name.as_os_str());
            if self.adopt(dir, name, &origin, TURN, REASON).is_ok() {
                settled.kept += 1;
                return true;
            }
        }
        settled.found.push(path);
        false
    }
}

fn put_back(dir: &Folder, name: &OsStr, origin: &Path) -> bool {
    let free = RenameFlags::NOREPLACE;
    let to = origin.file_name().unwrap_or_default();
    renameat_with(dir, name, dir, to, free).is_ok()
}

/// Device and inode.
#[allow(
    clippy::unnecessary_cast,
    clippy::useless_conversion,
    reason = "the types differ between systems"
)]
pub(super) fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}

impl Record {
    fn of(aside: &Aside<'_>) -> Self {
        Self {
            folder: Bytes::of(aside.folder),
            name: Bytes::of(Path::new(aside.name)),
            origin: Bytes::of(Path::new(aside.origin)),
            files: aside.files.to_vec(),
            goes_back: aside.goes_back,
        }
    }
}

impl Journal {
    fn open(recovery: &Path) -> io::Result<Self> {
        let folder = recovery.join(FOLDER);
        fsx::private_dir(&folder)?;
        let name = uuid::Uuid::now_v7().simple().to_string();
        let new = folder.join(format!("{NEW}{name}"));
        let file = fsx::create_new(&new)?;
        // It has a name by which it is looked at only when it is locked.
        file.lock()?;
        let path = folder.join(name);
        fs::rename(&new, &path)?;
        Ok(Self {
            path,
            file,
            busy: Mutex::default(),
        })
    }

    fn write(&self, record: &Record) -> Option<usize> {
        let mut line = serde_json::to_vec(record).ok()?;
        line.push(b'\n');
        if line.len() > SLOT_BYTES {
            return None;
        }
        let slot = self.take()?;
        if self.file.write_all_at(&line, offset(slot)).is_err() {
            *lock(&self.busy) &= !(1 << slot);
            return None;
        }
        Some(slot)
    }

    fn take(&self) -> Option<usize> {
        let mut busy = lock(&self.busy);
        let slot = busy.trailing_ones() as usize;
        (slot < SLOTS).then(|| {
            *busy |= 1 << slot;
            slot
        })
    }
}

fn offset(slot: usize) -> u64 {
    (slot * SLOT_BYTES) as u64
}

/// The records in a note, the torn ones left out.
fn records(file: &File) -> Vec<Record> {
    let mut all = Vec::new();
    let most = (SLOTS * SLOT_BYTES) as u64;
    if file.take(most).read_to_end(&mut all).is_err() {
        return Vec::new();
    }
    let lines = all
        .chunks(SLOT_BYTES)
        .filter_map(|slot| slot.split(|b| *b == b'\n').next());
    lines
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{RecoveryLimits, STALE_TEMP_S};
    use std::os::unix::fs::MetadataExt;

    struct World {
        dir: tempfile::TempDir,
        recovery: Recovery,
    }

    impl World {
        fn new() -> World {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir(dir.path().join("ws")).unwrap();
            let recovery = Recovery::open(&dir.path().join("recovery"), RecoveryLimits::default());
            World {
                recovery: recovery.unwrap(),
                dir,
            }
        }

        fn at(&self, name: &str) -> PathBuf {
            fs::canonicalize(self.dir.path())
                .unwrap()
                .join("ws")
                .join(name)
        }

        /// A file under a name for a moment, with the note of a process that was killed then.
        fn killed(&self, origin: &str, name: &str, goes_back: bool) {
            fs::write(self.at(name), origin).unwrap();
            let info = self.at(name).metadata().unwrap();
            self.note(origin, name, &[(info.dev(), info.ino())], goes_back);
        }

        fn note(&self, origin: &str, name: &str, files: &[(u64, u64)], goes_back: bool) {
            let notes = Notes::in_folder(self.recovery.folder());
            let noted = notes.note(&Aside {
                folder: &self.at(""),
                name: OsStr::new(name),
                origin: OsStr::new(origin),
                files,
                goes_back,
            });
            let (journal, _) = noted.0.as_ref().unwrap();
            // The same, locked by nobody.
            fs::copy(&journal.path, journal.path.with_extension("killed")).unwrap();
        }

        fn notes_left(&self) -> usize {
            let notes = fs::read_dir(self.recovery.folder().join(FOLDER));
            notes.unwrap().count()
        }
    }

    #[test]
    fn a_file_that_was_about_to_go_is_put_back() {
        let world = World::new();
        world.killed("a", ".aside-1", true);
        let settled = world.recovery.settle_asides();
        assert_eq!(settled.put_back, [world.at("a")]);
        assert_eq!(fs::read(world.at("a")).unwrap(), b"a");
        assert!(!world.at(".aside-1").exists());
        assert_eq!(world.notes_left(), 0);
        assert!(!world.recovery.settle_asides().is_news());
    }

    #[test]
    fn where_the_name_is_taken_it_becomes_an_entry() {
        let world = World::new();
        fs::write(world.at("a"), "newer").unwrap();
        world.killed("a", ".aside-1", true);
        world.killed("b", ".draft-1", false);
        let settled = world.recovery.settle_asides();
        assert_eq!((settled.kept, settled.is_news()), (2, false));
        assert_eq!(fs::read(world.at("a")).unwrap(), b"newer");
        let kept = world.recovery.list().unwrap();
        let mut origins: Vec<_> = kept
            .iter()
            .map(|entry| entry.origin.clone().unwrap())
            .collect();
        origins.sort();
        assert_eq!(origins, [world.at("a"), world.at("b")]);
        assert_eq!(fs::read_dir(world.at("")).unwrap().count(), 1);
    }

    #[test]
    fn what_was_about_to_be_made_is_known_while_it_is_empty() {
        let world = World::new();
        for (origin, name, content) in [("a", ".draft-1", ""), ("b", ".draft-2", "somebody's")] {
            fs::write(world.at(name), content).unwrap();
            world.note(origin, name, &[], false);
        }
        world.note("c", ".draft-3", &[], false);
        let settled = world.recovery.settle_asides();
        assert_eq!(
            (settled.kept, settled.found),
            (1, vec![world.at(".draft-2")])
        );
        assert!(!world.at(".draft-1").exists());
        assert_eq!(world.notes_left(), 1, "what is found is told again");
    }

    #[test]
    fn a_note_whose_writer_never_got_to_lock_it_goes_when_it_is_old() {
        let world = World::new();
        world.note("a", ".draft-1", &[], false);
        let folder = world.recovery.folder().join(FOLDER);
        let (old, young) = (folder.join(".new-old"), folder.join(".new-young"));
        for path in [&old, &young] {
            fs::write(path, "").unwrap();
        }
        let then = std::time::SystemTime::now() - std::time::Duration::from_secs(2 * STALE_TEMP_S);
        File::options()
            .write(true)
            .open(&old)
            .unwrap()
            .set_modified(then)
            .unwrap();
        assert!(!world.recovery.settle_asides().is_news());
        assert!(!old.exists() && young.exists());
    }

    #[test]
    fn another_file_under_that_name_gets_no_other_one_and_is_told() {
        let world = World::new();
        fs::write(world.at(".aside-1"), "somebody's").unwrap();
        world.note("config", ".aside-1", &[(1, 1)], true);
        for _ in 0..2 {
            let settled = world.recovery.settle_asides();
            assert_eq!(settled.found, [world.at(".aside-1")]);
        }
        assert!(!world.at("config").exists());
        assert_eq!(fs::read(world.at(".aside-1")).unwrap(), b"somebody's");
        // Once it is gone there is nothing to tell.
        fs::remove_file(world.at(".aside-1")).unwrap();
        assert!(!world.recovery.settle_asides().is_news());
        assert_eq!(world.notes_left(), 0);
    }

    #[test]
    fn a_link_on_the_way_leads_nowhere() {
        let world = World::new();
        world.killed("a", ".aside-1", true);
        let elsewhere = world.at("").with_file_name("elsewhere");
        fs::rename(world.at(""), &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, world.dir.path().join("ws")).unwrap();
        assert!(!world.recovery.settle_asides().is_news());
        assert!(elsewhere.join(".aside-1").exists() && !elsewhere.join("a").exists());
    }

    #[test]
    fn who_is_alive_is_left_alone_and_notes_end_with_what_they_tell_of() {
        let world = World::new();
        fs::write(world.at(".aside-1"), "a").unwrap();
        let info = world.at(".aside-1").metadata().unwrap();
        let notes = Notes::in_folder(world.recovery.folder());
        let aside = Aside {
            folder: Path::new("/nowhere"),
            name: OsStr::new(".aside-1"),
            origin: OsStr::new("a"),
            files: &[(7, 7)],
            goes_back: true,
        };
        let folder = world.at("");
        let real = notes.note(&Aside {
            folder: &folder,
            files: &[(info.dev(), info.ino())],
            ..aside
        });
        assert!(!world.recovery.settle_asides().is_news());
        assert!(world.at(".aside-1").exists() && world.notes_left() == 1);
        let path = real.0.as_ref().unwrap().0.path.clone();
        let found = || records(&File::open(&path).unwrap()).len();
        let more: Vec<Noted> = (0..SLOTS + 3).map(|_| notes.note(&aside)).collect();
        assert_eq!(found(), SLOTS, "more than that are not written");
        drop(real);
        drop(more);
        assert_eq!(found(), 0);
        drop(notes);
        assert_eq!(world.notes_left(), 0);
    }

    #[test]
    fn what_is_torn_or_too_long_tells_of_nothing() {
        let world = World::new();
        let folder = world.recovery.folder().join(FOLDER);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("x"), b"{\"folder\": \"/\n\0\xff not json").unwrap();
        assert!(!world.recovery.settle_asides().is_news());
        assert_eq!(world.notes_left(), 0);
        let long = "x".repeat(SLOT_BYTES);
        let notes = Notes::in_folder(world.recovery.folder());
        let noted = notes.note(&Aside {
            folder: Path::new("/"),
            name: OsStr::new(&long),
            origin: OsStr::new("a"),
            files: &[],
            goes_back: true,
        });
        assert!(noted.0.is_none());
    }
}
