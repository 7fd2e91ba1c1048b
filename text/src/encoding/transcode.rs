//! Whole texts from bytes and to bytes.

use encoding_rs::EncoderResult;

use super::{Detected, Encoding, EncodingError, Label, atoms};
use crate::lines;

/// Text from bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// The text, without the byte order mark; U+FFFD stands for each invalid sequence.
    pub text: String,
    /// Whether there were invalid sequences, so that the text does not hold all that the bytes do.
    pub lossy: bool,
}

/// Decodes bytes whose encoding is known. Line ends stay as they are.
pub fn decode(bytes: &[u8], detected: &Detected) -> Decoded {
    let body = bytes.get(detected.bom_len()..).unwrap_or_default();
    match detected.encoding {
        Encoding::Utf8 => decode_utf8(body),
        Encoding::Legacy(encoding) => {
            let (text, lossy) = encoding.decode_without_bom_handling(body);
            Decoded {
                text: text.into_owned(),
                lossy,
            }
        }
        _ => {
            let mapped = atoms::map(body, detected.encoding);
            Decoded {
                lossy: mapped.has_invalid(),
                text: mapped.text.into_owned(),
            }
        }
    }
}

fn decode_utf8(body: &[u8]) -> Decoded {
    let text = String::from_utf8_lossy(body);
    Decoded {
        lossy: matches!(text, std::borrow::Cow::Owned(_)),
        text: text.into_owned(),
    }
}

/// Encodes text strictly, without a byte order mark.
///
/// # Errors
/// [`EncodingError::Unencodable`] with the first character the encoding has no bytes for. Nothing is substituted.
pub fn encode(text: &str, encoding: Encoding) -> Result<Vec<u8>, EncodingError> {
    match encoding {
        Encoding::Utf8 => Ok(text.as_bytes().to_vec()),
        Encoding::Ascii => match text.char_indices().find(|(_, c)| !c.is_ascii()) {
            None => Ok(text.as_bytes().to_vec()),
            Some((at, ch)) => Err(unencodable(text, at, ch, encoding)),
        },
        Encoding::Utf16Le => Ok(text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
        Encoding::Utf16Be => Ok(text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
        Encoding::Utf32Le => Ok(text
            .chars()
            .flat_map(|c| u32::from(c).to_le_bytes())
            .collect()),
        Encoding::Utf32Be => Ok(text
            .chars()
            .flat_map(|c| u32::from(c).to_be_bytes())
            .collect()),
        Encoding::Legacy(legacy) => encode_legacy(text, legacy),
    }
}

/// Encodes text strictly, with a byte order mark where the label asks for one.
///
/// # Errors
/// As [`encode`].
pub fn encode_with_bom(text: &str, label: Label) -> Result<Vec<u8>, EncodingError> {
    let body = encode(text, label.encoding)?;
    if !label.bom {
        return Ok(body);
    }
    let mut bytes = label.encoding.bom().to_vec();
    bytes.extend_from_slice(&body);
    Ok(bytes)
}

fn encode_legacy(
    text: &str,
    legacy: &'static encoding_rs::Encoding,
) -> Result<Vec<u8>, EncodingError> {
    let mut encoder = legacy.new_encoder();
    let mut out = Vec::with_capacity(text.len() + 16);
    let mut read = 0;
    loop {
        let (result, used) =
            encoder.encode_from_utf8_to_vec_without_replacement(&text[read..], &mut out, true);
        read += used;
        match result {
            EncoderResult::InputEmpty => break,
            EncoderResult::OutputFull => out.reserve(text.len() - read + 1024),
            EncoderResult::Unmappable(ch) => {
                return Err(unencodable(
                    text,
                    read.saturating_sub(ch.len_utf8()),
                    ch,
                    Encoding::Legacy(legacy),
                ));
            }
        }
    }
    check_round_trip(text, &out, legacy)?;
    Ok(out)
}

/// Some of the standard's encoders write a look-alike (`\u{a5}` becomes a backslash in Shift_JIS): that is a substitution
/// too, so what was written is read back.
fn check_round_trip(
    text: &str,
    bytes: &[u8],
    legacy: &'static encoding_rs::Encoding,
) -> Result<(), EncodingError> {
    let (back, _) = legacy.decode_without_bom_handling(bytes);
    if back == text {
        return Ok(());
    }
    let mut there = back.chars();
    match text
        .char_indices()
        .find(|&(_, ch)| there.next() != Some(ch))
    {
        Some((at, ch)) => Err(unencodable(text, at, ch, Encoding::Legacy(legacy))),
        None => Ok(()),
    }
}

fn unencodable(text: &str, at: usize, ch: char, encoding: Encoding) -> EncodingError {
    let line = lines::line_at(text, at);
    EncodingError::Unencodable {
        ch,
        line,
        encoding: encoding.name(),
    }
}
