//! Delivering answers.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::watch;

use crate::backoff::Backoff;
use crate::control_plane::{ControlPlane, Trouble};
use crate::limits;
use crate::metrics::Metrics;
use crate::sync::lock;
use crate::wire::{Address, Answer};

/// How posts fail.
#[derive(Debug, Default)]
pub struct PostState(Mutex<Option<Refusals>>);

#[derive(Debug)]
struct Refusals {
    in_a_row: u64,
    last: Trouble,
    at: Instant,
}

/// Posts that the service does not take.
#[derive(Debug, PartialEq, Eq)]
pub struct PostTrouble {
    /// What happened.
    pub message: String,
    /// Whether only the operator can mend it.
    pub needs_operator: bool,
}

impl PostState {
    /// Notes how a post ended. What was fulfilled already, and what is too large, shows a service
    /// that takes answers.
    fn note(&self, ended: &Result<(), Trouble>) {
        let mut refusals = lock(&self.0);
        let last = match ended {
            Ok(())
            | Err(Trouble::Status {
                status: 404 | 413, ..
            }) => {
                *refusals = None;
                return;
            }
            Err(trouble) => trouble.clone(),
        };
        let before = refusals.as_ref().map_or(0, |refusals| refusals.in_a_row);
        *refusals = Some(Refusals {
            in_a_row: before + 1,
            last,
            at: Instant::now(),
        });
    }

    /// Why an answer would not be taken now. It is forgotten where nothing was posted for a while
    /// and polls have been answered since: nothing is known any more then.
    pub fn trouble(&self, since_good_poll: Option<Duration>) -> Option<PostTrouble> {
        let refusals = lock(&self.0);
        let Refusals { in_a_row, last, at } = refusals.as_ref()?;
        let age = at.elapsed();
        let polled_since = since_good_poll.is_some_and(|poll| poll < age);
        if age >= limits::POST_TROUBLE_KEPT && polled_since {
            return None;
        }
        let needs_operator = last.needs_operator();
        if !needs_operator && *in_a_row < limits::POST_FAILURES_UNREADY {
            return None;
        }
        Some(PostTrouble {
            message: format!("the service did not take the last {in_a_row} answers: {last}"),
            needs_operator,
        })
    }
}

/// Posts answers to the control plane.
#[derive(Debug)]
pub struct Poster {
    plane: ControlPlane,
    metrics: Arc<Metrics>,
    state: Arc<PostState>,
    /// Counts good polls: what could not be delivered is tried again after the next one.
    good_polls: watch::Receiver<u64>,
}

/// How a delivery ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The service has it, or has an answer already.
    Done,
    /// The service refuses the body for its size.
    TooLarge,
    /// The service refuses it for good.
    Refused(u16),
    /// It was not delivered.
    Failed,
}

impl Poster {
    /// Makes a poster.
    pub fn new(
        plane: ControlPlane,
        metrics: Arc<Metrics>,
        state: Arc<PostState>,
        good_polls: watch::Receiver<u64>,
    ) -> Self {
        Self {
            plane,
            metrics,
            state,
            good_polls,
        }
    }

    async fn post(&self, address: &Address, body: Bytes) -> Result<(), Trouble> {
        let ended = self.plane.post(address, body).await;
        self.state.note(&ended);
        ended
    }

    /// Posts a final answer: three tries with the identical body, and where these fail again
    /// after the next good poll, until it is delivered, refused or too old.
    pub async fn deliver(&self, address: &Address, answer: &Answer) -> Delivery {
        let body = Bytes::from(answer.to_body(address));
        let began = Instant::now();
        let mut polls = self.good_polls.clone();
        let mut rounds = Backoff::new(limits::BACKOFF_MIN * 5, limits::BACKOFF_MAX);
        loop {
            polls.mark_unchanged();
            let delivery = self.deliver_once(address, &body).await;
            if delivery != Delivery::Failed {
                return delivery;
            }
            let left = limits::UNDELIVERED_MAX.saturating_sub(began.elapsed());
            tracing::warn!(
                request_id = address.request_id,
                "an answer is kept for the next good poll: it could not be delivered"
            );
            match tokio::time::timeout(left, polls.changed()).await {
                Ok(Ok(())) => tokio::time::sleep(rounds.next_delay()).await,
                _ => return Delivery::Failed,
            }
        }
    }

    /// Posts a final answer: three tries with the identical body.
    pub async fn deliver_once(&self, address: &Address, body: &Bytes) -> Delivery {
        let mut backoff = Backoff::default();
        for attempt in 1..=limits::POST_TRIES {
            let trouble = match self.post(address, body.clone()).await {
                Ok(()) => {
                    self.metrics.posts.add("delivered");
                    return Delivery::Done;
                }
                Err(trouble) => trouble,
            };
            if let Some(end) = self.verdict(address, body.len(), &trouble) {
                return end;
            }
            if attempt == limits::POST_TRIES {
                self.metrics.posts.add(trouble.outcome());
                break;
            }
            self.metrics.posts.add("retried");
            wait(&mut backoff, &trouble).await;
        }
        Delivery::Failed
    }

