//! The inner wall for system calls: a filter that says no to whole calls. It judges numbers and
//! flags only; what hides its arguments behind a pointer is refused as a whole.

use super::broker::sys::install_filter;
use seccompiler::{BpfProgram, sock_filter};
use std::os::fd::OwnedFd;

/// The architecture whose call numbers this binary was built with (`AUDIT_ARCH_*`).
#[cfg(target_arch = "x86_64")]
pub(super) const ARCH: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
pub(super) const ARCH: u32 = 0xC000_00B7;

pub(super) const LOAD: u16 = 0x20;
pub(super) const JUMP_EQ: u16 = 0x15;
const JUMP_GE: u16 = 0x35;
pub(super) const JUMP_SET: u16 = 0x45;
pub(super) const RETURN: u16 = 0x06;
/// `BPF_ALU | BPF_AND | BPF_K`.
pub(super) const AND: u16 = 0x54;

pub(super) const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;
const ERRNO: u32 = 0x0005_0000;
pub(super) const ASK: u32 = 0x7fc0_0000;

pub(super) const AT_NUMBER: u32 = 0;
const AT_ARCH: u32 = 4;
/// x32 calls carry this bit on x86_64.
const X32_BIT: u32 = 0x4000_0000;
/// Multipath TCP: it walks round Landlock's TCP rule.
const IPPROTO_MPTCP: u32 = 262;
/// Clone flags that make a namespace, `CLONE_NEWTIME` left out: it shares its bit with the exit
/// signal in `clone`.
pub(super) const NAMESPACE_FLAGS: u32 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP) as u32;
/// Types into a terminal for somebody else, as `TIOCSTI` does.
const TIOCLINUX: u32 = 0x541C;
/// `ioctl` requests that are refused.
const IOCTLS: &[u32] = &[libc::TIOCSTI as u32, TIOCLINUX];
/// Kinds of requests (their second byte) on files and folders. They need no right to write, and so pass
/// Landlock and the broker by: they make snapshots that show what is hidden, remove subvolumes with all
/// that is in them, take encryption keys away, set flags and versions.
const FILE_IOCTLS: &[u32] = &[
    0x9400, // btrfs
    0x6600, // 'f', most file systems
    0x5800, // 'X', XFS, and what came from there
    0x7600, // 'v', versions
    0x7200, // 'r', FAT
];
/// Those of them that change nothing, or what was opened for writing.
const HARMLESS_IOCTLS: &[u32] = &[
    0x4004_9409, // FICLONE
    0x4020_940d, // FICLONERANGE
    0xc018_9436, // FIDEDUPERANGE
    0x8008_6601, // FS_IOC_GETFLAGS
    0x8004_6601, // the same for 32 bits
    0xc020_660b, // FS_IOC_FIEMAP
    0x801c_581f, // FS_IOC_FSGETXATTR
    0x8008_7601, // FS_IOC_GETVERSION
    0x8004_7601, // the same for 32 bits
];
/// A lease on a file makes others who open it wait, for three quarters of a minute.
const F_SETLEASE: u32 = libc::F_SETLEASE as u32;

/// Calls that do not exist for a child: each has a fallback in every libc, or hides what it does
/// from a filter.
const ABSENT: &[libc::c_long] = &[
    libc::SYS_io_uring_setup, // file and socket calls unseen by any filter
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_clone3,  // namespace flags behind a pointer; libc falls back to clone
    libc::SYS_openat2, // mode behind a pointer; callers fall back to openat
    libc::SYS_open_by_handle_at, // opens by number, past every path rule
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
];

/// Calls that are refused.
const DENIED: &[libc::c_long] = &[
    libc::SYS_ptrace, // other processes' memory
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd, // other processes' descriptors
    libc::SYS_kcmp,
    libc::SYS_mount, // the mounts that the outer wall is made of
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare, // namespaces in which it would be root
    libc::SYS_setns,
    libc::SYS_keyctl, // the session's keyring
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf, // kernel surface that no ordinary work needs
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_vhangup,
];

