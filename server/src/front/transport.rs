//! The transport that rmcp is given.

use super::batch::BatchSeat;
use super::flights::{Flights, Landing};
use super::lines::{LineReader, Piece};
use super::message::{Inbound, Rejection, classify, code, id_in_prefix, parse};
use super::output::Output;
use crate::limits;
use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, NumberOrString, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How the end comes about, shared with whoever holds the process.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    /// Fire this to end the connection now: calls are cancelled and get their short time to answer.
    pub order: CancellationToken,
    /// Fires when the last answer was handed to the output, or the time for it is over.
    pub over: CancellationToken,
}

/// One connection.
pub struct Front {
    input: mpsc::Receiver<Piece>,
    output: Output,
    flights: Flights,
    /// Wakes the reading side when a request was answered.
    landed: Arc<Notify>,
    /// Answers that are no flights any more and not handed to the output yet.
    unsent: Arc<Unsent>,
    /// Lines taken from the input that wait for their turn.
    waiting: VecDeque<(Inbound, Option<BatchSeat>)>,
    ready: VecDeque<ClientJsonRpcMessage>,
    /// Answers of the front's own.
    replies: VecDeque<Vec<u8>>,
    shutdown: Shutdown,
    /// Since when there is no more input.
    ended: Option<Instant>,
    cancelled_all: bool,
}

impl Front {
    /// A connection over these two ends. Reading is done by a thread of its own.
    pub fn new(source: impl Read + Send + 'static, output: Output, line_bytes: usize) -> Self {
        let (lines, input) = mpsc::channel(limits::INPUT_QUEUE);
        std::thread::spawn(move || read_lines(source, line_bytes, &lines));
        Self {
            input,
            output,
            flights: Flights::default(),
            landed: Arc::default(),
            unsent: Arc::default(),
            waiting: VecDeque::new(),
            ready: VecDeque::new(),
            replies: VecDeque::new(),
            shutdown: Shutdown::default(),
            ended: None,
            cancelled_all: false,
        }
    }

    /// The requests at work, for the handler to find its own.
    pub fn flights(&self) -> Flights {
        self.flights.clone()
    }

    /// How to end this connection and learn of its end.
    pub fn shutdown(&self) -> Shutdown {
        self.shutdown.clone()
    }

