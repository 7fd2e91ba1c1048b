//! What the tests share: a home of its own for each test, the programs, and the client.
#![allow(dead_code)] // Each test program uses its part of this folder.

mod client;
mod processes;

#[allow(unused_imports)] // As above.
pub(crate) use client::{Reply, Server, Start};
#[allow(unused_imports)] // As above.
pub(crate) use processes::{none_left, running_in};

use hands_testkit::Folder;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time within which a call must be answered, however slow the machine.
pub(crate) const ANSWER: Duration = Duration::from_secs(20);
/// Time for things that happen at once on an idle machine and late on a loaded one.
pub(crate) const SOON: Duration = Duration::from_secs(10);
/// The server ends within one second of the end of its input; the rest is for a loaded machine.
pub(crate) const END: Duration = Duration::from_millis(1000 + 1500);

/// A person's home, with a workspace and the home of Hands in it. Removed when dropped.
pub(crate) struct Place {
    _dir: Folder,
    root: PathBuf,
}

impl Place {
    /// Outside `/tmp`, which is a private one for commands.
    pub(crate) fn new() -> Place {
        Place::below(Path::new("/var/tmp"))
    }

    /// Below `/tmp`, where workspaces have to work as well.
    pub(crate) fn in_tmp() -> Place {
        Place::below(Path::new("/tmp"))
    }

    fn below(parent: &Path) -> Place {
        let dir = Folder::new(parent, "hands-test-");
        let root = dir.path().to_owned();
        std::fs::create_dir_all(root.join("ann/Hands")).unwrap();
        Place { _dir: dir, root }
    }

    /// The folder that holds everything of this test.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The person's home.
    pub(crate) fn ann(&self) -> PathBuf {
        self.root.join("ann")
    }

    /// The workspace.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.ann().join("Hands")
    }

    /// The home of Hands.
    pub(crate) fn home(&self) -> PathBuf {
        self.root.join("hands")
    }

    /// A path in the workspace.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.workspace().join(name)
    }

    /// A path in the workspace, as text for an argument.
    pub(crate) fn text(&self, name: &str) -> String {
        self.at(name).to_str().unwrap().to_string()
    }

    /// Writes a file in the workspace, with its folders.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        put(&self.at(name), bytes)
    }

    /// Reads a file of the workspace.
    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.at(name)).unwrap()
    }

    /// Settings for a start of the server.
    pub(crate) fn start(&self) -> Start<'_> {
        Start::new(self)
    }

    /// A server with the handshake done.
    pub(crate) fn open(&self) -> Server {
        self.start().open()
    }

    /// The activity log, line by line.
    pub(crate) fn trail_lines(&self) -> Vec<String> {
        let path = self.home().join("logs/agent_activity.jsonl");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(str::to_string).collect()
    }

    /// The activity log's records.
    pub(crate) fn trail(&self) -> Vec<Value> {
        let lines = self.trail_lines();
        lines
            .iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Runs `handsctl`; its exit code, standard output and standard error.
    pub(crate) fn handsctl(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let output = Command::new(program("handsctl"))
            .env_clear()
            .env("PATH", search_path())
            .env("HOME", self.ann())
            .env("HANDS_HOME", self.home())
            .args(args)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    }

    /// What `handsctl logs verify --json` says.
    pub(crate) fn verify(&self) -> Value {
        let (code, out, err) = self.handsctl(&["logs", "verify", "--json"]);
        let report: Value = serde_json::from_str(&out).unwrap_or_else(|e| {
            panic!("handsctl logs verify: {e}\n{out}\n{err}");
        });
        assert_eq!(code == Some(0), report["ok"] == true, "{code:?} {report}");
        report
    }
}

/// Writes a file with its folders.
pub(crate) fn put(path: &Path, bytes: impl AsRef<[u8]>) -> PathBuf {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
    path.to_path_buf()
}

/// A program of ours: in the folder that the environment names, else beside `hands-mcp`.
pub(crate) fn program(name: &str) -> PathBuf {
    let folder = std::env::var_os("HANDS_TEST_BIN_DIR").map_or_else(
        || {
            let own = Path::new(env!("CARGO_BIN_EXE_hands-mcp"));
            own.parent().unwrap().to_path_buf()
        },
        PathBuf::from,
    );
    let path = folder.join(name);
    assert!(
        path.is_file(),
        "this test needs {}: run cargo build --workspace first",
        path.display()
    );
    path
}

/// The search path of the programs that are started.
pub(crate) fn search_path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

/// Whether the tests run as root, for whom permissions mean little.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether a program is on the search path: not every machine has every interpreter.
pub(crate) fn has(name: &str) -> bool {
    let path = search_path();
    let mut folders = std::env::split_paths(&path);
    folders.any(|folder| folder.join(name).is_file())
}

/// Waits until something is so.
pub(crate) fn until(what: &str, within: Duration, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + within;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {within:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Every file, folder and link below a folder, with its content or target, to compare before and
/// after.
pub(crate) fn picture(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut all = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            let what = if meta.is_symlink() {
                format!("-> {}", path.read_link().unwrap().display())
            } else if meta.is_dir() {
                open.push(path.clone());
                "folder".to_string()
            } else if meta.is_file() {
                String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned()
            } else {
                "other".to_string()
            };
            all.push((path, what));
        }
    }
    all.sort();
    all
}

/// Whether a file in the workspace or in the recovery folder holds just this.
pub(crate) fn survives(place: &Place, content: &str) -> bool {
    let folders = [place.workspace(), place.home().join("work/recovery")];
    let all = folders.iter().filter(|folder| folder.is_dir());
    all.flat_map(|folder| picture(folder))
        .any(|(_, held)| held == content)
}
