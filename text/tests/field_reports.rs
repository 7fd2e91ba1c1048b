//! What users of similar tools reported about edits and reading, as small inputs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // helpers of tests, not only tests

use hands_text::edit::{Applied, Difference, Edit, EditError, apply};
use hands_text::encoding::{decode, detect, is_binary};
use hands_text::lines::{Eol, cut_head_tail, cut_long_lines};

fn replace(old: &str, new: &str) -> Edit {
    Edit::Replace {
        old: old.to_owned(),
        new: new.to_owned(),
        replace_all: false,
        expected_count: None,
    }
}

fn replace_all(old: &str, new: &str) -> Edit {
    Edit::Replace {
        old: old.to_owned(),
        new: new.to_owned(),
        replace_all: true,
        expected_count: None,
    }
}

fn lines(start_line: usize, end_line: usize, new: &str) -> Edit {
    Edit::Lines {
        start_line,
        end_line,
        new: new.to_owned(),
    }
}

fn insert(insert_at: usize, new: &str) -> Edit {
    Edit::Insert {
        insert_at,
        new: new.to_owned(),
    }
}

fn done(bytes: &[u8], edits: &[Edit]) -> Applied {
    apply(bytes, edits, None).unwrap_or_else(|e| panic!("{bytes:?} {edits:?}: {e}"))
}

#[track_caller]
fn check(before: &[u8], edits: &[Edit], after: &[u8]) {
    let got = done(before, edits).bytes;
    assert_eq!(
        String::from_utf8_lossy(&got),
        String::from_utf8_lossy(after)
    );
    assert_eq!(got, after);
}

fn refused(bytes: &[u8], edits: &[Edit]) -> EditError {
    apply(bytes, edits, None).expect_err("the edit should be refused")
}

#[test]
fn an_lf_needle_matches_in_a_crlf_file() {
    check(
        b"a\r\nb\r\nc\r\n",
        &[replace("a\nb\n", "a\nB\nB2\n")],
        b"a\r\nB\r\nB2\r\nc\r\n",
    );
    assert_eq!(done(b"a\r\nb\r\n", &[replace("b", "c")]).eol, Eol::CrLf);
}

#[test]
fn a_crlf_needle_matches_too() {
    check(
        b"a\r\nb\r\nc\r\n",
        &[replace("a\r\nb", "A\r\nB")],
        b"A\r\nB\r\nc\r\n",
    );
    check(b"a\nb\nc\n", &[replace("a\r\nb", "A\r\nB")], b"A\nB\nc\n");
    check(b"a\rb\rc\r", &[replace("a\nb", "A\nB\nB")], b"A\rB\rB\rc\r");
}

#[test]
fn no_cr_cr_lf_appears() {
    check(
        b"a\r\nb\r\n",
        &[replace("a\n", "x\r\ny\r\n")],
        b"x\r\ny\r\nb\r\n",
    );
    check(b"a\r\nb\r\n", &[lines(1, 1, "x\r")], b"x\r\nb\r\n");
    check(b"a\r\nb\r\n", &[lines(1, 1, "x\r\n")], b"x\r\nb\r\n");
    check(
        b"a\r\nb\r\n",
        &[insert(2, "x\r\ny\r\n")],
        b"a\r\nx\r\ny\r\nb\r\n",
    );
    // One that is there can be mended, and is left alone otherwise.
    check(b"a\r\r\nb\r\n", &[replace("b", "c")], b"a\r\r\nc\r\n");
    check(
        b"a\r\r\nb\r\n",
        &[replace("a\r\r\n", "a\r\n")],
        b"a\r\nb\r\n",
    );
}

#[test]
fn mixed_line_ends_stay_where_they_are() {
    check(
        b"a\r\nb\nc\r\nd\n",
        &[replace("a\nb\nc\n", "a\nB\nc\n")],
        b"a\r\nB\nc\r\nd\n",
    );
    check(
        b"a\r\nb\nc\r\nd\n",
        &[lines(1, 3, "A\nB\nC")],
        b"A\r\nB\nC\r\nd\n",
    );
    check(b"a\r\nb\nc\n", &[insert(1, "x")], b"x\r\na\r\nb\nc\n");
    check(
        b"a\r\nb\nc\n",
        &[replace("b", "b1\nb2")],
        b"a\r\nb1\nb2\nc\n",
    );
    check(
        b"a\rb\r\nc\n",
        &[replace("a\nb\nc", "x\ny\nz")],
        b"x\ry\r\nz\n",
    );
}

