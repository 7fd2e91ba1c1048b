//! The keeper of one child: one task that owns one process, starts it, watches it end, starts it again.
//!
//! Orders come over a queue, most with a ticket that tells when they are done; the state goes out over a watch channel. The keeper
//! knows nothing of what its child is there for: whether a living child is well is for others to find out, who tell it.

use crate::backoff::Backoff;
use crate::ledger::Ledger;
use crate::limits;
use crate::plan::{Plan, Planner, Spec};
use crate::process;
use crate::record::Recorder;
use hands_control::types::daemon::{Child as Status, ChildState};
use hands_metrics::Registry;
use rustix::process::Signal;
use serde_json::json;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::process::Child;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};

/// Which child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Server,
    Tunnel,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Tunnel => "tunnel",
        }
    }

    pub(crate) fn metric(self) -> hands_metrics::Child {
        match self {
            Self::Server => hands_metrics::Child::Server,
            Self::Tunnel => hands_metrics::Child::Tunnel,
        }
    }
}

/// What others found out about a living child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Health {
    /// It does what it is there for.
    Well,
    /// It does not, and why.
    Unwell(String),
    /// It does not, and only the operator can mend it.
    Operator(String),
}

/// A ticket: it is dropped or answered once the order is carried out.
type Ticket = oneshot::Sender<()>;

#[derive(Debug)]
enum Order {
    Start,
    Stop(Ticket),
    /// On purpose: at once, and not counted as a failure.
    Replace(Ticket),
    /// It does not work: counted, and after the delay then in force.
    Mend(String),
    /// What was found out about the process with that id.
    Found(u32, Health),
}

/// Gives orders to a keeper; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    orders: mpsc::Sender<Order>,
    status: watch::Receiver<Status>,
}

impl Handle {
    /// Starts it, unless it runs. From a delay it starts at once.
    pub(crate) async fn start(&self) {
        let _ = self.orders.send(Order::Start).await;
    }

    /// Stops it, and waits until it is gone.
    pub(crate) async fn stop(&self) {
        self.ticket(Order::Stop).await;
    }

    /// Stops it if it runs, and starts it by the plan then in force; waits until that is done.
    pub(crate) async fn replace(&self) {
        self.ticket(Order::Replace).await;
    }

    /// Restarts it because it does not work.
    pub(crate) async fn mend(&self, why: String) {
        let _ = self.orders.send(Order::Mend(why)).await;
    }

    /// Tells what was found out about the process `pid`.
    pub(crate) async fn found(&self, pid: u32, health: Health) {
        let _ = self.orders.send(Order::Found(pid, health)).await;
    }

    /// Its state now.
    pub(crate) fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// Its state from now on.
    pub(crate) fn watch(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    async fn ticket(&self, order: impl FnOnce(Ticket) -> Order) {
        let (ticket, done) = oneshot::channel();
        if self.orders.send(order(ticket)).await.is_ok() {
            let _ = done.await;
        }
    }
}

/// What all keepers share.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) recorder: Recorder,
    pub(crate) metrics: Arc<Registry>,
}

/// Starts a keeper, whose child is not started yet. It ends, and its child with it, when all its handles are gone.
pub(crate) fn keep(kind: Kind, planner: Planner, shared: Shared) -> Handle {
    let (orders, to_do) = mpsc::channel(limits::ORDERS);
    let first = Status {
        state: ChildState::Stopped,
        pid: None,
        since: hands_control::now(),
        restarts: 0,
        reason: None,
        last_exit: None,
        next_start: None,
    };
    let (sender, status) = watch::channel(first);
    let keeper = Keeper {
        kind,
        planner,
        shared,
        orders: to_do,
        status: sender,
        backoff: Backoff::new(limits::BACKOFF_MIN, limits::BACKOFF_MAX),
        operator: Backoff::new(limits::OPERATOR_MIN, limits::OPERATOR_MAX),
    };
    keeper.show(ChildState::Stopped, None);
    tokio::spawn(keeper.run());
    Handle { orders, status }
}

struct Keeper {
    kind: Kind,
    planner: Planner,
    shared: Shared,
    orders: mpsc::Receiver<Order>,
    status: watch::Sender<Status>,
    backoff: Backoff,
    operator: Backoff,
}

/// A living process.
struct Running {
    child: Child,
    pid: u32,
    spec: Spec,
    well_since: Option<Instant>,
}

/// What the keeper does next.
enum Next {
    Wait,
    Launch,
    Attend(Box<Running>),
    Pause(ChildState, Duration, String),
    End,
}

