//! The caller's view: its memory, its umask, its program, and paths as they resolve through its
//! own root, working folder, descriptors and mounts.

use super::object::{Kind, Stat, handle, path_of, stat};
use super::reading::process_of;
use super::sys;
use crate::linux::tree;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const PATH_MAX: usize = 4096;
const PAGE: u64 = 4096;
/// Links followed on one path, as in the kernel.
const MAX_LINKS: usize = 40;

/// The thread that made a call.
#[derive(Clone, Copy)]
pub(super) struct Caller<'a> {
    pub(super) pid: u32,
    /// The root of every caller: none can change it, since the filter that asks the broker lets
    /// nobody into another root or namespace.
    pub(super) root: &'a OwnedFd,
    /// The process that all of the command's descend from, where `/proc` shows others as well.
    pub(super) top: Option<u32>,
}

/// A resolved path.
pub(super) struct Place {
    /// The folder and the name in it; absent for what has no name of its own (`/`, `..`, a
    /// descriptor's link in `/proc`).
    pub(super) entry: Option<(OwnedFd, CString)>,
    /// What is there, if anything is and it was looked for.
    pub(super) object: Option<(OwnedFd, Stat)>,
    /// The path ended in a slash: it means a folder.
    pub(super) slash: bool,
}

/// One way through the folders, component by component.
struct Walk<'a> {
    caller: &'a Caller<'a>,
    root: Option<Stat>,
    at: OwnedFd,
    /// The components still to go, the next one last.
    ahead: Vec<Vec<u8>>,
    links: usize,
}

/// What the next component was.
enum Step {
    Inside,
    /// The last one, and what stands there.
    Last(CString, Option<(OwnedFd, Stat)>),
}

/// A folder by descriptor, our own or one that outlives the walk.
enum Start<'a> {
    Own(OwnedFd),
    Root(&'a OwnedFd),
}

impl Start<'_> {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Own(fd) => fd.as_fd(),
            Self::Root(fd) => fd.as_fd(),
        }
    }

    fn into_owned(self) -> Result<OwnedFd, Errno> {
        match self {
            Self::Own(fd) => Ok(fd),
            Self::Root(fd) => fd.try_clone().map_err(|_| Errno::MFILE),
        }
    }
}

