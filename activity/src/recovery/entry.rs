//! One recovery file, as its record tells it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::names;
use crate::fsx::hex;

/// What an entry was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A regular file: the content is what it held.
    File,
    /// A symbolic link: the content is where it led.
    Symlink,
    /// A folder that was empty when it went: there is no content.
    Folder,
    /// The output of a tool, which was never a file of the person's.
    Output,
}

impl Kind {
    /// Its name in records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Symlink => "symlink",
            Self::Folder => "folder",
            Self::Output => "output",
        }
    }
}

/// A time of a file, to the nanosecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stamp {
    /// Seconds since 1970.
    pub s: i64,
    /// Nanoseconds within the second.
    pub ns: u32,
}

/// One recovery file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// A short name, the same for as long as the entry is there.
    pub id: String,
    /// When it was kept, RFC 3339 in UTC.
    pub ts: String,
    /// What it was.
    pub kind: Kind,
    /// The file the content came from; `None` if it is a tool's output.
    pub origin: Option<PathBuf>,
    /// The turn that made it.
    pub turn_id: String,
    /// The session of that turn, if it was one's.
    pub session_id: Option<String>,
    /// Why, in a few words.
    pub reason: String,
    /// Size of the content in bytes.
    pub bytes: u64,
    /// SHA-256 of the content in hexadecimal; `None` where it was moved here or written by another
    /// process.
    pub sha256: Option<String>,
    /// Permission bits that the file had.
    pub mode: Option<u32>,
    /// When it had been changed last.
    pub modified: Option<Stamp>,
    /// Where the content is.
    pub path: PathBuf,
    /// Whether it is compressed (gzip) there.
    pub packed: bool,
    /// Bytes that it takes there.
    pub stored_bytes: u64,
}

impl Entry {
    /// The path under which it was kept at first, before it was compressed.
    #[must_use]
    pub fn first_path(&self) -> PathBuf {
        names::plain_path(&self.path)
    }
}

/// The short name of the entry that was kept at `path`.
pub(super) fn id_of(path: &Path) -> String {
    let mut hash = Sha256::new();
    let plain = names::plain_path(path);
    let day = plain.parent().and_then(Path::file_name);
    for part in [day, plain.file_name()].into_iter().flatten() {
        hash.update(part.as_encoded_bytes());
        hash.update(b"/");
    }
    let digest = hex(&hash.finalize());
    format!("r{}", &digest[..12])
}
