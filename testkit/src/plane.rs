//! The control plane's state and the test's handle on it.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::fault::Faults;
use crate::{Answers, Command, Contract, Endpoint, Exchange, Fault, Post, Span};

/// How the control plane behaves from the start.
#[derive(Debug, Clone)]
pub struct Script {
    /// The tunnel it knows.
    pub tunnel_id: String,
    /// The key it accepts.
    pub api_key: String,
    /// The longest it holds an empty poll, whatever the client asks for.
    pub max_wait: Duration,
    /// Hands out at most this many commands in one poll, whatever the client asks for;
    /// none: what the client asks for.
    pub batch: Option<usize>,
    /// The largest body it takes, in bytes; above it 413.
    pub max_body: usize,
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Whether exchanges are recorded (switch off for load).
    pub record: bool,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            tunnel_id: "tunnel_0123456789abcdef0123456789abcdef".into(),
            api_key: "test-key-0123456789".into(),
            max_wait: Duration::from_secs(2),
            batch: None,
            max_body: 64 * 1024 * 1024,
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            record: true,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Known {
    shard_token: String,
    wire: Value,
    on_contract: bool,
    fulfilled: bool,
    answers: Answers,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    queue: VecDeque<String>,
    commands: HashMap<String, Known>,
    pub(crate) faults: Faults,
    exchanges: Vec<Exchange>,
    polls: u64,
    good_polls: u64,
    waiting: u64,
    next: u64,
}

/// A batch taken from the queue for one poll.
pub(crate) struct Batch {
    pub(crate) ids: Vec<String>,
    pub(crate) body: Value,
    pub(crate) on_contract: bool,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) script: Script,
    state: Mutex<State>,
    /// Woken when the queue grows.
    pub(crate) pushed: Notify,
    /// Woken when anything a test may wait for has changed.
    pub(crate) changed: Notify,
}

impl Inner {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Takes up to `limit` commands; none where the queue is empty.
    pub(crate) fn take_batch(&self, limit: usize) -> Option<Batch> {
        let mut state = self.state();
        let limit = self.script.batch.unwrap_or(limit).min(state.queue.len());
        if limit == 0 {
            return None;
        }
        let ids: Vec<String> = state.queue.drain(..limit).collect();
        let now = Instant::now();
        let mut commands = Vec::new();
        let mut on_contract = true;
        for id in &ids {
            let known = state.commands.get_mut(id).expect("a queued id is known");
            known.answers.delivered.push(now);
            on_contract &= known.on_contract;
            commands.push(known.wire.clone());
        }
        Some(Batch {
            ids,
            body: json!({ "commands": commands }),
            on_contract,
        })
    }

    /// Puts a batch back at the head of the queue: it never arrived.
    pub(crate) fn put_back(&self, ids: &[String]) {
        let mut state = self.state();
        for id in ids.iter().rev() {
            if let Some(known) = state.commands.get_mut(id) {
                known.answers.delivered.pop();
            }
            state.queue.push_front(id.clone());
        }
        drop(state);
        self.pushed.notify_waiters();
    }

    /// Takes an answer by the service's rules; the status to answer with.
    pub(crate) fn accept(&self, payload: Value, shard_token: &str) -> u16 {
        let mut state = self.state();
        let id = payload["request_id"].as_str().unwrap_or_default();
        let Some(known) = state.commands.get_mut(id) else {
            return 404;
        };
        let mut post = Post {
            at: Instant::now(),
            shard_token: shard_token.to_owned(),
            status: Some(200),
            accepted: false,
            payload,
        };
        let status = if known.shard_token != shard_token {
            400
        } else if known.fulfilled {
            404
        } else {
            post.accepted = true;
            known.fulfilled = post.is_final();
            200
        };
        post.status = Some(status);
        known.answers.posts.push(post);
        drop(state);
        self.changed.notify_waiters();
        status
    }

    /// Notes a POST that a fault kept from being judged.
    pub(crate) fn note_refused(&self, payload: Value, shard_token: &str, status: Option<u16>) {
        let mut state = self.state();
        let id = payload["request_id"].as_str().unwrap_or_default();
        if let Some(known) = state.commands.get_mut(id) {
            known.answers.posts.push(Post {
                at: Instant::now(),
                shard_token: shard_token.to_owned(),
                status,
                accepted: false,
                payload,
            });
        }
        drop(state);
        self.changed.notify_waiters();
    }

    pub(crate) fn record(&self, exchange: Exchange) {
        let mut state = self.state();
        if exchange.endpoint == Some(Endpoint::Poll) {
            state.polls += 1;
            let good = matches!(exchange.status, Some(200 | 204)) && !exchange.off_contract;
            state.good_polls += u64::from(good);
        }
        if self.script.record {
            state.exchanges.push(exchange);
        }
        drop(state);
        self.changed.notify_waiters();
    }

    pub(crate) fn waiting(&self, change: i64) {
        let mut state = self.state();
        state.waiting = state.waiting.saturating_add_signed(change);
        drop(state);
        self.changed.notify_waiters();
    }
}

/// A control plane on loopback. It stops when dropped, and then checks that everything that went
/// over the wire was on the contract: a test that does not ask for it cannot forget it.
#[derive(Debug)]
pub struct ControlPlane {
    pub(crate) inner: Arc<Inner>,
    address: SocketAddr,
    server: JoinHandle<()>,
}

