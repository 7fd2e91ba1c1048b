//! A workspace, a private tmp, secrets and a recovery folder, and commands run in them by the real
//! `hands-runner`, as the server runs them.
#![allow(dead_code, unreachable_pub)]

pub mod documents;
pub mod lines;

use hands_sandbox::{
    Done, Ending, Frame, Guard, Mode, Network, Plan, Request, Walls, decode_bytes,
};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What holds the commands of the tests: all of it, or what is left without namespaces, where
/// `HANDS_TEST_WALLS` says `reduced`.
pub fn walls() -> Walls {
    match std::env::var("HANDS_TEST_WALLS") {
        Ok(wanted) if wanted == "reduced" => Walls::Reduced,
        _ => Walls::Whole,
    }
}

pub fn program() -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_hands-runner"));
    match std::env::var_os("HANDS_TEST_BIN_DIR") {
        Some(folder) => PathBuf::from(folder).join("hands-runner"),
        None => built.to_path_buf(),
    }
}

pub struct World {
    _dir: tempfile::TempDir,
    pub root: PathBuf,
    pub plan: Plan,
}

/// What a command did and said.
#[derive(Debug)]
pub struct Ran {
    pub done: Done,
    pub code: Option<i32>,
    pub out: String,
}

impl World {
    pub fn new() -> World {
        World::in_folder(Path::new("/var/tmp"), walls())
    }

    /// Whose commands are held without namespaces.
    pub fn reduced() -> World {
        World::in_folder(Path::new("/var/tmp"), Walls::Reduced)
    }

    /// On a file system in memory, where much is written.
    pub fn in_memory() -> World {
        World::in_folder(Path::new("/dev/shm"), walls())
    }

