//! What can go wrong, on the wire and with the wire.

use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::PathBuf;

/// An error as it goes over the wire. The code is for programs, message and hint are for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}{}", .hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default())]
pub struct ApiError {
    /// One of a small set: `bad_request`, `refused`, `not_found`, `method`, `conflict`, `too_large`, `timeout`,
    /// `unavailable`, `internal`. A reader takes an unknown one for `internal`.
    pub code: String,
    /// What was attempted, on what, and why it failed.
    pub message: String,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl ApiError {
    /// An error with that code.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
            hint: None,
        }
    }

    /// With advice.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The request cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new("bad_request", message)
    }

    /// There is nothing at that path.
    pub fn not_found(path: &str) -> Self {
        let path: String = path.chars().take(100).collect();
        Self::new("not_found", format!("there is nothing at {path:?}"))
    }

    /// The path exists, for the other method.
    pub fn method(allowed: &str) -> Self {
        Self::new("method", format!("this path answers {allowed} only"))
    }

    /// The thing asked for is not possible in the present state.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new("conflict", message)
    }

    /// It failed on this side.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new("internal", message)
    }

    /// The HTTP status that goes with the code.
    pub fn status(&self) -> StatusCode {
        match self.code.as_str() {
            "bad_request" => StatusCode::BAD_REQUEST,
            "refused" => StatusCode::FORBIDDEN,
            "not_found" => StatusCode::NOT_FOUND,
            "method" => StatusCode::METHOD_NOT_ALLOWED,
            "conflict" => StatusCode::CONFLICT,
            "too_large" => StatusCode::PAYLOAD_TOO_LARGE,
            "timeout" => StatusCode::REQUEST_TIMEOUT,
            "unavailable" => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// Why a client got no answer, or a socket could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// Nobody listens there.
    #[error("nothing runs at {path}: {source}")]
    NotRunning {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The socket cannot be used.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was attempted.
        action: &'static str,
        /// The socket.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The socket's path does not fit into a socket's address.
    #[error(
        "the socket's path {path} has {length} bytes, the system takes {limit}: choose a home with a shorter path \
         (HANDS_HOME)"
    )]
    PathTooLong {
        /// The socket.
        path: PathBuf,
        /// Bytes in its path.
        length: usize,
        /// Bytes that fit.
        limit: usize,
    },
    /// Whoever listens there is of another user.
    #[error("{path} is served by user {uid}, not by you; it is not asked anything")]
    Foreign {
        /// The socket.
        path: PathBuf,
        /// Whose process it is.
        uid: u32,
    },
    /// It ended, or hung up, with the question unanswered.
    #[error("what served {path} ended before it answered {request}")]
    Ended {
        /// The socket.
        path: PathBuf,
        /// Method and path asked for.
        request: String,
    },
    /// No answer in time.
    #[error("{path} gave no answer to {request} within {seconds} s")]
    Timeout {
        /// The socket.
        path: PathBuf,
        /// Method and path asked for.
        request: String,
        /// The time given.
        seconds: u64,
    },
    /// The answer is no answer of this API.
    #[error(
        "the answer of {path} to {request} cannot be read: {reason}; are both of the same version?"
    )]
    Protocol {
        /// The socket.
        path: PathBuf,
        /// Method and path asked for.
        request: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The answer is an error.
    #[error("{0}")]
    Api(ApiError),
}

impl ControlError {
    /// Whether nobody listens, as opposed to somebody who does not answer well.
    pub fn is_not_running(&self) -> bool {
        matches!(self, Self::NotRunning { .. })
    }
}
