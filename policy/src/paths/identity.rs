//! Protected objects by identity: another name, a bind mount, a link the lists do not know, a hard link.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::judge::{Guarded, Hit, Intent, Judge, Parts, UNSURE};
use super::look::{self, FileId, Kind};
use super::target::Place;
use crate::limits;

/// Identities of the objects that the rules name literally, and of the files below credential folders.
#[derive(Debug)]
pub(super) struct Identities {
    known: Vec<(PathBuf, Guarded)>,
    folders: Vec<PathBuf>,
    objects: Mutex<Option<Cached>>,
    files: Mutex<Option<Cached>>,
}

type Objects = HashMap<FileId, Guarded>;
type Table = Arc<Objects>;

#[derive(Debug, Clone)]
struct Cached {
    at: Instant,
    table: Table,
}

impl Identities {
    pub(super) fn new(judge: &Judge) -> Identities {
        Identities {
            known: judge.known(),
            folders: judge.secret_folders(),
            objects: Mutex::new(None),
            files: Mutex::new(None),
        }
    }

    /// Judges the folders passed on the way to `place`, and the object itself. Where the protected objects cannot be
    /// looked at, the answer is a refusal.
    pub(super) fn judge(&self, judge: &Judge, place: &Place, intent: Intent) -> Option<Hit> {
        let linked = place
            .meta
            .is_some_and(|m| m.kind == Kind::File && m.nlink > 1);
        let mut judged = self.objects(judge, place, intent);
        if linked && matches!(judged, Ok(None)) {
            judged = self.files(judge, place, intent);
        }
        judged.unwrap_or(Some(UNSURE))
    }

    fn objects(&self, judge: &Judge, place: &Place, intent: Intent) -> Result<Option<Hit>, Errno> {
        let table = |fresh| cached(&self.objects, fresh, || known_objects(&self.known));
        confirmed(table, judge, place, intent)
    }

    fn files(&self, judge: &Judge, place: &Place, intent: Intent) -> Result<Option<Hit>, Errno> {
        let table = |fresh| cached(&self.files, fresh, || secret_files(judge, &self.folders));
        confirmed(table, judge, place, intent)
    }
}

/// Looks `place` up in a table. An inode number is used again soon after a file is gone, so a hit is confirmed by a
/// fresh table.
fn confirmed(
    table: impl Fn(bool) -> Result<Table, Errno>,
    judge: &Judge,
    place: &Place,
    intent: Intent,
) -> Result<Option<Hit>, Errno> {
    let path = Parts::new(&place.real);
    let find = |table: &Table| {
        let object = place.meta.iter().map(|meta| meta.id);
        let ids = place.ids.iter().copied().chain(object);
        ids.filter_map(|id| table.get(&id))
            .find_map(|guarded| judge.guarded(*guarded, &path, intent))
    };
    match find(&table(false)?) {
        None => Ok(None),
        Some(_) => Ok(find(&table(true)?)),
    }
}

/// Identities of the objects that the rules name.
fn known_objects(known: &[(PathBuf, Guarded)]) -> Result<Objects, Errno> {
    let mut table = Objects::new();
    for (path, guarded) in known {
        match fs::stat(path) {
            Ok(stat) => {
                let known = table.entry(look::file_id(&stat)).or_insert(*guarded);
                // An object that two rules name keeps the one that denies more.
                if denies_reading(guarded) && !denies_reading(known) {
                    *known = *guarded;
                }
            }
            Err(error) if out_of_reach(error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(table)
}

/// Identities of the files in credential folders.
fn secret_files(judge: &Judge, folders: &[PathBuf]) -> Result<Objects, Errno> {
    let mut found = Objects::new();
    for folder in folders {
        let room = limits::SECRET_FILES.saturating_sub(found.len());
        let mut collect = Collect {
            judge,
            found: &mut found,
            room: room.min(limits::SECRET_FILES_PER_FOLDER),
        };
        collect.folder(folder, 0)?;
    }
    Ok(found)
}

/// Errors that say that nothing is there, or nothing that this user could have linked or opened.
fn out_of_reach(error: Errno) -> bool {
    matches!(
        error,
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::PERM
    )
}

fn denies_reading(guarded: &Guarded) -> bool {
    match guarded {
        Guarded::PathFolder => false,
        Guarded::Entry(rule) => rule.entry.denies == crate::protected::Denies::ReadWrite,
        _ => true,
    }
}

fn cached(
    slot: &Mutex<Option<Cached>>,
    fresh: bool,
    make: impl FnOnce() -> Result<Objects, Errno>,
) -> Result<Table, Errno> {
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    match &*slot {
        Some(cached) if !fresh && cached.at.elapsed() < limits::IDENTITY_CACHE => {
            Ok(Arc::clone(&cached.table))
        }
        _ => {
            let table = Arc::new(make()?);
            *slot = Some(Cached {
                at: Instant::now(),
                table: Arc::clone(&table),
            });
            Ok(table)
        }
    }
}

struct Collect<'a> {
    judge: &'a Judge,
    found: &'a mut Objects,
    room: usize,
}

impl Collect<'_> {
    /// Remembers the files below `folder`.
    fn folder(&mut self, folder: &Path, depth: usize) -> Result<(), Errno> {
        if depth > limits::SECRET_DEPTH || self.judge.is_hands_work(folder) {
            return Ok(());
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = match fs::open(folder, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(error) if out_of_reach(error) => return Ok(()),
            Err(error) => return Err(error),
        };
        for entry in Dir::read_from(&fd)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            if self.room == 0 {
                break;
            }
            self.room -= 1;
            let Ok(stat) = fs::statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue; // gone by now
            };
            match look::file_type(&stat) {
                FileType::RegularFile => {
                    self.found.insert(look::file_id(&stat), Guarded::Secret);
                }
                FileType::Directory => self.folder(&folder.join(name), depth + 1)?,
                _ => {}
            }
        }
        Ok(())
    }
}
