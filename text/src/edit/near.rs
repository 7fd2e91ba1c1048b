//! The places most like a text that was not found.
//!
//! First the text is compared with everything folded that people and programs change without meaning to: white space,
//! quotes, special spaces, composition, case. A place that matches so is named with the folds it needs. Otherwise lines
//! are ranked by the pairs of characters they share. Both look at a bounded part of the file.

mod fold;
mod likeness;

use memchr::memmem;

use super::{Difference, Near};
use crate::limits;
use crate::lines::{end_byte, truncate_at_char};
use fold::{Folds, fold};

/// A near place, and where it is in the searched text.
#[derive(Debug)]
pub(super) struct Place {
    /// Where the line begins that `near` shows.
    pub(super) at: usize,
    pub(super) near: Near,
}

/// A line that is not blank.
struct Line<'t> {
    at: usize,
    text: &'t str,
    key: String,
}

/// Names at most [`limits::NEAR_PLACES`] places, best first; their line numbers are left to the caller. `unsound` is a
/// place that matches but for invalid bytes. `literal` says that the needle's line ends were taken as given.
pub(super) fn nearest(
    text: &str,
    needle: &str,
    literal: bool,
    unsound: Option<usize>,
) -> Vec<Place> {
    let hay = lines_of(text, limits::NEAR_SCAN, end_byte(text));
    let wanted = lines_of(needle, limits::NEAR_SCAN, end_byte(needle));
    let mut places: Vec<Place> = unsound
        .map(|at| undecodable(text, at))
        .into_iter()
        .collect();
    if wanted.is_empty() {
        return places;
    }
    for first in folded_matches(&hay, &wanted) {
        places.push(folded_place(&hay[first..], &wanted, needle, literal));
    }
    if places.is_empty() {
        let ranked = likeness::rank(&keys(&hay), &keys(&wanted));
        places.extend(ranked.into_iter().map(|(first, likeness)| {
            let line = differing_pair(&hay[first..], &wanted)
                .map(|(line, _)| line)
                .or(hay.get(first));
            place(line, vec![Difference::Content], likeness)
        }));
    }
    places.truncate(limits::NEAR_PLACES);
    places
}

fn keys<'l>(lines: &'l [Line<'_>]) -> Vec<&'l str> {
    lines.iter().map(|l| l.key.as_str()).collect()
}

fn lines_of(text: &str, most: usize, end: u8) -> Vec<Line<'_>> {
    let text = truncate_at_char(text, most);
    let mut at = 0;
    let mut lines = Vec::new();
    for line in text.split_inclusive(char::from(end)) {
        let key = fold(line, Folds::ALL);
        if !key.is_empty() {
            lines.push(Line {
                at,
                text: line.trim_end_matches(['\r', '\n']),
                key,
            });
        }
        at += line.len();
    }
    lines
}

/// Indexes of lines at which all lines of the needle follow each other, blank lines apart.
fn folded_matches(hay: &[Line<'_>], wanted: &[Line<'_>]) -> Vec<usize> {
    let found: Box<dyn Iterator<Item = usize>> = match wanted {
        [] => Box::new(std::iter::empty()),
        [only] => {
            let finder = memmem::Finder::new(only.key.as_bytes());
            Box::new((0..hay.len()).filter(move |&i| finder.find(hay[i].key.as_bytes()).is_some()))
        }
        [first, middle @ .., last] => {
            let mut left = limits::NEAR_COMPARISONS;
            let mut same = move |a: &str, b: &str| {
                left = left.saturating_sub(1);
                left > 0 && a == b
            };
            let windows = hay.windows(wanted.len()).enumerate();
            Box::new(windows.filter_map(move |(index, window)| {
                let ends = window[0].key.ends_with(&first.key)
                    && window[window.len() - 1].key.starts_with(&last.key);
                (ends
                    && middle
                        .iter()
                        .zip(&window[1..])
                        .all(|(m, l)| same(&m.key, &l.key)))
                .then_some(index)
            }))
        }
    };
    found.take(limits::NEAR_PLACES).collect()
}

