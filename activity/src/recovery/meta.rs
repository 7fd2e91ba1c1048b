//! The record beside a recovery file.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Entry;
use crate::clock;
use crate::fsx::{self, clip, hex};
use crate::limits::MAX_STRING;
use crate::redact;

/// Bytes of a record that are read; a path and a reason fit many times.
const MAX_META: u64 = 64 * 1024;

/// A path, kept without loss even if it is not UTF-8.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Origin {
    Text(PathBuf),
    Bytes { hex: String },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Meta {
    #[serde(default)]
    origin: Option<Origin>,
    turn_id: String,
    ts: String,
    #[serde(default)]
    reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
}

impl Meta {
    pub(super) fn new(
        origin: Option<&Path>,
        turn_id: &str,
        reason: &str,
        content: Option<(u64, String)>,
    ) -> Self {
        let (bytes, sha256) = content.unzip();
        Self {
            origin: origin.map(Origin::of),
            turn_id: turn_id.to_owned(),
            ts: clock::now(),
            reason: redact::text(clip(reason, MAX_STRING)),
            bytes,
            sha256,
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
        readable.then_some(meta)
    }

    pub(super) fn origin(&self) -> Option<PathBuf> {
        self.origin.as_ref().and_then(Origin::path)
    }

    pub(super) fn into_entry(self, path: PathBuf, bytes: u64) -> Entry {
        Entry {
            path,
            origin: self.origin(),
            turn_id: self.turn_id,
            ts: self.ts,
            reason: self.reason,
            bytes,
            sha256: self.sha256,
        }
    }
}

impl Origin {
    fn of(path: &Path) -> Self {
        match path.to_str() {
            Some(_) => Self::Text(path.to_path_buf()),
            None => Self::Bytes {
                hex: hex(path.as_os_str().as_bytes()),
            },
        }
    }

    fn path(&self) -> Option<PathBuf> {
        match self {
            Self::Text(path) => Some(path.clone()),
            Self::Bytes { hex } => Some(PathBuf::from(OsString::from_vec(unhex(hex)?))),
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
