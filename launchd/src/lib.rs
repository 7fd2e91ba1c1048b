//! Service definitions: how launchd (macOS) and systemd (Linux) start `handsd` for one person, and keep it running.
//!
//! **What it is.** The text of a LaunchAgent ([`agent`]) and of a systemd user unit ([`mod@unit`]) for a [`Service`], and a
//! [`Manager`] that installs, starts, stops and asks after it: [`Launchctl`] on macOS, [`Systemctl`] on Linux.
//!
//! **What it is not.** It supervises nothing itself, talks to no daemon, and handles no system-wide service: all is the
//! person's own, without root. It carries no key: `HANDS_HOME` is the only variable that a definition can hold.
//!
//! **Theory of operation.** Both definitions say the same in their manager's words: start at login, again after a failure
//! (not after an ordered end with exit 0), with a bound on how often; a daemon's end leaves its adopted jobs alone. Files are written
//! by temporary file, fsync and rename. A marker line tells ours from others: a file without it is replaced only
//! when forced, a symlink never. The managers are driven by their own programs through a [`Runner`], which a test replaces. What
//! those programs answer is read leniently (launchctl's output is no interface), and their failures are put into words with what to do.
#![forbid(unsafe_code)]

pub mod agent;
mod error;
mod file;
mod launchctl;
pub mod limits;
mod manager;
mod runner;
mod service;
mod systemctl;
pub mod unit;

pub use error::ServiceError;
pub use file::Presence;
pub use launchctl::Launchctl;
pub use manager::{Installed, Manager, Overwrite, State, Status, native};
pub use runner::{Answer, ProgramRunner, Runner};
pub use service::Service;
pub use systemctl::Systemctl;
