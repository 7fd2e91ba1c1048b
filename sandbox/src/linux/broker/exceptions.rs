//! What of the person's may go all the same, because nothing is lost by it: version control,
//! folders of build products, programs that remove a file to write it anew, dead sockets.

use super::caller::Caller;
use super::entries::Entry;
use super::keeper::{lock, own_view};
use super::ledger::{Ledger, os};
use super::object::{Id, Kind, Stat, State, path_of, stat, stat_at};
use super::{Aside, Broker, No};
use crate::limits;
use crate::look::GIT;
use crate::repository::{Index, Repository};
use rustix::fs::{Mode, OFlags};
use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Where the system's git is found, besides [`GIT`].
const GIT_PARTS: &[&str] = &["/usr/lib/git-core/git", "/usr/libexec/git-core/git"];
/// Programs that remove an old file just before they write a new one of its name.
const WRITERS: &[&str] = &[
    "tar", "bsdtar", "cpio", "zip", "unzip", "7z", "7za", "install", "cp", "ln", "rsync", "patch",
    "ld", "ld.bfd", "ld.gold", "ld.lld", "ar", "strip", "objcopy", "perl",
];
const WRITER_FOLDERS: &[&str] = &["/usr/bin", "/bin"];

/// What the exceptions remember within a call.
#[derive(Default)]
pub(super) struct Exceptions {
    programs: Mutex<HashMap<Id, Program>>,
    /// Old folders out of which git took something.
    thinned: Mutex<HashSet<Id>>,
    /// Names of old files and folders that went by an exception, and that something new may take.
    old_names: Mutex<HashSet<PathBuf>>,
    /// Folders by the name of build products, and whether they are free.
    build: Mutex<HashMap<PathBuf, bool>>,
    /// Folders out of which something was set aside.
    folders: Mutex<HashMap<Id, Arc<Held>>>,
    /// The index that was read last, and what it looked like.
    index: Mutex<Option<(Seen, Arc<Index>)>>,
}

/// A folder that is needed at the end of the call. Descriptors are few: after so many, a folder is
/// looked up by its name again, and one that has another name by then is not found.
pub(super) enum Held {
    Open(OwnedFd),
    Named(PathBuf, Id),
}

impl Held {
    /// The folder itself, if it is still there.
    pub(super) fn open(&self) -> Option<OwnedFd> {
        match self {
            Self::Open(folder) => folder.try_clone().ok(),
            Self::Named(path, id) => {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let folder = rustix::fs::open(path, flags, Mode::empty()).ok()?;
                let is_it = stat(&folder).is_ok_and(|seen| seen.id == *id);
                is_it.then_some(folder)
            }
        }
    }
}

/// A file as it was when it was read.
type Seen = (Id, State);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    Git,
    Writer,
    Other,
}

impl Broker {
    /// Removes a name that the call did not make, if one of the exceptions covers it.
    pub(super) fn remove_old(&self, caller: &Caller, entry: &Entry, seen: &Stat) -> Result<(), No> {
        let is_free = self.is_free_to_remove(entry, &lock(&self.ledger));
        if is_free || (seen.is(Kind::Socket) && nobody_listens(entry)) {
            // Another one may have the name by now.
            return self.discard(entry, &entry.name, seen);
        }
        let path = entry.path()?;
        if let Some(successor) = self.successor(seen) {
            // The name it had is taken: it was replaced in three steps instead of one.
            self.keeper.take(
                entry.dir.as_fd(),
                &entry.name,
                &path,
                "replaced by another file",
            )?;
            lock(&self.ledger).note_gone(&successor);
            return Ok(());
        }
        match self.program(caller) {
            Program::Git if is_in_git_dir(&path) || self.is_tracked(&path) => {
                self.keeper
                    .take(entry.dir.as_fd(), &entry.name, &path, "removed by git")?;
                lock(&self.exceptions.thinned).insert(entry.dir_seen.id);
                lock(&self.exceptions.old_names).insert(path);
                Ok(())
            }
            Program::Writer => self.set_aside(entry, path),
            _ => Err(No::because(
                "it was there before; commands remove only what they made",
            )),
        }
    }

