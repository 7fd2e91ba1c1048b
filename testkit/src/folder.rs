//! A temporary folder that is gone after its test, whoever is still writing in it.

use crate::running_in;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest wait for whatever a test has started and killed to stop writing.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);

/// A new folder; removed when dropped. A process that a killed server had started may live for a
/// moment longer and make files while they are removed: that is waited for.
pub struct Folder(PathBuf);

impl Folder {
    /// In `parent`, with a name that begins with `prefix`. Without links in its path.
    pub fn new(parent: &Path, prefix: &str) -> Self {
        let dir = tempfile::Builder::new().prefix(prefix).tempdir_in(parent);
        let path = dir.expect("a temporary folder").keep();
        Self(path.canonicalize().expect("its real path"))
    }

    /// In the folder for temporary files.
    pub fn temporary() -> Self {
        Self::new(&std::env::temp_dir(), "hands-test-")
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let end = Instant::now() + PATIENCE;
        while !running_in(&self.0).is_empty() && Instant::now() < end {
            std::thread::sleep(PAUSE);
        }
        while self.0.exists() && Instant::now() < end {
            if std::fs::remove_dir_all(&self.0).is_err() {
                std::thread::sleep(PAUSE);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn what_a_process_writes_late_is_removed_too() {
        let folder = Folder::temporary();
        let path = folder.path().to_owned();
        let script = "until [ -e \"$0/go\" ]; do sleep 0.01; done; mkdir -p \"$0/a/b/c\"";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .arg(&path)
            .spawn()
            .unwrap();
        std::fs::write(path.join("go"), "").unwrap();
        drop(folder);
        child.wait().unwrap();
        assert!(!path.exists());
    }
}
