//! Redaction: secrets that pass by are replaced before they reach the trail.
//!
//! A text goes through a table of rules for tokens with a known shape, and through finders for
//! what is secret because of the name in front of it, the frame around it, or the program that
//! it is an argument of. Found spans
//! become `[redacted:<rule>]`. The work is repeated until nothing more is found, so that a text
//! redacted twice is the text redacted once. Every step is linear in the text.
//!
//! Redaction is a net, not a wall: a secret of no known shape and under no telling name stays.

mod assign;
mod json;
mod names;
mod pem;
mod programs;
mod rules;
mod shell;
mod value;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::limits::MAX_REDACT_PASSES;

pub use names::is_secret_name;

static SHARED: LazyLock<Redactor> = LazyLock::new(Redactor::new);

/// The compiled rules. Use [`Redactor::shared`]: compiling costs milliseconds.
#[derive(Debug)]
pub struct Redactor {
    rules: Vec<rules::Compiled>,
    shell: shell::Finder,
    finders: assign::Finders,
    pem: pem::Finder,
    marker: Option<Regex>,
}

/// A secret in a text: where, by which rule, and how strongly the rule claims the span.
#[derive(Debug, Clone)]
struct Span {
    range: Range<usize>,
    rule: &'static str,
    /// Smaller wins where spans overlap.
    rank: usize,
}

impl Redactor {
    fn new() -> Self {
        Self {
            rules: rules::compile(),
            shell: shell::Finder::new(),
            finders: assign::Finders::new(),
            pem: pem::Finder::new(),
            marker: Regex::new(r"\[redacted:[a-z0-9-]{1,32}\]").ok(),
        }
    }

    /// The redactor of this process, made at its first use.
    #[must_use]
    pub fn shared() -> &'static Self {
        &SHARED
    }

    /// Replaces each secret in `text` by `[redacted:<rule>]`.
    #[must_use]
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut result = Cow::Borrowed(text);
        for _ in 0..MAX_REDACT_PASSES {
            match self.pass(&result) {
                Some(redacted) => result = Cow::Owned(redacted),
                None => break,
            }
        }
        result
    }

    /// Redacts a JSON value: what stands under a secret's name becomes `***`, and every other
    /// string (keys too) goes through [`Redactor::text`].
    #[must_use]
    pub fn value(&self, value: &Value) -> Value {
        json::redact(self, value, 0)
    }

    /// One pass; `None` when there is nothing to replace.
    fn pass(&self, text: &str) -> Option<String> {
        let mut spans = self.pem.find(text);
        for rule in &self.rules {
            rule.find(text, &mut spans);
        }
        self.shell.find(text, &mut spans);
        self.finders.find(text, &mut spans);
        if spans.is_empty() {
            return None;
        }
        let spans = merge(respect_markers(spans, &self.markers(text)));
        if spans.is_empty() {
            return None;
        }
        Some(replace(text, &spans))
    }

    /// Replaces one span; `None` where a marker stands there already.
    fn replace_at(&self, text: &str, range: Range<usize>, rule: &'static str) -> Option<String> {
        let span = Span {
            range,
            rule,
            rank: 0,
        };
        let spans = respect_markers(vec![span], &self.markers(text));
        (!spans.is_empty()).then(|| replace(text, &spans))
    }

    fn markers(&self, text: &str) -> Vec<Range<usize>> {
        self.marker
            .iter()
            .flat_map(|marker| marker.find_iter(text).map(|m| m.range()))
            .collect()
    }
}

/// Drops spans that lie within a marker of an earlier pass, and stretches those that cut into one.
fn respect_markers(mut spans: Vec<Span>, markers: &[Range<usize>]) -> Vec<Span> {
    spans.retain_mut(|span| {
        let first = markers.partition_point(|m| m.end <= span.range.start);
        let last = markers.partition_point(|m| m.start < span.range.end);
        let Some(touched) = markers.get(first..last) else {
            return true;
        };
        if let [only] = touched
            && only.start <= span.range.start
            && span.range.end <= only.end
        {
            return false;
        }
        for marker in touched {
            span.range.start = span.range.start.min(marker.start);
            span.range.end = span.range.end.max(marker.end);
        }
        true
    });
    spans
}

/// Joins overlapping spans; the strongest rule names the whole.
fn merge(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by_key(|s| (s.range.start, s.range.end));
    let mut merged: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.range.start < last.range.end => {
                last.range.end = last.range.end.max(span.range.end);
                if span.rank < last.rank {
                    last.rank = span.rank;
                    last.rule = span.rule;
                }
            }
            _ => merged.push(span),
        }
    }
    merged
}

fn replace(text: &str, spans: &[Span]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for span in spans {
        out.push_str(text.get(done..span.range.start).unwrap_or_default());
        out.push_str("[redacted:");
        out.push_str(span.rule);
        out.push(']');
        done = span.range.end;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests;
