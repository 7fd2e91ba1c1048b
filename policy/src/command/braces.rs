//! Brackets, quotes and braces in the source text of a word.

use crate::limits::MAX_BRACES;

/// Brace expansion, which in bash comes before everything else: `{rm,v}` is two words.
pub(super) fn braces(raw: &str) -> Vec<String> {
    let mut done = Vec::new();
    let mut open = vec![raw.to_owned()];
    while let Some(word) = open.pop() {
        match split_braces(&word) {
            Some((before, choices, after)) if done.len() + open.len() < MAX_BRACES => {
                for choice in choices.iter().rev() {
                    open.push(format!("{before}{choice}{after}"));
                }
            }
            _ => done.push(word),
        }
    }
    done
}

/// The first unquoted `{a,b}` of a word: what stands before it, its choices, what comes after.
fn split_braces(word: &str) -> Option<(&str, Vec<&str>, &str)> {
    let bytes = word.as_bytes();
    let mut at = 0;
    let mut tries = 0;
    while at < bytes.len() && tries < MAX_BRACES {
        let is_open = bytes.get(at) == Some(&b'{');
        tries += usize::from(is_open);
        if is_open && let Some((commas, close)) = brace_commas(word, at) {
            let mut choices = Vec::new();
            let mut start = at + 1;
            for comma in commas {
                choices.push(word.get(start..comma)?);
                start = comma + 1;
            }
            choices.push(word.get(start..close)?);
            return Some((word.get(..at)?, choices, word.get(close + 1..)?));
        }
        at = skip_unit(bytes, at);
    }
    None
}

/// The commas of the brace that opens at `open` and where it closes; `None` without a comma.
fn brace_commas(word: &str, open: usize) -> Option<(Vec<usize>, usize)> {
    let bytes = word.as_bytes();
    let mut commas = Vec::new();
    let mut depth = 0_usize;
    let mut at = open + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 0 => return (!commas.is_empty()).then_some((commas, at)),
            b'}' => depth -= 1,
            b',' if depth == 0 => commas.push(at),
            byte if byte.is_ascii_whitespace() => return None,
            _ => {}
        }
        at = skip_unit(bytes, at);
    }
    None
}

/// The position after the quoted string, expansion or byte at `at`.
pub(super) fn skip_unit(bytes: &[u8], at: usize) -> usize {
    let next = bytes.get(at + 1).copied();
    match bytes.get(at) {
        Some(b'\\') => at + 2,
        Some(b'\'') => skip_to(bytes, at + 1, b'\'', false),
        Some(b'"') => skip_to(bytes, at + 1, b'"', true),
        Some(b'`') => skip_to(bytes, at + 1, b'`', true),
        Some(b'$') if next == Some(b'\'') => skip_to(bytes, at + 2, b'\'', true),
        Some(b'$') if next == Some(b'{') => skip_nested(bytes, at + 2, b'{', b'}'),
        Some(b'$' | b'<' | b'>') if next == Some(b'(') => skip_nested(bytes, at + 2, b'(', b')'),
        _ => at + 1,
    }
}

pub(super) fn skip_to(bytes: &[u8], mut at: usize, close: u8, escapes: bool) -> usize {
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' if escapes => at += 1,
            byte if *byte == close => return at + 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// The position after the bracket that closes at this level. Flat on purpose: quotes are skipped
/// and levels counted, so that deep nesting costs no stack.
pub(super) fn skip_nested(bytes: &[u8], mut at: usize, open: u8, close: u8) -> usize {
    let mut depth = 0_usize;
    while let Some(byte) = bytes.get(at) {
        at = match byte {
            b'\\' => at + 2,
            b'\'' => skip_to(bytes, at + 1, b'\'', false),
            b'"' => skip_to(bytes, at + 1, b'"', true),
            byte if *byte == close && depth == 0 => return at + 1,
            byte if *byte == close => {
                depth -= 1;
                at + 1
            }
            byte if *byte == open => {
                depth += 1;
                at + 1
            }
            _ => at + 1,
        };
    }
    bytes.len()
}
