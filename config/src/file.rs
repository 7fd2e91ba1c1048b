//! Reading `config.toml`: bytes to keys with their lines.

use crate::error::{ConfigError, Place};
use crate::keys::{self, Key};
use crate::limits;
use crate::near::nearest;
use crate::value::Raw;
use rustix::fs::{Mode, OFlags};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use toml_edit::{Document, Item, TableLike, Value};

/// One setting as written in the file.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) key: &'static Key,
    pub(crate) raw: Raw,
    /// Line of the key, counted from 1.
    pub(crate) line: usize,
    /// Line of each element of a list.
    pub(crate) element_lines: Vec<usize>,
}

/// What mends a file that holds nothing a person wrote.
const REMOVE: &str = "remove it to use the defaults";

/// Reads the file's text. `None` if there is no file.
///
/// Only a file that is plainly not there means the defaults: a link to nowhere and a file without a single byte are what
/// a lost disk and a write that was cut short leave behind, and the defaults could be laxer than what they held.
pub(crate) fn read(path: &Path) -> Result<Option<String>, ConfigError> {
    let error = |reason: String| ConfigError::new(whole(path), reason);
    // NONBLOCK: a FIFO in the file's place must not hang the start.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(descriptor) => std::fs::File::from(descriptor),
        Err(rustix::io::Errno::NOENT) => {
            return match dangling(path) {
                Some(link) => Err(leads_nowhere(path, &link)),
                None => Ok(None),
            };
        }
        Err(errno @ rustix::io::Errno::NOTDIR) => {
            return Err(error(format!("cannot be looked for: {errno}"))
                .hint("set HANDS_HOME to a folder of its own"));
        }
        Err(errno) => {
            return Err(error(format!("cannot be opened: {errno}"))
                .hint(format!("make it a file that you may read, or {REMOVE}")));
        }
    };
    let meta = file
        .metadata()
        .map_err(|cause| error(format!("cannot be looked at: {cause}")))?;
    if !meta.is_file() {
        return Err(error("is not a regular file".to_owned())
            .hint(format!("put a file in its place, or {REMOVE}")));
    }
    let me = rustix::process::geteuid().as_raw();
    if meta.uid() != me && meta.uid() != 0 {
        let reason = format!(
            "belongs to user {}, this process runs as user {me}",
            meta.uid()
        );
        return Err(error(reason).hint("replace it by a file of your own"));
    }
    let mut bytes = Vec::new();
    file.take(limits::CONFIG_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|cause| error(format!("cannot be read: {cause}")))?;
    if bytes.len() as u64 > limits::CONFIG_FILE_BYTES {
        return Err(error(format!(
            "is larger than {} bytes",
            limits::CONFIG_FILE_BYTES
        )));
    }
    let text = String::from_utf8(bytes).map_err(|cause| not_utf8(path, &cause))?;
    if without_mark(&text).is_empty() {
        // Blank lines and comments are a person's choice; nothing at all is not.
        return Err(
            error("is empty, as a write that was cut short leaves it".to_owned()).hint(REMOVE),
        );
    }
    Ok(Some(text))
}

/// Editors on other systems put a byte order mark in front; it is no part of the text.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// The link without a target on the way to `path`, `path` itself included.
fn dangling(path: &Path) -> Option<PathBuf> {
    path.ancestors()
        .find(|part| part.symlink_metadata().is_ok_and(|meta| meta.is_symlink()) && !part.exists())
        .map(Path::to_path_buf)
}

fn leads_nowhere(path: &Path, link: &Path) -> ConfigError {
    let target = std::fs::read_link(link).unwrap_or_default();
    let target = target.display();
    if link == path {
        let reason = format!("is a link to {target}, which is not there");
        return ConfigError::new(whole(path), reason)
            .hint(format!("put the file back there, or {REMOVE}"));
    }
    let reason = format!(
        "cannot be looked for: {} is a link to {target}, which is not there",
        link.display()
    );
    ConfigError::new(whole(path), reason).hint("make the target, or remove the link")
}

fn not_utf8(path: &Path, cause: &std::string::FromUtf8Error) -> ConfigError {
    let at = cause.utf8_error().valid_up_to();
    let line = 1 + cause.as_bytes()[..at]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count();
    ConfigError::new(at_line(path, line), "the file is not UTF-8 here")
        .hint("save it in the UTF-8 encoding")
}

fn whole(path: &Path) -> Place {
    Place::File {
        path: path.to_path_buf(),
        line: None,
    }
}

pub(crate) fn at_line(path: &Path, line: usize) -> Place {
    Place::File {
        path: path.to_path_buf(),
        line: Some(line),
    }
}

