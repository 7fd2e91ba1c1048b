//! Exact search that takes any line end for a line end.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;

use super::eols;
use crate::lines::EolCounts;

/// A text to look for.
#[derive(Debug)]
pub(super) struct Needle<'n> {
    /// The text, with LF for each line end unless it is literal.
    pub(super) text: Cow<'n, str>,
    /// Whether it has a lone CR, and is therefore taken exactly as given.
    pub(super) literal: bool,
}

impl<'n> Needle<'n> {
    pub(super) fn new(old: &'n str) -> Self {
        let literal = eols::has_lone_cr(old);
        let text = if literal {
            Cow::Borrowed(old)
        } else {
            eols::normalize(old)
        };
        Self { text, literal }
    }
}

/// Where a needle occurs.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Occurrences that do not overlap, from left to right.
    pub(super) ranges: Vec<Range<usize>>,
    /// The start of an occurrence that overlaps the only one, so that which is meant is open.
    pub(super) overlapping: Option<usize>,
    /// The start of an occurrence that is out of the question because of invalid bytes in it.
    pub(super) unsound: Option<usize>,
}

/// Searches `text`, whose line ends are `counts`. Occurrences that are not `sound` are left out.
pub(super) fn find(
    text: &str,
    counts: EolCounts,
    needle: &Needle<'_>,
    sound: impl Fn(&Range<usize>) -> bool,
) -> Found {
    let has_ends = !needle.literal && needle.text.contains('\n');
    if !has_ends {
        return search(text, &needle.text, |at| at, sound);
    }
    if let Some(eol) = eols::uniform(counts) {
        return search(text, &eols::with_eol(&needle.text, eol), |at| at, sound);
    }
    let folded = Folded::new(text);
    search(&folded.text, &needle.text, |at| folded.source_of(at), sound)
}

fn search(
    text: &str,
    needle: &str,
    place: impl Fn(usize) -> usize,
    sound: impl Fn(&Range<usize>) -> bool,
) -> Found {
    let finder = memmem::Finder::new(needle.as_bytes());
    let mut found = Found::default();
    let mut first = 0;
    let mut from = 0;
    while let Some(at) = finder.find(&text.as_bytes()[from..]) {
        let start = from + at;
        let range = place(start)..place(start + needle.len());
        if sound(&range) {
            if found.ranges.is_empty() {
                first = start;
            }
            found.ranges.push(range);
            from = start + needle.len();
        } else {
            found.unsound.get_or_insert(range.start);
            from = start + char_len(text, start);
        }
    }
    if found.ranges.len() == 1 {
        found.overlapping = overlapping(text, needle, &finder, first, |at| {
            let range = place(at)..place(at + needle.len());
            sound(&range).then_some(range.start)
        });
    }
    found
}

fn char_len(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(1, char::len_utf8)
}

/// The next occurrence that begins inside the first one.
fn overlapping(
    text: &str,
    needle: &str,
    finder: &memmem::Finder<'_>,
    first: usize,
    check: impl Fn(usize) -> Option<usize>,
) -> Option<usize> {
    let from = first + char_len(text, first);
    let to = text.len().min(first + needle.len() * 2);
    let at = finder.find(text.as_bytes().get(from..to)?)?;
    check(from + at)
}

/// A text with LF for each line end, and the way back.
struct Folded {
    text: String,
    /// Where in `text` an LF stands for CR LF.
    pairs: Vec<usize>,
}

impl Folded {
    fn new(source: &str) -> Self {
        let bytes = source.as_bytes();
        let mut text = String::with_capacity(source.len());
        let mut pairs = Vec::new();
        let mut done = 0;
        for at in memchr::memchr_iter(b'\r', bytes) {
            text.push_str(&source[done..at]);
            done = at + 1;
            if bytes.get(at + 1) == Some(&b'\n') {
                pairs.push(text.len());
            } else {
                text.push('\n');
            }
        }
        text.push_str(&source[done..]);
        Self { text, pairs }
    }

    fn source_of(&self, at: usize) -> usize {
        at + self.pairs.partition_point(|&p| p < at)
    }
}
