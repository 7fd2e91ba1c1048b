//! Folding away differences that do not meet the eye.

use unicode_normalization::UnicodeNormalization;

/// Which differences are folded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Folds {
    /// Runs of white space are one space, none at the ends; invisible characters vanish.
    pub(super) whitespace: bool,
    /// Curly quotes are straight, dashes are hyphens.
    pub(super) quotes: bool,
    /// No-break and other special spaces are spaces.
    pub(super) spaces: bool,
    /// Characters are composed (NFC).
    pub(super) form: bool,
    /// Letters are lower case.
    pub(super) case: bool,
}

impl Folds {
    /// Everything folded.
    pub(super) const ALL: Self = Self {
        whitespace: true,
        quotes: true,
        spaces: true,
        form: true,
        case: true,
    };
}

/// Folds a text.
pub(super) fn fold(text: &str, folds: Folds) -> String {
    let mut out = Out {
        text: String::with_capacity(text.len()),
        folds,
        gap: false,
    };
    if text.is_ascii() || !folds.form {
        text.chars().for_each(|c| out.add(c));
    } else {
        text.nfc().for_each(|c| out.add(c));
    }
    out.text
}

struct Out {
    text: String,
    folds: Folds,
    /// White space waits here: it is written only before something else.
    gap: bool,
}

impl Out {
    fn add(&mut self, ch: char) {
        let ch = self.plain(ch);
        if self.folds.whitespace {
            if is_invisible(ch) {
                return;
            }
            if ch.is_ascii_whitespace() || ch == '\u{B}' {
                self.gap = !self.text.is_empty();
                return;
            }
            if std::mem::take(&mut self.gap) {
                self.text.push(' ');
            }
        }
        if !self.folds.case {
            self.text.push(ch);
        } else if ch.is_ascii() {
            self.text.push(ch.to_ascii_lowercase());
        } else {
            self.text.extend(ch.to_lowercase());
        }
    }

    fn plain(&self, ch: char) -> char {
        if ch.is_ascii() {
            return ch;
        }
        let quote = match ch {
            '\u{2018}'..='\u{201B}' | '\u{2032}' | '\u{B4}' => Some('\''),
            '\u{201C}'..='\u{201F}' | '\u{2033}' | '\u{AB}' | '\u{BB}' => Some('"'),
            '\u{2010}'..='\u{2015}' | '\u{2212}' => Some('-'),
            _ => None,
        };
        match (quote, ch) {
            (Some(plain), _) if self.folds.quotes => plain,
            (
                None,
                '\u{A0}'
                | '\u{1680}'
                | '\u{2000}'..='\u{200A}'
                | '\u{202F}'
                | '\u{205F}'
                | '\u{3000}',
            ) if self.folds.spaces => ' ',
            _ => ch,
        }
    }
}

/// Zero-width characters and soft hyphens.
fn is_invisible(ch: char) -> bool {
    matches!(ch, '\u{200B}' | '\u{2060}' | '\u{FEFF}' | '\u{AD}')
}
