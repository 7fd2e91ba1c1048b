//! Figures from the system's process information, by `sysinfo`.

use super::Usage;
use std::io;
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

pub(super) fn usage(pid: u32) -> io::Result<Usage> {
    let pid = Pid::from_u32(pid);
    let mut system = System::new().map_err(io::Error::other)?;
    let kind = ProcessRefreshKind::nothing().with_cpu().with_memory();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), true, kind);
    let process = system.process(pid).ok_or(io::ErrorKind::NotFound)?;
    Ok(Usage {
        cpu_s: process.accumulated_cpu_time() as f64 / 1000.0,
        resident_bytes: process.memory(),
        open_fds: process.open_files().map(|count| count as u64),
        max_fds: process.open_files_limit().map(|count| count as u64),
        started_unix_s: process.start_time() as f64,
    })
}
