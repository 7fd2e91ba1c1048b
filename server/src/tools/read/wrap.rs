//! The lines of a command's output: one that is too long goes on in the next, so that paging
//! reaches all of it.

use memchr::memchr;
use std::borrow::Cow;
use std::fs::File;
use std::io::Read;

/// Bytes read at once.
const BUFFER: usize = 1024 * 1024;

/// Length of the first line of `bytes` with its line end, or of as much of it as has at most
/// `width` bytes. UTF-8 is cut between characters.
fn piece(bytes: &[u8], width: usize) -> usize {
    let near = &bytes[..bytes.len().min(width + 2)];
    match memchr(b'\n', near) {
        Some(at) if at <= width || near[at - 1] == b'\r' => return at + 1,
        _ if bytes.len() <= width => return bytes.len(),
        _ => {}
    }
    let begins = |at: &usize| bytes[*at] & 0xC0 != 0x80;
    let lowest = width.saturating_sub(3).max(1);
    (lowest..=width).rev().find(begins).unwrap_or(width)
}

/// The text with a line end put after each `width` bytes of a longer line.
pub(super) fn wrap(text: &str, width: usize) -> Cow<'_, str> {
    let mut out = String::new();
    let (mut done, mut at) = (0, 0);
    while at < text.len() {
        at += piece(&text.as_bytes()[at..], width);
        if at < text.len() && text.as_bytes()[at - 1] != b'\n' {
            out.push_str(&text[done..at]);
            out.push('\n');
            done = at;
        }
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[done..]);
    Cow::Owned(out)
}

/// Lines taken from a file, each with a line end.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Taken {
    pub(super) bytes: Vec<u8>,
    /// Whether there are lines behind them.
    pub(super) more: bool,
    /// Whether a line that is longer than the width is among them.
    pub(super) wrapped: bool,
}

impl Taken {
    fn add(&mut self, line: &[u8], last: bool) {
        self.bytes.extend_from_slice(line);
        if line.last() != Some(&b'\n') {
            self.bytes.push(b'\n');
            self.wrapped |= !last;
        }
    }
}

/// Wrapped lines of a file from `first` on, at most `limit` and about `max_bytes`.
pub(super) fn from_line(
    file: &File,
    first: u64,
    limit: u64,
    max_bytes: u64,
    width: usize,
) -> std::io::Result<Taken> {
    let mut lines = Lines::new(file, width);
    let mut taken = Taken::default();
    for _ in 1..first {
        if lines.next()?.is_none() {
            return Ok(taken);
        }
    }
    for _ in 0..limit {
        if taken.bytes.len() as u64 >= max_bytes {
            break;
        }
        match lines.next()? {
            Some((line, last)) => taken.add(line, last),
            None => return Ok(taken),
        }
    }
    taken.more = lines.next()?.is_some();
    Ok(taken)
}

/// Wrapped lines of the end of a file, from the `wanted`-th last on; and which one it really was.
pub(super) fn from_the_end(tail: &[u8], wanted: usize, limit: u64, width: usize) -> (Taken, usize) {
    let mut starts = Vec::new();
    let mut at = 0;
    while at < tail.len() {
        starts.push(at);
        at += piece(&tail[at..], width);
    }
    let count = starts.len();
    let wanted = wanted.min(count);
    starts.push(tail.len());
    let begin = count - wanted;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let end = begin.saturating_add(limit).min(count);
    let mut taken = Taken {
        more: end < count,
        ..Taken::default()
    };
    for line in begin..end {
        taken.add(&tail[starts[line]..starts[line + 1]], line + 1 == count);
    }
    (taken, wanted)
}

/// A file's wrapped lines, one after the other.
struct Lines<'a> {
    file: &'a File,
    width: usize,
    buffer: Vec<u8>,
    at: usize,
    ended: bool,
}

impl<'a> Lines<'a> {
    fn new(file: &'a File, width: usize) -> Self {
        Self {
            file,
            width,
            buffer: Vec::new(),
            at: 0,
            ended: false,
        }
    }

    /// The next line, and whether the file ends with it.
    fn next(&mut self) -> std::io::Result<Option<(&[u8], bool)>> {
        // One more than a line can have: whether another follows is known then.
        while !self.ended && self.buffer.len() - self.at < self.width + 3 {
            self.fill()?;
        }
        let rest = &self.buffer[self.at..];
        if rest.is_empty() {
            return Ok(None);
        }
        let length = piece(rest, self.width);
        self.at += length;
        Ok(Some((&rest[..length], length == rest.len())))
    }

    fn fill(&mut self) -> std::io::Result<()> {
        self.buffer.drain(..self.at);
        self.at = 0;
        let before = self.buffer.len();
        self.file
            .take(BUFFER as u64)
            .read_to_end(&mut self.buffer)?;
        self.ended = self.buffer.len() == before;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};

    #[test]
    fn long_lines_go_on_and_short_ones_stay() {
        assert!(matches!(wrap("ab\ncd\r\nef", 4), Cow::Borrowed(_)));
        assert_eq!(wrap("abcdefghij\nk", 4), "abcd\nefgh\nij\nk");
        assert_eq!(wrap("abcd\r\nabcdef\r\n", 4), "abcd\r\nabcd\nef\r\n");
        assert_eq!(wrap("éééé\n", 5), "éé\néé\n");
        assert_eq!(wrap("", 4), "");
    }

    #[test]
    fn a_file_is_wrapped_as_its_text_is() {
        let text = format!("{}\nshort\n{}é\n\nlast", "x".repeat(25), "é".repeat(9));
        let wrapped = format!("{}\n", wrap(&text, 8));
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let mut all = Vec::new();
        let mut line = 1;
        loop {
            file.rewind().unwrap();
            let taken = from_line(&file, line, 2, 1000, 8).unwrap();
            all.extend_from_slice(&taken.bytes);
            if !taken.more {
                break;
            }
            line += 2;
        }
        assert_eq!(String::from_utf8(all).unwrap(), wrapped);
        let (taken, found) = from_the_end(text.as_bytes(), 3, 2, 8);
        assert_eq!((taken.bytes.as_slice(), found), ("éé\n\n".as_bytes(), 3));
        assert!(taken.more);
        let (taken, found) = from_the_end(text.as_bytes(), 999, 999, 8);
        assert_eq!(String::from_utf8(taken.bytes).unwrap(), wrapped);
        assert!(found < 999 && taken.wrapped && !taken.more);
    }

    #[test]
    fn bytes_that_are_no_text_are_cut_all_the_same() {
        assert_eq!(piece(&[0x80; 20], 8), 8);
        assert_eq!(piece(&[0x80; 20], 1), 1);
    }
}
