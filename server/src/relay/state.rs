//! What a relay remembers: the handshake, the requests at work, the messages that wait.

use crate::front::{Inbound, Piece, Rejection, code, id_in_prefix, parse};
use serde_json::{Map, Value, json};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// What becomes of something that the client sent.
#[derive(Debug, PartialEq)]
pub enum Relayed {
    /// It goes to the server.
    Forward(Vec<u8>),
    /// It is answered here.
    Answer(Vec<u8>),
    /// Nothing is to be done.
    Nothing,
}

/// What one relay knows of its client's conversation with the server.
#[derive(Debug)]
pub struct State {
    /// The id of the handshake's replay: the client, who cannot know it, must not see its answer.
    replay_id: String,
    /// The client's last `initialize`, to be replayed.
    initialize: Option<Map<String, Value>>,
    initialized: bool,
    /// Requests that the server has and has not answered, with how many carry the id.
    at_work: HashMap<String, Value>,
    waiting: VecDeque<(Instant, Vec<u8>)>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            replay_id: format!("hands-relay-{}", Uuid::now_v7()),
            initialize: None,
            initialized: false,
            at_work: HashMap::new(),
            waiting: VecDeque::new(),
        }
    }
}

impl State {
    /// The id of the handshake's replay.
    pub fn replay_id(&self) -> &str {
        &self.replay_id
    }

    /// Judges what the client sent.
    pub fn take(&mut self, piece: Piece) -> Relayed {
        let line = match piece {
            Piece::Line(line) => line,
            Piece::Oversized { prefix, length } => {
                let message = format!(
                    "the line has {length} bytes, over this server's limit for one message"
                );
                let rejection =
                    Rejection::new(id_in_prefix(&prefix), code::INVALID_REQUEST, message);
                return Relayed::Answer(rejection.to_value().to_string().into_bytes());
            }
        };
        match parse(&line) {
            None | Some(Inbound::Answer) => Relayed::Nothing,
            Some(Inbound::Rejected(rejection)) => {
                Relayed::Answer(rejection.to_value().to_string().into_bytes())
            }
            Some(_) => Relayed::Forward(line),
        }
    }

    /// Notes that the server has this line now.
    pub fn sent(&mut self, line: &[u8]) {
        match parse(line) {
            Some(Inbound::Request { id, message }) => self.request_sent(id, message),
            Some(Inbound::Notification(message)) => {
                self.initialized |= method(&message) == "notifications/initialized";
            }
            Some(Inbound::Batch(items)) => {
                for item in items {
                    self.sent(item.to_string().as_bytes());
                }
            }
            _ => {}
        }
    }

    fn request_sent(&mut self, id: Value, message: Map<String, Value>) {
        if id == self.replay_id.as_str() {
            return;
        }
        if method(&message) == "initialize" {
            self.initialize = Some(message);
            self.initialized = false;
        }
        self.at_work.insert(id.to_string(), id);
    }

    /// Keeps a line until there is a server again.
    pub fn wait(&mut self, line: Vec<u8>) {
        self.waiting.push_back((Instant::now(), line));
    }

    /// How many lines wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Since when the oldest line waits.
    pub fn oldest_waiting(&self) -> Option<Instant> {
        self.waiting.front().map(|(at, _)| *at)
    }

    /// Notes the server's line; gives it back if it is for the client.
    pub fn answered(&mut self, line: Vec<u8>) -> Option<Vec<u8>> {
        if line.first() == Some(&b'[') {
            let answers: Vec<Value> = serde_json::from_slice(&line).unwrap_or_default();
            for id in answers.iter().filter_map(|answer| answer.get("id")) {
                self.at_work.remove(&id.to_string());
            }
            return Some(line);
        }
        // The server writes the id before the result: a large one is not looked through.
        let id = id_in_prefix(&line);
        if id == self.replay_id.as_str() {
            return None;
        }
        self.at_work.remove(&id.to_string());
        Some(line)
    }

    /// The server died: what it had is answered, once.
    pub fn server_is_gone(&mut self) -> Vec<Vec<u8>> {
        let lost = std::mem::take(&mut self.at_work);
        let error = |id| {
            failure(
                id,
                "the Hands server was restarted while this was at work; nothing is known of its \
                 effect: check before repeating it",
            )
        };
        lost.into_values().map(error).collect()
    }

    /// Answers what has waited too long.
    pub fn expire(&mut self, patience: Duration) -> Vec<Vec<u8>> {
        let mut answers = Vec::new();
        while self
            .oldest_waiting()
            .is_some_and(|at| at.elapsed() >= patience)
        {
            let Some((_, line)) = self.waiting.pop_front() else {
                break;
            };
            let error = |id| {
                failure(
                    id,
                    &format!(
                        "the Hands server is not running (waited {} s); nothing was done. On this \
                         machine: handsctl status",
                        patience.as_secs()
                    ),
                )
            };
            answers.extend(requests_in(&line).into_iter().map(error));
        }
        answers
    }

    /// What a new server is told first: the handshake, and what waited.
    pub fn replay(&mut self) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        let waits_already = self.waiting.iter().any(|(_, line)| initializes(line));
        if let Some(mut message) = self.initialize.clone()
            && !waits_already
        {
            message.insert("id".into(), json!(self.replay_id));
            lines.push(Value::Object(message).to_string().into_bytes());
            if self.initialized {
                let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
                lines.push(done.to_string().into_bytes());
            }
        }
        lines.extend(self.waiting.drain(..).map(|(_, line)| line));
        lines
    }
}

