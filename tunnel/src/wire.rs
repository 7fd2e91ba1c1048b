//! The wire protocol's shapes: commands in, answers out.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::jsonrpc::{Raw, RawObject, raw};
use crate::limits;

/// Where a command's answer goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// The service's id of the command; opaque.
    pub request_id: String,
    /// The token that routes the answer; opaque, only ever sent in a header.
    pub shard_token: String,
    /// The logical channel.
    pub channel: String,
}

/// What a command asks for.
#[derive(Debug, Clone)]
pub enum Work {
    /// A JSON-RPC message for the MCP server.
    JsonRpc(RawObject),
    /// The end of a session.
    SessionTermination,
    /// A JSON-RPC command without a usable message; why.
    Malformed(String),
}

/// One command of a poll.
#[derive(Debug, Clone)]
pub struct Command {
    /// Where its answer goes.
    pub address: Address,
    /// What it asks for.
    pub work: Work,
    /// When its answer is no longer wanted.
    pub deadline: Option<Instant>,
    /// The value of its `Mcp-Session-Id` header.
    pub session: Option<String>,
}

/// A command that cannot be carried out.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Skipped {
    /// Of a type this client does not know.
    #[error("command {request_id:?} is of the unknown type {command_type:?}")]
    UnknownType {
        /// Its id.
        request_id: String,
        /// Its type.
        command_type: String,
    },
    /// With an id or a token that no answer could carry.
    #[error("command {request_id:?} cannot be answered: its {what} cannot stand in a header")]
    Unanswerable {
        /// Its id.
        request_id: String,
        /// Which of the two.
        what: &'static str,
    },
    /// Without an id or a token, so that it cannot be answered either.
    #[error("a command cannot be read: {0}")]
    Unreadable(String),
}

#[derive(Deserialize)]
struct Envelope {
    commands: Vec<Raw>,
}

#[derive(Deserialize)]
struct WireCommand {
    request_id: String,
    shard_token: String,
    command_type: Option<String>,
    channel: Option<String>,
    #[serde(default)]
    response_timeout: Value,
    #[serde(default)]
    headers: Value,
    jsonrpc: Option<Raw>,
}

/// Reads the body of a poll. One command that cannot be read does not cost the others.
///
/// `received` is when the poll's headers arrived: deadlines count from there.
pub fn parse_poll(
    body: &[u8],
    received: Instant,
) -> Result<Vec<Result<Command, Skipped>>, serde_json::Error> {
    let envelope: Envelope = serde_json::from_slice(body)?;
    let each = envelope.commands.iter();
    Ok(each
        .map(|text| parse_command(text.get(), received))
        .collect())
}

fn parse_command(text: &str, received: Instant) -> Result<Command, Skipped> {
    let wire: WireCommand =
        serde_json::from_str(text).map_err(|e| Skipped::Unreadable(e.to_string()))?;
    // Before the command runs: what it did could not be told to anybody.
    for (what, text) in [
        ("shard token", &wire.shard_token),
        ("request id", &wire.request_id),
    ] {
        if reqwest::header::HeaderValue::from_str(text).is_err() {
            return Err(Skipped::Unanswerable {
                request_id: wire
                    .request_id
                    .chars()
                    .take(limits::SERVICE_TEXT_MAX)
                    .collect(),
                what,
            });
        }
    }
    let work = match wire.command_type.as_deref() {
        None | Some("jsonrpc") => json_rpc_work(wire.jsonrpc.as_ref()),
        Some("session_termination") => Work::SessionTermination,
        Some(other) => {
            return Err(Skipped::UnknownType {
                request_id: wire.request_id,
                command_type: other.to_owned(),
            });
        }
    };
    let channel = wire.channel.filter(|name| !name.is_empty());
    let timeout = wire.response_timeout.as_str().and_then(parse_timeout);
    Ok(Command {
        session: header(&wire.headers, "mcp-session-id"),
        deadline: timeout.and_then(|timeout| received.checked_add(timeout)),
        work,
        address: Address {
            request_id: wire.request_id,
            shard_token: wire.shard_token,
            channel: channel.unwrap_or_else(|| limits::MAIN_CHANNEL.to_owned()),
        },
    })
}

