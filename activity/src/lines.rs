//! Lines of a file between two offsets, however long they are.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use memchr::memchr;

use crate::limits::{COPY_BLOCK, MAX_LINE};

/// One line, without its newline.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) bytes: &'a [u8],
    /// Its number within what is read, from 1.
    pub(crate) number: u64,
    /// Where the next line begins in the file.
    pub(crate) next: u64,
    /// Whether a newline ended it.
    pub(crate) ended: bool,
}

/// Reads lines; what is over [`MAX_LINE`] of a line is left out of it.
#[derive(Debug)]
pub(crate) struct Lines {
    file: File,
    /// Where the next read begins, and where reading stops.
    read: u64,
    end: u64,
    buffer: Vec<u8>,
    /// How much of the buffer has been given out.
    used: usize,
    number: u64,
    /// Where the next line begins.
    next: u64,
}

impl Lines {
    pub(crate) fn new(file: File, from: u64, end: u64) -> Self {
        Self {
            file,
            read: from,
            end,
            buffer: Vec::new(),
            used: 0,
            number: 0,
            next: from,
        }
    }

    /// The next line, or nothing at the end.
    pub(crate) fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        self.buffer.drain(..self.used);
        self.used = 0;
        let mut searched = 0;
        let mut left_out = 0_u64;
        let found = loop {
            if let Some(at) = memchr(b'\n', &self.buffer[searched..]) {
                break Some(searched + at);
            }
            if self.buffer.len() > MAX_LINE {
                left_out += (self.buffer.len() - MAX_LINE) as u64;
                self.buffer.truncate(MAX_LINE);
            }
            searched = self.buffer.len();
            if self.fill()? == 0 {
                break None;
            }
        };
        let length = found.unwrap_or(self.buffer.len());
        if found.is_none() && length == 0 {
            return Ok(None);
        }
        self.used = length + usize::from(found.is_some());
        self.number += 1;
        self.next += self.used as u64 + left_out;
        Ok(Some(Line {
            bytes: &self.buffer[..length.min(MAX_LINE)],
            number: self.number,
            next: self.next,
            ended: found.is_some(),
        }))
    }

    /// Reads one more block; how many bytes came.
    fn fill(&mut self) -> io::Result<usize> {
        let wanted = usize::try_from(self.end - self.read)
            .unwrap_or(COPY_BLOCK)
            .min(COPY_BLOCK);
        let old = self.buffer.len();
        self.buffer.resize(old + wanted, 0);
        let result = read_at(&self.file, &mut self.buffer[old..], self.read);
        let count = *result.as_ref().unwrap_or(&0);
        self.buffer.truncate(old + count);
        self.read += count as u64;
        result
    }
}

/// One read that is not disturbed by a signal.
pub(crate) fn read_at(file: &File, into: &mut [u8], at: u64) -> io::Result<usize> {
    loop {
        match file.read_at(into, at) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn lines(content: &[u8], from: u64) -> Vec<(Vec<u8>, u64, bool)> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        let mut lines = Lines::new(file, from, content.len() as u64);
        let mut all = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            all.push((line.bytes.to_vec(), line.next, line.ended));
        }
        all
    }

    #[test]
    fn lines_come_with_where_the_next_begins() {
        let all = lines(b"ab\n\nc", 0);
        let expected = vec![
            (b"ab".to_vec(), 3, true),
            (Vec::new(), 4, true),
            (b"c".to_vec(), 5, false),
        ];
        assert_eq!(all, expected);
        assert_eq!(lines(b"ab\nc\n", 3), vec![(b"c".to_vec(), 5, true)]);
        assert_eq!(lines(b"", 0), vec![]);
    }

    #[test]
    fn lines_longer_than_a_block_are_whole_and_overlong_ones_are_cut() {
        let long = vec![b'x'; COPY_BLOCK * 2 + 7];
        let over = vec![b'y'; MAX_LINE + COPY_BLOCK + 5];
        let content = [&long[..], b"\n", &over, b"\nz\n"].concat();
        let all = lines(&content, 0);
        assert_eq!(all.len(), 3);
        assert_eq!(all[0].0, long);
        assert_eq!(all[1].0.len(), MAX_LINE);
        assert_eq!(all[1].1, content.len() as u64 - 2);
        assert_eq!(all[2], (b"z".to_vec(), content.len() as u64, true));
    }
}
