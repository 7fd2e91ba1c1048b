//! A home in a temporary folder.

use hands_activity::{Event, Folders, Record, TrailLimits};

/// Removed with the value.
pub(crate) struct Home {
    _dir: tempfile::TempDir,
    pub(crate) folders: Folders,
}

impl Home {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let folders = folders_in(dir.path());
        Self { _dir: dir, folders }
    }
}

pub(crate) fn folders_in(root: &std::path::Path) -> Folders {
    Folders {
        logs: root.join("logs"),
        trail: root.join("trail"),
        recovery: root.join("work/recovery"),
    }
}

pub(crate) fn small(max_bytes: u64, keep: u32) -> TrailLimits {
    TrailLimits { max_bytes, keep }
}

pub(crate) fn call(turn: impl std::fmt::Display) -> Record {
    Record {
        tool: Some("bash".into()),
        args: Some(serde_json::json!({ "command": "echo hello" })),
        ..Record::new(Event::Call, format!("turn-{turn}"))
    }
}
