//! Slices of lines by number.

use memchr::{memchr_iter, memrchr_iter};

use super::{count, end_byte};

/// Some lines of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineSlice<'a> {
    /// The lines with their ends; empty when there are none in the range.
    pub text: &'a str,
    /// Number of the first line, from 1. When the slice is empty: the line it would begin with.
    pub start_line: usize,
    /// Number of the last line; `start_line - 1` when the slice is empty.
    pub end_line: usize,
    /// Lines of the whole text.
    pub total_lines: usize,
    /// What ends a line in the whole text.
    end: u8,
}

impl LineSlice<'_> {
    /// The lines, each with its number before it, right-aligned, and a tab between.
    pub fn numbered(&self) -> String {
        let width = self.end_line.to_string().len();
        let lines = (self.end_line + 1).saturating_sub(self.start_line);
        let mut out = String::with_capacity(self.text.len() + lines * (width + 1));
        let parts = self.text.split_inclusive(char::from(self.end));
        for (number, line) in (self.start_line..).zip(parts) {
            out.push_str(&format!("{number:>width$}\t"));
            out.push_str(line);
        }
        out
    }
}

/// The lines from `offset` on, at most `limit`.
///
/// `offset` counts from 1; 0 and none mean the first line; a negative one counts from the end (-1 is the last line) and
/// stops at the first line. An offset past the end gives an empty slice.
pub fn slice(text: &str, offset: Option<i64>, limit: Option<usize>) -> LineSlice<'_> {
    let total = count(text);
    let start = match offset.unwrap_or(1) {
        n if n >= 0 => usize::try_from(n).unwrap_or(usize::MAX).max(1),
        n => total
            .saturating_sub(usize::try_from(n.unsigned_abs()).unwrap_or(usize::MAX))
            .saturating_add(1),
    };
    let start = start.min(total.saturating_add(1));
    let taken = limit
        .unwrap_or(usize::MAX)
        .min((total + 1).saturating_sub(start));
    let from = start_of(text, start, total);
    let to = start_of(text, start + taken, total);
    LineSlice {
        text: &text[from..to],
        start_line: start,
        end_line: start + taken - 1,
        total_lines: total,
        end: end_byte(text),
    }
}

/// Where line `line` begins; the end of the text for the line after the last. Searches from the nearer end.
fn start_of(text: &str, line: usize, total: usize) -> usize {
    let bytes = text.as_bytes();
    let end = end_byte(text);
    if line <= 1 {
        return 0;
    }
    if line > total {
        return text.len();
    }
    if line - 1 <= total / 2 {
        return memchr_iter(end, bytes)
            .nth(line - 2)
            .map_or(text.len(), |at| at + 1);
    }
    // Line `line` begins after the line end that has `total - line` others behind it, one more when the text ends in one.
    let behind = total - line + usize::from(bytes.last() == Some(&end));
    memrchr_iter(end, bytes).nth(behind).map_or(0, |at| at + 1)
}
