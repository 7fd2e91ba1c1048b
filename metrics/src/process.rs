//! What a process uses: processor time, memory, descriptors.

use std::io;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as platform;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
use macos as platform;

/// What a process uses at one moment. A figure that the system does not give is none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// Processor time used since its start, user and system, in seconds.
    pub cpu_s: f64,
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// Open descriptors.
    pub open_fds: Option<u64>,
    /// Most descriptors it may open; none where there is no bound.
    pub max_fds: Option<u64>,
    /// When it started, in seconds since 1970-01-01 UTC.
    pub started_unix_s: f64,
}

impl Usage {
    /// What a process uses.
    ///
    /// # Errors
    /// There is no such process, or its figures cannot be read.
    pub fn of(pid: u32) -> io::Result<Usage> {
        platform::usage(pid)
    }

    /// What this process uses.
    ///
    /// # Errors
    /// Its figures cannot be read.
    pub fn current() -> io::Result<Usage> {
        Usage::of(std::process::id())
    }
}