    /// Everything below may be dropped at any await and called again: what is not done yet stays
    /// in `self`.
    async fn next(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            self.send_replies().await;
            if let Some(message) = self.ready.pop_front() {
                return Some(message);
            }
            if self.is_full() && self.ended.is_none() {
                if !self.wait_for_landing().await {
                    self.end(true);
                }
                continue;
            }
            if let Some((inbound, seat)) = self.waiting.pop_front() {
                self.admit(inbound, seat);
                continue;
            }
            if self.ended.is_some() {
                if self.wait_for_the_end().await {
                    self.shutdown.over.cancel();
                    return None;
                }
                continue;
            }
            tokio::select! {
                piece = self.input.recv() => match piece {
                    Some(piece) => self.take(piece),
                    None => self.end(false),
                },
                () = self.shutdown.order.cancelled() => self.end(true),
                () = self.output.gone().cancelled() => self.end(true),
            }
        }
    }

    /// Whether the next line has to wait: too much is at work, or the client does not read what it
    /// asked for.
    fn is_full(&self) -> bool {
        self.flights.len() + self.unsent.answers.load(Ordering::SeqCst) >= limits::FLIGHTS
            || self.unsent.bytes.load(Ordering::SeqCst) > limits::UNSENT_BYTES
    }

    /// Waits until there is room for one more request; false when the connection is to end.
    async fn wait_for_landing(&self) -> bool {
        let landed = self.landed.notified();
        if !self.is_full() {
            return true;
        }
        tokio::select! {
            () = landed => true,
            () = self.shutdown.order.cancelled() => false,
            () = self.output.gone().cancelled() => false,
        }
    }

    async fn send_replies(&mut self) {
        while let Some(reply) = self.replies.front() {
            if self.output.line(reply.clone()).await.is_err() {
                self.replies.clear();
                return;
            }
            self.replies.pop_front();
        }
    }

    fn end(&mut self, at_once: bool) {
        let now = Instant::now();
        self.ended = Some(now);
        self.waiting.clear();
        if at_once {
            self.cancelled_all = true;
            self.flights.cancel_all();
        }
    }

    /// Waits for a step of the end; true when it is over.
    async fn wait_for_the_end(&mut self) -> bool {
        let Some(ended) = self.ended else {
            return false;
        };
        let landed = self.landed.notified();
        if self.flights.is_empty() && self.unsent.answers.load(Ordering::SeqCst) == 0 {
            return true;
        }
        let until = match self.cancelled_all {
            false => ended + limits::EOF_PATIENCE,
            true => ended + limits::EOF_DEADLINE,
        };
        tokio::select! {
            () = landed => return false,
            () = tokio::time::sleep_until(until) => {}
            () = self.shutdown.order.cancelled(), if !self.cancelled_all => {}
            () = self.output.gone().cancelled(), if !self.cancelled_all => {}
        }
        if self.cancelled_all {
            return true;
        }
        self.cancelled_all = true;
        self.flights.cancel_all();
        false
    }

    fn take(&mut self, piece: Piece) {
        match piece {
            Piece::Line(line) => self.waiting.extend(parse(&line).map(|i| (i, None))),
            Piece::Oversized { prefix, length } => self.reject(Rejection::new(
                id_in_prefix(&prefix),
                code::INVALID_REQUEST,
                format!("the line has {length} bytes, over this server's limit for one message"),
            )),
        }
    }

    fn admit(&mut self, inbound: Inbound, seat: Option<BatchSeat>) {
        match inbound {
            Inbound::Request { id, message } => self.admit_request(id, message, seat),
            Inbound::Cancel { id } => self.flights.cancel(&id),
            Inbound::Notification(message) => self.admit_notification(message),
            Inbound::Answer => {}
            Inbound::Batch(items) => self.admit_batch(items),
            Inbound::Rejected(rejection) => match seat {
                None => self.reject(rejection),
                Some(seat) => {
                    let all = seat.answer(rejection.to_value());
                    self.replies.extend(all.map(|v| v.to_string().into_bytes()));
                }
            },
        }
    }

    fn admit_batch(&mut self, items: Vec<Value>) {
        if items.len() > limits::BATCH {
            let (count, most) = (items.len(), limits::BATCH);
            let message = format!("the batch has {count} messages, and at most {most} are taken");
            self.reject(Rejection::new(Value::Null, code::INVALID_REQUEST, message));
            return;
        }
        let inbound: Vec<Inbound> = items.into_iter().map(classify_in_batch).collect();
        let answered = |i: &&Inbound| matches!(i, Inbound::Request { .. } | Inbound::Rejected(_));
        let seat = BatchSeat::for_requests(inbound.iter().filter(answered).count());
        for item in inbound.into_iter().rev() {
            self.waiting.push_front((item, Some(seat.clone())));
        }
    }

    fn admit_request(&mut self, id: Value, message: Map<String, Value>, seat: Option<BatchSeat>) {
        let is_ping = message.get("method").is_some_and(|method| method == "ping");
        let number = self.flights.depart(id, seat, is_ping);
        match to_rmcp(number, message) {
            Ok(message) => self.ready.push_back(message),
            Err(reason) => {
                let reply = encode(&self.flights, &self.landed, number, |id| {
                    let rejection = Rejection::new(id.clone(), code::INVALID_PARAMS, reason);
                    rejection.to_value().to_string().into_bytes()
                });
                self.replies.extend(reply);
            }
        }
    }

    fn admit_notification(&mut self, message: Map<String, Value>) {
        // A notification that rmcp cannot read has nobody to be told.
        self.ready
            .extend(serde_json::from_value(Value::Object(message)).ok());
    }

    fn reject(&mut self, rejection: Rejection) {
        self.replies
            .push_back(rejection.to_value().to_string().into_bytes());
    }
}

fn classify_in_batch(item: Value) -> Inbound {
    match classify(item) {
        Inbound::Batch(_) => Inbound::Rejected(Rejection::new(
            Value::Null,
            code::INVALID_REQUEST,
            "a batch cannot hold a batch",
        )),
        other => other,
    }
}

/// A client's request as rmcp takes it, under the number it has inside.
fn to_rmcp(number: i64, mut message: Map<String, Value>) -> Result<ClientJsonRpcMessage, String> {
    let method = message.get("method").and_then(Value::as_str).unwrap_or("");
    let method = method.to_string();
    match method.as_str() {
        "tools/call" => check_tools_call(&mut message)?,
        "initialize" => complete_initialize(&mut message)?,
        _ => {}
    }
    message.insert("id".into(), json!(number));
    serde_json::from_value(Value::Object(message))
        .map_err(|_| format!("the parameters of `{method}` have the wrong shape"))
}

fn check_tools_call(message: &mut Map<String, Value>) -> Result<(), String> {
    let params = message.get_mut("params").and_then(Value::as_object_mut);
    let params = params.ok_or("`params` of tools/call must be an object")?;
    if !params.get("name").is_some_and(Value::is_string) {
        return Err("`params.name` of tools/call must be a string".into());
    }
    match params.get("arguments") {
        Some(Value::Null) => drop(params.shift_remove("arguments")),
        None | Some(Value::Object(_)) => {}
        Some(_) => return Err("`params.arguments` of tools/call must be an object".into()),
    }
    Ok(())
}