/// Something of a process, by its name in `/proc`.
pub(super) fn own(pid: u32, what: &str) -> Result<OwnedFd, Errno> {
    let name = format!("/proc/{pid}/{what}");
    rustix::fs::open(name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

/// What `/proc` says of a process under this key.
fn status(pid: u32, key: &str) -> Option<String> {
    let status = tree::text(pid, "status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    Some(line.trim().to_string())
}

/// The umask of a process; the narrowest where it cannot be read.
pub(super) fn umask(pid: u32) -> u32 {
    let text = status(pid, "Umask:");
    text.and_then(|text| u32::from_str_radix(&text, 8).ok())
        .unwrap_or(0o077)
}

impl Caller<'_> {
    /// A path from the caller's memory, read once: everything after works on this copy, so that
    /// changing the memory meanwhile changes nothing.
    pub(super) fn path(&self, address: u64) -> Result<Vec<u8>, Errno> {
        let mut buffer = [0u8; PATH_MAX];
        let mut got = 0;
        while got < PATH_MAX {
            let from = address.checked_add(got as u64).ok_or(Errno::FAULT)?;
            // Never across a page border: the next page may be missing.
            let to_border = (PAGE - from % PAGE) as usize;
            let want = to_border.min(PATH_MAX - got);
            let read = sys::read_memory(self.pid, from, &mut buffer[got..got + want])?;
            if read == 0 {
                return Err(Errno::FAULT);
            }
            if let Some(end) = memchr(&buffer[got..got + read]) {
                return Ok(buffer[..got + end].to_vec());
            }
            got += read;
        }
        Err(Errno::NAMETOOLONG)
    }

    /// What stands at a path, an empty one meaning what is behind the descriptor.
    pub(super) fn object(
        &self,
        dir: i32,
        path: &[u8],
        follow: bool,
    ) -> Result<(OwnedFd, Stat), Errno> {
        if !path.is_empty() {
            return self.resolve(dir, path, follow)?.object.ok_or(Errno::NOENT);
        }
        let object = match dir {
            libc::AT_FDCWD => own(self.pid, "cwd")?,
            _ => own(self.pid, &format!("fd/{dir}")).map_err(|_| Errno::BADF)?,
        };
        let seen = stat(&object)?;
        Ok((object, seen))
    }

    /// The file that it executes.
    pub(super) fn program(&self) -> Option<Stat> {
        stat(own(self.pid, "exe").ok()?).ok()
    }

    /// The number of its process, for us.
    pub(super) fn process(&self) -> Result<u32, Errno> {
        let number = status(self.pid, "Tgid:").ok_or(Errno::SRCH)?;
        number.parse().map_err(|_| Errno::SRCH)
    }

    /// Its number in its own namespace: of its process, or of the thread.
    fn inner_number(&self, key: &str) -> Result<String, Errno> {
        let numbers = status(self.pid, key).ok_or(Errno::NOENT)?;
        let last = numbers.split_whitespace().last();
        last.map(str::to_string).ok_or(Errno::NOENT)
    }

    /// Resolves a path as the kernel would for this caller.
    pub(super) fn resolve(&self, dir: i32, path: &[u8], follow: bool) -> Result<Place, Errno> {
        let start = self.start(dir, path)?;
        let slash = path.len() > 1 && path.ends_with(b"/");
        let hurried = self.hurry(start.fd(), path);
        let (at, ahead) = match hurried {
            Some((folder, name)) => (folder, vec![name.to_vec()]),
            None => (start.into_owned()?, components(path)),
        };
        let walk = Walk {
            caller: self,
            root: None,
            at,
            ahead,
            links: 0,
        };
        walk.finish(follow || slash, slash)
    }

    /// Resolves a path to a folder and a name in it, and does not look at what stands there where
    /// that makes no difference.
    pub(super) fn resolve_entry(&self, dir: i32, path: &[u8]) -> Result<Place, Errno> {
        let start = self.start(dir, path)?;
        let (folder, name) = match self.hurry(start.fd(), path) {
            Some(found) => found,
            None if is_name(path) => (start.into_owned()?, path),
            None => return self.resolve(dir, path, false),
        };
        Ok(Place {
            entry: Some((folder, CString::new(name).map_err(|_| Errno::INVAL)?)),
            object: None,
            slash: false,
        })
    }

    /// The quick way to a path's folder, if it is one. Where `/proc` is ours as well, `self` on the way
    /// would have been us.
    fn hurry<'p>(&self, start: BorrowedFd, path: &'p [u8]) -> Option<(OwnedFd, &'p [u8])> {
        let found = hurry(start, path);
        found.filter(|(folder, _)| self.top.is_none() || !is_procfs(folder))
    }

    fn start(&self, dir: i32, path: &[u8]) -> Result<Start<'_>, Errno> {
        let first = path.first().ok_or(Errno::NOENT)?;
        Ok(if *first == b'/' {
            Start::Root(self.root)
        } else if dir == libc::AT_FDCWD {
            Start::Own(own(self.pid, "cwd")?)
        } else {
            Start::Own(own(self.pid, &format!("fd/{dir}"))?)
        })
    }
}

/// Whether a path is one plain name.
fn is_name(path: &[u8]) -> bool {
    !path.is_empty() && path != b"." && path != b".." && !path.contains(&b'/')
}

/// One call for the whole folder part, where nothing special lies on the way, and the name that is
/// left. The flags keep it inside the caller's root; in any doubt the slow walk decides.
fn hurry<'a>(start: BorrowedFd, path: &'a [u8]) -> Option<(OwnedFd, &'a [u8])> {
    let at = path.iter().rposition(|byte| *byte == b'/')?;
    let (folder, name) = (&path[..=at], &path[at + 1..]);
    if !is_name(name) {
        return None;
    }
    let inside = match path.first() {
        Some(b'/') => ResolveFlags::IN_ROOT,
        _ => ResolveFlags::BENEATH,
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = inside | ResolveFlags::NO_MAGICLINKS;
    let opened = rustix::fs::openat2(start, folder, flags, Mode::empty(), resolve);
    Some((opened.ok()?, name))
}

fn memchr(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == 0)
}

/// The components of a path, the first one last.
fn components(path: &[u8]) -> Vec<Vec<u8>> {
    let parts = path.split(|byte| *byte == b'/');
    let real = parts.filter(|part| !part.is_empty() && *part != b".");
    real.map(<[u8]>::to_vec).rev().collect()
}

