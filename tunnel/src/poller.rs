//! The poll loop.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::control_plane::{ControlPlane, Trouble};
use crate::dispatcher::Dispatcher;
use crate::limits;
use crate::metrics::Metrics;
use crate::sync::lock;

/// What the operator has to know about polling.
#[derive(Debug, Default)]
pub struct PollState {
    /// The last failure; none after a good poll.
    trouble: Mutex<Option<PollTrouble>>,
    /// Time in which this client did not ask, since the last good poll.
    busy: Mutex<Busy>,
    /// Since when the body of a poll's answer has been arriving.
    receiving: Mutex<Option<Instant>>,
    /// Polls in a row for which the service knew no such tunnel.
    not_found: AtomicU64,
    /// Whether it had no record of the tunnel either.
    no_record: AtomicBool,
}

/// Time in which the service owed no poll an answer: all slots were taken, or a batch was noted.
#[derive(Debug, Default, Clone, Copy)]
struct Busy {
    since: Option<Instant>,
    before: Duration,
}

impl Busy {
    fn total(self, now: Instant) -> Duration {
        let current = self.since.map(|since| now.saturating_duration_since(since));
        self.before + current.unwrap_or_default()
    }
}

/// A failure of polls that still holds.
#[derive(Debug, Clone, serde::Serialize)]
pub struct PollTrouble {
    /// What happened.
    pub message: String,
    /// Whether only the operator can mend it, and how.
    pub needs_operator: Option<&'static str>,
    /// Time until the next poll.
    pub retry_in_ms: u64,
    /// The moment of it.
    #[serde(skip)]
    retry_at: Instant,
}

impl PollState {
    /// The failure that still holds.
    pub fn trouble(&self) -> Option<PollTrouble> {
        let mut trouble = self.lock().clone()?;
        let left = trouble.retry_at.saturating_duration_since(Instant::now());
        trouble.retry_in_ms = left.as_millis() as u64;
        Some(trouble)
    }

    /// How much of the time since the last good poll the service is to answer for.
    pub fn silence(&self, since_good_poll: Duration) -> Duration {
        since_good_poll.saturating_sub(lock(&self.busy).total(Instant::now()))
    }

    /// How long this client has not polled because it can take no further call.
    pub fn busy(&self) -> Option<Duration> {
        lock(&self.busy).since.map(|since| since.elapsed())
    }

    /// How long the body of a poll's answer has been arriving.
    pub fn receiving(&self) -> Option<Duration> {
        lock(&self.receiving).map(|since| since.elapsed())
    }

    /// One pause may begin within another, as where a batch that was noted takes the last slot.
    fn pause(&self) {
        lock(&self.busy).since.get_or_insert_with(Instant::now);
    }

    fn resume(&self) {
        let mut busy = lock(&self.busy);
        *busy = Busy {
            since: None,
            before: busy.total(Instant::now()),
        };
    }

    /// Notes that the service has no record of the tunnel.
    pub fn note_unknown_tunnel(&self) {
        self.no_record.store(true, Ordering::Relaxed);
    }

    /// Counts a failed poll; whether it is now plain that the service does not know the tunnel.
    fn is_unknown_tunnel(&self, trouble: &Trouble) -> bool {
        if !trouble.is_not_found() {
            self.not_found.store(0, Ordering::Relaxed);
            return false;
        }
        let in_a_row = self.not_found.fetch_add(1, Ordering::Relaxed) + 1;
        in_a_row >= limits::UNKNOWN_TUNNEL_POLLS || self.no_record.load(Ordering::Relaxed)
    }

    fn good(&self) {
        self.not_found.store(0, Ordering::Relaxed);
        self.no_record.store(false, Ordering::Relaxed);
        *lock(&self.busy) = Busy::default();
        self.set(None);
    }

    fn set(&self, trouble: Option<PollTrouble>) {
        *self.lock() = trouble;
    }

    fn lock(&self) -> MutexGuard<'_, Option<PollTrouble>> {
        lock(&self.trouble)
    }
}

/// Polls until told to stop.
#[derive(Debug)]
pub struct Poller {
    /// The control plane.
    pub plane: ControlPlane,
    /// Takes the commands.
    pub dispatcher: Arc<Dispatcher>,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// What the operator has to know.
    pub state: Arc<PollState>,
    /// Raised by each good poll.
    pub good_polls: watch::Sender<u64>,
    /// Ends the loop.
    pub stop: CancellationToken,
}

