//! The text under edit as a list of pieces, so that untouched stretches keep the bytes they came from.

use std::borrow::Cow;
use std::ops::Range;

use crate::encoding::{
    Detected, Encoding, EncodingError, Iso2022Joiner, Mapped, decode, encode, map,
};

/// A stretch of the current text. The `original` ranges of all pieces tile the original text in order.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    /// The stretch of the original text that this is, or stands for.
    original: Range<usize>,
    /// Length in the current text.
    len: usize,
    /// Whether the text was put in by an edit; otherwise it is the original.
    inserted: bool,
}

impl Piece {
    /// Cuts the piece in two, `at` bytes of current text into it. What an insertion stands for stays with its left part.
    fn split(&self, at: usize) -> (Self, Self) {
        let middle = if self.inserted {
            self.original.end
        } else {
            self.original.start + at
        };
        let left = Self {
            original: self.original.start..middle,
            len: at,
            inserted: self.inserted,
        };
        let right = Self {
            original: middle..self.original.end,
            len: self.len - at,
            inserted: self.inserted,
        };
        (left, right)
    }
}

/// A replacement of a stretch of the current text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change<'t> {
    /// The stretch.
    pub(super) range: Range<usize>,
    /// The text in its place.
    pub(super) text: Cow<'t, str>,
    /// For an insertion at a place of the original text: that place. Where text was deleted, several places of the
    /// original are one in the current text, and later edits may name each of them.
    pub(super) origin: Option<usize>,
}

/// A file's text, original and current.
pub(super) struct Buffer<'a> {
    body: &'a [u8],
    encoding: Encoding,
    mapped: Mapped<'a>,
    /// None while it is the original.
    current: Option<String>,
    pieces: Vec<Piece>,
}

impl<'a> Buffer<'a> {
    /// Decodes a file.
    pub(super) fn new(bytes: &'a [u8], detected: &Detected) -> Self {
        let body = bytes.get(detected.bom_len()..).unwrap_or_default();
        let mapped = map(body, detected.encoding);
        let len = mapped.text.len();
        let pieces = vec![Piece {
            original: 0..len,
            len,
            inserted: false,
        }];
        Self {
            body,
            encoding: detected.encoding,
            mapped,
            current: None,
            pieces,
        }
    }

    /// The file's encoding.
    pub(super) fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The text before any edit.
    pub(super) fn original(&self) -> &str {
        &self.mapped.text
    }

    /// The text as edited so far.
    pub(super) fn text(&self) -> &str {
        self.current.as_deref().unwrap_or(&self.mapped.text)
    }

    /// Where each piece begins in the current text.
    fn offsets(&self) -> Vec<usize> {
        let mut at = 0;
        self.pieces
            .iter()
            .map(|p| {
                let start = at;
                at += p.len;
                start
            })
            .collect()
    }

    /// A view that answers questions about places; build it anew after each change.
    pub(super) fn places(&self) -> Places<'_, 'a> {
        Places {
            offsets: self.offsets(),
            buffer: self,
        }
    }

    /// Where a place between original lines is in the current text. Text inserted at the same place stays before it.
    pub(super) fn current_of(&self, original: usize) -> usize {
        let mut at = 0;
        for piece in &self.pieces {
            if piece.original.end > original {
                let inside = if piece.inserted {
                    0
                } else {
                    original.saturating_sub(piece.original.start)
                };
                return at + inside;
            }
            at += piece.len;
        }
        at
    }

    /// Where an original stretch that ends at `original`, and that no edit touched, ends in the current text.
    pub(super) fn current_end_of(&self, original: usize) -> usize {
        let mut at = 0;
        for piece in &self.pieces {
            if piece.original.start < original && original <= piece.original.end && !piece.inserted
            {
                return at + (original - piece.original.start);
            }
            at += piece.len;
        }
        at
    }

