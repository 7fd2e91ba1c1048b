//! What went over the wire.

use std::time::Instant;

use serde_json::Value;

use crate::Endpoint;

/// One request and its answer, whole.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// When the request had arrived whole.
    pub at: Instant,
    /// Which endpoint; none for a path the service does not know.
    pub endpoint: Option<Endpoint>,
    /// The request's method.
    pub method: String,
    /// The request's path, without the query.
    pub path: String,
    /// The request's query, as it was sent.
    pub query: String,
    /// The request's headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The request's body.
    pub body: Vec<u8>,
    /// The answer's status; none where no answer was given.
    pub status: Option<u16>,
    /// The answer's headers, names in lower case.
    pub answer_headers: Vec<(String, String)>,
    /// The answer's body; empty where there was none.
    pub answer: Vec<u8>,
    /// Whether the answer breaks the contract on purpose.
    pub off_contract: bool,
}

impl Exchange {
    /// The first value of a request header; `name` in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        first(&self.headers, name)
    }

    /// The first value of a header of the answer; `name` in lower case.
    pub fn answer_header(&self, name: &str) -> Option<&str> {
        first(&self.answer_headers, name)
    }

    /// The request's body as JSON.
    pub fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }
}

fn first<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = headers.iter().find(|(key, _)| key == name);
    found.map(|(_, value)| value.as_str())
}

/// One POST to the response endpoint, as the service saw it.
#[derive(Debug, Clone)]
pub struct Post {
    /// When it had arrived whole.
    pub at: Instant,
    /// The payload.
    pub payload: Value,
    /// The shard token of its header.
    pub shard_token: String,
    /// The status it was answered with; none where the connection was dropped.
    pub status: Option<u16>,
    /// Whether the service took it as an answer to its command.
    pub accepted: bool,
}

impl Post {
    /// The payload's `resp_type`.
    pub fn kind(&self) -> &str {
        self.payload["resp_type"]
            .as_str()
            .unwrap_or("jsonrpc_response")
    }

    /// Whether this answer ends its command.
    pub fn is_final(&self) -> bool {
        self.kind() != "jsonrpc_notify"
    }

    /// The JSON-RPC payload; null where there is none.
    pub fn json(&self) -> &Value {
        &self.payload["resp_json"]
    }
}

/// What a command has been answered with so far.
#[derive(Debug, Clone, Default)]
pub struct Answers {
    /// Every POST that named the command, in the order of arrival.
    pub posts: Vec<Post>,
    /// When the command was handed out, each time.
    pub delivered: Vec<Instant>,
}

impl Answers {
    /// Progress that was accepted, in order.
    pub fn notifies(&self) -> Vec<&Post> {
        self.posts
            .iter()
            .filter(|post| post.accepted && !post.is_final())
            .collect()
    }

    /// The final answer that was accepted.
    pub fn last(&self) -> Option<&Post> {
        self.posts
            .iter()
            .find(|post| post.accepted && post.is_final())
    }

    /// How many final answers were sent, accepted or not.
    pub fn finals(&self) -> usize {
        self.posts.iter().filter(|post| post.is_final()).count()
    }
}