impl Keeper {
    async fn run(mut self) {
        let mut next = Next::Wait;
        loop {
            next = match next {
                Next::Wait => self.wait().await,
                Next::Launch => self.launch().await,
                Next::Attend(running) => self.attend(*running).await,
                Next::Pause(state, delay, why) => self.pause(state, delay, why).await,
                Next::End => return,
            };
        }
    }

    /// Stopped: until somebody wants it started.
    async fn wait(&mut self) -> Next {
        loop {
            match self.orders.recv().await {
                None => return Next::End,
                Some(Order::Start) => return Next::Launch,
                // Done as soon as the start was tried: the ticket is dropped then.
                Some(Order::Replace(ticket)) => {
                    let next = self.launch().await;
                    let _ = ticket.send(());
                    return next;
                }
                Some(Order::Stop(_) | Order::Mend(_) | Order::Found(..)) => {}
            }
        }
    }

    async fn launch(&mut self) -> Next {
        let planner = Arc::clone(&self.planner);
        let planned = tokio::task::spawn_blocking(move || planner()).await;
        let plan =
            planned.unwrap_or_else(|why| Plan::Operator(format!("making the plan failed: {why}")));
        let spec = match plan {
            Plan::Run(spec) => *spec,
            Plan::Unwanted(why) => {
                self.show(ChildState::Stopped, Some(why));
                return Next::Wait;
            }
            Plan::Operator(why) => return self.needs_operator(why),
        };
        match spec.spawn() {
            Ok(child) => {
                // Only a child that was waited for has no id.
                let pid = child.id().unwrap_or_default();
                let name = self.kind.as_str();
                self.shared.ledger.started(name, pid);
                self.shared
                    .recorder
                    .note("child_start", json!({"child": name, "pid": pid}));
                self.status.send_modify(|status| status.pid = Some(pid));
                self.show(ChildState::Starting, None);
                Next::Attend(Box::new(Running {
                    child,
                    pid,
                    spec,
                    well_since: None,
                }))
            }
            Err(why) => self.failed(format!("starting {}: {why}", spec.program.display())),
        }
    }

    /// Alive: until it ends, or is to end.
    async fn attend(&mut self, mut running: Running) -> Next {
        loop {
            let order = tokio::select! {
                ended = running.child.wait() => return self.ended(&running, ended),
                order = self.orders.recv() => order,
            };
            match order {
                None => {
                    self.end(&mut running, "the daemon ends").await;
                    return Next::End;
                }
                Some(Order::Start) => {}
                Some(Order::Stop(ticket)) => {
                    self.show(ChildState::Stopping, None);
                    self.end(&mut running, "on request").await;
                    self.show(ChildState::Stopped, None);
                    let _ = ticket.send(());
                    return Next::Wait;
                }
                Some(Order::Replace(ticket)) => {
                    self.show(ChildState::Stopping, None);
                    self.end(&mut running, "on request, to be started again")
                        .await;
                    self.backoff.reset();
                    let next = self.launch().await;
                    let _ = ticket.send(());
                    return next;
                }
                Some(Order::Mend(why)) => {
                    self.show(ChildState::Stopping, Some(why.clone()));
                    // What does not do its work does not end well either, most often: it gets less time for it.
                    running.spec.stop_within = running.spec.stop_within.min(limits::STOP_UNWELL);
                    self.end(&mut running, &why).await;
                    return self.failed(why);
                }
                Some(Order::Found(pid, health)) if pid == running.pid => {
                    self.found(&mut running, health)
                }
                Some(Order::Found(..)) => {}
            }
        }
    }

    fn found(&mut self, running: &mut Running, health: Health) {
        match health {
            Health::Well => {
                let since = *running.well_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= limits::STABLE_AFTER {
                    self.backoff.reset();
                    self.operator.reset();
                }
                self.show(ChildState::Running, None);
            }
            Health::Unwell(why) => {
                // A child that is still coming up is not called failed.
                let starting = self.status.borrow().state == ChildState::Starting;
                running.well_since = None;
                if !starting {
                    self.show(ChildState::Failed, Some(why));
                }
            }
            Health::Operator(why) => {
                running.well_since = None;
                self.show(ChildState::NeedsOperator, Some(why));
            }
        }
    }

    /// It ended by itself.
    fn ended(&mut self, running: &Running, ended: std::io::Result<ExitStatus>) -> Next {
        let (text, code) = match &ended {
            Ok(status) => (describe(*status), status.code()),
            Err(why) => (format!("it cannot be waited for: {why}"), None),
        };
        // What it left in its group must not get in its successor's way.
        process::signal_group(running.pid, Signal::KILL);
        self.gone(running.pid, &text, "by itself");
        match code {
            Some(code) if running.spec.operator_exits.contains(&code) => {
                self.needs_operator(format!(
                    "{} ended with {text}; its messages are in handsd.log",
                    running.spec.program.display()
                ))
            }
            _ => self.failed(format!("it ended: {text}")),
        }
    }

