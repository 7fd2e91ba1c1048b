//! A file as it is before a change: its content, and the state by which a change in between is
//! seen.

use crate::outcome::{Code, Outcome, system};
use hands_policy::paths::Target;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;

/// What tells one state of a file from another. A rename changes none of it; a save does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// Device and inode.
    pub id: (u64, u64),
    /// Bytes.
    pub size: u64,
    /// Time of the last change of content, seconds and nanoseconds.
    pub modified: (i64, i64),
}

impl State {
    /// The state that `metadata` tells.
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            id: (metadata.dev(), metadata.ino()),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

/// A file that is there, read whole.
#[derive(Debug)]
pub struct Existing {
    /// The open file.
    pub file: File,
    /// All of its content.
    pub bytes: Vec<u8>,
    /// Its state when it was read.
    pub state: State,
    /// Its metadata then: mode, owner, links.
    pub metadata: Metadata,
}

impl Existing {
    /// Opens and reads a target that exists.
    ///
    /// # Errors
    /// The policy's refusal; `too_large` over `max` bytes; `conflict` when it changes while it is
    /// read.
    pub fn read(target: &Target, max: u64) -> Result<Self, Outcome> {
        let shown = target.path().display();
        let file = target.open_read()?;
        let failed = |e| system(format!("reading {shown}"), &e);
        let metadata = file.metadata().map_err(failed)?;
        if metadata.len() > max {
            return Err(too_large(target, metadata.len(), max));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
        // One byte over the limit is enough to know that it grew over it.
        let mut limited = (&file).take(max + 1);
        limited.read_to_end(&mut bytes).map_err(failed)?;
        let state = State::of(&metadata);
        let after = State::of(&file.metadata().map_err(failed)?);
        if after != state || bytes.len() as u64 != state.size {
            return Err(
                Outcome::fail(Code::Conflict, format!("{shown} changes while it is read"))
                    .hint("Try again when nothing is writing to it."),
            );
        }
        Ok(Self {
            file,
            bytes,
            state,
            metadata,
        })
    }
}

/// The answer for a file over a limit.
pub fn too_large(target: &Target, size: u64, max: u64) -> Outcome {
    Outcome::fail(
        Code::TooLarge,
        format!(
            "{} has {size} bytes, over the limit of {max}",
            target.path().display()
        ),
    )
}
