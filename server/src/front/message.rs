//! What a line from the client is, judged before rmcp sees it.

use serde_json::{Map, Value};

/// JSON-RPC's own error codes.
pub mod code {
    /// The line is not JSON.
    pub const PARSE: i32 = -32700;
    /// JSON, but no message.
    pub const INVALID_REQUEST: i32 = -32600;
    /// A known method with parameters of the wrong shape.
    pub const INVALID_PARAMS: i32 = -32602;
}

/// A line, classified.
#[derive(Debug, Clone, PartialEq)]
pub enum Inbound {
    /// Wants an answer.
    Request {
        /// The client's id: a string or a number.
        id: Value,
        /// The whole message.
        message: Map<String, Value>,
    },
    /// `notifications/cancelled` for this id.
    Cancel {
        /// The id of the request that is given up.
        id: Value,
    },
    /// Any other notification.
    Notification(Map<String, Value>),
    /// An answer to a request that was never made; nothing is to be done.
    Answer,
    /// Several messages in one line.
    Batch(Vec<Value>),
    /// To be answered with an error at once.
    Rejected(Rejection),
}

/// An error of the protocol's own.
#[derive(Debug, Clone, PartialEq)]
pub struct Rejection {
    /// The id it answers; null when none could be read.
    pub id: Value,
    /// One of [`code`].
    pub code: i32,
    /// What was wrong.
    pub message: String,
}

impl Rejection {
    /// An error answering `id`.
    pub fn new(id: Value, code: i32, message: impl Into<String>) -> Self {
        Self {
            id,
            code,
            message: message.into(),
        }
    }

    /// The message that goes out.
    pub fn to_value(&self) -> Value {
        serde_json::json!({
            "jsonrpc": "2.0",
            "id": self.id,
            "error": { "code": self.code, "message": self.message },
        })
    }
}

/// Parses and classifies one line. `None` for a blank one.
pub fn parse(line: &[u8]) -> Option<Inbound> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    if line.trim_ascii().is_empty() {
        return None;
    }
    Some(
        match serde_json::from_slice(line).or_else(|e| repaired(line).ok_or(e)) {
            Ok(value) => classify(value),
            Err(e) => Inbound::Rejected(Rejection::new(
                id_in_prefix(line),
                code::PARSE,
                format!("the line is not JSON: {e}"),
            )),
        },
    )
}

/// A line as it was meant: half a surrogate pair (an emoji that a client cut in two) and bytes
/// that are not UTF-8 are read as U+FFFD. `None` when it is no JSON even then.
fn repaired(line: &[u8]) -> Option<Value> {
    let text = String::from_utf8_lossy(line);
    let mut fixed = String::with_capacity(text.len());
    let mut rest = text.as_ref();
    while let Some(at) = rest.find('\\') {
        fixed.push_str(&rest[..at]);
        rest = &rest[at..];
        let (escape, used) = match (unit(rest), rest.get(6..).and_then(unit)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => (&rest[..12], 12),
            (Some(0xD800..=0xDFFF), _) => ("\\ufffd", 6),
            // Any other escape is two characters at least, and nothing in it matters here.
            _ => {
                let used = rest.char_indices().nth(2).map_or(rest.len(), |(at, _)| at);
                (&rest[..used], used)
            }
        };
        fixed.push_str(escape);
        rest = &rest[used..];
    }
    fixed.push_str(rest);
    serde_json::from_str(&fixed).ok()
}

/// The UTF-16 unit that `\uXXXX` at the beginning of `text` stands for.
fn unit(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
    hex.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

/// What a JSON value from the client is.
pub fn classify(value: Value) -> Inbound {
    match value {
        Value::Object(message) => classify_object(message),
        Value::Array(items) if !items.is_empty() => Inbound::Batch(items),
        Value::Array(_) => reject(Value::Null, "a batch holds at least one message"),
        _ => reject(Value::Null, "a message is a JSON object"),
    }
}

fn reject(id: Value, message: &str) -> Inbound {
    Inbound::Rejected(Rejection::new(id, code::INVALID_REQUEST, message))
}

fn classify_object(mut message: Map<String, Value>) -> Inbound {
    let id = message.get("id").cloned();
    let usable = id.clone().filter(|id| id.is_string() || id.is_number());
    let answer_to = usable.clone().unwrap_or(Value::Null);
    if !message.contains_key("method")
        && (message.contains_key("result") || message.contains_key("error"))
    {
        return Inbound::Answer;
    }
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return reject(answer_to, "`jsonrpc` must be \"2.0\"");
    }
    let Some(method) = message.get("method").and_then(Value::as_str) else {
        return reject(answer_to, "`method` must be a string");
    };
    match (id, usable) {
        (None, _) if method == "notifications/cancelled" => {
            let id = message.get("params").and_then(|p| p.get("requestId"));
            Inbound::Cancel {
                id: id.cloned().unwrap_or(Value::Null),
            }
        }
        (None, _) => Inbound::Notification(message),
        (Some(_), None) => reject(Value::Null, "`id` must be a string or a number"),
        (Some(_), Some(id)) => {
            drop_null_params(&mut message);
            Inbound::Request { id, message }
        }
    }
}