fn json_rpc_work(message: Option<&Raw>) -> Work {
    let Some(message) = message else {
        return Work::Malformed("it carries no message".to_owned());
    };
    match RawObject::parse(message.get().as_bytes()) {
        Ok(message) => Work::JsonRpc(message),
        Err(_) => Work::Malformed("its message is no JSON object".to_owned()),
    }
}

/// The first value of a header, whatever the case of its name.
fn header(headers: &Value, name: &str) -> Option<String> {
    let (_, values) = headers
        .as_object()?
        .iter()
        .find(|(key, _)| key.eq_ignore_ascii_case(name))?;
    let first = values.as_array().and_then(|values| values.first());
    let text = first.unwrap_or(values).as_str()?;
    (!text.is_empty()).then(|| text.to_owned())
}

/// Reads a response time-out: digits and one of `ns us ms s m h`. Anything else, and a value
/// that no clock can hold, is no time-out.
pub fn parse_timeout(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let nanos: u64 = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let total = number.parse::<u64>().ok()?.checked_mul(nanos)?;
    // The protocol's own clients hold durations in 63 bits of nanoseconds.
    (total <= i64::MAX as u64).then(|| Duration::from_nanos(total))
}

/// The kinds of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerKind {
    /// The final result or error of a request.
    JsonrpcResponse,
    /// Progress; not final.
    JsonrpcNotify,
    /// The final acknowledgement of a notification.
    NotifyAck,
    /// The final acknowledgement of the end of a session.
    SessionTerminationResponse,
}

/// An answer, before it is bound to a command.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Its kind.
    pub kind: AnswerKind,
    /// An HTTP-style status.
    pub code: u16,
    /// The JSON-RPC message, for the kinds that carry one.
    pub message: Option<Raw>,
    /// Whether the client made it up because the server gave none.
    pub made_up: Option<Source>,
    /// The process id of the child that ended before it answered.
    pub lost_with: Option<u32>,
}

#[derive(Serialize)]
struct WireAnswer<'a> {
    request_id: &'a str,
    channel: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    resp_json: Option<&'a serde_json::value::RawValue>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    resp_headers: BTreeMap<&'static str, [&'static str; 1]>,
    resp_code: u16,
    resp_type: AnswerKind,
}

impl Answer {
    fn new(kind: AnswerKind, code: u16, message: Option<Raw>) -> Self {
        Self {
            kind,
            code,
            message,
            made_up: None,
            lost_with: None,
        }
    }

    /// The server's own answer.
    pub fn response(message: Raw) -> Self {
        Self::new(AnswerKind::JsonrpcResponse, 200, Some(message))
    }

    /// Progress of a request.
    pub fn notify(message: Raw) -> Self {
        Self::new(AnswerKind::JsonrpcNotify, 200, Some(message))
    }

    /// The acknowledgement of a notification: 202 where the server took it.
    pub fn notify_ack(code: u16) -> Self {
        Self::new(AnswerKind::NotifyAck, code, None)
    }

    /// The end of a session.
    pub fn session_ended(code: u16) -> Self {
        Self::new(AnswerKind::SessionTerminationResponse, code, None)
    }

    /// The body of the POST.
    pub fn to_body(&self, address: &Address) -> Vec<u8> {
        let mut headers = BTreeMap::new();
        match self.kind {
            AnswerKind::JsonrpcResponse => {
                headers.insert("Content-Type", ["application/json"]);
            }
            AnswerKind::JsonrpcNotify => {
                headers.insert("Content-Type", ["text/event-stream"]);
            }
            _ => {}
        }
        let wire = WireAnswer {
            request_id: &address.request_id,
            channel: &address.channel,
            resp_json: self.message.as_deref(),
            resp_headers: headers,
            resp_code: self.code,
            resp_type: self.kind,
        };
        serde_json::to_vec(&wire).unwrap_or_default()
    }
}

