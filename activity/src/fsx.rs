//! Small helpers over the file system: private files, exclusive creation, atomic replacement.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Metadata};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use std::time::SystemTime;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::limits::{ATTRIBUTE_BYTES, STALE_TEMP_S, TEMP_TRIES};

/// What makes a file that file, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    dev: u64,
    ino: u64,
}

impl Identity {
    pub(crate) fn of(meta: &Metadata) -> Self {
        Self {
            dev: meta.dev(),
            ino: meta.ino(),
        }
    }

    /// The identity of what lies at `path` now, not following a link; nothing if nothing is there.
    pub(crate) fn at(path: &Path) -> io::Result<Option<Self>> {
        match fs::symlink_metadata(path) {
            Ok(meta) => Ok(Some(Self::of(&meta))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// Makes `path` and what is missing above it, readable by the owner only. A new folder is the owner's
/// to use whatever the umask is: one that takes his own rights away is for his programs' files.
pub(crate) fn private_dir(path: &Path) -> io::Result<()> {
    let is_there = path.symlink_metadata().is_ok();
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    match is_there {
        true => Ok(()),
        false => fs::set_permissions(path, fs::Permissions::from_mode(0o700)),
    }
}

/// Opens without following a link at the end and without leaking the descriptor to children.
pub(crate) fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
    Ok(File::from(fd))
}

/// Opens for reading; nothing if there is no such file.
pub(crate) fn open_read(path: &Path) -> io::Result<Option<File>> {
    match open(path, OFlags::RDONLY | OFlags::NONBLOCK) {
        Ok(file) if file.metadata()?.is_file() => Ok(Some(file)),
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        )),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Creates a file of mode 0600 that was not there before.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    open(path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
}

/// A name in `dir` that no other process or thread uses.
pub(crate) fn temp_path(dir: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let id = uuid::Uuid::now_v7().simple();
    dir.join(format!("{TEMP_PREFIX}{}-{count}-{id}", std::process::id()))
}

/// How temporary names begin.
pub(crate) const TEMP_PREFIX: &str = ".tmp-";

/// A temporary file that is gone again unless it was given a name.
#[derive(Debug)]
pub(crate) struct Temp {
    path: PathBuf,
    pub(crate) file: File,
}

impl Temp {
    /// Creates one. Its lock says that somebody is still writing it, for as long as it is open.
    pub(crate) fn in_dir(dir: &Path) -> io::Result<Self> {
        for _ in 0..TEMP_TRIES {
            let path = temp_path(dir);
            let file = create_new(&path)?;
            let lock = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
            // Whoever clears leftovers was faster, and takes it for one.
            if lock == Err(Errno::WOULDBLOCK) || file.metadata()?.nlink() == 0 {
                continue;
            }
            return Ok(Self { path, file });
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// Where it lies until it has a name.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file its name if that is free; `false` if something is there already.
    pub(crate) fn publish_new(&self, to: &Path) -> io::Result<bool> {
        match fs::hard_link(&self.path, to) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Gives the file its name, in place of what was there.
    pub(crate) fn replace(self, to: &Path) -> io::Result<()> {
        fs::rename(&self.path, to)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        // After a rename there is nothing left to remove; any other failure leaves a file that
        // is recognisable by its name and does no harm.
        let _ = fs::remove_file(&self.path);
    }
}

/// Opens a temporary file that nobody writes any more: its lock went with its writer. Where the
/// file system knows no locks, its age says it.
fn open_abandoned(path: &Path) -> Option<File> {
    let file = open_read(path).ok()??;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Some(file),
        Err(Errno::WOULDBLOCK) => None,
        Err(_) => is_stale(&file).then_some(file),
    }
}

/// Whether nobody can be at work on a temporary file any more, by its age.
fn is_stale(file: &File) -> bool {
    let modified = file.metadata().and_then(|m| m.modified()).ok();
    let age = modified.and_then(|then| SystemTime::now().duration_since(then).ok());
    age.is_some_and(|age| age.as_secs() >= STALE_TEMP_S)
}

/// Removes a temporary file of an age at which nobody is at work on it. Best effort.
pub(crate) fn remove_stale(path: &Path) {
    if open_read(path)
        .ok()
        .flatten()
        .is_some_and(|file| is_stale(&file))
    {
        let _ = fs::remove_file(path);
    }
}

/// Calls `then` for each temporary file in a folder that a killed process left, while its lock
/// keeps anybody else from taking it for one of theirs.
pub(crate) fn each_abandoned(dir: &Path, mut then: impl FnMut(&Path)) {
    for item in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = item.file_name();
        if !name.as_encoded_bytes().starts_with(TEMP_PREFIX.as_bytes()) {
            continue;
        }
        let path = item.path();
        if let Some(_locked) = open_abandoned(&path) {
            then(&path);
        }
    }
}

/// Removes what killed processes left. Best effort: what cannot be removed now is removed another
/// day.
pub(crate) fn clear_abandoned(dir: &Path) {
    each_abandoned(dir, |path| {
        let _ = fs::remove_file(path);
    });
}

/// Replaces `path` by `bytes` so that a reader sees the old content or the new, never a part.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut temp = Temp::in_dir(dir)?;
    temp.file.write_all(bytes)?;
    temp.file.sync_all()?;
    temp.replace(path)
}

/// Copies the extended attributes that a person or an ACL gave a file, as far as this user may.
pub(crate) fn copy_attributes(from: &File, to: &File) {
    if rustix::fs::flistxattr(from, &mut [0u8; 0][..]).is_ok_and(|length| length == 0) {
        return;
    }
    let mut names = vec![0u8; ATTRIBUTE_BYTES];
    let Ok(length) = rustix::fs::flistxattr(from, &mut names[..]) else {
        return;
    };
    let mut value = vec![0u8; ATTRIBUTE_BYTES];
    for name in names[..length].split(|b| *b == 0) {
        let is_theirs = name.starts_with(b"user.") || name == b"system.posix_acl_access";
        if !is_theirs && cfg!(target_os = "linux") || name.is_empty() {
            continue;
        }
        let name = OsStr::from_bytes(name);
        if let Ok(length) = rustix::fs::fgetxattr(from, name, &mut value[..]) {
            let flags = rustix::fs::XattrFlags::empty();
            let _ = rustix::fs::fsetxattr(to, name, &value[..length], flags);
        }
    }
}

/// Makes the names in `dir` durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |n: u8| char::from(DIGITS[usize::from(n & 15)]);
    bytes
        .iter()
        .flat_map(|b| [digit(b >> 4), digit(*b)])
        .collect()
}

/// The longest start of `text` of at most `max` bytes that ends between two characters.
pub(crate) fn clip(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let mut end = max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
