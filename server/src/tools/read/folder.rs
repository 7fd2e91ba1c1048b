//! A folder's entries.

use crate::limits;
use crate::outcome::{Outcome, system};
use hands_policy::paths::Target;
use rustix::fs::{self, AtFlags, Dir, FileType};
use serde_json::{Value, json};
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

pub(super) fn list(target: &Target) -> Result<Outcome, Outcome> {
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
    names.truncate(limits::FOLDER_ENTRIES);
    let entries: Vec<Entry> = names
        .iter()
        .filter_map(|name| look(&folder, name))
        .collect();
    let mut text = format!("{shown} ({total} entries)\n");
    for entry in &entries {
        text.push_str(&entry.line());
    }
    if total > limits::FOLDER_ENTRIES {
        let cut = total - limits::FOLDER_ENTRIES;
        text.push_str(&format!(
            "[{cut} more entries are not shown; use bash: ls or find]"
        ));
    }
    let data: Vec<Value> = entries.iter().map(Entry::data).collect();
    let mut outcome = Outcome::ok(text)
        .field("path", target.path().to_string_lossy())
        .field("kind", "folder")
        .field("mime", "inode/directory")
        .field("size", total)
        .field("entries", data);
    outcome.truncated = total > limits::FOLDER_ENTRIES;
    Ok(outcome)
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
