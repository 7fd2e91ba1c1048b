//! The edit engine, on any bytes.
//!
//! An input is a file's content and edits, parted by lines `%%`. An edit is `r` or `a` (one or
//! all) and `old`, a line `=>`, `new`; or `l` with two digits and the new lines; or `i` with one
//! digit and the lines to insert.
#![no_main]

use hands_text::edit::{Edit, apply};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut parts = split(data, b"\n%%\n").into_iter();
    let content = parts.next().unwrap_or_default();
    let edits: Vec<Edit> = parts.filter_map(edit).collect();
    let detected = apply(content, &edits, None);
    if let Ok(applied) = &detected {
        assert!(
            applied.changed() || applied.bytes == content,
            "bytes changed and the text did not"
        );
    }
    compare(content, &edits);
});

/// On plain text with one line end, an edit by text must do what the standard library does.
fn compare(content: &[u8], edits: &[Edit]) {
    let (
        Ok(text),
        [
            Edit::Replace {
                old,
                new,
                replace_all,
                ..
            },
        ],
    ) = (std::str::from_utf8(content), edits)
    else {
        return;
    };
    let plain = |t: &str| !t.contains(['\r', '\u{feff}']);
    // Overlapping ones count: of `aa` in `aaa` it is not clear which is meant.
    let bytes = text.as_bytes();
    let starts = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(old.as_bytes()));
    let matches = starts.count();
    if old.is_empty() || old == new || !(plain(text) && plain(old) && plain(new)) {
        return;
    }
    match apply(content, edits, Some("utf-8")) {
        Ok(applied) => assert_eq!(
            String::from_utf8_lossy(&applied.bytes),
            text.replace(old.as_str(), new)
        ),
        Err(why) => assert!(matches != 1 && !(*replace_all && matches > 0), "{why}"),
    }
}

fn edit(part: &[u8]) -> Option<Edit> {
    let (kind, rest) = part.split_first()?;
    let digit = |at: usize| rest.get(at).map(|b| usize::from(b.wrapping_sub(b'0')));
    let text = |from: usize| {
        rest.get(from..)
            .map(|b| String::from_utf8_lossy(b).into_owned())
    };
    match kind {
        b'r' | b'a' => {
            let halves = split(rest, b"\n=>\n");
            let half = |at: usize| {
                halves
                    .get(at)
                    .map(|b| String::from_utf8_lossy(b).into_owned())
            };
            Some(Edit::Replace {
                old: half(0)?,
                new: half(1).unwrap_or_default(),
                replace_all: *kind == b'a',
                expected_count: None,
            })
        }
        b'l' => Some(Edit::Lines {
            start_line: digit(0)?,
            end_line: digit(1)?,
            new: text(2)?,
        }),
        b'i' => Some(Edit::Insert {
            insert_at: digit(0)?,
            new: text(1)?,
        }),
        _ => None,
    }
}

fn split<'d>(data: &'d [u8], mark: &[u8]) -> Vec<&'d [u8]> {
    let mut parts = Vec::new();
    let mut rest = data;
    while let Some(at) = rest.windows(mark.len()).position(|w| w == mark) {
        parts.push(&rest[..at]);
        rest = &rest[at + mark.len()..];
    }
    parts.push(rest);
    parts
}
