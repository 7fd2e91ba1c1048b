//! What `handsctl policy explain` asks of `hands-mcp --explain`, which answers by the code that decides on calls.

use super::server::Sandbox;
use serde::{Deserialize, Serialize};

/// The question: one JSON object on standard input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Question {
    /// What may be done at a path.
    Path {
        /// Absolute, or beginning with `~`.
        path: String,
    },
    /// What is said of a command line.
    Command {
        /// The line, as `bash` would get it.
        command: String,
        /// Its working folder; none: the first workspace, as for the tool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
    },
}

/// The answer: one JSON object on standard output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// `sandbox.mode`.
    pub mode: String,
    /// Whether commands go through the removal broker.
    pub broker: bool,
    /// What confines commands, as it was seen to work just now.
    pub sandbox: Sandbox,
    /// Where a path was asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathFacts>,
    /// Where a command line was asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandFacts>,
}

/// Whether something is allowed, and by which rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ruling {
    /// Whether it is.
    pub allowed: bool,
    /// The rule's name.
    pub rule: String,
    /// The rule in words.
    pub why: String,
}

/// What may be done at a path, in a session that begins now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathFacts {
    /// The path as it was asked for.
    pub asked: String,
    /// Where it really leads.
    pub real: String,
    /// Whether something is there.
    pub exists: bool,
    /// `read_file`.
    pub tools_read: Ruling,
    /// `write_file` and `edit`.
    pub tools_write: Ruling,
    /// Commands that read it.
    pub commands_read: Ruling,
    /// Commands that create it or change its content.
    pub commands_write: Ruling,
    /// Commands that remove it (the link itself, if it is one).
    pub commands_remove: Ruling,
}

/// What the command check finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// Nothing that deletes.
    Clean,
    /// Something that deletes, plainly.
    Refused,
    /// Nothing that deletes; not everything could be looked at.
    Unsure,
}

/// What is said of a command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandFacts {
    /// The line.
    pub command: String,
    /// The folder it would run in.
    pub cwd: String,
    /// Whether it would be run: the check (where it is on) lets it through and there is a sandbox.
    pub runs: bool,
    /// `sandbox.command_check`.
    pub check_is_on: bool,
    /// What the check finds.
    pub found: Found,
    /// The rule that refuses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The part of the line that it refuses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// What is refused and why; or why not everything could be looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What to do instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What holds whatever the check says.
    pub held_by: String,
}
