//! Finds the commands of a shell in a text and reads their words.
//!
//! The text may be a command line, a script, or a string or list of a program that holds one, so
//! the words are parted by simple rules that need no whole syntax: a quote that cannot open a
//! part of a word ends the string that the command stands in.

use std::ops::Range;

use regex::Regex;

use super::Span;
use super::programs::{self, STDIN_RULE, Watch};
use crate::limits::MAX_REDACT_QUOTES;

/// After the table of shapes, before what only a name tells.
const RANK: usize = 500;

/// Finds secrets in the arguments of known programs.
#[derive(Debug)]
pub(super) struct Finder {
    names: Option<Regex>,
}

impl Finder {
    pub(super) fn new() -> Self {
        let names: Vec<&str> = programs::names().collect();
        Self {
            names: Regex::new(&format!("(?-u)(?:{})", names.join("|"))).ok(),
        }
    }

    /// Whether every expression compiled.
    #[cfg(test)]
    pub(super) fn is_complete(&self) -> bool {
        self.names.is_some()
    }

    /// Adds the secrets of `text` to `spans`.
    pub(super) fn find(&self, text: &str, spans: &mut Vec<Span>) {
        if let Some(names) = &self.names {
            scan(names, text, 0..text.len(), 0, spans);
        }
    }
}

/// Reads the commands in `range`. Each byte is read once for each level of quotes.
fn scan(names: &Regex, text: &str, range: Range<usize>, depth: usize, spans: &mut Vec<Span>) {
    let Some(text) = text.get(..range.end) else {
        return;
    };
    let mut at = range.start;
    while let Some(found) = names.find_at(text, at) {
        let word = word_around(text, found.range(), range.start);
        if !programs::is_known(text.get(word.clone()).unwrap_or_default()) {
            at = found.end().max(word.end);
            continue;
        }
        let mut quoted = Vec::new();
        at = pipeline(text, &word, &mut quoted, spans);
        if depth < MAX_REDACT_QUOTES {
            for inner in quoted {
                scan(names, text, inner, depth + 1, spans);
            }
        }
    }
}

/// The word of a program's name, with its path, around what the expression found.
fn word_around(text: &str, found: Range<usize>, from: usize) -> Range<usize> {
    let in_word = |b: &u8| b.is_ascii_alphanumeric() || b"_-./".contains(b) || !b.is_ascii();
    let bytes = text.as_bytes();
    let before = bytes.get(from..found.start).unwrap_or_default();
    let after = bytes.get(found.end..).unwrap_or_default();
    let start = found.start - before.iter().rev().take_while(|b| in_word(b)).count();
    start..found.end + after.iter().take_while(|b| in_word(b)).count()
}

/// Reads the command whose name is at `name`, and those that it is piped to as long as what is
/// piped may be a password. Gives where the reading ended.
fn pipeline(
    text: &str,
    name: &Range<usize>,
    quoted: &mut Vec<Range<usize>>,
    spans: &mut Vec<Span>,
) -> usize {
    let program = text.get(name.clone()).unwrap_or_default();
    let mut watch = Watch::default();
    watch.word(program, true);
    let start = after_quoted_name(text, name);
    let (mut end, words) = command(text, start, &mut watch, quoted, spans);
    if !programs::is_writer(program) || !is_pipe(text, end) {
        return end;
    }
    let mut watch = Watch::default();
    (end, _) = command(text, end + 1, &mut watch, quoted, spans);
    if watch.reads_password() {
        for word in words {
            push_written(text, &word, spans);
        }
    }
    end
}

/// Where the words after a program's name start: a name in quotes is a word of a list.
fn after_quoted_name(text: &str, name: &Range<usize>) -> usize {
    let before = text.get(..name.start).unwrap_or_default();
    let rest = text.get(name.end..).unwrap_or_default();
    let bare = rest.trim_start_matches('\\');
    match bare.chars().next() {
        Some(quote @ ('"' | '\'')) if before.ends_with(quote) => text.len() - bare.len() + 1,
        _ => name.end,
    }
}

fn is_pipe(text: &str, at: usize) -> bool {
    let rest = text.get(at..).unwrap_or_default();
    rest.starts_with('|') && !rest.starts_with("||")
}

fn push_written(text: &str, word: &Range<usize>, spans: &mut Vec<Span>) {
    let raw = text.get(word.clone()).unwrap_or_default();
    if let Some(found) = programs::written_secret(raw) {
        spans.push(Span {
            range: word.start + found.start..word.start + found.end,
            rule: STDIN_RULE,
            rank: RANK,
        });
    }
}

