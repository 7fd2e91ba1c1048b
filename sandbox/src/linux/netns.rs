//! A network namespace that the commands of a session share: nothing but a loopback interface.
//!
//! No process keeps it. bubblewrap makes it, as it makes those of single commands, around our own
//! binary, which sends a descriptor of it and ends; whoever holds the descriptor keeps the
//! namespace. A command's runner finds it under `/proc/PID/fd`, and joins it (and the user
//! namespace that owns it) on the way to becoming bubblewrap.

use super::bwrap;
use crate::backend::Unavailable;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// `NS_GET_USERNS` and `NS_GET_NSTYPE` of `linux/nsfs.h`.
const GET_USER_NAMESPACE: u64 = 0xb701;
const GET_TYPE: u64 = 0xb703;
/// The argument by which our binary knows that it is to send its namespace.
pub(crate) const SEND_NAMESPACE: &str = "send-namespace";

/// A namespace with a loopback interface and nothing else, kept as long as this value.
#[derive(Debug)]
pub struct SessionNetwork {
    namespace: OwnedFd,
}

impl SessionNetwork {
    /// Makes one. `runner` is the path of `hands-runner`. Blocks for some milliseconds.
    ///
    /// # Errors
    /// When this machine has no bubblewrap, or that can make none; with what it said.
    pub fn make(runner: &Path) -> std::result::Result<Self, Unavailable> {
        let program = bwrap::find()?;
        let fail = |what: &str, e: &dyn std::fmt::Display| Unavailable {
            reason: format!("making a network namespace for the session: {what}{e}"),
            hint: "run `handsctl doctor`, or set `sandbox.network` to `off`".into(),
        };
        let (ours, theirs) = UnixStream::pair().map_err(|e| fail("socket pair: ", &e))?;
        let child = Command::new(program)
            .args(["--unshare-user", "--unshare-net", "--cap-drop", "ALL"])
            .args(["--die-with-parent", "--new-session"])
            .args(["--ro-bind", "/", "/", "--"])
            .arg(runner)
            .arg(SEND_NAMESPACE)
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| fail("starting bubblewrap: ", &e))?;
        // The command that is started holds the other end; when it is gone, so is that.
        let received = receive(&ours);
        let ended = child.wait_with_output().map_err(|e| fail("", &e))?;
        match received {
            Ok((_, Some(namespace))) => Ok(Self { namespace }),
            _ => Err(fail("", &String::from_utf8_lossy(&ended.stderr).trim())),
        }
    }

    /// A file that stands for it, for processes of the same user while this value lives.
    pub fn path(&self) -> PathBuf {
        let (pid, fd) = (std::process::id(), self.namespace.as_raw_fd());
        PathBuf::from(format!("/proc/{pid}/fd/{fd}"))
    }
}

/// Our binary in a fresh namespace: sends a descriptor of it over standard input. Returns an exit
/// status.
pub fn send_own() -> i32 {
    let sent = std::fs::File::open("/proc/self/ns/net")
        .and_then(|namespace| send(std::io::stdin().as_fd(), b'N', namespace.as_fd()));
    match sent {
        Ok(()) => 0,
        Err(e) => {
            eprintln!("sending the network namespace: {e}");
            1
        }
    }
}

/// Sends one byte, and a descriptor with it.
pub(super) fn send(socket: BorrowedFd<'_>, byte: u8, fd: BorrowedFd<'_>) -> Result<()> {
    let fds = [fd];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(ErrorKind::InvalidInput.into());
    }
    let byte = [byte];
    let data = [std::io::IoSlice::new(&byte)];
    Ok(sendmsg(socket, &data, &mut control, SendFlags::empty()).map(drop)?)
}

/// Receives one byte, and the descriptor that came with it, if one did.
pub(crate) fn receive(socket: &UnixStream) -> Result<(u8, Option<OwnedFd>)> {
    let mut byte = [0];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut data = [std::io::IoSliceMut::new(&mut byte)];
    let got = recvmsg(socket, &mut data, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    if got.bytes == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let mut found = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut fds) = message {
            found = fds.next();
        }
    }
    Ok((byte[0], found))
}

/// Lets `command` join the namespace that the file stands for before it becomes its program.
///
/// # Errors
/// When the file is not there, or stands for something else.
pub(crate) fn join(command: &mut Command, file: &Path) -> Result<()> {
    let namespace = OwnedFd::from(std::fs::File::open(file)?);
    // SAFETY: asks for a number; nothing is passed.
    let kind = unsafe { libc::ioctl(namespace.as_raw_fd(), GET_TYPE as _) };
    if kind != libc::CLONE_NEWNET {
        return Err(Error::other("is no network namespace"));
    }
    // SAFETY: asks for a descriptor; nothing is passed.
    let owner = unsafe { libc::ioctl(namespace.as_raw_fd(), GET_USER_NAMESPACE as _) };
    if owner < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the kernel has just made the descriptor for us, and nobody else knows it.
    let owner = unsafe { OwnedFd::from_raw_fd(owner) };
    let enter = move || {
        set_namespace(&owner, libc::CLONE_NEWUSER)?;
        set_namespace(&namespace, libc::CLONE_NEWNET)
    };
    // SAFETY: between fork and exec `enter` makes two system calls and allocates nothing.
    unsafe { command.pre_exec(enter) };
    Ok(())
}

fn set_namespace(namespace: &OwnedFd, kind: libc::c_int) -> Result<()> {
    // SAFETY: plain numbers.
    match unsafe { libc::setns(namespace.as_raw_fd(), kind) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_network_namespace_is_joined() {
        let mut command = Command::new("true");
        for file in ["/proc/self/ns/mnt", "/dev/null", "/no/such/file"] {
            assert!(join(&mut command, Path::new(file)).is_err(), "{file}");
        }
    }

    #[test]
    fn a_descriptor_travels() {
        let (one, two) = UnixStream::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        send(one.as_fd(), b'x', file.as_fd()).unwrap();
        let (byte, fd) = receive(&two).unwrap();
        assert_eq!((byte, fd.is_some()), (b'x', true));
        drop(one);
        assert!(receive(&two).is_err());
    }
}