    /// Takes an old file out of the way of a new one. Without one it is put back at the end.
    fn set_aside(&self, entry: &Entry, origin: PathBuf) -> Result<(), No> {
        let reason = "removed to be written anew";
        let taken = self
            .keeper
            .take(entry.dir.as_fd(), &entry.name, &origin, reason)?;
        let dir = self.hold(entry)?;
        lock(&self.exceptions.old_names).insert(origin.clone());
        lock(&self.asides).push(Aside {
            dir,
            name: entry.name.clone(),
            origin,
            taken,
        });
        Ok(())
    }

    /// The folder of an entry, for the end of the call.
    fn hold(&self, entry: &Entry) -> Result<Arc<Held>, No> {
        let mut folders = lock(&self.exceptions.folders);
        if let Some(held) = folders.get(&entry.dir_seen.id) {
            return Ok(Arc::clone(held));
        }
        let held = if folders.len() < limits::HELD_FOLDERS {
            // As this process reaches it: at the end the caller's mounts are gone.
            let own = own_view(entry.dir.as_fd()).map(Ok);
            let own = own.unwrap_or_else(|| entry.dir.try_clone());
            Held::Open(own.map_err(|_| rustix::io::Errno::MFILE)?)
        } else {
            Held::Named(entry.folder_path()?, entry.dir_seen.id)
        };
        let held = Arc::new(held);
        folders.insert(entry.dir_seen.id, Arc::clone(&held));
        Ok(held)
    }

    /// For an old file that this session renamed: what the call made in its former place.
    fn successor(&self, seen: &Stat) -> Option<Id> {
        let ledger = lock(&self.ledger);
        let former = ledger.former_path(&seen.id)?;
        let now = super::caller::look_here(former)?;
        ledger.is_made_now(&now.id).then_some(now.id)
    }

    /// Whether an old folder, if it is empty, may go.
    pub(super) fn may_remove_old_folder(
        &self,
        caller: &Caller,
        entry: &Entry,
        seen: &Stat,
        ledger: &Ledger,
    ) -> Result<(), No> {
        if self.is_free_to_remove(entry, ledger) {
            return Ok(());
        }
        let thinned = || lock(&self.exceptions.thinned).contains(&seen.id);
        let path = entry.path()?;
        if self.program(caller) == Program::Git && (is_in_git_dir(&path) || thinned()) {
            lock(&self.exceptions.thinned).insert(entry.dir_seen.id);
            lock(&self.exceptions.old_names).insert(path);
            return Ok(());
        }
        Err(No::because(
            "it was there before; commands remove only what they made",
        ))
    }

    /// Remembers an old folder that went by an exception, unless it was git's own or held build
    /// products.
    pub(super) fn note_old_folder(&self, folder: &OwnedFd, path: &Path, ledger: &Ledger) {
        if !is_in_git_dir(path) && !self.is_in_build_folder(path, ledger) {
            self.keeper.note_folder(folder, path, "removed by git");
        }
    }

    /// Whether an old file may take the place of another one: within one build folder.
    pub(super) fn may_put_old_over(&self, from: &Entry, to: &Entry, ledger: &Ledger) -> bool {
        let (Ok(path), Ok(over)) = (from.path(), to.path()) else {
            return false;
        };
        let both = self.policy.build_folders(&over);
        let mut both = both.iter().filter(|folder| path.starts_with(folder));
        both.any(|folder| self.is_free_build_folder(folder, ledger))
    }

    /// Whether an old object at this entry may go without a copy.
    pub(super) fn is_free_to_remove(&self, entry: &Entry, ledger: &Ledger) -> bool {
        entry
            .path()
            .is_ok_and(|path| self.is_in_build_folder(&path, ledger))
    }

