//! Verifying the trail: every record against the one before it, every chain against its head.
//!
//! Records of different sessions are not chained to each other, so exchanging two lines of
//! different sessions changes nothing that is promised and is not found.

mod damage;
mod judge;
mod report;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::chain::{Key, Mac, Place, Previous, unseal};
use crate::error::{TrailError, io_at};
use crate::folders::Folders;
use crate::heads::{self, ChainFiles, Floor, FloorState, HeadState};
use crate::lines::{Line, Lines};
use crate::read::torn_note;
use crate::rolling::{Part, snapshot};
use damage::{Damage, Kind};
pub use report::{Bad, Reason, VerifyReport};

/// Where a line is; in the order of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct At {
    part: usize,
    line: u64,
}

impl At {
    /// Before any line, and after all of them.
    const START: Self = Self { part: 0, line: 0 };
    const END: Self = Self {
        part: usize::MAX,
        line: u64::MAX,
    };
}

/// Whether a record follows from the one before it in its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Good,
    Wrong,
    /// The one before it is not there and its mac is not known.
    Unknown,
}

/// One whole record.
#[derive(Debug)]
struct Step {
    at: At,
    seq: u64,
    mac: Mac,
    link: Link,
}

/// All that was read.
#[derive(Debug, Default)]
struct Scan {
    names: Vec<PathBuf>,
    chains: BTreeMap<String, Vec<Step>>,
    damages: Vec<Damage>,
    heads: BTreeMap<String, HeadState>,
    floor: Floor,
    records: u64,
    /// Whether any record is linked as this trail's key links them.
    any_good: bool,
}

/// Checks the whole trail and names the first bad record. A trail that does not exist yet is good.
///
/// # Errors
/// [`TrailError::Io`] if the files cannot be read; what is wrong with their content is in the
/// report.
pub fn verify(folders: &Folders) -> Result<VerifyReport, TrailError> {
    let files = ChainFiles::in_dir(&folders.trail);
    let key = match Key::load(&files.key) {
        Ok(key) => key,
        Err(TrailError::Key { .. }) => None,
        Err(other) => return Err(other),
    };
    let path = folders.activity();
    let (parts, (heads, floor)) = snapshot(&path, || {
        let heads = heads::read_all(&files.heads)?;
        let floor = match &key {
            Some(key) => Floor::load(&files.floor, key)?,
            None => FloorState::Good(Floor::default()),
        };
        Ok((heads, floor))
    })
    .map_err(io_at("open the log", &path))?;
    let mut notes = Vec::new();
    let (floor, floor_is_bad) = match floor {
        FloorState::Good(floor) => (floor, false),
        FloorState::Damaged => (Floor::default(), true),
    };
    let mut scan = Scan {
        heads,
        floor,
        ..Scan::default()
    };
    for part in parts {
        scan.read(part, key.as_ref(), &mut notes)?;
    }
    let mut bad = scan.judge(key.is_some(), &mut notes);
    if floor_is_bad {
        bad = Some(Bad::of_file(files.floor, Reason::Floor));
    }
    let has_content = scan.records > 0 || !scan.heads.is_empty();
    if key.is_none() && has_content {
        bad = Some(Bad::of_file(files.key, Reason::Key));
    }
    Ok(VerifyReport {
        records: scan.records,
        sessions: scan.chains.len() as u64,
        first_bad: bad,
        notes,
    })
}

impl Scan {
    fn read(
        &mut self,
        part: Part,
        key: Option<&Key>,
        notes: &mut Vec<String>,
    ) -> Result<(), TrailError> {
        let Part {
            file, path, size, ..
        } = part;
        let number = self.names.len();
        self.names.push(path.clone());
        let mut lines = Lines::new(file, 0, size);
        while let Some(line) = lines.next_line().map_err(io_at("read the log", &path))? {
            self.line(&line, number, key, &path, notes);
        }
        Ok(())
    }

    fn line(
        &mut self,
        line: &Line<'_>,
        part: usize,
        key: Option<&Key>,
        path: &Path,
        notes: &mut Vec<String>,
    ) {
        let at = At {
            part,
            line: line.number,
        };
        let sealed = unseal(line.bytes);
        let Some((place, (body, mac))) = Place::of(line.bytes).zip(sealed) else {
            if let Some(damage) = Damage::of(line.bytes, at) {
                if damage.kind == Kind::Torn {
                    notes.push(torn_note(path, line.number, line.bytes.len()));
                }
                self.damages.push(damage);
            }
            return;
        };
        self.records += 1;
        let link = key.map_or(Link::Unknown, |key| self.link(key, &place, &body, mac));
        self.any_good |= link == Link::Good;
        let seq = place.seq;
        let step = Step { at, seq, mac, link };
        self.chains.entry(place.session_id).or_default().push(step);
    }

    /// Holds a record against the one before it in the file, whatever its number says.
    fn link(&self, key: &Key, place: &Place, body: &[u8], mac: Mac) -> Link {
        let id = &place.session_id;
        let before = self.chains.get(id).and_then(|steps| steps.last());
        let floor = self.floor.sessions.get(id);
        let previous = match (before, floor) {
            (Some(step), _) => Previous::Record(step.mac),
            (None, _) if place.seq == 1 => Previous::Session(id),
            (None, Some(end)) if place.seq.checked_sub(1) == Some(end.seq) => {
                Previous::Record(end.mac)
            }
            _ => return Link::Unknown,
        };
        if key.link(previous, body) == mac {
            Link::Good
        } else {
            Link::Wrong
        }
    }
}

#[cfg(test)]
mod tests;
