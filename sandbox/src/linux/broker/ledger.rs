//! Who made what. An entry comes into the ledger because the broker itself carried out the call
//! that created it; nothing else is proof. The session's ledger is a file outside every child's
//! reach, read when a command starts and added to when it ends.

use super::object::{Id, State};
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Bytes of a session's ledger that are read: a million entries.
const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// A name in a folder.
pub(super) type Name = (Id, Vec<u8>);

/// One line of the session's ledger.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Line {
    /// The session's first command has started: repositories found later are none of those that
    /// were there.
    Begun,
    Made(Id),
    Gone(Id),
    Moved(Id),
    /// The commit that a working tree was at when the session first ran a command.
    Head(PathBuf, String),
}

/// What the broker knows of files.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Made by this call or, when read from the session's file, by an earlier one.
    made: HashSet<Id>,
    /// Made by this call, and still there.
    made_now: HashSet<Id>,
    /// Made by an earlier call, and gone in this one.
    gone_now: HashSet<Id>,
    /// Second names that this call gave to what it did not make.
    names: HashSet<Name>,
    /// Old objects that were given another name.
    moved: HashSet<Id>,
    /// Those that this call gave one.
    moved_now: HashSet<Id>,
    /// Where those were that this call renamed, by the names at first.
    former: HashMap<Id, PathBuf>,
    /// Old files whose content is kept already, and the state in which it was.
    kept: HashMap<Id, State>,
    /// Whether the session's first call has noted the heads.
    begun: bool,
    /// Which commit each repository was at when the session began.
    heads: HashMap<PathBuf, String>,
}

impl Ledger {
    /// Starts with what earlier calls of the session made.
    pub(super) fn load(file: Option<&Path>) -> Self {
        let mut ledger = Self::default();
        if let Some(file) = file.and_then(|path| open(path, false).ok()) {
            ledger.read(file);
        }
        ledger
    }

    fn read(&mut self, file: File) {
        for line in BufReader::new(file.take(MOST_BYTES)).lines() {
            let Ok(line) = line else { break };
            match Line::parse(&line) {
                Some(Line::Begun) => self.begun = true,
                Some(Line::Made(id)) => drop(self.made.insert(id)),
                Some(Line::Gone(id)) => drop(self.made.remove(&id)),
                Some(Line::Moved(id)) => drop(self.moved.insert(id)),
                // The first word counts: a later commit is the session's own.
                Some(Line::Head(tree, commit)) => {
                    self.heads.entry(tree).or_insert(commit);
                }
                None => {}
            }
        }
    }

    /// The same, with the commits that the session's repositories were at when it began. Its first
    /// call notes them, at its start: a repository that comes later, were it the session's own,
    /// says nothing of what was there. Where they cannot be noted, none counts.
    pub(super) fn of_session<I>(
        file: Option<&Path>,
        writes: bool,
        heads: impl FnOnce() -> I,
    ) -> Self
    where
        I: Iterator<Item = (PathBuf, Option<String>)>,
    {
        let mut ledger = Self::load(file);
        if ledger.begun {
            return ledger;
        }
        let known = heads().filter_map(|(tree, commit)| Some((tree, commit?)));
        let known: HashMap<PathBuf, String> = known.collect();
        match file.filter(|_| writes) {
            None => ledger.heads = known,
            Some(path) if ledger.begin(path, &known).is_err() => ledger.heads.clear(),
            Some(_) => {}
        }
        ledger
    }

    /// Writes the heads down, unless another call was faster.
    fn begin(&mut self, path: &Path, heads: &HashMap<PathBuf, String>) -> std::io::Result<()> {
        let mut file = open(path, true)?;
        file.lock()?;
        self.read(open(path, false)?);
        if self.begun {
            return Ok(());
        }
        let mut text = String::new();
        for (tree, commit) in heads {
            Line::Head(tree.clone(), commit.clone()).write(&mut text);
        }
        // Last, so that it stands for all of them.
        Line::Begun.write(&mut text);
        file.write_all(text.as_bytes())?;
        self.heads.clone_from(heads);
        Ok(())
    }

