use super::*;
use crate::limits;

fn replace(old: &str, new: &str, replace_all: bool) -> Vec<Edit> {
    vec![Edit::Replace {
        old: old.to_owned(),
        new: new.to_owned(),
        replace_all,
        expected_count: None,
    }]
}

fn insert(insert_at: usize, new: &str) -> Vec<Edit> {
    vec![Edit::Insert {
        insert_at,
        new: new.to_owned(),
    }]
}

#[test]
fn character_sets_are_switched_only_where_needed() {
    // 日本 語 in ISO-2022-JP, with one switch to kanji and one back.
    let file = b"a \x1B$BF|K\\8l\x1B(B z\n";
    let check = |old: &str, new: &str, expected: &[u8]| {
        let got = apply(file, &replace(old, new, false), Some("iso-2022-jp")).unwrap();
        assert_eq!(
            got.bytes.escape_ascii().to_string(),
            expected.escape_ascii().to_string(),
            "{old} {new}"
        );
    };
    check("本", "語", b"a \x1B$BF|8l8l\x1B(B z\n");
    check("本", "x", b"a \x1B$BF|\x1B(Bx\x1B$B8l\x1B(B z\n");
    check("本", "", b"a \x1B$BF|8l\x1B(B z\n");
    check("日", "x", b"a x\x1B$BK\\8l\x1B(B z\n");
    check("a", "日", b"\x1B$BF|\x1B(B \x1B$BF|K\\8l\x1B(B z\n");
    check("語 z", "y", b"a \x1B$BF|K\\\x1B(By\n");
    check("z", "語", b"a \x1B$BF|K\\8l\x1B(B \x1B$B8l\x1B(B\n");
    let got = apply(b"\x1B$BF|K\\\x1B(B", &replace("本", "語", false), None).unwrap();
    assert_eq!(got.bytes, b"\x1B$BF|8l\x1B(B");
}

#[test]
fn bytes_that_decode_only_together_are_not_split() {
    // Big5 has two bytes that stand for a letter and an accent.
    let file = b"\x88\x62x\n";
    let error = apply(file, &replace("\u{304}", "y", false), Some("big5")).unwrap_err();
    assert!(matches!(error, EditError::NotFound { .. }));
    let got = apply(
        file,
        &replace("\u{CA}\u{304}x", "\u{CA}\u{304}y", false),
        Some("big5"),
    )
    .unwrap();
    assert_eq!(got.bytes, b"\x88\x62y\n");
}

#[test]
fn the_common_part_of_old_and_new_keeps_its_bytes() {
    // Shift_JIS has two codes for ≒; the encoder knows one.
    let file = b"\x87\x90 x\n";
    let got = apply(file, &replace("≒ x", "≒ y", false), Some("shift_jis")).unwrap();
    assert_eq!(got.bytes, b"\x87\x90 y\n");
}

#[test]
fn a_place_that_would_read_differently_is_refused() {
    // UTF-16 with half a unit at the end: what is appended would be read askew.
    let error = apply(b"a\0\n\0b", &insert(3, "x"), Some("utf-16le")).unwrap_err();
    assert!(matches!(error, EditError::Fragile { .. }), "{error}");
    assert_eq!(error.edit_index(), None);
    // Elsewhere in the file it is left alone.
    let got = apply(b"a\0\n\0b", &replace("a", "c", false), Some("utf-16le")).unwrap();
    assert_eq!(got.bytes, b"c\0\n\0b");
    // A lead byte without its second byte would take the next byte.
    let got = apply(b"x\x81", &insert(2, "y"), Some("shift_jis"));
    assert!(
        got.is_ok_and(|a| a.bytes == b"x\x81\ny"),
        "a line feed is no second byte"
    );
}

#[test]
fn growth_is_bounded() {
    let file = "a".repeat(limits::REPLACEMENTS + 1);
    let error = apply(file.as_bytes(), &replace("a", "b", true), None).unwrap_err();
    assert!(matches!(error, EditError::TooMany { .. }), "{error}");
    let new = "b".repeat(limits::RESULT_BYTES / 1000);
    let error = apply("a".repeat(2000).as_bytes(), &replace("a", &new, true), None).unwrap_err();
    assert!(matches!(error, EditError::TooLarge { .. }), "{error}");
}

#[test]
fn messages_say_what_to_do() {
    let message =
        |file: &str, edits: &[Edit]| apply(file.as_bytes(), edits, None).unwrap_err().to_string();
    assert_eq!(
        message("a\na\n", &replace("a", "b", false)),
        "edits[0]: `old` occurs 2 times (line 1, 2); give more of the text around the one that is meant, or set `replace_all`"
    );
    assert_eq!(
        message("a\n", &insert(5, "b")),
        "edits[0]: `insert_at` is 5, and must be from 1 to 2 (which appends); lines of the file: 1"
    );
    assert_eq!(
        message("abc\n", &replace("XYZ123", "b", false)),
        "edits[0]: `old` was not found; nothing in the file resembles it; read the file and copy the text exactly"
    );
}
