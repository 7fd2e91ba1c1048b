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
}

impl<'a> Page<'a> {
    /// The page that begins at `offset` of a text that is there whole.
    pub(super) fn of(text: &'a str, offset: Option<i64>, limit: u64, max_bytes: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let slice = lines::slice(text, offset, Some(limit));
        let total = slice.total_lines as u64;
        let mut page = Self::within(slice.text, slice.start_line as u64, max_bytes);
        page.total_lines = Some(total);
        page.more = page.end_line < total;
        page
    }

    /// As many whole lines of `text` as fit.
    pub(super) fn within(text: &'a str, start_line: u64, max_bytes: u64) -> Self {
        let max = usize::try_from(max_bytes).unwrap_or(usize::MAX);
        let cut = lines::cut_long_lines(text, limits::READ_LINE_BYTES);
        let fits = match cut.text.len() > max {
            false => cut.text.len(),
            true => memchr::memrchr(b'\n', &cut.text.as_bytes()[..max]).map_or(0, |at| at + 1),
        };
        let text = match cut.text {
            Cow::Borrowed(text) => Cow::Borrowed(&text[..fits]),
            Cow::Owned(mut text) => {
                text.truncate(fits);
                Cow::Owned(text)
            }
        };
        let shown = lines::count(&text) as u64;
        Self {
            end_line: (start_line + shown).saturating_sub(1),
            text,
            start_line,
            total_lines: None,
            more: false,
            cut_in_lines: cut.cut,
        }
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

    /// The answer; `lossy` names the encoding when the text has replacement characters.
    pub(super) fn outcome(&self, numbered: bool, lossy: Option<&str>) -> Outcome {
        let mut text = match numbered {
            true => number(&self.text, self.start_line),
            false => self.text.to_string(),
        };
        let shown = text.clone();
        let mut notes = Vec::new();
        let empty = self.end_line < self.start_line;
        match (empty, self.total_lines) {
            (true, Some(0)) => notes.push("the file is empty".to_string()),
            (true, Some(total)) => notes.push(format!("no such line: the file has {total} lines")),
            (true, None) => notes.push("no such line".to_string()),
            (false, total) if self.more || self.start_line > 1 => {
                let of = total.map_or_else(String::new, |total| format!(" of {total}"));
                let next = match self.more {
                    true => format!("; go on with offset {}", self.end_line + 1),
                    false => String::new(),
                };
                notes.push(format!(
                    "lines {}–{}{of}{next}",
                    self.start_line, self.end_line
                ));
            }
            (false, _) => {}
        }
        if self.cut_in_lines > 0 {
            notes.push(format!(
                "lines over {} bytes are cut; use bash for the rest of them",
                limits::READ_LINE_BYTES
            ));
        }
        if let Some(encoding) = lossy {
            notes.push(format!(
                "some bytes are not valid {encoding} and are shown as U+FFFD"
            ));
        }
        for note in notes {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&format!("[{note}]"));
        }
        let mut outcome = Outcome::ok(text)
            .field("text", shown)
            .field("start_line", self.start_line)
            .field("end_line", self.end_line)
            .maybe("total_lines", self.total_lines);
        outcome.truncated = self.more || self.cut_in_lines > 0;
        outcome
    }
}

/// Each line with its number before it, right-aligned, and a tab between.
fn number(text: &str, first: u64) -> String {
    let width = (first + lines::count(text) as u64).to_string().len();
    let numbered = (first..).zip(text.split_inclusive('\n'));
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
        assert_eq!(page.outcome(false, None).text, "a\nb\n");
    }

    #[test]
    fn lines_and_bytes_are_both_limits() {
        let text = "0123456789\n".repeat(50);
        let page = Page::of(&text, Some(11), 5, 1000);
        assert_eq!((page.start_line, page.end_line, page.more), (11, 15, true));
        let page = Page::of(&text, None, 50, 100);
        assert_eq!((page.end_line, page.more), (9, true));
        assert!(
            page.outcome(false, None)
                .text
                .ends_with("[lines 1–9 of 50; go on with offset 10]")
        );
    }

    #[test]
    fn past_the_end_is_said() {
        let outcome = Page::of("a\n", Some(9), 5, 100).outcome(false, None);
        assert_eq!(outcome.text, "[no such line: the file has 1 lines]");
        assert_eq!(
            Page::of("", None, 5, 100).outcome(false, None).text,
            "[the file is empty]"
        );
    }

    #[test]
    fn a_line_over_the_limit_is_cut_and_the_page_goes_on() {
        let text = format!("{}\nnext\n", "x".repeat(limits::READ_LINE_BYTES * 3));
        let page = Page::of(&text, None, 10, 100_000);
        let outcome = page.outcome(false, None);
        assert!(outcome.truncated);
        assert!(outcome.text.contains("\nnext\n"));
    }
}
