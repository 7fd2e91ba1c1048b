//! What can be wrong with an edit, said so that the caller can mend it.

use serde::Serialize;

use crate::encoding::{EncodingError, show_char};

/// How a near place differs from the text asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Difference {
    /// Spaces, tabs, indentation or blank lines.
    #[serde(rename = "whitespace")]
    Whitespace,
    /// Straight against curly quotes, hyphens against dashes.
    #[serde(rename = "quotes")]
    Quotes,
    /// A no-break space (or another special space) against a plain one.
    #[serde(rename = "no-break space")]
    NoBreakSpace,
    /// Line ends.
    #[serde(rename = "line endings")]
    LineEndings,
    /// The same characters composed differently (NFC, NFD).
    #[serde(rename = "unicode form")]
    UnicodeForm,
    /// Upper and lower case.
    #[serde(rename = "letter case")]
    LetterCase,
    /// Bytes at this place that are invalid in the file's encoding.
    #[serde(rename = "undecodable bytes")]
    UndecodableBytes,
    /// Other characters.
    #[serde(rename = "content")]
    Content,
}

impl Difference {
    /// The name used in results, such as `no-break space`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Whitespace => "whitespace",
            Self::Quotes => "quotes",
            Self::NoBreakSpace => "no-break space",
            Self::LineEndings => "line endings",
            Self::UnicodeForm => "unicode form",
            Self::LetterCase => "letter case",
            Self::UndecodableBytes => "undecodable bytes",
            Self::Content => "content",
        }
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A place that resembles a text that was not found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Near {
    /// Its first line that differs, from 1, in the file before the call.
    pub line: usize,
    /// That line's text, cut when long.
    pub text: String,
    /// What differs, never empty.
    pub differs: Vec<Difference>,
    /// Likeness from 0 to 1.
    pub similarity: f32,
}

impl Near {
    /// The differences as one phrase, such as `whitespace, quotes`.
    pub fn differs_text(&self) -> String {
        let names: Vec<&str> = self.differs.iter().map(|d| d.as_str()).collect();
        names.join(", ")
    }
}

/// Why edits could not be applied. `edit_index` counts from 0.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EditError {
    /// The list is empty.
    #[error("`edits` is empty; give at least one edit")]
    NoEdits,
    /// `old` is empty.
    #[error(
        "edits[{edit_index}]: `old` is empty; give the text to replace, or use `insert_at` to add lines"
    )]
    EmptyOld {
        /// Which edit.
        edit_index: usize,
    },
    /// Nothing to insert.
    #[error(
        "edits[{edit_index}]: `new` is empty, so there is nothing to insert; for a blank line give \"\\n\""
    )]
    EmptyNew {
        /// Which edit.
        edit_index: usize,
    },
    /// `old` and `new` are the same.
    #[error(
        "edits[{edit_index}]: `old` and `new` are the same text (line endings are kept as the file has them); give a `new` that differs"
    )]
    NoChange {
        /// Which edit.
        edit_index: usize,
    },
    /// `expected_count` is 0.
    #[error("edits[{edit_index}]: `expected_count` is 0; give at least 1, or leave it out")]
    ZeroCount {
        /// Which edit.
        edit_index: usize,
    },
    /// A line number outside the file, or an end before its start.
    #[error(
        "edits[{edit_index}]: `{field}` is {value}, {reason}; lines of the file: {total_lines}"
    )]
    BadLine {
        /// Which edit.
        edit_index: usize,
        /// `start_line`, `end_line` or `insert_at`.
        field: &'static str,
        /// The value given.
        value: usize,
        /// What is wrong with it, and the values that are right.
        reason: String,
        /// Lines of the file before the call.
        total_lines: usize,
    },
    /// Two edits of the list are about the same lines.
    #[error(
        "edits[{edit_index}] is about lines that edits[{other_index}] changes already; join the two into one edit (line numbers are those of the file before this call)"
    )]
    Overlap {
        /// Which edit.
        edit_index: usize,
        /// The earlier edit.
        other_index: usize,
    },
    /// `old` is not in the file.
    #[error("edits[{edit_index}]: `old` was not found; {}", near_text(nearest))]
    NotFound {
        /// Which edit.
        edit_index: usize,
        /// The places most like it, best first, at most three.
        nearest: Vec<Near>,
    },
    /// `old` is in the file more than once.
    #[error(
        "edits[{edit_index}]: `old` occurs {count} times (line {}); give more of the text around the one that is meant, or set `replace_all`",
        list(lines, *count)
    )]
    Ambiguous {
        /// Which edit.
        edit_index: usize,
        /// Occurrences.
        count: usize,
        /// The line each begins on, in the file before the call; at most 20.
        lines: Vec<usize>,
    },
    /// `old` is in the file, but not as often as expected.
    #[error(
        "edits[{edit_index}]: `old` was expected {expected} times and occurs {found} times (line {}); correct `expected_count` or `old`",
        list(lines, *found)
    )]
    CountMismatch {
        /// Which edit.
        edit_index: usize,
        /// The count asked for.
        expected: u64,
        /// The count found.
        found: usize,
        /// The line each begins on, in the file before the call; at most 20.
        lines: Vec<usize>,
    },
    /// A character of `new` has no bytes in the file's encoding.
    #[error(
        "edits[{edit_index}]: {} on line {line} of `new` cannot be written in {encoding}, the file's encoding; use other characters",
        show_char(*.ch)
    )]
    Unencodable {
        /// Which edit.
        edit_index: usize,
        /// The first such character.
        ch: char,
        /// The line of the new text it is on, from 1.
        line: usize,
        /// The file's encoding.
        encoding: String,
    },
    /// The declared encoding cannot be used.
    #[error(transparent)]
    Encoding(#[from] EncodingError),
    /// The change would alter how bytes beside it read (they are not valid in the file's encoding).
    #[error(
        "the edits touch a place with bytes that are not valid {encoding}, and what stays would read differently; read the file with another `encoding` to see whether it is in that one, or leave that place as it is"
    )]
    Fragile {
        /// The file's encoding.
        encoding: String,
    },
    /// `old` occurs too often for one edit.
    #[error(
        "edits[{edit_index}]: `old` occurs {count} times, over the limit of {limit}; give more text, or use `sed`"
    )]
    TooMany {
        /// Which edit.
        edit_index: usize,
        /// Occurrences.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// The result would be too large.
    #[error(
        "edits[{edit_index}]: the file would grow to {bytes} bytes, over the limit of {limit}; replace less at once"
    )]
    TooLarge {
        /// Which edit.
        edit_index: usize,
        /// The size it would have, of its text in UTF-8.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
}

