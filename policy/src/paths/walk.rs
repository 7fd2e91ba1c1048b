//! The walk: from a root to the object, one component at a time, each opened without following links.
//!
//! Links are followed by reading their text, so the walk always knows the real path it is on, and a
//! link of `/proc` that the kernel would follow by magic is only the text it shows. Going up opens
//! `..` and compares the folder's identity with the one that was passed on the way down.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::look::{self, FileId, Kind, LookError, Looked, Meta};
use super::names;
use super::refusal::{Refusal, RefusalKind};
use crate::limits;

/// The session's private `/tmp`: what a command sees in place of the host's.
#[derive(Debug, Clone, Default)]
pub(crate) struct TmpView {
    /// Real path of the private folder.
    pub(crate) real: PathBuf,
    /// Real folders of the host in whose place it stands.
    pub(crate) mounts: Vec<PathBuf>,
    /// Real paths that are themselves even below such a folder: roots, homes.
    pub(crate) pinned: Vec<PathBuf>,
}

/// What a walk sees at `/tmp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// The host's folder.
    Host,
    /// The session's private one.
    Private,
}

/// From where names are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    /// The file system's root.
    Host,
    /// The session's private `/tmp`.
    Tmp,
}

/// Where a walk ended.
#[derive(Debug)]
pub(crate) struct Walked {
    pub(crate) root: Root,
    /// Real components below the root, down to the deepest folder that exists.
    pub(crate) names: Vec<OsString>,
    /// Identities of the root and of each of `names`.
    pub(crate) ids: Vec<FileId>,
    /// The deepest folder that exists.
    pub(crate) fd: OwnedFd,
    /// What follows below `fd`: nothing for a folder, a name for another object, names for what is missing.
    pub(crate) tail: Vec<OsString>,
    /// The object, if it exists.
    pub(crate) meta: Option<Meta>,
    /// Links that were followed, by their real paths on the host.
    pub(crate) links: Vec<PathBuf>,
    /// Whether the walk came by a folder in whose place the private `/tmp` stands.
    pub(crate) met_tmp: bool,
}

/// Why a walk ended early, and the real path it was looking at then, for the policy to judge first.
#[derive(Debug)]
pub(crate) struct WalkError {
    pub(crate) refusal: Refusal,
    pub(crate) at: PathBuf,
    /// As in [`Walked`].
    pub(crate) met_tmp: bool,
}

struct Walker<'a> {
    asked: &'a str,
    tmp: Option<&'a TmpView>,
    root: Root,
    names: Vec<OsString>,
    ids: Vec<FileId>,
    fd: OwnedFd,
    tail: Vec<OsString>,
    meta: Option<Meta>,
    links: Vec<PathBuf>,
    /// Components still to walk, the next one last.
    todo: Vec<OsString>,
    view: View,
    /// On the way to a pinned path, for which the host's `/tmp` is passed.
    pinned: bool,
    met_tmp: bool,
    /// The folder in whose place the private `/tmp` was entered last.
    mount: &'a Path,
}

/// Walks the absolute `path`. `asked` is the text that messages name.
pub(crate) fn walk(
    path: &Path,
    tmp: Option<&TmpView>,
    view: View,
    asked: &str,
) -> Result<Walked, WalkError> {
    let mut walker = Walker::start(asked, tmp, view).map_err(|error| WalkError {
        refusal: refuse(asked, error),
        at: PathBuf::from("/"),
        met_tmp: false,
    })?;
    walker.push(path.as_os_str());
    match walker.run() {
        Ok(()) => Ok(Walked {
            root: walker.root,
            names: walker.names,
            ids: walker.ids,
            fd: walker.fd,
            tail: walker.tail,
            meta: walker.meta,
            links: walker.links,
            met_tmp: walker.met_tmp,
        }),
        Err(refusal) => Err(WalkError {
            at: walker.ahead(),
            met_tmp: walker.met_tmp,
            refusal,
        }),
    }
}

fn open_start(root: Root, tmp: Option<&TmpView>) -> Result<(OwnedFd, FileId, Meta), LookError> {
    let (fd, id) = match (root, tmp) {
        (Root::Tmp, Some(tmp)) => look::open_folder(rustix::fs::CWD, tmp.real.as_os_str())?,
        _ => look::open_root()?,
    };
    let meta = Meta {
        id,
        kind: Kind::Dir,
        nlink: 1,
    };
    Ok((fd, id, meta))
}

