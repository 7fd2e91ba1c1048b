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

/// What stands for a repository without a commit.
const NO_COMMIT: &str = "-";

/// A name in a folder.
pub(super) type Name = (Id, Vec<u8>);

/// One line of the session's ledger.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Line {
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
    /// Made by this call.
    made_now: HashSet<Id>,
    /// Second names that this call gave to what it did not make.
    names: HashSet<Name>,
    /// Old objects that were given another name.
    moved: HashSet<Id>,
    /// Where those were that this call renamed, by the names at first.
    former: HashMap<Id, PathBuf>,
    /// Old files whose content is kept already, and the state in which it was.
    kept: HashMap<Id, State>,
    /// Which commit each repository was at when the session began.
    heads: HashMap<PathBuf, String>,
    /// What the session's file does not say yet.
    news: Vec<Line>,
}

impl Ledger {
    /// Starts with what earlier calls of the session made.
    pub(super) fn load(file: Option<&Path>) -> Self {
        let mut ledger = Self::default();
        let Some(file) = file.and_then(|path| open(path, false).ok()) else {
            return ledger;
        };
        for line in BufReader::new(file.take(MOST_BYTES)).lines() {
            let Ok(line) = line else { break };
            match Line::parse(&line) {
                Some(Line::Made(id)) => drop(ledger.made.insert(id)),
                Some(Line::Gone(id)) => drop(ledger.made.remove(&id)),
                Some(Line::Moved(id)) => drop(ledger.moved.insert(id)),
                // The first word counts: a later commit is the session's own.
                Some(Line::Head(tree, commit)) => {
                    ledger.heads.entry(tree).or_insert(commit);
                }
                None => {}
            }
        }
        ledger
    }

    /// Adds what this call did to the session's file.
    pub(super) fn save(&mut self, path: Option<&Path>) -> std::io::Result<()> {
        let news = std::mem::take(&mut self.news);
        let Some(path) = path.filter(|_| !news.is_empty()) else {
            return Ok(());
        };
        let mut text = String::new();
        for line in self.lasting(news) {
            line.write(&mut text);
        }
        let mut file = open(path, true)?;
        file.lock()?;
        file.write_all(text.as_bytes())
    }

    /// Drops what came and went within the call.
    fn lasting(&self, news: Vec<Line>) -> Vec<Line> {
        let here = |id: &Id| self.made.contains(id);
        let keep = |line: &Line| match line {
            Line::Made(id) => here(id),
            Line::Gone(id) => !self.made_now.contains(id) && !here(id),
            Line::Moved(_) | Line::Head(..) => true,
        };
        let mut seen = HashSet::new();
        let mut lasting = news;
        lasting.retain(|line| keep(line) && seen.insert(line.clone()));
        lasting
    }

    /// Whether this call or an earlier one of the session made it.
    pub(super) fn is_made(&self, id: &Id) -> bool {
        self.made.contains(id)
    }

    /// Whether this call made it.
    pub(super) fn is_made_now(&self, id: &Id) -> bool {
        self.made_now.contains(id) && self.made.contains(id)
    }

    pub(super) fn note_made(&mut self, id: Id) {
        if !id.is_lasting() {
            return;
        }
        self.made.insert(id);
        self.made_now.insert(id);
        self.news.push(Line::Made(id));
    }

    /// It is gone, or it has taken the name of something old and is from now on treated like that.
    pub(super) fn note_gone(&mut self, id: &Id) {
        if self.made.remove(id) {
            self.news.push(Line::Gone(*id));
        }
    }

    /// Remembers at which commit a repository was, unless the session knows that already.
    pub(super) fn note_head(&mut self, tree: &Path, commit: impl FnOnce() -> Option<String>) {
        if self.heads.contains_key(tree) {
            return;
        }
        // One without a commit stays so for the session.
        let commit = commit().unwrap_or_else(|| NO_COMMIT.into());
        self.heads.insert(tree.to_path_buf(), commit.clone());
        self.news.push(Line::Head(tree.to_path_buf(), commit));
    }

    /// The commit that a repository was at when the session began.
    pub(super) fn head(&self, tree: &Path) -> Option<&str> {
        let head = self.heads.get(tree).map(String::as_str);
        head.filter(|commit| *commit != NO_COMMIT)
    }

    pub(super) fn note_moved(&mut self, id: Id, from: &Path) {
        self.former.entry(id).or_insert_with(|| from.to_path_buf());
        if self.moved.insert(id) {
            self.news.push(Line::Moved(id));
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
        let tree = Path::new("/a b");
        first.note_head(tree, || Some("c1".into()));
        first.note_head(Path::new("/new"), || None);
        first.save(Some(&file)).unwrap();
        let mut second = Ledger::load(Some(&file));
        assert!(second.is_made(&id(1)) && !second.is_made_now(&id(1)));
        assert!(!second.is_made(&id(2)) && second.was_moved(&id(9)));
        second.note_head(tree, || Some("c2".into()));
        second.note_head(Path::new("/new"), || Some("c3".into()));
        assert_eq!(second.head(tree), Some("c1"));
        assert_eq!(second.head(Path::new("/new")), None);
        second.note_gone(&id(3));
        second.save(Some(&file)).unwrap();
        let third = Ledger::load(Some(&file));
        assert!(!third.is_made(&id(3)) && third.is_made(&id(4)));
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
