//! What a commit says, by git's own reading of it, in repositories of our own with settings that
//! nobody else wrote. Whoever can replace a repository's objects can make git read other content
//! under their names: what is needed is packed and unpacked first, by which git names every
//! object anew after what is in it.

use crate::limits;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Instant;

/// Where git is, if it is the system's. (On macOS `/usr/bin/git` may ask the person to install it.)
pub(crate) const GIT: &str = match cfg!(target_os = "macos") {
    true => "/Library/Developer/CommandLineTools/usr/bin/git",
    false => "/usr/bin/git",
};
/// The repository that borrows another one's objects, and the one that holds what was read.
const LENT: &str = "lent";
const OWN: &str = "own";

/// What a commit holds of what was asked for.
#[derive(Default)]
pub(super) struct Held {
    /// Files of rules, by their paths, with their contents.
    pub(super) rules: Vec<(Vec<u8>, Vec<u8>)>,
    /// The other paths that are in it.
    pub(super) tracked: HashSet<Vec<u8>>,
}

/// A look at one commit.
pub(super) struct Look {
    folder: PathBuf,
    commit: String,
    until: Instant,
}

impl Drop for Look {
    fn drop(&mut self) {
        // Only ever a folder that `make` created exclusively.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// What git said, and whether it was content.
struct Said {
    well: bool,
    bytes: Vec<u8>,
}

impl Look {
    /// Prepares a look at `commit`, whose objects lie in a folder of somebody else's; below `parent`,
    /// a folder of our own.
    pub(super) fn make(parent: &Path, objects: &Path, commit: &str) -> Option<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!(".git-look-{}-{number}", std::process::id()));
        std::fs::create_dir(&folder).ok()?;
        let look = Self {
            folder,
            commit: commit.to_string(),
            until: Instant::now() + limits::GIT_PATIENCE,
        };
        std::fs::create_dir(look.folder.join("tree")).ok()?;
        let format = match commit.len() {
            64 => "[core]\nrepositoryformatversion = 1\n[extensions]\nobjectformat = sha256\n",
            _ => "[core]\nrepositoryformatversion = 0\n",
        };
        for name in [LENT, OWN] {
            let git = look.folder.join(name);
            for part in ["objects/info", "objects/pack", "refs"] {
                std::fs::create_dir_all(git.join(part)).ok()?;
            }
            std::fs::write(git.join("HEAD"), "ref: refs/heads/none\n").ok()?;
            std::fs::write(git.join("config"), format).ok()?;
        }
        let path = objects.canonicalize().ok()?;
        let line = [path.as_os_str().as_bytes(), b"\n"].concat();
        let alternates = look.folder.join(LENT).join("objects/info/alternates");
        std::fs::write(alternates, line).ok()?;
        Some(look)
    }

    /// Brings the commit, the folders on the way and their rules into our own repository, under
    /// the names that their contents have.
    pub(super) fn fetch(&self, folders: &[&[u8]]) -> Option<()> {
        let commit = self.commit.as_bytes();
        let mut names = [commit, b"\n", commit, b"^{tree}\n"].concat();
        for folder in folders {
            names.extend([commit, b":", folder, b"\n"].concat());
            names.extend([commit, b":", &rules_in(folder), b"\n"].concat());
        }
        let found = self.git(LENT, &["cat-file", "--batch-check"], &[], names)?;
        let mut wanted = Vec::new();
        for line in found.bytes.split(|byte| *byte == b'\n') {
            let id = line.split(|byte| *byte == b' ').next().unwrap_or_default();
            if !line.ends_with(b" missing") && id.len() == commit.len() {
                wanted.extend([id, b"\n"].concat());
            }
        }
        let packing = [
            "pack-objects",
            "-q",
            "--stdout",
            "--window=0",
            "--threads=1",
        ];
        let packed = self.git(LENT, &packing, &[], wanted)?;
        let unpacked = self.git(OWN, &["index-pack", "--stdin"], &[], packed.bytes)?;
        (packed.well && unpacked.well).then_some(())
    }

