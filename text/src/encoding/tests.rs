use proptest::prelude::*;

use super::*;
use crate::limits;

static ALL: std::sync::LazyLock<Vec<Encoding>> = std::sync::LazyLock::new(all);

/// Every encoding of the standard that can be written, and the Unicode ones.
fn all() -> Vec<Encoding> {
    let legacy = [
        "windows-1250",
        "windows-1251",
        "windows-1252",
        "windows-1253",
        "windows-1254",
        "windows-1255",
        "windows-1256",
        "windows-1257",
        "windows-1258",
        "windows-874",
        "iso-8859-2",
        "iso-8859-3",
        "iso-8859-5",
        "iso-8859-7",
        "iso-8859-8",
        "iso-8859-15",
        "iso-8859-16",
        "koi8-r",
        "koi8-u",
        "ibm866",
        "macintosh",
        "x-mac-cyrillic",
        "shift_jis",
        "euc-jp",
        "iso-2022-jp",
        "gbk",
        "gb18030",
        "big5",
        "euc-kr",
        "x-user-defined",
    ];
    let unicode = [
        "ascii", "utf-8", "utf-16le", "utf-16be", "utf-32le", "utf-32be",
    ];
    unicode
        .iter()
        .chain(&legacy)
        .map(|l| Label::parse(l).unwrap().encoding)
        .collect()
}

fn named(label: &str) -> Encoding {
    Label::parse(label).unwrap().encoding
}

fn bytes_of(text: &str, label: &str) -> Vec<u8> {
    encode_with_bom(text, Label::parse(label).unwrap()).unwrap()
}

const GERMAN: &str = "Die Straße führt über die Brücke, dort hört man das Läuten der Glocken.\nÄpfel für Größe fünf.\n";
const RUSSIAN: &str =
    "Съешь же ещё этих мягких французских булок, да выпей чаю.\nВторая строка текста.\n";
const JAPANESE: &str = "これは日本語の文章です。\n漢字とカタカナとひらがなを含みます。\n";
const CHINESE: &str = "这是一个用中文写成的文件，里面有很多常用的汉字。\n第二行也是这样。\n";
const TRADITIONAL: &str =
    "這是一個用繁體中文寫成的檔案，裡面有很多常用的漢字。\n第二行也是這樣。\n";
const KOREAN: &str =
    "이것은 한국어로 쓴 문장입니다. 여러 글자가 들어 있습니다.\n둘째 줄도 그렇습니다.\n";

#[test]
fn encodings_are_named() {
    for (text, label, expected, confident) in [
        ("plain\n", "utf-8", "utf-8", true),
        ("", "utf-8", "utf-8", true),
        (GERMAN, "utf-8", "utf-8", true),
        (GERMAN, "utf-8-bom", "utf-8-bom", true),
        (GERMAN, "utf-16le", "utf-16le", true),
        (GERMAN, "utf-16be", "utf-16be", true),
        (GERMAN, "utf-16le-bom", "utf-16le-bom", true),
        (GERMAN, "utf-16be-bom", "utf-16be-bom", true),
        (GERMAN, "utf-32le", "utf-32le", true),
        (GERMAN, "utf-32be", "utf-32be", true),
        (GERMAN, "utf-32le-bom", "utf-32le-bom", true),
        (GERMAN, "utf-32be-bom", "utf-32be-bom", true),
        (JAPANESE, "utf-16le", "utf-16le", true),
        (CHINESE, "utf-16be", "utf-16be", true),
        ("hi", "utf-16le", "utf-16le", true),
        (GERMAN, "windows-1252", "windows-1252", false),
        (RUSSIAN, "windows-1251", "windows-1251", false),
        (RUSSIAN, "koi8-r", "koi8-u", false),
        (JAPANESE, "shift_jis", "shift_jis", false),
        (JAPANESE, "euc-jp", "euc-jp", false),
        (JAPANESE, "iso-2022-jp", "iso-2022-jp", true),
        (CHINESE, "gbk", "gbk", false),
        (TRADITIONAL, "big5", "big5", false),
        (KOREAN, "euc-kr", "euc-kr", false),
    ] {
        let bytes = bytes_of(text, label);
        let found = detect(&bytes, None).unwrap();
        assert_eq!(
            (found.label().as_str(), found.confident),
            (expected, confident),
            "{label}: {text}"
        );
        assert_eq!(
            decode(&bytes, &found),
            Decoded {
                text: text.to_owned(),
                lossy: false
            },
            "{label}"
        );
    }
}

#[test]
fn late_legacy_bytes_are_found() {
    let mut bytes = "plain words\n".repeat(50_000).into_bytes();
    bytes.extend(bytes_of(GERMAN, "windows-1252"));
    assert_eq!(detect(&bytes, None).unwrap().name(), "windows-1252");
}

#[test]
fn one_damaged_place_does_not_turn_utf8_into_a_legacy_encoding() {
    let mut bytes = RUSSIAN.as_bytes().to_vec();
    bytes.insert(20, 0xFF);
    let found = detect(&bytes, None).unwrap();
    assert_eq!((found.name().as_str(), found.confident), ("utf-8", false));
    assert!(decode(&bytes, &found).lossy);
}

#[test]
fn terminal_escapes_are_not_iso_2022_jp() {
    let found = detect(b"\x1B[1m\x1B(Bbold\x1B[0m $B \x1B(B\n", None).unwrap();
    assert_eq!(found.name(), "utf-8");
}

