//! A static look at a shell line, for a good message early.
//!
//! The look parses the line as bash and asks of every command in it, through wrappers such as
//! `sudo` and `xargs` and through scripts within scripts, whether it plainly deletes files. It is a
//! hint and never the boundary: text can hide anything, and what this misses the sandbox refuses.
//! So a line that cannot be understood is let through here, and [`look`] says why it is
//! [`Verdict::Unsure`].
//!
//! What every target of is literally below the session's private tmp (`/tmp/…`, `"$TMPDIR"/…`) is
//! not refused.

mod braces;
mod expand;
mod git;
mod print;
mod programs;
mod rules;
mod run;
mod scan;
mod word;

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
    let mut scan = scan::Scan::default();
    scan.script(line, 0);
    scan.verdict()
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

impl CommandRefusal {
    fn new(part: &str, rule: &'static str, because: &str, hint: &str) -> Self {
        let part = quote(part);
        Self {
            message: format!(
                "refused to run `{part}`: {because}, and commands delete no files here"
            ),
            part,
            rule,
            hint: hint.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
