//! JSON-RPC messages, rewritten without being reinterpreted.
//!
//! A message passes with every byte of its payload as it came: only the members that the
//! tunnel must change (the id, a progress token) are replaced. So a message is held as a list
//! of its members in their order, each as raw text.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

/// A piece of JSON, as it was written.
pub type Raw = Box<RawValue>;

/// Turns any serializable value into raw JSON; `null` where it cannot be written as JSON.
pub fn raw(value: &impl Serialize) -> Raw {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// A JSON object as a list of its members.
#[derive(Debug, Clone, Default)]
pub struct RawObject(Vec<(String, Raw)>);

impl RawObject {
    /// Reads an object; an error for anything else.
    pub fn parse(text: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// The member's text.
    pub fn get(&self, name: &str) -> Option<&RawValue> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| &**value)
    }

    /// Replaces a member in its place, or adds it; a second one of the name goes.
    pub fn set(&mut self, name: &str, value: Raw) {
        let Some(at) = self.0.iter().position(|(key, _)| key == name) else {
            self.0.push((name.to_owned(), value));
            return;
        };
        self.0[at].1 = value;
        let mut index = 0;
        self.0.retain(|(key, _)| {
            index += 1;
            key != name || index == at + 1
        });
    }

    /// The member as a string.
    pub fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    /// The member as an object.
    pub fn object(&self, name: &str) -> Option<Self> {
        Self::parse(self.get(name)?.get().as_bytes()).ok()
    }

    /// The message on one line, as stdio wants it. JSON may hold line breaks between its
    /// tokens, never inside a string, so each of them may become a space.
    pub fn to_line(&self) -> Vec<u8> {
        let mut line = self.to_bytes();
        for byte in &mut line {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        line.push(b'\n');
        line
    }

    /// The message as JSON.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = RawObject;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawObject, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry::<String, Raw>()? {
                    members.push(member);
                }
                Ok(RawObject(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

impl Serialize for RawObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// What a message is, by its members alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Has a method and an id.
    Request,
    /// Has a method and no id.
    Notification,
    /// Has an id and a result or an error.
    Response,
    /// None of these.
    Other,
}

/// Tells what a message is. An id of `null` is no id.
pub fn shape(message: &RawObject) -> Shape {
    let id = message.get("id").is_some_and(|id| id.get() != "null");
    let method = message.text("method").is_some();
    let outcome = message.get("result").is_some() || message.get("error").is_some();
    match (method, id, outcome) {
        (true, true, _) => Shape::Request,
        (true, false, _) => Shape::Notification,
        (false, true, true) => Shape::Response,
        _ => Shape::Other,
    }
}

/// The progress token that a request carries in `params._meta`.
pub fn progress_token(request: &RawObject) -> Option<Raw> {
    let meta = request.object("params")?.object("_meta")?;
    let token = meta.get("progressToken")?;
    (token.get() != "null").then(|| token.to_owned())
}

/// Replaces the progress token of a request that has one.
pub fn set_progress_token(request: &mut RawObject, token: Raw) {
    let Some(mut params) = request.object("params") else {
        return;
    };
    let Some(mut meta) = params.object("_meta") else {
        return;
    };
    meta.set("progressToken", token);
    params.set("_meta", raw(&meta));
    request.set("params", raw(&params));
}

/// Builds a notification.
pub fn notification(method: &str, params: &impl Serialize) -> RawObject {
    let mut message = RawObject::default();
    message.set("jsonrpc", raw(&"2.0"));
    message.set("method", raw(&method));
    message.set("params", raw(params));
    message
}

/// Builds an error answer to the id.
pub fn error(id: &RawValue, code: i64, message: &str, data: Option<Raw>) -> RawObject {
    let mut error = RawObject::default();
    error.set("code", raw(&code));
    error.set("message", raw(&message));
    if let Some(data) = data {
        error.set("data", data);
    }
    let mut answer = RawObject::default();
    answer.set("jsonrpc", raw(&"2.0"));
    answer.set("id", id.to_owned());
    answer.set("error", raw(&error));
    answer
}

/// Finds the id in a line of which only the head and the end are left.
///
/// The head is read as far as it goes: an `id` between the outer braces is taken. Servers that
/// write the id last are found by the line's end.
pub fn id_of_cut_line(head: &[u8], tail: &[u8]) -> Option<u64> {
    id_in_head(head).or_else(|| id_at_end(tail))
}

fn id_in_head(head: &[u8]) -> Option<u64> {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < head.len() {
        match head[at] {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            b'"' => {
                let end = string_end(head, at)?;
                let is_id = depth == 1 && &head[at..end] == b"\"id\"";
                if let Some(number) = is_id.then(|| member_number(&head[end..])).flatten() {
                    return Some(number);
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// The index after the string's closing quote.
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

/// The number after a member's colon, where more text follows it.
fn member_number(text: &[u8]) -> Option<u64> {
    let text = text
        .trim_ascii_start()
        .strip_prefix(b":")?
        .trim_ascii_start();
    let length = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let ends = matches!(text.get(length)?, b',' | b'}' | b' ');
    if !ends {
        return None;
    }
    std::str::from_utf8(&text[..length]).ok()?.parse().ok()
}

fn id_at_end(tail: &[u8]) -> Option<u64> {
    let text = tail.trim_ascii_end().strip_suffix(b"}")?.trim_ascii_end();
    let digits = text.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let (before, number) = text.split_at(text.len() - digits);
    let before = before.trim_ascii_end().strip_suffix(b":")?.trim_ascii_end();
    // A closing brace of a nested object looks the same; the comma before the key and the
    // single brace after it leave that only to a server that nests an id last, twice.
    before.ends_with(b",\"id\"").then_some(())?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn object(text: &str) -> RawObject {
        RawObject::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn only_the_id_changes() {
        let text = r#"{"b":1.0,"id":"x", "a":{"n":123456789012345678901234567890,"e":1e400}}"#;
        let mut message = object(text);
        message.set("id", raw(&7));
        let expected = r#"{"b":1.0,"id":7,"a":{"n":123456789012345678901234567890,"e":1e400}}"#;
        assert_eq!(message.to_bytes(), expected.as_bytes());
    }

    #[test]
    fn a_second_id_cannot_survive() {
        let mut message = object(r#"{"id":1,"x":2,"id":3,"id":4}"#);
        message.set("id", raw(&9));
        assert_eq!(message.to_bytes(), br#"{"id":9,"x":2}"#);
    }

    #[test]
    fn shapes() {
        let cases = [
            (r#"{"id":0,"method":"a"}"#, Shape::Request),
            (r#"{"id":null,"method":"a"}"#, Shape::Notification),
            (r#"{"method":"a"}"#, Shape::Notification),
            (r#"{"id":"","result":{}}"#, Shape::Response),
            (r#"{"id":1,"error":{}}"#, Shape::Response),
            (r#"{"id":1}"#, Shape::Other),
            (r#"{"id":1,"method":5}"#, Shape::Other),
            ("{}", Shape::Other),
        ];
        for (text, expected) in cases {
            assert_eq!(shape(&object(text)), expected, "{text}");
        }
    }

    #[test]
    fn progress_tokens_are_replaced_in_place() {
        let mut request =
            object(r#"{"params":{"name":"x","_meta":{"a":1,"progressToken":"t"},"z":2}}"#);
        assert_eq!(progress_token(&request).unwrap().get(), "\"t\"");
        set_progress_token(&mut request, raw(&5));
        let expected = r#"{"params":{"name":"x","_meta":{"a":1,"progressToken":5},"z":2}}"#;
        assert_eq!(request.to_bytes(), expected.as_bytes());
        assert!(progress_token(&object(r#"{"params":[1]}"#)).is_none());
    }

    #[test]
    fn a_line_holds_no_line_break() {
        let line = object("{\"a\":{\n \"b\": \"c\\n\"\r}}").to_line();
        assert_eq!(line.iter().filter(|b| **b == b'\n').count(), 1);
        let back: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(back["a"]["b"], "c\n");
    }

    #[test]
    fn the_id_of_a_cut_line_is_found() {
        let cases: [(&str, &str, Option<u64>); 6] = [
            (
                r#"{"jsonrpc":"2.0","id":42,"result":{"x":"aa"#,
                "",
                Some(42),
            ),
            (r#"{"result":{"id":7,"x":"aa"#, "aaa\"},\"id\":9}", Some(9)),
            (r#"{"result":{"id":7,"x":"aa"#, "aaa", None),
            (r#"{"a":"\"id\":3","id":4,"r":"#, "", Some(4)),
            (r#"{"id":12"#, "", None),
            ("not json", "at all", None),
        ];
        for (head, tail, expected) in cases {
            let found = id_of_cut_line(head.as_bytes(), tail.as_bytes());
            assert_eq!(found, expected, "{head} … {tail}");
        }
    }

    proptest! {
        #[test]
        fn anything_can_come_in(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = RawObject::parse(&bytes).map(|message| shape(&message));
            let _ = id_of_cut_line(&bytes, &bytes);
        }

        #[test]
        fn a_rewritten_message_keeps_its_payload(id in any::<u64>(), text in ".*") {
            let original = serde_json::json!({"id": "old", "method": "m", "params": {"t": text}});
            let mut message = RawObject::parse(original.to_string().as_bytes()).unwrap();
            message.set("id", raw(&id));
            let back: serde_json::Value = serde_json::from_slice(&message.to_line()).unwrap();
            prop_assert_eq!(&back["params"], &original["params"]);
            prop_assert_eq!(&back["id"], &serde_json::json!(id));
        }
    }
}
