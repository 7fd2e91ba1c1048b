//! Small helpers over the file system: private files, exclusive creation, atomic replacement.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use std::time::SystemTime;

use rustix::fs::{Mode, OFlags};

use crate::limits::STALE_TEMP_S;

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

/// Makes `path` and what is missing above it, readable by the owner only.
pub(crate) fn private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
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
    pub(crate) fn in_dir(dir: &Path) -> io::Result<Self> {
        let path = temp_path(dir);
        let file = create_new(&path)?;
        Ok(Self { path, file })
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

/// Removes temporary files that a process left which died a day ago or longer. Best effort: what
/// cannot be removed now is removed another day.
pub(crate) fn clear_stale(dir: &Path) {
    let now = SystemTime::now();
    let is_stale = |item: &fs::DirEntry| {
        let modified = item.metadata().and_then(|m| m.modified()).ok();
        let age = modified.and_then(|at| now.duration_since(at).ok());
        let name = item.file_name();
        name.as_encoded_bytes().starts_with(TEMP_PREFIX.as_bytes())
            && age.is_some_and(|age| age.as_secs() >= STALE_TEMP_S)
    };
    for item in fs::read_dir(dir).into_iter().flatten().flatten() {
        if is_stale(&item) {
            let _ = fs::remove_file(item.path());
        }
    }
}

/// Replaces `path` by `bytes` so that a reader sees the old content or the new, never a part.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut temp = Temp::in_dir(dir)?;
    temp.file.write_all(bytes)?;
    temp.file.sync_all()?;
    temp.replace(path)
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
