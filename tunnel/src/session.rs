//! One server session: a child that is kept alive, and the handshake it is given again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::child::{ChildSpec, Running, describe};
use crate::jsonrpc::{self, RawObject, raw};
use crate::limits;
use crate::link::{Link, Outcome};
use crate::metrics::Metrics;
use crate::sync::lock;
use crate::wire::{Answer, Failure, Source, too_large};

/// What the planner told the server at the start, to be told again to the next child.
#[derive(Debug, Default, Clone)]
struct Handshake {
    initialize: Option<RawObject>,
    initialized: bool,
}

/// A request of the planner that is under way, so that a cancellation finds it.
#[derive(Debug)]
struct UnderWay {
    serial: u64,
    planner_id: String,
    cancelled: CancellationToken,
}

#[derive(Debug)]
struct Shared {
    name: String,
    spec: ChildSpec,
    metrics: Arc<Metrics>,
    link: watch::Sender<Option<Arc<Link>>>,
    handshake: Mutex<Handshake>,
    running: Mutex<Vec<UnderWay>>,
    serials: AtomicU64,
    last_used: Mutex<Instant>,
    last_end: Mutex<Option<String>>,
    next_start: Mutex<Option<Instant>>,
    answers: AtomicBool,
    stop: CancellationToken,
}

/// A server session.
#[derive(Debug)]
pub struct Session {
    shared: Arc<Shared>,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

/// What is known about a session's child.
#[derive(Debug, Clone, serde::Serialize)]
pub struct ChildState {
    /// Its process id; none while it is down.
    pub pid: Option<u32>,
    /// Whether it has answered a request and has left no probe unanswered since.
    pub answers: bool,
    /// How the last one ended; none where none did.
    pub last_end: Option<String>,
    /// How long until the next one is started, in ms; none unless it is waited for.
    pub restart_in_ms: Option<u64>,
}

impl Session {
    /// Starts a child and keeps one running until [`Session::stop`].
    pub fn start(name: &str, spec: ChildSpec, metrics: Arc<Metrics>) -> Self {
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            spec,
            metrics,
            link: watch::Sender::new(None),
            handshake: Mutex::default(),
            running: Mutex::default(),
            serials: AtomicU64::new(0),
            last_used: Mutex::new(Instant::now()),
            last_end: Mutex::default(),
            next_start: Mutex::default(),
            answers: AtomicBool::new(false),
            stop: CancellationToken::new(),
        });
        let keeper = tokio::spawn(keep(Arc::clone(&shared)));
        Self {
            shared,
            keeper: Mutex::new(Some(keeper)),
        }
    }

    /// Passes a request on and gives its answer, under the planner's id.
    pub async fn request(
        &self,
        message: RawObject,
        id: &RawValue,
        progress: mpsc::Sender<RawObject>,
    ) -> Answer {
        let shared = &self.shared;
        *lock(&shared.last_used) = Instant::now();
        let initialize =
            (message.text("method").as_deref() == Some("initialize")).then(|| message.clone());
        let link = match shared.wait_for_link().await {
            Ok(link) => link,
            Err(failure) => return failure.answer(id),
        };
        let (cancelled, _leave) = shared.enter(id);
        let outcome = tokio::select! {
            outcome = link.request(message, Some(progress), &cancelled) => outcome,
            () = cancelled_for(&cancelled, limits::CANCEL_GRACE) => {
                let text = "The request was cancelled at the planner's own wish.";
                return Answer::response(raw(&jsonrpc::error(id, -32603, text, None)));
            }
        };
        match outcome {
            Ok(Outcome::Answer(mut answer)) => {
                shared.answers.store(true, Ordering::Relaxed);
                if let Some(initialize) = initialize.filter(|_| answer.get("result").is_some()) {
                    lock(&shared.handshake).initialize = Some(initialize);
                }
                answer.set("id", id.to_owned());
                Answer::response(raw(&answer))
            }
            Ok(Outcome::TooLong(size)) => too_large(id, size, Some(shared.spec.max_line)),
            Err(_) => Answer {
                lost_with: Some(link.pid),
                ..shared.child_gone().answer(id)
            },
        }
    }

    /// Passes a notification on; whether the child was there to take it.
    pub async fn notify(&self, message: RawObject) -> bool {
        *lock(&self.shared.last_used) = Instant::now();
        match message.text("method").as_deref() {
            Some("notifications/initialized") => {
                lock(&self.shared.handshake).initialized = true;
            }
            Some("notifications/cancelled") => {
                // Ids are the planner's here and others at the child, so this message is not
                // passed on: the request tells the child, under the id that the child knows.
                let params = message.object("params");
                if let Some(id) = params.as_ref().and_then(|params| params.get("requestId")) {
                    self.shared.cancel(id);
                }
                return true;
            }
            _ => {}
        }
        match self.shared.wait_for_link().await {
            Ok(link) => link.notify(&message).await.is_ok(),
            Err(_) => false,
        }
    }

    /// What is known about the child.
    pub fn state(&self) -> ChildState {
        let link = self.shared.link.borrow().clone();
        ChildState {
            pid: link.as_ref().map(|link| link.pid),
            answers: link.is_some() && self.shared.answers.load(Ordering::Relaxed),
            last_end: lock(&self.shared.last_end).clone(),
            restart_in_ms: lock(&self.shared.next_start).map(until_ms),
        }
    }

    /// How long nothing was asked of it; zero while a request is under way.
    pub fn idle(&self) -> Duration {
        if !lock(&self.shared.running).is_empty() {
            return Duration::ZERO;
        }
        lock(&self.shared.last_used).elapsed()
    }

    /// Ends the child in order and starts no other.
    pub async fn stop(&self) {
        self.shared.stop.cancel();
        let keeper = lock(&self.keeper).take();
        if let Some(keeper) = keeper {
            let _ = keeper.await;
        }
    }
}

