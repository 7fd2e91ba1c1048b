//! Cutting what is too long, and saying so.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter, memrchr};

/// A text that may have been cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut<'a> {
    /// What is left, with the marker line.
    pub text: Cow<'a, str>,
    /// Bytes that were cut out; 0 when the text is whole.
    pub cut: usize,
}

/// The marker line of a cut text, without a line end:
/// `[… 1234567 of 1250000 bytes cut; whole output: PATH]`, or without its last part when nothing holds the whole.
pub fn cut_marker(cut: usize, total: usize, whole: Option<&str>) -> String {
    match whole {
        Some(path) => format!("[… {cut} of {total} bytes cut; whole output: {path}]"),
        None => format!("[… {cut} of {total} bytes cut]"),
    }
}

/// Keeps head and tail of a text that is longer than `cap` bytes, with one marker line between them.
///
/// Both cuts are on line boundaries where a line ends in the outer half of the space, else between characters. The
/// result has at most `cap` bytes, or the marker alone when `cap` has no room for more. `whole` names where the whole
/// text can be read.
pub fn cut_head_tail<'a>(text: &'a str, cap: usize, whole: Option<&str>) -> Cut<'a> {
    if text.len() <= cap {
        return Cut {
            text: Cow::Borrowed(text),
            cut: 0,
        };
    }
    // The marker's length depends on the figure in it; the longest it can be is reserved, with two line ends.
    let room = cap.saturating_sub(cut_marker(text.len(), text.len(), whole).len() + 2);
    let head = head_end(text, room - room / 2);
    let tail = tail_start(text, room / 2).max(head);
    let cut = tail - head;
    let joined = join_head_tail(&text[..head], &text[tail..], cut, text.len(), whole);
    Cut {
        text: Cow::Owned(joined),
        cut,
    }
}

/// Puts the marker line between a head and a tail that were kept apart (by a reader that never held the whole).
pub fn join_head_tail(
    head: &str,
    tail: &str,
    cut: usize,
    total: usize,
    whole: Option<&str>,
) -> String {
    let marker = cut_marker(cut, total, whole);
    let mut out = String::with_capacity(head.len() + tail.len() + marker.len() + 2);
    out.push_str(head);
    if !head.is_empty() && !head.ends_with('\n') {
        out.push('\n');
    }
    out.push_str(&marker);
    if !tail.is_empty() {
        out.push('\n');
        out.push_str(tail);
    }
    out
}

fn head_end(text: &str, room: usize) -> usize {
    let fits = text.floor_char_boundary(room);
    match memrchr(b'\n', &text.as_bytes()[..fits]) {
        Some(at) if at + 1 >= fits / 2 => at + 1,
        _ => fits,
    }
}

fn tail_start(text: &str, room: usize) -> usize {
    let fits = text.ceil_char_boundary(text.len() - room.min(text.len()));
    let bytes = text.as_bytes();
    if fits == 0 || bytes[fits - 1] == b'\n' {
        return fits;
    }
    match memchr(b'\n', &bytes[fits..]) {
        Some(at) if at < (text.len() - fits) / 2 => fits + at + 1,
        _ => fits,
    }
}

/// Cuts each line that has more than `max` bytes (its line end apart) and marks it with
/// `[… N bytes of this line cut]`. A line is left whole when the marker would not make it shorter.
pub fn cut_long_lines(text: &str, max: usize) -> Cut<'_> {
    let mut out = String::new();
    let (mut done, mut cut, mut start) = (0, 0, 0);
    let ends = memchr_iter(super::end_byte(text), text.as_bytes()).chain([text.len()]);
    for end in ends {
        let line = &text[start..end];
        let body = line.len() - usize::from(line.ends_with('\r'));
        if body > max {
            let keep = line.floor_char_boundary(max);
            let marker = format!("[… {} bytes of this line cut]", body - keep);
            if keep + marker.len() < body {
                out.push_str(&text[done..start + keep]);
                out.push_str(&marker);
                cut += body - keep;
                done = start + body;
            }
        }
        start = (end + 1).min(text.len());
    }
    if cut == 0 {
        return Cut {
            text: Cow::Borrowed(text),
            cut,
        };
    }
    out.push_str(&text[done..]);
    Cut {
        text: Cow::Owned(out),
        cut,
    }
}

/// The longest beginning of `text` of at most `max` bytes that ends between characters.
pub fn truncate_at_char(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}
