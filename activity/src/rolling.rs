//! A log that several processes append to and that is rotated by size.
//!
//! Whoever writes holds the exclusive lock of a file beside the log, for one record. A shared lock
//! for appending would have to be exchanged for an exclusive one to rotate, which `flock` cannot
//! do in one step, and the exclusive one costs the same. A process that is killed loses its locks.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::fsx::{self, Identity};
use crate::limits::{MAX_KEEP, TrailLimits};
use crate::lines::read_at;

/// The lock beside a log.
#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    file: File,
}

/// The lock is held as long as this lives.
#[derive(Debug)]
pub(crate) struct Held<'a>(&'a File);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Failing would need a bad descriptor; closing it gives up the lock as well.
        let _ = self.0.unlock();
    }
}

impl Lock {
    /// Opens the lock of `log`, making its folder if need be.
    pub(crate) fn open(log: &Path) -> io::Result<Self> {
        let path = lock_path(log);
        if let Some(dir) = path.parent() {
            fsx::private_dir(dir)?;
        }
        let file = fsx::open(&path, OFlags::RDWR | OFlags::CREATE)?;
        Ok(Self { path, file })
    }

    /// Waits for the exclusive lock.
    pub(crate) fn exclusive(&mut self) -> io::Result<Held<'_>> {
        loop {
            uninterrupted(|| self.file.lock())?;
            let id = Identity::of(&self.file.metadata()?);
            if Identity::at(&self.path)? == Some(id) {
                return Ok(Held(&self.file));
            }
            // Someone removed the lock file: a lock on it would exclude nobody any more.
            if let Some(dir) = self.path.parent() {
                fsx::private_dir(dir)?;
            }
            self.file = fsx::open(&self.path, OFlags::RDWR | OFlags::CREATE)?;
        }
    }

    /// The exclusive lock, if nobody has it.
    pub(crate) fn try_exclusive(&mut self) -> Option<Held<'_>> {
        self.file.try_lock().ok()?;
        Some(Held(&self.file))
    }
}

fn lock_path(log: &Path) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

