//! What a command uses of the machine, looked at from time to time.
//!
//! The system's own limit on a process's address space breaks programs that reserve much and use
//! little, and a limit for each process says nothing of all of them. So the runner adds up what the
//! command's processes hold. What is shared between processes is at first counted for each; only
//! when that is too much, it is counted once, which takes the system longer to say.

use crate::limits;
use crate::linux::tree::{descendants, text};
use crate::plan::Resources;
use crate::report::{Overuse, Resource};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Looks at one command.
pub(super) struct Watch {
    /// The process that all of the command's descend from.
    top: u32,
    most: Resources,
    /// Whether the file system in memory is the command's own.
    own_memory: bool,
    /// When to look next.
    pub(super) due: Instant,
}

/// What the command's processes hold.
#[derive(Debug, Default, PartialEq, Eq)]
struct Held {
    bytes: u64,
    threads: u64,
}

impl Watch {
    pub(super) fn new(top: u32, most: Resources, own_memory: bool) -> Self {
        Self {
            top,
            most,
            own_memory,
            due: Instant::now() + limits::WATCH_FIRST,
        }
    }

    /// Whether the command uses more than it may.
    pub(super) fn look(&mut self) -> Option<Overuse> {
        let pids = descendants(self.top);
        let mut held = held(&pids, quickly);
        let apart = match self.own_memory {
            true => in_memory_files(&pids),
            false => 0,
        };
        if held.bytes.saturating_add(apart) > self.most.memory_bytes {
            held.bytes = self::held(&pids, exactly).bytes;
        }
        let bytes = held.bytes.saturating_add(apart);
        self.due = Instant::now() + self.until_next(bytes);
        if held.threads > self.most.processes {
            return Some(Overuse {
                what: Resource::Processes,
                used: held.threads,
                limit: self.most.processes,
            });
        }
        (bytes > self.most.memory_bytes).then_some(Overuse {
            what: Resource::Memory,
            used: bytes,
            limit: self.most.memory_bytes,
        })
    }

    fn until_next(&self, bytes: u64) -> Duration {
        match bytes > self.most.memory_bytes / 2 {
            true => limits::WATCH_CLOSELY,
            false => limits::WATCH_EVERY,
        }
    }
}

fn held(pids: &[u32], bytes_of: fn(u32, &str) -> u64) -> Held {
    let mut all = Held::default();
    for pid in pids {
        // One that is gone holds nothing.
        let status = text(*pid, "status").unwrap_or_default();
        all.bytes = all.bytes.saturating_add(bytes_of(*pid, &status));
        all.threads += number(&status, "Threads:");
    }
    all
}

/// Memory of its own and shared with others, in full.
fn quickly(_: u32, status: &str) -> u64 {
    let keys = ["RssAnon:", "RssShmem:", "VmSwap:"];
    keys.iter().map(|key| number(status, key) * 1024).sum()
}

/// The same with its part of what is shared.
fn exactly(pid: u32, status: &str) -> u64 {
    let Ok(rollup) = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) else {
        return quickly(pid, status);
    };
    let keys = ["Pss_Anon:", "Pss_Shmem:", "SwapPss:"];
    keys.iter().map(|key| number(&rollup, key) * 1024).sum()
}

/// The number after a key.
fn number(text: &str, key: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let word = line.and_then(|line| line.split_whitespace().next());
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// What lies in the sandbox's own file system in memory, around `/dev/shm`. Of what is mapped
/// from there a part is counted twice.
fn in_memory_files(pids: &[u32]) -> u64 {
    let mut roots = pids
        .iter()
        .map(|pid| PathBuf::from(format!("/proc/{pid}/root/dev")));
    let seen = roots.find_map(|folder| {
        let kind = rustix::fs::statfs(&folder).ok()?;
        let is_in_memory = kind.f_type == TMPFS;
        is_in_memory.then(|| rustix::fs::statvfs(&folder).ok())?
    });
    seen.map_or(0, |fs| {
        fs.f_blocks
            .saturating_sub(fs.f_bfree)
            .saturating_mul(fs.f_frsize)
    })
}

/// `TMPFS_MAGIC` of `linux/magic.h`.
const TMPFS: rustix::fs::FsWord = 0x0102_1994;

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn processes_are_found_through_all_threads_and_counted() {
        let own = std::process::id();
        let started = std::thread::spawn(|| {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", "sleep 60 & read x; kill $!"]);
            shell.stdin(Stdio::piped()).spawn().unwrap()
        });
        let mut shell = started.join().unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        while !descendants(own).contains(&shell.id()) || descendants(shell.id()).is_empty() {
            assert!(Instant::now() < until);
            std::thread::yield_now();
        }
        let below = descendants(shell.id());
        assert_eq!(held(&below, quickly).threads, 1);
        assert!(held(&[own], quickly).bytes > 0);
        let (quick, exact) = (held(&[own], quickly).bytes, held(&[own], exactly).bytes);
        assert!(exact > 0 && exact < quick * 2, "{exact} {quick}");
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }

    #[test]
    fn a_process_whose_name_is_no_text_is_counted() {
        use std::os::unix::ffi::OsStrExt;
        let folder = tempfile::tempdir().unwrap();
        let odd = folder.path().join(std::ffi::OsStr::from_bytes(b"odd\xff"));
        fs::copy("/bin/sleep", &odd).unwrap();
        let mut sleep = Command::new(&odd).arg("60").spawn().unwrap();
        assert_eq!(held(&[sleep.id()], quickly).threads, 1);
        sleep.kill().unwrap();
        sleep.wait().unwrap();
    }

    #[test]
    fn numbers_are_read_by_their_key() {
        let text = "VmRSS:\t  12 kB\nRssAnon:\t   7 kB\nThreads:\t3\n";
        assert_eq!(number(text, "RssAnon:"), 7);
        assert_eq!(number(text, "Threads:"), 3);
        assert_eq!(number(text, "VmSwap:"), 0);
        assert_eq!(quickly(0, text), 7 * 1024);
    }

    #[test]
    fn what_is_gone_holds_nothing() {
        assert_eq!(held(&[u32::MAX], exactly), Held::default());
        assert!(descendants(u32::MAX).is_empty());
    }
}
