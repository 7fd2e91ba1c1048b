//! Values that are secret because of the name in front of them: `API_TOKEN=…`, `"password": "…"`,
//! `--api-key …`.

use std::ops::Range;

use regex::Regex;

use super::Span;
use super::value;
use crate::limits::MAX_QUOTED_SECRET;

const ASSIGNED: &str = "secret";
const FLAG: &str = "flag";
/// Rules with a shape of their own name a span before these do.
const RANK: usize = 1_000;

/// Ends of names whose values are secret.
macro_rules! strong_names {
    () => {
        concat!(
            "(?:passwords?|passwd|passphrase|passcode|[_-]pass|pwd|secrets?|token|credentials?",
            "|api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|signing[_-]?key",
            "|encryption[_-]?key|master[_-]?key|account[_-]?key|auth[_-]?key|service[_-]?key",
            "|subscription[_-]?key|storage[_-]?key|shared[_-]?key|webhook[_-]?key|license[_-]?key)[0-9]?",
            // What is said of it besides: `SECRET_KEY_BASE`, `API_KEY_PROD`, `PRIVATE_KEY_PEM`.
            "(?:[_-](?:base(?:64)?|b64|hex|pem|value|raw|prod|production|staging|dev|test|live|primary",
            "|secondary|old|new))?"
        )
    };
}

/// The compiled expressions for what stands in front of a value.
#[derive(Debug)]
pub(super) struct Finders {
    strong: Option<Regex>,
    weak: Option<Regex>,
    flag: Option<Regex>,
}

/// A name with its separator; the value starts at `end`.
struct Site {
    start: usize,
    end: usize,
    /// `=` without blanks, as in a shell: what follows is a value and no expression.
    tight: bool,
    is_password: bool,
}

impl Finders {
    pub(super) fn new() -> Self {
        const SEPARATOR: &str = r#"\\{0,3}["']?\]?[ \t]{0,8}(?::=|=>|={1,3}|:)[ \t]{0,8}"#;
        // The end of the name is enough: `some_key`, `someKey`, `key`, yet not `monkey`.
        let weak = concat!(
            r"(?:(?:[_-]|\b)(?:key|sig|signature|session|sid|jwt|pass|auth)",
            r"|[a-z](?-i:Key|Sig|Signature|Session|Auth))",
        );
        Self {
            strong: Regex::new(&format!("(?i-u)({}){SEPARATOR}", strong_names!())).ok(),
            weak: Regex::new(&format!("(?i-u)({weak}){SEPARATOR}")).ok(),
            flag: Regex::new(concat!(
                r#"(?i-u)(?:^|[\s"'`(,\[])--?[a-z0-9-]*"#,
                strong_names!(),
                r#"(?:[ \t]+|["'],\s{0,4})"#,
            ))
            .ok(),
        }
    }

    /// Whether every expression compiled.
    #[cfg(test)]
    pub(super) fn are_complete(&self) -> bool {
        self.strong.is_some() && self.weak.is_some() && self.flag.is_some()
    }

    /// Adds the secrets of `text` that a name tells to `spans`.
    pub(super) fn find(&self, text: &str, spans: &mut Vec<Span>) {
        let mut strong = Scan::new(text);
        for site in sites(self.strong.as_ref(), text) {
            if !is_working_directory(text, &site) {
                strong.take(site.end, ASSIGNED, spans, |v| is_assigned_secret(v, &site));
            }
        }
        let mut weak = Scan::new(text);
        for site in sites(self.weak.as_ref(), text) {
            weak.take(site.end, ASSIGNED, spans, |v| {
                value::is_random(v.text)
                    && !value::is_digest_or_uuid(v.text)
                    && !value::is_path(v.text)
                    && !v.is_expression()
            });
        }
        let mut flags = Scan::new(text);
        for found in self.flag.iter().flat_map(|r| r.find_iter(text)) {
            flags.take(found.end(), FLAG, spans, |v| is_flag_value(v));
        }
    }
}

fn sites<'t>(regex: Option<&'t Regex>, text: &'t str) -> impl Iterator<Item = Site> + 't {
    regex
        .into_iter()
        .flat_map(move |r| r.captures_iter(text))
        .filter_map(|captures| {
            let whole = captures.get(0)?;
            let name = captures.get(1)?;
            let between = whole.as_str().get(name.len()..).unwrap_or_default();
            let name_lower = name.as_str().to_ascii_lowercase();
            Some(Site {
                start: name.start(),
                end: whole.end(),
                tight: between == "=",
                is_password: name_lower.contains("pass") || name_lower.starts_with("pwd"),
            })
        })
}

/// `PWD` and `OLDPWD` are folders, and `cwd`-like words are no passwords.
fn is_working_directory(text: &str, site: &Site) -> bool {
    let name = text.get(site.start..).unwrap_or_default();
    let before = text.get(..site.start).unwrap_or_default();
    name.starts_with("PWD") && (!before.ends_with('_') || before.ends_with("OLD_"))
}

/// A value as it stands in the text.
struct Found<'t> {
    text: &'t str,
    quoted: bool,
    /// What follows the value.
    rest: &'t str,
}

