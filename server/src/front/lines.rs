//! Bytes to lines, bounded.

/// What a piece of input amounts to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A whole line, without its end.
    Line(Vec<u8>),
    /// A line over the limit: its first bytes, and how long it was. The rest is gone.
    Oversized {
        /// The line's beginning, at most [`LineReader::PREFIX`] bytes.
        prefix: Vec<u8>,
        /// The whole line's length, bytes.
        length: u64,
    },
}

/// Cuts a byte stream into lines of at most `max` bytes.
#[derive(Debug)]
pub struct LineReader {
    max: usize,
    line: Vec<u8>,
    /// Bytes of an oversized line that were dropped after its beginning.
    dropped: u64,
}

impl LineReader {
    /// Bytes of an oversized line that are kept: enough to find its id.
    pub const PREFIX: usize = 4096;

    /// A reader with this limit, bytes.
    pub fn new(max: usize) -> Self {
        Self {
            max: max.max(Self::PREFIX),
            line: Vec::new(),
            dropped: 0,
        }
    }

    /// Takes the next bytes and hands out each line that they finish.
    pub fn push(&mut self, mut bytes: &[u8], mut take: impl FnMut(Piece)) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            self.append(&bytes[..end]);
            take(self.finish());
            bytes = &bytes[end + 1..];
        }
        self.append(bytes);
    }

    /// The last line when the stream ends without a line end; `None` when there is nothing.
    pub fn end(&mut self) -> Option<Piece> {
        (!self.line.is_empty()).then(|| self.finish())
    }

    fn append(&mut self, bytes: &[u8]) {
        if self.dropped == 0 && self.line.len() + bytes.len() <= self.max {
            self.line.extend_from_slice(bytes);
            return;
        }
        let room = Self::PREFIX.saturating_sub(self.line.len());
        let (kept, gone) = bytes.split_at(room.min(bytes.len()));
        self.line.extend_from_slice(kept);
        let excess = self.line.len().saturating_sub(Self::PREFIX);
        self.line.truncate(Self::PREFIX);
        self.line.shrink_to_fit();
        self.dropped += (excess + gone.len()) as u64;
    }

    fn finish(&mut self) -> Piece {
        let mut line = std::mem::take(&mut self.line);
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            let length = line.len() as u64 + dropped;
            return Piece::Oversized {
                prefix: line,
                length,
            };
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Piece::Line(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(max: usize, pieces: &[&[u8]]) -> Vec<Piece> {
        let mut reader = LineReader::new(max);
        let mut out = Vec::new();
        pieces.iter().for_each(|p| reader.push(p, |l| out.push(l)));
        out.extend(reader.end());
        out
    }

    fn line(text: &str) -> Piece {
        Piece::Line(text.into())
    }

    #[test]
    fn lines_come_whole_however_they_are_cut() {
        assert_eq!(
            cut(9999, &[b"a\nb", b"c\r\n", b"\nd"]),
            [line("a"), line("bc"), line(""), line("d")]
        );
        assert_eq!(cut(9999, &[b""]), []);
    }

    #[test]
    fn a_long_line_is_dropped_but_counted_and_the_next_one_is_served() {
        let max = LineReader::PREFIX * 2;
        let long = vec![b'x'; max + 1];
        for step in [1, 1000, max + 1] {
            let mut pieces: Vec<&[u8]> = long.chunks(step).collect();
            pieces.push(b"\nnext\n");
            let out = cut(max, &pieces);
            let Piece::Oversized { prefix, length } = &out[0] else {
                panic!("{out:?}")
            };
            assert_eq!(
                (prefix.len(), *length),
                (LineReader::PREFIX, max as u64 + 1),
                "step {step}"
            );
            assert_eq!(out[1], line("next"));
        }
    }

    #[test]
    fn a_line_of_just_the_limit_passes() {
        let max = LineReader::PREFIX * 2;
        let mut text = vec![b'x'; max];
        text.push(b'\n');
        assert!(matches!(&cut(max, &[&text])[0], Piece::Line(l) if l.len() == max));
    }
}
