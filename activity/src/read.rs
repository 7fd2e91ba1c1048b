//! Reading the trail back: filters, the last records.

use std::path::Path;

use memchr::{memchr_iter, memrchr};
use time::OffsetDateTime;

use crate::error::{TrailError, io_at};
use crate::folders::Folders;
use crate::lines::read_at;
use crate::record::{Event, Stored};
use crate::rolling::{Part, snapshot};

/// Which records are wanted; what is `None` does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Records of this tool.
    pub tool: Option<String>,
    /// Records with this diagnostic code.
    pub code: Option<String>,
    /// Records of this turn.
    pub turn_id: Option<String>,
    /// Records of this session.
    pub session: Option<String>,
    /// Records about this.
    pub event: Option<Event>,
    /// Records written then or later.
    pub since: Option<OffsetDateTime>,
    /// Records written then or earlier.
    pub until: Option<OffsetDateTime>,
}

impl Filter {
    /// Whether a record is wanted. One without a readable time is never within a time span.
    #[must_use]
    pub fn accepts(&self, record: &Stored) -> bool {
        let same = |wanted: &Option<String>, is: &Option<String>| {
            wanted.is_none() || wanted.as_deref() == is.as_deref()
        };
        let event = self.event.map(|e| e.as_str().to_owned());
        same(&self.tool, &record.tool)
            && same(&self.code, &record.code)
            && same(&self.turn_id, &record.turn_id)
            && same(&self.session, &record.session_id)
            && same(&event, &record.event)
            && self.in_time(record)
    }

    fn in_time(&self, record: &Stored) -> bool {
        if self.since.is_none() && self.until.is_none() {
            return true;
        }
        record.time().is_some_and(|at| {
            self.since.is_none_or(|since| at >= since) && self.until.is_none_or(|until| at <= until)
        })
    }
}

/// What a reader finds in the trail.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// A record.
    Record(Box<Stored>),
    /// Something a person should know: a line torn by a crash, records missed.
    Note(String),
}

/// The last `count` records that `filter` accepts, oldest first, with notes about damaged lines
/// among them.
///
/// # Errors
/// [`TrailError::Io`] if a log is there and cannot be read. No log at all gives no items.
pub fn read_last(
    folders: &Folders,
    count: usize,
    filter: &Filter,
) -> Result<Vec<Item>, TrailError> {
    let path = folders.activity();
    let (parts, ()) = snapshot(&path, || Ok(())).map_err(io_at("open the log", &path))?;
    last_of(&parts, count, filter)
}

/// The last `count` accepted records of opened files.
pub(crate) fn last_of(
    parts: &[Part],
    count: usize,
    filter: &Filter,
) -> Result<Vec<Item>, TrailError> {
    let mut items = Vec::new();
    let mut wanted = count;
    if wanted == 0 {
        return Ok(items);
    }
    last_lines(parts, &mut |line| {
        match Stored::parse(line.bytes) {
            Some(record) if filter.accepts(&record) => {
                wanted -= 1;
                items.push(Item::Record(Box::new(record)));
            }
            Some(_) => {}
            None if line.bytes.is_empty() => {}
            None => items.push(Item::Note(torn_note(
                line.path,
                line.number(),
                line.bytes.len(),
            ))),
        }
        wanted > 0
    })?;
    items.reverse();
    Ok(items)
}

/// A line met on the way back from the end of a log.
pub(crate) struct BackLine<'a> {
    pub(crate) bytes: &'a [u8],
    path: &'a Path,
    /// What stands before the line in its file.
    before: &'a [u8],
}

impl BackLine<'_> {
    /// The line's number in its file, from 1; costs a look at all that stands before it.
    fn number(&self) -> u64 {
        memchr_iter(b'\n', self.before).count() as u64 + 1
    }
}

/// Shows the lines of opened files, newest first, until `visit` says `false`.
pub(crate) fn last_lines(
    parts: &[Part],
    visit: &mut dyn FnMut(&BackLine<'_>) -> bool,
) -> Result<(), TrailError> {
    for part in parts.iter().rev() {
        let bytes = read_part(part).map_err(io_at("read the log", &part.path))?;
        let mut rest = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        while !rest.is_empty() {
            let begin = memrchr(b'\n', rest).map_or(0, |at| at + 1);
            let line = BackLine {
                bytes: &rest[begin..],
                path: &part.path,
                before: &bytes[..begin],
            };
            if !visit(&line) {
                return Ok(());
            }
            rest = &rest[..begin.saturating_sub(1)];
        }
    }
    Ok(())
}

fn read_part(part: &Part) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(part.size).unwrap_or(usize::MAX)];
    let mut filled = 0;
    while filled < bytes.len() {
        match read_at(&part.file, &mut bytes[filled..], filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// How a reader tells of a line that is no record.
pub(crate) fn torn_note(path: &Path, line: u64, bytes: usize) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!(
        "{name} line {line}: {bytes} bytes that are no whole record were skipped (a write cut \
         short by a crash, or an edit: `handsctl logs verify` tells)"
    )
}