    fn in_folder(folder: &Path, walls: Walls) -> World {
        let dir = tempfile::Builder::new()
            .prefix("hands-test-")
            .tempdir_in(folder)
            .unwrap();
        let root = dir.path().canonicalize().unwrap();
        for folder in ["ws", "tmp", "secret", "recovery", "home", "state"] {
            std::fs::create_dir(root.join(folder)).unwrap();
        }
        let text = |path: &Path| path.to_str().unwrap().to_string();
        let env = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_string()),
            ("HOME", text(&root.join("tmp"))),
            ("W", text(&root.join("ws"))),
            (
                "TMPDIR",
                match walls {
                    Walls::Whole => "/tmp".into(),
                    Walls::Reduced => text(&root.join("tmp")),
                },
            ),
            ("G", text(&root.join("g"))),
            ("GIT_CONFIG_NOSYSTEM", "1".into()),
            ("GIT_AUTHOR_NAME", "a".into()),
            ("GIT_AUTHOR_EMAIL", "a@b".into()),
            ("GIT_COMMITTER_NAME", "a".into()),
            ("GIT_COMMITTER_EMAIL", "a@b".into()),
            ("GIT_CONFIG_COUNT", "1".into()),
            ("GIT_CONFIG_KEY_0", "init.defaultBranch".into()),
            ("GIT_CONFIG_VALUE_0", "main".into()),
        ];
        let plan = Plan {
            argv: vec![],
            cwd: root.join("ws"),
            env: env.map(|(name, value)| (name.to_string(), value)).to_vec(),
            workspaces: vec![root.join("ws")],
            extra_write: vec![],
            closed: vec![],
            shallow: vec![],
            resources: hands_sandbox::Resources::default(),
            tmp: root.join("tmp"),
            masks: vec![
                root.join("secret"),
                root.join("recovery"),
                root.join("state"),
            ],
            sealed: vec![],
            mode: Mode::Default,
            walls,
            network: Network::Off,
            guard: Some(Guard {
                recovery: root.join("recovery"),
                turn_id: "t-1".into(),
                session_id: "s-1".into(),
                file_bytes: 1 << 20,
                quota_bytes: 1 << 30,
                min_age_s: 30 * 24 * 3600,
                ledger: Some(root.join("state/ledger")),
                build_folders: vec!["target".into(), "node_modules".into()],
            }),
        };
        World {
            _dir: dir,
            root,
            plan,
        }
    }

    pub fn guard(&mut self) -> &mut Guard {
        self.plan.guard.as_mut().unwrap()
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.root.join("ws").join(name)
    }

    pub fn write(&self, name: &str, content: &str) {
        std::fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        std::fs::write(self.at(name), content).unwrap();
    }

    pub fn read(&self, name: &str) -> Option<String> {
        let bytes = std::fs::read(self.at(name)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Runs a command outside the sandbox, as the person would.
    pub fn person(&self, command: &str) {
        let mut person = Command::new("/bin/bash");
        person
            .args(["-ec", command])
            .current_dir(self.root.join("ws"));
        person.env_clear().envs(self.plan.env.iter().cloned());
        let output = person.env("TMPDIR", &self.root).output().unwrap();
        assert!(output.status.success(), "{command}: {output:?}");
    }

    /// A repository with everything that is in the workspace committed.
    pub fn commit_all(&self) {
        self.person("git init -q . && git add -A && git commit -qm first");
    }

    pub fn request(&self, command: &str) -> Request {
        let mut plan = self.plan.clone();
        plan.argv = vec!["/bin/bash".into(), "-c".into(), command.into()];
        for entry in [".git/hooks", ".git/config", ".git/info/attributes"] {
            plan.sealed.push(self.at(entry));
        }
        plan.sealed
            .retain(|path| self.at(".git").exists() || !path.starts_with(self.at(".git")));
        Request {
            plan,
            stdin: None,
            timeout_ms: 180_000,
            grace_ms: 300,
            head_bytes: 100_000,
            tail_bytes: 1000,
            spill: None,
            spill_max_bytes: 0,
            progress: false,
        }
    }

    pub fn run(&self, command: &str) -> Ran {
        run(&self.request(command))
    }

    /// Every content in the recovery folder.
    pub fn kept(&self) -> Vec<String> {
        let days = std::fs::read_dir(self.root.join("recovery"))
            .unwrap()
            .flatten();
        let days = days.filter(|day| day.path().is_dir() && day.file_name() != "asides");
        let files = days.flat_map(|day| std::fs::read_dir(day.path()).unwrap().flatten());
        let contents = files.filter(|file| !file.file_name().to_string_lossy().ends_with(".json"));
        contents
            .map(|file| String::from_utf8_lossy(&std::fs::read(file.path()).unwrap()).into_owned())
            .collect()
    }

    pub fn has_kept(&self, content: &str) -> bool {
        self.kept().iter().any(|kept| kept == content)
    }

    /// Whether any file in the workspace holds this and nothing else.
    pub fn holds(&self, content: &str) -> bool {
        let mut waiting = vec![self.root.join("ws")];
        while let Some(folder) = waiting.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                let kind = entry.file_type().unwrap();
                if kind.is_dir() {
                    waiting.push(entry.path());
                } else if std::fs::read(entry.path()).is_ok_and(|b| b == content.as_bytes()) {
                    return true;
                }
            }
        }
        false
    }
}

pub fn run(request: &Request) -> Ran {
    try_run(request).unwrap_or_else(|refused| panic!("{refused}"))
}

/// Runs a command, or tells why the sandbox refused to. As the server does, tries again where something
/// changed on the machine meanwhile: other tests mount and unmount.
pub fn try_run(request: &Request) -> Result<Ran, String> {
    for _ in 0..2 {
        if let Some(ran) = run_once(request, true) {
            return ran;
        }
    }
    run_once(request, false).unwrap()
}

/// Nothing where it is to be tried again.
fn run_once(request: &Request, may_try_again: bool) -> Option<Result<Ran, String>> {
    let mut child = Command::new(program())
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{}", serde_json::to_string(request).unwrap()).unwrap();
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    let text = String::from_utf8(output.stdout).unwrap();
    let last = text.lines().last().unwrap_or_default();
    match serde_json::from_str(last) {
        Ok(Frame::Done(done)) => {
            let both = [&done.both.head, &done.both.tail].map(|part| decode_bytes(part).unwrap());
            Some(Ok(Ran {
                code: match done.ending {
                    Ending::Exit(code) => Some(code),
                    Ending::Signal(_) => None,
                },
                out: String::from_utf8_lossy(&both.concat()).into_owned(),
                done: *done,
            }))
        }
        Ok(Frame::Refused { again: true, .. }) if may_try_again => None,
        Ok(Frame::Refused { message, .. }) => Some(Err(message)),
        other => panic!("{other:?}"),
    }
}