    /// The rules in these folders, and which of other paths are in the commit. Fails where anything
    /// of it is missing.
    pub(super) fn rules(&self, folders: &[&[u8]], others: &[&[u8]]) -> Option<Held> {
        let files: HashSet<Vec<u8>> = folders.iter().map(|folder| rules_in(folder)).collect();
        let paths = files
            .iter()
            .map(Vec::as_slice)
            .chain(others.iter().copied());
        let paths: Vec<&OsStr> = paths.map(OsStr::from_bytes).collect();
        let list = ["ls-tree", "-z", "--full-tree", &self.commit, "--"];
        let listed = self.git(OWN, &list, &paths, Vec::new())?;
        if !listed.well {
            return None;
        }
        let mut held = Held::default();
        for line in listed
            .bytes
            .split(|byte| *byte == 0)
            .filter(|l| !l.is_empty())
        {
            let tab = line.iter().position(|byte| *byte == b'\t')?;
            let (facts, path) = (std::str::from_utf8(&line[..tab]).ok()?, &line[tab + 1..]);
            if !files.contains(path) {
                held.tracked.insert(path.to_vec());
                continue;
            }
            let id = facts.split(' ').next_back()?;
            // A link with rules is no file of rules.
            if facts.starts_with("100") {
                let content = self.git(OWN, &["cat-file", "blob", id], &[], Vec::new())?;
                held.rules
                    .push((path.to_vec(), content.well.then_some(content.bytes)?));
            }
        }
        Some(held)
    }

    /// Puts a file of rules into the working tree.
    pub(super) fn place(&self, path: &[u8], content: &[u8]) -> Option<()> {
        let to = self.folder.join("tree").join(OsStr::from_bytes(path));
        std::fs::create_dir_all(to.parent()?).ok()?;
        std::fs::write(to, content).ok()
    }

    /// Which of these folders git ignores by the rules that were placed.
    pub(super) fn which_ignored(&self, folders: &[&[u8]]) -> Option<HashSet<Vec<u8>>> {
        let mut input = Vec::new();
        for folder in folders {
            let path = self.folder.join("tree").join(OsStr::from_bytes(folder));
            std::fs::create_dir_all(path).ok()?;
            input.extend([folder, &b"\0"[..]].concat());
        }
        let listed = self.git(OWN, &["check-ignore", "-z", "--stdin"], &[], input)?;
        let names = listed.bytes.split(|byte| *byte == 0);
        Some(
            names
                .filter(|name| !name.is_empty())
                .map(<[u8]>::to_vec)
                .collect(),
        )
    }

    /// Runs git on one of the two repositories.
    fn git(&self, name: &str, args: &[&str], paths: &[&OsStr], input: Vec<u8>) -> Option<Said> {
        let child = Command::new(GIT)
            .args(args)
            .args(paths)
            .env_clear()
            .envs([
                ("GIT_CONFIG_NOSYSTEM", "1"),
                ("GIT_CONFIG_GLOBAL", "/dev/null"),
                ("GIT_NO_LAZY_FETCH", "1"),
                ("LC_ALL", "C"),
            ])
            .env("GIT_DIR", self.folder.join(name))
            .env("GIT_WORK_TREE", self.folder.join("tree"))
            .current_dir(self.folder.join("tree"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        self.hear(child, input)
    }

    /// Waits for git's answer, and ends it where it takes too long: a pipe among a repository's
    /// objects makes it wait for ever.
    fn hear(&self, mut child: Child, input: Vec<u8>) -> Option<Said> {
        let (mut stdin, stdout) = (child.stdin.take()?, child.stdout.take()?);
        let (sender, said) = channel();
        let write = move || drop(stdin.write_all(&input));
        let read = move || {
            let mut bytes = Vec::new();
            let read = stdout.take(limits::GIT_BYTES).read_to_end(&mut bytes);
            let _ = sender.send(read.map(|_| bytes));
        };
        let begin = |act: Box<dyn FnOnce() + Send>| std::thread::Builder::new().spawn(act);
        let begun = begin(Box::new(write)).and(begin(Box::new(read)));
        let left = self.until.saturating_duration_since(Instant::now());
        let bytes = begun.ok().and_then(|_| said.recv_timeout(left).ok());
        if bytes.is_none() {
            // One that is over already needs no signal.
            let _ = child.kill();
        }
        let status = child.wait().ok()?;
        Some(Said {
            well: status.success(),
            bytes: bytes?.ok()?,
        })
    }
}

/// Where a folder's rules stand.
fn rules_in(folder: &[u8]) -> Vec<u8> {
    match folder {
        b"" => b".gitignore".to_vec(),
        folder => [folder, b"/.gitignore"].concat(),
    }
}