impl EditError {
    /// Whether the arguments are wrong by themselves, whatever the file holds; otherwise they do not fit the file as it
    /// is.
    pub fn is_bad_argument(&self) -> bool {
        matches!(
            self,
            Self::NoEdits
                | Self::EmptyOld { .. }
                | Self::EmptyNew { .. }
                | Self::NoChange { .. }
                | Self::ZeroCount { .. }
                | Self::BadLine { .. }
                | Self::Overlap { .. }
                | Self::Unencodable { .. }
                | Self::Encoding(_)
        )
    }

    /// The message for a file whose encoding was only guessed
    /// ([`Detected::confident`](crate::encoding::Detected) is false): what a guessed encoding cannot hold may be
    /// sound in the true one.
    pub fn message_for_guess(&self) -> String {
        match self {
            Self::Unencodable {
                edit_index,
                ch,
                line,
                encoding,
            } => format!(
                "edits[{edit_index}]: {} on line {line} of `new` cannot be written in the file's encoding, detected as {encoding} (a guess); read the file with `encoding` first to see which one it is in, or use characters that {encoding} has",
                show_char(*ch)
            ),
            other => other.to_string(),
        }
    }

    /// Which edit of the list failed, from 0; none when the failure is of the list or the file.
    pub fn edit_index(&self) -> Option<usize> {
        match self {
            Self::NoEdits | Self::Encoding(_) | Self::Fragile { .. } => None,
            Self::EmptyOld { edit_index }
            | Self::EmptyNew { edit_index }
            | Self::NoChange { edit_index }
            | Self::ZeroCount { edit_index }
            | Self::BadLine { edit_index, .. }
            | Self::Overlap { edit_index, .. }
            | Self::NotFound { edit_index, .. }
            | Self::Ambiguous { edit_index, .. }
            | Self::CountMismatch { edit_index, .. }
            | Self::Unencodable { edit_index, .. }
            | Self::TooMany { edit_index, .. }
            | Self::TooLarge { edit_index, .. } => Some(*edit_index),
        }
    }
}

fn list(lines: &[usize], count: usize) -> String {
    let numbers: Vec<String> = lines.iter().map(ToString::to_string).collect();
    let more = if count > lines.len() { ", …" } else { "" };
    format!("{}{more}", numbers.join(", "))
}

fn near_text(nearest: &[Near]) -> String {
    if nearest.is_empty() {
        return "nothing in the file resembles it; read the file and copy the text exactly"
            .to_owned();
    }
    let places: Vec<String> = nearest
        .iter()
        .map(|n| format!("line {} `{}` ({})", n.line, n.text, n.differs_text()))
        .collect();
    format!(
        "nearest, with what differs: {}; read the place and copy the text exactly",
        places.join("; ")
    )
}
