//! A value as it was written, and putting it into the configuration.

use crate::hosts::HostRule;
use crate::keys::{Key, Slot, quoted};
use crate::model::Config;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A value as it was written, before its key's type and range are checked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Raw {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    /// A list of strings.
    List(Vec<String>),
    /// Something no key accepts, in words.
    Other(&'static str),
}

/// Why a value is not accepted.
#[derive(Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) reason: String,
    pub(crate) hint: Option<String>,
    /// Which element of a list, counted from 0.
    pub(crate) element: Option<usize>,
}

impl Fault {
    pub(crate) fn new(reason: impl Into<String>) -> Fault {
        Fault {
            reason: reason.into(),
            hint: None,
            element: None,
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Fault {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn at(mut self, element: usize) -> Fault {
        self.element = Some(element);
        self
    }
}

impl Raw {
    /// Reads the text of a variable or a flag as the key's type; what does not fit stays text and is refused later.
    pub(crate) fn from_text(key: &Key, text: &str) -> Raw {
        let trimmed = text.trim();
        let as_text = || Raw::Text(text.to_owned());
        match key.slot {
            Slot::Bool(_) => match trimmed.to_ascii_lowercase().as_str() {
                "true" | "1" | "on" | "yes" => Raw::Bool(true),
                "false" | "0" | "off" | "no" => Raw::Bool(false),
                _ => as_text(),
            },
            Slot::Int { .. } => trimmed.parse().map_or_else(|_| as_text(), Raw::Int),
            Slot::Seconds { .. } => trimmed.parse().map_or_else(|_| as_text(), Raw::Float),
            Slot::Choice { words, .. } => Raw::Text(switched(trimmed, words).to_owned()),
            Slot::Text { .. } => Raw::Text(trimmed.to_owned()),
            Slot::Path(_) => as_text(),
            // Colons stand before ports.
            Slot::Hosts(_) => Raw::List(
                text.split(',')
                    .map(str::trim)
                    .filter(|part| !part.is_empty())
                    .map(str::to_owned)
                    .collect(),
            ),
            Slot::Paths(_) | Slot::Names(_) | Slot::FolderNames(_) => Raw::List(
                text.split(':')
                    .filter(|part| !part.is_empty())
                    .map(str::to_owned)
                    .collect(),
            ),
        }
    }

    /// The value in words, for a message.
    fn describe(&self) -> String {
        match self {
            Raw::Bool(value) => format!("`{value}`"),
            Raw::Int(value) => format!("`{value}`"),
            Raw::Float(value) => format!("`{value}`"),
            Raw::Text(value) => format!("the text {value:?}"),
            Raw::List(_) => "a list".to_owned(),
            Raw::Other(what) => (*what).to_owned(),
        }
    }
}

/// Checks `raw` against the key and puts it into `config`.
pub(crate) fn apply(
    key: &Key,
    raw: &Raw,
    config: &mut Config,
    user_home: Option<&Path>,
) -> Result<(), Fault> {
    let wrong_type = || {
        Fault::new(format!(
            "expects {}, found {}",
            key.type_text(),
            raw.describe()
        ))
    };
    match (&key.slot, raw) {
        (Slot::Bool(at), Raw::Bool(value)) => *at(config) = *value,
        (Slot::Int { min, max, at }, Raw::Int(value)) => {
            *at(config) = in_range(*value, *min, *max, key.unit)?;
        }
        (Slot::Seconds { min, max, at }, Raw::Int(value)) => {
            *at(config) = Duration::from_secs(in_range(*value, *min, *max, key.unit)?);
        }
        (Slot::Seconds { min, max, at }, Raw::Float(value)) => {
            *at(config) = seconds_in_range(*value, *min, *max, key.unit)?;
        }
        (
            Slot::Choice {
                words, later, set, ..
            },
            Raw::Text(word),
        ) => {
            check_word(word, words, later)?;
            set(config, word);
        }
        (
            Slot::Choice {
                words: ["on", "off", ..],
                set,
                ..
            },
            Raw::Bool(value),
        ) => {
            set(config, if *value { "on" } else { "off" });
        }
        (Slot::Hosts(at), Raw::List(texts)) => *at(config) = hosts(texts)?,
        (Slot::Paths(at), Raw::List(texts)) => *at(config) = paths(texts, user_home)?,
        (Slot::Names(at), Raw::List(texts)) => *at(config) = names(texts)?,
        (Slot::FolderNames(at), Raw::List(texts)) => *at(config) = folder_names(texts)?,
        (Slot::Path(at), Raw::Text(text)) => *at(config) = Some(path(text, user_home)?),
        (Slot::Text { set, .. }, Raw::Text(text)) => set(config, text).map_err(Fault::new)?,
        _ => return Err(wrong_type()),
    }
    Ok(())
}

fn out_of_range(value: impl std::fmt::Display, min: u64, max: u64, unit: &str) -> Fault {
    Fault::new(format!(
        "`{value}` is out of range, {min} to {max} {unit} is accepted"
    ))
}

fn in_range(value: i64, min: u64, max: u64, unit: &str) -> Result<u64, Fault> {
    u64::try_from(value)
        .ok()
        .filter(|number| (min..=max).contains(number))
        .ok_or_else(|| out_of_range(value, min, max, unit))
}

fn seconds_in_range(value: f64, min: u64, max: u64, unit: &str) -> Result<Duration, Fault> {
    Duration::try_from_secs_f64(value)
        .ok()
        .filter(|time| (Duration::from_secs(min)..=Duration::from_secs(max)).contains(time))
        .ok_or_else(|| out_of_range(value, min, max, unit))
}

fn check_word(word: &str, words: &[&str], later: &[&str]) -> Result<(), Fault> {
    if words.contains(&word) {
        return Ok(());
    }
    if later.contains(&word) {
        return Err(
            Fault::new(format!("`{word}` is not available in this version"))
                .hint(format!("use {}", quoted(words))),
        );
    }
    let fault = Fault::new(format!(
        "`{word}` is not known, {} is accepted",
        quoted(words)
    ));
    Err(
        match crate::near::nearest(&word.to_lowercase(), words.iter().copied()) {
            Some(near) => fault.hint(format!("did you mean `{near}`?")),
            None => fault,
        },
    )
}

/// What stands for `on` and `off` in the text of a variable, where these are among the words.
fn switched<'a>(word: &'a str, words: &[&str]) -> &'a str {
    if !words.starts_with(&["on", "off"]) {
        return word;
    }
    match word.to_ascii_lowercase().as_str() {
        "true" | "1" | "on" | "yes" => "on",
        "false" | "0" | "off" | "no" => "off",
        _ => word,
    }
}

fn hosts(texts: &[String]) -> Result<Vec<HostRule>, Fault> {
    let rule = |(at, text): (usize, &String)| {
        HostRule::parse(text).map_err(|why| Fault::new(format!("`{text}` {why}")).at(at))
    };
    texts.iter().enumerate().map(rule).collect()
}

fn paths(texts: &[String], user_home: Option<&Path>) -> Result<Vec<PathBuf>, Fault> {
    texts
        .iter()
        .enumerate()
        .map(|(at, text)| path(text, user_home).map_err(|fault| fault.at(at)))
        .collect()
}

/// Expands `~` and requires an absolute path.
fn path(text: &str, user_home: Option<&Path>) -> Result<PathBuf, Fault> {
    if text.contains('\0') {
        return Err(Fault::new(format!("the path {text:?} contains a NUL")));
    }
    let tail = match text.strip_prefix('~') {
        Some("") => Some(""),
        Some(rest) => rest.strip_prefix('/'),
        None => None,
    };
    let expanded = match (tail, user_home) {
        (Some(tail), Some(home)) => home.join(tail.trim_start_matches('/')),
        (Some(_), None) => {
            return Err(Fault::new(format!(
                "`{text}` cannot be expanded: the home folder of this user is not known"
            ))
            .hint("set HOME or give an absolute path"));
        }
        (None, _) => PathBuf::from(text),
    };
    if !expanded.is_absolute() {
        return Err(Fault::new(format!("the path `{text}` is not absolute"))
            .hint("start it with `/` or `~/`"));
    }
    // Dots are refused rather than resolved: with a link in the way both readings would be wrong for someone.
    if expanded
        .components()
        .any(|part| part == std::path::Component::ParentDir)
    {
        return Err(
            Fault::new(format!("the path `{text}` contains `..`")).hint("write it without `..`")
        );
    }
    // Collecting the components drops doubled and trailing slashes and single dots.
    Ok(expanded.components().collect())
}

/// Names of folders: no path, and nothing that protects what is in it.
fn folder_names(texts: &[String]) -> Result<Vec<String>, Fault> {
    for (at, name) in texts.iter().enumerate() {
        let reserved = ["", ".", "..", ".git", ".hg"].contains(&name.as_str());
        if reserved || name.contains(['/', '\0']) {
            return Err(Fault::new(format!(
                "{name:?} is not the name of a folder of build products"
            ))
            .at(at));
        }
    }
    Ok(texts.to_vec())
}

fn names(texts: &[String]) -> Result<Vec<String>, Fault> {
    for (at, name) in texts.iter().enumerate() {
        let mut chars = name.chars();
        let starts = chars
            .next()
            .is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
        if !starts || !chars.all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(Fault::new(format!(
                "{name:?} is not the name of an environment variable"
            ))
            .at(at));
        }
        if name.starts_with("HANDS_") {
            return Err(Fault::new(format!(
                "`{name}` configures Hands itself and is never passed to commands"
            ))
            .at(at));
        }
    }
    Ok(texts.to_vec())
}
