//! Carrying commands out: each to exactly one final answer, or past its deadline.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::control_plane::Polled;
use crate::journal::{Entry, Expected, Journal, now_ms};
use crate::jsonrpc::{self, Raw, RawObject, Shape};
use crate::limits;
use crate::metrics::{Held, Metrics};
use crate::poster::{Delivery, Poster};
use crate::sessions::Sessions;
use crate::sync::lock;
use crate::wire::{Address, Answer, AnswerKind, Command, Failure, Source, Work, too_large};

/// How calls are bounded.
#[derive(Debug, Clone, Copy)]
pub struct CallLimits {
    /// Calls at once.
    pub concurrent: usize,
    /// The longest a call without a deadline may take.
    pub call_ttl: Duration,
    /// The largest body posted, in bytes.
    pub post_max: usize,
}

/// Takes commands and sees each to its end.
#[derive(Debug)]
pub struct Dispatcher {
    sessions: Arc<Sessions>,
    poster: Poster,
    journal: Journal,
    metrics: Arc<Metrics>,
    limits: CallLimits,
    slots: Semaphore,
    tasks: TaskTracker,
    known: Mutex<Known>,
    /// Ends the wait for calls in flight.
    abort: CancellationToken,
}

/// Commands that are under way or were answered lately: none is carried out twice.
#[derive(Debug, Default)]
struct Known {
    under_way: HashSet<String>,
    answered: VecDeque<String>,
}

/// What kind of answer a command waits for, and under which id.
struct Shaped {
    expected: Expected,
    id: Option<Raw>,
}

impl Dispatcher {
    /// Makes a dispatcher.
    pub fn new(
        sessions: Arc<Sessions>,
        poster: Poster,
        journal: Journal,
        metrics: Arc<Metrics>,
        limits: CallLimits,
    ) -> Self {
        Self {
            sessions,
            poster,
            journal,
            metrics,
            slots: Semaphore::new(limits.concurrent),
            limits,
            tasks: TaskTracker::new(),
            known: Mutex::default(),
            abort: CancellationToken::new(),
        }
    }

    /// Waits until a call could be started; how many could be.
    pub async fn free_slots(&self) -> usize {
        if let Ok(slot) = self.slots.acquire().await {
            drop(slot);
        }
        self.slots.available_permits().max(1)
    }

    /// Notes a batch and starts each of its commands, even beyond the free slots.
    pub async fn take(self: &Arc<Self>, polled: Polled) {
        let mut batch = Vec::new();
        for each in polled {
            match each {
                Ok(command) => {
                    if self.admit(&command) {
                        batch.push(command);
                    }
                }
                Err(skipped) => {
                    self.metrics.commands.add("skipped");
                    tracing::warn!(why = %skipped, "skipped a command");
                }
            }
        }
        if batch.is_empty() {
            return;
        }
        let entries = batch.iter().map(journal_entry).collect();
        if !self.journal.take(entries).await {
            tracing::error!("commands are carried out without a note of them");
        }
        for command in batch {
            let this = Arc::clone(self);
            self.tasks
                .spawn(async move { this.see_through(command).await });
        }
    }

    /// Whether a command is to be carried out: not when it is expired, and not twice.
    fn admit(self: &Arc<Self>, command: &Command) -> bool {
        let request_id = &command.address.request_id;
        if command.deadline.is_some_and(|at| at <= Instant::now()) {
            self.metrics.deadlines.add();
            tracing::info!(request_id, "dropped a command that had expired on arrival");
            return false;
        }
        let mut known = self.known();
        if known.answered.contains(request_id) {
            drop(known);
            tracing::warn!(
                request_id,
                "a command that was answered came again; it is not repeated"
            );
            let command = command.clone();
            let this = Arc::clone(self);
            self.tasks
                .spawn(async move { this.answer_again(&command).await });
            return false;
        }
        if !known.under_way.insert(request_id.clone()) {
            tracing::warn!(
                request_id,
                "a command that is under way came again; it is not repeated"
            );
            return false;
        }
        true
    }

    async fn answer_again(&self, command: &Command) {
        let failure = Failure::new(
            Source::ClientInternal,
            None,
            "This call was carried out and answered once, and then came again. It was not \
             repeated: look at what it did.",
        );
        if let Some(answer) = failed_answer(command, &failure) {
            let body = Bytes::from(answer.to_body(&command.address));
            self.poster.deliver_once(&command.address, &body).await;
        }
    }

    async fn see_through(&self, command: Command) {
        let _level = Held::new(&self.metrics.in_flight);
        let work = self.carry_out(&command);
        let in_time = match command.deadline {
            Some(deadline) => {
                let deadline = tokio::time::Instant::from_std(deadline);
                tokio::time::timeout_at(deadline, work).await.ok()
            }
            None => Some(work.await),
        };
        let address = &command.address;
        let settled = in_time.unwrap_or_else(|| {
            // Nothing is posted: the service has stopped waiting.
            self.metrics.deadlines.add();
            tracing::info!(
                request_id = address.request_id,
                "a command's deadline passed"
            );
            true
        });
        let mut known = self.known();
        known.under_way.remove(&address.request_id);
        known.answered.push_back(address.request_id.clone());
        if known.answered.len() > limits::ANSWERED_KEPT {
            known.answered.pop_front();
        }
        drop(known);
        if settled {
            self.journal.done(&address.request_id);
        }
    }

