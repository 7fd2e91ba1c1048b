//! What is wrong with a configuration or a home, and where.

use std::fmt;
use std::path::{Path, PathBuf};

/// Where a wrong value was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The configuration file; the line counts from 1 and is absent when the whole file is meant.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Line, counted from 1.
        line: Option<usize>,
    },
    /// An environment variable, by name.
    Env(String),
    /// A command-line flag, by name.
    Flag(String),
    /// The home folder.
    Home(PathBuf),
    /// A default that cannot be used on this machine.
    Default,
}

/// A configuration or a home that cannot be used. The text names the place, the key, the reason and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    place: Place,
    key: Option<String>,
    reason: String,
    hint: Option<String>,
}

impl ConfigError {
    pub(crate) fn new(place: Place, reason: impl Into<String>) -> ConfigError {
        ConfigError {
            place,
            key: None,
            reason: reason.into(),
            hint: None,
        }
    }

    pub(crate) fn home(path: &Path, reason: impl Into<String>) -> ConfigError {
        ConfigError::new(Place::Home(path.to_path_buf()), reason)
    }

    pub(crate) fn key(mut self, key: impl Into<String>) -> ConfigError {
        self.key = Some(key.into());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> ConfigError {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn maybe_hint(mut self, hint: Option<String>) -> ConfigError {
        self.hint = hint;
        self
    }

    /// Where the wrong value was found.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The key concerned, as `section.key`.
    pub fn key_name(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// The line of the configuration file, counted from 1.
    pub fn line(&self) -> Option<usize> {
        match self.place {
            Place::File { line, .. } => line,
            _ => None,
        }
    }

    /// What is wrong, without the place.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// What to do about it.
    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::File { path, line: None } => write!(out, "{}: ", path.display())?,
            Place::File {
                path,
                line: Some(line),
            } => write!(out, "{}:{line}: ", path.display())?,
            Place::Env(name) => write!(out, "environment variable {name}: ")?,
            Place::Flag(name) => write!(out, "flag {name}: ")?,
            Place::Home(path) => write!(out, "home {}: ", path.display())?,
            Place::Default => write!(out, "default: ")?,
        }
        if let Some(key) = &self.key {
            write!(out, "key `{key}`: ")?;
        }
        out.write_str(&self.reason)?;
        match &self.hint {
            Some(hint) => write!(out, "; {hint}"),
            None => Ok(()),
        }
    }
}
