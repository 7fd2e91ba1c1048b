//! The caller's view: its memory, its umask, its program, and paths as they resolve through its
//! own root, working folder, descriptors and mounts.

use super::object::{Kind, Stat, handle, stat};
use super::sys;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};

const PATH_MAX: usize = 4096;
const PAGE: u64 = 4096;
/// Links followed on one path, as in the kernel.
const MAX_LINKS: usize = 40;

/// The thread that made a call.
#[derive(Clone, Copy)]
pub(super) struct Caller {
    pub(super) pid: u32,
}

/// A resolved path.
pub(super) struct Place {
    /// The folder and the name in it; absent for what has no name of its own (`/`, `..`, a
    /// descriptor's link in `/proc`).
    pub(super) entry: Option<(OwnedFd, CString)>,
    /// What is there, if anything is.
    pub(super) object: Option<OwnedFd>,
    /// The path ended in a slash: it means a folder.
    pub(super) slash: bool,
}

/// One way through the folders, component by component.
struct Walk<'a> {
    caller: &'a Caller,
    root: Option<(OwnedFd, Stat)>,
    at: OwnedFd,
    /// The components still to go, the next one last.
    ahead: Vec<Vec<u8>>,
    links: usize,
}

/// What the next component was.
enum Step {
    Inside,
    Found(Place),
}

impl Caller {
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

    fn status(&self, key: &str) -> Option<String> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        Some(line.trim().to_string())
    }

    /// Its umask; the narrowest where it cannot be read.
    pub(super) fn umask(&self) -> u32 {
        let text = self.status("Umask:");
        text.and_then(|text| u32::from_str_radix(&text, 8).ok())
            .unwrap_or(0o077)
    }

    /// The file that it executes.
    pub(super) fn program(&self) -> Option<Stat> {
        let name = CString::new(format!("/proc/{}/exe", self.pid)).ok()?;
        let program = rustix::fs::open(name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        stat(program).ok()
    }

    fn own(&self, what: &str) -> Result<OwnedFd, Errno> {
        let name = format!("/proc/{}/{what}", self.pid);
        rustix::fs::open(name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
    }

    /// Its number in its own namespace: of its process, or of the thread.
    fn inner_number(&self, key: &str) -> Result<String, Errno> {
        let numbers = self.status(key).ok_or(Errno::NOENT)?;
        let last = numbers.split_whitespace().last();
        last.map(str::to_string).ok_or(Errno::NOENT)
    }

    /// Resolves a path as the kernel would for this caller.
    pub(super) fn resolve(&self, dir: i32, path: &[u8], follow: bool) -> Result<Place, Errno> {
        let first = path.first().ok_or(Errno::NOENT)?;
        let is_absolute = *first == b'/';
        let start = if is_absolute {
            self.own("root")?
        } else if dir == libc::AT_FDCWD {
            self.own("cwd")?
        } else {
            self.own(&format!("fd/{dir}"))?
        };
        let slash = path.len() > 1 && path.ends_with(b"/");
        let mut walk = Walk {
            caller: self,
            root: None,
            at: start,
            ahead: components(path),
            links: 0,
        };
        walk.hurry(is_absolute)?;
        walk.finish(follow || slash, slash)
    }
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
    /// One call for the whole folder part, where nothing special lies on the way. The flags keep
    /// it inside the caller's root; in any doubt the slow walk decides.
    fn hurry(&mut self, is_absolute: bool) -> Result<(), Errno> {
        if self.ahead.len() < 2 {
            return Ok(());
        }
        let folders: Vec<&[u8]> = self.ahead[1..].iter().rev().map(Vec::as_slice).collect();
        let path = CString::new(folders.join(&b'/')).map_err(|_| Errno::INVAL)?;
        let inside = match is_absolute {
            true => ResolveFlags::IN_ROOT,
            false => ResolveFlags::BENEATH,
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = inside | ResolveFlags::NO_MAGICLINKS;
        let opened = rustix::fs::openat2(&self.at, path.as_c_str(), flags, Mode::empty(), resolve);
        if let Ok(folder) = opened {
            self.at = folder;
            self.ahead.truncate(1);
        }
        Ok(())
    }

    fn finish(mut self, follow: bool, slash: bool) -> Result<Place, Errno> {
        while let Some(name) = self.ahead.pop() {
            let is_last = self.ahead.is_empty();
            match self.step(&name, is_last, follow, slash)? {
                Step::Inside => {}
                Step::Found(place) => return Ok(place),
            }
        }
        Ok(Place {
            entry: None,
            object: Some(self.at),
            slash,
        })
    }

    fn step(&mut self, name: &[u8], last: bool, follow: bool, slash: bool) -> Result<Step, Errno> {
        let name = CString::new(name).map_err(|_| Errno::INVAL)?;
        if name.as_c_str() == c".." {
            self.up()?;
            return Ok(Step::Inside);
        }
        let on_proc = is_procfs(&self.at);
        let object = match handle(&self.at, &name) {
            Ok(object) => object,
            // The caller's own entry means nothing to a reader outside its namespace.
            Err(Errno::NOENT) if on_proc && is_self(&name) => {
                let to = self.own_entry(&name)?;
                return self.follow(&to);
            }
            Err(Errno::NOENT) if last => {
                let at = self.at.try_clone().map_err(|_| Errno::MFILE)?;
                return Ok(Step::Found(Place {
                    entry: Some((at, name)),
                    object: None,
                    slash,
                }));
            }
            Err(e) => return Err(e),
        };
        let is_link = stat(&object)?.is(Kind::Link);
        if is_link && (!last || follow) {
            return self.through(&name, &object, on_proc);
        }
        if last {
            let at = self.at.try_clone().map_err(|_| Errno::MFILE)?;
            return Ok(Step::Found(Place {
                entry: Some((at, name)),
                object: Some(object),
                slash,
            }));
        }
        self.at = object;
        Ok(Step::Inside)
    }

    /// To the folder above, but never above the caller's root.
    fn up(&mut self) -> Result<(), Errno> {
        let here = stat(&self.at)?;
        let (_, root) = self.root()?;
        if (here.id, here.mount) == (root.id, root.mount) {
            return Ok(());
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        self.at = rustix::fs::openat(&self.at, c"..", flags, Mode::empty())?;
        Ok(())
    }

    fn root(&mut self) -> Result<&(OwnedFd, Stat), Errno> {
        if self.root.is_none() {
            let root = self.caller.own("root")?;
            let seen = stat(&root)?;
            self.root = Some((root, seen));
        }
        self.root.as_ref().ok_or(Errno::NOENT)
    }

    fn through(&mut self, name: &CStr, link: &OwnedFd, on_proc: bool) -> Result<Step, Errno> {
        if on_proc && is_self(name) {
            let to = self.own_entry(name)?;
            return self.follow(&to);
        }
        if on_proc && name != c"mounts" && name != c"net" {
            // A link of `/proc` that leads to an object itself, not to a name.
            self.count_link()?;
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            self.at = rustix::fs::openat(&self.at, name, flags, Mode::empty())?;
            return Ok(Step::Inside);
        }
        let text = rustix::fs::readlinkat(link, c"", Vec::new())?;
        self.follow(text.as_bytes())
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
            let root = &self.root()?.0;
            self.at = root.try_clone().map_err(|_| Errno::MFILE)?;
        }
        self.ahead.extend(components(text));
        Ok(Step::Inside)
    }
}

fn is_self(name: &CStr) -> bool {
    name == c"self" || name == c"thread-self"
}

fn is_procfs(folder: impl AsFd) -> bool {
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