impl ControlPlane {
    /// Starts it; panics where the address cannot be bound.
    pub async fn start(script: Script) -> Self {
        let listener = TcpListener::bind(script.listen)
            .await
            .unwrap_or_else(|e| panic!("binding the control plane to {}: {e}", script.listen));
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let inner = Arc::new(Inner {
            script,
            state: Mutex::default(),
            pushed: Notify::new(),
            changed: Notify::new(),
        });
        let server = tokio::spawn(crate::http::serve(listener, Arc::clone(&inner)));
        Self {
            inner,
            address,
            server,
        }
    }

    /// The URL to give to a client.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The tunnel it knows.
    pub fn tunnel_id(&self) -> &str {
        &self.inner.script.tunnel_id
    }

    /// The key it accepts.
    pub fn api_key(&self) -> &str {
        &self.inner.script.api_key
    }

    /// Queues a command; its request id.
    pub fn push(&self, command: Command) -> String {
        self.push_all([command]).remove(0)
    }

    /// Queues commands so that one poll finds them together; their request ids.
    pub fn push_all(&self, commands: impl IntoIterator<Item = Command>) -> Vec<String> {
        let mut state = self.inner.state();
        let mut ids = Vec::new();
        for command in commands {
            state.next += 1;
            let id = format!("req_{:06}", state.next);
            let shard_token = format!("shard/{:x}=={}", state.next * 7919, state.next);
            let on_contract = command.is_on_contract();
            let known = Known {
                wire: command.finish(&id, &shard_token),
                shard_token,
                on_contract,
                fulfilled: false,
                answers: Answers::default(),
            };
            state.commands.insert(id.clone(), known);
            state.queue.push_back(id.clone());
            ids.push(id);
        }
        drop(state);
        self.inner.pushed.notify_waiters();
        ids
    }

    /// Marks a command as fulfilled, as if another client had answered it.
    pub fn fulfil(&self, request_id: &str) {
        if let Some(known) = self.inner.state().commands.get_mut(request_id) {
            known.fulfilled = true;
        }
    }

    /// Hands a command out again, as a service does that lost track of it.
    pub fn redeliver(&self, request_id: &str) {
        self.inner.state().queue.push_back(request_id.to_owned());
        self.inner.pushed.notify_waiters();
    }

    /// What a command has been answered with so far.
    pub fn answers(&self, request_id: &str) -> Answers {
        let state = self.inner.state();
        state
            .commands
            .get(request_id)
            .map(|known| known.answers.clone())
            .unwrap_or_default()
    }

    /// Waits until `check` gives a value; panics with `what` after `within`.
    pub async fn wait_for<T>(
        &self,
        what: &str,
        within: Duration,
        mut check: impl FnMut(&Self) -> Option<T>,
    ) -> T {
        let end = tokio::time::Instant::now() + within;
        loop {
            let changed = self.inner.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(value) = check(self) {
                return value;
            }
            if tokio::time::timeout_at(end, changed).await.is_err() {
                panic!("waited {within:?} in vain for {what}");
            }
        }
    }

    /// Waits for the final answer of a command.
    pub async fn final_answer(&self, request_id: &str, within: Duration) -> Post {
        let what = format!("the final answer of {request_id}");
        self.wait_for(&what, within, |plane| {
            let state = plane.inner.state();
            let known = state.commands.get(request_id)?;
            known.answers.last().cloned()
        })
        .await
    }

    /// Puts a fault in front of an endpoint.
    pub fn inject(&self, endpoint: Endpoint, fault: Fault, span: Span) {
        self.inner.state().faults.inject(endpoint, fault, span);
    }

    /// Takes all faults away.
    pub fn heal(&self) {
        self.inner.state().faults.heal();
    }

    /// Faults that still wait for the requests they are to meet.
    pub fn faults_left(&self) -> usize {
        self.inner.state().faults.left()
    }

    /// How many polls have been answered.
    pub fn polls(&self) -> u64 {
        self.inner.state().polls
    }

    /// How many polls have been answered as they should be, with commands or without.
    pub fn good_polls(&self) -> u64 {
        self.inner.state().good_polls
    }

    /// How many polls are waiting right now.
    pub fn waiting_polls(&self) -> u64 {
        self.inner.state().waiting
    }

    /// Commands that are queued and not handed out.
    pub fn queued(&self) -> usize {
        self.inner.state().queue.len()
    }

    /// Everything that went over the wire so far, in the order of the answers.
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.inner.state().exchanges.clone()
    }

    /// Checks every exchange so far against the contract; panics with what breaks it.
    /// Where the contract is not at hand it says so and checks nothing.
    pub fn check_contract(&self) {
        let exchanges = self.exchanges();
        if exchanges.is_empty() {
            return;
        }
        let Some(contract) = Contract::load() else {
            eprintln!("the tunnel's OpenAPI contract is not at hand: exchanges not checked");
            return;
        };
        let faults: Vec<String> = exchanges
            .iter()
            .flat_map(|exchange| contract.check(exchange))
            .collect();
        assert!(
            faults.is_empty(),
            "off the contract:\n{}",
            faults.join("\n")
        );
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        self.server.abort();
        // Within another panic this one would end the whole test program.
        if !std::thread::panicking() {
            self.check_contract();
        }
    }
}
