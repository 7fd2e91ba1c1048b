//! The edits, one after the other.

use std::borrow::Cow;
use std::ops::Range;

use super::find::{Found, Needle, find};
use super::pieces::{Buffer, Change, Places};
use super::reduce::Reducer;
use super::{Applied, Edit, EditError, eols, near};
use crate::encoding::{self, Detected};
use crate::limits;
use crate::lines::{self, Eol, EolCounts};

pub(super) fn apply(
    bytes: &[u8],
    edits: &[Edit],
    declared: Option<&str>,
) -> Result<Applied, EditError> {
    if edits.is_empty() {
        return Err(EditError::NoEdits);
    }
    let detected = encoding::detect(bytes, declared)?;
    let mut session = Session::new(bytes, detected);
    let mut replacements = 0;
    for (index, edit) in edits.iter().enumerate() {
        replacements += session.apply(index, edit)?;
    }
    session.finish(bytes, replacements)
}

/// A stretch of the original text that an edit named.
pub(super) struct Claim {
    pub(super) range: Range<usize>,
    pub(super) edit: usize,
}

/// The edits of one call at work on one file.
pub(super) struct Session<'a> {
    pub(super) buffer: Buffer<'a>,
    detected: Detected,
    /// Line ends of the original.
    pub(super) eol: Eol,
    /// Line ends of the current text.
    pub(super) counts: EolCounts,
    /// Where the original's lines begin; empty until an edit by line needs it.
    pub(super) starts: Vec<usize>,
    pub(super) claims: Vec<Claim>,
}

impl<'a> Session<'a> {
    fn new(bytes: &'a [u8], detected: Detected) -> Self {
        let buffer = Buffer::new(bytes, &detected);
        let counts = EolCounts::of(buffer.text());
        Self {
            buffer,
            detected,
            eol: counts.eol(),
            counts,
            starts: Vec::new(),
            claims: Vec::new(),
        }
    }

    /// Applies one edit; returns how many places it replaced.
    fn apply(&mut self, index: usize, edit: &Edit) -> Result<usize, EditError> {
        match edit {
            Edit::Replace {
                old,
                new,
                replace_all,
                expected_count,
            } => {
                let wanted = Wanted {
                    all: *replace_all,
                    count: *expected_count,
                };
                self.replace(index, old, new, wanted)
            }
            Edit::Lines {
                start_line,
                end_line,
                new,
            } => self.lines(index, *start_line, *end_line, new),
            Edit::Insert { insert_at, new } => self.insert(index, *insert_at, new),
        }
    }

    fn finish(self, bytes: &[u8], replacements: usize) -> Result<Applied, EditError> {
        let fragile = || EditError::Fragile {
            encoding: self.detected.name(),
        };
        // Each inserted text was encoded when it came in; what fails now is one that later edits cut into.
        let body = self.buffer.to_bytes().map_err(|_| fragile())?;
        if !self.buffer.reads_back(&body) {
            return Err(fragile());
        }
        let bom = &bytes[..self.detected.bom_len()];
        let bytes = if bom.is_empty() {
            body
        } else {
            [bom, &body].concat()
        };
        let (old_text, new_text) = self.buffer.into_texts();
        Ok(Applied {
            bytes,
            detected: self.detected,
            eol: self.eol,
            replacements,
            old_text,
            new_text,
        })
    }

    fn replace(
        &mut self,
        index: usize,
        old: &str,
        new: &str,
        wanted: Wanted,
    ) -> Result<usize, EditError> {
        if old.is_empty() {
            return Err(EditError::EmptyOld { edit_index: index });
        }
        if wanted.count == Some(0) {
            return Err(EditError::ZeroCount { edit_index: index });
        }
        let needle = Needle::new(old);
        let new = if needle.literal {
            Cow::Borrowed(new)
        } else {
            eols::normalize(new)
        };
        if needle.text == new {
            return Err(EditError::NoChange { edit_index: index });
        }
        let places = self.buffer.places();
        let found = find(self.buffer.text(), self.counts, &needle, |r| {
            places.is_sound(r)
        });
        self.check_count(index, &needle, &found, wanted, &places)?;
        let claims = found.ranges.iter().map(|r| Claim {
            range: places.original_range(r),
            edit: index,
        });
        let claims: Vec<Claim> = claims.collect();
        let changes = self.replacements(&needle, &new, &found.ranges);
        let changes = self.reducer(index, &places).reduce(&changes)?;
        self.buffer.change(&changes);
        self.after_change();
        self.claims.extend(claims);
        Ok(found.ranges.len())
    }

