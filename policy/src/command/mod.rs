//! A static look at a shell line, for a good message early.
//!
//! The look parses the line as bash and asks of every command in it, through wrappers such as
//! `sudo` and `xargs` and through scripts within scripts, whether it plainly deletes files. It is a
//! hint and never the boundary: text can hide anything, and what this misses the sandbox refuses.
//! So a line that cannot be understood is let through here, and [`look`] says why it is
//! [`Verdict::Unsure`].
//!
//! What every target of is below the session's private tmp (`/tmp/…`, `"$TMPDIR"/…`) is not refused.
//! Where the sandbox lets commands remove what they made, [`look_at`] refuses only what is known to
//! stay: what is not there yet, or not named by the line, is left to the sandbox.

mod braces;
mod expand;
mod folder;
mod git;
mod ground;
mod print;
mod programs;
mod rules;
mod run;
mod scan;
mod word;

pub use ground::{Ground, Scene, Standing};

use crate::limits::MAX_QUOTED_CHARS;

/// Why a line is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}; {hint}")]
pub struct CommandRefusal {
    /// The offending text, at most [`crate::limits::MAX_QUOTED_CHARS`] characters.
    pub part: String,
    /// Name of the rule that refused it.
    pub rule: &'static str,
    /// What is refused and why, naming the part.
    pub message: String,
    /// What to do instead.
    pub hint: String,
}

/// What a look at a line found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing in the line deletes by any rule, and nothing in it is known to hide a command.
    Clean,
    /// A part of the line plainly deletes.
    Refused(CommandRefusal),
    /// Nothing found that deletes, yet not everything could be looked at: why.
    Unsure(&'static str),
}

/// Refuses a line that plainly deletes files.
///
/// # Errors
/// [`CommandRefusal`] names the part that deletes and says what to do instead.
pub fn check(line: &str) -> Result<(), CommandRefusal> {
    match look(line) {
        Verdict::Refused(refusal) => Err(refusal),
        Verdict::Clean | Verdict::Unsure(_) => Ok(()),
    }
}

/// Looks at a line. Size, depth and time of the look are bounded by [`crate::limits`].
#[must_use]
pub fn look(line: &str) -> Verdict {
    scan::Scan::new(None).look(line)
}

/// Looks at a line that is going to run in this scene.
#[must_use]
pub fn look_at(line: &str, scene: &Scene<'_>) -> Verdict {
    scan::Scan::new(Some(scene)).look(line)
}

/// The first characters of `text` on one line, with a mark where it was cut.
fn quote(text: &str) -> String {
    let mut chars = text
        .trim()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c });
    let mut quoted: String = chars.by_ref().take(MAX_QUOTED_CHARS - 1).collect();
    if let Some(next) = chars.next() {
        quoted.push(if chars.next().is_some() { '…' } else { next });
    }
    quoted
}

/// What a refusal adds to the advice where a file that was there can be given another name.
const MOVE_ASIDE: &str = "`mv` to a free name in the same workspace takes it out of the way";

impl CommandRefusal {
    fn new(part: &str, rule: &rules::Rule, reason: &rules::Reason) -> Self {
        let part = quote(part);
        let because = rule.because;
        let (why, hint) = match reason {
            rules::Reason::NothingGoes => (
                "commands delete no files here".to_owned(),
                rule.hint.to_owned(),
            ),
            rules::Reason::Stays(path) => (
                format!(
                    "{} was there before: commands remove only what commands of this session made",
                    quote(path)
                ),
                format!("{}; {MOVE_ASIDE}", rule.hint),
            ),
        };
        Self {
            message: format!("refused to run `{part}`: {because}, and {why}"),
            part,
            rule: rule.id,
            hint,
        }
    }
}

#[cfg(test)]
mod scene_tests;
#[cfg(test)]
mod tests;
