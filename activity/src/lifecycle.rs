//! Lifecycle: starts, stops, restarts and signals of the processes.

use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::clock;
use crate::error::{TrailError, io_at};
use crate::folders::Folders;
use crate::limits::LIFECYCLE;
use crate::read::last_lines;
use crate::record::short;
use crate::rolling::{JustDrop, Lock, Log, snapshot};
use crate::shorten;

/// The lifecycle log, opened for writing by one process. Not part of the chain.
#[derive(Debug)]
pub struct Lifecycle {
    process: String,
    version: String,
    writer: Mutex<(Lock, Log)>,
}

/// One line of the lifecycle log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LifecycleNote {
    /// When, RFC 3339 in UTC.
    pub ts: String,
    /// What happened, in one word (`start`, `stop`, `signal`, …).
    pub event: String,
    /// The program it happened to.
    pub process: String,
    /// Its process id.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// What else is to be said, redacted.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub detail: Value,
}

impl Lifecycle {
    /// Opens the log for the program `process`, making its folder if it is missing.
    ///
    /// # Errors
    /// [`TrailError::Io`].
    pub fn open(folders: &Folders, process: &str, version: &str) -> Result<Self, TrailError> {
        let path = folders.lifecycle();
        let lock = Lock::open(&path).map_err(io_at("open the lock of", &path))?;
        Ok(Self {
            process: short(process),
            version: short(version),
            writer: Mutex::new((lock, Log::new(path, LIFECYCLE))),
        })
    }

    /// Appends a line; `Value::Null` is no detail. Details are redacted here.
    ///
    /// # Errors
    /// [`TrailError::Io`], [`TrailError::Encode`]; nothing was written then.
    pub fn note(&self, event: &str, detail: Value) -> Result<(), TrailError> {
        let note = LifecycleNote {
            ts: clock::now(),
            event: short(event),
            process: self.process.clone(),
            pid: std::process::id(),
            version: self.version.clone(),
            detail: shorten::args(&detail),
        };
        let mut line = serde_json::to_vec(&note).map_err(|e| TrailError::Encode {
            turn_id: "(lifecycle)".into(),
            reason: e.to_string(),
        })?;
        line.push(b'\n');
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let (lock, log) = &mut *writer;
        let path = log.path().to_path_buf();
        let held = lock.exclusive().map_err(io_at("lock", &path))?;
        log.prepare(&held)
            .and_then(|()| log.append(&held, &line, &mut JustDrop))
            .map_err(io_at("append to", &path))
    }
}

/// The last `count` lines of the lifecycle log, oldest first; lines that cannot be read are left
/// out.
///
/// # Errors
/// [`TrailError::Io`] if a log is there and cannot be read.
pub fn read_lifecycle(folders: &Folders, count: usize) -> Result<Vec<LifecycleNote>, TrailError> {
    let path = folders.lifecycle();
    let (parts, ()) = snapshot(&path, || Ok(())).map_err(io_at("open the log", &path))?;
    let mut notes = Vec::new();
    last_lines(&parts, &mut |line| {
        notes.extend(serde_json::from_slice::<LifecycleNote>(line.bytes).ok());
        notes.len() < count
    })?;
    notes.truncate(count);
    notes.reverse();
    Ok(notes)
}
