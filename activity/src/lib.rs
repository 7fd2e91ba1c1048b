//! The trail: activity, lifecycle, faults, recovery files, rotation, reading them back.
//!
//! Every tool call leaves records in `agent_activity.jsonl`, one JSON object per line, redacted and
//! shortened on the way in. This crate writes them, rotates them, reads them back and verifies
//! them; it also keeps the lifecycle log, the fault log and the recovery files. It decides nothing:
//! what is recorded, and when, is the caller's. It is no logging framework, and nothing here is
//! made to hide records from their owner.
//!
//! # How it works
//! - **One lock, one write.** Processes share a log by an exclusive `flock` on a file beside it,
//!   held for one record. Under it the writer ends a line that a crash left torn, rotates if the
//!   file is full, and appends with a single `write(2)`. Readers take the lock shared, just to open
//!   all files at one moment.
//! - **A chain per session.** A record carries `HMAC-SHA256(key, previous mac, newline, line without
//!   mac)`; the first is linked to the session's id. The last number and mac are kept in
//!   `heads/<session>`, so a cut end shows. What rotation drops is remembered in `floor.json`, so a
//!   chain may begin there. [`verify()`] tells a torn line from an altered one. Whoever can read
//!   the key can forge the chain: it guards against edits of `logs/`, not against the owner.
//! - **Following** goes by the identity of open files, so a rotation loses and repeats nothing.
//! - **Recovery files** get their record before their name; a name is taken by creating the record. What is replaced is
//!   moved there, and found by its record if the mover is killed on the way.
#![forbid(unsafe_code)]

mod chain;
mod clock;
mod error;
mod faults;
mod folders;
mod follow;
mod fsx;
mod heads;
mod lifecycle;
mod limits;
mod lines;
mod read;
mod record;
mod recovery;
mod redact;
mod rolling;
mod shorten;
mod trail;
mod verify;

pub use error::TrailError;
pub use faults::{install_panic_hook, read_faults, record_fault};
pub use folders::Folders;
pub use follow::{Follower, Start};
pub use lifecycle::{Lifecycle, LifecycleNote, read_lifecycle};
pub use limits::{RecoveryLimits, TrailLimits};
pub use read::{Filter, Item, read_last};
pub use record::{Client, Event, Record, Stored, Text};
pub use recovery::{
    Announced, Aside, Dropped, Entry, Held, Kind, Noted, Notes, Now, Recovery, RecoveryError,
    Restored, Rotated, Rotation, Settled, Shrunk, Stamp,
};
pub use trail::{SessionTrail, Trail};
pub use verify::{Bad, Reason, VerifyReport, verify};
