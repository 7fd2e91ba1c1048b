//! The part of a text that one answer shows.

use crate::limits;
use crate::outcome::Outcome;
use hands_text::lines;
use std::borrow::Cow;

/// Some lines of a text, within the limits of lines and bytes.
#[derive(Debug, PartialEq)]
pub(super) struct Page<'a> {
    text: Cow<'a, str>,
    start_line: u64,
    end_line: u64,
    /// Lines of the whole text, where they were counted.
    total_lines: Option<u64>,
    /// Whether there are lines behind this page.
    more: bool,
    /// Bytes cut out of long lines.
    cut_in_lines: usize,
    /// The longest line, bytes, where longer ones were wrapped.
    wrapped_at: Option<usize>,
    /// The line that it begins with, counted from the end of the text, where only that is known.
    from_end: Option<u64>,
    /// What ends a line in the whole text.
    end: u8,
}

/// How a page is shown.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Manner<'a> {
    /// With line numbers.
    pub(super) numbered: bool,
    /// The encoding, when the text has replacement characters.
    pub(super) lossy: Option<&'a str>,
    /// Whether commands can read the file as well.
    pub(super) in_commands_reach: bool,
}

impl<'a> Page<'a> {
    /// The page that begins at `offset` of a text that is there whole.
    pub(super) fn of(text: &'a str, offset: Option<i64>, limit: u64, max_bytes: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let slice = lines::slice(text, offset, Some(limit));
        let total = slice.total_lines as u64;
        let start_line = slice.start_line as u64;
        let mut page = Self::within(slice.text, start_line, max_bytes, end_byte(text));
        page.total_lines = Some(total);
        page.more = page.end_line < total;
        page
    }

    /// As many whole lines of `text` as fit; of a first line that does not, its beginning. `end`
    /// is what ends a line.
    pub(super) fn within(text: &'a str, start_line: u64, max_bytes: u64, end: u8) -> Self {
        let max = usize::try_from(max_bytes).unwrap_or(usize::MAX);
        let mut cut = lines::cut_long_lines(text, limits::READ_LINE_BYTES);
        let fits = match cut.text.len() > max {
            false => cut.text.len(),
            true => match memchr::memrchr(end, &cut.text.as_bytes()[..max]) {
                Some(at) => at + 1,
                None => {
                    let line = memchr::memchr(end, cut.text.as_bytes()).unwrap_or(cut.text.len());
                    let fits = cut.text.floor_char_boundary(max);
                    cut.cut += line - fits;
                    fits
                }
            },
        };
        let text = match cut.text {
            Cow::Borrowed(text) => Cow::Borrowed(&text[..fits]),
            Cow::Owned(mut text) => {
                text.truncate(fits);
                Cow::Owned(text)
            }
        };
        let shown = count(&text, end);
        Self {
            end_line: (start_line + shown).saturating_sub(1),
            text,
            start_line,
            total_lines: None,
            more: false,
            cut_in_lines: cut.cut,
            wrapped_at: None,
            from_end: None,
            end,
        }
    }

    /// Says that lines over `width` bytes were wrapped.
    pub(super) fn wrapped(mut self, width: Option<usize>) -> Self {
        self.wrapped_at = width;
        self
    }

    /// Says that it begins with the `line`-th line from the end, and no more is known.
    pub(super) fn counted_from_end(mut self, line: Option<u64>) -> Self {
        self.from_end = line;
        self
    }

    /// Says that there are lines behind this page.
    pub(super) fn with_more(mut self, more: bool) -> Self {
        self.more = more;
        self
    }

    /// The last line shown.
    pub(super) fn end_line(&self) -> u64 {
        self.end_line
    }

    /// The answer.
    pub(super) fn outcome(&self, manner: Manner) -> Outcome {
        let numbered = manner.numbered && self.from_end.is_none();
        let mut text = match numbered {
            true => number(&self.text, self.start_line, self.end),
            false => self.text.to_string(),
        };
        let shown = text.clone();
        for note in self.notes(manner) {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&format!("[{note}]"));
        }
        let mut outcome = Outcome::ok(text).field("text", shown);
        if self.from_end.is_none() {
            outcome = outcome
                .field("start_line", self.start_line)
                .field("end_line", self.end_line)
                .maybe("total_lines", self.total_lines);
        }
        outcome.truncated = self.more || self.cut_in_lines > 0;
        outcome
    }

    fn notes(&self, manner: Manner) -> Vec<String> {
        let mut notes: Vec<String> = self.place().into_iter().collect();
        if self.cut_in_lines > 0 {
            let rest = match manner.in_commands_reach {
                true => "; use bash for the rest of them",
                false => "",
            };
            let most = limits::READ_LINE_BYTES;
            notes.push(format!("lines over {most} bytes are cut{rest}"));
        }
        if let Some(width) = self.wrapped_at {
            notes.push(format!("lines over {width} bytes are wrapped"));
        }
        if let Some(encoding) = manner.lossy {
            notes.push(format!(
                "some bytes are not valid {encoding} and are shown as U+FFFD"
            ));
        }
        notes
    }

    /// Which part of the text it is, unless it is all, and how to go on.
    fn place(&self) -> Option<String> {
        let shown = (self.end_line + 1).saturating_sub(self.start_line);
        if shown == 0 {
            return Some(match self.total_lines {
                Some(0) => "the file is empty".to_string(),
                Some(total) => format!("no such line: the file has {total} lines"),
                None => "no such line".to_string(),
            });
        }
        if let Some(begin) = self.from_end {
            let left = begin.saturating_sub(shown);
            return self
                .more
                .then(|| format!("{shown} lines; go on with offset -{left}"));
        }
        if !self.more && self.start_line <= 1 {
            return None;
        }
        let of = self
            .total_lines
            .map_or_else(String::new, |total| format!(" of {total}"));
        let next = match self.more {
            true => format!("; go on with offset {}", self.end_line + 1),
            false => String::new(),
        };
        let (start, end) = (self.start_line, self.end_line);
        Some(format!("lines {start}–{end}{of}{next}"))
    }
}

