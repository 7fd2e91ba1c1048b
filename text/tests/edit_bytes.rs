//! What an edit does not name keeps its bytes: random documents in every encoding, against plain models.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // helpers of tests, not only tests

use hands_text::edit::{Edit, EditError, apply};
use hands_text::encoding::{Label, decode, encode};
use hands_text::lines;
use proptest::prelude::*;

/// An encoding, characters it has, and a byte sequence that is invalid in it wherever it stands.
struct Form {
    label: &'static str,
    letters: &'static [&'static str],
    invalid: &'static [u8],
    stateful: bool,
}

const LATIN: &[&str] = &["a", "b", " ", "é", "ß", "ÿ"];
const KANJI: &[&str] = &["a", " ", "表", "示", "ー", "の", "予"];
const FORMS: &[Form] = &[
    Form {
        label: "utf-8",
        letters: &["a", "é", "→", "😀", "e\u{301}", "\u{A0}"],
        invalid: b"\xFF",
        stateful: false,
    },
    Form {
        label: "utf-8-bom",
        letters: KANJI,
        invalid: b"\xC0\xFE",
        stateful: false,
    },
    Form {
        label: "ascii",
        letters: &["a", "b", "\t"],
        invalid: b"\xE9",
        stateful: false,
    },
    Form {
        label: "utf-16le",
        letters: &["a", "é", "一", "😀", "ŎŎ"],
        invalid: b"\0\xDC",
        stateful: false,
    },
    Form {
        label: "utf-16be-bom",
        letters: KANJI,
        invalid: b"\xDC\0",
        stateful: false,
    },
    Form {
        label: "utf-32le",
        letters: &["a", "é", "😀"],
        invalid: b"\0\0\x11\0",
        stateful: false,
    },
    Form {
        label: "utf-32be-bom",
        letters: KANJI,
        invalid: b"\0\0\xD8\0",
        stateful: false,
    },
    Form {
        label: "windows-1252",
        letters: LATIN,
        invalid: b"",
        stateful: false,
    },
    Form {
        label: "iso-8859-15",
        letters: &["a", "€", "é"],
        invalid: b"",
        stateful: false,
    },
    Form {
        label: "koi8-r",
        letters: &["a", "ж", "Я", "─"],
        invalid: b"",
        stateful: false,
    },
    Form {
        label: "windows-1253",
        letters: &["a", "λ"],
        invalid: b"\xAA",
        stateful: false,
    },
    Form {
        label: "shift_jis",
        letters: KANJI,
        invalid: b"\xFF",
        stateful: false,
    },
    Form {
        label: "euc-jp",
        letters: KANJI,
        invalid: b"\xFF",
        stateful: false,
    },
    Form {
        label: "gb18030",
        letters: &["a", "表", "示", "é", "😀", "0"],
        invalid: b"\xFF",
        stateful: false,
    },
    Form {
        label: "gbk",
        letters: &["a", "表", "€"],
        invalid: b"\xFF",
        stateful: false,
    },
    Form {
        label: "big5",
        letters: &["a", "表", "功", "\\"],
        invalid: b"\xFF",
        stateful: false,
    },
    Form {
        label: "euc-kr",
        letters: &["a", "글", "자"],
        invalid: b"\xFF",
        stateful: false,
    },
    Form {
        label: "iso-2022-jp",
        letters: KANJI,
        invalid: b"\xFF",
        stateful: true,
    },
];

/// One line of a document: choices of letters (one past the last stands for an invalid sequence), and its end.
type LinePlan = (Vec<usize>, usize);

#[derive(Debug, Clone)]
struct Plan {
    form: usize,
    style: usize,
    lines: Vec<LinePlan>,
    final_end: bool,
    with_invalid: bool,
}

fn plan() -> impl Strategy<Value = Plan> {
    let line = (prop::collection::vec(0usize..8, 0..6), 0usize..2);
    (
        0..FORMS.len(),
        0usize..4,
        prop::collection::vec(line, 0..7),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(form, style, lines, final_end, with_invalid)| Plan {
            form,
            style,
            lines,
            final_end,
            with_invalid,
        })
}

/// A document as bytes, and line by line: (content without its end, whole line).
struct Document {
    bom: Vec<u8>,
    lines: Vec<Vec<u8>>,
    ends: Vec<&'static str>,
}

