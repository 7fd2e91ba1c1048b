//! A resolved path: the object the policy judges and the descriptors it is used through.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::look::{self, FileId, Kind, LookError, Meta};
use super::platform;
use super::refusal::{Refusal, RefusalKind};
use super::walk::{self, Root, TmpView, Walked};

/// Where one spelling of a path leads: real path, open folder, and the object if it exists.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// Whether it is in the session's private `/tmp`.
    pub(crate) private: bool,
    /// Real absolute path on the host.
    pub(crate) real: PathBuf,
    /// What is shown: the real path, or `/tmp/…` for the session's private one.
    pub(crate) shown: PathBuf,
    /// The deepest folder that exists.
    pub(crate) base: Arc<OwnedFd>,
    /// Real path of `base`.
    pub(crate) base_path: PathBuf,
    /// Identities of the folders from the root to `base`.
    pub(crate) ids: Vec<FileId>,
    /// What follows below `base`; empty if the object is `base` itself.
    pub(crate) tail: Vec<OsString>,
    pub(crate) meta: Option<Meta>,
    /// Links that were followed, by their real paths.
    pub(crate) links: Vec<PathBuf>,
}

impl Place {
    pub(crate) fn new(walked: Walked, tmp: Option<&TmpView>) -> Place {
        let start = match (walked.root, tmp) {
            (Root::Tmp, Some(tmp)) => tmp.real.as_path(),
            _ => Path::new("/"),
        };
        let base_path = platform::true_spelling(&walked.fd, walk::join(start, walked.names.iter()));
        let real = walk::join(&base_path, walked.tail.iter());
        Place {
            private: tmp.is_some_and(|tmp| real.starts_with(&tmp.real)),
            shown: shown(&real, tmp),
            real,
            base: Arc::new(walked.fd),
            base_path,
            ids: walked.ids,
            tail: walked.tail,
            meta: walked.meta,
            links: walked.links,
        }
    }

    /// Identity of `base`.
    pub(crate) fn base_id(&self) -> Option<FileId> {
        self.ids.last().copied()
    }
}

/// The path as people and the planner see it.
fn shown(real: &Path, tmp: Option<&TmpView>) -> PathBuf {
    match tmp.and_then(|tmp| real.strip_prefix(&tmp.real).ok()) {
        Some(rest) if rest.as_os_str().is_empty() => PathBuf::from("/tmp"),
        Some(rest) => Path::new("/tmp").join(rest),
        None => real.to_owned(),
    }
}

/// A path after resolution. What was judged is held by descriptor, so what is opened is what was judged.
#[derive(Debug, Clone)]
pub struct Target {
    /// The path as it was asked for.
    pub(crate) asked: String,
    /// Where reading goes.
    pub(crate) place: Place,
    /// Where writing goes, if elsewhere: a `/tmp` path that only the host has is written to the private `/tmp`.
    pub(crate) write: Option<Box<Place>>,
}

impl Target {
    /// The real absolute path: what results show. `/tmp/…` for the session's private `/tmp`.
    pub fn path(&self) -> &Path {
        &self.place.shown
    }

    /// The text that was asked for.
    pub fn asked(&self) -> &str {
        &self.asked
    }

    /// Whether an object is there.
    pub fn exists(&self) -> bool {
        self.place.meta.is_some()
    }

    /// What is there, links followed; `None` if nothing is.
    pub fn kind(&self) -> Option<Kind> {
        self.place.meta.map(|meta| meta.kind)
    }

    /// Identity of what is there; `None` if nothing is.
    pub fn id(&self) -> Option<FileId> {
        self.place.meta.map(|meta| meta.id)
    }

    /// The same target as writing sees it. It differs for a `/tmp` path that exists on the host and not in
    /// the session's private `/tmp`: reading shows the host's file, writing makes a new private one.
    pub fn write_side(&self) -> Target {
        Target {
            asked: self.asked.clone(),
            place: self.write_place().clone(),
            write: None,
        }
    }

    pub(crate) fn write_place(&self) -> &Place {
        self.write.as_deref().unwrap_or(&self.place)
    }

    /// How messages name the target: as asked, and where that leads if it is elsewhere.
    pub(crate) fn name(&self) -> String {
        named(&self.asked, &self.place.shown)
    }

