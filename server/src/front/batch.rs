//! Batches of JSON-RPC: the answers to one array go out as one array, when all are there.

use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};

/// A request's place in its batch.
#[derive(Debug, Clone)]
pub(super) struct BatchSeat(Arc<Mutex<Open>>);

#[derive(Debug)]
struct Open {
    missing: usize,
    answers: Vec<Value>,
}

impl BatchSeat {
    /// A seat shared by `count` requests.
    pub(super) fn for_requests(count: usize) -> Self {
        Self(Arc::new(Mutex::new(Open {
            missing: count,
            answers: Vec::with_capacity(count),
        })))
    }

    /// Takes one answer; gives all of them when it was the last.
    pub(super) fn answer(&self, answer: Value) -> Option<Value> {
        self.close(Some(answer))
    }

    /// One request that will never be answered (its id was taken by a newer one).
    pub(super) fn give_up(&self) -> Option<Value> {
        self.close(None)
    }

    fn close(&self, answer: Option<Value>) -> Option<Value> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.answers.extend(answer);
        open.missing = open.missing.saturating_sub(1);
        let done = open.missing == 0 && !open.answers.is_empty();
        done.then(|| Value::Array(std::mem::take(&mut open.answers)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_last_answer_sends_all() {
        let seat = BatchSeat::for_requests(3);
        assert_eq!(seat.answer(json!(1)), None);
        assert_eq!(seat.give_up(), None);
        assert_eq!(seat.answer(json!(2)), Some(json!([1, 2])));
    }
}
