//! Whether a process was started by something that runs in the sandbox.

use std::path::Path;

/// Longest chain of parents that is followed.
const GENERATIONS: usize = 64;

/// Whether `pid`, or one of the processes it descends from, is a `hands-runner`.
///
/// # Errors
/// When a process of the chain cannot be looked at: then nobody knows, and the caller refuses.
pub fn descends_from_runner(pid: i32) -> std::io::Result<bool> {
    let mut at = pid;
    for _ in 0..GENERATIONS {
        if at <= 1 {
            return Ok(false);
        }
        let process = look(at)?;
        if process.is_runner {
            return Ok(true);
        }
        at = process.parent;
    }
    Err(std::io::Error::other(format!(
        "process {pid} has more than {GENERATIONS} ancestors"
    )))
}

struct Process {
    parent: i32,
    is_runner: bool,
}

fn is_runner(program: &Path) -> bool {
    let name = program.file_name().and_then(|n| n.to_str()).unwrap_or("");
    // A program that was replaced by an update still runs under its old name, marked so.
    matches!(
        name.trim_end_matches(" (deleted)"),
        "hands-runner" | ".hands-runner"
    )
}

#[cfg(target_os = "linux")]
fn look(pid: i32) -> std::io::Result<Process> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let parent = status
        .lines()
        .find_map(|line| line.strip_prefix("PPid:"))
        .and_then(|value| value.trim().parse().ok())
        .ok_or_else(|| std::io::Error::other(format!("/proc/{pid}/status names no parent")))?;
    // Other users' programs cannot be looked at; a runner is always the same user's.
    let is_runner = std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| is_runner(&exe));
    Ok(Process { parent, is_runner })
}

#[cfg(not(target_os = "linux"))]
fn look(pid: i32) -> std::io::Result<Process> {
    let output = std::process::Command::new("/bin/ps")
        .args(["-o", "ppid=,comm=", "-p", &pid.to_string()])
        .env_clear()
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let (parent, program) = text
        .trim()
        .split_once(char::is_whitespace)
        .ok_or_else(|| std::io::Error::other(format!("ps knows nothing of process {pid}")))?;
    Ok(Process {
        parent: parent
            .parse()
            .map_err(|_| std::io::Error::other(format!("ps on process {pid}: {text}")))?,
        is_runner: is_runner(Path::new(program.trim())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_descends_from_no_runner() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(!descends_from_runner(own).unwrap());
    }

    #[test]
    fn a_process_that_is_gone_is_refused() {
        assert!(descends_from_runner(i32::MAX).is_err());
    }

    #[test]
    fn runners_are_known_by_their_program() {
        assert!(is_runner(Path::new("/opt/hands/hands-runner")));
        assert!(is_runner(Path::new("/opt/hands/hands-runner (deleted)")));
        assert!(!is_runner(Path::new("/usr/bin/hands-runner-x")));
    }
}
