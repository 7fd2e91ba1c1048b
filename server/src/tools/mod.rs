//! The tools: one module each, and the list that clients see.

pub mod bash;
pub mod edit;
pub mod read_file;
pub mod write_file;

use crate::calls::Call;
use crate::outcome::Outcome;
use crate::session::Session;
use hands_config::Network;
use rmcp::model::{Tool as Listed, ToolAnnotations};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A tool of this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Runs a shell command.
    Bash,
    /// Reads a file or lists a folder.
    ReadFile,
    /// Makes or replaces a file.
    WriteFile,
    /// Changes parts of files.
    Edit,
}

impl Tool {
    /// All tools that work, in the order they are listed.
    pub const ALL: [Tool; 4] = [Tool::Bash, Tool::ReadFile, Tool::WriteFile, Tool::Edit];

    /// The tool of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Bash => "bash",
            Tool::ReadFile => "read_file",
            Tool::WriteFile => "write_file",
            Tool::Edit => "edit",
        }
    }

    /// How the protocol lists it.
    pub fn listed(self, session: &Session) -> Listed {
        let description = match self {
            Tool::Bash => bash::description(session),
            Tool::ReadFile => read_file::description(session),
            Tool::WriteFile => write_file::description(session),
            Tool::Edit => edit::description(session),
        };
        let (input, output) = match self {
            Tool::Bash => (bash::input_schema(session), bash::output_schema()),
            Tool::ReadFile => (read_file::input_schema(), read_file::output_schema()),
            Tool::WriteFile => (write_file::input_schema(), write_file::output_schema()),
            Tool::Edit => (edit::input_schema(), edit::output_schema()),
        };
        let mut listed = Listed::new(self.name(), description, Arc::new(input));
        listed.output_schema = Some(Arc::new(output));
        listed.annotations = Some(self.annotations(session));
        listed
    }

    fn annotations(self, session: &Session) -> ToolAnnotations {
        let reaches_out = match session.config.sandbox.network {
            Network::On | Network::Hosts => true,
            Network::Off | Network::Loopback => false,
        };
        let (title, read_only, destructive, idempotent, open_world) = match self {
            // What a command does is the command's affair.
            Tool::Bash => ("Run a shell command", false, true, false, reaches_out),
            Tool::ReadFile => ("Read a file or list a folder", true, false, true, false),
            Tool::WriteFile => ("Write a file", false, true, false, false),
            Tool::Edit => ("Edit files", false, true, false, false),
        };
        ToolAnnotations::with_title(title)
            .read_only(read_only)
            .destructive(destructive)
            .idempotent(idempotent)
            .open_world(open_world)
    }

    /// Whether it takes a command's place or a file call's.
    pub fn is_command(self) -> bool {
        self == Tool::Bash
    }

    /// Does the work of a file tool. Blocks.
    pub(crate) fn run_blocking(self, call: &Call, args: Map<String, Value>) -> Outcome {
        let result = match self {
            Tool::ReadFile => read_file::run(call, args),
            Tool::WriteFile => write_file::run(call, args),
            Tool::Edit => edit::run(call, args),
            Tool::Bash => Err(Outcome::fail(
                crate::outcome::Code::Internal,
                "bash does not run here",
            )),
        };
        result.unwrap_or_else(|outcome| outcome)
    }
}

/// An input schema: these properties and no others.
fn input(properties: Value, required: &[&str]) -> Map<String, Value> {
    object(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    }))
}

/// An output schema: the fields of every result, and the tool's own.
fn output(own: Value) -> Map<String, Value> {
    let mut properties = object(json!({
        "ok": {"type": "boolean"},
        "code": {"type": "string"},
        "turn_id": {"type": "string"},
        "duration_ms": {"type": "integer"},
        "message": {"type": "string"},
        "hint": {"type": "string"},
        "truncated": {"type": "boolean"},
        "recovery_path": {"type": "string"},
        "total_bytes": {"type": "integer"},
    }));
    properties.extend(object(own));
    object(json!({
        "type": "object",
        "properties": properties,
        "required": ["ok", "code", "turn_id", "duration_ms"],
    }))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
