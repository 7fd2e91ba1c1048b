//! Which children live, in `run/children.json`: so that a daemon finds those of a predecessor that was killed.
//!
//! Only processes written down here are ever ended. Runners, which hold commands and jobs, are not in it: they are the
//! server's children, lead groups of their own, and decide themselves what becomes of a command whose server is gone.

use crate::limits;
use crate::process;
use crate::record::Recorder;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A child that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    pid: u32,
    /// What tells it from a later process with the same id.
    identity: String,
}

/// The file.
#[derive(Debug)]
pub(crate) struct Ledger {
    path: PathBuf,
    entries: Mutex<BTreeMap<String, Entry>>,
}

impl Ledger {
    /// Ends what a predecessor left, and begins anew.
    pub(crate) async fn open(run: &Path, recorder: &Recorder) -> Self {
        let path = run.join("children.json");
        for (child, entry) in read(&path) {
            if process::identity(entry.pid).is_none_or(|found| found != entry.identity) {
                continue;
            }
            let ended = process::end(entry.pid, &entry.identity, limits::STOP_ORPHAN).await;
            recorder.note(
                "orphan",
                json!({"child": child, "pid": entry.pid, "ended": ended}),
            );
        }
        let ledger = Self {
            path,
            entries: Mutex::default(),
        };
        ledger.save(&BTreeMap::new());
        ledger
    }

    /// A child was started.
    pub(crate) fn started(&self, child: &str, pid: u32) {
        if let Some(identity) = process::identity(pid) {
            self.change(|entries| entries.insert(child.to_owned(), Entry { pid, identity }));
        }
    }

    /// A child is gone.
    pub(crate) fn ended(&self, child: &str) {
        self.change(|entries| entries.remove(child));
    }

    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<String, Entry>) -> T) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut entries);
        self.save(&entries);
    }

    fn save(&self, entries: &BTreeMap<String, Entry>) {
        if let Err(why) = write(&self.path, entries) {
            tracing::warn!("writing {}: {why}", self.path.display());
        }
    }
}

/// A file that is missing or damaged names nobody.
fn read(path: &Path) -> BTreeMap<String, Entry> {
    let text = std::fs::read(path).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

fn write(path: &Path, entries: &BTreeMap<String, Entry>) -> std::io::Result<()> {
    let draft = path.with_extension("json.new");
    let mut options = std::fs::File::options();
    options.create(true).truncate(true).write(true).mode(0o600);
    let mut file = options.open(&draft)?;
    file.write_all(&serde_json::to_vec(entries)?)?;
    std::fs::rename(&draft, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    fn sleeper() -> std::process::Child {
        Command::new("sleep")
            .arg("60")
            .process_group(0)
            .spawn()
            .unwrap()
    }

    #[tokio::test]
    async fn only_what_is_written_down_and_still_the_same_is_ended() {
        let dir = tempfile::tempdir().unwrap();
        let (recorder, _end) = Recorder::silent();
        let (mut ours, mut other) = (sleeper(), sleeper());
        let ledger = Ledger::open(dir.path(), &recorder).await;
        ledger.started("server", ours.id());
        ledger.change(|entries| {
            let identity = "sleep 1 earlier".to_owned();
            let entry = Entry {
                pid: other.id(),
                identity,
            };
            entries.insert("tunnel".to_owned(), entry)
        });
        drop(ledger);
        let waiting = tokio::task::spawn_blocking(move || ours.wait());
        let again = Ledger::open(dir.path(), &recorder).await;
        waiting.await.unwrap().unwrap();
        assert!(other.try_wait().unwrap().is_none(), "it was not ours");
        other.kill().unwrap();
        other.wait().unwrap();
        drop(again);
        assert!(read(&dir.path().join("children.json")).is_empty());
    }

    #[tokio::test]
    async fn a_damaged_file_ends_nobody() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("children.json"), "{\"server\": {\"pid\": 1").unwrap();
        let (recorder, _end) = Recorder::silent();
        Ledger::open(dir.path(), &recorder).await;
    }
}