#[test]
fn new_text_is_literal() {
    check(
        b"price: 1\n",
        &[replace("1", "$$ $& $1 $' \\1 ${x} \\n")],
        b"price: $$ $& $1 $' \\1 ${x} \\n\n",
    );
    check(b"a\n", &[lines(1, 1, "$& $1")], b"$& $1\n");
    check(b"a.b\n", &[replace_all(".", "*")], b"a*b\n");
}

#[test]
fn other_bytes_of_a_latin1_file_stay() {
    check(
        b"caf\xE9\nline two\n",
        &[replace("line two", "line 2")],
        b"caf\xE9\nline 2\n",
    );
    check(b"caf\xE9\nline two\n", &[lines(2, 2, "x")], b"caf\xE9\nx\n");
    check(
        b"caf\xE9 au lait\nna\xEFve\n",
        &[replace("café", "thé")],
        b"th\xE9 au lait\nna\xEFve\n",
    );
    // What the encoding cannot hold is refused by name, never a question mark.
    let Err(EditError::Unencodable {
        ch, line, encoding, ..
    }) = apply(b"caf\xE9\n", &[replace("caf", "a\n→")], Some("iso-8859-1"))
    else {
        panic!("an arrow cannot be written in latin-1")
    };
    assert_eq!((ch, line, encoding.as_str()), ('→', 2, "windows-1252"));
}

#[test]
fn other_bytes_of_cjk_files_stay() {
    let text = "一行目です。\n二行目の表示です。\n三行目です。\n";
    for label in [
        "utf-8",
        "shift_jis",
        "euc-jp",
        "iso-2022-jp",
        "gb18030",
        "utf-16le",
        "utf-16be",
        "utf-32le",
        "big5",
    ] {
        let label = hands_text::encoding::Label::parse(label).unwrap();
        let text = if label.encoding.name() == "big5" {
            text.replace("です。", "之").replace('の', "的")
        } else {
            text.to_owned()
        };
        let text = if label.encoding.name() == "big5" {
            text.replace("示", "視")
        } else {
            text
        };
        let bytes = hands_text::encoding::encode(&text, label.encoding).unwrap();
        let expected =
            hands_text::encoding::encode(&text.replace("二行目", "第二行"), label.encoding)
                .unwrap();
        let got = apply(
            &bytes,
            &[replace("二行目", "第二行")],
            Some(&label.encoding.name()),
        )
        .unwrap();
        assert_eq!(got.bytes, expected, "{}", label.encoding.name());
        assert!(!got.bytes.contains(&b'?') || bytes.contains(&b'?'));
    }
}

#[test]
fn a_needle_inside_a_character_does_not_match() {
    // The second byte of 表 in Shift_JIS is a backslash.
    let bytes = encoding_bytes("表示\\\n", "shift_jis");
    let got = apply(&bytes, &[replace("\\", "/")], Some("shift_jis")).unwrap();
    assert_eq!(got.bytes, encoding_bytes("表示/\n", "shift_jis"));
    // 一 followed by 丁: the bytes 00 4E 01 4E hold an unaligned 4E 01.
    let bytes = encoding_bytes("一丁", "utf-16le");
    let error = apply(&bytes, &[replace("ŎŎ", "x")], Some("utf-16le")).unwrap_err();
    assert!(matches!(error, EditError::NotFound { .. }));
}

fn encoding_bytes(text: &str, label: &str) -> Vec<u8> {
    let label = hands_text::encoding::Label::parse(label).unwrap();
    hands_text::encoding::encode_with_bom(text, label).unwrap()
}

#[test]
fn invalid_bytes_stay_and_never_match() {
    let bytes = "é è ê ë\n".repeat(3).into_bytes();
    let bytes = [bytes.as_slice(), b"bad \xFF\xFE here\nlast\n"].concat();
    let expected = [
        "é è ê ë\n".repeat(3).as_bytes(),
        b"bad \xFF\xFE there\nlast\n",
    ]
    .concat();
    check(&bytes, &[replace("here", "there")], &expected);
    check(
        &bytes,
        &[lines(5, 5, "end")],
        &bytes
            .strip_suffix(b"last\n")
            .unwrap()
            .iter()
            .copied()
            .chain(*b"end\n")
            .collect::<Vec<_>>(),
    );
    let EditError::NotFound { nearest, .. } =
        refused(&bytes, &[replace("bad \u{FFFD}\u{FFFD} here", "good")])
    else {
        panic!("invalid bytes matched")
    };
    assert_eq!(
        (nearest[0].line, nearest[0].differs.as_slice()),
        (4, [Difference::UndecodableBytes].as_slice())
    );
}

