//! What git knows of a file: read from the repository's own files, never by running git in a
//! repository whose settings somebody else may have written.

use crate::look::Look;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Bytes of an index that are read: a million files.
const MOST_INDEX: u64 = 256 * 1024 * 1024;
/// Bytes of a small file of git's (HEAD, a reference, a list of packed ones).
const MOST_SMALL: u64 = 16 * 1024 * 1024;

/// A repository with a working tree.
#[derive(Debug, Clone)]
pub(super) struct Repository {
    tree: PathBuf,
    git_dir: PathBuf,
}

impl Repository {
    /// The repository whose working tree a path lies in.
    pub(super) fn around(path: &Path) -> Option<Self> {
        path.ancestors().skip(1).find_map(|tree| {
            let git = tree.join(".git");
            let info = git.symlink_metadata().ok()?;
            let git_dir = match info.is_dir() {
                true => git,
                false => linked(&git)?,
            };
            Some(Self {
                tree: tree.to_path_buf(),
                git_dir,
            })
        })
    }

    /// Where its working tree is.
    pub(super) fn tree(&self) -> &Path {
        &self.tree
    }

    /// The path as git writes it.
    pub(super) fn inner<'a>(&self, path: &'a Path) -> Option<&'a [u8]> {
        Some(path.strip_prefix(&self.tree).ok()?.as_os_str().as_bytes())
    }

    /// The paths in its index; nothing when the index cannot be read.
    pub(super) fn index(&self) -> Option<Index> {
        Index::read(&self.index_path())
    }

    /// Where its index is.
    pub(super) fn index_path(&self) -> PathBuf {
        self.git_dir.join("index")
    }

    /// Its own folder, or that of the repository it is a working tree of.
    fn common_dir(&self) -> PathBuf {
        match small(&self.git_dir.join("commondir")) {
            Some(text) => self.git_dir.join(text.trim()),
            None => self.git_dir.clone(),
        }
    }

    /// The commit that is checked out.
    pub(super) fn head(&self) -> Option<String> {
        let mut text = small(&self.git_dir.join("HEAD"))?;
        // A reference may name another one; a few are enough.
        for _ in 0..4 {
            let Some(name) = text.trim().strip_prefix("ref: ").map(str::to_string) else {
                break;
            };
            if name.split('/').any(|part| part == "..") {
                return None;
            }
            let common = self.common_dir();
            text = small(&common.join(&name)).or_else(|| packed(&common, &name))?;
        }
        let id = text.trim();
        let is_id = matches!(id.len(), 40 | 64) && id.bytes().all(|b| b.is_ascii_hexdigit());
        is_id.then(|| id.to_string())
    }

    /// Whether git ignores this folder by the rules of a commit, and has nothing in it. `scratch`
    /// is a folder of our own.
    pub(super) fn ignores(&self, folder: &Path, commit: &str, scratch: &Path) -> bool {
        let folder = folder.to_path_buf();
        let ignored = self.ignored(std::slice::from_ref(&folder), commit, scratch);
        ignored.contains(&folder)
    }

    /// Which of these folders git ignores by the rules of a commit, and has nothing in.
    pub(super) fn ignored(
        &self,
        folders: &[PathBuf],
        commit: &str,
        scratch: &Path,
    ) -> HashSet<PathBuf> {
        let found = self.try_ignored(folders, commit, scratch);
        found.unwrap_or_default()
    }

    fn try_ignored(
        &self,
        folders: &[PathBuf],
        head: &str,
        scratch: &Path,
    ) -> Option<HashSet<PathBuf>> {
        let index = self.index()?;
        let mut inner: HashMap<&[u8], &PathBuf> = HashMap::new();
        let mut above: BTreeSet<&[u8]> = BTreeSet::new();
        for folder in folders {
            let path = self.inner(folder)?;
            if path.is_empty() || path.contains(&b'\n') || index.has_below(path) {
                continue;
            }
            inner.insert(path, folder);
            let up = folder.ancestors().skip(1);
            above.extend(up.map_while(|up| self.inner(up)));
        }
        if inner.is_empty() {
            return None;
        }
        let above: Vec<&[u8]> = above.into_iter().collect();
        let objects = self.common_dir().join("objects");
        let look = Look::make(scratch, &objects, head)?;
        look.fetch(&above)?;
        let wanted: Vec<&[u8]> = inner.keys().copied().collect();
        let found = look.rules(&above, &wanted)?;
        for (path, content) in &found.rules {
            look.place(path, content)?;
        }
        inner.retain(|path, _| !found.tracked.contains(*path));
        let wanted: Vec<&[u8]> = inner.keys().copied().collect();
        let ignored = look.which_ignored(&wanted)?;
        inner.retain(|path, _| ignored.contains(*path));
        Some(inner.into_values().cloned().collect())
    }
}

