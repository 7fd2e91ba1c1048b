//! Which processes belong to a test: those that hold the name of its folder.

use super::{SOON, until};
use std::path::Path;

/// A process, and why it was taken for one of the test's.
#[derive(Debug)]
pub(crate) struct Found {
    /// Its number.
    pub(crate) pid: u32,
    /// Its command line.
    pub(crate) command: String,
}

/// Processes whose command line, environment or working folder lies in `folder`. Empty where the
/// system has no `/proc`.
pub(crate) fn running_in(folder: &Path) -> Vec<Found> {
    let needle = folder.to_str().unwrap();
    let own = std::process::id();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let others = pids.filter(|pid| *pid != own);
    others.filter_map(|pid| look(pid, needle)).collect()
}

fn look(pid: u32, needle: &str) -> Option<Found> {
    let file = |name: &str| {
        let bytes = std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\0', " ")
    };
    let command = file("cmdline");
    let cwd = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
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

/// Waits until no process of the test is left.
pub(crate) fn none_left(folder: &Path) {
    let mut last = Vec::new();
    let deadline = std::time::Instant::now() + SOON;
    while std::time::Instant::now() < deadline {
        last = running_in(folder);
        if last.is_empty() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("processes left behind: {last:#?}");
}

/// Waits until a process with this text in its command line runs for the test.
pub(crate) fn wait_for_process(folder: &Path, text: &str) {
    until(text, SOON, || {
        running_in(folder).iter().any(|p| p.command.contains(text))
    });
}
