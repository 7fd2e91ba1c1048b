//! Following the trail as it grows, across rotations.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use crate::clock;
use crate::error::{TrailError, io_at};
use crate::folders::Folders;
use crate::fsx::Identity;
use crate::limits::MAX_LINE;
use crate::lines::Lines;
use crate::read::{Filter, Item, last_of, torn_note};
use crate::record::Stored;
use crate::rolling::{Part, snapshot};

/// Where a follower begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With the oldest record that is kept.
    Oldest,
    /// With so many of the last records, and whatever comes after them.
    Last(usize),
    /// With the next record.
    Now,
}

/// Follows the trail: gives every record once, in the order written.
///
/// It keeps its file open, so a rotation takes nothing from it: it reads the rotated file to its
/// end and goes on with the one after it, found by identity and not by name.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    filter: Filter,
    reading: Option<Reading>,
    waiting: Vec<Item>,
    /// The last record seen of each session, to tell what is new after the files were replaced.
    seen: HashMap<String, u64>,
    /// Whether what was seen before may come again.
    resuming: bool,
    /// When following began, if older records were not wanted.
    opened: Option<String>,
    last_note: Option<String>,
}

#[derive(Debug)]
struct Reading {
    file: File,
    path: PathBuf,
    id: Identity,
    offset: u64,
}

impl Reading {
    fn of(part: Part, offset: u64) -> Self {
        let Part { file, path, id, .. } = part;
        Self {
            file,
            path,
            id,
            offset,
        }
    }
}

/// How far one pass over a file came.
#[derive(PartialEq)]
enum Pass {
    /// To the end of what is there.
    End,
    /// As far as one poll goes.
    Full,
}

impl Follower {
    /// Begins to follow. There need be no log yet.
    ///
    /// # Errors
    /// [`TrailError::Io`] if a log is there and cannot be read.
    pub fn open(folders: &Folders, filter: Filter, start: Start) -> Result<Self, TrailError> {
        let path = folders.activity();
        let (mut parts, ()) = snapshot(&path, || Ok(())).map_err(io_at("open the log", &path))?;
        let waiting = match start {
            Start::Last(count) => last_of(&parts, count, &filter)?,
            Start::Oldest | Start::Now => Vec::new(),
        };
        let part = match start {
            Start::Oldest if !parts.is_empty() => Some((parts.remove(0), 0)),
            Start::Oldest => None,
            Start::Last(_) | Start::Now => parts.pop().map(|p| {
                let size = p.size;
                (p, size)
            }),
        };
        Ok(Self {
            path,
            filter,
            reading: part.map(|(part, offset)| Reading::of(part, offset)),
            waiting,
            seen: HashMap::new(),
            resuming: false,
            opened: (start != Start::Oldest).then(clock::now),
            last_note: None,
        })
    }

    /// What came since the last call; at most a few megabytes at a time, so call it again at once
    /// while it gives something. Trouble with reading is told by a note, once.
    pub fn poll(&mut self) -> Vec<Item> {
        let mut items = std::mem::take(&mut self.waiting);
        if let Err(e) = self.read_on(&mut items) {
            let note = format!("could not read {}: {e}", self.path.display());
            if self.last_note.as_ref() != Some(&note) {
                items.push(Item::Note(note.clone()));
                self.last_note = Some(note);
            }
        } else {
            self.last_note = None;
        }
        items
    }

    fn read_on(&mut self, items: &mut Vec<Item>) -> io::Result<()> {
        loop {
            let Some(reading) = &self.reading else {
                let (parts, ()) = snapshot(&self.path, || Ok(()))?;
                let Some(first) = parts.into_iter().next() else {
                    return Ok(());
                };
                self.reading = Some(Reading::of(first, 0));
                continue;
            };
            // Asked before reading: once renamed, a file is not written any more.
            let is_final = Identity::at(&self.path)? != Some(reading.id);
            if self.pass(is_final, items)? == Pass::Full || !is_final || !self.go_on(items)? {
                return Ok(());
            }
        }
    }

    /// Reads what is there of the present file.
    fn pass(&mut self, is_final: bool, items: &mut Vec<Item>) -> io::Result<Pass> {
        let Some(reading) = &mut self.reading else {
            return Ok(Pass::End);
        };
        let size = reading.file.metadata()?.len();
        if size < reading.offset {
            items.push(Item::Note(format!(
                "{} became shorter while it was followed: it was edited or truncated",
                reading.path.display()
            )));
            reading.offset = 0;
            self.resuming = true;
        }
        let begin = reading.offset;
        let mut lines = Lines::new(reading.file.try_clone()?, begin, size);
        while let Some(line) = lines.next_line()? {
            if !line.ended && !is_final {
                break;
            }
            reading.offset = line.next;
            match Stored::parse(line.bytes) {
                Some(record) => {
                    let again =
                        self.resuming && is_old(&self.seen, self.opened.as_deref(), &record);
                    if again {
                        continue;
                    }
                    note_seen(&mut self.seen, &record);
                    if self.filter.accepts(&record) {
                        items.push(Item::Record(Box::new(record)));
                    }
                }
                None if line.bytes.is_empty() => {}
                None => {
                    let number = count_lines(&reading.file, reading.offset)?;
                    let note = torn_note(&reading.path, number, line.bytes.len());
                    items.push(Item::Note(note));
                }
            }
            if reading.offset - begin >= MAX_LINE as u64 {
                return Ok(Pass::Full);
            }
        }
        if !is_final {
            self.resuming = false;
        }
        Ok(Pass::End)
    }

    /// Goes on to the file after the present one; `false` if there is none yet.
    fn go_on(&mut self, items: &mut Vec<Item>) -> io::Result<bool> {
        let Some(id) = self.reading.as_ref().map(|r| r.id) else {
            return Ok(false);
        };
        let (mut parts, ()) = snapshot(&self.path, || Ok(()))?;
        let next = match parts.iter().position(|part| part.id == id) {
            Some(at) => at + 1,
            None => {
                items.push(Item::Note(
                    "the file that was followed is gone (rotated away, or replaced by hand): \
                     records may be missing here"
                        .into(),
                ));
                self.resuming = true;
                0
            }
        };
        if next >= parts.len() {
            return Ok(false);
        }
        self.reading = Some(Reading::of(parts.swap_remove(next), 0));
        Ok(true)
    }
}

/// Lines in the file up to `end`; only asked when one of them is to be named.
fn count_lines(file: &File, end: u64) -> io::Result<u64> {
    let mut lines = Lines::new(file.try_clone()?, 0, end);
    let mut count = 0;
    while let Some(line) = lines.next_line()? {
        count = line.number;
    }
    Ok(count)
}

/// Whether a record that may come again was seen, or is from before following began.
fn is_old(seen: &HashMap<String, u64>, opened: Option<&str>, record: &Stored) -> bool {
    let Some((id, seq)) = record.session_id.as_ref().zip(record.seq) else {
        return false;
    };
    match seen.get(id) {
        Some(last) => seq <= *last,
        // Times have one fixed form, so they compare as text.
        None => opened.is_some_and(|opened| record.ts.as_deref() < Some(opened)),
    }
}

fn note_seen(seen: &mut HashMap<String, u64>, record: &Stored) {
    let Some((id, seq)) = record.session_id.as_deref().zip(record.seq) else {
        return;
    };
    match seen.get_mut(id) {
        Some(last) => *last = seq,
        None => {
            seen.insert(id.to_owned(), seq);
        }
    }
}
