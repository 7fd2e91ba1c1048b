//! Decoding that remembers which bytes each piece of text came from.
//!
//! Bytes and text are both tiled by *atoms*: the smallest stretches that convert on their own, mostly one character.
//! Atoms of the same widths that follow each other are one run, so plain text needs few runs.

use std::borrow::Cow;
use std::ops::Range;

use encoding_rs::DecoderResult;

use super::Encoding;

/// Atoms of equal widths that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    /// Where the run begins in the text.
    text: usize,
    /// Where the run begins in the bytes.
    bytes: usize,
    /// Bytes of UTF-8 text per atom.
    text_width: usize,
    /// Bytes of the source per atom.
    byte_width: usize,
    /// Whether the atoms are invalid sequences, shown as U+FFFD.
    invalid: bool,
}

/// Decoded text and the way back to its bytes.
#[derive(Debug)]
pub(crate) struct Mapped<'a> {
    /// The text, U+FFFD for each invalid sequence.
    pub(crate) text: Cow<'a, str>,
    /// Empty when text and bytes are the same.
    runs: Vec<Run>,
    /// Length of the source.
    byte_len: usize,
}

impl Mapped<'_> {
    /// Whether text and bytes are the same.
    pub(crate) fn is_identity(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether some bytes were no valid sequence.
    pub(crate) fn has_invalid(&self) -> bool {
        self.runs.iter().any(|r| r.invalid)
    }

    /// The byte offset for a text offset, or none when the offset lies inside an atom.
    pub(crate) fn byte_at(&self, text: usize) -> Option<usize> {
        if self.runs.is_empty() {
            return self.text.is_char_boundary(text).then_some(text);
        }
        if text >= self.text.len() {
            // Bytes that make no text (a last escape sequence) belong to the end.
            return (text == self.text.len()).then_some(self.byte_len);
        }
        let run = self.run_at(text)?;
        let inside = text - run.text;
        let atoms = inside.checked_div(run.text_width)?;
        inside
            .is_multiple_of(run.text_width)
            .then_some(run.bytes + atoms * run.byte_width)
    }

    /// Whether a text range holds an invalid sequence.
    pub(crate) fn invalid_in(&self, range: &Range<usize>) -> bool {
        let first = self
            .runs
            .partition_point(|r| r.text <= range.start)
            .saturating_sub(1);
        self.runs[first.min(self.runs.len())..]
            .iter()
            .take_while(|r| r.text < range.end)
            .any(|r| r.invalid && self.run_end(r) > range.start)
    }

    fn run_at(&self, text: usize) -> Option<Run> {
        let after = self.runs.partition_point(|r| r.text <= text);
        self.runs.get(after.checked_sub(1)?).copied()
    }

    fn run_end(&self, run: &Run) -> usize {
        let after = self.runs.partition_point(|r| r.text <= run.text);
        self.runs
            .get(after)
            .map_or(self.text.len(), |next| next.text)
    }
}

/// Decodes `bytes` (without a byte order mark).
pub(crate) fn map(bytes: &[u8], encoding: Encoding) -> Mapped<'_> {
    match encoding {
        Encoding::Utf8 => map_utf8(bytes),
        Encoding::Ascii => map_ascii(bytes),
        Encoding::Utf16Le => map_utf16(bytes, u16::from_le_bytes),
        Encoding::Utf16Be => map_utf16(bytes, u16::from_be_bytes),
        Encoding::Utf32Le => map_utf32(bytes, u32::from_le_bytes),
        Encoding::Utf32Be => map_utf32(bytes, u32::from_be_bytes),
        Encoding::Legacy(legacy) => map_legacy(bytes, legacy),
    }
}

/// Text and runs under construction.
struct Builder {
    text: String,
    bytes: usize,
    runs: Vec<Run>,
}

impl Builder {
    fn new(len: usize) -> Self {
        Self {
            text: String::with_capacity(len),
            bytes: 0,
            runs: Vec::new(),
        }
    }

    /// Adds `text` made of atoms of the same widths.
    fn add(&mut self, text: &str, text_width: usize, byte_width: usize, invalid: bool) {
        if text_width == 0 {
            return;
        }
        if byte_width == 0 {
            return self.add_to_last(text, invalid);
        }
        let same = |r: &Run| {
            r.text_width == text_width && r.byte_width == byte_width && r.invalid == invalid
        };
        if !self.runs.last().is_some_and(same) {
            let run = Run {
                text: self.text.len(),
                bytes: self.bytes,
                text_width,
                byte_width,
                invalid,
            };
            self.runs.push(run);
        }
        self.text.push_str(text);
        self.bytes += text.len() / text_width * byte_width;
    }

    /// Text whose bytes went to the atom before (a decoder that had read ahead) makes one atom with it.
    fn add_to_last(&mut self, text: &str, invalid: bool) {
        let Some(last) = self.runs.last().copied() else {
            return;
        };
        let joined = Run {
            text: self.text.len() - last.text_width,
            bytes: self.bytes - last.byte_width,
            text_width: last.text_width + text.len(),
            byte_width: last.byte_width,
            invalid: invalid || last.invalid,
        };
        if joined.text == last.text {
            self.runs.pop();
        }
        self.runs.push(joined);
        self.text.push_str(text);
    }