    /// What ends the tries; none where another one is worth it.
    fn verdict(&self, address: &Address, size: usize, trouble: &Trouble) -> Option<Delivery> {
        let request_id = &address.request_id;
        let Trouble::Status { status, .. } = trouble else {
            tracing::warn!(request_id, error = %trouble, "posting an answer failed");
            return None;
        };
        match *status {
            404 => {
                self.metrics.posts.add("already_fulfilled");
                tracing::info!(request_id, "the command is fulfilled already, or not known");
                Some(Delivery::Done)
            }
            // Nothing smaller could be said instead: it waits for the next good poll.
            413 if size <= limits::SMALL_POST => {
                tracing::warn!(request_id, size, error = %trouble, "posting an answer failed");
                self.metrics.posts.add("too_large");
                Some(Delivery::Failed)
            }
            413 => {
                self.metrics.posts.add("too_large");
                Some(Delivery::TooLarge)
            }
            408 | 429 | 502 | 503 | 504 => {
                tracing::warn!(request_id, error = %trouble, "posting an answer failed");
                None
            }
            // The operator or the service mends these, and the answer is as good then: it waits for
            // the next good poll.
            401 | 403 | 500.. => {
                tracing::warn!(request_id, error = %trouble, "posting an answer failed");
                self.metrics.posts.add(trouble.outcome());
                Some(Delivery::Failed)
            }
            refused => {
                self.metrics.posts.add(trouble.outcome());
                tracing::error!(request_id, error = %trouble, "an answer was refused");
                Some(Delivery::Refused(refused))
            }
        }
    }

    /// Posts progress, at most once: again only where the service cannot have seen it. Whether
    /// it was delivered; where it was not, later progress of the command is better left out.
    pub async fn notify(&self, address: &Address, answer: &Answer) -> bool {
        let body = Bytes::from(answer.to_body(address));
        let delivered = tokio::time::timeout(limits::NOTIFY_TIMEOUT, async {
            let mut backoff = Backoff::default();
            for _ in 0..limits::POST_TRIES {
                let trouble = match self.post(address, body.clone()).await {
                    Ok(()) => return true,
                    Err(trouble) => trouble,
                };
                let unseen = matches!(
                    trouble,
                    Trouble::Status { status: 429, .. } | Trouble::Network { written: false, .. }
                );
                if !unseen {
                    break;
                }
                wait(&mut backoff, &trouble).await;
            }
            false
        });
        let delivered = delivered.await.unwrap_or(false);
        let outcome = if delivered {
            "progress"
        } else {
            "progress_lost"
        };
        self.metrics.posts.add(outcome);
        delivered
    }
}

async fn wait(backoff: &mut Backoff, trouble: &Trouble) {
    let asked = trouble.retry_after().unwrap_or_default();
    tokio::time::sleep(backoff.next_delay().max(asked)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16) -> Result<(), Trouble> {
        Err(Trouble::Status {
            status,
            detail: String::new(),
            retry_after: None,
        })
    }

    #[test]
    fn refused_answers_count_until_one_is_taken() {
        let state = PostState::default();
        for status in [400, 500, 503] {
            state.note(&Ok(()));
            for _ in 1..limits::POST_FAILURES_UNREADY {
                state.note(&refused(status));
                assert_eq!(state.trouble(None), None, "{status}");
            }
            state.note(&refused(status));
            let trouble = state.trouble(None).unwrap();
            assert!(!trouble.needs_operator, "{status}");
        }
        for status in [404, 413] {
            state.note(&refused(status));
            assert_eq!(state.trouble(None), None, "{status}");
        }
        for status in [401, 403] {
            state.note(&refused(status));
            assert!(state.trouble(None).unwrap().needs_operator, "{status}");
        }
    }

    #[test]
    fn an_old_refusal_is_forgotten_once_polls_were_good_again() {
        let state = PostState::default();
        state.note(&refused(403));
        let recent = Some(Duration::from_secs(1));
        assert!(state.trouble(recent).is_some());
        if let Some(refusals) = lock(&state.0).as_mut() {
            let old = refusals.at.checked_sub(limits::POST_TROUBLE_KEPT);
            refusals.at = old.unwrap();
        }
        assert!(state.trouble(None).is_some());
        let before = limits::POST_TROUBLE_KEPT * 2;
        assert!(state.trouble(Some(before)).is_some());
        assert_eq!(state.trouble(recent), None);
    }
}