    pub(super) fn reducer<'r>(
        &'r self,
        edit_index: usize,
        places: &'r Places<'r, 'a>,
    ) -> Reducer<'r, 'a> {
        Reducer {
            edit_index,
            buffer: &self.buffer,
            places,
        }
    }

    pub(super) fn after_change(&mut self) {
        self.counts = EolCounts::of(self.buffer.text());
    }

    fn check_count(
        &self,
        edit_index: usize,
        needle: &Needle<'_>,
        found: &Found,
        wanted: Wanted,
        places: &Places<'_, '_>,
    ) -> Result<(), EditError> {
        let count = found.ranges.len();
        if count == 0 {
            let nearest = self.nearest(needle, found.unsound, places);
            return Err(EditError::NotFound {
                edit_index,
                nearest,
            });
        }
        if count > limits::REPLACEMENTS {
            return Err(EditError::TooMany {
                edit_index,
                count,
                limit: limits::REPLACEMENTS,
            });
        }
        let starts = found.ranges.iter().map(|r| r.start);
        let single = !wanted.all && wanted.count.unwrap_or(1) == 1;
        match (wanted.count, found.overlapping) {
            (Some(expected), _) if expected != count as u64 => {
                let lines = self.original_lines(starts, places);
                Err(EditError::CountMismatch {
                    edit_index,
                    expected,
                    found: count,
                    lines,
                })
            }
            (_, Some(other)) if single => {
                let lines = self.original_lines(starts.chain([other]), places);
                Err(EditError::Ambiguous {
                    edit_index,
                    count: 2,
                    lines,
                })
            }
            (None, _) if single && count > 1 => {
                let lines = self.original_lines(starts, places);
                Err(EditError::Ambiguous {
                    edit_index,
                    count,
                    lines,
                })
            }
            _ => Ok(()),
        }
    }

    /// The lines of places in the current text, as numbered before the call.
    fn original_lines(
        &self,
        at: impl Iterator<Item = usize>,
        places: &Places<'_, '_>,
    ) -> Vec<usize> {
        let original = self.buffer.original();
        at.take(limits::MATCH_LINES)
            .map(|at| lines::line_at(original, places.original_of(at)))
            .collect()
    }

    fn nearest(
        &self,
        needle: &Needle<'_>,
        unsound: Option<usize>,
        places: &Places<'_, '_>,
    ) -> Vec<super::Near> {
        let original = self.buffer.original();
        let mut nearest = near::nearest(self.buffer.text(), &needle.text, needle.literal, unsound);
        for near in &mut nearest {
            near.near.line = lines::line_at(original, places.original_of(near.at));
        }
        nearest.into_iter().map(|n| n.near).collect()
    }

    /// What to put in place of each match.
    fn replacements<'t>(
        &self,
        needle: &Needle<'_>,
        new: &'t str,
        ranges: &[Range<usize>],
    ) -> Vec<Change<'t>> {
        let text = self.buffer.text();
        let same = if needle.literal {
            Some(Cow::Borrowed(new))
        } else {
            self.uniform_text(new)
        };
        let change = |range: &Range<usize>| {
            let text = match &same {
                Some(text) => text.clone(),
                None => {
                    let near = eols::neighbour(text, range.start, range.end, self.counts);
                    Cow::Owned(eols::fit(
                        new,
                        &needle.text,
                        &eols::ends_of(&text[range.clone()]),
                        near,
                    ))
                }
            };
            Change {
                range: range.clone(),
                text,
                origin: None,
            }
        };
        ranges.iter().map(change).collect()
    }

    /// `new` with the file's line ends, where that does not depend on the place.
    pub(super) fn uniform_text<'t>(&self, new: &'t str) -> Option<Cow<'t, str>> {
        if !new.contains('\n') {
            return Some(Cow::Borrowed(new));
        }
        Some(eols::with_eol(new, eols::uniform(self.counts)?))
    }
}

/// How many occurrences are to be replaced.
#[derive(Clone, Copy)]
struct Wanted {
    all: bool,
    count: Option<u64>,
}
