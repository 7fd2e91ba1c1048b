//! The few kernel calls of the broker that no crate covers.

use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `SECCOMP_IOCTL_NOTIF_*` of `linux/seccomp.h`, the same on both architectures.
const RECEIVE: u64 = 0xc050_2100;
const SEND: u64 = 0xc018_2101;
const ID_VALID: u64 = 0x4008_2102;
const ADD_FD: u64 = 0x4018_2103;
const SET_FLAGS: u64 = 0x4008_2104;
/// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`: caller and broker hand the processor to each other.
const SYNC_WAKE_UP: u64 = 1;
/// `SECCOMP_USER_NOTIF_FLAG_CONTINUE`.
const CONTINUE: u32 = 1;

/// A call that waits for an answer.
pub(super) type Call = libc::seccomp_notif;

/// The descriptor on which calls arrive.
pub(super) struct Listener(OwnedFd);

impl Listener {
    pub(super) fn new(fd: OwnedFd) -> Self {
        // SAFETY: SET_FLAGS takes a plain number. A kernel without it (before 6.6) says EINVAL and
        // works all the same, only slower.
        unsafe { libc::ioctl(fd.as_raw_fd(), SET_FLAGS as _, SYNC_WAKE_UP) };
        Self(fd)
    }

    /// Whether the last process that could ask is gone.
    pub(super) fn is_over(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut listener = [PollFd::new(&self.0, PollFlags::empty())];
        let polled = poll(&mut listener, Some(&Timespec::default()));
        let gone = PollFlags::HUP | PollFlags::ERR;
        polled.is_ok() && listener[0].revents().intersects(gone)
    }

    /// Waits for the next call; none when its caller was ended meanwhile, or nobody is left that
    /// could call.
    pub(super) fn receive(&self) -> Option<Call> {
        let mut call = empty_call();
        // SAFETY: the kernel writes a `seccomp_notif` to the zeroed one that is passed.
        let got = unsafe { libc::ioctl(self.0.as_raw_fd(), RECEIVE as _, &mut call) };
        (got == 0).then_some(call)
    }

    /// Whether the caller still waits: only then what was read by its number was its own.
    pub(super) fn still_waits(&self, call: &Call) -> bool {
        // SAFETY: the kernel reads a number from the reference that is passed.
        let valid = unsafe { libc::ioctl(self.0.as_raw_fd(), ID_VALID as _, &call.id) };
        valid == 0
    }

    /// Lets the kernel carry the call out itself.
    pub(super) fn go_on(&self, call: &Call) {
        self.send(call, 0, 0, CONTINUE);
    }

    pub(super) fn value(&self, call: &Call, value: i64) {
        self.send(call, value, 0, 0);
    }

    pub(super) fn fail(&self, call: &Call, errno: Errno) {
        self.send(call, 0, -errno.raw_os_error(), 0);
    }

    /// Gives the caller this file. Our own descriptor is closed before the caller runs on: a
    /// program that it has just written could not be started while we hold it open.
    pub(super) fn file(&self, call: &Call, file: OwnedFd, close_on_exec: bool) {
        let add = libc::seccomp_notif_addfd {
            id: call.id,
            flags: 0,
            srcfd: file.as_raw_fd() as u32,
            newfd: 0,
            newfd_flags: if close_on_exec {
                libc::O_CLOEXEC as u32
            } else {
                0
            },
        };
        // SAFETY: the kernel reads a `seccomp_notif_addfd` from the reference that is passed.
        let number = unsafe { libc::ioctl(self.0.as_raw_fd(), ADD_FD as _, &add) };
        let failed = (number < 0).then(last_error);
        drop(file);
        match failed {
            None => self.value(call, i64::from(number)),
            Some(error) => self.fail(call, error),
        }
    }

    fn send(&self, call: &Call, val: i64, error: i32, flags: u32) {
        let answer = libc::seccomp_notif_resp {
            id: call.id,
            val,
            error,
            flags,
        };
        // SAFETY: the kernel reads a `seccomp_notif_resp` from the reference that is passed. A
        // caller that is gone needs no answer.
        unsafe { libc::ioctl(self.0.as_raw_fd(), SEND as _, &answer) };
    }
}

fn empty_call() -> Call {
    libc::seccomp_notif {
        id: 0,
        pid: 0,
        flags: 0,
        data: libc::seccomp_data {
            nr: 0,
            arch: 0,
            instruction_pointer: 0,
            args: [0; 6],
        },
    }
}