    /// Opens the file for reading. It is the regular file that was judged, or the call refuses; a FIFO, device
    /// or socket is refused at once and never waited for.
    ///
    /// # Errors
    /// `NotFound`, `Unsupported` for other kinds, `Protected` if the path changed since, `System`.
    pub fn open_read(&self) -> Result<File, Refusal> {
        let meta = self.present("read")?;
        if meta.kind != Kind::File {
            return Err(self.not_a_file("read", meta.kind));
        }
        let name = self.final_name()?;
        self.verify(&self.place)?;
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let fd = fs::openat(&self.place.base, name, flags, Mode::empty())
            .map_err(|error| self.open_failed(error))?;
        self.same(&fd, meta)?;
        if platform::is_kernel_file_system(&fd) {
            return Err(Refusal::new(
                RefusalKind::Protected,
                format!(
                    "cannot read {}: it is on a file system of the kernel's",
                    self.name()
                ),
            )
            .rule("system_path"));
        }
        Ok(File::from(fd))
    }

    /// Opens the folder, for listing and for `openat`.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`, `Protected` if the path changed since, `System`.
    pub fn open_dir(&self) -> Result<OwnedFd, Refusal> {
        let meta = self.present("open")?;
        if meta.kind != Kind::Dir {
            return Err(Refusal::new(
                RefusalKind::NotADirectory,
                format!(
                    "cannot open {} as a directory: it is {}",
                    self.name(),
                    meta.kind.name()
                ),
            ));
        }
        self.verify(&self.place)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = fs::openat(&self.place.base, ".", flags, Mode::empty())
            .map_err(|error| self.open_failed(error))?;
        self.same(&fd, meta)?;
        Ok(fd)
    }

    /// The folder to write in and the final name, for `openat`, `linkat`, `renameat`.
    ///
    /// # Errors
    /// `NotFound` if the folder does not exist (see [`Target::create_parents`]), `Validation` for `/` itself,
    /// `Protected` if the path changed since, `System`.
    pub fn parent(&self) -> Result<(Arc<OwnedFd>, OsString), Refusal> {
        let place = self.write_place();
        self.verify(place)?;
        match place.tail.as_slice() {
            [] => self.parent_of_folder(place),
            [name] => Ok((Arc::clone(&place.base), name.clone())),
            [first, ..] => Err(Refusal::new(
                RefusalKind::NotFound,
                format!(
                    "cannot write {}: the folder {} does not exist",
                    named(&self.asked, &place.shown),
                    first.display()
                ),
            )),
        }
    }

    /// Like [`Target::parent`], making the missing folders with `mode` (before the umask) one by one; none of them
    /// may be a link.
    ///
    /// # Errors
    /// As [`Target::parent`]; folders made before an error stay.
    pub fn create_parents(&self, mode: u32) -> Result<(Arc<OwnedFd>, OsString), Refusal> {
        self.create_parents_noting(mode, &mut Vec::new())
    }

    /// The same; the folders that were made are added to `made`, also where a later one could not
    /// be.
    ///
    /// # Errors
    /// As for [`Target::create_parents`].
    pub fn create_parents_noting(
        &self,
        mode: u32,
        made: &mut Vec<Arc<OwnedFd>>,
    ) -> Result<(Arc<OwnedFd>, OsString), Refusal> {
        let place = self.write_place();
        let Some((name, folders)) = place.tail.split_last() else {
            return self.parent();
        };
        self.verify(place)?;
        let mut at = Arc::clone(&place.base);
        for folder in folders {
            let (next, is_new) = self.make_folder(&at, folder, mode)?;
            at = Arc::new(next);
            made.extend(is_new.then(|| Arc::clone(&at)));
        }
        Ok((at, name.clone()))
    }

    /// The target of another name in the same folder. It is not judged yet.
    ///
    /// # Errors
    /// `Validation` unless `name` is one plain component; otherwise as [`Target::parent`].
    pub fn sibling(&self, name: &OsStr) -> Result<Target, Refusal> {
        let plain =
            Path::new(name).file_name() == Some(name) && !name.as_encoded_bytes().contains(&0);
        if !plain {
            return Err(Refusal::new(
                RefusalKind::Validation,
                format!("{} is not a plain file name", name.display()),
            ));
        }
        let place = self.write_place();
        let (base, _) = self.parent()?;
        let mut beside = place.clone();
        if beside.tail.is_empty() {
            beside.ids.pop();
            beside.base_path.pop();
        }
        beside.meta = self.look_beside(&base, name)?;
        beside.base = base;
        beside.real = beside.base_path.join(name);
        beside.shown = place.shown.with_file_name(name);
        beside.tail = vec![name.to_owned()];
        Ok(Target {
            asked: beside.shown.to_string_lossy().into_owned(),
            place: beside,
            write: None,
        })
    }

