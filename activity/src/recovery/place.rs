//! Places outside the recovery folder, reached without following a link: what was a folder when an
//! entry was kept may be a link that leads elsewhere now.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, mkdirat, openat, readlinkat, statat};
use rustix::io::Errno;

use super::error::{RecoveryError, io_at};

#[cfg(any(target_os = "linux", target_os = "android"))]
const LOOK: OFlags = OFlags::PATH;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const LOOK: OFlags = OFlags::RDONLY;

/// What lies at a path now.
#[derive(Debug)]
pub enum Now {
    /// Nothing, or there is not even a folder for it.
    Nothing,
    /// A regular file, open for reading.
    File(File),
    /// A symbolic link, and where it leads.
    Link(PathBuf),
    /// A folder.
    Folder,
    /// A device, a pipe or a socket.
    Other,
}

impl Now {
    /// Looks at `path`, following no link.
    ///
    /// # Errors
    /// [`RecoveryError::Place`] where a link is on the way, [`RecoveryError::Io`].
    pub fn at(path: &Path) -> Result<Self, RecoveryError> {
        let folder = match Folder::above(path) {
            Err(RecoveryError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                return Ok(Self::Nothing);
            }
            opened => opened?,
        };
        let name = name_at(path)?;
        let io = |e: Errno| io_at("look at", path)(e.into());
        let Some(seen) = folder.look(name).map_err(io)? else {
            return Ok(Self::Nothing);
        };
        Ok(match FileType::from_raw_mode(seen.st_mode) {
            FileType::RegularFile => Self::File(folder.open(name).map_err(io)?),
            FileType::Symlink => Self::Link(folder.link(name).map_err(io)?),
            FileType::Directory => Self::Folder,
            _ => Self::Other,
        })
    }
}

/// A folder by descriptor.
#[derive(Debug)]
pub(super) struct Folder(OwnedFd);

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Folder {
    /// The folder that holds `path`, an absolute one without `..`.
    pub(super) fn above(path: &Path) -> Result<Self, RecoveryError> {
        Self::walk(path, false)
    }

    /// The same, making what is missing of it.
    pub(super) fn above_or_make(path: &Path) -> Result<Self, RecoveryError> {
        Self::walk(path, true)
    }

    fn walk(path: &Path, make: bool) -> Result<Self, RecoveryError> {
        let names = plain_names(path)?;
        let flags = LOOK | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open("/", flags, Mode::empty());
        let mut folder = root.map_err(|e| io_at("open", Path::new("/"))(e.into()))?;
        let mut so_far = PathBuf::from("/");
        for name in &names[..names.len().saturating_sub(1)] {
            so_far.push(name);
            let open = || openat(&folder, *name, flags | OFlags::NOFOLLOW, Mode::empty());
            let io = |what| io_at(what, &so_far);
            let next = match open() {
                Err(Errno::NOENT) if make => {
                    match mkdirat(&folder, *name, Mode::from_bits_truncate(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => open(),
                        Err(e) => return Err(io("make the folder")(e.into())),
                    }
                }
                opened => opened,
            };
            folder = match next {
                Ok(next) => next,
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    return Err(in_the_way(path, &folder, name, &so_far));
                }
                Err(e) => return Err(io("open")(e.into())),
            };
        }
        Ok(Self(folder))
    }

    /// What is at a name, not following a link.
    pub(super) fn look(&self, name: &OsStr) -> Result<Option<Stat>, Errno> {
        match statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(seen) => Ok(Some(seen)),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Opens a file for reading.
    pub(super) fn open(&self, name: &OsStr) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.0, name, flags, Mode::empty())?))
    }

    /// Opens a folder in it, for setting its permissions and times.
    pub(super) fn open_folder(&self, name: &OsStr) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&self.0, name, flags, Mode::empty())
    }

    /// Where a link leads.
    pub(super) fn link(&self, name: &OsStr) -> Result<PathBuf, Errno> {
        let text = readlinkat(&self.0, name, Vec::new())?;
        Ok(PathBuf::from(OsStr::from_bytes(text.as_bytes())))
    }

    /// Makes the names in it durable. Best effort: not every file system can.
    pub(super) fn sync(&self) {
        if let Ok(folder) = self.open_folder(OsStr::new(".")) {
            let _ = rustix::fs::fsync(folder);
        }
    }
}

/// The names of a path, which must begin at the root and take no way back.
fn plain_names(path: &Path) -> Result<Vec<&OsStr>, RecoveryError> {
    let refused = || RecoveryError::Place {
        path: path.to_path_buf(),
        why: "it is no absolute path without `..`".into(),
    };
    let mut parts = path.components();
    if parts.next() != Some(Component::RootDir) {
        return Err(refused());
    }
    let names: Option<Vec<&OsStr>> = parts
        .map(|part| match part {
            Component::Normal(name) => Some(name),
            _ => None,
        })
        .collect();
    names.filter(|names| !names.is_empty()).ok_or_else(refused)
}

/// The last name of such a path.
pub(super) fn name_at(path: &Path) -> Result<&OsStr, RecoveryError> {
    path.file_name().ok_or_else(|| RecoveryError::Place {
        path: path.to_path_buf(),
        why: "it names no file".into(),
    })
}

fn in_the_way(path: &Path, folder: &OwnedFd, name: &OsStr, at: &Path) -> RecoveryError {
    let why = match readlinkat(folder, name, Vec::new()) {
        Ok(text) => format!(
            "{} is a symbolic link to {}, and links are not followed; if that is where it should \
             go, name the real path with --to",
            at.display(),
            OsStr::from_bytes(text.as_bytes()).display()
        ),
        Err(_) => format!(
            "{} is not a folder; name another path with --to",
            at.display()
        ),
    };
    RecoveryError::Place {
        path: path.to_path_buf(),
        why,
    }
}
