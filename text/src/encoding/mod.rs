//! Which encoding bytes are in, and strict conversion both ways.
//!
//! Names are the Encoding Standard's in lower case (`utf-8`, `windows-1252`, `shift_jis`), with `utf-32le`, `utf-32be`
//! and `ascii` added. A byte order mark is not part of the name; [`Detected::label`] adds `-bom`, and
//! [`Label::parse`] reads that back.

mod atoms;
mod detect;
mod iso2022;
mod label;
mod transcode;

pub use detect::{Detected, detect, is_binary};
pub use label::Label;
pub use transcode::{Decoded, decode, encode, encode_with_bom};

pub(crate) use atoms::{Mapped, map};
pub(crate) use iso2022::Iso2022Joiner;

/// A text encoding this crate reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Seven-bit ASCII, only ever declared: detection calls such text UTF-8. Writing anything else is refused.
    Ascii,
    /// UTF-8.
    Utf8,
    /// UTF-16, low byte first.
    Utf16Le,
    /// UTF-16, high byte first.
    Utf16Be,
    /// UTF-32, low byte first.
    Utf32Le,
    /// UTF-32, high byte first.
    Utf32Be,
    /// One of the Encoding Standard's other encodings.
    Legacy(&'static encoding_rs::Encoding),
}

impl Encoding {
    /// The encoding's name in lower case, such as `utf-16le` or `windows-1252`.
    pub fn name(self) -> String {
        match self {
            Self::Ascii => "ascii".to_owned(),
            Self::Utf8 => "utf-8".to_owned(),
            Self::Utf16Le => "utf-16le".to_owned(),
            Self::Utf16Be => "utf-16be".to_owned(),
            Self::Utf32Le => "utf-32le".to_owned(),
            Self::Utf32Be => "utf-32be".to_owned(),
            Self::Legacy(encoding) => encoding.name().to_ascii_lowercase(),
        }
    }

    /// The byte order mark of the encoding; empty for the ones that have none.
    pub fn bom(self) -> &'static [u8] {
        match self {
            Self::Utf8 => b"\xEF\xBB\xBF",
            Self::Utf16Le => b"\xFF\xFE",
            Self::Utf16Be => b"\xFE\xFF",
            Self::Utf32Le => b"\xFF\xFE\0\0",
            Self::Utf32Be => b"\0\0\xFE\xFF",
            Self::Ascii | Self::Legacy(_) => b"",
        }
    }
}

/// Why an encoding could not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodingError {
    /// The declared name is none that is known.
    #[error(
        "no encoding is called `{label}`; use a name of the Encoding Standard such as utf-8, utf-16le, windows-1252 or shift_jis, or leave it out to have it detected"
    )]
    Unknown {
        /// The name as it was given.
        label: String,
    },
    /// The encoding is known but has no safe decoder (such as `iso-2022-kr` and `hz-gb-2312`).
    #[error(
        "the encoding `{label}` is not supported: it has no safe decoder; convert the file with iconv first"
    )]
    Unsupported {
        /// The name as it was given.
        label: String,
    },
    /// A character cannot be written in the encoding. Nothing is ever substituted for it.
    #[error(
        "{} on line {line} cannot be written in {encoding}; use other characters, or another `encoding`",
        show_char(*.ch)
    )]
    Unencodable {
        /// The first character that cannot be written.
        ch: char,
        /// The line of the text it is on, from 1.
        line: usize,
        /// The encoding's name.
        encoding: String,
    },
}

/// A character as a reader can recognise it: itself when it is visible, and its code point.
pub(crate) fn show_char(ch: char) -> String {
    if ch.is_control() || ch.is_whitespace() {
        format!("U+{:04X}", u32::from(ch))
    } else {
        format!("`{ch}` (U+{:04X})", u32::from(ch))
    }
}

#[cfg(test)]
mod tests;
