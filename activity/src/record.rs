//! Records: as they are given, as they are written, as they are read back.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use time::OffsetDateTime;

use crate::clock;
use crate::error::TrailError;
use crate::fsx::clip;
use crate::limits::{MAX_FIELD, MAX_TOOL_NAME};
use crate::redact;
use crate::shorten;

/// What a record is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Event {
    /// A tool call that came in.
    Call,
    /// The answer to it.
    Result,
    /// A call that a guardrail refused.
    Denied,
    /// A grant that was given, used or ended.
    Grant,
    /// A permission that was asked for.
    Permission,
    /// Anything else worth keeping.
    #[default]
    Note,
}

impl Event {
    /// Every event there is.
    pub const ALL: [Self; 6] = [
        Self::Call,
        Self::Result,
        Self::Denied,
        Self::Grant,
        Self::Permission,
        Self::Note,
    ];

    /// The event's name in a record.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Result => "result",
            Self::Denied => "denied",
            Self::Grant => "grant",
            Self::Permission => "permission",
            Self::Note => "note",
        }
    }
}

impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for Event {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|event| event.as_str() == text)
            .ok_or_else(|| {
                format!(
                    "{text:?} is no event of the trail; use call, result, denied, grant, \
                     permission or note"
                )
            })
    }
}

/// One record to be appended. What is `None` or empty is left out of the line.
///
/// `args` and `message` are redacted and shortened when the record is written, so they are given
/// as they came.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Record {
    /// The turn the record belongs to; empty if it belongs to none.
    pub turn_id: String,
    /// What the record is about.
    pub event: Event,
    /// The tool that was called.
    pub tool: Option<String>,
    /// Its arguments.
    pub args: Option<Value>,
    /// How the call ended, in one word (`ok`, `failed`, `refused`, …).
    pub status: Option<String>,
    /// The diagnostic code of the tool contract.
    pub code: Option<String>,
    /// Why a call was refused or failed.
    pub message: Option<String>,
    /// Milliseconds the call took.
    pub duration_ms: Option<u64>,
    /// Bytes of the answer.
    pub bytes_out: Option<u64>,
    /// Whether the answer was cut.
    pub truncated: Option<bool>,
    /// The recovery file that belongs to the call.
    pub recovery: Option<PathBuf>,
}

impl Record {
    /// A record of `event` in turn `turn_id`, all else empty.
    #[must_use]
    pub fn new(event: Event, turn_id: impl Into<String>) -> Self {
        Self {
            turn_id: turn_id.into(),
            event,
            ..Self::default()
        }
    }
}

/// The program at the other end of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// Its name, as it gave it.
    #[serde(default)]
    pub name: String,
    /// Its version, as it gave it.
    #[serde(default)]
    pub version: String,
}

/// A string as the trail keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Text {
    /// All of it.
    Whole(String),
    /// A string over 2 KiB.
    Cut {
        /// How it begins.
        head: String,
        /// Bytes of the whole.
        length: u64,
        /// SHA-256 of the whole in hexadecimal; left out if the string held a secret.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sha256: Option<String>,
    },
}

impl Text {
    /// The string, or what is left of it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Whole(text) => text,
            Self::Cut { head, .. } => head,
        }
    }
}

/// A record read back from the trail.
///
/// Every field may be missing: a trail written by another version, or edited, is still shown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    /// When it was written, RFC 3339 in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ts: Option<String>,
    /// Its number within the session, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The turn it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// The session it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// What it is about; a name of [`Event`] or one of a later version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The tool that was called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Its arguments, redacted, long strings cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
    /// How the call ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The diagnostic code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Why the call was refused or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Text>,
    /// Milliseconds the call took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Bytes of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_out: Option<u64>,
    /// Whether the answer was cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
    /// The recovery file that belongs to the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<String>,
    /// The program at the other end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<Client>,
    /// The process that wrote the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The link of the chain, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// The line as it is in the file, without its newline.
    #[serde(skip)]
    pub line: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Stored {
    /// Reads a line; nothing if it is not a whole record.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(line).ok()?;
        let mut stored: Self = serde_json::from_str(text).ok()?;
        text.clone_into(&mut stored.line);
        Some(stored)
    }

    /// When the record was written, if its time can be read.
    #[must_use]
    pub fn time(&self) -> Option<OffsetDateTime> {
        self.ts.as_deref().and_then(clock::parse)
    }
}

/// What is the same for every record of a session at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'a> {
    pub(crate) ts: &'a str,
    pub(crate) seq: u64,
    pub(crate) session_id: &'a str,
    pub(crate) client: Option<&'a Client>,
}

/// The part of a record that needs no lock and no place in the chain: redacted and shortened.
#[derive(Debug)]
pub(crate) struct Prepared {
    turn_id: String,
    event: Event,
    tool: Option<String>,
    args: Option<Value>,
    status: Option<String>,
    code: Option<String>,
    message: Option<Text>,
    duration_ms: Option<u64>,
    bytes_out: Option<u64>,
    truncated: Option<bool>,
    recovery: Option<String>,
}

/// The fields of a line in the order they are written.
#[derive(Serialize)]
struct Line<'a> {
    ts: &'a str,
    seq: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    turn_id: &'a str,
    session_id: &'a str,
    event: Event,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_out: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recovery: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<&'a Client>,
    pid: u32,
}

/// A field that is only ever a short name.
pub(crate) fn short(text: &str) -> String {
    clip(text, MAX_FIELD).to_owned()
}

/// A tool's name comes from the client and may be anything.
fn tool_name(name: &str) -> String {
    let known = |b: u8| b.is_ascii_lowercase() || b == b'_';
    if name.len() <= MAX_TOOL_NAME && name.bytes().all(known) {
        return name.to_owned();
    }
    short(&redact::text(clip(name, MAX_FIELD)))
}

impl Prepared {
    pub(crate) fn from(record: Record) -> Self {
        let short_or_none = |field: Option<String>| field.as_deref().map(short);
        Self {
            turn_id: short(&record.turn_id),
            event: record.event,
            tool: record.tool.as_deref().map(tool_name),
            args: record.args.as_ref().map(shorten::args),
            status: short_or_none(record.status),
            code: short_or_none(record.code),
            message: record.message.as_deref().map(shorten::text),
            duration_ms: record.duration_ms,
            bytes_out: record.bytes_out,
            truncated: record.truncated,
            recovery: record.recovery.map(|p| p.to_string_lossy().into_owned()),
        }
    }

    /// The line without its mac: one JSON object, no newline.
    pub(crate) fn encode(&self, frame: Frame<'_>) -> Result<Vec<u8>, TrailError> {
        let line = Line {
            ts: frame.ts,
            seq: frame.seq,
            turn_id: &self.turn_id,
            session_id: frame.session_id,
            event: self.event,
            tool: self.tool.as_deref(),
            args: self.args.as_ref(),
            status: self.status.as_deref(),
            code: self.code.as_deref(),
            message: self.message.as_ref(),
            duration_ms: self.duration_ms,
            bytes_out: self.bytes_out,
            truncated: self.truncated,
            recovery: self.recovery.as_deref(),
            client: frame.client,
            pid: std::process::id(),
        };
        serde_json::to_vec(&line).map_err(|e| TrailError::Encode {
            turn_id: self.turn_id.clone(),
            reason: e.to_string(),
        })
    }
}
