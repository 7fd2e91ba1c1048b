//! Commands as the control plane hands them out.

use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// One command, built step by step and then given to
/// [`ControlPlane::push`](crate::ControlPlane::push).
#[derive(Debug, Clone)]
pub struct Command {
    fields: Map<String, Value>,
    on_contract: bool,
}

impl Command {
    fn of_type(command_type: &str) -> Self {
        let mut fields = Map::new();
        fields.insert("command_type".into(), json!(command_type));
        fields.insert("channel".into(), json!("main"));
        fields.insert("headers".into(), json!({}));
        Self {
            fields,
            on_contract: true,
        }
    }

    /// A JSON-RPC message for the MCP server.
    pub fn jsonrpc(message: Value) -> Self {
        let mut command = Self::of_type("jsonrpc");
        command.fields.insert("jsonrpc".into(), message);
        command
    }

    /// The end of the session named by the `Mcp-Session-Id` header.
    pub fn session_termination(session: &str) -> Self {
        Self::of_type("session_termination").header("Mcp-Session-Id", session)
    }

    /// A command of a type that no client knows yet.
    pub fn unknown(command_type: &str) -> Self {
        let mut command = Self::of_type(command_type);
        command.on_contract = false;
        command
    }

    /// Sets `response_timeout` to any JSON value: valid, zero, malformed or null.
    pub fn timeout(mut self, value: impl Into<Value>) -> Self {
        let value = value.into();
        self.on_contract &= value.is_null() || value.as_str().is_some_and(is_timeout);
        self.fields.insert("response_timeout".into(), value);
        self
    }

    /// Sets the logical channel.
    pub fn channel(self, name: &str) -> Self {
        self.field("channel", json!(name))
    }

    /// Adds one value of a header; a name may have several.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let Some(Value::Object(headers)) = self.fields.get_mut("headers") {
            let values = headers.entry(name).or_insert_with(|| json!([]));
            if let Value::Array(values) = values {
                values.push(json!(value));
            }
        }
        self
    }

    /// Sets any field, known to the contract or not.
    pub fn field(mut self, name: &str, value: Value) -> Self {
        self.fields.insert(name.into(), value);
        self
    }

    /// Takes a field away, so that its absence can be tried.
    pub fn without(mut self, name: &str) -> Self {
        self.fields.remove(name);
        // The contract tells commands apart by their type: one without it matches two shapes.
        self.on_contract &= name != "command_type";
        self
    }

    /// Says that this command breaks the contract on purpose.
    pub fn off_contract(mut self) -> Self {
        self.on_contract = false;
        self
    }

    pub(crate) fn is_on_contract(&self) -> bool {
        self.on_contract
    }

    /// The command as it goes over the wire, under the ids that the service gave it.
    pub(crate) fn finish(self, request_id: &str, shard_token: &str) -> Value {
        let now = OffsetDateTime::now_utc()
            .format(&Rfc3339)
            .unwrap_or_else(|_| "2026-01-01T00:00:00Z".to_owned());
        let mut whole = Map::new();
        whole.insert("request_id".into(), json!(request_id));
        whole.insert("shard_token".into(), json!(shard_token));
        whole.insert("created_at".into(), json!(now));
        whole.extend(self.fields);
        Value::Object(whole)
    }
}

fn is_timeout(text: &str) -> bool {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = &text[digits.len()..];
    !digits.is_empty()
        && digits.bytes().all(|b| b.is_ascii_digit())
        && matches!(unit, "ns" | "us" | "ms" | "s" | "m" | "h")
}