fn folded_place(hay: &[Line<'_>], wanted: &[Line<'_>], needle: &str, literal: bool) -> Place {
    let hay = &hay[..wanted.len().min(hay.len())];
    let pair = differing_pair(hay, wanted);
    let line = pair.map(|(line, _)| line).or(hay.first());
    let differs = match pair {
        _ if literal => vec![Difference::LineEndings],
        Some((line, wanted)) if needle.len() > limits::NEAR_CAUSE => causes(line.text, wanted.text),
        _ => {
            let region: Vec<&str> = hay.iter().map(|l| l.text).collect();
            causes(&region.join("\n"), needle)
        }
    };
    place(line, differs, 1.0)
}

/// The folds without which the place does not match.
fn causes(region: &str, needle: &str) -> Vec<Difference> {
    let needed = |folds: Folds| {
        let wanted = fold(needle, folds);
        memmem::find(fold(region, folds).as_bytes(), wanted.as_bytes()).is_none()
    };
    let all = [
        (
            Difference::Whitespace,
            Folds {
                whitespace: false,
                ..Folds::ALL
            },
        ),
        (
            Difference::Quotes,
            Folds {
                quotes: false,
                ..Folds::ALL
            },
        ),
        (
            Difference::NoBreakSpace,
            Folds {
                spaces: false,
                ..Folds::ALL
            },
        ),
        (
            Difference::UnicodeForm,
            Folds {
                form: false,
                ..Folds::ALL
            },
        ),
        (
            Difference::LetterCase,
            Folds {
                case: false,
                ..Folds::ALL
            },
        ),
    ];
    let mut found: Vec<Difference> = all
        .into_iter()
        .filter(|(_, f)| needed(*f))
        .map(|(d, _)| d)
        .collect();
    if found.is_empty() {
        // Each fold alone can be done without: blank lines between, or differences that two folds cover.
        found.push(Difference::Whitespace);
    }
    found
}

/// The first line of the place that is not as the needle has it, with the needle's line.
fn differing_pair<'l, 't, 'w>(
    hay: &'l [Line<'t>],
    wanted: &'w [Line<'w>],
) -> Option<(&'l Line<'t>, &'w Line<'w>)> {
    let last = wanted.len().saturating_sub(1);
    let pair = hay
        .iter()
        .zip(wanted)
        .enumerate()
        .find(|(i, (h, w))| match (*i == 0, *i == last) {
            (true, true) => !h.text.contains(w.text),
            (true, false) => !h.text.ends_with(w.text),
            (false, true) => !h.text.starts_with(w.text),
            (false, false) => h.text != w.text,
        });
    pair.map(|(_, pair)| pair)
}

fn place(line: Option<&Line<'_>>, differs: Vec<Difference>, similarity: f32) -> Place {
    let (at, text) = line.map_or((0, ""), |l| (l.at, l.text));
    Place {
        at,
        near: Near {
            line: 0,
            text: shown(text),
            differs,
            similarity,
        },
    }
}

fn undecodable(text: &str, at: usize) -> Place {
    let end = end_byte(text);
    let start = memchr::memrchr(end, &text.as_bytes()[..at]).map_or(0, |i| i + 1);
    let line = text[start..]
        .split(char::from(end))
        .next()
        .unwrap_or_default()
        .trim_end_matches('\r');
    let differs = vec![Difference::UndecodableBytes];
    Place {
        at: start,
        near: Near {
            line: 0,
            text: shown(line),
            differs,
            similarity: 1.0,
        },
    }
}

/// A line as it is shown: short, control characters as their pictures.
fn shown(line: &str) -> String {
    let cut = truncate_at_char(line, limits::NEAR_TEXT);
    let picture = |c: char| match u32::from(c) {
        0x09 => c,
        code @ 0..0x20 => char::from_u32(0x2400 + code).unwrap_or(c),
        0x7F => '\u{2421}',
        _ => c,
    };
    let mut out: String = cut.chars().map(picture).collect();
    if cut.len() < line.len() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests;
