//! Pure decisions about what Hands may do. No I/O beyond the resolution of paths.
//!
//! What it is: four questions and their answers.
//! - [`paths`] and [`protected`]: which object a path names, and whether the tools may touch it.
//! - [`command`]: whether a shell line plainly deletes files, so that a refusal can come early and
//!   say what to do instead.
//! - [`permission`]: whether a session may change files in a folder, and the nonces by which the
//!   user's consent arrives.
//! - [`redact`]: which parts of a text or a JSON value are secrets that the trail must not keep.
//!
//! What it is not: a boundary. The command check reads text, and text can hide anything; what it
//! misses, the sandbox's kernel rules stop. A nonce proves no human. Redaction knows shapes and
//! names, and a secret with neither stays.
//!
//! Theory of operation: every decision is a function of its arguments and of tables that are data
//! with their own examples. State exists in one place only, the grants of a session and the nonces
//! of a process, and time is injected there. Work is bounded by [`limits`]. Where a decision cannot
//! be made the answer says so and the caller falls back to the stricter layer.

#![forbid(unsafe_code)]

pub mod command;
pub mod limits;
pub mod paths;
pub mod permission;
pub mod protected;
pub mod redact;
