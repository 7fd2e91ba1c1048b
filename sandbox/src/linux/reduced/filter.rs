//! What the filter of system calls says besides where there are no namespaces: what these would
//! have kept apart is refused or asked about.

use crate::linux::seccomp::{
    ALLOW, AND, ASK, AT_NUMBER, CREATING, JUMP_EQ, JUMP_SET, LOAD, MODES, NAMESPACE_FLAGS, OPENS,
    RETURN, SET_ID_BITS, argument, fail, header, jump, op, rules,
};
use seccompiler::{BpfProgram, sock_filter};

/// Calls that reach what other programs of the user share, or other processes.
const DENIED: &[libc::c_long] = &[
    libc::SYS_shmget, // System V's memory, semaphores and queues are the user's
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open, // and so are the queues of POSIX
    libc::SYS_mq_unlink,
    libc::SYS_process_madvise,
    libc::SYS_fanotify_init, // names of what is hidden, and what is done to it
];

/// Calls about a process or a thread, and which argument names it: 0 is the caller itself; about
/// another one it is asked.
pub(in crate::linux) const OF_PROCESSES: &[(libc::c_long, usize)] = &[
    (libc::SYS_prlimit64, 0),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_move_pages, 0),
    (libc::SYS_migrate_pages, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
];
/// `IOPRIO_WHO_PROCESS`; the others are a group and a user.
const IOPRIO_WHO_PROCESS: u32 = 1;

/// Calls, an argument, and its values that are refused: a signal for whoever is named, when
/// something happens on a descriptor; and hiding one's paths from the broker.
const VALUES: &[(libc::c_long, u32, u32)] = &[
    (libc::SYS_fcntl, 1, libc::F_SETOWN as u32),
    (libc::SYS_fcntl, 1, F_SETSIG),
    (libc::SYS_fcntl, 1, F_SETOWN_EX),
    (libc::SYS_ioctl, 1, FIOSETOWN),
    (libc::SYS_ioctl, 1, SIOCSPGRP),
    (libc::SYS_prctl, 0, libc::PR_SET_DUMPABLE as u32),
    // Other programs' sockets have names in folders, or none that a rule could know.
    (libc::SYS_socket, 0, libc::AF_UNIX as u32),
];
const F_SETSIG: u32 = 10;
const F_SETOWN_EX: u32 = 15;
const FIOSETOWN: u32 = 0x8901;
const SIOCSPGRP: u32 = 0x8902;
/// Newer than the list of calls that is used here.
const SYS_SETXATTRAT: libc::c_long = 463;
const SYS_GETXATTRAT: libc::c_long = 464;
const SYS_LISTXATTRAT: libc::c_long = 465;
const SYS_REMOVEXATTRAT: libc::c_long = 466;
const SYS_OPEN_TREE_ATTR: libc::c_long = 467;
const SYS_FILE_SETATTR: libc::c_long = 469;

