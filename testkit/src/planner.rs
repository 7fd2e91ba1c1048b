//! An MCP client's view over the control plane.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{Command, ControlPlane, Post};

/// Speaks MCP through the plane; the caller chooses ids, or takes the next number.
#[derive(Debug)]
pub struct Planner<'a> {
    plane: &'a ControlPlane,
    session: Option<String>,
    next_id: std::sync::atomic::AtomicI64,
    patience: Duration,
    timeout: Option<String>,
}

/// A request that is under way.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    plane: &'a ControlPlane,
    /// The command's id at the control plane.
    pub request_id: String,
    /// The JSON-RPC id that the planner chose.
    pub id: Value,
    patience: Duration,
}

impl Call<'_> {
    /// The final answer; panics where it does not come in time, or under another id.
    pub async fn answer(&self) -> Post {
        let post = self
            .plane
            .final_answer(&self.request_id, self.patience)
            .await;
        assert_eq!(post.json()["id"], self.id, "the answer bears another id");
        post
    }

    /// The JSON-RPC result; panics where the answer is an error.
    pub async fn result(&self) -> Value {
        let post = self.answer().await;
        let result = &post.json()["result"];
        assert!(!result.is_null(), "not a result: {}", post.payload);
        result.clone()
    }

    /// The JSON-RPC error; panics where the answer is a result.
    pub async fn error(&self) -> Value {
        let post = self.answer().await;
        let error = &post.json()["error"];
        assert!(!error.is_null(), "not an error: {}", post.payload);
        error.clone()
    }

    /// The first text of a tool's result.
    pub async fn text(&self) -> String {
        let result = self.result().await;
        let text = result["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("no text in {result}"))
            .to_owned()
    }
}

impl<'a> Planner<'a> {
    /// A planner that waits up to 20 s for each answer and sets no response time-out.
    pub fn new(plane: &'a ControlPlane) -> Self {
        Self {
            plane,
            session: None,
            next_id: 0.into(),
            patience: Duration::from_secs(20),
            timeout: None,
        }
    }

    /// Names the MCP session in each command's headers.
    pub fn in_session(mut self, session: &str) -> Self {
        self.session = Some(session.to_owned());
        self
    }

    /// Sets the longest wait for an answer.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets `response_timeout` of each command.
    pub fn timeout(mut self, timeout: &str) -> Self {
        self.timeout = Some(timeout.to_owned());
        self
    }

    fn command(&self, message: Value) -> Command {
        let mut command = Command::jsonrpc(message);
        if let Some(session) = &self.session {
            command = command.header("Mcp-Session-Id", session);
        }
        if let Some(timeout) = &self.timeout {
            command = command.timeout(timeout.as_str());
        }
        command
    }

    /// Sends a request under an id of the caller's choice: a number, a string, one used before.
    pub fn request(&self, id: impl Into<Value>, method: &str, params: Value) -> Call<'a> {
        let id = id.into();
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        Call {
            plane: self.plane,
            request_id: self.plane.push(self.command(message)),
            id,
            patience: self.patience,
        }
    }

    fn take_id(&self) -> i64 {
        self.next_id
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed)
    }

    /// Calls a tool under the next id.
    pub fn call(&self, tool: &str, arguments: Value) -> Call<'a> {
        self.call_as(self.take_id(), tool, arguments)
    }

    /// Calls a tool under an id of the caller's choice.
    pub fn call_as(&self, id: impl Into<Value>, tool: &str, arguments: Value) -> Call<'a> {
        let params = json!({"name": tool, "arguments": arguments});
        self.request(id, "tools/call", params)
    }

    /// Calls a tool and asks for progress under `token`.
    pub fn call_with_progress(&self, token: Value, tool: &str, arguments: Value) -> Call<'a> {
        let params =
            json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": token}});
        self.request(self.take_id(), "tools/call", params)
    }

    /// Asks for the tools.
    pub fn list_tools(&self) -> Call<'a> {
        self.request(self.take_id(), "tools/list", json!({}))
    }

    /// Probes as the newest clients do before anything else.
    pub fn discover(&self) -> Call<'a> {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "planner", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        self.request(
            "openai-mcp-discover",
            "server/discover",
            json!({"_meta": meta}),
        )
    }

    /// Sends `initialize` and waits for its result, then `notifications/initialized` and waits
    /// for its acknowledgement.
    pub async fn initialize(&self) -> Value {
        let result = self.initialize_only().result().await;
        let ack = self.notify("notifications/initialized", json!({}));
        self.plane.final_answer(&ack, self.patience).await;
        result
    }

    /// Sends `initialize` alone.
    pub fn initialize_only(&self) -> Call<'a> {
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "planner", "version": "1"},
        });
        self.request(self.take_id(), "initialize", params)
    }

    /// Sends a notification; the command's id at the control plane.
    pub fn notify(&self, method: &str, params: Value) -> String {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.plane.push(self.command(message))
    }
}
