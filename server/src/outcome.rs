//! The shape of every result.

use crate::limits;
use hands_policy::paths::{Refusal, RefusalKind};
use hands_text::lines::{cut_head_tail, truncate_at_char};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// The diagnostic code of a result: which kind of end a call came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// Done.
    Ok,
    /// Bad arguments.
    Validation,
    /// Nothing is there.
    NotFound,
    /// A format or platform that cannot serve.
    Unsupported,
    /// Over a limit.
    TooLarge,
    /// Refused by the path policy.
    ProtectedPath,
    /// Refused by the command check.
    DeleteBlocked,
    /// The person has to be asked first.
    PermissionRequired,
    /// The file changed, or a text to replace is missing or ambiguous.
    Conflict,
    /// The operating system refused, or there is no sandbox.
    Sandbox,
    /// It took too long and was ended.
    Timeout,
    /// A command ended non-zero or by a signal; the call itself did its work.
    Process,
    /// The client gave it up.
    Cancelled,
    /// The server failed.
    Internal,
}

impl Code {
    /// The code as it stands in results and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Code::Ok => "ok",
            Code::Validation => "validation",
            Code::NotFound => "not_found",
            Code::Unsupported => "unsupported",
            Code::TooLarge => "too_large",
            Code::ProtectedPath => "protected_path",
            Code::DeleteBlocked => "delete_blocked",
            Code::PermissionRequired => "permission_required",
            Code::Conflict => "conflict",
            Code::Sandbox => "sandbox",
            Code::Timeout => "timeout",
            Code::Process => "process",
            Code::Cancelled => "cancelled",
            Code::Internal => "internal",
        }
    }

    /// Whether the call failed in the protocol's sense.
    pub fn is_error(self) -> bool {
        !matches!(self, Code::Ok | Code::Process)
    }

    /// Whether a guardrail said no.
    pub fn is_denial(self) -> bool {
        matches!(
            self,
            Code::ProtectedPath | Code::DeleteBlocked | Code::PermissionRequired
        )
    }
}

/// What a call came to, before it is put into the protocol's words. Boxed: it travels as an error
/// through most of the server.
#[derive(Debug, Clone)]
pub struct Outcome(Box<Facts>);

/// The facts of an [`Outcome`].
#[derive(Debug, Clone)]
pub struct Facts {
    /// The diagnostic code.
    pub code: Code,
    /// What the model reads after the first line; all of it when there is no message.
    pub text: String,
    /// What happened, in one line; always there when the code is not `ok`.
    pub message: Option<String>,
    /// What to do next, in one line.
    pub hint: Option<String>,
    /// The tool's own fields.
    pub fields: Map<String, Value>,
    /// The text was cut.
    pub truncated: bool,
    /// The file that holds all of a cut text.
    pub recovery: Option<PathBuf>,
    /// Bytes of the whole text, when it was cut.
    pub total_bytes: Option<u64>,
}

impl std::ops::Deref for Outcome {
    type Target = Facts;

    fn deref(&self) -> &Facts {
        &self.0
    }
}

impl std::ops::DerefMut for Outcome {
    fn deref_mut(&mut self) -> &mut Facts {
        &mut self.0
    }
}

impl Outcome {
    /// Done, with this text.
    pub fn ok(text: impl Into<String>) -> Self {
        Self(Box::new(Facts {
            code: Code::Ok,
            text: text.into(),
            message: None,
            hint: None,
            fields: Map::new(),
            truncated: false,
            recovery: None,
            total_bytes: None,
        }))
    }

    /// Ended with this code, for this reason.
    pub fn fail(code: Code, message: impl Into<String>) -> Self {
        let mut outcome = Self::ok("");
        outcome.code = code;
        outcome.message = Some(message.into());
        outcome
    }

    /// Bad arguments.
    pub fn validation(message: impl Into<String>) -> Self {
        Self::fail(Code::Validation, message)
    }