/// Waits for a cancellation and then a little longer: the child may still answer for itself.
async fn cancelled_for(token: &CancellationToken, grace: Duration) {
    token.cancelled().await;
    tokio::time::sleep(grace).await;
}

/// Takes a request off the list when it ends, however it ends.
struct Leave<'a> {
    shared: &'a Shared,
    serial: u64,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        lock(&self.shared.running).retain(|entry| entry.serial != self.serial);
    }
}

impl Shared {
    fn enter(&self, id: &RawValue) -> (CancellationToken, Leave<'_>) {
        let serial = self.serials.fetch_add(1, Ordering::Relaxed);
        let cancelled = CancellationToken::new();
        lock(&self.running).push(UnderWay {
            serial,
            planner_id: id.get().to_owned(),
            cancelled: cancelled.clone(),
        });
        let leave = Leave {
            shared: self,
            serial,
        };
        (cancelled, leave)
    }

    /// Cancels the newest request under the planner's id: an older one of the same id is one
    /// that the planner has given up already.
    fn cancel(&self, id: &RawValue) {
        let running = lock(&self.running);
        let found = running
            .iter()
            .rev()
            .find(|entry| entry.planner_id == id.get());
        if let Some(entry) = found {
            entry.cancelled.cancel();
        }
    }

    /// The running child; while it is being restarted, waits for it a little.
    async fn wait_for_link(&self) -> Result<Arc<Link>, Failure> {
        let mut links = self.link.subscribe();
        let usable = |link: &Option<Arc<Link>>| {
            link.as_ref()
                .is_some_and(|link| !link.closed.is_cancelled())
        };
        let waited = tokio::select! {
            biased;
            () = self.stop.cancelled() => return Err(self.child_gone()),
            waited = tokio::time::timeout(limits::LINK_WAIT, links.wait_for(usable)) => waited,
        };
        let link = waited
            .ok()
            .and_then(|found| found.ok().and_then(|link| link.clone()));
        link.ok_or_else(|| {
            let why = lock(&self.last_end).clone();
            let why = why.unwrap_or_else(|| "it did not start in time".to_owned());
            let text = format!(
                "The MCP server behind the tunnel is not running ({why}); it is being restarted. \
                 Try again shortly, or look at the machine's log."
            );
            Failure::new(Source::Connect, None, text)
        })
    }

    fn child_gone(&self) -> Failure {
        if self.stop.is_cancelled() {
            // Ended on purpose, which says nothing against the server.
            let text = "The session was ended before the call was answered. Whether the call took \
                        effect is not known: look before you repeat it.";
            return Failure::new(Source::ClientInternal, None, text);
        }
        Failure::new(
            Source::TransportClosed,
            Some("closed_pipe"),
            "The MCP server behind the tunnel ended before it answered; it is being restarted. \
             Whether the call took effect is not known: look before you repeat it.",
        )
    }
}

/// Keeps a child running.
async fn keep(shared: Arc<Shared>) {
    let mut backoff = Backoff::default();
    let mut starts = 0_u64;
    while !shared.stop.is_cancelled() {
        if starts > 0 {
            shared.metrics.restarts.add();
        }
        starts += 1;
        let began = Instant::now();
        let end = match Running::spawn(&shared.spec, Arc::clone(&shared.metrics)) {
            Ok(running) => live(&shared, running).await,
            Err(error) => error.to_string(),
        };
        shared.answers.store(false, Ordering::Relaxed);
        let _ = shared.link.send_replace(None);
        *lock(&shared.last_end) = Some(end.clone());
        if shared.stop.is_cancelled() {
            tracing::info!(session = shared.name, end, "the MCP server is stopped");
            break;
        }
        if began.elapsed() >= limits::STABLE_AFTER {
            backoff.reset();
        }
        let delay = backoff.next_delay();
        let delay_ms = delay.as_millis() as u64;
        tracing::warn!(
            session = shared.name,
            end,
            delay_ms,
            "the MCP server is restarted"
        );
        *lock(&shared.next_start) = Some(Instant::now() + delay);
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = shared.stop.cancelled() => break,
        }
        *lock(&shared.next_start) = None;
    }
}