/// What a failure made up by the client is blamed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The child could not be started.
    Connect,
    /// The child's pipe closed.
    TransportClosed,
    /// The child did not answer in time.
    Timeout,
    /// The child's answer, or the command, breaks the protocol.
    Protocol,
    /// Something in this client.
    ClientInternal,
}

impl Source {
    /// Whether it says that the server gave no answer to a request that it should have answered.
    pub fn is_servers_silence(self) -> bool {
        matches!(self, Self::Connect | Self::TransportClosed | Self::Timeout)
    }

    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::TransportClosed => "transport_closed",
            Self::Timeout => "timeout",
            Self::Protocol => "protocol",
            Self::ClientInternal => "client_internal",
        }
    }
}

/// A failure made up by the client.
#[derive(Debug, Clone)]
pub struct Failure {
    /// What it is blamed on.
    pub source: Source,
    /// A finer word of the protocol's list.
    pub kind: Option<&'static str>,
    /// The HTTP-style status of the answer.
    pub code: u16,
    /// What happened, and what to do.
    pub message: String,
}

impl Failure {
    /// A failure with the status 502.
    pub fn new(source: Source, kind: Option<&'static str>, message: impl Into<String>) -> Self {
        Self {
            source,
            kind,
            code: 502,
            message: message.into(),
        }
    }

    /// The answer to the request with this id.
    pub fn answer(&self, id: &serde_json::value::RawValue) -> Answer {
        #[derive(Serialize)]
        struct Provenance {
            version: u8,
            source: Source,
            #[serde(skip_serializing_if = "Option::is_none")]
            transport_error_kind: Option<&'static str>,
            upstream_response_received: bool,
        }
        #[derive(Serialize)]
        struct Data {
            tunnel_failure: Provenance,
        }
        let data = Data {
            tunnel_failure: Provenance {
                version: 1,
                source: self.source,
                transport_error_kind: self.kind,
                // Over stdio there is no HTTP response that could have been received.
                upstream_response_received: false,
            },
        };
        let message = crate::jsonrpc::error(id, -32603, &self.message, Some(raw(&data)));
        Answer {
            made_up: Some(self.source),
            ..Answer::new(AnswerKind::JsonrpcResponse, self.code, Some(raw(&message)))
        }
    }
}