    fn look_beside(&self, base: &OwnedFd, name: &OsStr) -> Result<Option<Meta>, Refusal> {
        match fs::statat(base, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => look::meta(&stat).map(Some).ok_or_else(|| {
                let what = name.display().to_string();
                Refusal::system("use", &what, Errno::NOTSUP)
            }),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(Refusal::system(
                "look at",
                &name.display().to_string(),
                error,
            )),
        }
    }

    /// Makes a folder unless it is there, and says whether it was not.
    fn make_folder(
        &self,
        at: &OwnedFd,
        folder: &OsStr,
        mode: u32,
    ) -> Result<(OwnedFd, bool), Refusal> {
        let failed = |error| {
            let what = format!("the folder {} for {}", folder.display(), self.asked);
            Refusal::system("make", &what, error)
        };
        #[allow(clippy::unnecessary_cast)] // mode_t is 16 bits wide on macOS
        let mode = Mode::from_raw_mode(mode as _);
        let is_new = match fs::mkdirat(at, folder, mode) {
            Ok(()) => true,
            // Another call may have made the same folder; if it is a real one it is the same path.
            Err(Errno::EXIST) => false,
            Err(error) => return Err(failed(error)),
        };
        match look::open_folder(at.as_fd(), folder) {
            Ok((fd, _)) => Ok((fd, is_new)),
            Err(LookError::System(Errno::LOOP | Errno::NOTDIR)) | Err(LookError::Changed) => {
                Err(Refusal::changed(&self.name()))
            }
            Err(LookError::System(error)) => Err(failed(error)),
        }
    }

    fn parent_of_folder(&self, place: &Place) -> Result<(Arc<OwnedFd>, OsString), Refusal> {
        let above = place
            .ids
            .len()
            .checked_sub(2)
            .and_then(|i| place.ids.get(i));
        let (Some(above), Some(name)) = (above, place.base_path.file_name()) else {
            return Err(Refusal::new(
                RefusalKind::Validation,
                format!("{} has no folder above it that may be used", self.name()),
            ));
        };
        match look::open_folder(place.base.as_fd(), OsStr::new("..")) {
            Ok((fd, id)) if id == *above => Ok((Arc::new(fd), name.to_owned())),
            Ok(_) | Err(LookError::Changed) => Err(Refusal::changed(&self.name())),
            Err(LookError::System(error)) => Err(Refusal::system(
                "open the folder above",
                &self.name(),
                error,
            )),
        }
    }

    fn final_name(&self) -> Result<&OsStr, Refusal> {
        match self.place.tail.as_slice() {
            [name] => Ok(name),
            _ => Err(Refusal::changed(&self.name())),
        }
    }

    fn present(&self, doing: &str) -> Result<Meta, Refusal> {
        self.place
            .meta
            .ok_or_else(|| Refusal::system(doing, &self.name(), Errno::NOENT))
    }

    /// The folder that was opened still lies at the path that was judged. What is used is used by descriptor in any
    /// case; this keeps results from naming a path that leads elsewhere by now.
    fn verify(&self, place: &Place) -> Result<(), Refusal> {
        match fs::statat(fs::CWD, &place.base_path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if Some(look::file_id(&stat)) == place.base_id() => Ok(()),
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                Err(Refusal::changed(&self.name()))
            }
            Err(error) => Err(Refusal::system("look at", &self.name(), error)),
        }
    }

    fn same(&self, fd: &OwnedFd, meta: Meta) -> Result<(), Refusal> {
        let stat = fs::fstat(fd).map_err(|error| self.open_failed(error))?;
        match look::meta(&stat) {
            Some(now) if now.id == meta.id && now.kind == meta.kind => Ok(()),
            _ => Err(Refusal::changed(&self.name())),
        }
    }

    fn open_failed(&self, error: Errno) -> Refusal {
        match error {
            // It was there and no link when it was judged.
            Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::NXIO => {
                Refusal::changed(&self.name())
            }
            error => Refusal::system("open", &self.name(), error),
        }
    }

    pub(crate) fn not_a_file(&self, doing: &str, kind: Kind) -> Refusal {
        Refusal::new(
            RefusalKind::Unsupported,
            format!("cannot {doing} {}: it is {}", self.name(), kind.name()),
        )
        .hint(match kind {
            Kind::Dir => "name a file in it",
            _ => "only regular files can be used here",
        })
    }
}

/// How messages name a path: as asked, and where that leads if it is elsewhere.
pub(crate) fn named(asked: &str, leads_to: &Path) -> String {
    match Path::new(asked) == leads_to {
        true => asked.to_owned(),
        false => format!("{asked} ({})", leads_to.display()),
    }
}