/// Where a `.git` file leads.
fn linked(file: &Path) -> Option<PathBuf> {
    let text = small(file)?;
    let to = text.trim().strip_prefix("gitdir: ")?;
    Some(file.parent()?.join(to))
}

fn packed(common: &Path, name: &str) -> Option<String> {
    let text = small(&common.join("packed-refs"))?;
    let mut lines = text.lines();
    lines.find_map(|line| {
        let (id, named) = line.split_once(' ')?;
        (named == name).then(|| id.to_string())
    })
}

fn small(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = open_plain(path)?;
    file.take(MOST_SMALL).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Opens a regular file, and never waits for a pipe's other end.
fn open_plain(path: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let non_blocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).ok()?;
    let mut options = File::options();
    let file = options
        .read(true)
        .custom_flags(non_blocking)
        .open(path)
        .ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}

/// The paths that git tracks.
#[derive(Debug, Default)]
pub(super) struct Index(BTreeSet<Vec<u8>>);

impl Index {
    pub(super) fn read(path: &Path) -> Option<Self> {
        let mut bytes = Vec::new();
        open_plain(path)?
            .take(MOST_INDEX)
            .read_to_end(&mut bytes)
            .ok()?;
        Self::parse(&bytes, 20).or_else(|| Self::parse(&bytes, 32))
    }

    pub(super) fn has(&self, path: &[u8]) -> bool {
        self.0.contains(path)
    }

    fn has_below(&self, folder: &[u8]) -> bool {
        let start = [folder, b"/"].concat();
        let next = self.0.range(start.clone()..).next();
        self.has(folder) || next.is_some_and(|path| path.starts_with(&start))
    }

    /// Reads versions 2 to 4; `hash` is the length of an object's name. Nothing comes of one that
    /// is split, or that does not add up.
    fn parse(bytes: &[u8], hash: usize) -> Option<Self> {
        const STAT: usize = 40;
        const EXTENDED: u16 = 0x4000;
        let number = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let version = number(4)?;
        if bytes.get(..4)? != b"DIRC" || !(2..=4).contains(&version) {
            return None;
        }
        let count = number(8)?;
        let mut paths = BTreeSet::new();
        let mut last: Vec<u8> = Vec::new();
        let mut at = 12;
        for _ in 0..count {
            let flags_at = at + STAT + hash;
            let flags = bytes.get(flags_at..flags_at + 2)?;
            let flags = u16::from_be_bytes(flags.try_into().ok()?);
            let mut name_at = flags_at + 2;
            if version >= 3 && flags & EXTENDED != 0 {
                name_at += 2;
            }
            let mut path = Vec::new();
            if version == 4 {
                let (dropped, after) = variable_number(bytes, name_at)?;
                path.extend(last.get(..last.len().checked_sub(dropped)?)?);
                name_at = after;
            }
            let length = bytes.get(name_at..)?.iter().position(|b| *b == 0)?;
            path.extend(bytes.get(name_at..name_at + length)?);
            at = match version {
                4 => name_at + length + 1,
                // Filled up to a multiple of eight, with one NUL at least.
                _ => at + (name_at + length - at + 8) / 8 * 8,
            };
            last.clone_from(&path);
            paths.insert(path);
        }
        (at + hash <= bytes.len() && !is_split(bytes.get(at..)?, hash)).then_some(Self(paths))
    }
}

/// The number by which version 4 shortens the path before.
fn variable_number(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut byte = *bytes.get(at)?;
    let mut value = usize::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        at += 1;
        byte = *bytes.get(at)?;
        value = value.checked_add(1)?.checked_mul(128)? | usize::from(byte & 0x7f);
    }
    Some((value, at + 1))
}

