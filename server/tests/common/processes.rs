//! Waiting for the processes of a test: those that hold the name of its folder.

use super::{SOON, until};
pub(crate) use hands_testkit::running_in;
use std::path::Path;

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
