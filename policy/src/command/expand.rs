//! Expansion: from the source text of an argument to the words it becomes.

use super::braces::{braces, skip_nested, skip_to, skip_unit};
use super::print::{ansi_c, makes_scratch, printed};
use super::word::{Part, Vars, Word};
use crate::limits::{MAX_EXPANSION_BYTES, MAX_SUBSTITUTIONS};

/// The words that the source text of one argument expands to.
pub(super) fn expand(raw: &str, vars: &Vars) -> Vec<Word> {
    expand_nested(raw, vars, 0)
}

/// The one word that the right side of an assignment expands to.
pub(super) fn expand_value(raw: &str, vars: &Vars) -> Word {
    let mut lexer = Lexer::new(raw, vars, 0);
    lexer.splits = false;
    let mut words = lexer.run().into_iter();
    words.next().unwrap_or_default()
}

fn expand_nested(raw: &str, vars: &Vars, depth: usize) -> Vec<Word> {
    braces(raw)
        .iter()
        .flat_map(|one| Lexer::new(one, vars, depth).run())
        .collect()
}

/// Reads one argument after brace expansion.
struct Lexer<'s> {
    raw: &'s str,
    at: usize,
    vars: &'s Vars,
    depth: usize,
    splits: bool,
    words: Vec<Word>,
    word: Word,
    /// Whether the current word exists even if it is empty, as `""` does.
    is_open: bool,
    /// Bytes that expansions have added.
    expanded: usize,
}

impl<'s> Lexer<'s> {
    fn new(raw: &'s str, vars: &'s Vars, depth: usize) -> Self {
        Self {
            raw,
            at: 0,
            vars,
            depth,
            splits: true,
            words: Vec::new(),
            word: Word::default(),
            is_open: false,
            expanded: 0,
        }
    }

    fn run(mut self) -> Vec<Word> {
        while let Some(c) = self.peek() {
            match c {
                '\\' => self.escaped(),
                '\'' => self.single_quoted(),
                '"' => self.double_quoted(),
                '$' | '`' => self.expansion(false),
                '<' | '>' if self.rest().as_bytes().get(1) == Some(&b'(') => self.process(),
                _ => {
                    self.at += c.len_utf8();
                    self.push(c);
                }
            }
        }
        self.close();
        if self.expanded > MAX_EXPANSION_BYTES {
            return vec![Word::from_part(Part::Unknown)];
        }
        self.words
    }

    fn rest(&self) -> &'s str {
        self.raw.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn push(&mut self, c: char) {
        self.word.push_text(c.encode_utf8(&mut [0; 4]));
        self.is_open = true;
    }

    fn push_part(&mut self, part: Part) {
        match part {
            Part::Text(text) => self.word.push_text(&text),
            other => self.word.parts.push(other),
        }
        self.is_open = true;
    }

