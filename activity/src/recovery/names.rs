//! Names of recovery files: safe for any file system, whatever a planner called the original.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::fsx::{TEMP_PREFIX, clip};
use crate::limits::{MAX_NAME_BYTES, MAX_NAME_CHARS, MAX_TURN_CHARS};

const META: &str = ".meta.json";
/// Ends the name of a content that a rotation compressed.
const PACKED: &str = ".packed.gz";

/// `<turn>-<number>-<name>`, each part sanitised.
pub(super) fn content_name(turn_id: &str, number: u32, name: &str) -> String {
    let turn: String = turn_id.chars().map(plain).take(MAX_TURN_CHARS).collect();
    let turn = if turn.is_empty() { "no-turn" } else { &turn };
    format!("{turn}-{number}-{}", sanitise(name))
}

/// ASCII letters, digits, `-` and `_` stay.
fn plain(c: char) -> char {
    if c.is_ascii_alphanumeric() || c == '-' {
        c
    } else {
        '_'
    }
}

/// Letters and digits of any script, `.`, `-` and `_` stay; too long a name keeps its extension.
fn sanitise(name: &str) -> String {
    let safe = |c: char| {
        if c.is_alphanumeric() || c == '.' {
            c
        } else {
            plain(c)
        }
    };
    let mut name: String = name.chars().map(safe).collect();
    if name.is_empty() {
        name.push_str("file");
    }
    // The record of another file must not share a name with a content, nor a compressed content
    // with one that is not. Shortening comes first: it can make such an end.
    let mut name = shorten(&name);
    for (end, instead) in [(META, "_meta_json"), (PACKED, "_packed_gz")] {
        if name.ends_with(end) {
            name = name.replace(end, instead);
        }
    }
    name
}

fn shorten(name: &str) -> String {
    let fits = |n: &str| n.chars().count() <= MAX_NAME_CHARS && n.len() <= MAX_NAME_BYTES;
    if fits(name) {
        return name.to_owned();
    }
    let extension = match name.rsplit_once('.') {
        Some((_, e)) if !e.is_empty() && e.len() <= 12 => format!(".{e}"),
        _ => String::new(),
    };
    let room = MAX_NAME_CHARS - extension.chars().count();
    let stem: String = name.chars().take(room).collect();
    let stem = clip(&stem, MAX_NAME_BYTES - extension.len());
    format!("{stem}{extension}")
}

/// Where the record of a recovery file is, whether that is compressed or not.
pub(super) fn meta_path(content: &Path) -> PathBuf {
    with(plain_path(content), META)
}

/// Where a content is when it is compressed.
pub(super) fn packed_path(content: &Path) -> PathBuf {
    with(plain_path(content), PACKED)
}

/// Where a content is when it is not compressed.
pub(super) fn plain_path(content: &Path) -> PathBuf {
    match without(content, PACKED) {
        Some(plain) => plain,
        None => content.to_path_buf(),
    }
}

/// Where the content of a record is when it is not compressed.
pub(super) fn content_path(record: &Path) -> Option<PathBuf> {
    without(record, META)
}

fn with(path: PathBuf, end: &str) -> PathBuf {
    let mut name = path.into_os_string();
    name.push(end);
    PathBuf::from(name)
}

fn without(path: &Path, end: &str) -> Option<PathBuf> {
    let name = path.as_os_str().as_bytes().strip_suffix(end.as_bytes())?;
    Some(PathBuf::from(OsStr::from_bytes(name)))
}

/// Whether a name in a day's folder is a content, neither a record nor temporary.
pub(super) fn is_content(name: &OsStr) -> bool {
    !is_record(name) && !name.as_encoded_bytes().starts_with(TEMP_PREFIX.as_bytes())
}

/// Whether a name in a day's folder is a record.
pub(super) fn is_record(name: &OsStr) -> bool {
    name.as_encoded_bytes().ends_with(META.as_bytes())
}

/// Whether a content is compressed.
pub(super) fn is_packed(name: &OsStr) -> bool {
    name.as_encoded_bytes().ends_with(PACKED.as_bytes())
}

/// Whether a name is a day: `2026-11-03`.
pub(super) fn is_day(name: &OsStr) -> bool {
    let bytes = name.as_encoded_bytes();
    let good = |(at, b): (usize, &u8)| match at {
        4 | 7 => *b == b'-',
        _ => b.is_ascii_digit(),
    };
    bytes.len() == 10 && bytes.iter().enumerate().all(good)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_keep_what_a_person_recognises() {
        assert_eq!(
            content_name("t1", 2, "Ünïcode plan.md"),
            "t1-2-Ünïcode_plan.md"
        );
        assert_eq!(content_name("", 1, ""), "no-turn-1-file");
        assert_eq!(content_name("a/../b", 1, "../x"), "a____b-1-.._x");
        let long = format!("{}.tar", "x".repeat(300));
        let name = content_name("t", 1, &long);
        assert!(name.ends_with("x.tar") && name.len() == "t-1-".len() + MAX_NAME_CHARS);
    }

    #[test]
    fn no_content_looks_like_a_record() {
        let name = content_name("t", 1, "x.meta.json");
        assert!(is_content(OsStr::new(&name)), "{name}");
        assert!(!is_content(OsStr::new("t-1-x.meta.json")));
        let name = content_name("t", 1, "x.packed.gz");
        assert!(!is_packed(OsStr::new(&name)), "{name}");
        // Where a long name is cut, such an end can come about.
        for (stem, extension) in [(".packed", ".gz"), (".meta", ".json")] {
            let room = MAX_NAME_CHARS - stem.len() - extension.len();
            let long = format!("{}{stem}{}{extension}", "x".repeat(room), "y".repeat(50));
            let name = content_name("t", 1, &long);
            let name = OsStr::new(&name);
            assert!(is_content(name) && !is_packed(name), "{name:?}");
        }
        assert!(is_day(OsStr::new("2026-11-03")) && !is_day(OsStr::new("2026-11-0x")));
    }

    proptest! {
        #[test]
        fn any_name_becomes_one_safe_component(turn in ".{0,200}", name in ".{0,400}") {
            let made = content_name(&turn, 100_000, &name);
            prop_assert!(made.len() + META.len() <= 255);
            prop_assert!(!made.contains(['/', '\0', '\n']));
            prop_assert!(is_content(OsStr::new(&made)) && !is_packed(OsStr::new(&made)));
            let path = Path::new("/d").join(&made);
            prop_assert_eq!(plain_path(&packed_path(&path)), path.clone());
            prop_assert_eq!(content_path(&meta_path(&packed_path(&path))), Some(path));
            prop_assert!(!made.starts_with('.'));
        }
    }
}
