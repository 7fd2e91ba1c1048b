//! The note of commands that were received and not yet answered.
//!
//! A file of one JSON object a line, mode 0600, held by one process at a time. A command is
//! noted before it is carried out and crossed off once it is answered; what is left when the
//! process dies is answered with a failure at the next start. It guards against the death of
//! this process, not of the machine: a line is written, not synced.
//!
//! All writing is done by one thread. Noting waits for the line to be written; crossing off does
//! not, since a command that is answered twice is refused by the service (404) and nothing else.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::limits;
use crate::wire::{Address, AnswerKind};

/// A command that is not answered yet.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Entry {
    /// Where its answer goes.
    #[serde(flatten)]
    pub address: Address,
    /// The JSON text of a request's id; none for a notification or the end of a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What kind of answer it waits for.
    pub answer: Expected,
    /// The wall-clock time after which nobody waits for the answer, in ms since 1970. Only used
    /// by the next process, which cannot know this one's monotonic clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
}

/// The kinds of final answers, as the journal writes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// A JSON-RPC result or error.
    Response,
    /// An acknowledgement.
    Ack,
    /// The end of a session.
    SessionEnd,
}

impl From<Expected> for AnswerKind {
    fn from(expected: Expected) -> Self {
        match expected {
            Expected::Response => Self::JsonrpcResponse,
            Expected::Ack => Self::NotifyAck,
            Expected::SessionEnd => Self::SessionTerminationResponse,
        }
    }
}

impl Entry {
    /// Whether its time is over.
    pub fn is_expired(&self) -> bool {
        self.expires_ms.is_some_and(|at| at <= now_ms())
    }
}

/// The wall-clock time, in ms since 1970.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// Why the journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A file operation failed.
    #[error("{what} the journal {path}: {error}")]
    Io {
        /// What was attempted.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        error: std::io::Error,
    },
    /// Another process has it.
    #[error(
        "the journal {path} is in use: another hands-tunnel serves this tunnel from here. Stop \
         that one, or give this one a --journal.file of its own"
    )]
    InUse {
        /// The file.
        path: PathBuf,
    },
}

enum Job {
    Take(Vec<Entry>, oneshot::Sender<bool>),
    Done(String),
    Close,
}

/// A line holds one of the two.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    take: Option<Entry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    done: Option<String>,
}

impl Line {
    fn take(entry: &Entry) -> Self {
        Self {
            take: Some(entry.clone()),
            done: None,
        }
    }

    fn done(request_id: &str) -> Self {
        Self {
            take: None,
            done: Some(request_id.to_owned()),
        }
    }
}