    /// Ends it: TERM, then KILL to its whole group.
    async fn end(&mut self, running: &mut Running, why: &str) {
        process::signal(running.pid, Signal::TERM);
        let ended = match timeout(running.spec.stop_within, running.child.wait()).await {
            Ok(ended) => ended,
            Err(_) => {
                tracing::warn!(
                    "{} did not end on SIGTERM; it is killed",
                    self.kind.as_str()
                );
                // Its relays lead groups of their own, and one that hangs ends for no closed pipe. The server's runners
                // are no business of ours: they hold commands.
                let relays = match self.kind {
                    Kind::Tunnel => process::children(running.pid),
                    Kind::Server => Vec::new(),
                };
                process::signal_group(running.pid, Signal::KILL);
                let ended = running.child.wait().await;
                process::kill_all(&relays);
                ended
            }
        };
        process::signal_group(running.pid, Signal::KILL);
        let text = match ended {
            Ok(status) => describe(status),
            Err(why) => format!("it cannot be waited for: {why}"),
        };
        self.gone(running.pid, &text, why);
    }

    fn gone(&mut self, pid: u32, exit: &str, why: &str) {
        let name = self.kind.as_str();
        self.shared.ledger.ended(name);
        let detail = json!({"child": name, "pid": pid, "exit": exit, "why": why});
        self.shared.recorder.note("child_exit", detail);
        self.status.send_modify(|status| {
            status.pid = None;
            status.last_exit = Some(exit.to_owned());
        });
    }

    fn failed(&mut self, why: String) -> Next {
        Next::Pause(ChildState::Backoff, self.backoff.next(), why)
    }

    fn needs_operator(&mut self, why: String) -> Next {
        Next::Pause(ChildState::NeedsOperator, self.operator.next(), why)
    }

    /// Ended, to be started again: until the delay is over, or somebody wants it started or stopped.
    async fn pause(&mut self, state: ChildState, delay: Duration, why: String) -> Next {
        let until = Instant::now() + delay;
        let name = self.kind.as_str();
        let at = SystemTime::now()
            .checked_add(delay)
            .map(hands_control::rfc3339);
        self.show(state, Some(why.clone()));
        self.status.send_modify(|status| status.next_start = at);
        let next = loop {
            tokio::select! {
                () = sleep_until(until) => break Next::Launch,
                order = self.orders.recv() => match order {
                    None => break Next::End,
                    Some(Order::Start) => break Next::Launch,
                    Some(Order::Replace(ticket)) => {
                        self.status.send_modify(|status| status.next_start = None);
                        let next = self.launch().await;
                        let _ = ticket.send(());
                        return next;
                    }
                    Some(Order::Stop(_)) => {
                        self.show(ChildState::Stopped, None);
                        break Next::Wait;
                    }
                    Some(Order::Mend(_) | Order::Found(..)) => {}
                }
            }
        };
        self.status.send_modify(|status| status.next_start = None);
        if matches!(next, Next::Launch) {
            self.status.send_modify(|status| status.restarts += 1);
            self.shared.metrics.record_restart(self.kind.metric());
            let detail = json!({"child": name, "why": why, "after_ms": delay.as_millis() as u64});
            self.shared.recorder.note("child_restart", detail);
        }
        next
    }

    fn show(&self, state: ChildState, reason: Option<String>) {
        let changed = self.status.send_if_modified(|status| {
            let changed = status.state != state || status.reason != reason;
            if status.state != state {
                status.state = state;
                status.since = hands_control::now();
            }
            status.reason = reason.clone();
            changed
        });
        self.shared
            .metrics
            .set_child_state(self.kind.metric(), metric(state));
        if changed {
            let detail = json!({"child": self.kind.as_str(), "state": state, "reason": reason});
            self.shared.recorder.event("child", detail);
        }
    }
}

fn metric(state: ChildState) -> hands_metrics::ChildState {
    match state {
        ChildState::Stopped => hands_metrics::ChildState::Stopped,
        ChildState::Starting => hands_metrics::ChildState::Starting,
        ChildState::Running => hands_metrics::ChildState::Ready,
        ChildState::Stopping => hands_metrics::ChildState::Stopping,
        ChildState::Backoff => hands_metrics::ChildState::Backoff,
        ChildState::Failed => hands_metrics::ChildState::Degraded,
        ChildState::NeedsOperator => hands_metrics::ChildState::NeedsOperator,
    }
}

fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no exit status".to_owned(),
    }
}

#[cfg(test)]
#[path = "keeper_tests.rs"]
mod tests;