/// Extended attributes of any file of the user's: as on a file system that has none. Read they tell what
/// is hidden.
const ATTRIBUTES: &[libc::c_long] = &[
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
];
/// The newer ones.
const NEWER: &[libc::c_long] = &[
    SYS_SETXATTRAT,
    SYS_GETXATTRAT,
    SYS_LISTXATTRAT,
    SYS_REMOVEXATTRAT,
    SYS_OPEN_TREE_ATTR,
    SYS_FILE_SETATTR,
];
/// Calls about mode, owner and times, which the broker carries out.
const SETTINGS: &[libc::c_long] = &[
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

/// Kinds of sockets by which the machine's network is reached.
const NETWORK: &[i32] = &[libc::AF_INET, libc::AF_INET6];

/// Calls that are asked about: who gets a signal, whether one more process may be started, whose names
/// are watched.
const ASKED: &[libc::c_long] = &[
    libc::SYS_inotify_add_watch,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
];

/// The filter, as the kernel takes it.
pub(in crate::linux) fn filter(network: bool) -> BpfProgram {
    let mut program = header();
    program.extend(besides(network));
    program.extend(rules(true));
    program
}

fn besides(network: bool) -> BpfProgram {
    let eperm = fail(libc::EPERM);
    let mut program = Vec::new();
    for call in DENIED {
        program.extend(whole(*call, eperm));
    }
    // Signals by a descriptor: the broker does not know whose it is. Callers fall back.
    program.extend(whole(libc::SYS_pidfd_send_signal, fail(libc::ENOSYS)));
    for call in ASKED.iter().chain(SETTINGS) {
        program.extend(whole(*call, ASK));
    }
    for call in ATTRIBUTES {
        program.extend(whole(*call, fail(libc::EOPNOTSUPP)));
    }
    for call in NEWER {
        program.extend(whole(*call, fail(libc::ENOSYS)));
    }
    for (call, mode) in MODES.iter().filter(|(call, _)| is_change(*call)) {
        program.extend([
            jump(JUMP_EQ, *call as u32, 0, 4),
            op(LOAD, argument(*mode)),
            jump(JUMP_SET, SET_ID_BITS, 0, 1),
            op(RETURN, eperm),
            op(RETURN, ASK),
        ]);
    }
    // Of the kernel's own sockets, addresses and routes alone: others reach programs.
    program.extend([
        jump(JUMP_EQ, libc::SYS_socket as u32, 0, 6),
        op(LOAD, argument(0)),
        jump(JUMP_EQ, libc::AF_NETLINK as u32, 0, 3),
        op(LOAD, argument(2)),
        jump(JUMP_EQ, libc::NETLINK_ROUTE as u32, 1, 0),
        op(RETURN, eperm),
        op(LOAD, AT_NUMBER),
    ]);
    program.extend(unless(libc::SYS_ioprio_set, 0, IOPRIO_WHO_PROCESS, eperm));
    program.extend(unless(libc::SYS_setpriority, 0, libc::PRIO_PROCESS, eperm));
    for (call, n) in OF_PROCESSES {
        program.extend(unless(*call, *n as u32, 0, ASK));
    }
    for (call, n, value) in VALUES {
        program.extend(when(*call, *n, *value, eperm));
    }
    if !network {
        for family in NETWORK {
            program.extend(when(libc::SYS_socket, 0, *family as u32, eperm));
        }
    }
    // A pair knows only itself, but for datagrams, whose ends can be connected elsewhere.
    program.extend([
        jump(JUMP_EQ, libc::SYS_socketpair as u32, 0, 6),
        op(LOAD, argument(1)),
        op(AND, 0xf),
        jump(JUMP_EQ, libc::SOCK_STREAM as u32, 2, 0),
        jump(JUMP_EQ, libc::SOCK_SEQPACKET as u32, 1, 0),
        op(RETURN, eperm),
        op(RETURN, ALLOW),
    ]);
    // Threads are the process's own.
    program.extend([
        jump(JUMP_EQ, libc::SYS_clone as u32, 0, 6),
        op(LOAD, argument(0)),
        jump(JUMP_SET, NAMESPACE_FLAGS, 1, 0),
        jump(JUMP_SET, libc::CLONE_THREAD as u32, 1, 2),
        op(RETURN, eperm),
        op(RETURN, ALLOW),
        op(RETURN, ASK),
    ]);
    for (call, flags, mode) in OPENS {
        program.extend([
            jump(JUMP_EQ, *call as u32, 0, 8),
            op(LOAD, argument(*flags)),
            jump(JUMP_SET, libc::O_PATH as u32, 5, 0),
            jump(JUMP_SET, CREATING, 0, 3),
            op(LOAD, argument(*mode)),
            jump(JUMP_SET, SET_ID_BITS, 0, 1),
            op(RETURN, eperm),
            op(RETURN, ASK),
            op(RETURN, ALLOW),
        ]);
    }
    program
}

/// Whether a call with a mode changes that of a file that is there.
fn is_change(call: libc::c_long) -> bool {
    #[cfg(target_arch = "x86_64")]
    let makes = [libc::SYS_mknodat, libc::SYS_mknod, libc::SYS_creat];
    #[cfg(not(target_arch = "x86_64"))]
    let makes = [libc::SYS_mknodat];
    !makes.contains(&call)
}

/// One answer to a call, whatever its arguments.
fn whole(call: libc::c_long, answer: u32) -> [sock_filter; 2] {
    [jump(JUMP_EQ, call as u32, 0, 1), op(RETURN, answer)]
}

/// An answer to a call whose argument has this value.
fn when(call: libc::c_long, n: u32, value: u32, answer: u32) -> [sock_filter; 5] {
    [
        jump(JUMP_EQ, call as u32, 0, 4),
        op(LOAD, argument(n)),
        jump(JUMP_EQ, value, 0, 1),
        op(RETURN, answer),
        op(LOAD, AT_NUMBER),
    ]
}

/// The same where it has another value.
fn unless(call: libc::c_long, n: u32, value: u32, answer: u32) -> [sock_filter; 5] {
    [
        jump(JUMP_EQ, call as u32, 0, 4),
        op(LOAD, argument(n)),
        jump(JUMP_EQ, value, 1, 0),
        op(RETURN, answer),
        op(LOAD, AT_NUMBER),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::seccomp::ARCH;
    use crate::linux::seccomp::tests::judge_by;

    fn said(call: libc::c_long, args: &[u64]) -> u32 {
        said_by(&filter(true), call, args)
    }

    fn said_by(program: &BpfProgram, call: libc::c_long, args: &[u64]) -> u32 {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        judge_by(program, call as u32, ARCH, all)
    }

    #[test]
    fn every_opening_is_asked_about_but_that_of_a_mere_handle() {
        let open = |flags: i32, mode: u64| said(libc::SYS_openat, &[0, 0, flags as u64, mode]);
        assert_eq!(open(libc::O_RDONLY, 0), ASK);
        assert_eq!(open(libc::O_RDWR | libc::O_CREAT, 0o644), ASK);
        assert_eq!(open(libc::O_RDONLY | libc::O_DIRECTORY, 0), ASK);
        assert_eq!(open(libc::O_PATH | libc::O_DIRECTORY, 0), ALLOW);
        let eperm = fail(libc::EPERM);
        assert_eq!(open(libc::O_WRONLY | libc::O_CREAT, 0o4755), eperm);
        assert_eq!(open(libc::O_RDONLY, 0o4755), ASK);
    }

    #[test]
    fn processes_start_and_signal_others_by_leave_only() {
        let signal = libc::SIGCHLD as u64;
        assert_eq!(said(libc::SYS_clone, &[signal]), ASK);
        assert_eq!(said(libc::SYS_clone, &[libc::CLONE_THREAD as u64]), ALLOW);
        let both = (libc::CLONE_THREAD | libc::CLONE_NEWUSER) as u64;
        assert_eq!(said(libc::SYS_clone, &[both]), fail(libc::EPERM));
        for call in ASKED {
            assert_eq!(said(*call, &[1, 9]), ASK, "{call}");
        }
        assert_eq!(said(libc::SYS_pidfd_send_signal, &[]), fail(libc::ENOSYS));
        for (call, first) in [
            (libc::SYS_fcntl, 8),
            (libc::SYS_fcntl, 15),
            (libc::SYS_ioctl, 0x8901),
        ] {
            assert_eq!(said(call, &[3, first]), fail(libc::EPERM));
        }
        assert_eq!(said(libc::SYS_fcntl, &[3, libc::F_SETFD as u64]), ALLOW);
    }

    #[test]
    fn others_are_out_of_reach() {
        let eperm = fail(libc::EPERM);
        assert_eq!(said(libc::SYS_prlimit64, &[77, 7]), ASK);
        assert_eq!(said(libc::SYS_prlimit64, &[0, 7]), ALLOW);
        assert_eq!(said(libc::SYS_setpriority, &[0, 0, 10]), ALLOW);
        assert_eq!(said(libc::SYS_setpriority, &[2, 0, 10]), eperm);
        assert_eq!(said(libc::SYS_setpriority, &[0, 5, 10]), ASK);
        assert_eq!(said(libc::SYS_ioprio_set, &[1, 0]), ALLOW);
        assert_eq!(said(libc::SYS_ioprio_set, &[2, 0]), eperm);
        assert_eq!(said(libc::SYS_shmget, &[]), eperm);
        assert_eq!(said(libc::SYS_ptrace, &[]), eperm);
        assert_eq!(said(libc::SYS_prctl, &[4, 0]), eperm);
        assert_eq!(said(libc::SYS_prctl, &[15, 0]), ALLOW);
    }

    #[test]
    fn nothing_of_a_file_is_set_unasked() {
        assert_eq!(said(libc::SYS_fchmod, &[3, 0o755]), ASK);
        assert_eq!(said(libc::SYS_fchmodat, &[3, 0, 0o755]), ASK);
        assert_eq!(said(libc::SYS_fchmodat, &[3, 0, 0o4755]), fail(libc::EPERM));
        assert_eq!(said(libc::SYS_utimensat, &[3, 0, 0, 0]), ASK);
        assert_eq!(said(libc::SYS_fchownat, &[3, 0, 0, 0, 0]), ASK);
        assert_eq!(said(libc::SYS_fsetxattr, &[3]), fail(libc::EOPNOTSUPP));
        assert_eq!(said(SYS_FILE_SETATTR, &[3]), fail(libc::ENOSYS));
        assert_eq!(said(libc::SYS_ioctl, &[3, 0x4008_6602]), fail(libc::EPERM));
        assert_eq!(said(libc::SYS_mknodat, &[3, 0, 0o644]), ASK);
    }

    #[test]
    fn sockets_are_of_the_network_alone_or_a_pair() {
        let eperm = fail(libc::EPERM);
        let unix = libc::AF_UNIX as u64;
        let kind = |kind: i32| (kind | libc::SOCK_CLOEXEC) as u64;
        assert_eq!(said(libc::SYS_socket, &[unix, 1]), eperm);
        for (pair, answer) in [
            (libc::SOCK_STREAM, ALLOW),
            (libc::SOCK_SEQPACKET, ALLOW),
            (libc::SOCK_DGRAM, eperm),
        ] {
            assert_eq!(said(libc::SYS_socketpair, &[unix, kind(pair)]), answer);
        }
        let off = filter(false);
        for family in NETWORK {
            assert_eq!(said(libc::SYS_socket, &[*family as u64, 1]), ALLOW);
            assert_eq!(said_by(&off, libc::SYS_socket, &[*family as u64, 1]), eperm);
        }
        let netlink = |protocol| said(libc::SYS_socket, &[libc::AF_NETLINK as u64, 3, protocol]);
        assert_eq!((netlink(0), netlink(2)), (ALLOW, eperm));
        let mptcp = [libc::AF_INET as u64, 1, 262];
        assert_eq!(said(libc::SYS_socket, &mptcp), fail(libc::EPROTONOSUPPORT));
    }
}