/// What ends a line: CR in a text that has no LF, else LF.
fn end_byte(text: &str) -> u8 {
    let has = |byte| memchr::memchr(byte, text.as_bytes()).is_some();
    match !has(b'\n') && has(b'\r') {
        true => b'\r',
        false => b'\n',
    }
}

/// The lines of a part of a text in which `end` ends a line.
fn count(text: &str, end: u8) -> u64 {
    let open = text.as_bytes().last().is_some_and(|last| *last != end);
    memchr::memchr_iter(end, text.as_bytes()).count() as u64 + u64::from(open)
}

/// Each line with its number before it, right-aligned, and a tab between.
fn number(text: &str, first: u64, end: u8) -> String {
    let width = (first + count(text, end)).to_string().len();
    let numbered = (first..).zip(text.split_inclusive(char::from(end)));
    numbered
        .map(|(number, line)| format!("{number:>width$}\t{line}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_is_shown_whole() {
        let page = Page::of("a\nb\n", None, 100, 100);
        assert_eq!((page.start_line, page.end_line, page.more), (1, 2, false));
        assert_eq!(page.outcome(Manner::default()).text, "a\nb\n");
    }

    #[test]
    fn lines_and_bytes_are_both_limits() {
        let text = "0123456789\n".repeat(50);
        let page = Page::of(&text, Some(11), 5, 1000);
        assert_eq!((page.start_line, page.end_line, page.more), (11, 15, true));
        let page = Page::of(&text, None, 50, 100);
        assert_eq!((page.end_line, page.more), (9, true));
        assert!(
            page.outcome(Manner::default())
                .text
                .ends_with("[lines 1–9 of 50; go on with offset 10]")
        );
    }

    #[test]
    fn past_the_end_is_said() {
        let outcome = Page::of("a\n", Some(9), 5, 100).outcome(Manner::default());
        assert_eq!(outcome.text, "[no such line: the file has 1 lines]");
        assert_eq!(
            Page::of("", None, 5, 100).outcome(Manner::default()).text,
            "[the file is empty]"
        );
    }

    #[test]
    fn a_line_over_the_limit_is_cut_and_the_page_goes_on() {
        let text = format!("{}\nnext\n", "x".repeat(limits::READ_LINE_BYTES * 3));
        let page = Page::of(&text, None, 10, 100_000);
        let outcome = page.outcome(Manner::default());
        assert!(outcome.truncated);
        assert!(outcome.text.contains("\nnext\n"));
    }

    #[test]
    fn bash_is_named_only_where_it_reaches() {
        let text = "x".repeat(limits::READ_LINE_BYTES * 2);
        let shown = |in_commands_reach| {
            let manner = Manner {
                in_commands_reach,
                ..Manner::default()
            };
            let outcome = Page::of(&text, None, 10, 100_000).outcome(manner);
            outcome.text.clone()
        };
        assert!(shown(true).ends_with("bytes are cut; use bash for the rest of them]"));
        assert!(shown(false).ends_with("bytes are cut]"));
    }

    #[test]
    fn a_line_that_is_longer_than_a_page_does_not_stop_it() {
        let bars = "10 %\r".repeat(1000);
        let text = format!("one\n{bars}\ntwo\n");
        let page = Page::of(&text, Some(2), 10, 500);
        assert_eq!((page.end_line, page.more), (2, true));
        assert_eq!(page.text.len(), 500);
        // Without any LF a CR ends the line.
        let page = Page::of(&bars, None, 10_000, 502);
        assert_eq!(
            (page.end_line, page.text.len(), page.more),
            (100, 500, true)
        );
        // In the middle of a text with LF it does not.
        let last = format!("one\n{}", &bars[..50]);
        let page = Page::of(&last, Some(2), 10, 500);
        assert_eq!((page.end_line, page.more), (2, false));
    }

    #[test]
    fn from_the_end_the_next_offset_counts_from_there() {
        let page = Page::within("a\nb\n", 1, 100, b'\n')
            .with_more(true)
            .counted_from_end(Some(9));
        let outcome = page.outcome(Manner::default());
        assert_eq!(outcome.text, "a\nb\n[2 lines; go on with offset -7]");
        assert!(!outcome.fields.contains_key("start_line"));
    }
}
