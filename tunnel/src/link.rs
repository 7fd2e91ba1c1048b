//! One life of a child: its pipes, and the requests that wait on them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use serde::Serialize;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::jsonrpc::{self, Raw, RawObject, Shape, raw};
use crate::limits;
use crate::lines::{Line, next_line};
use crate::metrics::Metrics;
use crate::sync::lock;

/// What a request comes to.
#[derive(Debug)]
pub enum Outcome {
    /// The child's answer, still under the internal id.
    Answer(RawObject),
    /// The child's answer was over the bound; its size in bytes.
    TooLong(u64),
}

struct Waiting {
    outcome: oneshot::Sender<Outcome>,
    progress: Option<(Raw, mpsc::Sender<RawObject>)>,
}

/// The pipes of one child process. Requests go by internal ids that are never used again, so
/// that an answer can only ever reach the request it was given to.
pub struct Link {
    /// The child's process id.
    pub pid: u32,
    lines: mpsc::Sender<Vec<u8>>,
    waiting: Mutex<HashMap<u64, Waiting>>,
    /// Cancelled when the child's output ended or its input broke.
    pub closed: CancellationToken,
    last_message: Mutex<Option<Instant>>,
    metrics: Arc<Metrics>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("pid", &self.pid).finish()
    }
}

/// The child is gone.
#[derive(Debug, Clone, Copy)]
pub struct Gone;

/// Ids for all children of this process, so that none ever comes again.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Cancelled {
    request_id: u64,
    reason: &'static str,
}

impl Link {
    /// Starts the tasks that write to and read from a child.
    pub fn start(
        pid: u32,
        stdin: ChildStdin,
        stdout: ChildStdout,
        max_line: usize,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        let (lines, queue) = mpsc::channel(limits::CHILD_QUEUE);
        let link = Arc::new(Self {
            pid,
            lines,
            waiting: Mutex::default(),
            closed: CancellationToken::new(),
            last_message: Mutex::default(),
            metrics,
        });
        tokio::spawn(write_lines(stdin, queue, link.closed.clone()));
        tokio::spawn(read_lines(stdout, max_line, Arc::clone(&link)));
        link
    }

    /// Sends a request under an internal id and waits for its answer. When `cancelled` is, the
    /// child is told so, and may still answer. When the caller stops waiting, the id is retired
    /// and the child is told as well.
    pub async fn request(
        &self,
        mut message: RawObject,
        progress: Option<mpsc::Sender<RawObject>>,
        cancelled: &CancellationToken,
    ) -> Result<Outcome, Gone> {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let token = jsonrpc::progress_token(&message);
        if token.is_some() {
            jsonrpc::set_progress_token(&mut message, raw(&id));
        }
        // `initialize` cannot be cancelled, says the protocol.
        let cancellable = message.text("method").as_deref() != Some("initialize");
        message.set("id", raw(&id));
        let (outcome, mut answered) = oneshot::channel();
        let waiting = Waiting {
            outcome,
            progress: token.zip(progress),
        };
        self.waiting().insert(id, waiting);
        let mut ticket = Ticket {
            link: self,
            id,
            cancel: false,
        };
        if self.closed.is_cancelled() || self.lines.send(message.to_line()).await.is_err() {
            return Err(Gone);
        }
        ticket.cancel = cancellable;
        loop {
            tokio::select! {
                // An answer that came before the end is still an answer.
                biased;
                outcome = &mut answered => {
                    ticket.cancel = false;
                    return outcome.map_err(|_| Gone);
                }
                () = self.closed.cancelled() => {
                    ticket.cancel = false;
                    return Err(Gone);
                }
                () = cancelled.cancelled(), if ticket.cancel => {
                    ticket.cancel = false;
                    self.cancel(id, "the client cancelled the request");
                }
            }
        }
    }

    fn cancel(&self, request_id: u64, reason: &'static str) {
        let params = Cancelled { request_id, reason };
        let message = jsonrpc::notification("notifications/cancelled", &params);
        // A full queue means that the child reads nothing; then it cannot read this either.
        let _ = self.lines.try_send(message.to_line());
    }

    /// Sends a message that is not answered.
    pub async fn notify(&self, message: &RawObject) -> Result<(), Gone> {
        self.lines.send(message.to_line()).await.map_err(|_| Gone)
    }

    /// Requests that wait for an answer.
    pub fn in_flight(&self) -> usize {
        self.waiting().len()
    }