#[test]
fn a_declared_encoding_is_taken_at_its_word() {
    let bytes = bytes_of("é", "utf-8");
    assert_eq!(
        decode(&bytes, &detect(&bytes, Some("latin1")).unwrap()).text,
        "Ã©"
    );
    assert!(matches!(
        detect(&bytes, Some("nonsense")),
        Err(EncodingError::Unknown { .. })
    ));
    for (label, expected) in [
        ("utf-16be-bom", "utf-16be-bom"),
        ("utf-16be", "utf-16be"),
        ("utf-16le", "utf-16le"),
    ] {
        assert_eq!(
            detect(&bytes_of("Grüße aus Köln", label), Some("utf-16"))
                .unwrap()
                .label(),
            expected
        );
    }
    assert_eq!(
        detect(&bytes_of("Grüße", "utf-32be"), Some("utf-32"))
            .unwrap()
            .label(),
        "utf-32be"
    );
}

#[test]
fn binary_is_told_from_text() {
    for label in [
        "utf-8",
        "utf-8-bom",
        "utf-16le",
        "utf-16be-bom",
        "utf-32le",
        "utf-32be-bom",
    ] {
        assert!(!is_binary(&bytes_of(JAPANESE, label)), "{label}");
    }
    assert!(!is_binary(&bytes_of(RUSSIAN, "koi8-r")));
    assert!(!is_binary(b""));
    assert!(!is_binary(b"\x1B[31mred\x1B[0m\x08\x0C\t\r\n"));
    assert!(is_binary(b"text\0text"));
    assert!(is_binary(
        b"\x7FELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3E\0"
    ));
    assert!(is_binary(b"PK\x03\x04\x14\0\0\0\x08\0"));
    assert!(is_binary(&[0; 64]));
    assert!(is_binary(b"\x01\x02\x03\x04"));
    // Frames of MPEG audio begin like a byte order mark.
    let noise: Vec<u8> = (0..4000u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    assert!(is_binary(&[b"\xFF\xFE".as_slice(), &noise].concat()));
    assert!(is_binary(&noise));
}

#[test]
fn a_head_cut_inside_a_character_is_still_text() {
    let bytes = bytes_of(&JAPANESE.repeat(3000), "utf-16le");
    for cut in [limits::NUL_SAMPLE, limits::NUL_SAMPLE - 1, 8191, 101] {
        assert!(!is_binary(&bytes[..cut]), "{cut}");
    }
}

#[test]
fn writing_is_strict() {
    let fails = |text: &str, label: &str| match encode(text, named(label)) {
        Err(EncodingError::Unencodable { ch, line, .. }) => Some((ch, line)),
        _ => None,
    };
    assert_eq!(fails("a\nb€ä→c", "windows-1252"), Some(('→', 2)));
    assert_eq!(fails("é", "ascii"), Some(('é', 1)));
    assert_eq!(fails("ab😀", "shift_jis"), Some(('😀', 1)));
    // These the standard's encoder would replace by a look-alike.
    assert_eq!(fails("a¥", "shift_jis"), Some(('¥', 1)));
    assert_eq!(fails("\r\nx−", "euc-jp"), Some(('−', 2)));
    assert_eq!(fails("😀", "gb18030"), None);
    assert_eq!(fails("😀", "utf-16le"), None);
}

#[test]
fn invalid_sequences_are_shown_and_told() {
    let lossy = |bytes: &[u8], label: &str| decode(bytes, &detect(bytes, Some(label)).unwrap());
    assert_eq!(
        lossy(b"a\xFFb", "utf-8"),
        Decoded {
            text: "a\u{FFFD}b".to_owned(),
            lossy: true
        }
    );
    assert_eq!(
        lossy(b"a\0\0\xD8b\0", "utf-16le"),
        Decoded {
            text: "a\u{FFFD}b".to_owned(),
            lossy: true
        }
    );
    assert_eq!(
        lossy(b"a\0b", "utf-16le"),
        Decoded {
            text: "a\u{FFFD}".to_owned(),
            lossy: true
        }
    );
    assert_eq!(
        lossy(b"\0\0\0a\0\x11\0\0", "utf-32be"),
        Decoded {
            text: "a\u{FFFD}".to_owned(),
            lossy: true
        }
    );
    assert!(!lossy("a\u{FFFD}".as_bytes(), "utf-8").lossy);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn detection_and_decoding_take_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let found = detect(&bytes, None).unwrap();
        decode(&bytes, &found);
        is_binary(&bytes);
    }

    #[test]
    fn mapping_agrees_with_plain_decoding(
        bytes in prop::collection::vec(prop_oneof![3 => any::<u8>(), 1 => Just(0x1B), 1 => Just(b'$'), 1 => Just(b'B'),
            1 => Just(b'('), 1 => 0x30u8..0x3A, 1 => 0x81u8..0x85], 0..200),
        pick in 0usize..36,
    ) {
        let encoding = ALL[pick % ALL.len()];
        let mapped = map(&bytes, encoding);
        let detected = Detected { encoding, bom: false, confident: true };
        let plain = decode(&bytes, &detected);
        prop_assert_eq!(mapped.text.as_ref(), &plain.text);
        // Cut places rise strictly from the first byte to the last.
        let mut last = None;
        for (at, _) in mapped.text.char_indices() {
            if let Some(byte) = mapped.byte_at(at) {
                prop_assert!(last.is_none_or(|l| l < byte), "{} {:?}", byte, last);
                last = Some(byte);
            }
        }
        if !mapped.text.is_empty() {
            prop_assert_eq!(mapped.byte_at(0), Some(0));
            prop_assert_eq!(mapped.byte_at(mapped.text.len()), Some(bytes.len()));
        }
    }

    #[test]
    fn what_can_be_written_reads_back(text in "\\PC{0,40}", pick in 0usize..36) {
        let encoding = ALL[pick % ALL.len()];
        if let Ok(bytes) = encode(&text, encoding) {
            let detected = Detected { encoding, bom: false, confident: true };
            prop_assert_eq!(decode(&bytes, &detected).text, text);
        }
    }
}
