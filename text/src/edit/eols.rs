//! Line ends of inserted text.

use std::borrow::Cow;

use memchr::{memchr, memchr2, memrchr};

use crate::lines::{Eol, EolCounts, ending};

/// How far from a place a neighbouring line end is looked for.
const NEIGHBOUR: usize = 64 * 1024;

/// Whether a text has a CR that is not part of CR LF.
pub(super) fn has_lone_cr(text: &str) -> bool {
    memchr(b'\r', text.as_bytes()).is_some() && EolCounts::of(text).cr > 0
}

/// The text with each CR LF as LF; a lone CR stays.
pub(super) fn normalize(text: &str) -> Cow<'_, str> {
    if memchr(b'\r', text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace("\r\n", "\n"))
}

/// The only line end of a text, if it has only one kind.
pub(super) fn uniform(counts: EolCounts) -> Option<&'static str> {
    match (counts.lf, counts.crlf, counts.cr) {
        (_, 0, 0) => Some("\n"),
        (0, _, 0) => Some("\r\n"),
        (0, 0, _) => Some("\r"),
        _ => None,
    }
}

/// Writes the LFs of `text` as `eol`.
pub(super) fn with_eol<'t>(text: &'t str, eol: &str) -> Cow<'t, str> {
    if eol == "\n" || memchr(b'\n', text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace('\n', eol))
}

/// The line ends of a stretch of text, in order.
pub(super) fn ends_of(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let mut ends = Vec::new();
    let mut at = 0;
    while let Some(found) = memchr2(b'\r', b'\n', &bytes[at..]) {
        let start = at + found;
        let len = if bytes[start..].starts_with(b"\r\n") {
            2
        } else {
            1
        };
        ends.push(&text[start..start + len]);
        at = start + len;
    }
    ends
}

/// The ends of the lines of a stretch: as [`ends_of`], but a lone CR counts only in old Macintosh files.
pub(super) fn line_ends_of(text: &str, eol: Eol) -> Vec<&str> {
    let mut ends = ends_of(text);
    if eol != Eol::Cr {
        ends.retain(|e| *e != "\r");
    }
    ends
}

/// The line end nearest to a stretch of text: the next one, else the one before, else the file's most frequent.
pub(super) fn neighbour(text: &str, start: usize, end: usize, counts: EolCounts) -> &str {
    let bytes = text.as_bytes();
    let end_byte = if counts.eol() == Eol::Cr {
        b'\r'
    } else {
        b'\n'
    };
    let ahead = &bytes[end..bytes.len().min(end + NEIGHBOUR)];
    if let Some(at) = memchr(end_byte, ahead) {
        return ending(&text[..=end + at]);
    }
    let from = start.saturating_sub(NEIGHBOUR);
    match memrchr(end_byte, &bytes[from..start]) {
        Some(at) => ending(&text[..=from + at]),
        None => counts.dominant().unwrap_or("\n"),
    }
}

/// Writes `new` (with LF) in place of a stretch whose text with LF is `old` and whose line ends are `ends`: lines that old and new have in
/// common at the beginning and the end keep their line ends, those between take the one at their place, else `fallback`.
pub(super) fn fit(new: &str, old: &str, ends: &[&str], fallback: &str) -> String {
    let lines: Vec<&str> = new.split('\n').collect();
    let total = lines.len() - 1;
    let (before, after) = common_lines(old, new);
    let pick = |i: usize| -> &str {
        let from_end = total - i;
        let place = if i >= before && from_end <= after {
            ends.len().saturating_sub(from_end)
        } else {
            i
        };
        ends.get(place).or(ends.last()).copied().unwrap_or(fallback)
    };
    let mut out = String::with_capacity(new.len() + total);
    for (i, line) in lines.iter().enumerate() {
        out.push_str(line);
        if i < total {
            out.push_str(pick(i));
        }
    }
    out
}

/// How many LFs lie in the common beginning and in the common end (not overlapping) of two texts.
fn common_lines(a: &str, b: &str) -> (usize, usize) {
    let lfs = |bytes: &[u8]| memchr::memchr_iter(b'\n', bytes).count();
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let head = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a_rest, b_rest) = (&a[head..], &b[head..]);
    let tail = a_rest
        .iter()
        .rev()
        .zip(b_rest.iter().rev())
        .take_while(|(x, y)| x == y)
        .count();
    (lfs(&a[..head]), lfs(&a_rest[a_rest.len() - tail..]))
}

/// `new` as whole lines for a file with these line ends: LF at each line end, in old Macintosh files for CR too. A CR
/// at the very end is half a line end (text split at LF), not a character.
pub(super) fn normalize_lines(new: &str, eol: Eol) -> Cow<'_, str> {
    let text = normalize(new);
    if eol == Eol::Cr {
        return Cow::Owned(text.replace('\r', "\n"));
    }
    match text.strip_suffix('\r') {
        Some(rest) => Cow::Owned(format!("{rest}\n")),
        None => text,
    }
}