    /// Adds what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds one of the tool's own fields.
    #[must_use]
    pub fn field(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.into(), value.into());
        self
    }

    /// Adds a field where there is a value.
    #[must_use]
    pub fn maybe(self, name: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.field(name, value),
            None => self,
        }
    }

    /// Cuts whatever is longer than a result may be: a message that repeats what the planner sent,
    /// a text, a field. `max` is the limit of the whole result's text, bytes; the text and the
    /// fields, which say the same twice, get half of it each.
    pub fn limit(&mut self, max: usize) {
        for part in [&mut self.0.message, &mut self.0.hint]
            .into_iter()
            .flatten()
        {
            if part.len() > limits::MESSAGE_BYTES {
                let cut = truncate_at_char(part, limits::MESSAGE_BYTES).len();
                part.truncate(cut);
                part.push('…');
            }
        }
        let half = max / 2;
        if self.text.len() > half {
            let cut = cut_head_tail(&self.text, half, None).text.into_owned();
            self.text = cut;
            self.truncated = true;
        }
        let mut left = half;
        for value in self.0.fields.values_mut() {
            if let Value::String(text) = value {
                if text.len() > left {
                    *text = cut_head_tail(text, left, None).text.into_owned();
                    self.0.truncated = true;
                }
                left = left.saturating_sub(text.len());
            }
        }
    }

    /// What the model reads: failures begin with `[code] what happened` and what to do next.
    pub fn shown(&self) -> String {
        let Some(message) = &self.message else {
            return self.text.clone();
        };
        let mut shown = match self.code {
            Code::Ok => message.clone(),
            code => format!("[{}] {message}", code.as_str()),
        };
        for part in [self.hint.as_deref(), Some(self.text.as_str())] {
            if let Some(part) = part.filter(|p| !p.is_empty()) {
                shown.push('\n');
                shown.push_str(part);
            }
        }
        shown
    }

    /// The same facts as data.
    pub fn structured(&self, turn_id: &str, duration_ms: u64) -> Value {
        let mut all = Map::new();
        all.insert("ok".into(), json!(self.code == Code::Ok));
        all.insert("code".into(), json!(self.code.as_str()));
        all.insert("turn_id".into(), json!(turn_id));
        all.insert("duration_ms".into(), json!(duration_ms));
        let optional = [
            ("message", self.message.clone().map(Value::from)),
            ("hint", self.hint.clone().map(Value::from)),
            ("truncated", self.truncated.then(|| json!(true))),
            ("total_bytes", self.total_bytes.map(Value::from)),
            (
                "recovery_path",
                self.recovery.as_ref().map(|p| json!(p.to_string_lossy())),
            ),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                all.insert(name.into(), value);
            }
        }
        all.extend(self.fields.clone());
        Value::Object(all)
    }
}

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Self {
        let code = match refusal.kind {
            RefusalKind::Validation | RefusalKind::NotADirectory | RefusalKind::Loop => {
                Code::Validation
            }
            RefusalKind::NotFound => Code::NotFound,
            RefusalKind::Protected => Code::ProtectedPath,
            RefusalKind::Unsupported => Code::Unsupported,
            RefusalKind::System(kind) => system_code(kind),
        };
        let outcome = Outcome::fail(code, refusal.message);
        match refusal.hint {
            Some(hint) => outcome.hint(hint),
            None => outcome,
        }
    }
}

/// The code of an operating system's refusal.
pub fn system_code(kind: std::io::ErrorKind) -> Code {
    use std::io::ErrorKind;
    match kind {
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::PermissionDenied
        | ErrorKind::ReadOnlyFilesystem
        | ErrorKind::StorageFull
        | ErrorKind::QuotaExceeded
        | ErrorKind::FileTooLarge => Code::Sandbox,
        ErrorKind::NotADirectory
        | ErrorKind::IsADirectory
        | ErrorKind::InvalidFilename
        | ErrorKind::InvalidInput => Code::Validation,
        _ => Code::Internal,
    }
}

/// An operating system's error, with what was attempted.
pub fn system(what: impl std::fmt::Display, error: &std::io::Error) -> Outcome {
    let outcome = Outcome::fail(system_code(error.kind()), format!("{what}: {error}"));
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            outcome.hint("The operating system refuses it to the user that Hands runs as.")
        }
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            outcome.hint("Nothing was changed. Your user has to free space.")
        }
        _ => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_begins_with_its_code_and_says_what_to_do() {
        let outcome = Outcome::fail(Code::Conflict, "it changed").hint("Read it again.");
        assert_eq!(outcome.shown(), "[conflict] it changed\nRead it again.");
        let data = outcome.structured("t", 3);
        assert_eq!(data["ok"], false);
        assert_eq!(data["code"], "conflict");
        assert_eq!(data["message"], "it changed");
        assert!(outcome.code.is_error());
    }

    #[test]
    fn a_command_that_failed_is_no_failed_call() {
        assert!(!Code::Process.is_error());
        assert_eq!(
            Outcome::fail(Code::Process, "x").structured("t", 0)["ok"],
            false
        );
    }

    #[test]
    fn nothing_is_longer_than_a_result_may_be() {
        let long = "é".repeat(1_000_000);
        let mut outcome = Outcome::validation(long.clone()).hint(long.clone());
        outcome.text = long.clone();
        outcome.fields.insert("a".into(), long.clone().into());
        outcome.fields.insert("b".into(), long.into());
        outcome.limit(100_000);
        let slack = 2 * limits::MESSAGE_BYTES + 200;
        assert!(outcome.shown().len() < 50_000 + slack);
        assert!(outcome.structured("t", 0).to_string().len() < 50_000 + slack);
        assert!(outcome.truncated);
    }

    #[test]
    fn success_is_just_its_text() {
        assert_eq!(Outcome::ok("hello").shown(), "hello");
    }
}