/// The bits by which a program runs as its file's owner or group.
pub(super) const SET_ID_BITS: u32 = 0o6000;
/// Calls that are stopped and asked about when there is a broker. What they name stands behind
/// pointers, which only the broker can judge.
const BROKERED: &[libc::c_long] = &[
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_truncate,
    libc::SYS_umask,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_symlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
];
/// Open flags with which a file may be made or changed.
const CHANGING: u32 = (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) as u32 | CREATING;

/// Open flags with which the mode counts (`O_CREAT`, and what `O_TMPFILE` adds to `O_DIRECTORY`).
pub(super) const CREATING: u32 =
    libc::O_CREAT as u32 | (libc::O_TMPFILE & !libc::O_DIRECTORY) as u32;
/// `fchmodat2`, newer than the list of calls that is used here.
const SYS_FCHMODAT2: libc::c_long = 452;

/// Calls with a mode, and which argument it is.
pub(super) const MODES: &[(libc::c_long, u32)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (SYS_FCHMODAT2, 2),
    (libc::SYS_mknodat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
];

/// Calls with flags and a mode, and which arguments these are.
pub(super) const OPENS: &[(libc::c_long, u32, u32)] = &[
    (libc::SYS_openat, 2, 3),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, 2),
];

pub(super) fn op(code: u16, k: u32) -> sock_filter {
    sock_filter {
        code,
        jt: 0,
        jf: 0,
        k,
    }
}

