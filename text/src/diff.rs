//! Unified diffs, for a reader rather than for `patch`.
//!
//! Line ends are shown where they matter: when every line of both texts ends in CR LF nothing is shown of it, otherwise
//! a CR before a line's LF is shown as `\r`, and so is a lone CR. Long changed lines are shown around what differs.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Instant;

use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices_deadline, group_diff_ops};

use crate::limits;
use crate::lines::{EolCounts, cut_head_tail, cut_long_lines, end_byte};

/// A unified diff of two texts with `context` lines around each change, empty when they are the same.
///
/// `path` goes into the two header lines. A diff longer than `cap_bytes` keeps head and tail with a marker line between.
/// Large changes that would take long to compare ([`limits::DIFF_TIME`]) come out coarser than they could be.
pub fn unified(old: &str, new: &str, path: &str, context: usize, cap_bytes: usize) -> String {
    if old == new {
        return String::new();
    }
    let sides = Sides::new(old, new, context);
    let mut out = String::new();
    let name: String = path
        .chars()
        .map(|c| if c.is_control() { '\u{FFFD}' } else { c })
        .collect();
    let _ = writeln!(out, "--- {name}\n+++ {name}");
    for group in group_diff_ops(sides.ops(), context) {
        sides.write_hunk(&mut out, &group);
    }
    cut_head_tail(&out, cap_bytes, None).text.into_owned()
}

/// The two texts from shortly before the first change to shortly after the last.
struct Sides<'t> {
    old: Vec<&'t str>,
    new: Vec<&'t str>,
    /// Lines before, the same on both sides.
    before: usize,
    /// Context lines at the beginning and at the end of both sides.
    head: usize,
    tail: usize,
    /// What ends a line.
    end: char,
    show_cr: bool,
    /// Whether the sides go on to the end of the texts.
    to_end: bool,
}

impl<'t> Sides<'t> {
    fn new(old: &'t str, new: &'t str, context: usize) -> Self {
        let end = if end_byte(old) == end_byte(new) {
            char::from(end_byte(old))
        } else {
            '\n'
        };
        let (first, last) = common_lines(old, new, end);
        let lines_before = old[..first].split_inclusive(end).count();
        let head_start = back(&old[..first], context, end);
        let head = old[head_start..first].split_inclusive(end).count();
        let after = &old[old.len() - last..];
        let tail: Vec<&str> = after.split_inclusive(end).take(context).collect();
        let tail_len: usize = tail.iter().map(|l| l.len()).sum();
        let part = |text: &'t str| -> Vec<&'t str> {
            text[head_start..text.len() - last + tail_len]
                .split_inclusive(end)
                .collect()
        };
        Self {
            old: part(old),
            new: part(new),
            before: lines_before - head,
            head,
            tail: tail.len(),
            end,
            show_cr: !(only_crlf(old) && only_crlf(new)),
            to_end: tail_len == last,
        }
    }

    fn ops(&self) -> Vec<DiffOp> {
        let large = |lines: &[&str]| {
            lines.len() > limits::DIFF_LINES
                || lines.iter().map(|l| l.len()).sum::<usize>() > limits::DIFF_REGION
        };
        if large(&self.old) || large(&self.new) {
            return self.whole();
        }
        let deadline = Instant::now() + limits::DIFF_TIME;
        capture_diff_slices_deadline(Algorithm::Myers, &self.old, &self.new, Some(deadline))
    }

    /// Everything between the context lines as one replacement.
    fn whole(&self) -> Vec<DiffOp> {
        let old_len = self.old.len() - self.head - self.tail;
        let new_len = self.new.len() - self.head - self.tail;
        let (old_index, new_index) = (self.head, self.head);
        let change = match (old_len, new_len) {
            (0, _) => DiffOp::Insert {
                old_index,
                new_index,
                new_len,
            },
            (_, 0) => DiffOp::Delete {
                old_index,
                old_len,
                new_index,
            },
            _ => DiffOp::Replace {
                old_index,
                old_len,
                new_index,
                new_len,
            },
        };
        let equal = |old_index, new_index, len| DiffOp::Equal {
            old_index,
            new_index,
            len,
        };
        let ops = [
            equal(0, 0, self.head),
            change,
            equal(self.head + old_len, self.head + new_len, self.tail),
        ];
        ops.into_iter()
            .filter(|op| !op.old_range().is_empty() || !op.new_range().is_empty())
            .collect()
    }

    fn write_hunk(&self, out: &mut String, ops: &[DiffOp]) {
        let (Some(first), Some(last)) = (ops.first(), ops.last()) else {
            return;
        };
        let old = first.old_range().start..last.old_range().end;
        let new = first.new_range().start..last.new_range().end;
        let range = |r: std::ops::Range<usize>| {
            // An empty range is named by the line before it.
            let start = self.before + r.start + usize::from(!r.is_empty());
            format!("{start},{}", r.len())
        };
        let _ = writeln!(out, "@@ -{} +{} @@", range(old), range(new));
        for op in ops {
            self.write_op(out, op);
        }
    }