impl Walk<'_> {
    fn finish(mut self, follow: bool, slash: bool) -> Result<Place, Errno> {
        while let Some(name) = self.ahead.pop() {
            let is_last = self.ahead.is_empty();
            match self.step(&name, is_last, follow)? {
                Step::Inside => {}
                Step::Last(name, object) => {
                    return Ok(Place {
                        entry: Some((self.at, name)),
                        object,
                        slash,
                    });
                }
            }
        }
        let seen = stat(&self.at)?;
        Ok(Place {
            entry: None,
            object: Some((self.at, seen)),
            slash,
        })
    }

    fn step(&mut self, name: &[u8], last: bool, follow: bool) -> Result<Step, Errno> {
        let name = CString::new(name).map_err(|_| Errno::INVAL)?;
        if name.as_c_str() == c".." {
            self.up()?;
            return Ok(Step::Inside);
        }
        let object = match handle(&self.at, &name) {
            Ok(object) => object,
            // The caller's own entry means nothing to a reader outside its namespace.
            Err(Errno::NOENT) if is_self(&name) && is_procfs(&self.at) => {
                let to = self.own_entry(&name)?;
                return self.follow(&to);
            }
            Err(Errno::NOENT) if last => return Ok(Step::Last(name, None)),
            Err(e) => return Err(e),
        };
        let seen = stat(&object)?;
        if seen.is(Kind::Link) && (!last || follow) {
            let on_proc = is_procfs(&self.at);
            return self.through(&name, &object, on_proc);
        }
        if last {
            return Ok(Step::Last(name, Some((object, seen))));
        }
        self.at = object;
        Ok(Step::Inside)
    }

    /// To the folder above, but never above the caller's root.
    fn up(&mut self) -> Result<(), Errno> {
        let here = stat(&self.at)?;
        let root = match self.root {
            Some(root) => root,
            None => *self.root.insert(stat(self.caller.root)?),
        };
        if (here.id, here.mount) == (root.id, root.mount) {
            return Ok(());
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        self.at = rustix::fs::openat(&self.at, c"..", flags, Mode::empty())?;
        Ok(())
    }

    fn through(&mut self, name: &CStr, link: &OwnedFd, on_proc: bool) -> Result<Step, Errno> {
        if on_proc && is_self(name) {
            let to = self.own_entry(name)?;
            return self.follow(&to);
        }
        if on_proc && name != c"mounts" && name != c"net" {
            // A link of `/proc` that leads to an object itself, not to a name: what it shows of another
            // process is not the caller's.
            self.is_of_the_command()?;
            self.count_link()?;
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            self.at = rustix::fs::openat(&self.at, name, flags, Mode::empty())?;
            return Ok(Step::Inside);
        }
        let text = rustix::fs::readlinkat(link, c"", Vec::new())?;
        self.follow(text.as_bytes())
    }

    /// Whether what is at hand in `/proc` is about a process of the command.
    fn is_of_the_command(&self) -> Result<(), Errno> {
        let Some(top) = self.caller.top else {
            return Ok(());
        };
        let process = process_of(&path_of(&self.at)?);
        match process.is_some_and(|process| tree::is_below(process, top)) {
            true => Ok(()),
            false => Err(Errno::ACCESS),
        }
    }

    fn own_entry(&self, name: &CStr) -> Result<Vec<u8>, Errno> {
        let process = self.caller.inner_number("NStgid:")?;
        if name == c"self" {
            return Ok(process.into_bytes());
        }
        let thread = self.caller.inner_number("NSpid:")?;
        Ok(format!("{process}/task/{thread}").into_bytes())
    }

    fn count_link(&mut self) -> Result<(), Errno> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Errno::LOOP);
        }
        Ok(())
    }

    fn follow(&mut self, text: &[u8]) -> Result<Step, Errno> {
        self.count_link()?;
        if text.first() == Some(&b'/') {
            let root = self.caller.root;
            self.at = root.try_clone().map_err(|_| Errno::MFILE)?;
        }
        self.ahead.extend(components(text));
        Ok(Step::Inside)
    }
}

fn is_self(name: &CStr) -> bool {
    name == c"self" || name == c"thread-self"
}

pub(super) fn is_procfs(folder: impl AsFd) -> bool {
    rustix::fs::fstatfs(folder).is_ok_and(|fs| fs.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

/// Where a path leads from this process's own view; for tests and for paths of the plan.
pub(super) fn look_here(path: &std::path::Path) -> Option<Stat> {
    let found = handle(
        CWD,
        &CString::new(path.as_os_str().as_encoded_bytes()).ok()?,
    )
    .ok()?;
    stat(found).ok()
}