/// Reads words up to the end of a command. Gives where that is, and the words.
fn command(
    text: &str,
    start: usize,
    watch: &mut Watch,
    quoted: &mut Vec<Range<usize>>,
    spans: &mut Vec<Span>,
) -> (usize, Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let mut words = Vec::new();
    let mut here = Vec::new();
    let mut at = start;
    loop {
        let gap = Gap::at(bytes, at);
        at = gap.end;
        if gap.ends_command {
            break;
        }
        let (end, ends_command) = word_end(bytes, at);
        let raw = text.get(at..end).unwrap_or_default();
        if gap.redirects {
            watch.redirect();
            if gap.here_string {
                here.push(at..end);
            }
        } else {
            if let Some((found, rule)) = watch.word(raw, true) {
                spans.push(Span {
                    range: at + found.start..at + found.end,
                    rule,
                    rank: RANK,
                });
            }
            words.push(at..end);
        }
        let inner = programs::unquoted(raw, 0..raw.len());
        if inner.len() < raw.len() {
            quoted.push(at + inner.start..at + inner.end);
        }
        at = end;
        if ends_command {
            break;
        }
    }
    if watch.reads_password() {
        for word in here {
            push_written(text, &word, spans);
        }
    }
    (at, words)
}

/// What stands between two words.
struct Gap {
    end: usize,
    ends_command: bool,
    redirects: bool,
    here_string: bool,
}

impl Gap {
    fn at(bytes: &[u8], start: usize) -> Self {
        let mut gap = Self {
            end: start,
            ends_command: false,
            redirects: false,
            here_string: false,
        };
        let mut angles = 0;
        loop {
            let rest = bytes.get(gap.end..).unwrap_or_default();
            match rest {
                [b' ' | b'\t' | b'\r' | b',', ..] => gap.end += 1,
                [b'\\', b'\n', ..] => gap.end += 2,
                [b'<' | b'>', ..] => {
                    angles += 1;
                    gap.redirects = true;
                    gap.here_string = angles == 3;
                    gap.end += 1;
                }
                [b'&', b'>', ..] => gap.end += 1,
                [b'&', ..] if angles > 0 => gap.end += 1,
                [] | [b'\n' | b'|' | b';' | b'&' | b'(' | b')' | b'`', ..] => {
                    gap.ends_command = true;
                    return gap;
                }
                _ => return gap,
            }
        }
    }
}

/// The end of the word at `start`, and whether a string that the command stands in ends there.
fn word_end(bytes: &[u8], start: usize) -> (usize, bool) {
    let mut at = start;
    let mut backslashes = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' | b'\'' => {
                let opened_at = at - backslashes;
                if opened_at > start && !opens(bytes, opened_at, at) {
                    return (opened_at, true);
                }
                at = quote_end(bytes, at + 1, *byte, backslashes);
                backslashes = 0;
                if opened_at == start && bytes.get(at) == Some(&b',') {
                    return (at, false); // an item of a list
                }
                continue;
            }
            b'\\' => backslashes += 1,
            b'\n' => return (at - backslashes.min(1), backslashes == 0),
            b' ' | b'\t' if backslashes % 2 == 1 => backslashes = 0,
            b' ' | b'\t' | b'\r' => return (at, false),
            b'|' | b';' | b'&' | b'(' | b')' | b'`' | b'<' | b'>' if backslashes % 2 == 0 => {
                return (at, false);
            }
            _ => backslashes = 0,
        }
        at += 1;
    }
    (bytes.len(), false)
}

/// Whether the quote at `at`, whose backslashes start at `from`, opens a part of a word: `-p'x'`
/// does, and that of `"mysql -px"` does not.
fn opens(bytes: &[u8], from: usize, at: usize) -> bool {
    let after_dollar = from > 0 && bytes.get(from - 1) == Some(&b'$');
    let closer = |b: &u8| b.is_ascii_whitespace() || b",.:;}])>|&<\\\"'`".contains(b);
    after_dollar || bytes.get(at + 1).is_some_and(|next| !closer(next))
}

/// The end of a quoted part, after its closing quote; an unclosed one ends with its line.
fn quote_end(bytes: &[u8], start: usize, quote: u8, escapes: usize) -> usize {
    let mut backslashes = 0;
    let mut at = start;
    while let Some(byte) = bytes.get(at) {
        if *byte == b'\n' {
            return at;
        }
        if *byte == quote && backslashes <= escapes {
            return at + 1;
        }
        backslashes = if *byte == b'\\' { backslashes + 1 } else { 0 };
        at += 1;
    }
    at
}
