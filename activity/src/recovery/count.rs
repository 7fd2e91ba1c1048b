//! How many bytes the folder holds, in how many entries. The folders of past days seldom change: their sizes are written
//! down, each with the time at which its folder was last changed, and counted anew when that is
//! another one.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{Recovery, names, today};
use crate::fsx;
use crate::limits::{SETTLED_AFTER, SIZES_READ};

const SIZES: &str = "sizes.json";

/// What a day's folder held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Size {
    /// When names in the folder were changed last, in seconds and nanoseconds.
    changed: (i64, i64),
    bytes: u64,
    entries: u64,
}

type Sizes = BTreeMap<String, Size>;

/// What the folder holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// Bytes of all contents, as they lie on disk.
    pub bytes: u64,
    /// How many contents there are.
    pub entries: u64,
}

impl Held {
    /// With a content of so many bytes more.
    pub(super) fn and_one(self, bytes: u64) -> Self {
        self.plus(Self { bytes, entries: 1 })
    }

    fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            entries: self.entries.saturating_add(other.entries),
        }
    }
}

impl Recovery {
    /// Bytes of all contents, as they lie on disk.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.held().bytes
    }

    /// What the folder holds, counted now.
    pub(super) fn held(&self) -> Held {
        let known = self.load_sizes();
        let today = today();
        let mut sizes = Sizes::new();
        let mut total = Held::default();
        for day in self.days().unwrap_or_default() {
            let name = day.file_name().unwrap_or_default().to_string_lossy();
            let before = changed(&day);
            let noted = known.get(&*name).copied();
            let noted = noted.filter(|size| Some(size.changed) == before);
            let held = noted.map_or_else(
                || held_in(&day),
                |size| Held {
                    bytes: size.bytes,
                    entries: size.entries,
                },
            );
            total = total.plus(held);
            if let Some(changed_at) = before.filter(|_| *name < *today && is_settled(&day, before))
            {
                let size = Size {
                    changed: changed_at,
                    bytes: held.bytes,
                    entries: held.entries,
                };
                sizes.insert(name.into_owned(), size);
            }
        }
        if self.changes && sizes != known {
            self.save_sizes(&sizes);
        }
        total
    }

    fn load_sizes(&self) -> Sizes {
        let mut bytes = Vec::new();
        let read = fsx::open_read(&self.folder.join(SIZES)).ok().flatten();
        let read = read.and_then(|file| file.take(SIZES_READ).read_to_end(&mut bytes).ok());
        // What cannot be read is counted.
        read.and_then(|_| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }

    fn save_sizes(&self, sizes: &Sizes) {
        if let Ok(bytes) = serde_json::to_vec(sizes) {
            // Without it the next count takes longer.
            let _ = fsx::replace(&self.folder.join(SIZES), &bytes);
        }
    }
}

/// When names in a folder were changed last.
fn changed(day: &Path) -> Option<(i64, i64)> {
    let info = fs::symlink_metadata(day).ok()?;
    Some((info.mtime(), info.mtime_nsec()))
}

/// Whether a folder that was counted is as it was before, and was not changed so short a time ago
/// that another change might not show.
fn is_settled(day: &Path, before: Option<(i64, i64)>) -> bool {
    let modified = fs::symlink_metadata(day).and_then(|info| info.modified());
    let age = modified.map(|at| SystemTime::now().duration_since(at));
    changed(day) == before && matches!(age, Ok(Ok(age)) if age > SETTLED_AFTER)
}

fn held_in(day: &Path) -> Held {
    let items = fs::read_dir(day).into_iter().flatten().flatten();
    let contents = items.filter(|item| names::is_content(&item.file_name()));
    contents
        .filter_map(|item| item.metadata().ok())
        .filter(fs::Metadata::is_file)
        .map(|info| Held {
            bytes: info.len(),
            entries: 1,
        })
        .fold(Held::default(), Held::plus)
}
