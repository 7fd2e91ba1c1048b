//! The live view (H9): each call and its result as one line on standard error.

use crate::limits;
use std::io::Write;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use std::time::Duration;

/// Writes lines to standard error from a thread of its own, so that a client that never reads it
/// cannot hold a call up. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Live {
    lines: SyncSender<Item>,
    dropped: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Item {
    Line(String),
    Flush(SyncSender<()>),
}

impl Live {
    /// Starts the thread.
    pub fn start() -> Self {
        let (lines, queue) = sync_channel::<Item>(limits::STDERR_QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        let missed = Arc::clone(&dropped);
        std::thread::spawn(move || {
            for item in queue {
                let line = match item {
                    Item::Line(line) => line,
                    Item::Flush(done) => {
                        // Whoever asked may have stopped waiting.
                        let _ = done.try_send(());
                        continue;
                    }
                };
                let missed = missed.swap(0, Ordering::Relaxed);
                let mut out = std::io::stderr().lock();
                if missed > 0 {
                    let _ = writeln!(
                        out,
                        "hands-mcp: {missed} lines dropped, stderr was not read"
                    );
                }
                let _ = writeln!(out, "{line}");
            }
        });
        Self { lines, dropped }
    }

    /// Shows one line; never waits. Control characters are made visible, so that what a planner
    /// sends cannot drive the person's terminal.
    pub fn line(&self, text: &str) {
        let mut clean = String::with_capacity(text.len());
        for c in text.chars() {
            match c.is_control() {
                true => clean.extend(c.escape_default()),
                false => clean.push(c),
            }
        }
        if let Err(TrySendError::Full(_)) = self.lines.try_send(Item::Line(clean)) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until what was shown so far is written, but no longer than `patience`: whoever reads
    /// may be slow or gone.
    pub fn flush(&self, patience: Duration) {
        let (done, written) = sync_channel(1);
        if self.lines.try_send(Item::Flush(done)).is_ok() {
            let _ = written.recv_timeout(patience);
        }
    }
}
