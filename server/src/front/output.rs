//! The one way out: whole lines, written by a thread of their own, in the order they were given.

use crate::limits;
use std::io::Write;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Where lines end up.
pub trait LineSink: Write + Send + 'static {}
impl<W: Write + Send + 'static> LineSink for W {}

#[derive(Debug)]
enum Item {
    Line(Vec<u8>),
    Flush(oneshot::Sender<()>),
}

/// A handle to the writing thread. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Output {
    queue: mpsc::Sender<Item>,
    gone: CancellationToken,
}

impl Output {
    /// Starts the thread that writes to `sink`.
    pub fn start(mut sink: impl LineSink) -> Self {
        let (queue, mut items) = mpsc::channel(limits::OUTPUT_QUEUE);
        let gone = CancellationToken::new();
        let signal = gone.clone();
        std::thread::spawn(move || {
            while let Some(item) = items.blocking_recv() {
                match item {
                    Item::Line(line) => {
                        if sink.write_all(&line).and_then(|()| sink.flush()).is_err() {
                            // Nobody reads any more; what is still queued has nowhere to go.
                            signal.cancel();
                            return;
                        }
                    }
                    Item::Flush(done) => drop(done.send(())),
                }
            }
        });
        Self { queue, gone }
    }

    /// Queues one line; a line end is added. Waits while the client is slow to read.
    ///
    /// # Errors
    /// When the client's end is closed.
    pub async fn line(&self, mut text: Vec<u8>) -> std::io::Result<()> {
        text.push(b'\n');
        let sent = self.queue.send(Item::Line(text)).await;
        sent.map_err(|_| std::io::ErrorKind::BrokenPipe.into())
    }

    /// Fires when the client has closed its end.
    pub fn gone(&self) -> &CancellationToken {
        &self.gone
    }

    /// Waits until everything queued so far is written, but no longer than `patience`.
    pub async fn flush(&self, patience: Duration) {
        let (done, written) = oneshot::channel();
        let all = async {
            if self.queue.send(Item::Flush(done)).await.is_ok() {
                // An error means that the thread is gone: nothing more can be written.
                let _ = written.await;
            }
        };
        let _ = tokio::time::timeout(patience, all).await;
    }
}