fn last_error() -> Errno {
    std::io::Error::last_os_error()
        .raw_os_error()
        .map_or(Errno::IO, Errno::from_raw_os_error)
}

/// Reads the memory of a process; the number of bytes read.
pub(super) fn read_memory(pid: u32, address: u64, into: &mut [u8]) -> Result<usize, Errno> {
    let ours = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    let theirs = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: into.len(),
    };
    // SAFETY: the kernel writes at most `into.len()` bytes to `into`; the other address is never
    // touched by this process.
    let read = unsafe { libc::process_vm_readv(pid as i32, &ours, 1, &theirs, 1, 0) };
    usize::try_from(read).map_err(|_| last_error())
}

/// Gives up every capability of this thread, for good: as root the broker must write nothing for
/// a caller that the caller's user could not write.
pub(in crate::linux) fn drop_capabilities() -> Result<(), Errno> {
    const VERSION_3: u32 = 0x2008_0522;
    let head = [VERSION_3, 0];
    let none = [0u32; 6];
    // SAFETY: the kernel reads a header of two words and two sets of three words each, which is
    // what the two arrays are; the thread loses rights and gains none.
    let done = unsafe { libc::syscall(libc::SYS_capset, head.as_ptr(), none.as_ptr()) };
    if done == 0 { Ok(()) } else { Err(last_error()) }
}

/// Sees to it that no program that is started gets any capability back, as root's do otherwise. To be
/// called before [`drop_capabilities`].
pub(in crate::linux) fn bound_capabilities() -> Result<(), Errno> {
    // `SECBIT_NOROOT` and `SECBIT_NOROOT_LOCKED` of `linux/securebits.h`.
    const NO_ROOT: libc::c_ulong = 0b11;
    // SAFETY: plain numbers; the thread loses rights and gains none.
    let done = unsafe { libc::prctl(libc::PR_SET_SECUREBITS, NO_ROOT, 0, 0, 0) };
    // Whoever is not root gets none back anyway, and may not say so.
    if done == 0 || !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(last_error())
}

/// Gives this thread a umask and a working folder of its own.
pub(super) fn own_umask() -> Result<(), Errno> {
    // SAFETY: only which `fs_struct` this thread uses changes.
    let done = unsafe { libc::unshare(libc::CLONE_FS) };
    if done == 0 { Ok(()) } else { Err(last_error()) }
}

/// A lease on a file nobody else has open: whoever opens it meanwhile waits until the lease ends.
pub(super) struct Lease(OwnedFd);

impl Lease {
    pub(super) fn take(file: BorrowedFd) -> Result<Self, Errno> {
        // The lease belongs to the open file, which both descriptors stand for.
        let own = file.try_clone_to_owned().map_err(|_| Errno::MFILE)?;
        // SAFETY: plain numbers.
        let done = unsafe { libc::fcntl(own.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) };
        if done == 0 {
            Ok(Self(own))
        } else {
            Err(last_error())
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // SAFETY: plain numbers; the descriptor is ours and still open.
        unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
    }
}

/// Somebody who waits for a lease of ours makes the kernel send us this signal, which would
/// otherwise end the process. The lease ends soon without being asked.
pub(super) fn ignore_lease_signals() {
    // SAFETY: ignoring a signal installs no handler.
    unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
}

/// Puts a filter on this thread and its children; its listener comes back. With
/// `WAIT_KILLABLE_RECV` (Linux 5.19) only a fatal signal interrupts a call that the broker has
/// taken, so that none is carried out twice.
pub(in crate::linux) fn install_filter(
    program: &[seccompiler::sock_filter],
) -> Result<OwnedFd, std::io::Error> {
    const FLAGS: libc::c_ulong =
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    let length = u16::try_from(program.len()).map_err(|_| std::io::ErrorKind::InvalidInput)?;
    let wanted = libc::sock_fprog {
        len: length,
        // The kernel only reads it; seccompiler's type has libc's layout.
        filter: program.as_ptr().cast_mut().cast(),
    };
    // SAFETY: plain numbers; without new privileges a filter can be put on by anybody.
    let no_new = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    if no_new != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the kernel reads `wanted` and the program that it points to, both alive here.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            FLAGS,
            &wanted,
        )
    };
    match i32::try_from(fd) {
        // SAFETY: the kernel made the descriptor for us just now; nothing else owns it.
        Ok(fd @ 0..) => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(std::io::Error::last_os_error()),
    }
}