impl Plan {
    fn form(&self) -> &'static Form {
        &FORMS[self.form]
    }

    fn label(&self) -> Label {
        Label::parse(self.form().label).unwrap()
    }

    /// The name without a word about the mark.
    fn name(&self) -> String {
        self.label().encoding.name()
    }

    fn encode(&self, text: &str) -> Vec<u8> {
        encode(text, self.label().encoding).unwrap()
    }

    fn end(&self, choice: usize) -> &'static str {
        match (self.style, choice) {
            (0, _) => "\n",
            (1, _) => "\r\n",
            (2, _) => "\r",
            (_, 0) => "\n",
            _ => "\r\n",
        }
    }

    fn document(&self) -> Document {
        let label = self.label();
        let bom = if label.bom {
            label.encoding.bom().to_vec()
        } else {
            Vec::new()
        };
        let mut document = Document {
            bom,
            lines: Vec::new(),
            ends: Vec::new(),
        };
        for (index, (letters, end)) in self.lines.iter().enumerate() {
            let mut line = Vec::new();
            for &letter in letters {
                match self.form().letters.get(letter) {
                    Some(text) => line.extend(self.encode(text)),
                    None if self.with_invalid => line.extend(self.form().invalid),
                    None => {}
                }
            }
            let open = index + 1 == self.lines.len() && !self.final_end;
            let end = if open { "" } else { self.end(*end) };
            // An empty last line without an end is no line.
            if !line.is_empty() || !end.is_empty() {
                line.extend(self.encode(end));
                document.lines.push(line);
                document.ends.push(end);
            }
        }
        document
    }
}

impl Document {
    fn bytes(&self) -> Vec<u8> {
        [self.bom.clone(), self.lines.concat()].concat()
    }
}

fn text_of(bytes: &[u8], label: Label) -> String {
    let detected = hands_text::encoding::Detected {
        encoding: label.encoding,
        bom: false,
        confident: true,
    };
    decode(bytes, &detected).text
}