/// Whether this line is an `initialize`.
fn initializes(line: &[u8]) -> bool {
    // Most lines need not be read whole to know.
    memchr::memmem::find(line, b"\"initialize\"").is_some()
        && serde_json::from_slice::<Map<String, Value>>(line)
            .is_ok_and(|message| method(&message) == "initialize")
}

fn method(message: &Map<String, Value>) -> &str {
    message.get("method").and_then(Value::as_str).unwrap_or("")
}

fn requests_in(line: &[u8]) -> Vec<Value> {
    match parse(line) {
        Some(Inbound::Request { id, .. }) => vec![id],
        Some(Inbound::Batch(items)) => items
            .iter()
            .flat_map(|item| requests_in(item.to_string().as_bytes()))
            .collect(),
        _ => Vec::new(),
    }
}

fn failure(id: Value, message: &str) -> Vec<u8> {
    const INTERNAL: i32 = -32603;
    let rejection = Rejection::new(id, INTERNAL, message);
    rejection.to_value().to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(value: Value) -> Vec<u8> {
        value.to_string().into_bytes()
    }

    fn request(id: Value, method: &str) -> Vec<u8> {
        line(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"a": 1}}))
    }

    fn ids(lines: &[Vec<u8>]) -> Vec<Value> {
        let id = |line: &Vec<u8>| serde_json::from_slice::<Value>(line).unwrap()["id"].clone();
        lines.iter().map(id).collect()
    }

    #[test]
    fn what_a_dead_server_had_is_answered_once() {
        let mut state = State::default();
        state.sent(&request(json!(0), "tools/call"));
        state.sent(&request(json!("0"), "tools/call"));
        state.sent(&request(json!(2), "tools/call"));
        let answer = line(json!({"jsonrpc": "2.0", "id": 2, "result": {}}));
        assert_eq!(state.answered(answer.clone()), Some(answer));
        let mut lost = ids(&state.server_is_gone());
        lost.sort_by_key(Value::to_string);
        assert_eq!(lost, [json!("0"), json!(0)]);
        assert!(state.server_is_gone().is_empty());
    }

    #[test]
    fn the_handshake_is_replayed_and_its_answer_kept_from_the_client() {
        let mut state = State::default();
        assert!(state.replay().is_empty());
        state.sent(&request(json!(0), "initialize"));
        state.sent(&line(
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        ));
        state.answered(line(json!({"jsonrpc": "2.0", "id": 0, "result": {}})));
        state.wait(request(json!(5), "tools/list"));
        let replayed = state.replay();
        assert_eq!(
            ids(&replayed),
            [json!(state.replay_id()), Value::Null, json!(5)]
        );
        replayed.iter().for_each(|line| state.sent(line));
        let answer = line(json!({"jsonrpc": "2.0", "id": state.replay_id(), "result": {}}));
        assert_eq!(state.answered(answer), None);
        assert_eq!(ids(&state.server_is_gone()), [json!(5)]);
        // And it can be replayed again.
        assert_eq!(ids(&state.replay())[0], json!(state.replay_id()));
    }

    #[test]
    fn an_answered_id_of_any_length_is_not_answered_again() {
        let mut state = State::default();
        for length in [0, 4095, 4096, 6000, 1 << 20] {
            let id = json!("i".repeat(length));
            state.sent(&request(id.clone(), "ping"));
            let answer = line(json!({"jsonrpc": "2.0", "id": id, "result": {"id": 7}}));
            assert!(state.answered(answer).is_some());
            assert!(state.server_is_gone().is_empty(), "{length}");
        }
    }

    #[test]
    fn a_number_that_needs_rounding_is_one_id_however_often_it_is_written() {
        let written = [
            "4444444444444444444444444444444441.5",
            "-0",
            "1.0",
            "0.1e-6",
            "123456789012345678901234567890",
            "7.0420557077594588669468784357561207962098443483187940792729600000e+59",
        ];
        for id in written {
            let mut state = State::default();
            state.sent(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#).as_bytes());
            let read: Value = serde_json::from_str(id).unwrap();
            let answer = line(json!({"jsonrpc": "2.0", "id": read, "result": {}}));
            assert!(state.answered(answer).is_some());
            assert!(state.server_is_gone().is_empty(), "{id}");
        }
    }

    #[test]
    fn a_client_that_waits_to_initialize_anew_gets_its_own_answer() {
        let mut state = State::default();
        state.sent(&request(json!(0), "initialize"));
        state.wait(request(json!(1), "initialize"));
        assert_eq!(ids(&state.replay()), [json!(1)]);
    }

    #[test]
    fn what_waited_too_long_is_answered() {
        let mut state = State::default();
        state.wait(request(json!(1), "tools/list"));
        state.wait(line(json!([{"jsonrpc": "2.0", "id": 2, "method": "ping"}])));
        assert!(state.expire(Duration::from_secs(60)).is_empty());
        assert_eq!(ids(&state.expire(Duration::ZERO)), [json!(1), json!(2)]);
        assert_eq!(state.waiting(), 0);
    }

    #[test]
    fn what_is_no_message_is_answered_here() {
        let mut state = State::default();
        assert!(matches!(
            state.take(Piece::Line(b"nonsense".to_vec())),
            Relayed::Answer(_)
        ));
        assert_eq!(state.take(Piece::Line(b"".to_vec())), Relayed::Nothing);
        let ping = request(json!(1), "ping");
        assert_eq!(
            state.take(Piece::Line(ping.clone())),
            Relayed::Forward(ping)
        );
    }
}
