//! Which processes belong to a test: those that hold the name of its folder.

use std::path::Path;

/// A process that belongs to a test.
#[derive(Debug)]
pub struct Found {
    /// Its number.
    pub pid: u32,
    /// Its command line.
    pub command: String,
}

/// Processes whose command line, environment or working folder lies in `folder`. Empty where the
/// system has no `/proc`.
pub fn running_in(folder: &Path) -> Vec<Found> {
    let needle = &*folder.to_string_lossy();
    let own = std::process::id();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let others = pids.filter(|pid| *pid != own);
    others.filter_map(|pid| look(pid, needle)).collect()
}

fn look(pid: u32, needle: &str) -> Option<Found> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    // The first thread of a process may have ended while another goes on.
    let mut threads = threads.into_iter().flatten().flatten();
    threads.find_map(|thread| look_at(pid, &thread.path(), needle))
}

fn look_at(pid: u32, thread: &Path, needle: &str) -> Option<Found> {
    let file = |name: &str| {
        let bytes = std::fs::read(thread.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\0', " ")
    };
    let command = file("cmdline");
    let cwd = std::fs::read_link(thread.join("cwd")).unwrap_or_default();
    let held = command.contains(needle)
        || file("environ").contains(needle)
        || cwd.to_string_lossy().contains(needle);
    // A zombie has ended; its parent has only not asked yet.
    let zombie = file("stat")
        .rsplit(')')
        .next()
        .is_some_and(|rest| rest.trim_start().starts_with('Z'));
    (held && !zombie).then_some(Found { pid, command })
}
