//! One look at one name in one folder, never through a link.

use std::ffi::{OsStr, OsString};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;

use rustix::fs::{self, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Identity of a file system object: the same pair is the same object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// Device number.
    pub dev: u64,
    /// Inode number on that device.
    pub ino: u64,
}

/// What sort of object there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Dir,
    /// A symbolic link; only [`Target::sibling`](super::Target::sibling) meets one, resolution follows them.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

impl Kind {
    /// The kind in words, for messages.
    pub fn name(self) -> &'static str {
        match self {
            Kind::File => "a regular file",
            Kind::Dir => "a directory",
            Kind::Symlink => "a symbolic link",
            Kind::Fifo => "a named pipe (FIFO)",
            Kind::Socket => "a socket",
            Kind::CharDevice => "a character device",
            Kind::BlockDevice => "a block device",
        }
    }
}

/// What a stat says that the policy needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) id: FileId,
    pub(crate) kind: Kind,
    pub(crate) nlink: u64,
}

/// The result of looking at a name.
#[derive(Debug)]
pub(crate) enum Looked {
    /// A folder, opened.
    Dir(OwnedFd, Meta),
    /// A symbolic link and its text.
    Link(OsString),
    /// Anything else.
    Node(Meta),
    /// Nothing of that name.
    Missing,
}

/// Why a look failed.
#[derive(Debug)]
pub(crate) enum LookError {
    /// The operating system said no.
    System(Errno),
    /// The object changed between two steps of the look.
    #[cfg_attr(target_os = "linux", allow(dead_code))]
    Changed,
}

impl From<Errno> for LookError {
    fn from(error: Errno) -> Self {
        LookError::System(error)
    }
}

#[allow(clippy::unnecessary_cast)] // field widths differ between platforms
pub(crate) fn file_id(stat: &Stat) -> FileId {
    FileId {
        dev: stat.st_dev as u64,
        ino: stat.st_ino as u64,
    }
}

/// The facts of a stat; `None` for a kind that has no name here.
#[allow(clippy::unnecessary_cast)] // the fields' types differ between platforms
pub(crate) fn meta(stat: &Stat) -> Option<Meta> {
    let kind = match file_type(stat) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Dir,
        FileType::Symlink => Kind::Symlink,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice => Kind::CharDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        _ => return None,
    };
    Some(Meta {
        id: file_id(stat),
        kind,
        nlink: stat.st_nlink as u64,
    })
}

#[allow(clippy::unnecessary_cast)] // the field's type differs between platforms
pub(crate) fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode as _)
}

/// Flags to open a folder for walking: no link is followed, and no read permission is needed where the platform can do without.
pub(crate) fn walk_flags() -> OFlags {
    #[cfg(target_os = "linux")]
    let access = OFlags::PATH;
    #[cfg(not(target_os = "linux"))]
    let access = OFlags::RDONLY;
    access | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

/// Opens the folder `name` in `dir` for walking.
pub(crate) fn open_folder(
    dir: BorrowedFd<'_>,
    name: &OsStr,
) -> Result<(OwnedFd, FileId), LookError> {
    let fd = fs::openat(dir, name, walk_flags(), Mode::empty())?;
    let id = file_id(&fs::fstat(&fd)?);
    Ok((fd, id))
}

/// Opens the file system's root for walking.
pub(crate) fn open_root() -> Result<(OwnedFd, FileId), LookError> {
    open_folder(fs::CWD, OsStr::new("/"))
}

/// Looks at `name` in `dir`.
pub(crate) fn look(dir: BorrowedFd<'_>, name: &OsStr) -> Result<Looked, LookError> {
    #[cfg(target_os = "linux")]
    return by_descriptor(dir, name);
    #[cfg(not(target_os = "linux"))]
    return by_name(dir, name);
}

/// Linux: the object itself is opened by `O_PATH`, so everything said about it is said of one object.
#[cfg(target_os = "linux")]
fn by_descriptor(dir: BorrowedFd<'_>, name: &OsStr) -> Result<Looked, LookError> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = match fs::openat(dir, name, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => return Ok(Looked::Missing),
        Err(error) => return Err(error.into()),
    };
    let stat = fs::fstat(&fd)?;
    if file_type(&stat) == FileType::Symlink {
        let text = fs::readlinkat(&fd, "", Vec::new())?;
        return Ok(Looked::Link(OsString::from_vec(text.into_bytes())));
    }
    match meta(&stat) {
        Some(meta) if meta.kind == Kind::Dir => Ok(Looked::Dir(fd, meta)),
        Some(meta) => Ok(Looked::Node(meta)),
        None => Err(Errno::NOTSUP.into()),
    }
}

/// Everywhere else: stat, then open or read the link, and compare. Also built for tests, so that it is exercised on Linux.
#[cfg(any(test, not(target_os = "linux")))]
pub(crate) fn by_name(dir: BorrowedFd<'_>, name: &OsStr) -> Result<Looked, LookError> {
    let stat = match fs::statat(dir, name, fs::AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(Looked::Missing),
        Err(error) => return Err(error.into()),
    };
    if file_type(&stat) == FileType::Symlink {
        return match fs::readlinkat(dir, name, Vec::new()) {
            Ok(text) => Ok(Looked::Link(OsString::from_vec(text.into_bytes()))),
            // No longer a link, or gone.
            Err(Errno::INVAL | Errno::NOENT) => Err(LookError::Changed),
            Err(error) => Err(error.into()),
        };
    }
    let Some(seen) = meta(&stat) else {
        return Err(Errno::NOTSUP.into());
    };
    if seen.kind != Kind::Dir {
        return Ok(Looked::Node(seen));
    }
    match open_folder(dir, name) {
        Ok((fd, id)) if id == seen.id => Ok(Looked::Dir(fd, seen)),
        Ok(_) => Err(LookError::Changed),
        Err(LookError::System(Errno::NOTDIR | Errno::LOOP | Errno::NOENT)) => {
            Err(LookError::Changed)
        }
        Err(error) => Err(error),
    }
}
