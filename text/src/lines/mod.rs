//! Lines: what they are, where they end, which of them to show.
//!
//! A line ends with LF or CR LF. A lone CR ends a line only in a text that has no LF at all (old Macintosh files);
//! elsewhere it is an ordinary character, so line numbers agree with `grep -n`, `sed` and git.

mod cut;
mod slice;

use memchr::{memchr, memchr_iter, memchr2_iter};
use serde::Serialize;

pub use cut::{Cut, cut_head_tail, cut_long_lines, cut_marker, join_head_tail, truncate_at_char};
pub use slice::{LineSlice, slice};

/// How the lines of a text end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Eol {
    /// LF.
    Lf,
    /// CR LF.
    CrLf,
    /// CR alone, in a text without any LF.
    Cr,
    /// LF in some places, CR LF in others.
    Mixed,
    /// The text has no line end.
    None,
}

impl Eol {
    /// The name used in results: `lf`, `crlf`, `cr`, `mixed`, `none`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lf => "lf",
            Self::CrLf => "crlf",
            Self::Cr => "cr",
            Self::Mixed => "mixed",
            Self::None => "none",
        }
    }
}

impl std::fmt::Display for Eol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How often each line end occurs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EolCounts {
    /// LF not preceded by CR.
    pub lf: usize,
    /// CR LF.
    pub crlf: usize,
    /// CR not followed by LF.
    pub cr: usize,
}

impl EolCounts {
    /// Counts the line ends of a text.
    pub fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        if memchr(b'\r', bytes).is_none() {
            return Self {
                lf: memchr_iter(b'\n', bytes).count(),
                crlf: 0,
                cr: 0,
            };
        }
        let mut counts = Self::default();
        let mut after_cr = usize::MAX;
        for at in memchr2_iter(b'\r', b'\n', bytes) {
            if bytes[at] == b'\r' {
                counts.cr += 1;
                after_cr = at + 1;
            } else if at == after_cr {
                counts.cr -= 1;
                counts.crlf += 1;
            } else {
                counts.lf += 1;
            }
        }
        counts
    }

    /// The kind of line end these counts amount to.
    pub fn eol(self) -> Eol {
        match (self.lf, self.crlf, self.cr) {
            (0, 0, 0) => Eol::None,
            (0, 0, _) => Eol::Cr,
            (_, 0, _) => Eol::Lf,
            (0, _, _) => Eol::CrLf,
            _ => Eol::Mixed,
        }
    }

    /// The most frequent line end as text, none where there is none. LF wins a tie.
    pub fn dominant(self) -> Option<&'static str> {
        match self.eol() {
            Eol::None => None,
            Eol::Cr => Some("\r"),
            _ if self.crlf > self.lf => Some("\r\n"),
            _ => Some("\n"),
        }
    }
}

/// The kind of line end a text has.
pub fn eol(text: &str) -> Eol {
    EolCounts::of(text).eol()
}

/// The byte that ends each line of this text: CR for old Macintosh texts, else LF.
pub(crate) fn end_byte(text: &str) -> u8 {
    let bytes = text.as_bytes();
    if memchr(b'\n', bytes).is_none() && memchr(b'\r', bytes).is_some() {
        b'\r'
    } else {
        b'\n'
    }
}

/// The number of lines: line ends, and one for text after the last of them. An empty text has none.
pub fn count(text: &str) -> usize {
    let end = end_byte(text);
    let ends = memchr_iter(end, text.as_bytes()).count();
    let open = text.as_bytes().last().is_some_and(|&b| b != end);
    ends + usize::from(open)
}

/// The 1-based number of the line that the byte offset `at` lies on.
pub fn line_at(text: &str, at: usize) -> usize {
    let before = &text.as_bytes()[..at.min(text.len())];
    memchr_iter(end_byte(text), before).count() + 1
}

/// Where each line begins, in byte offsets, and the end of the text as a last entry.
pub fn starts(text: &str) -> Vec<usize> {
    let mut starts = Vec::new();
    if text.is_empty() {
        return vec![0];
    }
    starts.push(0);
    starts.extend(memchr_iter(end_byte(text), text.as_bytes()).map(|at| at + 1));
    if starts.last() != Some(&text.len()) {
        starts.push(text.len());
    }
    starts
}

/// The line end that `line` finishes with, or an empty string.
pub(crate) fn ending(line: &str) -> &str {
    let len = match line.as_bytes() {
        [.., b'\r', b'\n'] => 2,
        [.., b'\n' | b'\r'] => 1,
        _ => 0,
    };
    &line[line.len() - len..]
}

#[cfg(test)]
mod tests;