/// `"params": null` is not JSON-RPC, but clients send it and mean that there are none.
fn drop_null_params(message: &mut Map<String, Value>) {
    if message.get("params").is_some_and(Value::is_null) {
        message.shift_remove("params");
    }
}

/// The id of a line that was too long to keep: looked for in its beginning, as the value of an
/// `"id"` key that is not inside a string or a deeper object.
pub fn id_in_prefix(prefix: &[u8]) -> Value {
    let mut depth = 0usize;
    let mut at = 0usize;
    while let Some(&byte) = prefix.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let Some(end) = string_end(prefix, at) else {
                    return Value::Null;
                };
                if depth == 1
                    && &prefix[at..end] == b"\"id\""
                    && let Some(id) = value_after_colon(&prefix[end..])
                {
                    return id;
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    Value::Null
}

/// The index behind the closing quote of the string that opens at `start`.
fn string_end(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match text.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
}

fn value_after_colon(rest: &[u8]) -> Option<Value> {
    let rest = rest.trim_ascii_start().strip_prefix(b":")?;
    let id = serde_json::Deserializer::from_slice(rest)
        .into_iter::<Value>()
        .next()?
        .ok()?;
    (id.is_string() || id.is_number()).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rejected(line: &str) -> (Value, i32) {
        match parse(line.as_bytes()) {
            Some(Inbound::Rejected(r)) => (r.id, r.code),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn what_is_no_message_is_answered_with_the_id_where_there_is_one() {
        assert_eq!(rejected("{"), (Value::Null, code::PARSE));
        assert_eq!(rejected("hello"), (Value::Null, code::PARSE));
        assert_eq!(rejected("3"), (Value::Null, code::INVALID_REQUEST));
        assert_eq!(rejected("[]"), (Value::Null, code::INVALID_REQUEST));
        assert_eq!(rejected(r#"{"id":4}"#), (json!(4), code::INVALID_REQUEST));
        assert_eq!(
            rejected(r#"{"jsonrpc":"2.0","id":"a","method":5}"#),
            (json!("a"), code::INVALID_REQUEST)
        );
        assert_eq!(
            rejected(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#),
            (Value::Null, code::INVALID_REQUEST)
        );
        assert_eq!(
            rejected(r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#),
            (Value::Null, code::INVALID_REQUEST)
        );
    }

    #[test]
    fn half_an_emoji_and_stray_bytes_are_read_as_replacements() {
        let meant = |line: &[u8]| match parse(line) {
            Some(Inbound::Request { id, message }) => {
                assert_eq!(id, json!(1));
                message["method"].as_str().unwrap().to_string()
            }
            other => panic!("{other:?}"),
        };
        let line = |method: &[u8]| {
            let parts: [&[u8]; 3] = [br#"{"jsonrpc":"2.0","id":1,"method":""#, method, br#""}"#];
            parts.concat()
        };
        assert_eq!(meant(&line(br"a\ud83d")), "a\u{fffd}");
        assert_eq!(meant(&line(br"\ude42b")), "\u{fffd}b");
        assert_eq!(meant(&line(br"\ud83dx\ud83d\ude42")), "\u{fffd}x\u{1f642}");
        assert_eq!(meant(&line(br"\\ud83d\ud83d")), "\\ud83d\u{fffd}");
        assert_eq!(meant(&line(b"a\xffb")), "a\u{fffd}b");
    }

    #[test]
    fn a_line_that_is_no_json_is_answered_under_its_id() {
        let deep = format!(r#"{{"jsonrpc":"2.0","id":7,"params":{}"#, "[".repeat(500));
        assert_eq!(rejected(&deep), (json!(7), code::PARSE));
        assert_eq!(
            rejected(r#"{"id":"x","method":"#),
            (json!("x"), code::PARSE)
        );
    }

    #[test]
    fn ids_of_every_kind_are_kept() {
        for id in [
            json!(0),
            json!(-1),
            json!(""),
            json!("x"),
            json!(u64::MAX),
            json!(1.5),
        ] {
            let line = json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string();
            match parse(line.as_bytes()) {
                Some(Inbound::Request { id: got, .. }) => assert_eq!(got, id),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn blank_lines_are_nothing_and_answers_are_ignored() {
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"  \r"), None);
        assert_eq!(
            parse(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
            Some(Inbound::Answer)
        );
    }

    #[test]
    fn cancellation_names_its_request() {
        let line =
            br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}"#;
        assert_eq!(parse(line), Some(Inbound::Cancel { id: json!(0) }));
    }

    #[test]
    fn the_id_of_a_line_cut_short_is_found() {
        let find = |text: &str| id_in_prefix(text.as_bytes());
        assert_eq!(find(r#"{"jsonrpc":"2.0","id":7,"method":"#), json!(7));
        assert_eq!(find(r#"{ "id" : "a\"b" ,"#), json!("a\"b"));
        assert_eq!(find(r#"{"params":{"id":3,"x":"#), Value::Null);
        assert_eq!(find(r#"{"x":"\"id\":5","id":6,"#), json!(6));
        assert_eq!(find(r#"{"x":"unfinished "#), Value::Null);
        assert_eq!(find(""), Value::Null);
    }
}
