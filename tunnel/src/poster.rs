//! Delivering answers.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::watch;

use crate::backoff::Backoff;
use crate::control_plane::{ControlPlane, Trouble};
use crate::limits;
use crate::metrics::Metrics;
use crate::wire::{Address, Answer};

/// Posts answers to the control plane.
#[derive(Debug)]
pub struct Poster {
    plane: ControlPlane,
    metrics: Arc<Metrics>,
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
        good_polls: watch::Receiver<u64>,
    ) -> Self {
        Self {
            plane,
            metrics,
            good_polls,
        }
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
            let trouble = match self.plane.post(address, body.clone()).await {
                Ok(()) => {
                    self.metrics.posts.add("delivered");
                    return Delivery::Done;
                }
                Err(trouble) => trouble,
            };
            if let Some(end) = self.verdict(address, &trouble) {
                return end;
            }
            self.metrics.posts.add("retried");
            if attempt < limits::POST_TRIES {
                wait(&mut backoff, &trouble).await;
            }
        }
        self.metrics.posts.add("failed");
        Delivery::Failed
    }

    /// What ends the tries; none where another one is worth it.
    fn verdict(&self, address: &Address, trouble: &Trouble) -> Option<Delivery> {
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
                self.metrics.posts.add("failed");
                Some(Delivery::Failed)
            }
            refused => {
                self.metrics.posts.add("refused");
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
                let trouble = match self.plane.post(address, body.clone()).await {
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
