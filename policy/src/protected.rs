//! What is protected, as data: patterns of real paths, and what each denies.
//!
//! A pattern is made of components. It begins with `/` (absolute), `~/` (in any person's home: the
//! owner's, and those of others under the usual places) or `**/` (anywhere). In a component `*`
//! stands for any text; the component `**` for any number of components. A pattern covers what it
//! names and everything below; with `$` at the end only what it names. Names are compared in NFC,
//! without regard to case, and without the characters that HFS+ ignores, on every platform: a Mac's
//! folders are also mounted on Linux. For the same reason the lists of both systems always apply.

mod common;
mod existing;
mod linux;
mod macos;
mod pattern;

pub use existing::{Survey, existing_in_home, survey};

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization;

pub(crate) use pattern::{Compiled, usual_homes};

/// What an entry denies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Denies {
    /// Reading, listing and writing.
    ReadWrite,
    /// Writing only.
    Write,
}

/// Why an entry is on the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// System paths that are never opened.
    System,
    /// System paths of programs and state; a workspace that the person configured below one opens that part.
    SystemState,
    /// Keys, tokens, passwords.
    Credentials,
    /// Application data that holds credentials, cookies or messages.
    AppData,
    /// Private keys by their name, anywhere.
    PrivateKey,
    /// `.env` and kin; by a setting.
    Env,
    /// Read by a shell, an editor or a desktop when it starts.
    Startup,
    /// Started by the system on its own: autostart, services, timers.
    Autostart,
    /// Folders on PATH.
    PathFolder,
    /// What makes git (and kin) run something.
    Git,
}

impl Class {
    /// The name of the rule, as the trail shows it.
    pub fn rule(self) -> &'static str {
        match self {
            Class::System | Class::SystemState => "system_path",
            Class::Credentials => "credentials",
            Class::AppData => "app_data",
            Class::PrivateKey => "private_key",
            Class::Env => "env_file",
            Class::Startup => "startup_file",
            Class::Autostart => "autostart",
            Class::PathFolder => "path_folder",
            Class::Git => "git_control",
        }
    }
}

/// One protected pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The pattern (see the module's page).
    pub pattern: &'static str,
    /// What it denies.
    pub denies: Denies,
    /// Why it is listed, for rules that treat kinds apart.
    pub class: Class,
    /// What it protects, in words that a refusal shows.
    pub why: &'static str,
    /// A path that it covers; `~` stands for a home.
    pub hit: &'static str,
    /// A path that looks alike and that it does not cover.
    pub miss: &'static str,
}

/// Denies reading and writing.
const fn rw(
    class: Class,
    pattern: &'static str,
    why: &'static str,
    hit: &'static str,
    miss: &'static str,
) -> Entry {
    Entry {
        pattern,
        denies: Denies::ReadWrite,
        class,
        why,
        hit,
        miss,
    }
}

/// Denies writing only.
const fn w(
    class: Class,
    pattern: &'static str,
    why: &'static str,
    hit: &'static str,
    miss: &'static str,
) -> Entry {
    Entry {
        pattern,
        denies: Denies::Write,
        class,
        why,
        hit,
        miss,
    }
}

/// Folders that hold people's homes, one a component below. The owner's own home is added by the policy.
pub(crate) const HOMES: &[&str] = &[
    "/home/*",
    "/Users/*",
    "/var/home/*",
    "/export/home/*",
    "/root",
    "/var/root",
    "/private/var/root",
    "/mnt/*/Users/*",
];

/// Parts of protected system folders that are open: media that a person plugged in.
const EXCEPTIONS: &[&str] = &["/run/media/*"];

/// Endings of `.env.*` names that are examples without values.
const ENV_EXAMPLES: &[&str] = &["example", "sample", "template", "dist", "defaults"];

/// Every protected entry.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    [
        common::CREDENTIALS,
        common::ANYWHERE,
        common::STARTUP,
        common::PATH_FOLDERS,
        common::GIT,
        linux::SYSTEM,
        linux::PERSON,
        macos::SYSTEM,
        macos::PERSON,
    ]
    .into_iter()
    .flatten()
}

static RULES: LazyLock<Vec<Compiled>> = LazyLock::new(|| entries().map(Compiled::new).collect());

/// The entries, compiled once.
pub(crate) fn rules() -> &'static [Compiled] {
    &RULES
}

/// Whether a folded path lies in a listed exception.
pub(crate) fn excepted(path: &[String]) -> bool {
    static PARTS: LazyLock<Vec<pattern::Parts>> = LazyLock::new(|| {
        EXCEPTIONS
            .iter()
            .map(|text| pattern::Parts::new(text))
            .collect()
    });
    PARTS.iter().any(|parts| parts.covers(path))
}

/// Whether a folded path ends in the name of an environment file that is an example.
pub(crate) fn env_example(path: &[String]) -> bool {
    let ending = path.last().and_then(|name| name.rsplit_once('.'));
    ending.is_some_and(|(_, ending)| ENV_EXAMPLES.contains(&ending))
}

/// A name as it is compared: NFC, lower case, without ignorable characters.
pub(crate) fn fold(name: &OsStr) -> String {
    let bytes = name.as_bytes();
    if bytes.is_ascii() {
        return name.to_string_lossy().to_ascii_lowercase();
    }
    let kept = name.to_string_lossy();
    let kept = kept.chars().filter(|c| !ignorable(*c));
    let lower: String = kept.nfc().flat_map(char::to_lowercase).collect();
    lower.nfc().collect()
}

/// Characters that HFS+ leaves out when it compares names.
fn ignorable(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

/// The components of an absolute path, folded.
pub(crate) fn fold_path(path: &Path) -> Vec<String> {
    let bytes = path.as_os_str().as_bytes();
    bytes
        .split(|b| *b == b'/')
        .filter(|part| !part.is_empty() && *part != b".")
        .map(|part| fold(OsStr::from_bytes(part)))
        .collect()
}

/// The components of an absolute path as configured paths are compared: as they are, but without regard to case and
/// normal form on macOS, whose disks know neither.
pub(crate) fn plain_path(path: &Path) -> Vec<String> {
    if cfg!(target_os = "macos") {
        return fold_path(path);
    }
    let text = path.to_string_lossy();
    let parts = text
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".");
    parts.map(str::to_owned).collect()
}

/// Whether `path` is `root` or lies below it, by component.
pub(crate) fn starts_with(path: &[String], root: &[String]) -> bool {
    path.len() >= root.len() && path.iter().zip(root).all(|(a, b)| a == b)
}

#[cfg(test)]
mod tests;
