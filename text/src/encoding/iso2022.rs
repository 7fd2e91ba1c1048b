//! Putting pieces of an ISO-2022-JP text together.
//!
//! The encoding has state: escape sequences switch between character sets. A piece of the original keeps its bytes only
//! if it is entered in the state it was written for, so switches are added where pieces meet, and only where needed.

use std::ops::Range;

/// The switches that browsers understand.
const ESCAPES: [[u8; 3]; 5] = [*b"\x1B(B", *b"\x1B(J", *b"\x1B(I", *b"\x1B$@", *b"\x1B$B"];
/// The set a text begins in and should end in.
const ASCII: [u8; 3] = *b"\x1B(B";

fn escape_at(bytes: &[u8]) -> Option<[u8; 3]> {
    ESCAPES.into_iter().find(|e| bytes.starts_with(e))
}

/// The state after `bytes` that were entered in state `before`.
fn state_after(bytes: &[u8], before: [u8; 3]) -> [u8; 3] {
    memchr::memrchr_iter(0x1B, bytes)
        .find_map(|at| escape_at(&bytes[at..]))
        .unwrap_or(before)
}

/// Joins pieces of an original text and inserted texts.
pub(crate) struct Iso2022Joiner<'a> {
    source: &'a [u8],
    out: Vec<u8>,
    /// The state at the end of `out`.
    state: [u8; 3],
    /// How far the source has been looked at, and its state there.
    seen: usize,
    seen_state: [u8; 3],
    /// Whether the last piece was inserted.
    inserted_last: bool,
}

impl<'a> Iso2022Joiner<'a> {
    pub(crate) fn new(source: &'a [u8]) -> Self {
        let out = Vec::with_capacity(source.len() + 64);
        Self {
            source,
            out,
            state: ASCII,
            seen: 0,
            seen_state: ASCII,
            inserted_last: false,
        }
    }

    /// Appends a piece of the source; pieces come in order.
    pub(crate) fn keep(&mut self, range: Range<usize>) {
        let piece = &self.source[range.clone()];
        if piece.is_empty() {
            return;
        }
        let entered = state_after(
            &self.source[self.seen..range.start.max(self.seen)],
            self.seen_state,
        );
        // Two switches in a row are a fault, so none is written where the piece begins with its own.
        if self.state != entered && escape_at(piece).is_none() {
            self.out.extend_from_slice(&entered);
        }
        self.out.extend_from_slice(piece);
        self.state = state_after(piece, entered);
        self.seen = range.end;
        self.seen_state = self.state;
        self.inserted_last = false;
    }

    /// Appends an encoded text that by itself begins and ends in ASCII.
    pub(crate) fn insert(&mut self, encoded: &[u8]) {
        let mut wanted = ASCII;
        let mut rest = encoded;
        while let Some((&byte, tail)) = rest.split_first() {
            if let Some(escape) = escape_at(rest) {
                wanted = escape;
                rest = &rest[escape.len()..];
                continue;
            }
            if wanted != self.state {
                self.out.extend_from_slice(&wanted);
                self.state = wanted;
            }
            self.out.push(byte);
            rest = tail;
        }
        self.inserted_last = true;
    }

    /// The whole. A text whose end was replaced ends in ASCII.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        if self.inserted_last && self.state != ASCII {
            self.out.extend_from_slice(&ASCII);
        }
        self.out
    }
}
