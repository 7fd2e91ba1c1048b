//! The step before the sandbox: a session of the command's own, in the command's folder.

use rustix::process::{Resource, Rlimit, setsid};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Exit status of a command that could not be started.
const NOT_STARTED: i32 = 126;

/// Becomes `command` in a session of its own, with `folder` as its working folder. Returns only
/// when that failed: it has then said why on standard error, and the answer is the exit status.
///
/// A session of its own has no terminal, so that nothing can be pushed into the terminal of
/// whoever started the server. The caller must not have made this process the leader of a group:
/// such a one may start no session.
pub fn exec_in_session(folder: &str, command: &[&str]) -> i32 {
    eprintln!("hands-runner: {}", try_exec(folder, command));
    NOT_STARTED
}

/// Why it failed.
fn try_exec(folder: &str, command: &[&str]) -> String {
    let Some((program, args)) = command.split_first() else {
        return "starting a command: none was given; report this as a fault".into();
    };
    if let Err(e) = setsid() {
        return format!("starting {program} in a session of its own: {e}; try the call again");
    }
    close_inherited();
    limit_resources();
    if let Err(e) = std::env::set_current_dir(folder) {
        return format!("entering the working folder {folder}: {e}; name a folder that exists");
    }
    let failure = Command::new(program).args(args).exec();
    format!("starting {program}: {failure}; run `handsctl doctor`")
}

/// Marks every descriptor but the three standard ones to be closed by the exec: what another
/// program left open in the server is not the command's.
fn close_inherited() {
    let listed = std::fs::read_dir("/dev/fd").into_iter().flatten().flatten();
    // Collected first: the listing has a descriptor of its own, which is then gone.
    let numbers: Vec<i32> = listed
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    for number in numbers {
        // SAFETY: the number is this process's own and was open a moment ago. The borrow ends
        // with the call, which only sets a flag; if the descriptor is gone, it fails with EBADF.
        let descriptor = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
        let _ = rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::CLOEXEC);
    }
}

/// No core file of the command's memory; as many processes as on Linux, where that is more.
fn limit_resources() {
    let lower = |resource, value: u64| {
        let maximum = rustix::process::getrlimit(resource).maximum;
        let value = Some(maximum.map_or(value, |m| m.min(value)));
        // A limit that cannot be lowered is no reason to refuse the command.
        let _ = rustix::process::setrlimit(
            resource,
            Rlimit {
                current: value,
                maximum: value,
            },
        );
    };
    lower(Resource::Core, 0);
    lower(Resource::Nproc, crate::limits::MAX_PROCESSES);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, getpgid, getsid};
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Stdio};

    /// What the test binary, started again, should become: a folder, then a command.
    const BECOME: &str = "HANDS_TEST_BECOME";

    /// Not a test by itself, but the role of a process that the tests below start.
    #[test]
    fn becomes_what_it_is_told() {
        let Ok(words) = std::env::var(BECOME) else {
            return;
        };
        let words: Vec<&str> = words.split('\u{1f}').collect();
        // As a careless parent leaves them: open, and not to be closed by an exec.
        let leaked: Vec<_> = (0..7).map(|_| rustix::io::dup(std::io::stderr())).collect();
        assert!(leaked.iter().all(Result::is_ok));
        std::process::exit(exec_in_session(words[0], &words[1..]));
    }

    fn start(words: &[&str]) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "--quiet"])
            .arg("macos::session::tests::becomes_what_it_is_told")
            .env(BECOME, words.join("\u{1f}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    #[test]
    fn the_command_leads_a_session_of_its_own_in_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let script = "echo; pwd -P; echo ready; read line";
        let mut child = start(&[folder.to_str().unwrap(), "/bin/sh", "-c", script]);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said: Vec<String> = lines
            .by_ref()
            .map(Result::unwrap)
            .take_while(|line| line != "ready")
            .collect();
        assert!(
            said.contains(&folder.to_str().unwrap().to_string()),
            "{said:?}"
        );
        let pid = Pid::from_child(&child);
        assert_eq!(getsid(Some(pid)).unwrap(), pid);
        assert_eq!(getpgid(Some(pid)).unwrap(), pid);
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn descriptors_left_open_are_not_the_commands() {
        let script = "for n in 0 1 2 3 4 5 6 7 8 9; do [ -e /dev/fd/$n ] && echo open $n; done";
        let output = start(&["/", "/bin/sh", "-c", script])
            .wait_with_output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let open: Vec<&str> = said
            .lines()
            .filter(|line| line.starts_with("open"))
            .collect();
        assert_eq!(open, ["open 0", "open 1", "open 2"], "{said}");
    }

    #[test]
    fn a_failure_says_what_was_tried_and_is_126() {
        for (words, part) in [
            (&["/", "/no/such/program"][..], "starting /no/such/program"),
            (
                &["/no/such/folder", "/bin/sh"][..],
                "entering the working folder /no/such/folder",
            ),
            (&["/"][..], "none was given"),
        ] {
            let output = start(words).wait_with_output().unwrap();
            let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(126), "{complaint}");
            assert!(
                complaint.contains("hands-runner: ") && complaint.contains(part),
                "{complaint}"
            );
        }
    }
}
