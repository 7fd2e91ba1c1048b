//! Names of encodings as people write them.

use super::{Encoding, EncodingError};

/// An encoding as named by a caller: which one, and whether the name asks for a byte order mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    /// The encoding. For the names `utf-16` and `utf-32` it is the little-endian form.
    pub encoding: Encoding,
    /// Whether a new file of this name begins with a byte order mark (`utf-8-bom`, `utf-8-sig`, `utf-16`, `utf-32`).
    pub bom: bool,
    /// Whether the name leaves the byte order open (`utf-16`, `utf-32`): reading looks at the bytes.
    pub any_order: bool,
}

impl Label {
    /// Reads a name: the Encoding Standard's labels, `utf-32` forms, `-bom` and `-sig` suffixes, and the common
    /// spellings of other tools (`utf8`, `latin-1`, `cp932`). Upper and lower case, `_` and `-` are the same.
    ///
    /// # Errors
    /// [`EncodingError::Unknown`] and [`EncodingError::Unsupported`].
    pub fn parse(label: &str) -> Result<Self, EncodingError> {
        let name = label.trim().to_ascii_lowercase().replace([' ', '_'], "-");
        let stem = name
            .strip_suffix("-bom")
            .or_else(|| name.strip_suffix("-sig"));
        let found = parse_name(stem.unwrap_or(&name), label)?;
        if stem.is_some() {
            if found.encoding.bom().is_empty() {
                return Err(EncodingError::Unknown {
                    label: label.to_owned(),
                });
            }
            return Ok(Self { bom: true, ..found });
        }
        Ok(found)
    }

    /// A label for exactly this encoding, without a byte order mark.
    pub fn plain(encoding: Encoding) -> Self {
        Self {
            encoding,
            bom: false,
            any_order: false,
        }
    }
}

fn parse_name(name: &str, given: &str) -> Result<Label, EncodingError> {
    let open = |encoding| Label {
        encoding,
        bom: true,
        any_order: true,
    };
    let plain = match name {
        "utf-8" | "utf8" | "u8" => Label::plain(Encoding::Utf8),
        "ascii" | "us-ascii" => Label::plain(Encoding::Ascii),
        "utf-16" | "utf16" | "unicode" | "ucs-2" => open(Encoding::Utf16Le),
        "utf-16le" | "utf16le" | "utf-16-le" | "ucs-2le" => Label::plain(Encoding::Utf16Le),
        "utf-16be" | "utf16be" | "utf-16-be" | "ucs-2be" => Label::plain(Encoding::Utf16Be),
        "utf-32" | "utf32" | "ucs-4" => open(Encoding::Utf32Le),
        "utf-32le" | "utf32le" | "utf-32-le" => Label::plain(Encoding::Utf32Le),
        "utf-32be" | "utf32be" | "utf-32-be" => Label::plain(Encoding::Utf32Be),
        _ => return parse_legacy(name, given),
    };
    Ok(plain)
}

fn parse_legacy(name: &str, given: &str) -> Result<Label, EncodingError> {
    let name = match name {
        "latin-1" | "iso8859" => "latin1",
        "cp932" | "ms-932" | "windows-932" => "windows-31j",
        "cp936" | "ms936" => "gbk",
        "cp949" | "ms949" => "euc-kr",
        "cp950" | "ms950" => "big5",
        "mac-roman" => "macintosh",
        other => other,
    };
    // Some labels of the standard are written with underscores only.
    let found = encoding_rs::Encoding::for_label(given.as_bytes())
        .or_else(|| encoding_rs::Encoding::for_label(name.as_bytes()))
        .or_else(|| encoding_rs::Encoding::for_label(name.replace('-', "_").as_bytes()))
        .or_else(|| encoding_rs::Encoding::for_label(name.replace('-', "").as_bytes()));
    match found {
        None => Err(EncodingError::Unknown {
            label: given.to_owned(),
        }),
        Some(e) if e == encoding_rs::REPLACEMENT => Err(EncodingError::Unsupported {
            label: given.to_owned(),
        }),
        Some(e) if e == encoding_rs::UTF_8 => Ok(Label::plain(Encoding::Utf8)),
        Some(e) if e == encoding_rs::UTF_16LE => Ok(Label::plain(Encoding::Utf16Le)),
        Some(e) if e == encoding_rs::UTF_16BE => Ok(Label::plain(Encoding::Utf16Be)),
        Some(e) => Ok(Label::plain(Encoding::Legacy(e))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_tools_are_understood() {
        for (given, name, bom) in [
            ("UTF-8", "utf-8", false),
            ("utf8", "utf-8", false),
            ("utf_8_sig", "utf-8", true),
            ("utf-8-bom", "utf-8", true),
            ("UTF-16", "utf-16le", true),
            ("utf-16be", "utf-16be", false),
            ("utf-16le-bom", "utf-16le", true),
            ("utf-32", "utf-32le", true),
            ("latin-1", "windows-1252", false),
            ("iso-8859-1", "windows-1252", false),
            ("ISO-8859-15", "iso-8859-15", false),
            ("cp1252", "windows-1252", false),
            ("cp932", "shift_jis", false),
            ("Shift_JIS", "shift_jis", false),
            ("euc-jp", "euc-jp", false),
            ("gb18030", "gb18030", false),
            ("big5", "big5", false),
            ("koi8-r", "koi8-r", false),
            ("ks_c_5601-1987", "euc-kr", false),
            ("csISO2022JP", "iso-2022-jp", false),
            ("x-mac-cyrillic", "x-mac-cyrillic", false),
            ("ascii", "ascii", false),
        ] {
            let label = Label::parse(given).unwrap_or_else(|e| panic!("{given}: {e}"));
            assert_eq!(
                (label.encoding.name().as_str(), label.bom),
                (name, bom),
                "{given}"
            );
        }
    }

    #[test]
    fn unknown_and_unsafe_names_are_refused() {
        assert!(matches!(
            Label::parse("klingon"),
            Err(EncodingError::Unknown { .. })
        ));
        assert!(matches!(
            Label::parse(""),
            Err(EncodingError::Unknown { .. })
        ));
        assert!(matches!(
            Label::parse("windows-1252-bom"),
            Err(EncodingError::Unknown { .. })
        ));
        assert!(matches!(
            Label::parse("iso-2022-kr"),
            Err(EncodingError::Unsupported { .. })
        ));
    }
}