/// The open journal.
#[derive(Debug)]
pub struct Journal {
    jobs: mpsc::Sender<Job>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Journal {
    /// Opens the file, making it and its folder where they are missing; the second value is
    /// what an earlier process left unanswered, in the order it was received.
    pub fn open(path: &Path) -> Result<(Self, Vec<Entry>), JournalError> {
        let failed = |what| {
            move |error| JournalError::Io {
                what,
                path: path.to_owned(),
                error,
            }
        };
        if let Some(folder) = path.parent() {
            use std::os::unix::fs::DirBuilderExt;
            let mut builder = std::fs::DirBuilder::new();
            builder.recursive(true).mode(0o700);
            builder
                .create(folder)
                .map_err(failed("making the folder of"))?;
        }
        // The lock is on a file of its own: compaction replaces the journal's.
        let lock = open_private(&path.with_extension("lock"), true).map_err(failed("locking"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(JournalError::InUse {
                    path: path.to_owned(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(failed("locking")(error)),
        }
        let left = read(path).map_err(failed("reading"))?;
        let mut writer = Writer {
            path: path.to_owned(),
            file: open_private(path, true).map_err(failed("opening"))?,
            size: 0,
            open: left
                .iter()
                .cloned()
                .enumerate()
                .map(|(n, e)| (n as u64, e))
                .collect(),
            next: left.len() as u64,
            lock,
        };
        writer.compact().map_err(failed("compacting"))?;
        let (jobs, receiver) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("journal".into())
            .spawn(move || writer.run(&receiver))
            .map_err(failed("starting the writer of"))?;
        let journal = Self {
            jobs,
            thread: Some(thread),
        };
        Ok((journal, left))
    }

    /// Notes commands; whether they are in the file now.
    pub async fn take(&self, entries: Vec<Entry>) -> bool {
        let (sender, receiver) = oneshot::channel();
        if self.jobs.send(Job::Take(entries, sender)).is_err() {
            return false;
        }
        receiver.await.unwrap_or(false)
    }

    /// Crosses a command off.
    pub fn done(&self, request_id: &str) {
        let _ = self.jobs.send(Job::Done(request_id.to_owned()));
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let _ = self.jobs.send(Job::Close);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn open_private(path: &Path, append: bool) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    if append {
        options.append(true);
    } else {
        options.write(true).truncate(true);
    }
    let file = options.open(path)?;
    // An existing file may have been made with another mode.
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Reads what is left unanswered. A torn or foreign line is skipped: it is the last one of a
/// process that died while writing it, and such a command was never carried out.
fn read(path: &Path) -> std::io::Result<Vec<Entry>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut open: Vec<Entry> = Vec::new();
    for line in BufReader::new(file).split(b'\n') {
        let line: Line = serde_json::from_slice(&line?).unwrap_or_default();
        open.extend(line.take);
        if let Some(done) = line.done {
            open.retain(|entry| entry.address.request_id != done);
        }
    }
    Ok(open)
}

struct Writer {
    path: PathBuf,
    file: File,
    size: u64,
    /// Unanswered commands by the order of their arrival.
    open: BTreeMap<u64, Entry>,
    next: u64,
    lock: File,
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Closing is not enough while a child that was just forked still has the descriptor.
        let _ = self.lock.unlock();
    }
}

impl Writer {
    fn run(mut self, jobs: &mpsc::Receiver<Job>) {
        while let Ok(job) = jobs.recv() {
            let result = match job {
                Job::Take(entries, written) => {
                    let result = self.take(entries);
                    let _ = written.send(result.is_ok());
                    result
                }
                Job::Done(request_id) => self.done(request_id),
                Job::Close => break,
            };
            if let Err(error) = result {
                tracing::error!(path = %self.path.display(), %error, "writing the journal failed");
            }
        }
        if let Err(error) = self.compact() {
            tracing::error!(path = %self.path.display(), %error, "compacting the journal failed");
        }
    }

    fn take(&mut self, entries: Vec<Entry>) -> std::io::Result<()> {
        let mut text = Vec::new();
        for take in entries {
            write_line(&mut text, &Line::take(&take))?;
            self.open.insert(self.next, take);
            self.next += 1;
        }
        self.append(&text)
    }

    fn done(&mut self, request_id: String) -> std::io::Result<()> {
        let found = self
            .open
            .iter()
            .find(|(_, e)| e.address.request_id == request_id);
        let Some(key) = found.map(|(key, _)| *key) else {
            return Ok(());
        };
        self.open.remove(&key);
        let mut text = Vec::new();
        write_line(&mut text, &Line::done(&request_id))?;
        self.append(&text)?;
        if self.size > limits::JOURNAL_COMPACT {
            self.compact()?;
        }
        Ok(())
    }

    fn append(&mut self, text: &[u8]) -> std::io::Result<()> {
        self.file.write_all(text)?;
        self.size += text.len() as u64;
        Ok(())
    }

    /// Rewrites the file with what is still open, beside it and then in its place.
    fn compact(&mut self) -> std::io::Result<()> {
        let mut text = Vec::new();
        for entry in self.open.values() {
            write_line(&mut text, &Line::take(entry))?;
        }
        let beside = self.path.with_extension("new");
        open_private(&beside, false)?.write_all(&text)?;
        std::fs::rename(&beside, &self.path)?;
        self.file = open_private(&self.path, true)?;
        self.size = text.len() as u64;
        Ok(())
    }
}

fn write_line(text: &mut Vec<u8>, line: &Line) -> std::io::Result<()> {
    serde_json::to_writer(&mut *text, line)?;
    text.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use proptest::prelude::*;

    fn entry(id: &str) -> Entry {
        Entry {
            address: Address {
                request_id: id.into(),
                shard_token: format!("token of {id}"),
                channel: "main".into(),
            },
            id: Some("0".into()),
            answer: Expected::Response,
            expires_ms: None,
        }
    }

    fn ids(entries: &[Entry]) -> Vec<&str> {
        entries
            .iter()
            .map(|e| e.address.request_id.as_str())
            .collect()
    }

    #[tokio::test]
    async fn what_is_not_crossed_off_is_found_at_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/journal");
        let (journal, left) = Journal::open(&path).unwrap();
        assert!(left.is_empty());
        assert!(journal.take(vec![entry("a"), entry("b"), entry("c")]).await);
        journal.done("b");
        drop(journal);
        let (_journal, left) = Journal::open(&path).unwrap();
        assert_eq!(ids(&left), ["a", "c"]);
        assert_eq!(left[0].address.shard_token, "token of a");
        assert_eq!(left[0].id.as_deref(), Some("0"));
    }

    #[tokio::test]
    async fn a_torn_line_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let line = serde_json::to_string(&Line::take(&entry("a"))).unwrap();
        let torn = &line[..line.len() / 2];
        std::fs::write(&path, format!("{line}\n\u{0}\n{{}}\n{torn}")).unwrap();
        let (journal, left) = Journal::open(&path).unwrap();
        assert_eq!(ids(&left), ["a"]);
        // What is noted next does not grow onto the torn line.
        assert!(journal.take(vec![entry("b")]).await);
        drop(journal);
        assert_eq!(ids(&Journal::open(&path).unwrap().1), ["a", "b"]);
    }

    #[tokio::test]
    async fn the_file_is_private_and_has_one_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let (_journal, _) = Journal::open(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(matches!(
            Journal::open(&path),
            Err(JournalError::InUse { .. })
        ));
    }

    #[tokio::test]
    async fn it_does_not_grow_with_the_number_of_commands() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let (journal, _) = Journal::open(&path).unwrap();
        assert!(journal.take(vec![entry("stays")]).await);
        for number in 0..12_000 {
            let id = format!("request {number}");
            assert!(journal.take(vec![entry(&id)]).await);
            journal.done(&id);
        }
        assert!(journal.take(vec![]).await);
        let size = std::fs::metadata(&path).unwrap().len();
        assert!(size <= limits::JOURNAL_COMPACT + 4096, "{size}");
        drop(journal);
        assert_eq!(ids(&Journal::open(&path).unwrap().1), ["stays"]);
    }

    proptest! {
        #[test]
        fn any_file_can_be_there(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("journal");
            std::fs::write(&path, bytes).unwrap();
            prop_assert!(Journal::open(&path).is_ok());
        }
    }
}
