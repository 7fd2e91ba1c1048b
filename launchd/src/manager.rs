//! What launchd and systemd have in common.

use crate::error::ServiceError;
use crate::file::Presence;
use crate::limits::SHOWN_BYTES;
use crate::runner::Answer;
use crate::service::Service;
use std::path::{Path, PathBuf};

/// Which files may be replaced or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overwrite {
    /// Only a file with our marker line.
    OwnOnly,
    /// Any plain file.
    Forced,
}

/// What an installation did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// The definition's file.
    pub path: PathBuf,
    /// Whether it was written; false when it was there already.
    pub changed: bool,
    /// What the person should know.
    pub notes: Vec<String>,
}

/// What a service is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// At work.
    Running,
    /// On the way up, or waiting for the next start.
    Starting,
    /// On the way down.
    Stopping,
    /// Not started, or ended in order.
    Stopped,
    /// Ended by a failure and not started again.
    Failed,
    /// Something else, in the manager's words.
    Other(String),
}

/// What the manager knows of the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Where the definition is or would be.
    pub path: PathBuf,
    /// Whose file is there.
    pub file: Presence,
    /// Whether the manager has read a definition.
    pub loaded: bool,
    /// The file it was read from, where the manager says so.
    pub loaded_from: Option<PathBuf>,
    /// Whether the file was changed since it was read; install or restart makes it count.
    pub needs_reload: bool,
    /// Whether it starts at login.
    pub at_login: Option<bool>,
    /// What it is doing.
    pub state: State,
    /// The daemon's process.
    pub pid: Option<u32>,
    /// How it ended last, in the manager's words.
    pub last_exit: Option<String>,
    /// How often the manager started it.
    pub starts: Option<u64>,
}

/// Installs and controls one person's service.
pub trait Manager {
    /// Where the definition is or would be.
    fn path(&self) -> &Path;

    /// The definition that [`Manager::install`] would write.
    ///
    /// # Errors
    /// The service cannot be written in this manager's format.
    fn print(&self, service: &Service) -> Result<String, ServiceError>;

    /// Writes the definition, makes it start at login, and starts it now (again, if its definition changed).
    ///
    /// # Errors
    /// The place is taken by another's file, or the manager refuses. What was done by then stays; the call may be repeated.
    fn install(&self, service: &Service, overwrite: Overwrite) -> Result<Installed, ServiceError>;

    /// Stops the service, takes it from the login, and removes the definition; false if there was none.
    ///
    /// # Errors
    /// The file is another's, or the manager refuses.
    fn uninstall(&self, overwrite: Overwrite) -> Result<bool, ServiceError>;

    /// Starts it, if it does not run.
    ///
    /// # Errors
    /// It is not installed, or the manager refuses.
    fn start(&self) -> Result<(), ServiceError>;

    /// Stops it in order, if it runs; it starts again at the next login.
    ///
    /// # Errors
    /// The manager refuses, or the service does not end in time.
    fn stop(&self) -> Result<(), ServiceError>;

    /// Stops it in order and starts it with the definition as it is now.
    ///
    /// # Errors
    /// As for stop and start.
    fn restart(&self) -> Result<(), ServiceError>;

    /// What the manager knows of it.
    ///
    /// # Errors
    /// The manager cannot be reached.
    fn status(&self) -> Result<Status, ServiceError>;
}

/// The manager of this platform and person.
///
/// # Errors
/// There is none here, or the person's folders are unknown.
pub fn native() -> Result<Box<dyn Manager>, ServiceError> {
    let folders = directories::BaseDirs::new().ok_or_else(|| ServiceError::NoManager {
        reason: "your home folder is not known (is HOME set?)".to_owned(),
    })?;
    if cfg!(target_os = "macos") {
        Ok(Box::new(crate::Launchctl::native(folders.home_dir())))
    } else {
        Ok(Box::new(crate::Systemctl::native(folders.config_dir())?))
    }
}

/// What a program said of its failure, on one line and not too long.
pub(crate) fn said(answer: &Answer) -> String {
    let stderr = answer.stderr.trim();
    let text = if stderr.is_empty() {
        answer.stdout.trim()
    } else {
        stderr
    };
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let line = lines.join("; ");
    // Terminal sequences of whatever it prints have no place in a message.
    let line: String = line.chars().filter(|symbol| !symbol.is_control()).collect();
    match line.len() {
        0 => "it said nothing".to_owned(),
        length if length <= SHOWN_BYTES => line,
        _ => format!("{} …", &line[..line.floor_char_boundary(SHOWN_BYTES)]),
    }
}