/// Whether an extension says that entries stand in another file.
fn is_split(mut extensions: &[u8], hash: usize) -> bool {
    while extensions.len() > hash + 8 {
        let Some(length) = extensions.get(4..8).and_then(|b| b.try_into().ok()) else {
            return false;
        };
        if extensions.starts_with(b"link") {
            return true;
        }
        let next = 8 + u32::from_be_bytes(length) as usize;
        extensions = extensions.get(next..).unwrap_or_default();
    }
    false
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::look::GIT;
    use std::process::Command;

    fn tracks(path: &Path) -> bool {
        let repository = Repository::around(path).unwrap();
        let index = repository.index().unwrap();
        index.has(repository.inner(path).unwrap())
    }

    /// Runs git as the person would.
    pub(crate) fn git(folder: &Path, args: &[&str]) {
        let output = Command::new(GIT)
            .args(["-c", "user.name=a", "-c", "user.email=a@b", "-C"])
            .arg(folder)
            .args(args)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
    }

    #[test]
    fn an_index_is_read_in_every_version() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        git(at, &["init", "-q", "."]);
        for name in [
            "a",
            "deep/er/x",
            "deep/er/xyz",
            "deep/z",
            "ünï",
            "1234567",
            "12345678",
        ] {
            let path = at.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, name).unwrap();
        }
        git(at, &["add", "-A"]);
        std::fs::write(at.join("untracked"), "").unwrap();
        for version in ["2", "3", "4"] {
            git(at, &["update-index", "--index-version", version]);
            git(at, &["add", "-N", "untracked"]);
            let index = Index::read(&at.join(".git/index")).unwrap();
            assert_eq!(index.0.len(), 8, "{version}: {index:?}");
            assert!(tracks(&at.join("deep/er/xyz")) && tracks(&at.join("ünï")));
            assert!(!tracks(&at.join("deep/er/xy")));
            assert!(index.has_below(b"deep") && index.has_below(b"deep/er"));
            assert!(!index.has_below(b"dee") && index.has_below(b"a"));
            git(at, &["rm", "-q", "--cached", "untracked"]);
        }
        git(at, &["update-index", "--split-index"]);
        assert!(Index::read(&at.join(".git/index")).is_none());
    }

    #[test]
    fn a_broken_index_is_no_index() {
        for bytes in [
            &b""[..],
            b"DIRC",
            b"DIRC\0\0\0\x02\xff\xff\xff\xff",
            &[0xff; 200],
        ] {
            assert!(Index::parse(bytes, 20).is_none());
        }
    }

    #[test]
    fn what_is_ignored_is_judged_by_the_commit() {
        let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = &folder.path().join("work");
        std::fs::create_dir(at).unwrap();
        git(at, &["init", "-q", "."]);
        for (name, content) in [
            (".gitignore", "target/\n/build\n!kept/target\n"),
            ("sub/.gitignore", "dist\n"),
            ("tracked/target/x", ""),
            ("target/x", ""),
            ("sub/dist/x", ""),
            ("dist/x", ""),
            ("deep/build/x", ""),
            ("build/x", ""),
        ] {
            let path = at.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let ignores = |name: &str| {
            let folder = at.join(name);
            let repository = Repository::around(&folder).unwrap();
            let head = repository.head();
            head.is_some_and(|head| repository.ignores(&folder, &head, scratch.path()))
        };
        assert!(!ignores("target"), "nothing is committed yet");
        git(at, &["add", "-A"]);
        git(at, &["add", "-f", "tracked/target/x"]);
        git(at, &["commit", "-qm", "1"]);
        for (name, expected) in [
            ("target", true),
            ("build", true),
            ("sub/dist", true),
            ("sub/target", true),
            ("dist", false),
            ("deep/build", false),
            ("tracked/target", false),
        ] {
            assert_eq!(ignores(name), expected, "{name}");
        }
        std::fs::write(at.join(".gitignore"), "dist\n").unwrap();
        assert!(
            !ignores("dist") && ignores("target"),
            "an edit frees nothing"
        );
        git(at, &["pack-refs", "--all"]);
        git(at, &["gc", "-q"]);
        assert!(ignores("target"));
        forge(at, "HEAD:.gitignore");
        assert!(!ignores("deep/build") && !ignores("target"));
        let more = at.join(".git/objects/info/alternates");
        let made = Command::new("mkfifo").arg(&more).status().unwrap();
        assert!(made.success());
        assert!(!ignores("dist"), "git waits for ever");
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }

    /// Puts other rules in the place of an object, which git then reads without a word.
    fn forge(at: &Path, object: &str) {
        let forge = r#"
cd "$1"
mv .git/objects/pack/*.pack ..
git unpack-objects -q < ../*.pack
rm -f ../*.pack .git/objects/pack/*
id=$(git rev-parse "$2")
to=.git/objects/${id:0:2}/${id:2}
mkdir ../forged
git -C ../forged init -q .
other=$(printf 'deep\nbuild\ntarget\n' | git -C ../forged hash-object -w --stdin)
mv -f ../forged/.git/objects/${other:0:2}/${other:2} $to
[ "$(git cat-file -p "$2" | head -n 1)" = deep ]
"#;
        let mut shell = Command::new("bash");
        let ran = shell.args(["-ec", forge, "forge"]).arg(at).arg(object);
        let ran = ran.output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
    }
}