/// An honest error in place of a result that is too large to send.
pub fn too_large(id: &serde_json::value::RawValue, size: u64, limit: Option<usize>) -> Answer {
    let bound = match limit {
        Some(limit) => format!("this client posts at most {limit} bytes"),
        None => "the control plane refused it (413)".to_owned(),
    };
    let failure = Failure {
        code: 502,
        ..Failure::new(
            Source::Protocol,
            Some("response_body_too_large"),
            format!(
                "The server answered, but its answer of {size} bytes is too large for the tunnel: \
                 {bound}. What was asked for was done; ask for less of it: a range, a filter, \
                 a smaller picture."
            ),
        )
    };
    failure.answer(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(text: &str) -> Result<Command, Skipped> {
        let body = format!(r#"{{"commands":[{text}]}}"#);
        let mut all = parse_poll(body.as_bytes(), Instant::now()).unwrap();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    #[test]
    fn what_no_answer_could_carry_is_refused_before_it_runs() {
        for bad in ["a\r\nX: y", "a\nb", "\u{0}", "\u{7f}"] {
            for (field, other) in [("shard_token", "request_id"), ("request_id", "shard_token")] {
                let command = serde_json::json!({
                    field: bad, other: "fine", "jsonrpc": {"jsonrpc": "2.0", "method": "x"},
                });
                let found = parse_command(&command.to_string(), Instant::now());
                let error = found.unwrap_err();
                assert!(matches!(error, Skipped::Unanswerable { .. }), "{error:?}");
                assert!(!error.to_string().contains('\n'), "{error}");
            }
        }
    }

    #[test]
    fn timeouts_follow_the_grammar() {
        let good = [
            ("30s", 30_000_000_000),
            ("4500ms", 4_500_000_000),
            ("0s", 0),
            ("1ns", 1),
            ("2us", 2_000),
            ("1m", 60_000_000_000),
            ("01h", 3_600_000_000_000_u64),
        ];
        for (text, nanos) in good {
            assert_eq!(
                parse_timeout(text),
                Some(Duration::from_nanos(nanos)),
                "{text}"
            );
        }
        let bad = [
            "",
            "s",
            "30",
            "4.5s",
            "-1s",
            "+1s",
            "1m30s",
            " 1s",
            "1s ",
            "1e3s",
            "30d",
            "30S",
            "٣s",
            "999999999999999999999999h",
            "9223372037s",
        ];
        for text in bad {
            assert_eq!(parse_timeout(text), None, "{text}");
        }
    }

    #[test]
    fn a_malformed_timeout_is_no_deadline() {
        let base = r#""request_id":"r","shard_token":"t","jsonrpc":{"id":1,"method":"m"}"#;
        for timeout in ["30", "null", "\"1m30s\"", "{}", "\" 1s\""] {
            let command = one(&format!(r#"{{{base},"response_timeout":{timeout}}}"#)).unwrap();
            assert!(command.deadline.is_none(), "{timeout}");
        }
        let command = one(&format!(r#"{{{base},"response_timeout":"0s"}}"#)).unwrap();
        assert!(command.deadline.is_some_and(|at| at <= Instant::now()));
    }

    #[test]
    fn one_bad_command_does_not_cost_the_others() {
        let body = r#"{"commands":[5,{"request_id":"a"},
            {"request_id":"b","shard_token":"t","command_type":"jsonrpc","jsonrpc":[1]},
            {"request_id":"c","shard_token":"t","command_type":"from_the_future","x":1},
            {"request_id":"d","shard_token":"t","jsonrpc":{"method":"m"},"channel":null}]}"#;
        let all = parse_poll(body.as_bytes(), Instant::now()).unwrap();
        assert!(matches!(all[0], Err(Skipped::Unreadable(_))));
        assert!(matches!(all[1], Err(Skipped::Unreadable(_))));
        assert!(matches!(&all[2], Ok(c) if matches!(c.work, Work::Malformed(_))));
        assert!(
            matches!(&all[3], Err(Skipped::UnknownType { request_id, .. }) if request_id == "c")
        );
        assert!(matches!(&all[4], Ok(c) if c.address.channel == "main"));
    }

    #[test]
    fn the_session_is_found_in_any_case() {
        let command = one(
            r#"{"request_id":"r","shard_token":"t","command_type":"session_termination",
            "headers":{"mcp-SESSION-id":["s1","s2"]}}"#,
        );
        assert_eq!(command.unwrap().session.as_deref(), Some("s1"));
    }

    #[test]
    fn the_shard_token_stays_out_of_the_body() {
        let address = Address {
            request_id: "r".into(),
            shard_token: "secret-token".into(),
            channel: "main".into(),
        };
        let failure = Failure::new(Source::TransportClosed, Some("eof"), "gone");
        let id = raw(&0);
        let body = String::from_utf8(failure.answer(&id).to_body(&address)).unwrap();
        assert!(!body.contains("secret-token"));
        let value: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(value["resp_json"]["id"], 0);
        assert_eq!(value["resp_json"]["error"]["code"], -32603);
        let failure = &value["resp_json"]["error"]["data"]["tunnel_failure"];
        assert_eq!(failure["source"], "transport_closed");
        assert_eq!(failure["upstream_response_received"], false);
    }

    proptest! {
        #[test]
        fn any_body_can_come_in(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_poll(&bytes, Instant::now());
        }

        #[test]
        fn any_text_can_be_a_timeout(text in "[0-9a-z+. -]{0,30}") {
            if let Some(timeout) = parse_timeout(&text) {
                prop_assert!(timeout <= Duration::from_nanos(i64::MAX as u64));
                prop_assert!(text.bytes().next().is_some_and(|b| b.is_ascii_digit()));
            }
        }
    }
}
