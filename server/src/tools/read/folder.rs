//! A folder's entries.

use super::Wish;
use crate::limits;
use crate::outcome::{Outcome, system};
use crate::session::Session;
use hands_policy::paths::Target;
use rustix::fs::{self, AtFlags, Dir, FileType};
use serde_json::{Value, json};
use std::ops::Range;
use std::os::fd::OwnedFd;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// One entry, links not followed.
struct Entry {
    name: String,
    kind: &'static str,
    size: Option<u64>,
    mtime: String,
}

pub(super) fn list(session: &Session, wish: &Wish, target: &Target) -> Result<Outcome, Outcome> {
    let folder = target.open_dir()?;
    let shown = target.path().display();
    let failed = |e: rustix::io::Errno| system(format!("listing {shown}"), &e.into());
    let mut names: Vec<Vec<u8>> = Vec::new();
    for entry in Dir::read_from(&folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    names.sort();
    let total = names.len();
    let limit = usize::try_from(wish.limit).unwrap_or(usize::MAX);
    let part = part_of(total, wish.offset, limit.min(limits::FOLDER_ENTRIES));
    let mut text = format!("{shown} ({total} entries)\n");
    let mut data = Vec::new();
    let mut end = part.start;
    for name in &names[part.clone()] {
        if text.len() as u64 > session.config.limits.read_bytes {
            break;
        }
        end += 1;
        if let Some(entry) = look(&folder, name) {
            text.push_str(&entry.line());
            data.push(entry.data());
        }
    }
    text.push_str(&note(part.start, end, total));
    let mut outcome = Outcome::ok(text)
        .field("path", target.path().to_string_lossy())
        .field("kind", "folder")
        .field("mime", "inode/directory")
        .field("total_entries", total)
        .field("entries", data);
    outcome.truncated = end < total;
    Ok(outcome)
}

/// The entries from `offset` on: from 1, or negative from the end, as for lines.
fn part_of(total: usize, offset: Option<i64>, limit: usize) -> Range<usize> {
    let offset = offset.unwrap_or(1);
    let far = usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX);
    let start = match offset < 0 {
        true => total.saturating_sub(far),
        false => far.saturating_sub(1).min(total),
    };
    start..start.saturating_add(limit).min(total)
}

/// Which part of the entries was shown, unless it is all, and how to go on.
fn note(start: usize, end: usize, total: usize) -> String {
    let next = match end < total {
        true => format!("; go on with offset {}", end + 1),
        false => String::new(),
    };
    match (start, end) {
        (0, end) if end == total => String::new(),
        (start, end) if start == end => format!("[no such entry: the folder has {total}]"),
        (start, end) => format!("[entries {}–{end} of {total}{next}]", start + 1),
    }
}

/// `None` for an entry that went away meanwhile.
fn look(folder: &OwnedFd, name: &[u8]) -> Option<Entry> {
    let stat = fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    #[allow(
        clippy::unnecessary_cast,
        reason = "the field's type differs between platforms"
    )]
    let kind = match FileType::from_raw_mode(stat.st_mode as fs::RawMode) {
        FileType::RegularFile => "file",
        FileType::Directory => "folder",
        FileType::Symlink => "link",
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
        FileType::CharacterDevice | FileType::BlockDevice => "device",
        FileType::Unknown => "unknown",
    };
    #[allow(
        clippy::unnecessary_cast,
        reason = "the field's type differs between platforms"
    )]
    let mtime = OffsetDateTime::from_unix_timestamp(stat.st_mtime as i64).ok()?;
    Some(Entry {
        name: String::from_utf8_lossy(name).into_owned(),
        kind,
        size: (kind == "file").then(|| u64::try_from(stat.st_size).unwrap_or(0)),
        mtime: mtime.format(&Rfc3339).unwrap_or_default(),
    })
}

impl Entry {
    fn line(&self) -> String {
        let size = self
            .size
            .map_or_else(|| "-".into(), |size| size.to_string());
        // A name with a line end in it must not look like two entries.
        let name: String = self.name.chars().flat_map(visible).collect();
        format!("{:<6} {size:>12}  {}  {name}\n", self.kind, self.mtime)
    }

    fn data(&self) -> Value {
        let mut data = json!({"name": self.name, "type": self.kind, "mtime": self.mtime});
        if let (Some(size), Some(map)) = (self.size, data.as_object_mut()) {
            map.insert("size".into(), size.into());
        }
        data
    }
}

fn visible(c: char) -> Vec<char> {
    match c.is_control() {
        true => c.escape_default().collect(),
        false => vec![c],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_counted_as_lines_are() {
        assert_eq!(part_of(10, None, 4), 0..4);
        assert_eq!(part_of(10, Some(0), 4), 0..4);
        assert_eq!(part_of(10, Some(9), 4), 8..10);
        assert_eq!(part_of(10, Some(-3), 2), 7..9);
        assert_eq!(part_of(10, Some(-99), 99), 0..10);
        assert_eq!(part_of(10, Some(11), 4), 10..10);
        assert_eq!(part_of(10, Some(i64::MIN), usize::MAX), 0..10);
    }

    #[test]
    fn a_part_says_how_to_go_on() {
        assert_eq!(note(0, 3, 3), "");
        assert_eq!(note(0, 0, 0), "");
        assert_eq!(note(0, 2, 3), "[entries 1–2 of 3; go on with offset 3]");
        assert_eq!(note(2, 3, 3), "[entries 3–3 of 3]");
        assert_eq!(note(3, 3, 3), "[no such entry: the folder has 3]");
    }
}