fn uninterrupted(mut call: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    loop {
        match call() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// What happens around the removal of the oldest files.
pub(crate) trait Retire {
    /// Before any of `dropped` (oldest first) is removed; an error keeps them.
    fn before(&mut self, dropped: &[PathBuf]) -> io::Result<()>;
    /// After they were removed.
    fn after(&mut self) -> io::Result<()>;
}

/// Nothing happens.
pub(crate) struct JustDrop;

impl Retire for JustDrop {
    fn before(&mut self, _: &[PathBuf]) -> io::Result<()> {
        Ok(())
    }
    fn after(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct Current {
    file: File,
    id: Identity,
    size: u64,
    /// The size after this process wrote last: unchanged, nobody else has written since.
    left: Option<u64>,
}

/// The current file of a log and its rotation.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    limits: TrailLimits,
    current: Option<Current>,
    /// Why the last rotation failed; records go on being written then.
    pub(crate) problem: Option<String>,
}

impl Log {
    pub(crate) fn new(path: PathBuf, limits: TrailLimits) -> Self {
        let keep = limits.keep.clamp(1, MAX_KEEP);
        Self {
            path,
            limits: TrailLimits { keep, ..limits },
            current: None,
            problem: None,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the file at the path the one that is written, and ends a torn line in it.
    pub(crate) fn prepare(&mut self, _held: &Held<'_>) -> io::Result<()> {
        let there = Identity::at(&self.path)?;
        let mut current = match self.current.take() {
            Some(current) if Some(current.id) == there => current,
            _ => open_current(&self.path)?,
        };
        current.size = current.file.metadata()?.len();
        if current.left != Some(current.size) {
            end_torn_line(&mut current)?;
        }
        self.current = Some(current);
        Ok(())
    }

    /// Appends one line, its newline included, by one write; rotates first if it is time.
    pub(crate) fn append(
        &mut self,
        held: &Held<'_>,
        line: &[u8],
        retire: &mut dyn Retire,
    ) -> io::Result<()> {
        self.prepare_if_needed(held)?;
        if self.is_full(line.len()) {
            // Not being able to rotate is no reason to lose a record.
            let rotated = self.rotate(retire);
            self.problem = rotated
                .err()
                .map(|e| format!("could not rotate {}: {e}", self.path.display()));
            self.prepare(held)?;
        }
        match &mut self.current {
            Some(current) => write_line(current, line),
            None => Err(io::Error::other("the log was not opened")),
        }
    }

    /// Appends what must not be lost though the lock is not to be had; never rotates.
    pub(crate) fn append_without_lock(&self, line: &[u8]) -> io::Result<()> {
        let mut current = open_current(&self.path)?;
        current.file.write_all(line)
    }

    fn prepare_if_needed(&mut self, held: &Held<'_>) -> io::Result<()> {
        match self.current {
            Some(_) => Ok(()),
            None => self.prepare(held),
        }
    }

    fn is_full(&self, more: usize) -> bool {
        let size = self.current.as_ref().map_or(0, |c| c.size);
        size > 0 && size.saturating_add(more as u64) > self.limits.max_bytes
    }

    fn rotate(&mut self, retire: &mut dyn Retire) -> io::Result<()> {
        let numbers = numbers(&self.path)?;
        let keep = self.limits.keep;
        // A rotation that was cut short leaves a gap: it is filled before anything is dropped.
        let gap = (1..).find(|n| !numbers.contains(n)).unwrap_or(keep);
        let first_dropped = if gap > keep { keep } else { keep + 1 };
        let dropped: Vec<PathBuf> = numbers
            .iter()
            .rev()
            .filter(|n| **n >= first_dropped)
            .map(|n| numbered(&self.path, *n))
            .collect();
        if !dropped.is_empty() {
            retire.before(&dropped)?;
            for path in &dropped {
                fs::remove_file(path)?;
            }
        }
        for n in (1..gap.min(keep)).rev() {
            fs::rename(numbered(&self.path, n), numbered(&self.path, n + 1))?;
        }
        self.current = None;
        fs::rename(&self.path, numbered(&self.path, 1))?;
        if dropped.is_empty() {
            return Ok(());
        }
        retire.after()
    }
}

fn open_current(path: &Path) -> io::Result<Current> {
    let file = fsx::open(path, OFlags::RDWR | OFlags::APPEND | OFlags::CREATE)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        ));
    }
    Ok(Current {
        file,
        id: Identity::of(&meta),
        size: meta.len(),
        left: None,
    })
}

fn end_torn_line(current: &mut Current) -> io::Result<()> {
    let Some(last) = current.size.checked_sub(1) else {
        return Ok(());
    };
    let mut byte = [0];
    if read_at(&current.file, &mut byte, last)? == 1 && byte != *b"\n" {
        write_line(current, b"\n")?;
        current.size += 1;
    }
    Ok(())
}

fn write_line(current: &mut Current, line: &[u8]) -> io::Result<()> {
    let written = loop {
        match current.file.write(line) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => break other?,
        }
    };
    if written < line.len() {
        // The disk is full: take the part back, so that it is not mistaken for a crash.
        current.left = None;
        current.file.set_len(current.size)?;
        return Err(io::Error::from(io::ErrorKind::StorageFull));
    }
    current.left = Some(current.size + line.len() as u64);
    Ok(())
}

/// `agent_activity.jsonl` and 3 make `agent_activity.3.jsonl`.
pub(crate) fn numbered(path: &Path, number: u32) -> PathBuf {
    let (stem, extension) = split_name(path);
    path.with_file_name(format!("{stem}.{number}.{extension}"))
}

fn split_name(path: &Path) -> (String, String) {
    let part = |name: Option<&std::ffi::OsStr>| {
        name.map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    (part(path.file_stem()), part(path.extension()))
}

/// The numbers of the rotated files that are there, ascending: the newest first.
fn numbers(path: &Path) -> io::Result<Vec<u32>> {
    let (stem, extension) = split_name(path);
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let number = name
            .to_str()
            .and_then(|n| n.strip_prefix(&stem)?.strip_prefix('.'))
            .and_then(|n| n.strip_suffix(&extension)?.strip_suffix('.'))
            .filter(|n| !n.starts_with(['0', '+']))
            .and_then(|n| n.parse::<u32>().ok());
        found.extend(number.filter(|n| *n <= MAX_KEEP));
    }
    found.sort_unstable();
    Ok(found)
}

/// One file of a log, opened: whatever is renamed or removed later, it stays readable.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) id: Identity,
    /// Bytes it held when the lock was held.
    pub(crate) size: u64,
}

/// Opens all files of a log, oldest first, at one moment between two records, and calls `also`
/// at the same moment.
pub(crate) fn snapshot<T>(
    path: &Path,
    also: impl FnOnce() -> io::Result<T>,
) -> io::Result<(Vec<Part>, T)> {
    // Without the lock file nobody has written yet, or the home cannot be written: read anyway.
    let lock = fsx::open_read(&lock_path(path)).ok().flatten();
    let held = lock.as_ref().map(shared).transpose()?;
    let parts = open_parts(path)?;
    let also = also()?;
    drop(held);
    Ok((parts, also))
}

fn shared(lock: &File) -> io::Result<Held<'_>> {
    uninterrupted(|| lock.lock_shared())?;
    Ok(Held(lock))
}

fn open_parts(path: &Path) -> io::Result<Vec<Part>> {
    let mut names = match numbers(path) {
        Ok(numbers) => numbers.iter().rev().map(|n| numbered(path, *n)).collect(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(e),
    };
    names.push(path.to_path_buf());
    let mut parts = Vec::new();
    for path in names {
        let Some(file) = fsx::open_read(&path)? else {
            continue;
        };
        let meta = file.metadata()?;
        let (id, size) = (Identity::of(&meta), meta.len());
        parts.push(Part {
            file,
            path,
            id,
            size,
        });
    }
    Ok(parts)
}
