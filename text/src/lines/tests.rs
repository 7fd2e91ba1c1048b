use proptest::prelude::*;

use super::*;

#[test]
fn line_ends_are_named() {
    for (text, expected) in [
        ("", Eol::None),
        ("a", Eol::None),
        ("a\n", Eol::Lf),
        ("a\r\nb\r\n", Eol::CrLf),
        ("a\rb", Eol::Cr),
        ("a\r\nb\n", Eol::Mixed),
        ("50%\r100%\n", Eol::Lf),
        ("50%\r100%\r\n", Eol::CrLf),
        ("a\r\r\n", Eol::CrLf),
    ] {
        assert_eq!(eol(text), expected, "{text:?}");
    }
    assert_eq!(
        EolCounts::of("a\r\nb\r\nc\nd\r"),
        EolCounts {
            lf: 1,
            crlf: 2,
            cr: 1
        }
    );
    assert_eq!(EolCounts::of("a\r\nb\r\nc\n").dominant(), Some("\r\n"));
    assert_eq!(EolCounts::of("a\r\nb\n").dominant(), Some("\n"));
}

#[test]
fn lines_are_counted() {
    for (text, expected) in [
        ("", 0),
        ("a", 1),
        ("a\n", 1),
        ("a\nb", 2),
        ("\n", 1),
        ("\n\n", 2),
        ("a\r\nb\r\n", 2),
        ("a\rb", 2),
        ("5%\r6%\n", 1),
    ] {
        assert_eq!(count(text), expected, "{text:?}");
        assert_eq!(starts(text).len() - 1, expected, "{text:?}");
    }
}

#[test]
fn slices_by_number() {
    let text = "one\ntwo\r\nthree\nfour";
    for (offset, limit, expected, start, end) in [
        (None, None, text, 1, 4),
        (Some(0), None, text, 1, 4),
        (Some(2), Some(2), "two\r\nthree\n", 2, 3),
        (Some(4), Some(9), "four", 4, 4),
        (Some(5), None, "", 5, 4),
        (Some(99), Some(1), "", 5, 4),
        (Some(-1), None, "four", 4, 4),
        (Some(-2), Some(1), "three\n", 3, 3),
        (Some(-99), Some(1), "one\n", 1, 1),
        (Some(i64::MIN), None, text, 1, 4),
        (Some(i64::MAX), None, "", 5, 4),
        (Some(2), Some(0), "", 2, 1),
    ] {
        let got = slice(text, offset, limit);
        assert_eq!(
            (got.text, got.start_line, got.end_line, got.total_lines),
            (expected, start, end, 4),
            "{offset:?} {limit:?}"
        );
    }
    let none = slice("", None, None);
    assert_eq!(
        (none.text, none.start_line, none.end_line, none.total_lines),
        ("", 1, 0, 0)
    );
    assert_eq!(slice("", Some(-5), Some(5)).start_line, 1);
}

#[test]
fn numbers_are_aligned() {
    let text = "x\n".repeat(8) + "a\nb\n";
    assert_eq!(slice(&text, Some(9), None).numbered(), " 9\ta\n10\tb\n");
    assert_eq!(slice("", None, None).numbered(), "");
    // The last line has a CR and no LF: that does not make it two.
    assert_eq!(slice("a\n5%\r6%", Some(2), None).numbered(), "2\t5%\r6%");
}

#[test]
fn long_texts_keep_head_and_tail() {
    let text: String = (0..1000).map(|i| format!("line {i:04}\n")).collect();
    let got = cut_head_tail(&text, 500, Some("/r/x"));
    let marker = got.text.lines().find(|l| l.starts_with('[')).unwrap();
    assert_eq!(
        marker,
        format!("[… {} of 10000 bytes cut; whole output: /r/x]", got.cut)
    );
    assert!(got.text.len() <= 500);
    assert!(got.text.starts_with("line 0000\n") && got.text.ends_with("line 0999\n"));
    assert!(
        got.text.lines().all(|l| l == marker || l.len() == 9),
        "{}",
        got.text
    );
    assert_eq!(text.len() - got.cut + marker.len() + 1, got.text.len());
    let whole = cut_head_tail("short", 5, None);
    assert_eq!((whole.text.as_ref(), whole.cut), ("short", 0));
}

#[test]
fn long_lines_are_cut() {
    let text = format!("short\n{}\r\nend", "é".repeat(200));
    let got = cut_long_lines(&text, 101);
    assert_eq!(
        got.text,
        format!(
            "short\n{}[… 300 bytes of this line cut]\r\nend",
            "é".repeat(50)
        )
    );
    assert_eq!(got.cut, 300);
    // A line that the marker would not shorten stays.
    assert_eq!(cut_long_lines("0123456789", 5).cut, 0);
    assert_eq!(cut_long_lines("", 5).text, "");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn slices_join_to_the_whole(text in "[ab\r\n]{0,40}", at in 0usize..12) {
        let head = slice(&text, None, Some(at));
        let tail = slice(&text, Some(at as i64 + 1), None);
        prop_assert_eq!(format!("{}{}", head.text, tail.text), text.clone());
        prop_assert_eq!(head.total_lines, count(&text));
        let last = slice(&text, Some(-1), None);
        prop_assert!(text.ends_with(last.text));
        prop_assert_eq!(last.text.is_empty(), text.is_empty());
        prop_assert_eq!(last.numbered().matches('\t').count(), usize::from(!text.is_empty()));
    }

    #[test]
    fn cut_texts_fit_and_account_for_every_byte(text in "[a-c é→\n]{0,300}", cap in 0usize..300) {
        let got = cut_head_tail(&text, cap, Some("/p"));
        if got.cut == 0 {
            prop_assert_eq!(got.text.as_ref(), text.as_str());
        } else {
            let marker = cut_marker(got.cut, text.len(), Some("/p"));
            prop_assert!(got.text.len() <= cap.max(marker.len()), "{}", got.text);
            let (head, tail) = got.text.split_once(&marker).unwrap();
            let tail = tail.strip_prefix('\n').unwrap_or(tail);
            // A head cut inside a line has a line end added.
            let added = usize::from(head.len() + tail.len() + got.cut > text.len());
            let head = &head[..head.len() - added];
            prop_assert!(text.starts_with(head) && text.ends_with(tail));
            prop_assert_eq!(head.len() + tail.len() + got.cut, text.len());
        }
    }
}