    /// Whether an old file may be changed without a copy. One that has other names may be known
    /// by one of them outside.
    pub(super) fn is_free_to_write(&self, object: &OwnedFd, seen: &Stat) -> bool {
        let is_in = |path: PathBuf| self.is_in_build_folder(&path, &lock(&self.ledger));
        seen.links <= 1 && path_of(object).is_ok_and(is_in)
    }

    pub(super) fn is_in_build_folder(&self, path: &Path, ledger: &Ledger) -> bool {
        let folders = self.policy.build_folders(path);
        let mut folders = folders.iter();
        folders.any(|folder| self.is_free_build_folder(folder, ledger))
    }

    /// A real folder that git ignores as of the commit that was checked out when the session began
    /// (a rule that the session itself commits frees nothing), with nothing tracked in it, and that came by its
    /// name in no way that this session had a hand in.
    fn is_free_build_folder(&self, folder: &Path, ledger: &Ledger) -> bool {
        if !self.policy.removes {
            return false;
        }
        let mut known = lock(&self.exceptions.build);
        if let Some(free) = known.get(folder) {
            return *free;
        }
        // Git is asked.
        self.turn.step_aside();
        let free = is_free(folder, ledger, self.keeper.folder());
        known.insert(folder.to_path_buf(), free);
        free
    }

    /// Which of the system's programs makes the call. A program under another one's influence
    /// (`LD_PRELOAD`) gains nothing by it: what an exception lets go is in the recovery folder.
    fn program(&self, caller: &Caller) -> Program {
        let Some(running) = caller.program() else {
            return Program::Other;
        };
        let mut programs = lock(&self.exceptions.programs);
        if programs.is_empty() {
            *programs = known_programs();
        }
        programs.get(&running.id).copied().unwrap_or(Program::Other)
    }

    /// Whether git tracks this path, by the index of the repository around it.
    fn is_tracked(&self, path: &Path) -> bool {
        let found = Repository::around(path);
        found.is_some_and(|repository| {
            let inner = repository.inner(path);
            let index = self.index(&repository);
            index.is_some_and(|index| inner.is_some_and(|inner| index.has(inner)))
        })
    }

    /// A repository's index, read anew where it has changed: git removes many files one by one.
    fn index(&self, repository: &Repository) -> Option<Arc<Index>> {
        let seen = super::caller::look_here(&repository.index_path())?;
        let seen = (seen.id, seen.state);
        let mut last = lock(&self.exceptions.index);
        if let Some((_, index)) = last.as_ref().filter(|(before, _)| *before == seen) {
            return Some(Arc::clone(index));
        }
        let index = Arc::new(repository.index()?);
        *last = Some((seen, Arc::clone(&index)));
        Some(index)
    }

    /// Whether this is the name of something old that went in this call: what takes it is the old
    /// one's successor, and stays.
    pub(super) fn takes_an_old_name(&self, folder: &Path, name: &CStr) -> bool {
        let names = lock(&self.exceptions.old_names);
        !names.is_empty() && names.contains(&folder.join(os(name)))
    }
}

/// The rule of [`Broker::is_free_build_folder`] for a folder of such a name. `scratch` is a folder
/// of our own.
pub(super) fn is_free(folder: &Path, ledger: &Ledger, scratch: &Path) -> bool {
    let is_folder = folder.symlink_metadata().is_ok_and(|info| info.is_dir());
    let was_moved = || {
        let above = folder.ancestors();
        let mut seen = above.filter_map(super::caller::look_here);
        seen.any(|seen| ledger.was_moved(&seen.id))
    };
    is_folder && !was_moved() && is_ignored(folder, ledger, scratch)
}

/// Whether git ignores a folder as of the commit at which the session began, and tracks nothing in
/// it, if it was there or not.
fn is_ignored(folder: &Path, ledger: &Ledger, scratch: &Path) -> bool {
    let folder = folder.to_path_buf();
    ignored_among(std::slice::from_ref(&folder), ledger, scratch).contains(&folder)
}

