//! Detection: declared, marked, patterned, valid, guessed, in this order.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use memchr::{memchr, memmem};

use super::{Encoding, EncodingError, Label};
use crate::limits;

/// What encoding some bytes are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Detected {
    /// The encoding.
    pub encoding: Encoding,
    /// Whether the bytes begin with the encoding's byte order mark.
    pub bom: bool,
    /// False when the encoding is a statistical guess.
    pub confident: bool,
}

impl Detected {
    /// The encoding's name in lower case, without a word about the byte order mark.
    pub fn name(&self) -> String {
        self.encoding.name()
    }

    /// The name with `-bom` added where the bytes begin with a mark; [`Label::parse`] reads it back.
    pub fn label(&self) -> String {
        let mark = if self.bom { "-bom" } else { "" };
        format!("{}{mark}", self.encoding.name())
    }

    /// Length of the byte order mark the bytes begin with.
    pub fn bom_len(&self) -> usize {
        if self.bom {
            self.encoding.bom().len()
        } else {
            0
        }
    }
}

/// Names the encoding of `bytes`, a whole file or its beginning.
///
/// A `declared` name is taken at its word; only the byte order of `utf-16` and `utf-32` is then looked for.
///
/// # Errors
/// A declared name that is unknown or not supported. Detection itself cannot fail: at worst it guesses.
pub fn detect(bytes: &[u8], declared: Option<&str>) -> Result<Detected, EncodingError> {
    match declared {
        Some(label) => Ok(as_declared(bytes, Label::parse(label)?)),
        None => Ok(find(bytes)),
    }
}

fn as_declared(bytes: &[u8], label: Label) -> Detected {
    let encoding = if label.any_order {
        byte_order(bytes, label.encoding)
    } else {
        label.encoding
    };
    let mark = encoding.bom();
    Detected {
        encoding,
        bom: !mark.is_empty() && bytes.starts_with(mark),
        confident: true,
    }
}

/// The byte order of a file declared as `utf-16` or `utf-32`: its mark, its NUL pattern, else low byte first.
fn byte_order(bytes: &[u8], little: Encoding) -> Encoding {
    let big = if little == Encoding::Utf16Le {
        Encoding::Utf16Be
    } else {
        Encoding::Utf32Be
    };
    if bytes.starts_with(big.bom())
        || (!bytes.starts_with(little.bom()) && nul_pattern(bytes) == Some(big))
    {
        return big;
    }
    little
}

fn find(bytes: &[u8]) -> Detected {
    let sure = |encoding, bom| Detected {
        encoding,
        bom,
        confident: true,
    };
    if let Some(encoding) = marked(bytes) {
        return sure(encoding, true);
    }
    if let Some(encoding) = nul_pattern(bytes) {
        return sure(encoding, false);
    }
    match std::str::from_utf8(bytes) {
        Ok(_) if is_iso_2022_jp(bytes) => sure(Encoding::Legacy(encoding_rs::ISO_2022_JP), false),
        Ok(_) => sure(Encoding::Utf8, false),
        Err(e) if mostly_utf8(&bytes[sample_start(e.valid_up_to())..]) => Detected {
            encoding: Encoding::Utf8,
            bom: false,
            confident: false,
        },
        Err(_) => guess(bytes),
    }
}

fn marked(bytes: &[u8]) -> Option<Encoding> {
    // FF FE 00 00 is also UTF-16 that begins with a NUL, which text does not.
    [
        Encoding::Utf8,
        Encoding::Utf32Le,
        Encoding::Utf32Be,
        Encoding::Utf16Le,
        Encoding::Utf16Be,
    ]
    .into_iter()
    .find(|e| bytes.starts_with(e.bom()))
}

fn sample_start(first_odd: usize) -> usize {
    first_odd.saturating_sub(limits::DETECT_LEAD)
}

/// A file with a damaged place in it is still UTF-8 when sound sequences clearly outnumber unsound ones: a legacy
/// text hardly ever forms valid sequences by chance.
fn mostly_utf8(bytes: &[u8]) -> bool {
    let (mut sound, mut unsound) = (0usize, 0usize);
    let sample = &bytes[..bytes.len().min(limits::DETECT_SAMPLE)];
    for chunk in sample.utf8_chunks() {
        sound += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        unsound += usize::from(!chunk.invalid().is_empty());
    }
    sound >= unsound.saturating_mul(limits::UTF8_MAJORITY)
}

fn guess(bytes: &[u8]) -> Detected {
    let first = bytes.iter().position(|b| !b.is_ascii()).unwrap_or(0);
    let start = sample_start(first);
    let end = bytes.len().min(start.saturating_add(limits::DETECT_SAMPLE));
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(&bytes[start..end], end == bytes.len());
    let encoding = Encoding::Legacy(detector.guess(None, Utf8Detection::Deny));
    Detected {
        encoding,
        bom: false,
        confident: false,
    }
}

/// Terminal output uses escapes too (`ESC ( B` among them), so the two that switch to kanji must be there and the
/// whole must decode without fault.
fn is_iso_2022_jp(bytes: &[u8]) -> bool {
    let kanji =
        memmem::find(bytes, b"\x1B$B").is_some() || memmem::find(bytes, b"\x1B$@").is_some();
    kanji
        && encoding_rs::ISO_2022_JP
            .decode_without_bom_handling_and_without_replacement(bytes)
            .is_some()
}