    fn add_char(&mut self, ch: char, byte_width: usize) {
        let mut buffer = [0; 4];
        let text: &str = ch.encode_utf8(&mut buffer);
        self.add(text, text.len(), byte_width, false);
    }

    fn add_invalid(&mut self, byte_width: usize) {
        self.add("\u{FFFD}", 3, byte_width, true);
    }

    fn finish(self, byte_len: usize) -> Mapped<'static> {
        Mapped {
            text: Cow::Owned(self.text),
            runs: self.runs,
            byte_len,
        }
    }
}

fn map_utf8(bytes: &[u8]) -> Mapped<'_> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Mapped {
            text: Cow::Borrowed(text),
            runs: Vec::new(),
            byte_len: bytes.len(),
        };
    }
    let mut out = Builder::new(bytes.len());
    for chunk in bytes.utf8_chunks() {
        // Text and bytes are the same here, so the width is one; an edit never splits a character of a `str`.
        out.add(chunk.valid(), 1, 1, false);
        if !chunk.invalid().is_empty() {
            out.add_invalid(chunk.invalid().len());
        }
    }
    out.finish(bytes.len())
}

fn map_ascii(bytes: &[u8]) -> Mapped<'_> {
    let mut out = Builder::new(bytes.len());
    for &byte in bytes {
        if byte.is_ascii() {
            out.add_char(char::from(byte), 1)
        } else {
            out.add_invalid(1)
        }
    }
    out.finish(bytes.len())
}

fn map_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Mapped<'static> {
    let mut out = Builder::new(bytes.len());
    let (pairs, rest) = bytes.as_chunks::<2>();
    for item in char::decode_utf16(pairs.iter().map(|&p| unit(p))) {
        match item {
            Ok(ch) => out.add_char(ch, ch.len_utf16() * 2),
            Err(_) => out.add_invalid(2),
        }
    }
    if !rest.is_empty() {
        out.add_invalid(rest.len());
    }
    out.finish(bytes.len())
}

fn map_utf32(bytes: &[u8], unit: fn([u8; 4]) -> u32) -> Mapped<'static> {
    let mut out = Builder::new(bytes.len() / 2);
    let (fours, rest) = bytes.as_chunks::<4>();
    for &four in fours {
        match char::from_u32(unit(four)) {
            Some(ch) => out.add_char(ch, 4),
            None => out.add_invalid(4),
        }
    }
    if !rest.is_empty() {
        out.add_invalid(rest.len());
    }
    out.finish(bytes.len())
}

/// Feeds the decoder byte by byte: what comes out after a byte belongs to the bytes since the last output. That holds
/// for every multi-byte encoding, stateful ones too.
fn map_legacy(bytes: &[u8], legacy: &'static encoding_rs::Encoding) -> Mapped<'static> {
    let mut out = Builder::new(bytes.len());
    let mut decoder = legacy.new_decoder_without_bom_handling();
    let mut at = 0;
    while at < bytes.len() {
        // Between characters, plain ASCII needs no decoder.
        if at == out.bytes && legacy.is_ascii_compatible() {
            let plain = encoding_rs::Encoding::ascii_valid_up_to(&bytes[at..]);
            // Some decoders hold state after a character, so the last byte always goes through.
            if plain > 1 {
                let ascii = std::str::from_utf8(&bytes[at..at + plain]).unwrap_or_default();
                out.add(ascii, 1, 1, false);
                at += plain;
                continue;
            }
        }
        feed(&mut decoder, &mut out, &bytes[at..=at], at, false);
        at += 1;
    }
    feed(&mut decoder, &mut out, &[], at, true);
    out.finish(bytes.len())
}

/// Gives the decoder one byte (or the end), and adds the atoms that are complete by then.
fn feed(decoder: &mut encoding_rs::Decoder, out: &mut Builder, byte: &[u8], at: usize, last: bool) {
    let mut buffer = [0u8; 64];
    let mut given = 0;
    loop {
        let (result, read, written) =
            decoder.decode_to_utf8_without_replacement(&byte[given..], &mut buffer, last);
        given += read;
        let end = at + given;
        let text = std::str::from_utf8(&buffer[..written]).unwrap_or_default();
        if let DecoderResult::Malformed(len, after) = result {
            let bad_end = end.saturating_sub(usize::from(after));
            let bad_start = bad_end.saturating_sub(usize::from(len));
            if !text.is_empty() {
                out.add(text, text.len(), bad_start.saturating_sub(out.bytes), false);
            }
            // Bytes that made no text before the bad ones (an escape sequence) go with them.
            out.add_invalid(bad_end.saturating_sub(out.bytes));
            continue;
        }
        if !text.is_empty() {
            out.add(text, text.len(), end.saturating_sub(out.bytes), false);
        }
        return;
    }
}
