//! What only Linux has.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs;

/// File systems that show the kernel's own state, wherever they are mounted (statfs(2), `linux/magic.h`).
const KERNEL_FILE_SYSTEMS: &[u64] = &[
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0x6265_6570, // configfs
    0x6367_7270, // cgroup2
    0x0027_e0eb, // cgroup
    0xcafe_4a11, // bpf
    0xde5e_81e4, // efivarfs
    0xf97c_ff8c, // selinux
    0x6e73_6673, // namespaces
    0x1cd1,      // devpts
];

/// Whether the open object lies on a file system of the kernel's, such as a second mount of proc.
/// One that cannot be asked counts as such.
#[allow(clippy::unnecessary_cast)] // the field's type differs between architectures
pub(super) fn is_kernel_file_system(fd: &OwnedFd) -> bool {
    match fs::fstatfs(fd) {
        Ok(stat) => KERNEL_FILE_SYSTEMS.contains(&(stat.f_type as u64 & 0xffff_ffff)),
        Err(_) => true,
    }
}

/// Names are what their bytes are; there is no other spelling.
pub(super) fn true_spelling(_folder: &OwnedFd, path: PathBuf) -> PathBuf {
    path
}