#[test]
fn an_ambiguous_needle_is_refused_with_its_lines() {
    let EditError::Ambiguous {
        count,
        lines,
        edit_index,
    } = refused(b"x\na\nb\na\n", &[replace("a", "c")])
    else {
        panic!("ambiguous")
    };
    assert_eq!((count, lines, edit_index), (2, vec![2, 4], 0));
    // Twice by overlap: which one is meant is open.
    let EditError::Ambiguous { count, lines, .. } =
        refused(b"}\n}\n}\n", &[replace("}\n}\n", "}\nx\n}\n")])
    else {
        panic!("ambiguous")
    };
    assert_eq!((count, lines), (2, vec![1, 2]));
    let many = "a\n".repeat(50);
    let EditError::Ambiguous { count, lines, .. } = refused(many.as_bytes(), &[replace("a", "b")])
    else {
        panic!("ambiguous")
    };
    assert_eq!((count, lines.len()), (50, 20));
    check(b"a a\n", &[replace_all("a", "aa")], b"aa aa\n");
}

#[test]
fn counts_are_checked() {
    let counted = |count, replace_all| Edit::Replace {
        old: "a".to_owned(),
        new: "b".to_owned(),
        replace_all,
        expected_count: Some(count),
    };
    check(b"a a\n", &[counted(2, true)], b"b b\n");
    check(b"a a\n", &[counted(2, false)], b"b b\n");
    for (count, replace_all) in [(1, true), (1, false), (3, true)] {
        let error = refused(b"a\na\n", &[counted(count, replace_all)]);
        assert_eq!(
            error,
            EditError::CountMismatch {
                edit_index: 0,
                expected: count,
                found: 2,
                lines: vec![1, 2]
            }
        );
    }
    assert_eq!(
        refused(b"a", &[counted(0, true)]),
        EditError::ZeroCount { edit_index: 0 }
    );
    assert!(matches!(
        refused(b"x", &[replace_all("a", "b")]),
        EditError::NotFound { .. }
    ));
}

#[test]
fn a_long_needle_in_a_short_file_is_not_found() {
    let needle = "fn f() {}\n".repeat(41);
    for file in [
        b"one\ntwo\n".as_slice(),
        b"",
        b"fn f() {}",
        b"fn f() {}\nfn f() {}\n",
        b"\n",
    ] {
        assert!(matches!(
            refused(file, &[replace(&needle, "x")]),
            EditError::NotFound { .. }
        ));
        assert!(matches!(
            refused(file, &[replace(&needle, "x"), lines(1, 41, "")]),
            EditError::NotFound { .. }
        ));
    }
}

#[test]
fn bad_arguments_are_named() {
    assert_eq!(refused(b"a", &[]), EditError::NoEdits);
    assert_eq!(
        refused(b"a", &[replace("", "x")]),
        EditError::EmptyOld { edit_index: 0 }
    );
    assert_eq!(
        refused(b"a", &[replace("a", "b"), replace("b", "b")]),
        EditError::NoChange { edit_index: 1 }
    );
    assert_eq!(
        refused(b"a\n", &[replace("a\n", "a\r\n")]),
        EditError::NoChange { edit_index: 0 }
    );
    assert_eq!(
        refused(b"a", &[insert(1, "")]),
        EditError::EmptyNew { edit_index: 0 }
    );
    for (edit, wanted) in [
        (lines(0, 1, "x"), "start_line"),
        (lines(3, 3, "x"), "start_line"),
        (lines(2, 1, "x"), "end_line"),
        (lines(1, 3, "x"), "end_line"),
        (lines(1, usize::MAX, "x"), "end_line"),
        (insert(0, "x"), "insert_at"),
        (insert(4, "x"), "insert_at"),
    ] {
        let EditError::BadLine {
            field, total_lines, ..
        } = refused(b"a\nb\n", &[edit])
        else {
            panic!("{wanted}")
        };
        assert_eq!((field, total_lines), (wanted, 2));
    }
    let error = apply(b"a", &[replace("a", "b")], Some("klingon")).unwrap_err();
    assert!(error.to_string().contains("klingon"));
}

