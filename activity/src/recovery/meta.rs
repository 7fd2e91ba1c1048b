//! The record beside a recovery file.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::Stat;
use serde::{Deserialize, Serialize};

use super::entry::{Entry, Kind, Stamp, id_of};
use super::names;
use crate::clock;
use crate::fsx::{self, clip, hex};
use crate::limits::{MAX_SESSION_ID, MAX_STRING};
use crate::redact;

/// Bytes of a record that are read; a path and a reason fit many times.
const MAX_META: u64 = 64 * 1024;

/// What is to be kept, but for the content.
#[derive(Debug, Clone)]
pub(super) struct Purpose<'a> {
    pub(super) kind: Kind,
    pub(super) origin: Option<&'a Path>,
    pub(super) turn_id: &'a str,
    pub(super) name: &'a str,
    pub(super) reason: &'a str,
    pub(super) facts: Option<Facts>,
    pub(super) pending: Option<Pending>,
    pub(super) durable: bool,
}

/// What is known of the file that a content comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) mode: u32,
    pub(super) modified: Stamp,
}

impl Facts {
    #[allow(
        clippy::unnecessary_cast,
        clippy::useless_conversion,
        reason = "the types differ between systems"
    )]
    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            mode: u32::from(stat.st_mode) & 0o7777,
            modified: Stamp {
                s: stat.st_mtime as i64,
                ns: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
            },
        }
    }
}

/// A file that is about to be moved here, and the name under which it lies just before that. If the
/// mover is killed in between, it is found there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pending {
    at: Bytes,
    dev: u64,
    ino: u64,
    size: u64,
    modified: Stamp,
}

impl Pending {
    #[allow(
        clippy::unnecessary_cast,
        clippy::useless_conversion,
        reason = "the types differ between systems"
    )]
    pub(super) fn new(at: &Path, stat: &Stat) -> Self {
        Self {
            at: Bytes::of(at),
            dev: stat.st_dev as u64,
            ino: stat.st_ino as u64,
            size: stat.st_size as u64,
            modified: Facts::of(stat).modified,
        }
    }

    pub(super) fn at(&self) -> Option<PathBuf> {
        self.at.path()
    }

    /// Whether this is the file that was to be moved, unchanged.
    pub(super) fn is(&self, stat: &Stat) -> bool {
        *self == Self::new(&self.at().unwrap_or_default(), stat)
    }
}

/// A path, kept without loss even if it is not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Bytes {
    Text(PathBuf),
    Hex { hex: String },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Meta {
    #[serde(default)]
    kind: Option<Kind>,
    #[serde(default)]
    origin: Option<Bytes>,
    turn_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    ts: String,
    #[serde(default)]
    reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sha256: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mode: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    modified: Option<Stamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pending: Option<Pending>,
}

impl Meta {
    pub(super) fn new(
        purpose: &Purpose<'_>,
        session_id: Option<&str>,
        content: Option<(u64, String)>,
    ) -> Self {
        let (bytes, sha256) = content.unzip();
        Self {
            kind: Some(purpose.kind),
            origin: purpose.origin.map(Bytes::of),
            turn_id: purpose.turn_id.to_owned(),
            session_id: session_id.map(|id| clip(id, MAX_SESSION_ID).to_owned()),
            ts: clock::now(),
            reason: redact::text(clip(purpose.reason, MAX_STRING)),
            bytes,
            sha256,
            mode: purpose.facts.map(|facts| facts.mode),
            modified: purpose.facts.map(|facts| facts.modified),
            pending: purpose.pending.clone(),
        }
    }

    /// The same record, of a content of this size and SHA-256.
    pub(super) fn with_content(self, bytes: u64, sha256: String) -> Self {
        Self {
            bytes: Some(bytes),
            sha256: Some(sha256),
            ..self
        }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        // Serialising plain strings and numbers does not fail.
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    pub(super) fn load(path: &Path) -> Option<Self> {
        let mut bytes = Vec::new();
        let file = fsx::open_read(path).ok()??;
        file.take(MAX_META).read_to_end(&mut bytes).ok()?;
        let meta: Self = serde_json::from_slice(&bytes).ok()?;
        // An origin that cannot be read is not the same as none: none would lift its protection.
        let readable = meta.origin.as_ref().is_none_or(|o| o.path().is_some());
        // Nor may a record that lacks the origin of a file pass for that of an output.
        let stated = meta.origin.is_some() || meta.kind.is_none_or(|kind| kind == Kind::Output);
        (readable && stated).then_some(meta)
    }

    pub(super) fn origin(&self) -> Option<PathBuf> {
        self.origin.as_ref().and_then(Bytes::path)
    }

    /// The entry whose content lies at `path` in so many bytes.
    pub(super) fn into_entry(self, path: PathBuf, stored_bytes: u64) -> Entry {
        let packed = path.file_name().is_some_and(names::is_packed);
        let bytes = match packed {
            true => self.bytes.unwrap_or(0),
            false => stored_bytes,
        };
        let origin = self.origin();
        let otherwise = match origin {
            Some(_) => Kind::File,
            None => Kind::Output,
        };
        Entry {
            id: id_of(&path),
            ts: self.ts,
            kind: self.kind.unwrap_or(otherwise),
            origin,
            turn_id: self.turn_id,
            session_id: self.session_id,
            reason: self.reason,
            bytes,
            sha256: self.sha256,
            mode: self.mode,
            modified: self.modified,
            path,
            packed,
            stored_bytes,
        }
    }
}

impl Bytes {
    pub(super) fn of(path: &Path) -> Self {
        match path.to_str() {
            Some(_) => Self::Text(path.to_path_buf()),
            None => Self::Hex {
                hex: hex(path.as_os_str().as_bytes()),
            },
        }
    }

    pub(super) fn path(&self) -> Option<PathBuf> {
        match self {
            Self::Text(path) => Some(path.clone()),
            Self::Hex { hex } => Some(PathBuf::from(OsString::from_vec(unhex(hex)?))),
        }
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok()))
        .collect();
    let digits = digits?;
    let pairs = digits.chunks_exact(2);
    pairs
        .remainder()
        .is_empty()
        .then(|| digits.chunks_exact(2).map(|p| p[0] << 4 | p[1]).collect())
}
