//! Inside the sandbox: doing what must not work, and what must.

use super::Said;
use super::attempts::Act;
use crate::report::{Done, Ending, decode_bytes};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long a connection is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Inside the sandbox: does every act and prints what came of each; exit status 0.
pub fn probe(args: &[&str]) -> i32 {
    let Some(acts) = args
        .first()
        .and_then(|text| serde_json::from_str::<Vec<Act>>(text).ok())
    else {
        return 2;
    };
    let said: Vec<Said> = acts
        .iter()
        .map(|act| carry_out(act).err().map(|e| e.to_string()))
        .collect();
    let line = serde_json::to_string(&said).unwrap_or_default();
    i32::from(writeln!(std::io::stdout(), "{line}").is_err())
}

/// What the probe printed.
///
/// # Errors
/// When it did not come to its end.
pub(super) fn answers(done: &Done) -> Result<Vec<Said>, String> {
    let said = decode_bytes(&done.stdout.head).unwrap_or_default();
    let complaint = decode_bytes(&done.stderr.head).unwrap_or_default();
    if done.ending != Ending::Exit(0) {
        return Err(format!(
            "the probe ended with {:?}: {}",
            done.ending,
            String::from_utf8_lossy(&complaint).trim()
        ));
    }
    serde_json::from_slice(&said).map_err(|e| format!("the probe's answer: {e}"))
}

fn carry_out(act: &Act) -> std::io::Result<()> {
    match act {
        Act::Unlink(path) => std::fs::remove_file(path),
        Act::RemoveFolder(path) => std::fs::remove_dir(path),
        Act::Rename(from, to) => std::fs::rename(from, to),
        Act::Link(from, to) => std::fs::hard_link(from, to),
        Act::Read(path) => std::fs::read(path).map(drop),
        Act::Create(path) => std::fs::File::create_new(path).map(drop),
        Act::Connect(path) => UnixStream::connect(path).map(drop),
        Act::ConnectTcp(port) => {
            let address = std::net::SocketAddr::from(([127, 0, 0, 1], *port));
            std::net::TcpStream::connect_timeout(&address, PATIENCE).map(drop)
        }
        Act::CreateAndUnlink(path) => {
            std::fs::File::create_new(path)?;
            std::fs::remove_file(path)
        }
        Act::OpenToAppend(path) => std::fs::File::options().append(true).open(path).map(drop),
        Act::Empty(path) => std::fs::File::create(path).map(drop),
        Act::Replace { new, old } => {
            std::fs::write(new, "new")?;
            std::fs::rename(new, old)
        }
        Act::Run(words) => run(words),
        Act::FindInherited(content) => find_inherited(content),
        Act::SetUserId(path) => {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o4755);
            std::fs::set_permissions(path, mode)
        }
        Act::Signal(pid) => signal(*pid),
        Act::NewNamespace => kernel::new_namespace(),
        Act::BeTraced => kernel::be_traced(),
        Act::OpenKeyring => kernel::open_keyring(),
    }
}

/// Runs a program; a bad exit status is an error, with the last line that it said.
fn run(words: &[String]) -> std::io::Result<()> {
    let (program, args) = words
        .split_first()
        .ok_or(std::io::ErrorKind::InvalidInput)?;
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.trim().lines().next_back().unwrap_or_default();
    Err(std::io::Error::other(format!("{}: {last}", output.status)))
}

/// Looks for a descriptor that somebody else opened and whose file holds this.
fn find_inherited(content: &str) -> std::io::Result<()> {
    let folder = match Path::new("/proc/self/fd").exists() {
        true => "/proc/self/fd",
        false => "/dev/fd",
    };
    for entry in std::fs::read_dir(folder)?.flatten() {
        let number: u32 = entry.file_name().to_string_lossy().parse().unwrap_or(0);
        let holds = || std::fs::read(entry.path()).is_ok_and(|found| found == content.as_bytes());
        if number > 2 && entry.path().is_file() && holds() {
            return Ok(());
        }
    }
    Err(std::io::ErrorKind::NotFound.into())
}

/// Whether this process could be sent a signal; none is sent.
fn signal(pid: u32) -> std::io::Result<()> {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    let pid = pid.ok_or(std::io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::test_kill_process(pid)?)
}

/// Calls of the Linux kernel that no ordinary work needs.
#[cfg(target_os = "linux")]
mod kernel {
    pub(super) fn new_namespace() -> std::io::Result<()> {
        // SAFETY: `unshare` changes only which namespaces this process is in; it ends soon.
        told(unsafe { libc::unshare(libc::CLONE_NEWUSER) }.into())
    }

    pub(super) fn be_traced() -> std::io::Result<()> {
        // SAFETY: no pointer is read; where it works, the parent may trace this process.
        told(unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) })
    }

    pub(super) fn open_keyring() -> std::io::Result<()> {
        const KEYCTL_GET_KEYRING_ID: libc::c_long = 0;
        const SESSION: libc::c_long = -3;
        // SAFETY: numbers only; the answer is a number.
        told(unsafe { libc::syscall(libc::SYS_keyctl, KEYCTL_GET_KEYRING_ID, SESSION, 1) })
    }

    fn told(result: libc::c_long) -> std::io::Result<()> {
        match result {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    pub(super) fn new_namespace() -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    pub(super) fn be_traced() -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    pub(super) fn open_keyring() -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}