fn unified_ends(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// Checks `got` to be `before`, then `middle` in any line ends, then `after`.
fn check(
    plan: &Plan,
    got: &[u8],
    before: &[u8],
    middle: &str,
    after: &[u8],
) -> Result<(), TestCaseError> {
    let label = plan.label();
    if plan.form().stateful {
        // Switches between character sets come and go; what is read counts.
        let expected =
            unified_ends(&text_of(before, label)) + middle + &unified_ends(&text_of(after, label));
        prop_assert_eq!(unified_ends(&text_of(got, label)), expected);
        return Ok(());
    }
    prop_assert!(
        got.len() >= before.len() + after.len(),
        "{:?} {:?} {:?}",
        got,
        before,
        after
    );
    prop_assert!(got.starts_with(before), "{:?} {:?}", got, before);
    prop_assert!(got.ends_with(after), "{:?} {:?}", got, after);
    let inner = text_of(&got[before.len()..got.len() - after.len()], label);
    prop_assert_eq!(unified_ends(&inner), middle);
    Ok(())
}

/// Every line end in `text` is one of `known`, or any if there are none.
fn ends_are_known(text: &str, known: &[&str]) -> bool {
    let crlf = text.matches("\r\n").count();
    let lf = text.matches('\n').count() - crlf;
    let cr = text.matches('\r').count() - crlf;
    let has = |end: &str| known.contains(&end);
    let none = known.iter().all(|e| e.is_empty());
    none || ((crlf == 0 || has("\r\n")) && (lf == 0 || has("\n")) && (cr == 0 || has("\r")))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replacing_keeps_all_other_bytes(
        plan in plan(), at in 0usize..8, column in 0usize..4, over_lines in any::<bool>(), shape in 0usize..5,
    ) {
        let mut document = plan.document();
        let at = at.min(document.lines.len());
        // A needle no letter is part of, in one line or over a line end, put in front of or inside a line.
        let end = plan.end(at % 2);
        let (old, placed) =
            if over_lines { ("QQ\nZZ", format!("QQ{end}ZZ")) } else { ("QQZZ", "QQZZ".to_owned()) };
        let new = ["", "x", "x\ny", "QQ", "QQ\n\nZZ"][shape];
        let placed = plan.encode(&placed);
        let (mut before, mut after) = (document.bom.clone(), Vec::new());
        let column = plan.lines.get(at).map_or(0, |l| column.min(l.0.len()));
        for (index, line) in document.lines.drain(..).enumerate() {
            let cut = if index == at { letters_len(&plan, at, column) } else if index < at { line.len() } else { 0 };
            before.extend(&line[..cut]);
            after.extend(&line[cut..]);
        }
        let bytes = [before.clone(), placed, after.clone()].concat();
        let edit = Edit::Replace { old: old.to_owned(), new: new.to_owned(), replace_all: false, expected_count: None };
        let got = apply(&bytes, &[edit], Some(&plan.name())).unwrap();
        check(&plan, &got.bytes, &before, new, &after)?;
        prop_assert_eq!(got.replacements, 1);
        let mut ends = document.ends.clone();
        if over_lines { ends.push(end); }
        prop_assert!(ends_are_known(&got.new_text, &ends), "{:?}", got.new_text);
    }

    #[test]
    fn line_edits_keep_all_other_bytes(
        plan in plan(), first in 1usize..8, count in 1usize..4, insert in any::<bool>(), shape in 0usize..6,
    ) {
        let document = plan.document();
        let total = document.lines.len();
        let bytes = document.bytes();
        let new = ["", "x", "x\n", "x\ny", "\n", "x\n\n"][shape];
        let (edit, from, to) = if insert {
            (Edit::Insert { insert_at: first, new: new.to_owned() }, first - 1, first - 1)
        } else {
            let last = first + count - 1;
            (Edit::Lines { start_line: first, end_line: last, new: new.to_owned() }, first - 1, last)
        };
        let got = match apply(&bytes, &[edit], Some(&plan.name())) {
            Ok(got) => got,
            Err(EditError::BadLine { total_lines, .. }) => {
                prop_assert!(total_lines == total && (to > total || (first > total && !insert)));
                return Ok(());
            }
            Err(EditError::EmptyNew { .. }) => { prop_assert!(insert && new.is_empty()); return Ok(()); }
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
        };
        let before = [document.bom.clone(), document.lines[..from].concat()].concat();
        let after = document.lines[to..].concat();
        let open = document.ends.last() == Some(&"");
        let whole = if new.is_empty() || new.ends_with('\n') { new.to_owned() } else { format!("{new}\n") };
        let blank_last = whole == "\n" || whole.ends_with("\n\n");
        let middle = match (insert, open && to == total) {
            (_, false) => whole,
            (true, true) if blank_last => format!("\n{whole}"),
            (true, true) => format!("\n{}", whole.trim_end_matches('\n')),
            (false, true) if blank_last => whole,
            (false, true) => whole.trim_end_matches('\n').to_owned(),
        };
        check(&plan, &got.bytes, &before, &middle, &after)?;
        prop_assert!(ends_are_known(&got.new_text, &document.ends), "{:?}", got.new_text);
        prop_assert_eq!(text_of(&got.bytes[document.bom.len()..], plan.label()), got.new_text);
    }

    #[test]
    fn rewriting_lines_as_they_are_changes_nothing(plan in plan(), first in 1usize..8, count in 1usize..4) {
        let document = plan.document();
        let bytes = document.bytes();
        let total = document.lines.len();
        if total == 0 {
            return Ok(());
        }
        let first = (first - 1) % total + 1;
        let last = (first + count - 1).min(total);
        let same = text_of(&document.lines[first - 1..last].concat(), plan.label());
        if same.contains('\u{FFFD}') {
            return Ok(());
        }
        let edit = Edit::Lines { start_line: first, end_line: last, new: unified_ends(&same) };
        let got = apply(&bytes, &[edit], Some(&plan.name())).unwrap();
        prop_assert_eq!(got.bytes, bytes);
    }

    #[test]
    fn replacing_is_what_strings_do(
        text in "[ab\n]{0,24}", old in "[ab\n]{1,4}", new in "[abc\n]{0,4}", all in any::<bool>(), end in 0usize..3,
    ) {
        if old == new {
            return Ok(());
        }
        let end = ["\n", "\r\n", "\r"][end];
        let file = text.replace('\n', end);
        let edit = Edit::Replace { old: old.clone(), new: new.clone(), replace_all: all, expected_count: None };
        let got = apply(file.as_bytes(), &[edit], None);
        let count = text.matches(&old).count();
        let overlaps = text.find(&old).is_some_and(|at| text[at + 1..].contains(&old));
        match got {
            Ok(got) => {
                prop_assert!(count > 0 && (all || !overlaps));
                // In a file that has no line end yet, LF is written.
                let end = if text.contains('\n') { end } else { "\n" };
                prop_assert_eq!(String::from_utf8(got.bytes).unwrap(), text.replace(&old, &new).replace('\n', end));
                prop_assert_eq!(got.replacements, count);
            }
            Err(EditError::NotFound { .. }) => prop_assert_eq!(count, 0),
            Err(EditError::Ambiguous { count: told, .. }) => {
                prop_assert!(!all && overlaps);
                prop_assert_eq!(told, count.max(2));
            }
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
        }
    }

    #[test]
    fn lists_of_line_edits_are_what_a_list_of_lines_does(
        total in 0usize..8,
        edits in prop::collection::vec((1usize..9, 0usize..3, any::<bool>(), 0usize..3), 1..6),
    ) {
        let text: String = (1..=total).map(|i| format!("line {i}\n")).collect();
        let mut list = Vec::new();
        let mut before: Vec<String> = vec![String::new(); total + 2];
        let mut lines: Vec<String> = (0..=total).map(|i| format!("line {i}\n")).collect();
        let mut taken: Vec<(usize, usize)> = Vec::new();
        let mut points = Vec::new();
        let mut overlap = false;
        for (n, &(at, more, insert, shape)) in edits.iter().enumerate() {
            let insert = insert || total == 0;
            let (at, shape) = if insert { ((at - 1) % (total + 1) + 1, shape.max(1)) } else { ((at - 1) % total + 1, shape) };
            let new = [String::new(), format!("new {n}\n"), format!("new {n}\nand {n}")][shape].clone();
            let whole = if shape == 2 { format!("{new}\n") } else { new.clone() };
            if insert {
                overlap |= taken.iter().any(|&(a, b)| a < at && at <= b);
                points.push(at);
                before[at].push_str(&whole);
                list.push(Edit::Insert { insert_at: at, new });
            } else {
                let last = (at + more).min(total);
                overlap |= taken.iter().any(|&(a, b)| a <= last && at <= b);
                overlap |= points.iter().any(|&p| at < p && p <= last);
                taken.push((at, last));
                lines[at] = whole;
                lines[at + 1..=last].iter_mut().for_each(String::clear);
                list.push(Edit::Lines { start_line: at, end_line: last, new });
            }
        }
        match apply(text.as_bytes(), &list, None) {
            Ok(got) => {
                prop_assert!(!overlap);
                let expected: String =
                    (1..=total + 1).map(|i| format!("{}{}", before[i], lines.get(i).map_or("", |l| l))).collect();
                prop_assert_eq!(String::from_utf8(got.bytes).unwrap(), expected);
                prop_assert_eq!(got.replacements, list.len());
            }
            Err(EditError::Overlap { .. }) => prop_assert!(overlap),
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
        }
    }

    #[test]
    fn any_bytes_and_any_edits_are_answered(
        bytes in prop::collection::vec(
            prop_oneof![2 => any::<u8>(), 2 => Just(b'\n'), 1 => Just(b'\r'), 3 => Just(b'a'), 1 => Just(0), 1 => Just(0x1B)],
            0..60,
        ),
        declared in prop::option::of(0..FORMS.len()),
        edits in prop::collection::vec((0usize..3, 0usize..6, 0usize..4, "[aé\r\n\u{FFFD}表]{0,4}", "[aé\r\n表]{0,4}"), 1..4),
    ) {
        let list: Vec<Edit> = edits
            .into_iter()
            .map(|(kind, at, more, old, new)| match kind {
                0 => Edit::Replace { old, new, replace_all: more > 1, expected_count: None },
                1 => Edit::Lines { start_line: at, end_line: at + more, new },
                _ => Edit::Insert { insert_at: at, new },
            })
            .collect();
        let label = declared.map(|i| FORMS[i].label);
        match apply(&bytes, &list, label) {
            Ok(got) => {
                let detected = hands_text::encoding::detect(&bytes, label).unwrap();
                prop_assert_eq!(decode(&got.bytes, &got.detected).text, &got.new_text[..]);
                prop_assert_eq!(decode(&bytes, &detected).text, &got.old_text[..]);
                prop_assert_eq!(got.detected, detected);
                prop_assert_eq!(lines::eol(&got.old_text), got.eol);
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}

/// Length in bytes of the first `count` letters of a line.
fn letters_len(plan: &Plan, line: usize, count: usize) -> usize {
    let letters = &plan.lines[line].0[..count];
    letters
        .iter()
        .map(|&letter| match plan.form().letters.get(letter) {
            Some(text) => plan.encode(text).len(),
            None if plan.with_invalid => plan.form().invalid.len(),
            None => 0,
        })
        .sum()
}
