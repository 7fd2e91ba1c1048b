//! Paths a planner gives, resolved once and judged by where they really lead.
//!
//! [`PathPolicy::resolve`] walks from the root by descriptors and follows links by their text; the
//! [`Target`] it gives holds the open folder. [`PathPolicy::check_read`] and
//! [`PathPolicy::check_write`] judge the real path, the identities of the folders passed, and the
//! links followed. The target then opens relative to the folder it holds and compares identities,
//! so that what is used is what was checked.

mod git_dir;
mod identity;
mod judge;
mod look;
mod names;
mod policy;
mod refusal;
mod roots;
mod target;
mod walk;

#[cfg(target_os = "linux")]
#[path = "paths/linux.rs"]
mod platform;
#[cfg(not(target_os = "linux"))]
#[path = "paths/macos.rs"]
mod platform;

pub use look::{FileId, Kind};
pub use policy::{PathPolicy, Root, Settings, WritePlace};
pub use refusal::{Refusal, RefusalKind};
pub use target::Target;

#[cfg(test)]
mod tests;
