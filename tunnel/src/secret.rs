//! The API key: where it comes from, and that it stays unseen.

use std::fmt;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::file::open_regular;
use crate::{keychain, limits};

/// A secret. It has no readable `Debug`, no `Display` and no serialization.
#[derive(Clone)]
pub struct ApiKey(String);

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(not shown)")
    }
}

impl ApiKey {
    /// Takes a key; an error where it is empty or could not stand in a header.
    pub fn new(text: &str) -> Result<Self, SecretError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(SecretError::Empty);
        }
        if !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(SecretError::Unprintable);
        }
        Ok(Self(text.to_owned()))
    }

    /// The key itself, for the one header it goes into.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The text with the key, wherever it stands, taken out.
    pub fn redact(&self, text: &str) -> String {
        text.replace(&self.0, "[key not shown]")
    }
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// Nothing in it.
    #[error("the API key is empty")]
    Empty,
    /// It could not stand in a header.
    #[error("the API key holds characters other than printable ASCII; is it the right file?")]
    Unprintable,
    /// None of `env:`, `file:`, `keychain:`.
    #[error(
        "the API key must be given as env:NAME, file:/path or keychain:ACCOUNT, never as itself: an \
         argument or a configuration file can be read by others"
    )]
    NotAReference,
    /// The variable is not set.
    #[error("the environment variable {0} that should hold the API key is not set")]
    NoVariable(String),
    /// The file cannot be read.
    #[error("reading the API key from {path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Others can read the file.
    #[error(
        "the API key in {path} can be read by others (mode {mode:04o}): run `chmod 600 {path}`, \
         and replace the key if others were on this machine"
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The file belongs to somebody else.
    #[error("the API key in {path} belongs to another user (uid {owner}): use a file of your own")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// The system's store for secrets cannot be used.
    #[error("using the {name} for the API key: {reason}; {advice}")]
    Keychain {
        /// What the store is called.
        name: &'static str,
        /// Why.
        reason: String,
        /// What mends it.
        advice: &'static str,
    },
    /// It has no such key.
    #[error(
        "the {name} holds no API key for {account}: run `handsctl tunnel setup --store keychain`"
    )]
    NotThere {
        /// What the store is called.
        name: &'static str,
        /// The account that was asked for.
        account: String,
    },
}

/// Where a key comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyReference {
    /// An environment variable.
    Env(String),
    /// A file of mode 0600.
    File(PathBuf),
    /// An account in the system's store for secrets.
    Keychain(String),
}

impl KeyReference {
    /// Reads `env:NAME`, `file:/path` or `keychain:ACCOUNT`.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let text = text.trim();
        if let Some(name) = text.strip_prefix("env:").filter(|name| !name.is_empty()) {
            return Ok(Self::Env(name.to_owned()));
        }
        let account = text.strip_prefix("keychain:");
        if let Some(account) = account.filter(|account| !account.is_empty()) {
            return Ok(Self::Keychain(account.to_owned()));
        }
        match text.strip_prefix("file:").filter(|path| !path.is_empty()) {
            Some(path) => Ok(Self::File(PathBuf::from(path))),
            None => Err(SecretError::NotAReference),
        }
    }

    /// Fetches the key; `env` looks a variable up.
    pub fn resolve(&self, env: &dyn Fn(&str) -> Option<String>) -> Result<ApiKey, SecretError> {
        match self {
            Self::Env(name) => {
                let text = env(name).ok_or_else(|| SecretError::NoVariable(name.clone()))?;
                ApiKey::new(&text)
            }
            Self::File(path) => from_file(path),
            Self::Keychain(account) => keychain::fetch(account),
        }
    }
}

fn from_file(path: &Path) -> Result<ApiKey, SecretError> {
    let failed = |error| SecretError::Io {
        path: path.to_owned(),
        error,
    };
    let file = open_regular(path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    let mode = meta.mode() & 0o7777;
    if mode & 0o077 != 0 {
        let path = path.to_owned();
        return Err(SecretError::Open { path, mode });
    }
    let me = rustix::process::geteuid().as_raw();
    if meta.uid() != me && meta.uid() != 0 {
        return Err(SecretError::Foreign {
            path: path.to_owned(),
            owner: meta.uid(),
        });
    }
    let mut text = String::new();
    file.take(limits::SECRET_MAX + 1)
        .read_to_string(&mut text)
        .map_err(failed)?;
    if text.len() as u64 > limits::SECRET_MAX {
        let why = format!("it is over {} bytes", limits::SECRET_MAX);
        return Err(failed(std::io::Error::other(why)));
    }
    ApiKey::new(&text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn key_file(mode: u32) -> (tempfile::TempDir, KeyReference) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, "sk-secret\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        (folder, KeyReference::File(path))
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        for mode in [0o640, 0o604, 0o620, 0o601] {
            let (_folder, reference) = key_file(mode);
            let error = reference.resolve(&|_| None).unwrap_err();
            assert!(error.to_string().contains("chmod 600"), "{mode:o}: {error}");
        }
        for mode in [0o600, 0o400] {
            let (_folder, reference) = key_file(mode);
            let key = reference.resolve(&|_| None).unwrap();
            assert_eq!(key.expose(), "sk-secret");
        }
    }

    #[test]
    fn what_is_no_file_or_no_key_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        for path in [pipe.as_path(), folder.path(), Path::new("/dev/zero")] {
            let reference = KeyReference::File(path.to_owned());
            let error = reference.resolve(&|_| None).unwrap_err().to_string();
            assert!(error.contains("not a regular file"), "{error}");
        }
        let (_folder, reference) = key_file(0o600);
        let KeyReference::File(path) = &reference else {
            panic!("it is a file");
        };
        std::fs::write(path, "k".repeat(limits::SECRET_MAX as usize + 1)).unwrap();
        let error = reference.resolve(&|_| None).unwrap_err().to_string();
        assert!(error.contains("over"), "{error}");
    }

    #[test]
    fn a_key_shows_itself_nowhere() {
        let key = ApiKey::new("sk-secret").unwrap();
        assert!(!format!("{key:?}").contains("sk-secret"));
        let text = key.redact("Bearer sk-secret was refused");
        assert_eq!(text, "Bearer [key not shown] was refused");
    }

    #[test]
    fn a_literal_key_is_refused_without_being_repeated() {
        let error = KeyReference::parse("sk-secret").unwrap_err();
        assert!(!error.to_string().contains("sk-secret"));
        assert!(ApiKey::new("two\nlines").is_err());
        assert!(ApiKey::new("  ").is_err());
    }

    #[test]
    fn a_missing_variable_is_named() {
        let reference = KeyReference::parse("env:MY_KEY").unwrap();
        let error = reference.resolve(&|_| None).unwrap_err();
        assert!(error.to_string().contains("MY_KEY"));
        let found = reference.resolve(&|name| (name == "MY_KEY").then(|| "k".to_owned()));
        assert_eq!(found.unwrap().expose(), "k");
    }
}