#[test]
fn lines_are_replaced_whole() {
    check(b"a\nb\nc\n", &[lines(2, 2, "x\ny")], b"a\nx\ny\nc\n");
    check(b"a\nb\nc\n", &[lines(2, 3, "")], b"a\n");
    check(b"a\nb\nc", &[lines(3, 3, "x")], b"a\nb\nx");
    check(b"a\nb\nc", &[lines(3, 3, "x\n")], b"a\nb\nx");
    check(b"a\nb\nc", &[lines(3, 3, "x\n\n")], b"a\nb\nx\n\n");
    check(b"a\nb\nc", &[lines(3, 3, "")], b"a\nb\n");
    check(b"a\nb", &[lines(1, 2, "")], b"");
    check(b"a\nb\n", &[lines(1, 1, "\n")], b"\nb\n");
    check(
        b"\xEF\xBB\xBFa\nb\n",
        &[lines(1, 1, "x")],
        b"\xEF\xBB\xBFx\nb\n",
    );
    check(
        b"5%\r6%\r\nend\r\n",
        &[lines(1, 1, "a\nb")],
        b"a\r\nb\r\nend\r\n",
    );
}

#[test]
fn lines_are_inserted() {
    check(b"a\nb\n", &[insert(1, "x")], b"x\na\nb\n");
    check(b"a\nb\n", &[insert(3, "x")], b"a\nb\nx\n");
    check(b"a\nb", &[insert(3, "x")], b"a\nb\nx");
    check(b"a\nb", &[insert(3, "x\n")], b"a\nb\nx");
    check(b"a\r\nb", &[insert(3, "x\ny")], b"a\r\nb\r\nx\r\ny");
    check(b"", &[insert(1, "x")], b"x\n");
    check(b"abc", &[insert(1, "x")], b"x\nabc");
    check(b"\xEF\xBB\xBFa\n", &[insert(1, "x")], b"\xEF\xBB\xBFx\na\n");
    check(b"a\nb\n", &[insert(2, "\n")], b"a\n\nb\n");
}

#[test]
fn line_numbers_are_those_before_the_call() {
    check(
        b"1\n2\n3\n4\n",
        &[insert(1, "0\n0.5"), lines(2, 2, ""), lines(4, 4, "four")],
        b"0\n0.5\n1\n3\nfour\n",
    );
    check(
        b"1\n2\n3\n",
        &[replace("1\n", "1\n1a\n1b\n"), lines(3, 3, "three")],
        b"1\n1a\n1b\n2\nthree\n",
    );
    check(
        b"1\n2\n",
        &[insert(2, "a"), insert(2, "b"), insert(3, "c")],
        b"1\na\nb\n2\nc\n",
    );
    check(
        b"1\n2\n3\n",
        &[lines(2, 2, "two"), insert(2, "a"), insert(3, "b")],
        b"1\na\ntwo\nb\n3\n",
    );
    check(b"1\n2", &[insert(3, "3"), lines(2, 2, "")], b"1\n3");
    check(b"1\n2", &[lines(2, 2, ""), insert(3, "3")], b"1\n3\n");
    check(
        b"1\n2\n",
        &[lines(1, 1, "one"), replace("one", "uno")],
        b"uno\n2\n",
    );
}

#[test]
fn overlapping_edits_are_refused() {
    let overlap = |edits: &[Edit]| match refused(b"1\n2\n3\n4\n", edits) {
        EditError::Overlap {
            edit_index,
            other_index,
        } => (edit_index, other_index),
        other => panic!("{other}"),
    };
    assert_eq!(overlap(&[lines(1, 2, "x"), lines(2, 3, "y")]), (1, 0));
    assert_eq!(overlap(&[lines(1, 3, "x"), insert(2, "y")]), (1, 0));
    assert_eq!(overlap(&[insert(2, "y"), lines(1, 3, "x")]), (1, 0));
    assert_eq!(
        overlap(&[insert(1, "y"), replace("2", "two"), lines(2, 2, "x")]),
        (2, 1)
    );
    assert_eq!(overlap(&[replace("2\n3", "x"), insert(3, "y")]), (1, 0));
    assert_eq!(overlap(&[replace("1\n", "1 "), lines(2, 2, "x")]), (1, 0));
    assert_eq!(overlap(&[replace("1\n", "1\nx"), insert(2, "y")]), (1, 0));
}

