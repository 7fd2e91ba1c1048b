//! Processes by their ids: who they are, and ending them.

use crate::limits;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// What tells this process from a later one with the same id; none where there is no such process.
#[cfg(target_os = "linux")]
pub(crate) fn identity(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold spaces and brackets; what follows its last bracket does not.
    let (head, tail) = stat.rsplit_once(')')?;
    let name = head.split_once('(')?.1;
    let mut fields = tail.split_whitespace();
    // A dead one that nobody waited for is as good as gone.
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    let started = fields.nth(18)?;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(format!("{name} {started} {}", boot.trim()))
}

/// What tells this process from a later one with the same id; none where there is no such process.
#[cfg(not(target_os = "linux"))]
pub(crate) fn identity(pid: u32) -> Option<String> {
    let output = std::process::Command::new("/bin/ps")
        .args(["-o", "lstart=,stat=,comm=", "-p", &pid.to_string()])
        .env_clear()
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let words: Vec<&str> = text.split_whitespace().collect();
    // Five words of time, the state, the program.
    let (time, rest) = words.split_at_checked(5)?;
    let (state, program) = rest.split_first()?;
    (!state.starts_with('Z')).then(|| format!("{} {}", time.join(" "), program.join(" ")))
}

/// The process that started it; none where there is no such process.
#[cfg(target_os = "linux")]
pub(crate) fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, tail) = stat.rsplit_once(')')?;
    tail.split_whitespace().nth(1)?.parse().ok()
}

/// The process that started it; none where there is no such process.
#[cfg(not(target_os = "linux"))]
pub(crate) fn parent(pid: u32) -> Option<u32> {
    let output = std::process::Command::new("/bin/ps")
        .args(["-o", "ppid=", "-p", &pid.to_string()])
        .env_clear()
        .output()
        .ok()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

/// The processes that this one started and that still live, with their identities.
#[cfg(target_os = "linux")]
pub(crate) fn children(pid: u32) -> Vec<(u32, String)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|child| parent(*child) == Some(pid))
        .filter_map(|child| Some((child, identity(child)?)))
        .collect()
}

/// The processes that this one started and that still live, with their identities.
#[cfg(not(target_os = "linux"))]
pub(crate) fn children(pid: u32) -> Vec<(u32, String)> {
    let output = std::process::Command::new("/bin/ps")
        .args(["-axo", "pid=,ppid="])
        .env_clear()
        .output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace().map(str::parse::<u32>);
            let (child, parent) = (words.next()?.ok()?, words.next()?.ok()?);
            (parent == pid).then_some(child)
        })
        .filter_map(|child| Some((child, identity(child)?)))
        .collect()
}

/// Kills these processes and their groups, where they still are who they were.
pub(crate) fn kill_all(them: &[(u32, String)]) {
    for (pid, who) in them {
        if identity(*pid).as_ref() == Some(who) {
            signal_group(*pid, Signal::KILL);
            signal(*pid, Signal::KILL);
        }
    }
}

/// Sends the process a signal; false if there is none of that id.
pub(crate) fn signal(pid: u32, signal: Signal) -> bool {
    as_pid(pid).is_some_and(|pid| kill_process(pid, signal).is_ok())
}

/// Sends every process of the group a signal.
pub(crate) fn signal_group(pid: u32, signal: Signal) -> bool {
    as_pid(pid).is_some_and(|pid| kill_process_group(pid, signal).is_ok())
}

/// Whether there is a process of that id.
pub(crate) fn exists(pid: u32) -> bool {
    as_pid(pid).is_some_and(|pid| test_kill_process(pid).is_ok())
}

fn as_pid(pid: u32) -> Option<Pid> {
    // Never 0 or 1: the first would be our own group.
    i32::try_from(pid)
        .ok()
        .filter(|pid| *pid > 1)
        .and_then(Pid::from_raw)
}

/// Ends a process that is no child of ours, and its group: TERM, then KILL after `patience`. True once it is gone.
pub(crate) async fn end(pid: u32, who: &str, patience: Duration) -> bool {
    let there = || identity(pid).is_some_and(|found| found == who);
    if !there() {
        return true;
    }
    signal(pid, Signal::TERM);
    if gone(patience, there).await {
        // What it left in its group, if anything, goes with it.
        signal_group(pid, Signal::KILL);
        return true;
    }
    signal_group(pid, Signal::KILL);
    gone(limits::KILL_PATIENCE, there).await
}

async fn gone(within: Duration, there: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + within;
    while there() {
        if Instant::now() >= deadline {
            return false;
        }
        sleep(limits::PROCESS_LOOK).await;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;

    #[test]
    fn this_process_is_itself_and_a_missing_one_is_none() {
        let own = std::process::id();
        assert_eq!(identity(own), identity(own));
        assert!(identity(own).is_some());
        assert_eq!(identity(u32::MAX), None);
        assert!(exists(own) && !exists(0) && !exists(1));
    }

    #[test]
    fn children_are_found_and_killed_with_their_groups() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "sleep 60 & wait"])
            .process_group(0)
            .spawn()
            .unwrap();
        let mine = |found: &(u32, String)| found.0 == child.id();
        let found: Vec<_> = children(std::process::id())
            .into_iter()
            .filter(mine)
            .collect();
        assert_eq!(found.len(), 1);
        // Somebody else with its number is left alone.
        kill_all(&[(child.id(), "sh 1 earlier".to_owned())]);
        assert!(child.try_wait().unwrap().is_none());
        kill_all(&found);
        assert!(!child.wait().unwrap().success());
    }

    #[tokio::test]
    async fn an_end_spares_another_process_with_the_same_id() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .process_group(0)
            .spawn()
            .unwrap();
        assert!(end(child.id(), "sleep 0 another", Duration::ZERO).await);
        assert!(child.try_wait().unwrap().is_none());
        let (pid, who) = (child.id(), identity(child.id()).unwrap());
        // Whoever waits for it makes it go; here that is this test.
        let waiting = tokio::task::spawn_blocking(move || child.wait());
        assert!(end(pid, &who, Duration::from_secs(5)).await);
        waiting.await.unwrap().unwrap();
    }
}