    /// Adds what this call did to the session's file.
    pub(super) fn save(&mut self, path: Option<&Path>) -> std::io::Result<()> {
        let Some(path) = path else {
            return Ok(());
        };
        let made = self.made_now.iter().map(|id| Line::Made(*id));
        let gone = self.gone_now.iter().map(|id| Line::Gone(*id));
        let moved = self.moved_now.iter().map(|id| Line::Moved(*id));
        let mut text = String::new();
        for line in made.chain(gone).chain(moved) {
            line.write(&mut text);
        }
        if text.is_empty() {
            return Ok(());
        }
        let mut file = open(path, true)?;
        file.lock()?;
        file.write_all(text.as_bytes())
    }

    /// Whether this call or an earlier one of the session made it.
    pub(super) fn is_made(&self, id: &Id) -> bool {
        self.made.contains(id)
    }

    /// Whether this call made it.
    pub(super) fn is_made_now(&self, id: &Id) -> bool {
        self.made_now.contains(id)
    }

    pub(super) fn note_made(&mut self, id: Id) {
        if !id.is_lasting() {
            return;
        }
        self.made.insert(id);
        self.made_now.insert(id);
    }

    /// It is gone, or it has taken the name of something old and is from now on treated like that.
    pub(super) fn note_gone(&mut self, id: &Id) {
        if self.made.remove(id) && !self.made_now.remove(id) {
            self.gone_now.insert(*id);
        }
    }

    /// The commit that a repository was at when the session began.
    pub(super) fn head(&self, tree: &Path) -> Option<&str> {
        self.heads.get(tree).map(String::as_str)
    }

    pub(super) fn note_moved(&mut self, id: Id, from: &Path) {
        self.former.entry(id).or_insert_with(|| from.to_path_buf());
        if self.moved.insert(id) {
            self.moved_now.insert(id);
        }
    }

    /// Where an old object was before this call renamed it.
    pub(super) fn former_path(&self, id: &Id) -> Option<&Path> {
        self.former.get(id).map(PathBuf::as_path)
    }

    pub(super) fn was_moved(&self, id: &Id) -> bool {
        self.moved.contains(id)
    }

    pub(super) fn note_name(&mut self, folder: Id, name: &CStr) {
        self.names.insert((folder, name.to_bytes().to_vec()));
    }

    pub(super) fn has_name(&self, folder: Id, name: &CStr) -> bool {
        self.names.contains(&(folder, name.to_bytes().to_vec()))
    }

    pub(super) fn forget_name(&mut self, folder: Id, name: &CStr) -> bool {
        self.names.remove(&(folder, name.to_bytes().to_vec()))
    }

    pub(super) fn note_kept(&mut self, id: Id, state: State) {
        self.kept.insert(id, state);
    }

    /// Whether the content that the file has now is kept already.
    pub(super) fn is_kept(&self, id: &Id, state: State) -> bool {
        self.kept.get(id) == Some(&state)
    }

    /// Whether any content of the file was kept in this call.
    pub(super) fn was_kept(&self, id: &Id) -> bool {
        self.kept.contains_key(id)
    }
}

impl Line {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let kind = words.next()?;
        if kind == "begun" {
            return Some(Self::Begun);
        }
        if kind == "head" {
            let commit = words.next()?.to_string();
            let bytes = crate::decode_bytes(words.next()?).ok()?;
            return Some(Self::Head(OsString::from_vec(bytes).into(), commit));
        }
        let mut number = || words.next()?.parse::<i64>().ok();
        let (dev, ino) = (number()?, number()?);
        let (seconds, nanos) = (number()?, number()?);
        let id = Id {
            dev: dev.cast_unsigned(),
            ino: ino.cast_unsigned(),
            born: (seconds, u32::try_from(nanos).ok()?),
        };
        match kind {
            "made" => Some(Self::Made(id)),
            "gone" => Some(Self::Gone(id)),
            "moved" => Some(Self::Moved(id)),
            _ => None,
        }
    }

    fn write(&self, text: &mut String) {
        let (kind, id) = match self {
            Self::Made(id) => ("made", id),
            Self::Gone(id) => ("gone", id),
            Self::Moved(id) => ("moved", id),
            Self::Begun => return text.push_str("begun\n"),
            Self::Head(tree, commit) => {
                let tree = crate::encode_bytes(tree.as_os_str().as_encoded_bytes());
                text.push_str(&format!("head {commit} {tree}\n"));
                return;
            }
        };
        let (dev, ino) = (id.dev.cast_signed(), id.ino.cast_signed());
        let (seconds, nanos) = id.born;
        text.push_str(&format!("{kind} {dev} {ino} {seconds} {nanos}\n"));
    }
}

