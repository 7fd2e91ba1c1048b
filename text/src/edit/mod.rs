//! The edit engine: exact changes to a file's bytes.
//!
//! # Rules
//! * Edits apply in order, all or none. `Replace` searches the content as the edits before it left it; line numbers of
//!   `Lines` and `Insert` are those of the file before this call. An edit by line that touches what an earlier edit of
//!   the list changed is an [`EditError::Overlap`].
//! * What no edit names keeps its bytes: byte order mark, invalid sequences, mixed line ends, a missing final newline,
//!   alternative byte forms of a character. Of a replaced stretch only what differs between the common beginning and
//!   the common end of old and new is written.
//! * A `\n` or `\r\n` in `old` matches any line end. In `new` it is written as the line end in its place: those of
//!   lines that stay keep theirs, added ones take the neighbouring line's. A lone `\r` in `old` makes that edit
//!   literal: `old` and `new` are then taken exactly as given.
//! * `new` is literal text: no `$1`, no escapes.
//! * A `Replace` whose `old` and `new` are the same is [`EditError::NoChange`]; `Lines` that are rewritten as they were
//!   are not an error.
//! * `Lines`: a missing newline at the end of `new` is added, and a last line without one stays without one. An empty
//!   `new` deletes the lines with their line ends. `Insert` at `total_lines + 1` appends: a last line that lacks its line
//!   end gets one, and then the appended last line lacks it.
//! * Invalid sequences never match, not even U+FFFD.

mod by_line;
mod eols;
mod error;
mod find;
mod near;
mod ops;
mod pieces;
mod reduce;

pub use error::{Difference, EditError, Near};

use crate::encoding::Detected;
use crate::lines::Eol;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Exact text for exact text.
    Replace {
        /// The text to replace; not empty.
        old: String,
        /// The text in its place; may be empty.
        new: String,
        /// Replace every occurrence instead of asking for exactly one.
        replace_all: bool,
        /// Occurrences that must be there (at least 1); all of them are replaced.
        expected_count: Option<u64>,
    },
    /// Whole lines for whole lines.
    Lines {
        /// First line, from 1.
        start_line: usize,
        /// Last line, inclusive.
        end_line: usize,
        /// The lines in their place; empty to delete them.
        new: String,
    },
    /// New lines before a line.
    Insert {
        /// The line before which to insert, from 1; `total_lines + 1` appends.
        insert_at: usize,
        /// The lines to insert; not empty (a blank line is `"\n"`).
        new: String,
    },
}

/// The outcome of edits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The file's new bytes.
    pub bytes: Vec<u8>,
    /// How the file was read, and how the inserted text was written.
    pub detected: Detected,
    /// The line ends of the file before the edits.
    pub eol: Eol,
    /// Places that were replaced, lines and insertions counted once each.
    pub replacements: usize,
    /// The text before, for a diff; U+FFFD for invalid sequences.
    pub old_text: String,
    /// The text after.
    pub new_text: String,
}

impl Applied {
    /// The encoding's name, such as `utf-8`.
    pub fn encoding(&self) -> String {
        self.detected.name()
    }

    /// Whether any byte changed.
    pub fn changed(&self) -> bool {
        self.old_text != self.new_text
    }
}

/// Applies edits to the bytes of a file.
///
/// `declared` names the encoding where the caller knows it; otherwise it is detected.
///
/// # Errors
/// The first edit that cannot be done; nothing is applied then.
pub fn apply(bytes: &[u8], edits: &[Edit], declared: Option<&str>) -> Result<Applied, EditError> {
    ops::apply(bytes, edits, declared)
}

#[cfg(test)]
mod tests;
