//! The processes below one: found, told apart from others, ended.

use crate::limits;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// All processes below one, those that have ended and were not waited for among them.
pub(crate) fn descendants(top: u32) -> Vec<u32> {
    if !Path::new("/proc/thread-self/children").exists() {
        return all().filter(|pid| is_below(*pid, top)).collect();
    }
    let mut found = Vec::new();
    let mut waiting = vec![top];
    while let Some(pid) = waiting.pop() {
        let below = children(pid);
        waiting.extend(&below);
        found.extend(below);
    }
    found
}

/// The children of all threads of a process, where the kernel lists them (`CONFIG_PROC_CHILDREN`).
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let lists = threads
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let mut found = Vec::new();
    for list in lists {
        found.extend(
            list.split_whitespace()
                .filter_map(|pid| pid.parse::<u32>().ok()),
        );
    }
    found
}

/// All processes of the machine.
fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// A process's name, unless it has ended: a zombie whose threads all have.
pub(crate) fn living_name(pid: u32) -> Option<String> {
    let (name, rest) = stat(pid)?;
    let mut fields = rest.split_whitespace();
    let has_ended = matches!(fields.next()?, "Z" | "X");
    // One whose first thread alone has ended looks like a zombie, but for the number of its threads.
    let threads: u32 = fields.nth(16)?.parse().ok()?;
    (!has_ended || threads > 1).then_some(name)
}

/// The name of a process and what its `stat` says after it.
fn stat(pid: u32) -> Option<(String, String)> {
    let stat = text(pid, "stat")?;
    let (open, close) = (stat.find('(')?, stat.rfind(')')?);
    let name = stat.get(open + 1..close)?;
    Some((name.to_string(), stat.get(close + 1..)?.to_string()))
}

/// What `/proc` says of a process. It names itself, and not always in UTF-8.
pub(crate) fn text(pid: u32, file: &str) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/{file}")).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A number of a process's `stat`, counted from its state (0).
fn number(pid: u32, field: usize) -> Option<i64> {
    let (_, rest) = stat(pid)?;
    rest.split_whitespace().nth(field)?.parse().ok()
}

/// Whether a process, or the process of a thread, is below another one. What cannot be seen is not.
pub(crate) fn is_below(pid: u32, top: u32) -> bool {
    let mut at = i64::from(pid);
    for _ in 0..limits::GENERATIONS {
        let parent = u32::try_from(at).ok().and_then(|at| number(at, 1));
        match parent {
            Some(parent) if parent == i64::from(top) => return true,
            Some(parent @ 2..) => at = parent,
            _ => return false,
        }
    }
    false
}

/// The process group of a process.
pub(crate) fn group(pid: u32) -> Option<u32> {
    u32::try_from(number(pid, 2)?).ok()
}

/// All processes of the machine that are in this group.
pub(crate) fn members(of: u32) -> Vec<u32> {
    all().filter(|pid| group(*pid) == Some(of)).collect()
}

/// Signals a process if it is below `top`, and no other that has its number by then.
pub(crate) fn signal(pid: u32, top: u32, signal: Signal) -> Result<(), Errno> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let held = pidfd_open(number.ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
    match is_below(pid, top) {
        true => pidfd_send_signal(held, signal),
        false => Err(Errno::SRCH),
    }
}

/// The living processes below one, by their names.
pub(crate) fn living(top: u32) -> Vec<(u32, String)> {
    let below = descendants(top).into_iter();
    below
        .filter_map(|pid| Some((pid, living_name(pid)?)))
        .collect()
}

/// Ends every process below `top` but `spared`, until `is_over` says that there is none. They come to
/// an end where none of them can start another one. One look at them may miss some: whose parent
/// ends has another one by then.
pub(crate) fn end_all(top: u32, spared: Option<u32>, mut is_over: impl FnMut() -> bool) -> bool {
    for _ in 0..limits::END_TRIES {
        for pid in descendants(top) {
            if Some(pid) != spared {
                // One that is gone needs no signal.
                let _ = signal(pid, top, Signal::KILL);
            }
        }
        if is_over() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    is_over()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;
    use std::process::{Command, Stdio};

    #[test]
    fn what_is_below_is_ended_and_nothing_else() {
        let own = std::process::id();
        let start = || {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", "sleep 60 & sleep 60 & wait"]);
            shell.stdin(Stdio::null()).spawn().unwrap()
        };
        let (mut one, mut other) = (start(), start());
        while living(one.id()).len() < 2 || living(other.id()).len() < 2 {
            std::thread::yield_now();
        }
        let below = descendants(one.id());
        assert!(
            below
                .iter()
                .all(|pid| is_below(*pid, one.id()) && is_below(*pid, own))
        );
        assert!(!is_below(other.id(), one.id()) && !is_below(own, one.id()));
        assert_eq!(signal(other.id(), one.id(), Signal::KILL), Err(Errno::SRCH));
        end_all(one.id(), None, || living(one.id()).is_empty());
        one.wait().unwrap();
        assert_eq!(living(other.id()).len(), 2);
        end_all(other.id(), None, || living(other.id()).is_empty());
        other.wait().unwrap();
    }

    #[test]
    fn a_name_that_is_no_text_hides_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let odd = dir.path().join(std::ffi::OsStr::from_bytes(b"odd\xff"));
        fs::copy("/bin/sleep", &odd).unwrap();
        let mut sleep = Command::new(&odd).arg("60").spawn().unwrap();
        let own = std::process::id();
        while !living(own)
            .iter()
            .any(|(pid, name)| *pid == sleep.id() && name.starts_with("odd"))
        {
            std::thread::yield_now();
        }
        assert_eq!(signal(sleep.id(), own, Signal::KILL), Ok(()));
        sleep.wait().unwrap();
        assert!(living_name(sleep.id()).is_none());
    }

    #[test]
    fn own_name_and_group_are_found_in_proc() {
        let own = std::process::id();
        assert!(living_name(own).is_some());
        assert!(living_name(u32::MAX).is_none() && group(u32::MAX).is_none());
        assert!(members(group(own).unwrap()).contains(&own));
        assert!(!is_below(1, own) && !is_below(u32::MAX, own));
    }
}