    /// Makes changes; they must be in order, apart, and between atoms.
    pub(super) fn change(&mut self, changes: &[Change<'_>]) {
        let grown: usize = changes.iter().map(|c| c.text.len()).sum();
        let mut text = String::with_capacity(self.text().len() + grown);
        let mut cutter = Cutter::new(std::mem::take(&mut self.pieces));
        for change in changes {
            let done = cutter.taken;
            text.push_str(&self.text()[done..change.range.start]);
            cutter.keep_until(change.range.start);
            cutter.keep_deleted(change.origin.unwrap_or(0));
            cutter.replace_until(change.range.end, change.text.len());
            text.push_str(&change.text);
        }
        text.push_str(&self.text()[cutter.taken..]);
        self.pieces = cutter.finish();
        self.current = Some(text);
    }

    /// The bytes of the current text, without the byte order mark.
    ///
    /// # Errors
    /// A character that cannot be encoded.
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, EncodingError> {
        if self.encoding == Encoding::Legacy(encoding_rs::ISO_2022_JP) {
            return self.to_stateful_bytes();
        }
        let mut out = Vec::with_capacity(self.body.len() + 64);
        let mut at = 0;
        for piece in &self.pieces {
            if piece.inserted {
                out.extend_from_slice(&encode(&self.text()[at..at + piece.len], self.encoding)?);
            } else {
                out.extend_from_slice(&self.body[self.source_of(&piece.original)]);
            }
            at += piece.len;
        }
        Ok(out)
    }

    fn to_stateful_bytes(&self) -> Result<Vec<u8>, EncodingError> {
        let mut joiner = Iso2022Joiner::new(self.body);
        let mut at = 0;
        for piece in &self.pieces {
            if piece.inserted {
                joiner.insert(&encode(&self.text()[at..at + piece.len], self.encoding)?);
            } else {
                joiner.keep(self.source_of(&piece.original));
            }
            at += piece.len;
        }
        Ok(joiner.finish())
    }

    fn source_of(&self, original: &Range<usize>) -> Range<usize> {
        let start = self.mapped.byte_at(original.start).unwrap_or(0);
        start
            ..self
                .mapped
                .byte_at(original.end)
                .unwrap_or(start)
                .max(start)
    }

    /// Whether `bytes` (as [`Self::to_bytes`] made them) read as the current text. Always so where text and bytes are
    /// the same, or each byte is a character.
    pub(super) fn reads_back(&self, bytes: &[u8]) -> bool {
        let simple = match self.encoding {
            Encoding::Utf8 => !self.mapped.has_invalid(),
            Encoding::Ascii => true,
            Encoding::Legacy(legacy) => legacy.is_single_byte(),
            _ => false,
        };
        let body = Detected {
            encoding: self.encoding,
            bom: false,
            confident: true,
        };
        simple || decode(bytes, &body).text == self.text()
    }

    /// The original and the current text.
    pub(super) fn into_texts(self) -> (String, String) {
        let original = self.mapped.text.into_owned();
        let current = self.current.unwrap_or_else(|| original.clone());
        (original, current)
    }
}

/// Answers about places in the current text.
pub(super) struct Places<'b, 'a> {
    buffer: &'b Buffer<'a>,
    offsets: Vec<usize>,
}

impl Places<'_, '_> {
    fn piece_at(&self, current: usize) -> (usize, &Piece) {
        let index = self
            .offsets
            .partition_point(|&o| o <= current)
            .saturating_sub(1);
        (self.offsets[index], &self.buffer.pieces[index])
    }

    /// The place in the original text that a place in the current text came from or stands at.
    pub(super) fn original_of(&self, current: usize) -> usize {
        let (start, piece) = self.piece_at(current);
        if piece.inserted {
            piece.original.start
        } else {
            piece.original.start + (current - start)
        }
    }