fn until_ms(at: Instant) -> u64 {
    at.saturating_duration_since(Instant::now()).as_millis() as u64
}

/// One life of a child: the handshake, then service until it ends; how it ended.
async fn live(shared: &Arc<Shared>, mut running: Running) -> String {
    let link = Arc::clone(&running.link);
    tracing::info!(
        session = shared.name,
        pid = link.pid,
        "the MCP server is started"
    );
    let ready = tokio::select! {
        ready = replay(shared, &link) => ready,
        () = running.ended() => Err("it ended during the handshake".to_owned()),
        () = shared.stop.cancelled() => Err("it was told to stop".to_owned()),
    };
    let why = match ready {
        Ok(()) => {
            shared.link.send_replace(Some(Arc::clone(&link)));
            tokio::select! {
                () = running.ended() => None,
                () = hung(shared, &link) => Some("it did not answer any more"),
                () = shared.stop.cancelled() => Some("it was told to stop"),
            }
        }
        Err(ref why) => Some(why.as_str()),
    };
    shared.link.send_replace(None);
    let status = running.stop(limits::STOP_CHILD).await;
    match why {
        Some(why) => format!("{why}; {}", describe(status)),
        None => describe(status),
    }
}

/// Tells a new child what the planner told an earlier one.
async fn replay(shared: &Shared, link: &Arc<Link>) -> Result<(), String> {
    let handshake = lock(&shared.handshake).clone();
    let Some(initialize) = handshake.initialize else {
        // Calls are let in once it has shown a sign of life, so that none is lost in a child
        // that ends at once; one that is silent before the planner's handshake gets them too.
        let _ = tokio::time::timeout(limits::FIRST_SIGN, probe(link)).await;
        return Ok(());
    };
    let never = CancellationToken::new();
    let answer = link.request(initialize, None, &never);
    match tokio::time::timeout(limits::HANDSHAKE_TIMEOUT, answer).await {
        Ok(Ok(Outcome::Answer(answer))) if answer.get("result").is_some() => {}
        Ok(Ok(_)) => return Err("it refused the handshake it is given again".to_owned()),
        Ok(Err(_)) => return Err("it ended during the handshake".to_owned()),
        Err(_) => return Err("it did not answer the handshake in time".to_owned()),
    }
    shared.answers.store(true, Ordering::Relaxed);
    if handshake.initialized {
        let params = RawObject::default();
        let message = jsonrpc::notification("notifications/initialized", &params);
        let _ = link.notify(&message).await;
    }
    tracing::info!(
        session = shared.name,
        pid = link.pid,
        "the handshake was given again"
    );
    Ok(())
}

/// Asks a quiet child now and then whether it answers; returns when it does not any more.
async fn hung(shared: &Shared, link: &Arc<Link>) {
    let mut missed = 0;
    loop {
        let answered = probe(link).await;
        shared.answers.store(answered, Ordering::Relaxed);
        missed = if answered { 0 } else { missed + 1 };
        let allowed = if link.in_flight() == 0 {
            limits::PROBES_IDLE
        } else {
            limits::PROBES_BUSY
        };
        if missed >= allowed {
            return;
        }
        if answered {
            tokio::time::sleep(limits::PROBE_INTERVAL).await;
        }
    }
}

/// Whether the child has answered anything lately, or answers a ping: an error is an answer
/// too, since some servers refuse everything before the handshake.
async fn probe(link: &Arc<Link>) -> bool {
    let sent = Instant::now();
    let lately = |at: Instant| sent.duration_since(at) < limits::PROBE_INTERVAL;
    if link.last_message().is_some_and(lately) {
        return true;
    }
    let mut ping = RawObject::default();
    ping.set("jsonrpc", raw(&"2.0"));
    ping.set("id", raw(&0));
    ping.set("method", raw(&"ping"));
    let never = CancellationToken::new();
    let answer = link.request(ping, None, &never);
    let answer = tokio::time::timeout(limits::PROBE_TIMEOUT, answer).await;
    // A busy child that answers something else in the meantime is alive as well.
    matches!(answer, Ok(Ok(_))) || link.last_message().is_some_and(|at| at >= sent)
}