    /// When the child last sent a message.
    pub fn last_message(&self) -> Option<Instant> {
        *lock(&self.last_message)
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, Waiting>> {
        lock(&self.waiting)
    }

    fn take_line(&self, text: &[u8]) {
        let Ok(message) = RawObject::parse(text) else {
            self.skip(text);
            return;
        };
        match jsonrpc::shape(&message) {
            Shape::Response => {
                *lock(&self.last_message) = Some(Instant::now());
                let id = message.get("id").and_then(|id| id.get().parse().ok());
                self.resolve(id, Outcome::Answer(message));
            }
            Shape::Request => self.refuse_request(&message),
            Shape::Notification => self.take_notification(message),
            Shape::Other => self.skip(text),
        }
    }

    fn resolve(&self, id: Option<u64>, outcome: Outcome) {
        let waiting = id.and_then(|id| self.waiting().remove(&id));
        match waiting {
            Some(waiting) => {
                let _ = waiting.outcome.send(outcome);
            }
            None => {
                self.metrics.late_answers.add();
                tracing::debug!(pid = self.pid, id, "discarded an answer nobody waits for");
            }
        }
    }

    /// The planner cannot be asked anything through the tunnel; the child is told so at once,
    /// rather than left to wait.
    fn refuse_request(&self, message: &RawObject) {
        let Some(id) = message.get("id") else { return };
        let method = message.text("method").unwrap_or_default();
        let answer = if method == "ping" {
            let mut pong = RawObject::default();
            pong.set("jsonrpc", raw(&"2.0"));
            pong.set("id", id.to_owned());
            pong.set("result", raw(&RawObject::default()));
            pong
        } else {
            tracing::warn!(
                pid = self.pid,
                method,
                "refused a request of the server to its client"
            );
            let text = "The client is reached through a tunnel that carries no requests to it.";
            jsonrpc::error(id, -32601, text, None)
        };
        // A full queue means that the child reads nothing; then it cannot read this either.
        let _ = self.lines.try_send(answer.to_line());
    }

    fn take_notification(&self, mut message: RawObject) {
        let method = message.text("method").unwrap_or_default();
        let params = message.object("params");
        let token = params
            .as_ref()
            .and_then(|params| params.get("progressToken"));
        let id = token.and_then(|token| token.get().parse::<u64>().ok());
        let (Some(id), "notifications/progress") = (id, method.as_str()) else {
            tracing::debug!(
                pid = self.pid,
                method,
                "dropped a notification of no request"
            );
            return;
        };
        let mut waiting = self.waiting();
        let progress = waiting.get_mut(&id).and_then(|w| w.progress.as_ref());
        let (Some((token, sender)), Some(mut params)) = (progress, params) else {
            return;
        };
        params.set("progressToken", token.clone());
        message.set("params", raw(&params));
        // Progress is only news: where it comes faster than it can be sent, some is left out.
        let _ = sender.try_send(message);
    }

    fn skip(&self, text: &[u8]) {
        if text.trim_ascii().is_empty() {
            return;
        }
        self.metrics.lines_skipped.add();
        let shown = &text[..text.len().min(120)];
        let shown = String::from_utf8_lossy(shown).escape_debug().to_string();
        tracing::warn!(
            pid = self.pid,
            line = shown,
            "skipped a line that is no message"
        );
    }
}

/// Retires the id of a request, whatever ends the wait for it.
struct Ticket<'a> {
    link: &'a Link,
    id: u64,
    cancel: bool,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.link.waiting().remove(&self.id);
        if self.cancel {
            self.link
                .cancel(self.id, "nobody waits for the answer any more");
        }
    }
}

async fn write_lines(
    mut stdin: ChildStdin,
    mut queue: mpsc::Receiver<Vec<u8>>,
    closed: CancellationToken,
) {
    loop {
        let line = tokio::select! {
            line = queue.recv() => line,
            () = closed.cancelled() => None,
        };
        let Some(mut line) = line else { break };
        // What else is waiting goes in the same write.
        while line.len() < 64 << 10 {
            match queue.try_recv() {
                Ok(more) => line.extend_from_slice(&more),
                Err(_) => break,
            }
        }
        let written = tokio::select! {
            written = stdin.write_all(&line) => written,
            () = closed.cancelled() => break,
        };
        if let Err(error) = written {
            tracing::warn!(%error, "writing to the MCP server failed");
            break;
        }
    }
    // The input is closed by dropping it: the child's sign to end.
    closed.cancel();
}

async fn read_lines(stdout: ChildStdout, max_line: usize, link: Arc<Link>) {
    let mut reader = BufReader::with_capacity(32 << 10, stdout);
    loop {
        let line = tokio::select! {
            line = next_line(&mut reader, max_line) => line,
            // A grandchild may hold the pipe open after the child has gone.
            () = link.closed.cancelled() => break,
        };
        match line {
            Ok(Some(Line::Whole(text))) => link.take_line(&text),
            Ok(Some(Line::TooLong { size, id })) => {
                tracing::warn!(
                    pid = link.pid,
                    size,
                    "the MCP server's message is too large"
                );
                link.resolve(id, Outcome::TooLong(size));
            }
            Ok(None) => break,
            Err(error) => {
                tracing::warn!(pid = link.pid, %error, "reading from the MCP server failed");
                break;
            }
        }
    }
    link.closed.cancel();
    link.waiting().clear();
}
