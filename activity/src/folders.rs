//! Where the trail lies.

use std::path::PathBuf;

/// The folders of the trail; the caller decides where they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folders {
    /// `agent_activity.jsonl`, `server_lifecycle.jsonl`, `server_faults.log`, their rotated files
    /// and their locks.
    pub logs: PathBuf,
    /// The key, the heads of the chains and `floor.json`.
    pub trail: PathBuf,
    /// Recovery files.
    pub recovery: PathBuf,
}

impl Folders {
    /// The activity log.
    #[must_use]
    pub fn activity(&self) -> PathBuf {
        self.logs.join("agent_activity.jsonl")
    }

    /// The lifecycle log.
    #[must_use]
    pub fn lifecycle(&self) -> PathBuf {
        self.logs.join("server_lifecycle.jsonl")
    }

    /// The fault log.
    #[must_use]
    pub fn faults(&self) -> PathBuf {
        self.logs.join("server_faults.log")
    }
}