impl Found<'_> {
    /// Whether the value is the beginning of a call, an index or a generic type.
    fn is_expression(&self) -> bool {
        !self.quoted && (self.rest.starts_with('<') || self.text.contains(['(', '{', '[']))
    }

    /// Whether the value is a call or an index even where blanks do not tell code from data: a
    /// name stands in front of the bracket.
    fn is_call(&self) -> bool {
        let name = self
            .text
            .find(['(', '['])
            .and_then(|at| self.text.get(..at));
        !self.quoted
            && name.is_some_and(|name| {
                let is_name = |b: u8| b.is_ascii_alphabetic() || b"_.:".contains(&b);
                !name.is_empty() && name.bytes().all(is_name)
            })
    }

    fn ends_line(&self) -> bool {
        let rest = self
            .rest
            .trim_start_matches([',', ';', ' ', '\t', '}', ']', '"']);
        rest.is_empty() || rest.starts_with(['\n', '\r', '\\'])
    }
}

/// Reads values from one text, each byte once.
struct Scan<'t> {
    text: &'t str,
    /// End of the last secret: names inside it are part of it.
    taken: usize,
    /// Last unquoted run, for names that follow each other without a blank.
    run: Range<usize>,
}

impl<'t> Scan<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            text,
            taken: 0,
            run: 0..0,
        }
    }

    fn take(
        &mut self,
        at: usize,
        rule: &'static str,
        spans: &mut Vec<Span>,
        accept: impl Fn(&Found<'t>) -> bool,
    ) {
        if at < self.taken {
            return;
        }
        let (range, quoted) = self.value_at(at);
        let found = Found {
            text: self.text.get(range.clone()).unwrap_or_default(),
            quoted,
            rest: self.text.get(range.end..).unwrap_or_default(),
        };
        if !found.text.is_empty() && accept(&found) {
            self.taken = range.end;
            spans.push(Span {
                range,
                rule,
                rank: RANK,
            });
        }
    }

    fn value_at(&mut self, at: usize) -> (Range<usize>, bool) {
        let rest = self.text.get(at..).unwrap_or_default();
        // `$'…'` of a shell is a quoted value too.
        let at = at + usize::from(rest.starts_with("$'") || rest.starts_with("$\""));
        let rest = self.text.get(at..).unwrap_or_default();
        let escapes = rest.bytes().take_while(|b| *b == b'\\').take(3).count();
        let quote = rest.as_bytes().get(escapes).copied();
        match quote {
            Some(quote @ (b'"' | b'\'')) => {
                let start = at + escapes + 1;
                (start..self.quoted_end(start, quote, escapes), true)
            }
            _ => {
                if at < self.run.start || at >= self.run.end {
                    self.run = at..self.run_end(at);
                }
                (at..self.run.end, false)
            }
        }
    }

    /// The end of a quoted value: the next quote with as many backslashes as the opening one had.
    fn quoted_end(&self, start: usize, quote: u8, escapes: usize) -> usize {
        let mut backslashes = 0;
        let bytes = self.text.as_bytes().get(start..).unwrap_or_default();
        for (i, byte) in bytes.iter().enumerate() {
            let closes = *byte == quote && backslashes <= escapes;
            if closes {
                return start + i - backslashes;
            }
            if *byte == b'\n' {
                return start + i;
            }
            if i >= MAX_QUOTED_SECRET {
                return self.text.floor_char_boundary(start + i);
            }
            backslashes = if *byte == b'\\' { backslashes + 1 } else { 0 };
        }
        self.text.len()
    }

    fn run_end(&self, at: usize) -> usize {
        let bytes = self.text.as_bytes().get(at..).unwrap_or_default();
        bytes
            .iter()
            .position(|b| b.is_ascii_whitespace() || b"\"'`;|&<>,)".contains(b))
            .map_or(self.text.len(), |i| at + i)
    }
}

fn is_assigned_secret(found: &Found<'_>, site: &Site) -> bool {
    let text = found.text;
    let is_code = if site.tight {
        found.is_call()
    } else {
        found.is_expression()
    };
    if value::is_placeholder(text) || value::is_path(text) || is_code {
        return false;
    }
    let few_digits = text.len() < 6 && text.bytes().all(|b| b.is_ascii_digit());
    if few_digits && !site.is_password {
        return false;
    }
    if found.quoted {
        return true;
    }
    if value::is_dotted_name(text) {
        return false;
    }
    if site.tight {
        return true;
    }
    let telling = value::has_letter_and_digit(text) && text.len() >= 6;
    let alone = site.is_password && found.ends_line() && !value::is_type_word(text);
    telling || alone || value::is_random(text)
}

fn is_flag_value(found: &Found<'_>) -> bool {
    let text = found.text;
    !(text.starts_with('-')
        || value::is_placeholder(text)
        || value::is_path(text)
        || found.is_expression()
        || (!found.quoted && is_prose(text)))
}

/// Whether `text` is a word that follows the name of a flag in prose.
pub(super) fn is_prose(text: &str) -> bool {
    const PROSE: &[&str] = &[
        "a",
        "an",
        "and",
        "are",
        "argument",
        "as",
        "can",
        "flag",
        "flags",
        "for",
        "from",
        "if",
        "in",
        "instead",
        "is",
        "it",
        "must",
        "not",
        "on",
        "option",
        "options",
        "or",
        "parameter",
        "should",
        "so",
        "switch",
        "that",
        "the",
        "to",
        "value",
        "when",
        "which",
        "will",
        "with",
    ];
    PROSE.contains(&text)
}