#[test]
fn edits_are_all_or_nothing_and_in_order() {
    check(b"a\n", &[replace("a", "b"), replace("b", "c")], b"c\n");
    let EditError::NotFound { edit_index, .. } =
        refused(b"a\n", &[replace("a", "b"), replace("a", "c")])
    else {
        panic!("not found")
    };
    assert_eq!(edit_index, 1);
}

#[test]
fn the_byte_order_mark_stays() {
    for label in [
        "utf-8-bom",
        "utf-16le-bom",
        "utf-16be-bom",
        "utf-32le-bom",
        "utf-32be-bom",
    ] {
        let got = done(
            &encoding_bytes("ä\r\nb\r\n", label),
            &[replace("b", "ß\n€")],
        );
        assert_eq!(
            got.bytes,
            encoding_bytes("ä\r\nß\r\n€\r\n", label),
            "{label}"
        );
        assert_eq!(got.detected.label(), label);
    }
}

#[test]
fn what_differs_is_named() {
    let nearest = |file: &str, old: &str| match refused(file.as_bytes(), &[replace(old, "x")]) {
        EditError::NotFound { nearest, .. } => nearest,
        other => panic!("{other}"),
    };
    for (file, old, line, differs) in [
        (
            "a\n\tlet x = 1;\n",
            "    let x = 1;",
            2,
            Difference::Whitespace,
        ),
        ("a\nsay “hi”\n", "say \"hi\"", 2, Difference::Quotes),
        ("a\n10\u{A0}km\n", "10 km", 2, Difference::NoBreakSpace),
        ("a\ncafe\u{301}\n", "caf\u{E9}", 2, Difference::UnicodeForm),
        ("a\nHello World\n", "hello world", 2, Difference::LetterCase),
        ("x\none\n\ntwo\n", "one\ntwo", 2, Difference::Whitespace),
        (
            "x\none\ntwo \nthree\n",
            "one\ntwo\nthree",
            3,
            Difference::Whitespace,
        ),
        ("x\none\ntwo\n", "one\rtwo", 2, Difference::LineEndings),
        (
            "x\nlet total = a + b;\n",
            "let total = a - b;",
            2,
            Difference::Content,
        ),
    ] {
        let near = nearest(file, old);
        assert_eq!(
            (near[0].line, near[0].differs.as_slice()),
            (line, [differs].as_slice()),
            "{file:?} {old:?}"
        );
    }
    let near = nearest("a\n\tsay “hi”\n", "    say \"hi\"");
    assert_eq!(
        near[0].differs,
        [Difference::Whitespace, Difference::Quotes]
    );
    assert!(nearest("alpha\n", "0123456789").is_empty());
    let three = nearest(&"item  one\n".repeat(9), "item one");
    assert_eq!(three.len(), 3);
    let message = refused(b"let  x = 1;\n", &[replace("let x = 1;", "y")]).to_string();
    assert!(
        message.contains("line 1 `let  x = 1;` (whitespace)"),
        "{message}"
    );
}

#[test]
fn utf16_is_decoded_without_nuls() {
    let bytes = encoding_bytes("Grüße\r\n", "utf-16le-bom");
    let found = detect(&bytes, None).unwrap();
    let text = decode(&bytes, &found).text;
    assert_eq!(
        (found.name().as_str(), text.as_str()),
        ("utf-16le", "Grüße\r\n")
    );
    assert!(!is_binary(&bytes));
}

#[test]
fn a_large_binary_is_told_from_text() {
    let bytes: Vec<u8> = (0..100_000u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8)
        .collect();
    assert!(is_binary(&bytes));
}

#[test]
fn fifty_long_lines_are_cut_by_bytes() {
    let text = format!("{}\n", "x".repeat(100_000)).repeat(50);
    let short = cut_long_lines(&text, 4096);
    assert!(short.text.len() < 50 * 4200 && short.text.lines().count() == 50);
    let got = cut_head_tail(&text, 10_000, Some("/r/whole"));
    assert!(got.text.len() <= 10_000);
    assert!(got.text.contains(&format!(
        "\n[… {} of {} bytes cut; whole output: /r/whole]\n",
        got.cut,
        text.len()
    )));
}