    /// Carries a command out and delivers its answer; whether it is settled.
    async fn carry_out(&self, command: &Command) -> bool {
        let answer = tokio::select! {
            answer = self.answer(command) => answer,
            () = self.abort.cancelled() => {
                let failure = Failure::new(
                    Source::ClientInternal,
                    None,
                    "The tunnel's client was stopped before the call was answered. Whether it \
                     took effect is not known: look before you repeat it.",
                );
                failed_answer(command, &failure)
            }
        };
        match answer {
            Some(answer) => self.deliver(command, answer).await,
            None => true,
        }
    }

    async fn deliver(&self, command: &Command, answer: Answer) -> bool {
        match answer.made_up {
            Some(source) => {
                self.metrics.failures.add(source.name());
                if source.is_servers_silence() {
                    self.metrics.call_failed(answer.lost_with);
                }
            }
            None if answer.kind == AnswerKind::JsonrpcResponse => self.metrics.call_answered(),
            None => {}
        }
        let address = &command.address;
        match self.poster.deliver(address, &answer).await {
            Delivery::Done | Delivery::Refused(_) => true,
            Delivery::Failed => false,
            Delivery::TooLarge => {
                let size = answer.message.as_ref().map_or(0, |m| m.get().len() as u64);
                let Some(id) = shape_of(command).id else {
                    return true;
                };
                let answer = too_large(&id, size, None);
                self.poster.deliver(address, &answer).await != Delivery::Failed
            }
        }
    }

    /// The answer of a command; none where there is nothing to answer with.
    async fn answer(&self, command: &Command) -> Option<Answer> {
        // The slot is given back once the answer is there: delivering takes no child's time.
        let _slot = self.slots.acquire().await.ok();
        if command.address.channel != limits::MAIN_CHANNEL {
            self.metrics.commands.add("other_channel");
            let failure = Failure {
                code: 400,
                ..Failure::new(
                    Source::Protocol,
                    None,
                    format!("There is no channel {:?} here.", command.address.channel),
                )
            };
            return failed_answer(command, &failure);
        }
        match &command.work {
            Work::SessionTermination => {
                self.metrics.commands.add("session_termination");
                if let Some(session) = &command.session {
                    self.sessions.end(session).await;
                }
                Some(Answer::session_ended(204))
            }
            Work::Malformed(why) => {
                self.metrics.commands.add("malformed");
                tracing::warn!(
                    request_id = command.address.request_id,
                    why,
                    "a malformed command"
                );
                let text = format!("The command cannot be carried out: {why}.");
                let failure = Failure::new(Source::Protocol, Some("malformed_json"), text);
                failed_answer(
                    command,
                    &Failure {
                        code: 400,
                        ..failure
                    },
                )
            }
            Work::JsonRpc(message) => match jsonrpc::shape(message) {
                Shape::Request => Some(self.request(command, message).await),
                Shape::Notification => Some(self.notification(command, message).await),
                Shape::Response => {
                    // An answer to a request that the server never got to send.
                    self.metrics.commands.add("response");
                    Some(Answer::notify_ack(202))
                }
                Shape::Other => {
                    self.metrics.commands.add("malformed");
                    let text = "The command cannot be carried out: its message has no method.";
                    let failure = Failure::new(Source::Protocol, None, text);
                    failed_answer(
                        command,
                        &Failure {
                            code: 400,
                            ..failure
                        },
                    )
                }
            },
        }
    }

    async fn notification(&self, command: &Command, message: &RawObject) -> Answer {
        self.metrics.commands.add("notification");
        let taken = match self.sessions.get(command.session.as_deref()) {
            Ok(session) => session.notify(message.clone()).await,
            Err(_) => false,
        };
        Answer::notify_ack(if taken { 202 } else { 502 })
    }

    async fn request(&self, command: &Command, message: &RawObject) -> Answer {
        self.metrics.commands.add("request");
        let null = RawValue::NULL;
        let id = message.get("id").unwrap_or(null);
        let session = match self.sessions.get(command.session.as_deref()) {
            Ok(session) => session,
            Err(failure) => return failure.answer(id),
        };
        let (progress, mut news) = mpsc::channel(limits::PROGRESS_QUEUE);
        let call = session.request(message.clone(), id, progress);
        let call = tokio::time::timeout(self.limits.call_ttl, call);
        tokio::pin!(call);
        let mut telling = true;
        let answer = loop {
            tokio::select! {
                answer = &mut call => break answer,
                Some(message) = news.recv(), if telling => {
                    telling = self.tell(&command.address, &message).await;
                }
            }
        };
        if telling {
            self.tell_the_last(&command.address, &mut news).await;
        }
        let answer = answer.unwrap_or_else(|_| {
            let text = format!(
                "The call did not end within {:?}; it was cancelled.",
                self.limits.call_ttl
            );
            let failure = Failure::new(Source::Timeout, Some("timeout"), text);
            Failure {
                code: 504,
                ..failure
            }
            .answer(id)
        });
        let size = answer
            .message
            .as_ref()
            .map_or(0, |message| message.get().len());
        if size + limits::POST_ENVELOPE > self.limits.post_max {
            return too_large(id, size as u64, Some(self.limits.post_max));
        }
        answer
    }