/// The two backoffs: a service in trouble is back soon, an operator is not.
struct Delays {
    service: Backoff,
    operator: Backoff,
}

impl Delays {
    fn new() -> Self {
        Self {
            service: Backoff::default(),
            operator: Backoff::new(limits::OPERATOR_BACKOFF_MIN, limits::OPERATOR_BACKOFF_MAX),
        }
    }

    fn after(&mut self, trouble: &Trouble) -> Duration {
        let own = if trouble.needs_operator() {
            self.operator.next_delay()
        } else {
            self.service.next_delay()
        };
        own.max(trouble.retry_after().unwrap_or_default())
    }
}

impl Poller {
    /// Runs the loop.
    pub async fn run(self) {
        let mut delays = Delays::new();
        loop {
            self.state.pause();
            let limit = tokio::select! {
                free = self.dispatcher.free_slots() => free.min(limits::POLL_LIMIT),
                () = self.stop.cancelled() => return,
            };
            self.state.resume();
            let answered = || *lock(&self.state.receiving) = Some(Instant::now());
            let polled = tokio::select! {
                polled = self.plane.poll(limit, answered) => polled,
                () = self.stop.cancelled() => return,
            };
            *lock(&self.state.receiving) = None;
            match polled {
                Ok(commands) => {
                    self.note_good(commands.len());
                    delays = Delays::new();
                    // A batch that is here is taken whole, even while stopping: the service
                    // counts on this client for it now.
                    self.state.pause();
                    self.dispatcher.take(commands).await;
                }
                Err(trouble) => {
                    let delay = delays.after(&trouble);
                    self.note_trouble(&trouble, delay);
                    tokio::select! {
                        () = tokio::time::sleep(delay) => {}
                        () = self.stop.cancelled() => return,
                    }
                }
            }
        }
    }

    fn note_good(&self, commands: usize) {
        let outcome = if commands == 0 { "empty" } else { "commands" };
        self.metrics.polls.add(outcome);
        self.metrics.good_poll();
        if self.state.trouble().is_some() {
            tracing::info!("polls are answered again");
        }
        self.state.good();
        self.good_polls.send_modify(|count| *count += 1);
    }

    fn note_trouble(&self, trouble: &Trouble, delay: Duration) {
        self.metrics.polls.add(trouble.outcome());
        self.metrics.poll_failures.add();
        let retry_in_ms = delay.as_millis() as u64;
        let needs_operator = match self.state.is_unknown_tunnel(trouble) {
            true => Some(UNKNOWN_TUNNEL),
            false => advice(trouble),
        };
        if let Some(advice) = needs_operator {
            tracing::error!(error = %trouble, retry_in_ms, advice, "polling needs the operator");
        } else {
            tracing::warn!(error = %trouble, retry_in_ms, "polling failed");
        }
        self.state.set(Some(PollTrouble {
            message: trouble.to_string(),
            needs_operator,
            retry_in_ms,
            retry_at: Instant::now() + delay,
        }));
    }
}

const UNKNOWN_TUNNEL: &str =
    "the tunnel id is not known to the service: check it, `handsctl tunnel setup`";

/// What the operator can do about it.
fn advice(trouble: &Trouble) -> Option<&'static str> {
    let Trouble::Status { status, .. } = trouble else {
        return None;
    };
    match status {
        401 => Some(
            "the API key was refused: check that it is the tunnel's runtime key, and not revoked",
        ),
        403 => Some(
            "the API key may not use this tunnel: give its principal the right to use it, or check the tunnel id",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_a_free_slot_is_not_the_services_silence() {
        let now = Instant::now();
        let earlier = |seconds| now.checked_sub(Duration::from_secs(seconds)).unwrap();
        let state = PollState::default();
        let minute = Duration::from_secs(60);
        assert_eq!(state.silence(minute), minute);
        // Full for 50 of the 60 seconds, and still so.
        lock(&state.busy).since = Some(earlier(50));
        state.pause();
        assert!(state.silence(minute) <= Duration::from_secs(10));
        state.resume();
        assert!(state.busy().is_none());
        assert!(state.silence(minute) <= Duration::from_secs(10));
        // From then on it is.
        assert!(state.silence(minute * 2) >= minute);
        state.good();
        assert_eq!(state.silence(minute), minute);
    }
}