/// UTF-16 or UTF-32 without a mark: text in them is full of NUL bytes at regular places, and read in the right form
/// it has no NUL, no control characters, no lone surrogates and some plain ASCII.
fn nul_pattern(bytes: &[u8]) -> Option<Encoding> {
    let sample = &bytes[..bytes.len().min(limits::NUL_SAMPLE)];
    memchr(0, sample)?;
    let whole = sample.len() == bytes.len();
    let fours = |be| sample.chunks_exact(4).map(move |c| unit32(c, be));
    if !whole || bytes.len().is_multiple_of(4) {
        for (encoding, be) in [(Encoding::Utf32Le, false), (Encoding::Utf32Be, true)] {
            if ascii_share(fours(be).map(char::from_u32)).is_some() {
                return Some(encoding);
            }
        }
    }
    let twos = |be| {
        let units = sample.chunks_exact(2).map(move |c| unit16(c, be));
        decode_utf16_sample(units, !whole)
    };
    if whole && !bytes.len().is_multiple_of(2) {
        return None;
    }
    // Bytes that are plain ASCII but for some NULs read as Chinese in pairs, yet real Chinese has high bytes.
    let least = if is_ascii_with_nuls(sample) { 512 } else { 0 };
    let enough = |share: Option<usize>| share.filter(|s| *s >= least);
    let (le, be) = (enough(twos(false)), enough(twos(true)));
    match (le, be) {
        (None, None) => None,
        (Some(_), None) => Some(Encoding::Utf16Le),
        (None, Some(_)) => Some(Encoding::Utf16Be),
        (Some(l), Some(b)) => Some(if l >= b {
            Encoding::Utf16Le
        } else {
            Encoding::Utf16Be
        }),
    }
}

/// Whether hardly any byte is other than NUL, printable ASCII or white space.
fn is_ascii_with_nuls(sample: &[u8]) -> bool {
    let plain = |b: &u8| matches!(b, 0 | 0x20..=0x7E) || is_text_control(u32::from(*b));
    let other = sample.iter().filter(|b| !plain(b)).count();
    other * 16 < sample.len()
}

fn unit16(pair: &[u8], be: bool) -> u16 {
    let pair = [pair[0], pair[1]];
    if be {
        u16::from_be_bytes(pair)
    } else {
        u16::from_le_bytes(pair)
    }
}

fn unit32(four: &[u8], be: bool) -> u32 {
    let four = [four[0], four[1], four[2], four[3]];
    if be {
        u32::from_be_bytes(four)
    } else {
        u32::from_le_bytes(four)
    }
}

fn decode_utf16_sample(units: impl Iterator<Item = u16>, cut: bool) -> Option<usize> {
    let mut decoded = char::decode_utf16(units).peekable();
    let chars = std::iter::from_fn(|| {
        let item = decoded.next()?;
        match item {
            Ok(c) => Some(Some(c)),
            // A pair may be cut in two by the end of the sample.
            Err(_) if cut && decoded.peek().is_none() => None,
            Err(_) => Some(None),
        }
    });
    ascii_share(chars)
}

/// ASCII characters per 1,024, or none when the characters cannot be text of this form.
fn ascii_share(chars: impl Iterator<Item = Option<char>>) -> Option<usize> {
    let (mut all, mut ascii) = (0usize, 0usize);
    for ch in chars {
        let ch = ch?;
        if !is_texty(ch) {
            return None;
        }
        all += 1;
        ascii += usize::from(ch.is_ascii());
    }
    let share = (ascii * 1024).checked_div(all)?;
    // Prose in any script has spaces, digits or line ends; one in 64 is little.
    (share >= 16).then_some(share)
}

fn is_texty(ch: char) -> bool {
    let code = u32::from(ch);
    let private = matches!(code, 0xE000..=0xF8FF | 0xF0000..=0x10FFFF);
    let nonchar = code & 0xFFFE == 0xFFFE || matches!(code, 0xFDD0..=0xFDEF);
    let control = ch.is_control() && !is_text_control(code);
    !(private || nonchar || control)
}

/// Control characters that occur in text: backspace, tab, line ends, vertical tab, form feed, escape.
fn is_text_control(code: u32) -> bool {
    matches!(code, 0x08..=0x0D | 0x1B)
}

/// Whether the beginning of a file is not text: NUL bytes that are not UTF-16 or UTF-32, or many control characters.
/// Give the first [`limits::BINARY_SAMPLE`] bytes; more are not looked at.
pub fn is_binary(head: &[u8]) -> bool {
    let head = &head[..head.len().min(limits::BINARY_SAMPLE)];
    if marked(head).is_some_and(|e| !is_false_mark(head, e)) {
        return false;
    }
    if memchr(0, head).is_some() {
        // A caller's head may be cut anywhere, so a pattern is looked for in whole units only.
        let units = &head[..head.len() - head.len() % 4];
        return nul_pattern(head).or_else(|| nul_pattern(units)).is_none();
    }
    let controls = head
        .iter()
        .filter(|&&b| (b < 0x20 && !is_text_control(u32::from(b))) || b == 0x7F)
        .count();
    controls > 0 && controls * limits::BINARY_CONTROL_SHARE > head.len()
}

/// A two-byte mark also begins some binary formats (MPEG audio frames among them): what follows must decode.
fn is_false_mark(head: &[u8], encoding: Encoding) -> bool {
    let be = match encoding {
        Encoding::Utf16Le => false,
        Encoding::Utf16Be => true,
        _ => return false,
    };
    let mut bad = 0usize;
    let mut all = 0usize;
    for ch in char::decode_utf16(head[2..].chunks_exact(2).map(|c| unit16(c, be))) {
        all += 1;
        bad += usize::from(!ch.is_ok_and(is_texty));
    }
    bad * 8 > all
}