/// Which of these folders git ignores in this sense.
pub(super) fn ignored_among(
    folders: &[PathBuf],
    ledger: &Ledger,
    scratch: &Path,
) -> HashSet<PathBuf> {
    let mut by_tree: HashMap<PathBuf, (Repository, Vec<PathBuf>)> = HashMap::new();
    for folder in folders {
        if let Some(repository) = Repository::around(folder) {
            let tree = repository.tree().to_path_buf();
            let (_, of_tree) = by_tree.entry(tree).or_insert((repository, Vec::new()));
            of_tree.push(folder.clone());
        }
    }
    let mut ignored = HashSet::new();
    for (tree, (repository, folders)) in by_tree {
        if let Some(head) = ledger.head(&tree) {
            ignored.extend(repository.ignored(&folders, head, scratch));
        }
    }
    ignored
}

fn known_programs() -> HashMap<Id, Program> {
    let git = [GIT].into_iter().chain(GIT_PARTS.iter().copied());
    let git = git.map(|path| (PathBuf::from(path), Program::Git));
    let in_folder = |folder: &&'static str| {
        let folder = PathBuf::from(folder);
        WRITERS.iter().map(move |name| folder.join(name))
    };
    let writers = WRITER_FOLDERS.iter().flat_map(in_folder);
    let writers = writers.map(|path| (path, Program::Writer));
    writers
        .chain(git)
        .filter_map(|(path, kind)| Some((program_id(&path)?, kind)))
        .collect()
}

/// A program's identity, if only root can have put it there.
fn program_id(path: &Path) -> Option<Id> {
    use std::os::unix::fs::MetadataExt;
    let info = path.metadata().ok()?;
    if info.uid() != 0 || info.mode() & 0o022 != 0 {
        return None;
    }
    let program = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    Some(stat(program).ok()?.id)
}

/// Whether a path lies below a git directory. (What makes git run something is refused before.)
fn is_in_git_dir(path: &Path) -> bool {
    path.iter().any(|part| part == ".git") && path.file_name().is_some_and(|name| name != ".git")
}

/// Whether a socket is nobody's: a program that ended left it, or one that the call started
/// listens on it.
fn nobody_listens(entry: &Entry) -> bool {
    use rustix::net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with,
    };
    use std::os::fd::AsRawFd;
    let Ok(object) = super::object::handle(&entry.dir, &entry.name) else {
        return false;
    };
    if !stat_at(&object, c"").is_ok_and(|seen| seen.is(Kind::Socket)) {
        return false;
    }
    let name = format!("/proc/self/fd/{}", object.as_raw_fd());
    let Ok(address) = SocketAddrUnix::new(name.as_str()) else {
        return false;
    };
    let kinds = [SocketType::STREAM, SocketType::DGRAM, SocketType::SEQPACKET];
    kinds.into_iter().all(|kind| {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let Ok(socket) = socket_with(AddressFamily::UNIX, kind, flags, None) else {
            return false;
        };
        use rustix::io::Errno;
        match connect(&socket, &address) {
            Err(Errno::CONNREFUSED | Errno::PROTOTYPE) => true,
            Err(_) => false,
            Ok(()) => listener_is_inside(socket.as_fd()),
        }
    })
}

/// Whether the process at the other end lives in a namespace below ours, as all of a command's
/// processes do and none of the person's.
fn listener_is_inside(socket: std::os::fd::BorrowedFd) -> bool {
    let peer = rustix::net::sockopt::socket_peercred(socket);
    let Ok(peer) = peer else {
        return false;
    };
    let status = format!("/proc/{}/status", peer.pid.as_raw_nonzero());
    let status = std::fs::read_to_string(status).unwrap_or_default();
    let ours = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let depth = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("NStgid:"));
        line.map_or(0, |line| line.split_whitespace().count())
    };
    depth(&status) > depth(&ours)
}