    async fn tell(&self, address: &Address, message: &RawObject) -> bool {
        let answer = Answer::notify(jsonrpc::raw(message));
        self.poster.notify(address, &answer).await
    }

    /// Sends the progress that still waits once the result is there, the newest of it.
    async fn tell_the_last(&self, address: &Address, news: &mut mpsc::Receiver<RawObject>) {
        let mut last = VecDeque::new();
        while let Ok(message) = news.try_recv() {
            last.push_back(message);
            if last.len() > limits::PROGRESS_LAST {
                last.pop_front();
            }
        }
        for message in last {
            if !self.tell(address, &message).await {
                break;
            }
        }
    }

    /// Answers what an earlier process left unanswered.
    pub fn answer_left_over(self: &Arc<Self>, left: Vec<Entry>) {
        for entry in left {
            let this = Arc::clone(self);
            self.tasks.spawn(async move {
                let settled = entry.is_expired() || this.answer_one_left_over(&entry).await;
                if settled {
                    this.journal.done(&entry.address.request_id);
                }
            });
        }
    }

    async fn answer_one_left_over(&self, entry: &Entry) -> bool {
        let failure = Failure::new(
            Source::ClientInternal,
            None,
            "The tunnel's client ended before the call was answered, and was started again. \
             Whether the call took effect is not known: look before you repeat it.",
        );
        let answer = match (&entry.id, entry.answer) {
            (Some(id), Expected::Response) => {
                let id = serde_json::from_str::<Raw>(id);
                failure.answer(id.as_deref().unwrap_or(RawValue::NULL))
            }
            (_, Expected::SessionEnd) => Answer::session_ended(204),
            _ => Answer::notify_ack(502),
        };
        tracing::info!(
            request_id = entry.address.request_id,
            "answering a command that an earlier process left unanswered"
        );
        self.metrics.failures.add(Source::ClientInternal.name());
        tokio::select! {
            delivery = self.poster.deliver(&entry.address, &answer) => delivery != Delivery::Failed,
            () = self.abort.cancelled() => false,
        }
    }

    /// Waits for calls in flight, then answers the rest with a failure; within
    /// [`limits::STOP_CALLS`] and [`limits::STOP_ANSWERS`].
    pub async fn stop(&self) {
        self.tasks.close();
        if tokio::time::timeout(limits::STOP_CALLS, self.tasks.wait())
            .await
            .is_ok()
        {
            return;
        }
        tracing::warn!(
            calls = self.tasks.len(),
            "answering the calls that are still in flight"
        );
        self.abort.cancel();
        let answered = tokio::time::timeout(limits::STOP_ANSWERS, self.tasks.wait()).await;
        if answered.is_err() {
            tracing::error!(
                calls = self.tasks.len(),
                "some answers could not be delivered; the next start sends a failure for them"
            );
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }
}

fn shape_of(command: &Command) -> Shaped {
    let (expected, id) = match &command.work {
        Work::SessionTermination => (Expected::SessionEnd, None),
        Work::Malformed(_) => (Expected::Response, Some(RawValue::NULL.to_owned())),
        Work::JsonRpc(message) => match jsonrpc::shape(message) {
            Shape::Notification | Shape::Response => (Expected::Ack, None),
            Shape::Request | Shape::Other => {
                let id = message.get("id").unwrap_or(RawValue::NULL);
                (Expected::Response, Some(id.to_owned()))
            }
        },
    };
    Shaped { expected, id }
}

/// The answer to a command that failed, in the kind it waits for.
fn failed_answer(command: &Command, failure: &Failure) -> Option<Answer> {
    let Shaped { expected, id } = shape_of(command);
    match AnswerKind::from(expected) {
        AnswerKind::JsonrpcResponse => id.map(|id| failure.answer(&id)),
        AnswerKind::SessionTerminationResponse => Some(Answer::session_ended(failure.code)),
        _ => Some(Answer::notify_ack(failure.code)),
    }
}

fn journal_entry(command: &Command) -> Entry {
    let Shaped { expected, id } = shape_of(command);
    let left = command
        .deadline
        .map(|at| at.saturating_duration_since(Instant::now()));
    Entry {
        address: command.address.clone(),
        id: id.map(|id| id.get().to_owned()),
        answer: expected,
        expires_ms: left.map(|left| now_ms().saturating_add(left.as_millis() as u64)),
    }
}