/// Finds every setting in `text`; unknown keys and bad syntax are errors.
pub(crate) fn parse(path: &Path, text: &str) -> Result<Vec<Written>, ConfigError> {
    let text = without_mark(text);
    let document = Document::parse(text).map_err(|cause| syntax(path, text, &cause))?;
    let mut walk = Walk {
        path,
        text,
        found: Vec::new(),
    };
    walk.table(document.as_table(), "")?;
    Ok(walk.found)
}

fn syntax(path: &Path, text: &str, cause: &toml_edit::TomlError) -> ConfigError {
    let span = cause.span().unwrap_or(text.len()..text.len());
    let place = at_line(path, line_of(text, span.start));
    let message = cause.message().replace('\n', ", ");
    if message.contains("duplicate key") {
        let key = text.get(span).unwrap_or_default().trim();
        return ConfigError::new(place, "is set twice")
            .key(key)
            .hint("keep one of the two lines");
    }
    ConfigError::new(place, format!("not valid TOML: {message}"))
}

/// The line of a byte offset, counted from 1.
fn line_of(text: &str, offset: usize) -> usize {
    let before = &text.as_bytes()[..offset.min(text.len())];
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

struct Walk<'a> {
    path: &'a Path,
    text: &'a str,
    found: Vec<Written>,
}

impl Walk<'_> {
    fn table(&mut self, table: &dyn TableLike, prefix: &str) -> Result<(), ConfigError> {
        for (name, item) in table.iter() {
            let full = match prefix {
                "" => name.to_owned(),
                section => format!("{section}.{name}"),
            };
            let span = table.key(name).and_then(toml_edit::Key::span);
            let line = span.map_or(1, |span| line_of(self.text, span.start));
            self.entry(&full, item, line)?;
        }
        Ok(())
    }

    fn entry(&mut self, name: &str, item: &Item, line: usize) -> Result<(), ConfigError> {
        if let Some(key) = keys::find(name) {
            let (raw, element_lines) = self.raw(item, line);
            self.found.push(Written {
                key,
                raw,
                line,
                element_lines,
            });
            return Ok(());
        }
        if !is_section(name) {
            return Err(self.unknown(name, line));
        }
        match item.as_table_like() {
            Some(table) => self.table(table, name),
            None => Err(ConfigError::new(
                at_line(self.path, line),
                format!("is a section, found {}", item.type_name()),
            )
            .key(name)
            .hint(format!("write `[{name}]` and its keys below"))),
        }
    }

    fn unknown(&self, name: &str, line: usize) -> ConfigError {
        let place = at_line(self.path, line);
        let section = name.split('.').next().unwrap_or(name);
        if keys::LATER_SECTIONS.contains(&section) {
            return ConfigError::new(
                place,
                format!("the section `{section}` is not in this version"),
            )
            .key(name)
            .hint("remove it");
        }
        let sections = keys::KEYS
            .iter()
            .filter_map(|key| key.name.split_once('.').map(|(section, _)| section));
        let names = keys::KEYS.iter().map(|key| key.name).chain(sections);
        let hint = match nearest(name, names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`handsctl config show` lists the known keys".to_owned(),
        };
        ConfigError::new(place, "is not known").key(name).hint(hint)
    }

    /// The value as written, and the lines of its elements if it is a list.
    fn raw(&self, item: &Item, line: usize) -> (Raw, Vec<usize>) {
        let raw = match item {
            Item::Value(Value::Boolean(value)) => Raw::Bool(*value.value()),
            Item::Value(Value::Integer(value)) => Raw::Int(*value.value()),
            Item::Value(Value::Float(value)) => Raw::Float(*value.value()),
            Item::Value(Value::String(value)) => Raw::Text(value.value().clone()),
            Item::Value(Value::Array(array)) => return self.list(array, line),
            Item::Value(Value::Datetime(_)) => Raw::Other("a date"),
            _ => Raw::Other("a table"),
        };
        (raw, Vec::new())
    }

    fn list(&self, array: &toml_edit::Array, line: usize) -> (Raw, Vec<usize>) {
        let lines = array
            .iter()
            .map(|value| {
                value
                    .span()
                    .map_or(line, |span| line_of(self.text, span.start))
            })
            .collect();
        let texts: Option<Vec<String>> = array
            .iter()
            .map(|value| value.as_str().map(str::to_owned))
            .collect();
        match texts {
            Some(texts) => (Raw::List(texts), lines),
            None => (
                Raw::Other("a list with something else than text in it"),
                lines,
            ),
        }
    }
}

fn is_section(name: &str) -> bool {
    keys::KEYS
        .iter()
        .any(|key| key.name.split_once('.').is_some_and(|(s, _)| s == name))
}