pub(super) fn jump(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

pub(super) fn fail(errno: i32) -> u32 {
    ERRNO | errno as u32
}

/// Where the low half of an argument lies (both architectures are little-endian). The kernel
/// compares 32 bits at a time; every argument judged here is an `int` or an `unsigned int`, whose
/// upper half the kernel itself ignores.
pub(super) fn argument(n: u32) -> u32 {
    16 + 8 * n
}

/// The filter, as the kernel takes it. With a broker the calls that change names or files are
/// asked about instead of being allowed.
fn filter(broker: bool) -> BpfProgram {
    let mut program = header();
    program.extend(rules(broker));
    program
}

/// Ends callers of another architecture, and loads the call's number.
pub(super) fn header() -> BpfProgram {
    vec![
        op(LOAD, AT_ARCH),
        jump(JUMP_EQ, ARCH, 1, 0),
        op(RETURN, KILL),
        op(LOAD, AT_NUMBER),
        jump(JUMP_GE, X32_BIT, 0, 1),
        op(RETURN, fail(libc::ENOSYS)),
    ]
}

/// What is said to each call once its number is loaded.
pub(super) fn rules(broker: bool) -> BpfProgram {
    let mut program = Vec::new();
    let mut refuse = |calls: &[libc::c_long], errno| {
        for call in calls {
            program.push(jump(JUMP_EQ, *call as u32, 0, 1));
            program.push(op(RETURN, fail(errno)));
        }
    };
    refuse(ABSENT, libc::ENOSYS);
    refuse(DENIED, libc::EPERM);
    // Nothing gets a set-user-ID or set-group-ID bit: it would run as the person, outside.
    let asked = |call: &libc::c_long| match broker && BROKERED.contains(call) {
        true => ASK,
        false => ALLOW,
    };
    for (call, mode) in MODES {
        program.extend([
            jump(JUMP_EQ, *call as u32, 0, 4),
            op(LOAD, argument(*mode)),
            jump(JUMP_SET, SET_ID_BITS, 0, 1),
            op(RETURN, fail(libc::EPERM)),
            op(RETURN, asked(call)),
        ]);
    }
    let changing = if broker { ASK } else { ALLOW };
    for (call, flags, mode) in OPENS {
        program.extend([
            jump(JUMP_EQ, *call as u32, 0, 9),
            op(LOAD, argument(*flags)),
            jump(JUMP_SET, CREATING, 0, 3),
            op(LOAD, argument(*mode)),
            jump(JUMP_SET, SET_ID_BITS, 0, 1),
            op(RETURN, fail(libc::EPERM)),
            op(LOAD, argument(*flags)),
            jump(JUMP_SET, CHANGING, 0, 1),
            op(RETURN, changing),
            op(RETURN, ALLOW),
        ]);
    }
    if broker {
        for call in BROKERED.iter().filter(|call| !has_mode(call)) {
            program.push(jump(JUMP_EQ, *call as u32, 0, 1));
            program.push(op(RETURN, ASK));
        }
    }
    // clone: no new namespace.
    program.extend([
        jump(JUMP_EQ, libc::SYS_clone as u32, 0, 4),
        op(LOAD, argument(0)),
        jump(JUMP_SET, NAMESPACE_FLAGS, 0, 1),
        op(RETURN, fail(libc::EPERM)),
        op(RETURN, ALLOW),
    ]);
    program.extend(requests());
    // fcntl: nobody makes the person wait.
    program.extend([
        jump(JUMP_EQ, libc::SYS_fcntl as u32, 0, 4),
        op(LOAD, argument(1)),
        jump(JUMP_EQ, F_SETLEASE, 0, 1),
        op(RETURN, fail(libc::EPERM)),
        op(RETURN, ALLOW),
    ]);
    // socket: UNIX, NETLINK, INET and INET6, without Multipath TCP; no other family.
    program.extend([
        jump(JUMP_EQ, libc::SYS_socket as u32, 0, 10),
        op(LOAD, argument(0)),
        jump(JUMP_EQ, libc::AF_UNIX as u32, 6, 0),
        jump(JUMP_EQ, libc::AF_NETLINK as u32, 5, 0),
        jump(JUMP_EQ, libc::AF_INET as u32, 2, 0),
        jump(JUMP_EQ, libc::AF_INET6 as u32, 1, 0),
        op(RETURN, fail(libc::EAFNOSUPPORT)),
        op(LOAD, argument(2)),
        jump(JUMP_EQ, IPPROTO_MPTCP, 1, 0),
        op(RETURN, ALLOW),
        op(RETURN, fail(libc::EPROTONOSUPPORT)),
        op(RETURN, ALLOW),
    ]);
    program
}

/// What is said to `ioctl`.
fn requests() -> BpfProgram {
    let mut judged = vec![op(LOAD, argument(1))];
    for request in HARMLESS_IOCTLS {
        judged.extend([jump(JUMP_EQ, *request, 0, 1), op(RETURN, ALLOW)]);
    }
    for request in IOCTLS {
        judged.extend([jump(JUMP_EQ, *request, 0, 1), op(RETURN, fail(libc::EPERM))]);
    }
    judged.push(op(AND, 0xff00));
    for kind in FILE_IOCTLS {
        judged.extend([jump(JUMP_EQ, *kind, 0, 1), op(RETURN, fail(libc::EPERM))]);
    }
    judged.push(op(RETURN, ALLOW));
    let mut program = vec![jump(JUMP_EQ, libc::SYS_ioctl as u32, 0, judged.len() as u8)];
    program.extend(judged);
    program
}

/// Whether a call was answered for already, with its mode.
fn has_mode(call: &libc::c_long) -> bool {
    MODES.iter().any(|(with_mode, _)| with_mode == call)
}

/// Puts the filter on this thread and all its children, for good. With a broker, the descriptor
/// on which it is asked comes back.
pub(super) fn restrict(broker: bool) -> Result<Option<OwnedFd>, String> {
    let program = filter(broker);
    if !broker {
        let done = seccompiler::apply_filter(&program);
        return done.map(|()| None).map_err(|e| format!("seccomp: {e}"));
    }
    ask(&program).map(Some)
}

/// Puts a filter on this thread and all its children that asks; the descriptor on which it does.
pub(super) fn ask(program: &BpfProgram) -> Result<OwnedFd, String> {
    install_filter(program)
        .map_err(|e| format!("seccomp with a listener (Linux 5.19 or newer is needed): {e}"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Runs the filter as the kernel would.
    fn judge(number: u32, arch: u32, args: [u64; 6]) -> u32 {
        judge_by(&filter(false), number, arch, args)
    }

    pub(in crate::linux) fn judge_by(
        program: &BpfProgram,
        number: u32,
        arch: u32,
        args: [u64; 6],
    ) -> u32 {
        let load = |at: u32| match at {
            AT_NUMBER => number,
            AT_ARCH => arch,
            at => {
                let n = (at - 16) / 8;
                let word = args[n as usize];
                if (at - 16) % 8 == 0 {
                    word as u32
                } else {
                    (word >> 32) as u32
                }
            }
        };
        let (mut at, mut acc) = (0usize, 0u32);
        loop {
            let i = &program[at];
            at += 1;
            let test = match i.code {
                LOAD => {
                    acc = load(i.k);
                    continue;
                }
                AND => {
                    acc &= i.k;
                    continue;
                }
                RETURN => return i.k,
                JUMP_EQ => acc == i.k,
                JUMP_GE => acc >= i.k,
                JUMP_SET => acc & i.k != 0,
                other => panic!("code {other:#x}"),
            };
            at += usize::from(if test { i.jt } else { i.jf });
        }
    }

    fn call(number: libc::c_long, args: &[u64]) -> u32 {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        judge(number as u32, ARCH, all)
    }

    #[test]
    fn ordinary_calls_pass() {
        for number in [
            libc::SYS_read,
            libc::SYS_openat,
            libc::SYS_execve,
            libc::SYS_kill,
        ] {
            assert_eq!(call(number, &[]), ALLOW);
        }
        assert_eq!(call(libc::SYS_clone, &[libc::SIGCHLD as u64]), ALLOW);
        assert_eq!(call(libc::SYS_ioctl, &[0, libc::TIOCGWINSZ]), ALLOW);
    }

    #[test]
    fn every_listed_call_is_refused() {
        for number in ABSENT {
            assert_eq!(call(*number, &[]), fail(libc::ENOSYS), "{number}");
        }
        for number in DENIED {
            assert_eq!(call(*number, &[]), fail(libc::EPERM), "{number}");
        }
    }

    #[test]
    fn other_architectures_die_and_x32_does_not_exist() {
        assert_eq!(judge(0, 0x4000_0003, [0; 6]), KILL);
        assert_eq!(judge(X32_BIT | 2, ARCH, [0; 6]), fail(libc::ENOSYS));
    }

    #[test]
    fn namespaces_by_clone_are_refused() {
        let flags = libc::CLONE_NEWUSER as u64 | libc::SIGCHLD as u64;
        assert_eq!(call(libc::SYS_clone, &[flags]), fail(libc::EPERM));
    }

    #[test]
    fn a_lease_is_refused_and_nothing_else_of_its_kind() {
        assert_eq!(call(libc::SYS_fcntl, &[3, 1024]), fail(libc::EPERM));
        for other in [
            libc::F_GETFL,
            libc::F_SETFL,
            libc::F_SETLK,
            libc::F_OFD_SETLKW,
        ] {
            assert_eq!(call(libc::SYS_fcntl, &[3, other as u64]), ALLOW);
        }
        for request in HARMLESS_IOCTLS.iter().map(|request| u64::from(*request)) {
            assert_eq!(call(libc::SYS_ioctl, &[3, request]), ALLOW, "{request:#x}");
        }
    }

    #[test]
    fn requests_are_refused_whatever_the_upper_half_says() {
        let high = 0xdead_0000_0000_0000u64;
        let of_files = [
            0x5000_9401u32, // BTRFS_IOC_SNAP_CREATE
            0x5000_9417,    // BTRFS_IOC_SNAP_CREATE_V2
            0x5000_940f,    // BTRFS_IOC_SNAP_DESTROY
            0x4008_941a,    // BTRFS_IOC_SUBVOL_SETFLAGS
            0xc040_6618,    // FS_IOC_REMOVE_ENCRYPTION_KEY
            0x800c_6613,    // FS_IOC_SET_ENCRYPTION_POLICY
            0x4080_6685,    // FS_IOC_ENABLE_VERITY
            0x4008_6602,    // FS_IOC_SETFLAGS
            0x401c_5820,    // FS_IOC_FSSETXATTR
            0xc004_5877,    // FIFREEZE
            0x4008_7602,    // FS_IOC_SETVERSION
            0x4004_7211,    // FAT_IOCTL_SET_ATTRIBUTES
        ];
        for request in IOCTLS
            .iter()
            .chain(&of_files)
            .map(|request| u64::from(*request))
        {
            assert_eq!(call(libc::SYS_ioctl, &[0, request]), fail(libc::EPERM));
            assert_eq!(
                call(libc::SYS_ioctl, &[0, high | request]),
                fail(libc::EPERM)
            );
        }
    }

    #[test]
    fn nothing_gets_a_set_id_bit() {
        for (number, at) in MODES {
            let mut args = [0; 6];
            for (mode, expected) in [(0o755, ALLOW), (0o1777, ALLOW)] {
                args[*at as usize] = mode;
                assert_eq!(call(*number, &args), expected, "{number} {mode:o}");
            }
            for mode in [0o4755, 0o2755, 0o6000] {
                args[*at as usize] = mode;
                assert_eq!(call(*number, &args), fail(libc::EPERM), "{number} {mode:o}");
            }
        }
        for (number, flags, mode) in OPENS {
            let mut args = [0; 6];
            args[*mode as usize] = 0o4755;
            assert_eq!(call(*number, &args), ALLOW, "the mode does not count");
            for creating in [libc::O_CREAT, libc::O_TMPFILE] {
                args[*flags as usize] = creating as u64;
                assert_eq!(call(*number, &args), fail(libc::EPERM), "{number}");
            }
            args[*flags as usize] = libc::O_DIRECTORY as u64;
            assert_eq!(call(*number, &args), ALLOW, "a folder that is opened");
        }
    }

    #[test]
    fn with_a_broker_it_is_asked_and_without_one_nobody_is() {
        let asking = filter(true);
        let ask = |number: libc::c_long, args: [u64; 6]| {
            let answer = judge_by(&asking, number as u32, ARCH, args);
            assert!(judge_by(&filter(false), number as u32, ARCH, args) != ASK);
            answer
        };
        for number in BROKERED {
            assert_eq!(ask(*number, [0; 6]), ASK, "{number}");
        }
        for (number, flags, mode) in OPENS {
            let mut args = [0; 6];
            assert_eq!(ask(*number, args), ALLOW, "for reading");
            for changing in [
                libc::O_WRONLY,
                libc::O_RDWR,
                libc::O_CREAT,
                libc::O_TRUNC,
                libc::O_TMPFILE,
            ] {
                args[*flags as usize] = changing as u64;
                args[*mode as usize] = 0o644;
                assert_eq!(ask(*number, args), ASK, "{number} {changing:o}");
            }
            args[*mode as usize] = 0o4755;
            assert_eq!(ask(*number, args), fail(libc::EPERM));
        }
        for (number, mode) in MODES {
            let mut args = [0; 6];
            args[*mode as usize] = 0o4755;
            assert_eq!(ask(*number, args), fail(libc::EPERM), "{number}");
        }
        assert_eq!(ask(libc::SYS_read, [0; 6]), ALLOW);
    }

    #[test]
    fn only_four_socket_families() {
        for family in [
            libc::AF_UNIX,
            libc::AF_INET,
            libc::AF_INET6,
            libc::AF_NETLINK,
        ] {
            assert_eq!(call(libc::SYS_socket, &[family as u64, 1, 0]), ALLOW);
        }
        for family in [
            libc::AF_VSOCK,
            libc::AF_PACKET,
            libc::AF_ALG,
            libc::AF_BLUETOOTH,
        ] {
            let refused = call(libc::SYS_socket, &[family as u64, 1, 0]);
            assert_eq!(refused, fail(libc::EAFNOSUPPORT), "{family}");
        }
        let mptcp = [libc::AF_INET as u64, 1, u64::from(IPPROTO_MPTCP)];
        assert_eq!(call(libc::SYS_socket, &mptcp), fail(libc::EPROTONOSUPPORT));
    }
}
