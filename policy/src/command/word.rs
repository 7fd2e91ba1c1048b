//! Shell words after expansion, as far as the text of a line tells them.

use std::collections::HashMap;

/// A piece of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// Text that is known.
    Text(String),
    /// `$TMPDIR`: the session's private tmp.
    Tmp,
    /// What `mktemp` made below the private tmp.
    Scratch,
    /// A file name whose content is known: `<(echo …)`.
    Output(String),
    /// Only known when the command runs.
    Unknown,
}

impl Part {
    /// Bytes of known text.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Text(text) | Self::Output(text) => text.len(),
            Self::Tmp | Self::Scratch | Self::Unknown => 0,
        }
    }
}

/// One word of a command after expansion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) parts: Vec<Part>,
}

/// Variables that the script has set so far, with the words they stand for.
pub(super) type Vars = HashMap<String, Vec<Word>>;

impl Word {
    pub(super) fn from_part(part: Part) -> Self {
        Self { parts: vec![part] }
    }

    pub(super) fn from_text(text: &str) -> Self {
        Self::from_part(Part::Text(text.to_owned()))
    }

    /// Whether it is a path that is taken from the working folder.
    pub(super) fn is_relative(&self) -> bool {
        match self.parts.first() {
            Some(Part::Text(text)) => !text.starts_with('/'),
            _ => false,
        }
    }

    /// The path of a relative word from this folder.
    pub(super) fn joined(&self, relative: &Self) -> Self {
        let mut path = self.clone();
        path.push_text("/");
        path.append(relative);
        path
    }

    /// The word with another known text at its beginning.
    pub(super) fn with_head(&self, head: &str) -> Self {
        let mut word = self.clone();
        if let Some(Part::Text(text)) = word.parts.first_mut() {
            head.clone_into(text);
        }
        word
    }

    /// The word where it is known in full.
    pub(super) fn literal(&self) -> Option<String> {
        let mut whole = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => whole.push_str(text),
                Part::Tmp | Part::Scratch | Part::Output(_) | Part::Unknown => return None,
            }
        }
        Some(whole)
    }

    /// The known text at the beginning.
    pub(super) fn head(&self) -> &str {
        match self.parts.first() {
            Some(Part::Text(text)) => text,
            _ => "",
        }
    }

    /// The content of the file that the word names, where that is known.
    pub(super) fn output(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Output(text)] => Some(text),
            _ => None,
        }
    }

    /// The word as source text that expands to the same parts.
    pub(super) fn source(&self) -> String {
        self.parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.as_str(),
                Part::Tmp => "$TMPDIR",
                Part::Scratch => "$(mktemp)",
                Part::Output(_) | Part::Unknown => "${_}",
            })
            .collect()
    }

    /// Whether the word is a path that lies below the private tmp whatever the disk looks like.
    pub(super) fn is_below_tmp(&self) -> bool {
        let Some((first, rest)) = self.parts.split_first() else {
            return false;
        };
        let rest = Self {
            parts: rest.to_vec(),
        };
        let Some(tail) = rest.literal() else {
            return false;
        };
        match first {
            Part::Scratch => !climbs(&tail),
            Part::Tmp => tail.starts_with('/') && !climbs(&tail) && has_name(&tail),
            Part::Text(text) => {
                let path = format!("{text}{tail}");
                ["/tmp/", "/private/tmp/"]
                    .iter()
                    .filter_map(|root| path.strip_prefix(root))
                    .any(|below| has_name(below) && !climbs(below))
            }
            Part::Output(_) | Part::Unknown => false,
        }
    }

    /// This word with each `{}` standing for `part`, as `find -exec` and `xargs -I{}` do.
    pub(super) fn with_braces_as(&self, part: &Part) -> Self {
        let mut word = Self::default();
        for own in &self.parts {
            match own {
                Part::Text(text) => {
                    let mut pieces = text.split("{}");
                    word.push_text(pieces.next().unwrap_or_default());
                    for piece in pieces {
                        word.parts.push(part.clone());
                        word.push_text(piece);
                    }
                }
                other => word.parts.push(other.clone()),
            }
        }
        word
    }

    /// Bytes that the word takes.
    pub(super) fn len(&self) -> usize {
        1 + self.parts.iter().map(|part| 1 + part.len()).sum::<usize>()
    }

    pub(super) fn append(&mut self, other: &Self) {
        for part in &other.parts {
            match part {
                Part::Text(text) => self.push_text(text),
                other => self.parts.push(other.clone()),
            }
        }
    }

    pub(super) fn push_text(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(Part::Text(last)) => last.push_str(text),
            _ if text.is_empty() => {}
            _ => self.parts.push(Part::Text(text.to_owned())),
        }
    }
}

fn climbs(path: &str) -> bool {
    path.split('/').any(|name| name == "..")
}

fn has_name(path: &str) -> bool {
    path.split('/').any(|name| !name.is_empty() && name != ".")
}