/// Fills in what a sloppy client leaves out: its name is no reason to refuse it.
fn complete_initialize(message: &mut Map<String, Value>) -> Result<(), String> {
    let params = message.entry("params").or_insert_with(|| json!({}));
    let params = params
        .as_object_mut()
        .ok_or("`params` of initialize must be an object")?;
    let newest = rmcp::model::ProtocolVersion::LATEST_WITH_INITIALIZE;
    let defaults = [
        ("protocolVersion", json!(newest.as_str())),
        ("capabilities", json!({})),
        (
            "clientInfo",
            json!({"name": "unknown", "version": "unknown"}),
        ),
    ];
    for (key, default) in defaults {
        match params.get(key) {
            None | Some(Value::Null) => drop(params.insert(key.into(), default)),
            Some(given) if given.is_string() != default.is_string() => {
                let kind = if default.is_string() {
                    "a string"
                } else {
                    "an object"
                };
                return Err(format!("`params.{key}` of initialize must be {kind}"));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct Success<'a, R: Serialize> {
    jsonrpc: &'static str,
    id: &'a Value,
    result: &'a R,
}

#[derive(Serialize)]
struct Failure<'a, E: Serialize> {
    jsonrpc: &'static str,
    id: &'a Value,
    error: &'a E,
}

/// The bytes of an outgoing message, `None` when nothing is to be sent.
fn outgoing(flights: &Flights, landed: &Notify, item: ServerJsonRpcMessage) -> Option<Vec<u8>> {
    let number = |id: &NumberOrString| match id {
        NumberOrString::Number(number) => *number,
        NumberOrString::String(_) => 0,
    };
    match item {
        JsonRpcMessage::Response(response) => encode(flights, landed, number(&response.id), |id| {
            Success {
                jsonrpc: "2.0",
                id,
                result: &response.result,
            }
            .to_bytes()
        }),
        JsonRpcMessage::Error(error) => {
            let id = error.id.as_ref().map_or(0, number);
            encode(flights, landed, id, |id| {
                Failure {
                    jsonrpc: "2.0",
                    id,
                    error: &error.error,
                }
                .to_bytes()
            })
        }
        JsonRpcMessage::Notification(_) => serde_json::to_vec(&item).ok(),
        // This server asks its clients nothing: some of them would break.
        JsonRpcMessage::Request(_) => None,
    }
}

trait ToBytes: Serialize + Sized {
    fn to_bytes(self) -> Vec<u8> {
        // Only a type whose keys are not strings could fail, and there is none here.
        serde_json::to_vec(&self).unwrap_or_default()
    }
}
impl<R: Serialize> ToBytes for Success<'_, R> {}
impl<E: Serialize> ToBytes for Failure<'_, E> {}

/// What goes out for the request of this number: its answer, its batch, or nothing. The answer's
/// bytes come straight from the message where there is no batch: a large result is not built
/// twice.
fn encode(
    flights: &Flights,
    landed: &Notify,
    number: i64,
    bytes: impl FnOnce(&Value) -> Vec<u8>,
) -> Option<Vec<u8>> {
    let landing = flights.land(number);
    landed.notify_waiters();
    match landing {
        Landing::Unknown => None,
        Landing::Retired(seat) => Some(seat?.give_up()?.to_string().into_bytes()),
        Landing::Answer(flight) => match flight.seat {
            None => Some(bytes(&flight.client_id)),
            Some(seat) => {
                let answer = serde_json::from_slice(&bytes(&flight.client_id)).unwrap_or_default();
                Some(seat.answer(answer)?.to_string().into_bytes())
            }
        },
    }
}

/// What is on its way from the flights to the output.
#[derive(Debug, Default)]
struct Unsent {
    answers: AtomicUsize,
    bytes: AtomicUsize,
}

/// One answer on its way: the end waits for it too.
struct Sending {
    unsent: Arc<Unsent>,
    bytes: usize,
    landed: Arc<Notify>,
}

impl Sending {
    fn begin(unsent: &Arc<Unsent>, landed: &Arc<Notify>) -> Self {
        unsent.answers.fetch_add(1, Ordering::SeqCst);
        Self {
            unsent: Arc::clone(unsent),
            bytes: 0,
            landed: Arc::clone(landed),
        }
    }

    fn weighs(&mut self, bytes: usize) {
        self.bytes = bytes;
        self.unsent.bytes.fetch_add(bytes, Ordering::SeqCst);
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.unsent.answers.fetch_sub(1, Ordering::SeqCst);
        self.unsent.bytes.fetch_sub(self.bytes, Ordering::SeqCst);
        self.landed.notify_waiters();
    }
}

impl Transport<RoleServer> for Front {
    type Error = std::io::Error;

    fn send(
        &mut self,
        item: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let mut sending = Sending::begin(&self.unsent, &self.landed);
        let bytes = outgoing(&self.flights, &self.landed, item);
        sending.weighs(bytes.as_ref().map_or(0, Vec::len));
        let output = self.output.clone();
        async move {
            let _sending = sending;
            match bytes {
                Some(bytes) => output.line(bytes).await,
                None => Ok(()),
            }
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.next().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.shutdown.over.cancel();
        Ok(())
    }
}

fn read_lines(mut source: impl Read, line_bytes: usize, lines: &mpsc::Sender<Piece>) {
    let mut reader = LineReader::new(line_bytes);
    let mut buffer = vec![0; limits::READ_BYTES];
    let mut open = true;
    while open {
        match source.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => reader.push(&buffer[..n], |piece| {
                open = open && lines.blocking_send(piece).is_ok();
            }),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    // A last line without its end is a message all the same: it may be whole.
    if let Some(piece) = reader.end() {
        let _ = lines.blocking_send(piece);
    }
}
