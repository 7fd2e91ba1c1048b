//! What a relay remembers, over any course of events.
//!
//! An input is lines, each an event by its first byte: `c` the client says the rest, `s` the server says
//! it, `d` the server dies, `b` a server is back, `x` what waits has waited too long.
#![no_main]

use hands_server::front::{Inbound, Piece, parse};
use hands_server::relay::state::{Relayed, State};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use std::collections::HashMap;
use std::time::Duration;

#[derive(Default)]
struct Course {
    state: State,
    connected: bool,
    /// Requests that the relay took, by id, without the errors it gave.
    open: HashMap<String, i64>,
}

fuzz_target!(|data: &[u8]| {
    let mut course = Course::default();
    for line in data.split(|byte| *byte == b'\n') {
        if let Some((event, said)) = line.split_first() {
            course.event(*event, said);
        }
    }
    course.event(b'd', b"");
    course.event(b'x', b"");
    assert_eq!(course.state.waiting(), 0);
    assert!(
        course.state.server_is_gone().is_empty(),
        "an answer was given twice"
    );
});

impl Course {
    fn event(&mut self, event: u8, said: &[u8]) {
        match event {
            b'c' => self.client(said.to_vec()),
            b's' if self.connected => {
                if let Some(line) = self.state.answered(said.to_vec()) {
                    assert_eq!(line, said, "the server's words were changed");
                }
            }
            b'd' => {
                self.connected = false;
                let answers = self.state.server_is_gone();
                self.answered(&answers);
            }
            b'b' if !self.connected => {
                self.connected = true;
                let replayed = self.state.replay();
                replayed.iter().for_each(|line| self.state.sent(line));
                assert_eq!(self.state.waiting(), 0);
            }
            b'x' => {
                let answers = self.state.expire(Duration::ZERO);
                self.answered(&answers);
            }
            _ => {}
        }
    }

    fn client(&mut self, line: Vec<u8>) {
        match self.state.take(Piece::Line(line)) {
            Relayed::Forward(line) => {
                for id in ids(&line) {
                    *self.open.entry(id).or_default() += 1;
                }
                match self.connected {
                    true => self.state.sent(&line),
                    false => self.state.wait(line),
                }
            }
            Relayed::Answer(answer) => assert!(!answer.contains(&b'\n'), "an answer is one line"),
            Relayed::Nothing => {}
        }
    }

    /// No error without a request, none for the relay's own.
    fn answered(&mut self, answers: &[Vec<u8>]) {
        for answer in answers {
            let answer: Value = serde_json::from_slice(answer).expect("an answer is JSON");
            assert!(answer["error"]["code"].is_i64());
            assert_ne!(answer["id"], self.state.replay_id());
            let open = self.open.entry(answer["id"].to_string()).or_default();
            *open -= 1;
            assert!(*open >= 0, "more errors than requests for {}", answer["id"]);
        }
    }
}

/// The ids of the requests in a line.
fn ids(line: &[u8]) -> Vec<String> {
    match parse(line) {
        Some(Inbound::Request { id, .. }) => vec![id.to_string()],
        Some(Inbound::Batch(items)) => items
            .iter()
            .flat_map(|item| ids(item.to_string().as_bytes()))
            .collect(),
        _ => Vec::new(),
    }
}
