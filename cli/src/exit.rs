//! How a command ends.

use crate::output::Out;
use std::process::ExitCode;

/// Exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All well.
    Ok = 0,
    /// It failed, or the tool answered a failure.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The daemon does not run.
    NotRunning = 3,
    /// It works, with warnings.
    Degraded = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Why a command could not be carried out.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    why: String,
    hint: Option<String>,
    exit: Exit,
    /// The reader of our output is gone: nothing to report, to nobody.
    silent: bool,
    /// The daemon gave no answer in time.
    hung: bool,
}

impl Failure {
    /// `what` was attempted, `why` it failed.
    pub(crate) fn new(what: impl Into<String>, why: impl Into<String>) -> Failure {
        Failure {
            what: what.into(),
            why: why.into(),
            hint: None,
            exit: Exit::Failed,
            silent: false,
            hung: false,
        }
    }

    /// The command line is wrong.
    pub(crate) fn usage(what: impl Into<String>, why: impl Into<String>) -> Failure {
        Failure {
            exit: Exit::Usage,
            ..Failure::new(what, why)
        }
    }

    /// The daemon does not run.
    pub(crate) fn not_running(what: impl Into<String>, why: impl Into<String>) -> Failure {
        Failure {
            exit: Exit::NotRunning,
            ..Failure::new(what, why)
        }
    }

    /// The daemon gave no answer in time.
    pub(crate) fn hung(what: impl Into<String>, why: impl Into<String>) -> Failure {
        Failure {
            hung: true,
            ..Failure::new(what, why)
        }
    }

    pub(crate) fn is_hung(&self) -> bool {
        self.hung
    }

    /// What to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// Writes the failure to stderr (and as JSON to stdout if JSON was asked for).
    pub(crate) fn report(&self, out: &Out) -> ExitCode {
        if self.silent {
            return Exit::Ok.into();
        }
        let mut text = format!("{} failed: {}", self.what, self.why);
        if let Some(hint) = &self.hint {
            text.push_str("; ");
            text.push_str(hint);
        }
        crate::output::note(&text);
        if out.json {
            let code = match self.exit {
                Exit::Usage => "usage",
                Exit::NotRunning => "not_running",
                _ => "failed",
            };
            let message = format!("{} failed: {}", self.what, self.why);
            let _ = out.object(&serde_json::json!({
                "ok": false, "code": code, "message": message, "hint": self.hint,
            }));
        }
        self.exit.into()
    }
}

impl From<std::io::Error> for Failure {
    /// Errors of writing to stdout.
    fn from(error: std::io::Error) -> Failure {
        Failure {
            silent: error.kind() == std::io::ErrorKind::BrokenPipe,
            ..Failure::new("writing the output", error.to_string())
        }
    }
}
