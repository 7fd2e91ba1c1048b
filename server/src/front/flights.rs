//! The requests at work on one connection.

use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio_util::sync::CancellationToken;

use super::batch::BatchSeat;

/// One request at work.
#[derive(Debug, Clone)]
pub struct Flight {
    /// The id that the client gave it.
    pub client_id: Value,
    /// When its line was read.
    pub arrived: Instant,
    /// Fires when the client gives it up, reuses its id, or is gone.
    pub cancel: CancellationToken,
    /// Its place in a batch, if it came in one.
    pub(super) seat: Option<BatchSeat>,
    /// Its id was taken by a newer request: its answer goes nowhere.
    retired: bool,
    /// It only asks whether anybody is there.
    is_ping: bool,
}

/// When a connection was last asked something and when it last answered, other than a ping: those that keep watch send
/// them all the time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pulse {
    /// The last request that came.
    pub asked: Option<Instant>,
    /// The last answer that went.
    pub answered: Option<Instant>,
    /// The arrival of the oldest request at work.
    pub at_work_since: Option<Instant>,
}

/// What becomes of an answer.
#[derive(Debug)]
pub(super) enum Landing {
    /// It goes out.
    Answer(Flight),
    /// Its id belongs to a newer request: nothing may be sent, but its batch is one shorter.
    Retired(Option<BatchSeat>),
    /// It was answered already.
    Unknown,
}

/// All requests at work, by the number they have inside. Cloning shares them.
#[derive(Debug, Clone, Default)]
pub struct Flights(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    next: i64,
    by_number: HashMap<i64, Flight>,
    by_client_id: HashMap<String, i64>,
    asked: Option<Instant>,
    answered: Option<Instant>,
}

impl Flights {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a request in and gives it its number. A request still at work under the same id is
    /// retired and cancelled.
    pub(super) fn depart(&self, client_id: Value, seat: Option<BatchSeat>, is_ping: bool) -> i64 {
        let mut table = self.table();
        table.next += 1;
        let number = table.next;
        let key = client_id.to_string();
        if let Some(old) = table.by_client_id.insert(key, number)
            && let Some(old) = table.by_number.get_mut(&old)
        {
            old.retired = true;
            old.cancel.cancel();
        }
        let arrived = Instant::now();
        if !is_ping {
            table.asked = Some(arrived);
        }
        let flight = Flight {
            client_id,
            arrived,
            cancel: CancellationToken::new(),
            seat,
            retired: false,
            is_ping,
        };
        table.by_number.insert(number, flight);
        number
    }

    /// The request of this number, while it is at work.
    pub fn get(&self, number: i64) -> Option<Flight> {
        self.table().by_number.get(&number).cloned()
    }

    /// Takes a request out that is being answered.
    pub(super) fn land(&self, number: i64) -> Landing {
        let mut table = self.table();
        let Some(flight) = table.by_number.remove(&number) else {
            return Landing::Unknown;
        };
        if flight.retired {
            return Landing::Retired(flight.seat);
        }
        table.by_client_id.remove(&flight.client_id.to_string());
        if !flight.is_ping {
            table.answered = Some(Instant::now());
        }
        Landing::Answer(flight)
    }

    /// Gives up the request with the client's id, if it is at work.
    pub(super) fn cancel(&self, client_id: &Value) {
        let table = self.table();
        let number = table.by_client_id.get(&client_id.to_string());
        if let Some(flight) = number.and_then(|n| table.by_number.get(n)) {
            flight.cancel.cancel();
        }
    }

    /// Gives up everything.
    pub fn cancel_all(&self) {
        for flight in self.table().by_number.values() {
            flight.cancel.cancel();
        }
    }

    /// Whether nothing is at work.
    pub fn is_empty(&self) -> bool {
        self.table().by_number.is_empty()
    }

    /// When it was last asked and last answered.
    pub fn pulse(&self) -> Pulse {
        let table = self.table();
        let at_work = table.by_number.values().filter(|flight| !flight.is_ping);
        Pulse {
            asked: table.asked,
            answered: table.answered,
            at_work_since: at_work.map(|flight| flight.arrived).min(),
        }
    }

    /// How many requests are at work.
    pub fn len(&self) -> usize {
        self.table().by_number.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_id_that_comes_again_retires_the_first() {
        let flights = Flights::default();
        let first = flights.depart(json!(0), None, false);
        let token = flights.get(first).unwrap().cancel;
        let second = flights.depart(json!(0), None, false);
        assert!(token.is_cancelled());
        assert!(!flights.get(second).unwrap().cancel.is_cancelled());
        let late = flights.land(first);
        assert!(matches!(late, Landing::Retired(None)), "{late:?}");
        assert!(matches!(flights.land(second), Landing::Answer(_)));
        assert!(flights.is_empty());
    }

    #[test]
    fn zero_and_the_string_zero_are_two_ids() {
        let flights = Flights::default();
        let number = flights.depart(json!(0), None, false);
        let text = flights.depart(json!("0"), None, false);
        assert!(!flights.get(number).unwrap().cancel.is_cancelled());
        flights.cancel(&json!("0"));
        assert!(flights.get(text).unwrap().cancel.is_cancelled());
        assert!(!flights.get(number).unwrap().cancel.is_cancelled());
    }

    #[test]
    fn each_is_answered_once() {
        let flights = Flights::default();
        let number = flights.depart(json!("x"), None, false);
        assert!(matches!(flights.land(number), Landing::Answer(_)));
        assert!(matches!(flights.land(number), Landing::Unknown));
        flights.cancel(&json!("x"));
    }

    #[test]
    fn the_pulse_counts_what_is_no_ping() {
        let flights = Flights::default();
        assert_eq!(flights.pulse(), Pulse::default());
        let ping = flights.depart(json!(1), None, true);
        flights.land(ping);
        assert_eq!(flights.pulse(), Pulse::default());
        let first = flights.depart(json!(2), None, false);
        let second = flights.depart(json!(3), None, false);
        let arrived = |number| flights.get(number).map(|flight| flight.arrived);
        let pulse = flights.pulse();
        assert_eq!(pulse.at_work_since, arrived(first));
        assert_eq!((pulse.asked, pulse.answered), (arrived(second), None));
        flights.land(first);
        let pulse = flights.pulse();
        assert_eq!(pulse.at_work_since, arrived(second));
        assert!(pulse.answered >= pulse.asked);
    }
}
