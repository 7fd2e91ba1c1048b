//! What a file is, whatever its name: identity, kind, and the mount it was reached by.

use crate::limits;
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// `STATX_MNT_ID` and `STATX_ATTR_MOUNT_ROOT` of `linux/stat.h`.
const MOUNT_ID: u32 = 0x1000;
const MOUNT_ROOT: u64 = 0x2000;

/// Identity. An inode number comes back after a removal; with the time of its birth the pair does
/// not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Id {
    pub(super) dev: u64,
    pub(super) ino: u64,
    pub(super) born: (i64, u32),
}

impl Id {
    /// Whether the file system says when a file was born. Without that an identity may come back,
    /// and nothing may be concluded from it.
    pub(super) fn is_lasting(&self) -> bool {
        self.born != (0, 0)
    }

    /// Whether it was born at that time or later, as far as a file system tells times apart.
    pub(super) fn is_born_since(&self, begun: SystemTime) -> bool {
        time(self.born) + limits::CLOCK_TICK >= begun
    }

    /// Device and inode as `stat` says them.
    pub(super) fn as_system_has_it(&self) -> (u64, u64) {
        let (major, minor) = (self.dev >> 32, self.dev & u64::from(u32::MAX));
        let half = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        (rustix::fs::makedev(half(major), half(minor)), self.ino)
    }
}

/// Size and times: a file that has the same ones has not been written to in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    size: u64,
    modified: (i64, u32),
    changed: (i64, u32),
}

impl State {
    /// Whether nothing was written in between, as far as times tell. A rename is no writing.
    pub(super) fn has_content_of(&self, other: Self) -> bool {
        (self.size, self.modified) == (other.size, other.modified)
    }

    /// Whether it was changed so short a time ago that another change might not show.
    pub(super) fn is_young(&self, now: SystemTime) -> bool {
        let age = now.duration_since(time(self.changed));
        age.map_or(true, |age| age < limits::CLOCK_TICK)
    }
}

/// What a look at an object says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stat {
    pub(super) id: Id,
    mode: u32,
    pub(super) size: u64,
    pub(super) links: u32,
    pub(super) mount: u64,
    pub(super) is_mount_root: bool,
    pub(super) state: State,
}

/// Kinds of objects that are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Folder,
    Link,
    Pipe,
    Socket,
    Other,
}

impl Stat {
    pub(super) fn kind(&self) -> Kind {
        match self.mode & libc::S_IFMT {
            libc::S_IFREG => Kind::File,
            libc::S_IFDIR => Kind::Folder,
            libc::S_IFLNK => Kind::Link,
            libc::S_IFIFO => Kind::Pipe,
            libc::S_IFSOCK => Kind::Socket,
            _ => Kind::Other,
        }
    }

    pub(super) fn permissions(&self) -> u32 {
        self.mode & 0o777
    }

    pub(super) fn is(&self, kind: Kind) -> bool {
        self.kind() == kind
    }
}

/// Looks at an entry of a folder, not following a link.
pub(super) fn stat_at(dir: impl AsFd, name: &CStr) -> Result<Stat, Errno> {
    let wanted =
        StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::from_bits_retain(MOUNT_ID);
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
    let s = rustix::fs::statx(dir, name, flags, wanted)?;
    let born = match s.stx_mask & StatxFlags::BTIME.bits() {
        0 => (0, 0),
        _ => (s.stx_btime.tv_sec, s.stx_btime.tv_nsec),
    };
    Ok(Stat {
        id: Id {
            dev: u64::from(s.stx_dev_major) << 32 | u64::from(s.stx_dev_minor),
            ino: s.stx_ino,
            born,
        },
        mode: u32::from(s.stx_mode),
        size: s.stx_size,
        links: s.stx_nlink,
        mount: s.stx_mnt_id,
        is_mount_root: s.stx_attributes.bits() & MOUNT_ROOT != 0,
        state: State {
            size: s.stx_size,
            modified: (s.stx_mtime.tv_sec, s.stx_mtime.tv_nsec),
            changed: (s.stx_ctime.tv_sec, s.stx_ctime.tv_nsec),
        },
    })
}

/// The clock that file systems stamp births with, at its coarsest.
pub(super) fn clock() -> SystemTime {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    time((now.tv_sec, u32::try_from(now.tv_nsec).unwrap_or(0)))
}

fn time((seconds, nanos): (i64, u32)) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::new(u64::try_from(seconds).unwrap_or(0), nanos)
}

/// Looks at what a descriptor stands for.
pub(super) fn stat(object: impl AsFd) -> Result<Stat, Errno> {
    stat_at(object, c"")
}

/// A handle on an entry itself, for looking at and opening again.
pub(super) fn handle(dir: impl AsFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, Mode::empty())
}

/// The name by which this process can reach what a descriptor stands for.
pub(super) fn own_name(object: impl AsFd) -> CString {
    let name = format!("/proc/self/fd/{}", object.as_fd().as_raw_fd());
    // Digits and slashes hold no NUL.
    CString::new(name).unwrap_or_default()
}

/// Opens again exactly the object behind a handle (mount included), whatever its name is now.
pub(super) fn reopen(object: &OwnedFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(own_name(object).as_c_str(), flags, Mode::empty())
}

/// Where an object lies, by the names inside the sandbox: those of the machine for everything in
/// a workspace. What has no name that can be judged (one longer than a path may be, say) is refused.
pub(super) fn path_of(object: impl AsFd) -> Result<PathBuf, Errno> {
    let path = rustix::fs::readlink(own_name(object).as_c_str(), Vec::new())?;
    Ok(PathBuf::from(OsString::from_vec(path.into_bytes())))
}