    fn close(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.words.push(std::mem::take(&mut self.word));
        }
    }

    fn escaped(&mut self) {
        self.at += 1;
        if let Some(c) = self.peek() {
            self.at += c.len_utf8();
            if c != '\n' {
                self.push(c);
            }
        }
    }

    /// Moves past a unit that ends at `end` and gives the text between its delimiters.
    fn inner(&mut self, open: usize, end: usize, close: u8) -> &'s str {
        let closed = end > self.at + open && self.raw.as_bytes().get(end - 1) == Some(&close);
        let stop = if closed { end - 1 } else { end };
        let text = self.raw.get(self.at + open..stop).unwrap_or_default();
        self.at = end;
        text
    }

    fn single_quoted(&mut self) {
        let end = skip_to(self.raw.as_bytes(), self.at + 1, b'\'', false);
        let text = self.inner(1, end, b'\'');
        self.word.push_text(text);
        self.is_open = true;
    }

    fn double_quoted(&mut self) {
        self.is_open = true;
        self.at += 1;
        while let Some(c) = self.peek() {
            match c {
                '"' => {
                    self.at += 1;
                    return;
                }
                '\\' => {
                    let next = self.rest().chars().nth(1);
                    if matches!(next, Some('$' | '`' | '"' | '\\' | '\n')) {
                        self.escaped();
                    } else {
                        self.at += 1;
                        self.push('\\');
                    }
                }
                '$' | '`' => self.expansion(true),
                _ => {
                    self.at += c.len_utf8();
                    self.push(c);
                }
            }
        }
    }

    fn process(&mut self) {
        let end = skip_nested(self.raw.as_bytes(), self.at + 2, b'(', b')');
        let command = self.inner(2, end, b')');
        let part = match substitute(command, self.vars, self.depth) {
            Part::Text(text) => Part::Output(text),
            _ => Part::Unknown,
        };
        self.push_part(part);
    }

    fn expansion(&mut self, quoted: bool) {
        let bytes = self.raw.as_bytes();
        let next = bytes.get(self.at + 1).copied();
        if bytes.get(self.at) == Some(&b'`') {
            let end = skip_to(bytes, self.at + 1, b'`', true);
            let command = self.inner(1, end, b'`');
            self.push_value(
                &[Word::from_part(substitute(command, self.vars, self.depth))],
                quoted,
            );
            return;
        }
        match next {
            Some(b'\'') if !quoted => {
                let end = skip_to(bytes, self.at + 2, b'\'', true);
                let text = self.inner(2, end, b'\'');
                self.word.push_text(&ansi_c(text));
                self.is_open = true;
            }
            Some(b'"') if !quoted => self.at += 1,
            Some(b'(') if bytes.get(self.at + 2) == Some(&b'(') => {
                self.at = skip_nested(bytes, self.at + 2, b'(', b')');
                self.push_part(Part::Text("0".to_owned()));
            }
            Some(b'(') => {
                let end = skip_nested(bytes, self.at + 2, b'(', b')');
                let command = self.inner(2, end, b')');
                let part = substitute(command, self.vars, self.depth);
                self.push_value(&[Word::from_part(part)], quoted);
            }
            Some(b'{') => {
                let end = skip_nested(bytes, self.at + 2, b'{', b'}');
                let body = self.inner(2, end, b'}');
                let value = self.parameter(body);
                self.push_value(&value, quoted);
            }
            _ => self.simple_variable(quoted),
        }
    }

    fn simple_variable(&mut self, quoted: bool) {
        self.at += 1;
        let name = variable_name(self.rest());
        if name.is_empty() {
            self.push('$');
            return;
        }
        self.at += name.len();
        let value = lookup(name, self.vars);
        self.push_value(&value, quoted);
    }

    /// `${name}`, `${name[@]}`, `${name:-default}`.
    fn parameter(&self, body: &str) -> Vec<Word> {
        let name = variable_name(body);
        let operation = body.get(name.len()..).unwrap_or_default();
        if operation.is_empty() || operation == "[@]" || operation == "[*]" {
            return lookup(name, self.vars);
        }
        let default = ["-", "="]
            .iter()
            .find_map(|op| operation.trim_start_matches(':').strip_prefix(op));
        match default {
            Some(_) if name == "TMPDIR" || self.vars.contains_key(name) => lookup(name, self.vars),
            Some(text) if self.depth < MAX_SUBSTITUTIONS => {
                expand_nested(text, self.vars, self.depth + 1)
            }
            _ => vec![Word::from_part(Part::Unknown)],
        }
    }

    /// Adds the value of an expansion; unquoted it splits at white space.
    fn push_value(&mut self, value: &[Word], quoted: bool) {
        for (i, word) in value.iter().enumerate() {
            if i > 0 && self.splits {
                self.close();
            }
            for part in &word.parts {
                self.expanded += 1 + part.len();
                if self.expanded > MAX_EXPANSION_BYTES {
                    return;
                }
                match part {
                    Part::Text(text) if !quoted && self.splits => self.push_split(text),
                    part => self.push_part(part.clone()),
                }
            }
        }
        self.is_open |= quoted;
    }

    fn push_split(&mut self, text: &str) {
        for c in text.chars() {
            if c.is_ascii_whitespace() {
                self.close();
            } else {
                self.push(c);
            }
        }
    }
}

/// The name after `$`, special parameters included.
fn variable_name(text: &str) -> &str {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let len = match text.chars().next() {
        Some(c) if c.is_ascii_alphabetic() || c == '_' => {
            text.find(|c| !is_word(c)).unwrap_or(text.len())
        }
        Some(c) if c.is_ascii_digit() || "@*#?$!-".contains(c) => 1,
        _ => 0,
    };
    text.get(..len).unwrap_or_default()
}

fn lookup(name: &str, vars: &Vars) -> Vec<Word> {
    if let Some(value) = vars.get(name) {
        return value.clone();
    }
    let part = match name {
        "TMPDIR" => Part::Tmp,
        "IFS" => Part::Text(" ".to_owned()),
        // Numbers, whatever their value.
        "$" | "!" | "?" | "#" | "RANDOM" | "BASHPID" | "PPID" | "UID" | "EUID" | "SECONDS" => {
            Part::Text("0".to_owned())
        }
        _ => Part::Unknown,
    };
    vec![Word::from_part(part)]
}

/// What `$(command)` stands for.
fn substitute(command: &str, vars: &Vars, depth: usize) -> Part {
    if depth >= MAX_SUBSTITUTIONS {
        return Part::Unknown;
    }
    let Some(tokens) = tokens(command) else {
        return Part::Unknown;
    };
    let words: Vec<Word> = tokens
        .iter()
        .flat_map(|raw| expand_nested(raw, vars, depth + 1))
        .collect();
    if makes_scratch(&words) {
        return Part::Scratch;
    }
    match printed(&words) {
        Some(text) => Part::Text(text.trim_end_matches('\n').to_owned()),
        None => Part::Unknown,
    }
}

/// The words of a command that is nothing but words.
fn tokens(command: &str) -> Option<Vec<&str>> {
    let bytes = command.as_bytes();
    let mut tokens = Vec::new();
    let mut start = 0;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b' ' | b'\t' => {
                if start < at {
                    tokens.push(command.get(start..at)?);
                }
                at += 1;
                start = at;
            }
            b';' | b'|' | b'&' | b'<' | b'>' | b'(' | b')' | b'\n' | b'#' => return None,
            _ => at = skip_unit(bytes, at).min(bytes.len()),
        }
    }
    if start < at {
        tokens.push(command.get(start..at)?);
    }
    Some(tokens)
}
