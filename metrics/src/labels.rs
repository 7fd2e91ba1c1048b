//! The values that labels may have.

use serde::{Deserialize, Serialize};

/// Names of the tools; any other name is recorded as `other`.
pub const TOOLS: &[&str] = &[
    "bash",
    "bash_bg",
    "git",
    "python_exec",
    "read_file",
    "write_file",
    "edit",
    "computer",
    "mcp_list_tools",
    "mcp_call_tool",
    "mcp_add_server",
    "mcp_remove_server",
    OTHER,
];

/// Diagnostic codes of a result; any other code is recorded as `other`.
pub const CODES: &[&str] = &[
    "ok",
    "validation",
    "not_found",
    "unsupported",
    "too_large",
    "protected_path",
    "delete_blocked",
    "permission_required",
    "running",
    "conflict",
    "sandbox",
    "timeout",
    "process",
    "cancelled",
    "bridge",
    "internal",
    OTHER,
];

/// Stands for every value that is not in a label's closed set.
pub const OTHER: &str = "other";

/// The value itself where it is in `set`, else [`OTHER`].
pub(crate) fn known(set: &'static [&'static str], value: &str) -> &'static str {
    set.iter()
        .find(|entry| **entry == value)
        .copied()
        .unwrap_or(OTHER)
}

/// An enum whose values are the values of a label, with their texts in one place.
macro_rules! label_values {
    ($(#[$outer:meta])* $name:ident { $($(#[$inner:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$inner])* $variant,)+
        }

        impl $name {
            /// Every value.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];
            /// The text of every value, as it stands in a label.
            pub const TEXTS: &'static [&'static str] = &[$($text,)+];

            /// The value's text, as it stands in a label.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)+
                }
            }
        }
    };
}

label_values! {
    /// Which program of Hands a figure is about.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    Process {
        /// `handsd`.
        Daemon = "daemon",
        /// `hands-mcp`, the daemon's or one that stands alone.
        Server = "server",
        /// The tunnel child, built-in or official.
        Tunnel = "tunnel",
    }
}

label_values! {
    /// The guardrail that refused a call.
    Guardrail {
        /// A protected path.
        ProtectedPath = "protected_path",
        /// Files are not deleted.
        Deletion = "deletion",
        /// The permission gate.
        Permission = "permission",
        /// The bounds of git.
        Git = "git",
        /// The operating system.
        Sandbox = "sandbox",
        /// The rules of the screen: secure fields, hotkeys, terminals.
        Computer = "computer",
        /// The rules for bridged servers.
        Bridge = "bridge",
    }
}

label_values! {
    /// A process that the daemon starts and watches.
    Child {
        /// The MCP server.
        Server = "server",
        /// The tunnel client.
        Tunnel = "tunnel",
    }
}

label_values! {
    /// What a child is doing, as its supervisor sees it.
    ChildState {
        /// Not started, or stopped on purpose.
        Stopped = "stopped",
        /// Started, not ready yet.
        Starting = "starting",
        /// Working.
        Ready = "ready",
        /// Alive, but what it is there for does not work.
        Degraded = "degraded",
        /// Ended; waiting for the next start.
        Backoff = "backoff",
        /// Only the operator can mend it: a refused key, a wrong configuration.
        NeedsOperator = "needs_operator",
        /// Asked to end.
        Stopping = "stopping",
    }
}

label_values! {
    /// The state of a job.
    JobState {
        /// Still at work.
        Running = "running",
        /// Ended by itself.
        Exited = "exited",
        /// Ended by a signal.
        Killed = "killed",
        /// Its runner is gone and left no exit status.
        Lost = "lost",
    }
}

label_values! {
    /// How a poll of the tunnel's control plane ended.
    PollOutcome {
        /// Commands came.
        Commands = "commands",
        /// Nothing to do.
        Empty = "empty",
        /// No answer: names, TLS, connection, time-out.
        Network = "network",
        /// 401 or 403: the key or the tunnel id is refused.
        Unauthorized = "unauthorized",
        /// 429.
        RateLimited = "rate_limited",
        /// Any other 4xx.
        ClientError = "client_error",
        /// 5xx.
        ServerError = "server_error",
        /// An answer that could not be read.
        Malformed = "malformed",
    }
}

impl PollOutcome {
    /// Whether the control plane answered as it should.
    pub fn is_good(self) -> bool {
        matches!(self, PollOutcome::Commands | PollOutcome::Empty)
    }
}

label_values! {
    /// How the delivery of an answer to the tunnel's control plane ended, after its last try.
    PostOutcome {
        /// Delivered.
        Ok = "ok",
        /// 404: it had been answered before.
        AlreadyFulfilled = "already_fulfilled",
        /// Past its deadline, so not posted.
        Expired = "expired",
        /// Not delivered: names, TLS, connection, time-out.
        Network = "network",
        /// 401 or 403.
        Unauthorized = "unauthorized",
        /// 413.
        TooLarge = "too_large",
        /// 429.
        RateLimited = "rate_limited",
        /// Any other 4xx.
        ClientError = "client_error",
        /// 5xx.
        ServerError = "server_error",
    }
}