    /// The original stretch that a stretch of the current text came from or stands for.
    pub(super) fn original_range(&self, range: &Range<usize>) -> Range<usize> {
        let start = self.original_of(range.start);
        if range.is_empty() {
            return start..start;
        }
        let (at, piece) = self.piece_at(range.end - 1);
        let end = if piece.inserted {
            piece.original.end
        } else {
            piece.original.start + (range.end - at)
        };
        start..end.max(start)
    }

    /// Whether the text can be cut here: between characters, and not inside bytes that decode only together.
    pub(super) fn can_cut(&self, current: usize) -> bool {
        if !self.buffer.text().is_char_boundary(current) {
            return false;
        }
        let (start, piece) = self.piece_at(current);
        piece.inserted
            || current == start
            || self
                .buffer
                .mapped
                .byte_at(self.original_of(current))
                .is_some()
    }

    /// Whether a stretch of the current text can be replaced as a match: its ends can be cut, and all of its bytes are
    /// valid.
    pub(super) fn is_sound(&self, range: &Range<usize>) -> bool {
        if self.buffer.mapped.is_identity() {
            return true;
        }
        self.can_cut(range.start) && self.can_cut(range.end) && !self.touches_invalid(range)
    }

    /// Whether original bytes in a stretch of the current text are invalid.
    fn touches_invalid(&self, range: &Range<usize>) -> bool {
        let first = self
            .offsets
            .partition_point(|&o| o <= range.start)
            .saturating_sub(1);
        self.buffer.pieces[first..]
            .iter()
            .zip(&self.offsets[first..])
            .take_while(|&(_, &o)| o < range.end)
            .any(|(piece, &offset)| {
                let from = range.start.max(offset) - offset;
                let to = range.end.min(offset + piece.len) - offset;
                let start = piece.original.start;
                !piece.inserted
                    && from < to
                    && self.buffer.mapped.invalid_in(&(start + from..start + to))
            })
    }
}

/// Walks over pieces from left to right, keeping some and replacing others.
struct Cutter {
    rest: std::iter::Peekable<std::vec::IntoIter<Piece>>,
    /// The unused right part of a piece that was cut.
    pending: Option<Piece>,
    out: Vec<Piece>,
    /// How far in the text before the changes.
    taken: usize,
}

impl Cutter {
    fn new(pieces: Vec<Piece>) -> Self {
        Self {
            out: Vec::with_capacity(pieces.len() + 2),
            rest: pieces.into_iter().peekable(),
            pending: None,
            taken: 0,
        }
    }

    /// The next stretch, at most up to `end`.
    fn next_until(&mut self, end: usize) -> Option<Piece> {
        if self.taken >= end {
            return None;
        }
        let piece = self.pending.take().or_else(|| self.rest.next())?;
        let room = end - self.taken;
        if piece.len <= room {
            self.taken += piece.len;
            return Some(piece);
        }
        let (left, right) = piece.split(room);
        self.pending = Some(right);
        self.taken += room;
        Some(left)
    }

    fn keep_until(&mut self, end: usize) {
        while let Some(piece) = self.next_until(end) {
            self.out.push(piece);
        }
    }

    /// Keeps deleted stretches that lie before a place of the original.
    fn keep_deleted(&mut self, origin: usize) {
        if self.pending.is_none() {
            let before =
                |p: &Piece| p.len == 0 && !p.original.is_empty() && p.original.end <= origin;
            while let Some(piece) = self.rest.next_if(before) {
                self.out.push(piece);
            }
        }
    }

    fn replace_until(&mut self, end: usize, len: usize) {
        let start = self.out.last().map_or(0, |p| p.original.end);
        let mut original = start..start;
        while let Some(piece) = self.next_until(end) {
            original.end = piece.original.end;
        }
        self.out.push(Piece {
            original,
            len,
            inserted: true,
        });
    }

    fn finish(mut self) -> Vec<Piece> {
        self.out.extend(self.pending.take());
        self.out.extend(self.rest);
        self.out
    }
}