fn refuse(asked: &str, error: LookError) -> Refusal {
    match error {
        LookError::System(errno) => Refusal::system("look at", asked, errno),
        LookError::Changed => Refusal::changed(asked),
    }
}

impl<'a> Walker<'a> {
    fn start(
        asked: &'a str,
        tmp: Option<&'a TmpView>,
        view: View,
    ) -> Result<Walker<'a>, LookError> {
        let (fd, id, meta) = open_start(Root::Host, tmp)?;
        Ok(Walker {
            asked,
            tmp,
            root: Root::Host,
            names: Vec::with_capacity(8),
            ids: vec![id],
            fd,
            tail: Vec::new(),
            meta: Some(meta),
            links: Vec::new(),
            todo: Vec::with_capacity(16),
            view,
            pinned: false,
            met_tmp: false,
            mount: Path::new("/tmp"),
        })
    }

    /// Puts the components of `text` in front of what is still to walk.
    fn push(&mut self, text: &OsStr) {
        let bytes = text.as_bytes();
        // A slash at the end says that a folder is meant.
        if bytes.ends_with(b"/") {
            self.todo.push(OsString::from("."));
        }
        let parts = bytes.split(|b| *b == b'/').filter(|part| !part.is_empty());
        self.todo
            .extend(parts.rev().map(|part| OsStr::from_bytes(part).to_owned()));
    }

    fn run(&mut self) -> Result<(), Refusal> {
        let mut steps = 0;
        while let Some(name) = self.todo.pop() {
            steps += 1;
            if steps > limits::PATH_STEPS {
                return Err(Refusal::new(
                    RefusalKind::Validation,
                    format!(
                        "{} has more than {} components, links included",
                        self.asked,
                        limits::PATH_STEPS
                    ),
                ));
            }
            if let Err(refusal) = self.step(&name) {
                self.todo.push(name);
                return Err(refusal);
            }
        }
        Ok(())
    }

    fn step(&mut self, name: &OsStr) -> Result<(), Refusal> {
        let missing = self.meta.is_none();
        if !missing && !self.tail.is_empty() {
            return Err(Refusal::new(
                RefusalKind::NotADirectory,
                format!(
                    "cannot go below {} in {}: it is not a directory",
                    self.here().display(),
                    self.asked
                ),
            ));
        }
        match name.as_bytes() {
            b"." => Ok(()),
            b".." if missing => Err(Refusal::new(
                RefusalKind::Validation,
                format!(
                    "{} goes up (`..`) from a folder that does not exist",
                    self.asked
                ),
            )
            .hint("give the path without `..`")),
            b".." => self.up(),
            _ if self.is_pinned(name) => self.go_pinned(name),
            _ if missing => {
                self.tail.push(name.to_owned());
                Ok(())
            }
            _ => self.down(name),
        }
    }

    fn down(&mut self, name: &OsStr) -> Result<(), Refusal> {
        let mut name = std::borrow::Cow::Borrowed(name);
        let mut looked = self.look(&name)?;
        if matches!(looked, Looked::Missing)
            && !name.as_bytes().is_ascii()
            && let Some(same) = names::same_in_nfc(self.fd.as_fd(), &name)
        {
            name = same.into();
            looked = self.look(&name)?;
        }
        match looked {
            Looked::Dir(fd, meta) => {
                self.fd = fd;
                self.ids.push(meta.id);
                self.names.push(name.into_owned());
                self.meta = Some(meta);
                return self.enter_tmp(!self.pinned);
            }
            Looked::Node(meta) => {
                self.tail.push(name.into_owned());
                self.meta = Some(meta);
            }
            Looked::Missing => {
                self.tail.push(name.into_owned());
                self.meta = None;
            }
            Looked::Link(text) => self.follow(&name, &text)?,
        }
        Ok(())
    }

    fn look(&self, name: &OsStr) -> Result<Looked, Refusal> {
        look::look(self.fd.as_fd(), name).map_err(|error| refuse(self.asked, error))
    }

    fn up(&mut self) -> Result<(), Refusal> {
        if self.names.pop().is_none() {
            if self.root == Root::Tmp {
                let above = self.mount.parent().unwrap_or(Path::new("/"));
                self.restart(Root::Host)?;
                self.push(above.as_os_str());
            }
            // Above the root is the root.
            return Ok(());
        }
        self.ids.pop();
        let (fd, id) = look::open_folder(self.fd.as_fd(), OsStr::new(".."))
            .map_err(|error| refuse(self.asked, error))?;
        if self.ids.last() != Some(&id) {
            return Err(Refusal::changed(self.asked));
        }
        self.fd = fd;
        self.meta = Some(Meta {
            id,
            kind: Kind::Dir,
            nlink: 1,
        });
        self.enter_tmp(true)
    }

    /// At a folder in whose place the private `/tmp` stands, goes to that one, if the view is such and `enter` says so.
    fn enter_tmp(&mut self, enter: bool) -> Result<(), Refusal> {
        let (Root::Host, Some(tmp)) = (self.root, self.tmp) else {
            return Ok(());
        };
        let here = |mount: &Path| {
            let mut names = mount.iter().skip(1);
            self.names.iter().all(|name| names.next() == Some(name)) && names.next().is_none()
        };
        let Some(mount) = tmp.mounts.iter().find(|mount| here(mount)) else {
            return Ok(());
        };
        self.mount = mount;
        self.met_tmp = true;
        match enter && self.view == View::Private {
            true => self.restart(Root::Tmp),
            false => Ok(()),
        }
    }

    /// Whether `name` in the private `/tmp` is a pinned path of the host's.
    fn is_pinned(&self, name: &OsStr) -> bool {
        match (self.root, self.tmp) {
            (Root::Tmp, Some(tmp)) => tmp.pinned.contains(&self.in_mount(name)),
            _ => false,
        }
    }

    /// The host's path of `name` in the private `/tmp`.
    fn in_mount(&self, name: &OsStr) -> PathBuf {
        join(self.mount, self.names.iter().chain(&self.tail)).join(name)
    }

    /// Walks on at the pinned path `name`.
    fn go_pinned(&mut self, name: &OsStr) -> Result<(), Refusal> {
        let path = self.in_mount(name);
        self.restart(Root::Host)?;
        self.pinned = true;
        self.push(path.as_os_str());
        Ok(())
    }

    fn follow(&mut self, name: &OsStr, text: &OsStr) -> Result<(), Refusal> {
        if self.links.len() >= limits::PATH_LINKS {
            return Err(Refusal::new(
                RefusalKind::Loop,
                format!("{} leads through too many symbolic links", self.asked),
            ));
        }
        self.links.push(self.here().join(name));
        let path = Path::new(text);
        if !path.is_absolute() {
            self.push(text);
            return Ok(());
        }
        self.restart(Root::Host)?;
        self.push(text);
        Ok(())
    }

    fn restart(&mut self, root: Root) -> Result<(), Refusal> {
        let (fd, id, meta) =
            open_start(root, self.tmp).map_err(|error| refuse(self.asked, error))?;
        self.root = root;
        self.pinned = false;
        self.names.clear();
        self.ids.clear();
        self.ids.push(id);
        self.fd = fd;
        self.tail.clear();
        self.meta = Some(meta);
        Ok(())
    }

    /// The real path reached so far.
    fn here(&self) -> PathBuf {
        let start = match (self.root, self.tmp) {
            (Root::Tmp, Some(tmp)) => tmp.real.as_path(),
            _ => Path::new("/"),
        };
        join(start, self.names.iter().chain(&self.tail))
    }

    /// The real path reached so far and what was still to come, up to the first `..`.
    fn ahead(&self) -> PathBuf {
        let rest = self.todo.iter().rev().filter(|name| *name != ".");
        join(&self.here(), rest.take_while(|name| *name != ".."))
    }
}

/// `start` with `names` below it, in one allocation.
pub(crate) fn join<'n>(start: &Path, names: impl Iterator<Item = &'n OsString> + Clone) -> PathBuf {
    let length: usize = names.clone().map(|name| name.len() + 1).sum();
    let mut path = Vec::with_capacity(start.as_os_str().len() + length);
    path.extend_from_slice(start.as_os_str().as_bytes());
    for name in names {
        if !path.ends_with(b"/") {
            path.push(b'/');
        }
        path.extend_from_slice(name.as_bytes());
    }
    PathBuf::from(OsString::from_vec(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn going_up_from_a_folder_that_was_moved_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::create_dir(top.join("other")).unwrap();
        let mut walker = Walker::start("a/b/..", None, View::Host).unwrap();
        walker.push(top.join("a/b").as_os_str());
        walker.run().unwrap();
        fs::rename(top.join("a/b"), top.join("other/b")).unwrap();
        let refusal = walker.step(OsStr::new("..")).unwrap_err();
        assert_eq!(refusal.rule, Some("path_changed"));
    }
}