fn open(path: &Path, append: bool) -> std::io::Result<File> {
    OpenOptions::new()
        .read(!append)
        .append(append)
        .create(append)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
}

/// The bytes of a name as a path's component.
pub(super) fn os(name: &CStr) -> OsString {
    OsString::from_vec(name.to_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(ino: u64) -> Id {
        Id {
            dev: u64::MAX - 3,
            ino,
            born: (-5, 7),
        }
    }

    #[test]
    fn what_a_call_made_a_later_one_knows() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ledger");
        let mut first = Ledger::load(Some(&file));
        for ino in 1..=4 {
            first.note_made(id(ino));
        }
        first.note_gone(&id(2));
        first.note_moved(id(9), Path::new("/a"));
        first.save(Some(&file)).unwrap();
        let mut second = Ledger::load(Some(&file));
        assert!(second.is_made(&id(1)) && !second.is_made_now(&id(1)));
        assert!(!second.is_made(&id(2)) && second.was_moved(&id(9)));
        second.note_gone(&id(3));
        second.save(Some(&file)).unwrap();
        let third = Ledger::load(Some(&file));
        assert!(!third.is_made(&id(3)) && third.is_made(&id(4)));
    }

    #[test]
    fn what_came_and_went_takes_no_room() {
        let mut ledger = Ledger::default();
        for ino in 0..1000 {
            ledger.note_made(id(ino));
            ledger.note_gone(&id(ino));
        }
        assert!(ledger.made.is_empty() && ledger.made_now.is_empty());
        assert!(ledger.gone_now.is_empty());
    }

    #[test]
    fn only_what_a_session_finds_at_its_start_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ledger");
        let head = |tree: &str, commit: Option<&str>| {
            let entry = (PathBuf::from(tree), commit.map(str::to_string));
            move || std::iter::once(entry)
        };
        // Asking does not begin it.
        Ledger::of_session(Some(&file), false, head("/asked", Some("c0")));
        let first = Ledger::of_session(Some(&file), true, head("/a b", Some("c1")));
        assert_eq!(first.head(Path::new("/a b")), Some("c1"));
        for (tree, expected) in [("/a b", Some("c1")), ("/late", None), ("/asked", None)] {
            let later = Ledger::of_session(Some(&file), true, head(tree, Some("c2")));
            assert_eq!(later.head(Path::new(tree)), expected, "{tree}");
        }
        let other = folder.path().join("other");
        Ledger::of_session(Some(&other), true, head("/new", None));
        let later = Ledger::of_session(Some(&other), true, head("/new", Some("c3")));
        assert_eq!(later.head(Path::new("/new")), None);
        // What cannot be written down does not count.
        let nowhere = folder.path().join("no/ledger");
        let ledger = Ledger::of_session(Some(&nowhere), true, head("/a", Some("c1")));
        assert_eq!(ledger.head(Path::new("/a")), None);
    }

    #[test]
    fn a_ledger_that_is_a_link_or_torn_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("ledger"), folder.path().join("link"));
        std::fs::write(
            &file,
            "made 1 2 3 4\nmade 1 2 3\nmade x 2 3 4\nwhat 1 2 3 4\nmad",
        )
        .unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let born = Id {
            dev: 1,
            ino: 2,
            born: (3, 4),
        };
        assert!(Ledger::load(Some(&file)).is_made(&born));
        assert_eq!(Ledger::load(Some(&file)).made.len(), 1);
        assert!(!Ledger::load(Some(&link)).is_made(&born));
        assert!(!Ledger::load(None).is_made(&born));
    }

    #[test]
    fn what_has_no_time_of_birth_is_nobodys() {
        let mut ledger = Ledger::default();
        let nameless = Id {
            born: (0, 0),
            ..id(1)
        };
        ledger.note_made(nameless);
        assert!(!ledger.is_made(&nameless));
    }
}