    fn write_op(&self, out: &mut String, op: &DiffOp) {
        let (old, new) = (op.old_range(), op.new_range());
        if op.tag() == DiffTag::Equal {
            for i in old {
                self.write_line(out, ' ', self.old[i], None, i + 1 == self.old.len());
            }
            return;
        }
        let pair = |lines: &[&'t str], i: usize, len: usize| (i < len).then(|| lines[i]);
        for (n, i) in old.clone().enumerate() {
            let other = pair(&self.new[new.clone()], n, new.len());
            self.write_line(out, '-', self.old[i], other, i + 1 == self.old.len());
        }
        for (n, i) in new.clone().enumerate() {
            let other = pair(&self.old[old.clone()], n, old.len());
            self.write_line(out, '+', self.new[i], other, i + 1 == self.new.len());
        }
    }

    fn write_line(
        &self,
        out: &mut String,
        sign: char,
        line: &str,
        other: Option<&str>,
        last: bool,
    ) {
        let body = line.strip_suffix(self.end).unwrap_or(line);
        let shown_body = if self.show_cr {
            body
        } else {
            body.strip_suffix('\r').unwrap_or(body)
        };
        out.push(sign);
        out.push_str(
            &excerpt(shown_body, other.map(|o| o.trim_end_matches(['\r', '\n'])))
                .replace('\r', "\\r"),
        );
        out.push('\n');
        if last && self.to_end && body.len() == line.len() {
            out.push_str("\\ No newline at end of file\n");
        }
    }
}

fn only_crlf(text: &str) -> bool {
    let counts = EolCounts::of(text);
    counts.lf == 0 && counts.cr == 0
}

/// Bytes of whole lines that two texts share at the beginning and at the end.
fn common_lines(old: &str, new: &str, end: char) -> (usize, usize) {
    let (a, b) = (old.as_bytes(), new.as_bytes());
    let same = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let first = if same == a.len() && same == b.len() {
        same
    } else {
        line_start(a, same, end)
    };
    let most = a.len().min(b.len()) - first;
    let same = a
        .iter()
        .rev()
        .zip(b.iter().rev())
        .take(most)
        .take_while(|(x, y)| x == y)
        .count();
    // The common end begins after a line end; the one just before it must be common too, or the line is not whole.
    let from = a.len() - same;
    let starts_line = |text: &[u8], at: usize| at == first || text[at - 1] == end as u8;
    if starts_line(a, from) && starts_line(b, b.len() - same) {
        return (first, same);
    }
    let skip = memchr::memchr(end as u8, &a[from..]).map_or(same, |at| at + 1);
    (first, same - skip)
}

fn line_start(text: &[u8], at: usize, end: char) -> usize {
    memchr::memrchr(end as u8, &text[..at]).map_or(0, |i| i + 1)
}

/// Where the last `lines` lines of `text` begin.
fn back(text: &str, lines: usize, end: char) -> usize {
    let ends = memchr::memrchr_iter(end as u8, text.as_bytes());
    // The text ends with a line end, which is not the beginning of one of its lines.
    ends.skip(1)
        .nth(lines.wrapping_sub(1))
        .map_or(if lines == 0 { text.len() } else { 0 }, |at| at + 1)
}

/// A line, or when it is long the part of it that differs from `other`.
fn excerpt<'l>(line: &'l str, other: Option<&str>) -> Cow<'l, str> {
    if line.len() <= limits::LINE_BYTES {
        return Cow::Borrowed(line);
    }
    let Some(other) = other else {
        return cut_long_lines(line, limits::LINE_BYTES).text;
    };
    let head = line
        .bytes()
        .zip(other.bytes())
        .take_while(|(x, y)| x == y)
        .count();
    let most = line.len().min(other.len()) - head;
    let tail = line
        .bytes()
        .rev()
        .zip(other.bytes().rev())
        .take(most)
        .take_while(|(x, y)| x == y)
        .count();
    let from = line.floor_char_boundary(head.saturating_sub(limits::DIFF_LINE_CONTEXT));
    let to = line.ceil_char_boundary(
        (line.len() - tail)
            .saturating_add(limits::DIFF_LINE_CONTEXT)
            .min(line.len()),
    );
    let mut out = String::new();
    if from > 0 {
        let _ = write!(out, "[… {from} bytes of this line cut]");
    }
    out.push_str(&cut_long_lines(&line[from..to], limits::LINE_BYTES).text);
    if to < line.len() {
        let _ = write!(out, "[… {} bytes of this line cut]", line.len() - to);
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests;
