//! Private keys in PEM armour: the whole block is one secret.

use std::ops::Range;

use regex::Regex;

use super::Span;

const RULE: &str = "private-key";

/// Finds PEM blocks that hold a private key.
#[derive(Debug)]
pub(super) struct Finder {
    begin: Option<Regex>,
    end: Option<Regex>,
}

impl Finder {
    pub(super) fn new() -> Self {
        Self {
            begin: Regex::new(r"-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----").ok(),
            end: Regex::new(r"-----END [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----").ok(),
        }
    }

    /// Whether every expression compiled.
    #[cfg(test)]
    pub(super) fn is_complete(&self) -> bool {
        self.begin.is_some() && self.end.is_some()
    }

    /// The blocks in `text`. A block without an end, as a cut text leaves it, reaches as far as the
    /// key material does. Begins and ends are paired by hand: one expression for both would look
    /// through the rest of the text once for each unpaired begin.
    pub(super) fn find(&self, text: &str) -> Vec<Span> {
        let (Some(begin), Some(end)) = (&self.begin, &self.end) else {
            return Vec::new();
        };
        let begins: Vec<Range<usize>> = begin.find_iter(text).map(|m| m.range()).collect();
        if begins.is_empty() {
            return Vec::new();
        }
        let ends: Vec<Range<usize>> = end.find_iter(text).map(|m| m.range()).collect();
        let mut spans = Vec::new();
        for (i, begin) in begins.iter().enumerate() {
            let next = begins.get(i + 1).map_or(text.len(), |b| b.start);
            let paired = ends
                .get(ends.partition_point(|e| e.start < begin.end))
                .filter(|e| e.start < next);
            let stop = paired.map_or_else(|| material_end(text, begin.end, next), |e| e.end);
            if stop > begin.end {
                spans.push(Span {
                    range: begin.start..stop,
                    rule: RULE,
                    rank: 0,
                });
            }
        }
        spans
    }
}

/// Where the lines of key material after an unpaired begin line end.
fn material_end(text: &str, from: usize, limit: usize) -> usize {
    let rest = text.get(from..limit).unwrap_or_default();
    let run = rest
        .bytes()
        .position(|b| {
            !(b.is_ascii_alphanumeric() || b.is_ascii_whitespace() || b"+/=\\:,-".contains(&b))
        })
        .unwrap_or(rest.len());
    // Prose after a mere mention of the begin line has no long unbroken word.
    let body = rest.get(..run).unwrap_or_default();
    let is_material = body
        .split(|c: char| c.is_whitespace() || c == '\\')
        .any(|word| word.len() >= 32);
    if is_material {
        from + body.trim_end().len()
    } else {
        from
    }
}
