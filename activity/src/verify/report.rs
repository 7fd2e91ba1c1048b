//! What verification says.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// The outcome of verifying the trail.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// Whole records that were read.
    pub records: u64,
    /// Sessions they belong to.
    pub sessions: u64,
    /// The first thing that is wrong, in the order of the files; `None` if the trail is intact.
    pub first_bad: Option<Bad>,
    /// What a person may want to know and is not wrong, such as a line torn by a crash.
    pub notes: Vec<String>,
}

/// Where a trail is broken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bad {
    /// The file; `None` where nothing of the session is left in any file.
    pub file: Option<PathBuf>,
    /// The line in it, from 1.
    pub line: Option<u64>,
    /// The number, within its session, of the record that is wrong or missing.
    pub seq: Option<u64>,
    /// The session.
    pub session_id: Option<String>,
    /// What is wrong.
    pub reason: Reason,
}

/// What is wrong with a trail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// The line is not what was written.
    Altered,
    /// A record before this one is missing.
    Removed,
    /// Records stand in another order than they were written.
    Reordered,
    /// The record stands here a second time.
    Duplicated,
    /// The session's last records are missing.
    Cut,
    /// The record was not written with this trail's key.
    Foreign,
    /// All records of the session are missing.
    SessionRemoved,
    /// The head of the session is missing or unreadable, so a cut end could not be seen.
    HeadMissing,
    /// The head names another last record than the log has.
    HeadDiffers,
    /// `floor.json` is not what was written.
    Floor,
    /// The key is missing or unusable.
    Key,
}

impl Reason {
    /// The reason in one sentence.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Altered => "the line was altered after it was written",
            Self::Removed => "one or more records before this one were removed",
            Self::Reordered => "records were put into another order",
            Self::Duplicated => "the record stands here a second time",
            Self::Cut => "the session's last records were cut off after this one",
            Self::Foreign => "the record was not written with this trail's key",
            Self::SessionRemoved => "all records of the session were removed",
            Self::HeadMissing => {
                "the session's head is missing or unreadable, so a cut end could not be seen"
            }
            Self::HeadDiffers => "the session's head names another last record",
            Self::Floor => "the record of what was rotated away was altered",
            Self::Key => "the trail's key is missing or unusable, so nothing can be verified",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.describe())
    }
}

impl Bad {
    pub(super) const fn of_file(file: PathBuf, reason: Reason) -> Self {
        Self {
            file: Some(file),
            line: None,
            seq: None,
            session_id: None,
            reason,
        }
    }
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}", file.display())?;
            if let Some(line) = self.line {
                write!(f, " line {line}")?;
            }
            f.write_str(": ")?;
        }
        if let Some(session) = &self.session_id {
            write!(f, "session {session}")?;
            if let Some(seq) = self.seq {
                write!(f, ", record {seq}")?;
            }
            f.write_str(": ")?;
        }
        write!(f, "{}", self.reason)
    }
}
