//! Edits by line number.

use std::borrow::Cow;
use std::ops::Range;

use super::ops::{Claim, Session};
use super::pieces::Change;
use super::{EditError, eols};
use crate::lines::{self, Eol};

impl Session<'_> {
    /// Replaces whole lines.
    pub(super) fn lines(
        &mut self,
        index: usize,
        first: usize,
        last: usize,
        new: &str,
    ) -> Result<usize, EditError> {
        let total = self.total_lines();
        check_lines(index, first, last, total)?;
        let original = self.starts[first - 1]..self.starts[last];
        self.check_claims(index, &original)?;
        let text = self.buffer.text();
        let mut region =
            self.buffer.current_of(original.start)..self.buffer.current_end_of(original.end);
        self.check_line_start(index, region.start)?;
        let unended = !self.ends_line(&text[region.clone()]);
        if unended && new.is_empty() {
            // A line appended by an earlier edit brought the line end that this line lacked: it goes with the line.
            let rest = &text[region.end..];
            region.end += eols::ends_of(rest)
                .first()
                .filter(|e| rest.starts_with(**e))
                .map_or(0, |e| e.len());
        }
        let new = eols::normalize_lines(new, self.eol);
        let new = end_line(&new, !unended);
        let fitted = match self.uniform_text(&new) {
            Some(text) => text.into_owned(),
            None => {
                let old = eols::normalize(&text[region.clone()]);
                let near = eols::neighbour(text, region.start, region.end, self.counts);
                let ends = eols::line_ends_of(&text[region.clone()], self.eol);
                eols::fit(&new, &old, &ends, near)
            }
        };
        let origin = original.start;
        self.put(
            index,
            original,
            Change {
                range: region,
                text: Cow::Owned(fitted),
                origin: Some(origin),
            },
        )
    }

    /// Inserts whole lines.
    pub(super) fn insert(
        &mut self,
        index: usize,
        before: usize,
        new: &str,
    ) -> Result<usize, EditError> {
        let total = self.total_lines();
        check_insert(index, before, total)?;
        if new.is_empty() {
            return Err(EditError::EmptyNew { edit_index: index });
        }
        let original = self.starts[before - 1];
        self.check_claims(index, &(original..original))?;
        let text = self.buffer.text();
        let at = self.buffer.current_of(original);
        let new = eols::normalize_lines(new, self.eol);
        let lacks_end = at == text.len() && at > 0 && !self.ends_line(text);
        let new = if lacks_end {
            Cow::Owned(format!("\n{}", end_line(&new, false)))
        } else {
            self.check_line_start(index, at)?;
            end_line(&new, true)
        };
        let fitted = match self.uniform_text(&new) {
            Some(text) => text.into_owned(),
            None => eols::fit(&new, "", &[], eols::neighbour(text, at, at, self.counts)),
        };
        self.put(
            index,
            original..original,
            Change {
                range: at..at,
                text: Cow::Owned(fitted),
                origin: Some(original),
            },
        )
    }

    /// Makes the one change of an edit by line.
    fn put(
        &mut self,
        index: usize,
        original: Range<usize>,
        change: Change<'_>,
    ) -> Result<usize, EditError> {
        let places = self.buffer.places();
        let changes = self.reducer(index, &places).reduce(&[change])?;
        self.buffer.change(&changes);
        self.after_change();
        self.claims.push(Claim {
            range: original,
            edit: index,
        });
        Ok(1)
    }

    /// Whether a text ends with a line end, by what that is in this file.
    fn ends_line(&self, text: &str) -> bool {
        text.ends_with('\n') || (self.eol == Eol::Cr && text.ends_with('\r'))
    }

    fn total_lines(&mut self) -> usize {
        if self.starts.is_empty() {
            self.starts = lines::starts(self.buffer.original());
        }
        self.starts.len() - 1
    }

    fn check_claims(&self, edit_index: usize, range: &Range<usize>) -> Result<(), EditError> {
        // An empty range is a point, and touches only what lies on both sides of it.
        match self
            .claims
            .iter()
            .find(|c| c.range.start < range.end && range.start < c.range.end)
        {
            Some(claim) => Err(EditError::Overlap {
                edit_index,
                other_index: claim.edit,
            }),
            None => Ok(()),
        }
    }

    /// An earlier edit may have joined this line to the one before it.
    fn check_line_start(&self, edit_index: usize, at: usize) -> Result<(), EditError> {
        if at == 0 || self.ends_line(&self.buffer.text()[..at]) {
            return Ok(());
        }
        let places = self.buffer.places();
        let before = places.original_of(at - 1);
        let other = self
            .claims
            .iter()
            .rev()
            .find(|c| c.range.start <= before && before <= c.range.end);
        Err(EditError::Overlap {
            edit_index,
            other_index: other.map_or(0, |c| c.edit),
        })
    }
}

/// Whole lines for `new`: with a line end when the lines they replace had one, otherwise without, unless the last line
/// is blank (a blank last line cannot be written without its line end).
fn end_line(new: &str, ended: bool) -> Cow<'_, str> {
    if new.is_empty() {
        return Cow::Borrowed(new);
    }
    match (ended, new.strip_suffix('\n')) {
        (true, None) => Cow::Owned(format!("{new}\n")),
        (false, Some(rest)) if !rest.is_empty() && !rest.ends_with('\n') => Cow::Borrowed(rest),
        _ => Cow::Borrowed(new),
    }
}

fn check_lines(
    edit_index: usize,
    first: usize,
    last: usize,
    total_lines: usize,
) -> Result<(), EditError> {
    let bad = |field, value, reason: String| {
        Err(EditError::BadLine {
            edit_index,
            field,
            value,
            reason,
            total_lines,
        })
    };
    if total_lines == 0 {
        return bad(
            "start_line",
            first,
            "an empty file has no lines to replace; use `insert_at` 1".to_owned(),
        );
    }
    if first == 0 || first > total_lines {
        return bad(
            "start_line",
            first,
            format!("and must be from 1 to {total_lines}"),
        );
    }
    if last < first || last > total_lines {
        return bad(
            "end_line",
            last,
            format!("and must be from {first} (`start_line`) to {total_lines}"),
        );
    }
    Ok(())
}

fn check_insert(edit_index: usize, before: usize, total_lines: usize) -> Result<(), EditError> {
    if (1..=total_lines + 1).contains(&before) {
        return Ok(());
    }
    let reason = format!("and must be from 1 to {} (which appends)", total_lines + 1);
    Err(EditError::BadLine {
        edit_index,
        field: "insert_at",
        value: before,
        reason,
        total_lines,
    })
}
