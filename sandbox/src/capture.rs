//! A stream's beginning and end in bounded memory.

use crate::report::{Excerpt, encode_bytes};
use std::collections::VecDeque;

/// Keeps the first `head` and the last `tail` bytes of what is pushed, and counts all of it.
#[derive(Debug)]
pub struct Capture {
    head_max: usize,
    tail_max: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl Capture {
    /// A capture with these two sizes, bytes.
    pub fn new(head_max: usize, tail_max: usize) -> Self {
        Self {
            head_max,
            tail_max,
            head: Vec::new(),
            tail: VecDeque::new(),
            total: 0,
        }
    }

    /// Takes the stream's next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.head_max - self.head.len();
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.tail_max)..];
        let overflow = (self.tail.len() + rest.len()).saturating_sub(self.tail_max);
        self.tail.drain(..overflow);
        self.tail.extend(rest);
    }

    /// All bytes pushed so far.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Whether what is kept is all there was.
    pub fn is_whole(&self) -> bool {
        self.total == self.kept_len() as u64
    }

    /// Whether what is kept would still be all there was after `more` further bytes.
    pub fn has_room_for(&self, more: usize) -> bool {
        self.is_whole() && self.kept_len() + more <= self.head_max + self.tail_max
    }

    fn kept_len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// The bytes kept, head then tail; everything when [`Self::is_whole`].
    pub fn kept(&self) -> Vec<u8> {
        let mut all = self.head.clone();
        all.extend(&self.tail);
        all
    }

    /// The last whole line seen, without its end, at most `max` bytes, lossily decoded.
    pub fn last_line(&self, max: usize) -> String {
        let kept = self.kept();
        let end = kept.iter().rposition(|b| *b == b'\n').unwrap_or(kept.len());
        let start = kept[..end]
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |at| at + 1);
        let line = &kept[start..end];
        String::from_utf8_lossy(&line[..line.len().min(max)]).into_owned()
    }

    /// What goes into a report.
    pub fn excerpt(&self) -> Excerpt {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        Excerpt {
            total: self.total,
            head: encode_bytes(&self.head),
            tail: encode_bytes(&tail),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_streams_are_whole() {
        let mut capture = Capture::new(4, 4);
        capture.push(b"abc");
        capture.push(b"defg");
        assert!(capture.is_whole());
        assert_eq!(capture.kept(), b"abcdefg");
    }

    #[test]
    fn long_streams_keep_both_ends() {
        for step in 1..20 {
            let mut capture = Capture::new(4, 3);
            let all: Vec<u8> = (0..100).collect();
            for piece in all.chunks(step) {
                capture.push(piece);
            }
            assert_eq!(capture.total(), 100);
            assert!(!capture.is_whole());
            assert_eq!(capture.kept(), [0, 1, 2, 3, 97, 98, 99], "step {step}");
        }
    }

    #[test]
    fn one_push_larger_than_both_ends() {
        let mut capture = Capture::new(2, 2);
        capture.push(b"abcdefgh");
        assert_eq!(capture.kept(), b"abgh");
        assert_eq!(capture.total(), 8);
    }

    #[test]
    fn last_line_is_the_last_whole_one() {
        let mut capture = Capture::new(100, 100);
        capture.push(b"one\ntwo\npart");
        assert_eq!(capture.last_line(10), "two");
        let mut capture = Capture::new(100, 100);
        capture.push(b"only");
        assert_eq!(capture.last_line(2), "on");
    }
}
