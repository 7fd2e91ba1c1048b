//! The small world that is attacked, and what its disk says afterwards.

use crate::limits;
use crate::look::GIT;
use crate::plan::{Guard, Mode, Network, Plan, Request, Walls};
use crate::promise::Rule;
use std::collections::BTreeSet;
use std::fs::{DirBuilder, File};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// What the hidden file holds.
pub(super) const SECRET: &str = "this is secret";
/// A recovery file of an earlier command, in the recovery folder.
pub(super) const EARLIER: &str = "earlier/kept";
/// Files in the workspace that are there before, and what they hold.
const OLD: &[(&str, &str)] = &[
    ("old", "this is old"),
    ("other", "this is another"),
    ("emptied", "this was emptied"),
    ("replaced", "this was replaced"),
    ("named", "this was named"),
    ("unseen", "this is unseen"),
    ("untouched", "this is untouched"),
    ("closed/old", "this is closed"),
    ("secret/key", SECRET),
    ("tracked", "this is tracked"),
    (".gitignore", "target/\n"),
    ("target/product", "this was built"),
    ("dist/product", "this is no product"),
];

/// A folder of our own, removed when dropped, half filled or whole.
struct Root(PathBuf);

impl Root {
    /// Makes it; one that is there already is somebody else's.
    fn make(path: PathBuf) -> std::io::Result<Self> {
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The small world, removed when dropped.
pub(super) struct World {
    root: Root,
    begun: Instant,
    guarded: bool,
    walls: Walls,
    has_git: bool,
    tcp: Option<TcpListener>,
    /// What git's configuration held at first.
    config: String,
    _socket: UnixListener,
    /// Open in this process and inherited by whatever it starts, unless somebody closes it.
    _leak: File,
    _lock: File,
}

impl Drop for World {
    fn drop(&mut self) {
        // Of our making, by its name; there only when the sandbox let it through.
        let _ = std::fs::remove_file(self.in_root());
    }
}

impl World {
    pub(super) fn make(scratch: &Path, guarded: bool, walls: Walls) -> std::io::Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(scratch)?;
        let scratch = scratch.canonicalize()?;
        let root = Root::make(scratch.join(format!("canary-{}", std::process::id())))?;
        let at = |name: &str| root.0.join(name);
        // Whoever sweeps the scratch folder sees by this that the world is in use.
        let lock = File::create(at("lock"))?;
        lock.lock()?;
        for folder in ["ws/d", "ws/run", "tmp", "outside", "recovery", "home"] {
            std::fs::create_dir_all(at(folder))?;
        }
        for (name, content) in OLD {
            write(&at("ws").join(name), content)?;
        }
        write(&at("recovery").join(EARLIER), "this was kept earlier")?;
        write(&at("home/trail.key"), "this is a key")?;
        std::os::unix::fs::symlink("secret/key", at("ws/to-the-key"))?;
        let has_git = make_repository(&at("ws")).is_some();
        std::fs::create_dir_all(at("ws/.git/hooks"))?;
        if !has_git {
            write(&at("ws/.git/config"), "config")?;
        }
        let leak = File::open(at("ws/secret/key"))?;
        rustix::io::fcntl_setfd(leak.as_fd(), rustix::io::FdFlags::empty())?;
        let tcp = TcpListener::bind(("127.0.0.1", 0)).ok();
        Ok(Self {
            begun: Instant::now(),
            guarded,
            walls,
            has_git,
            tcp: tcp.filter(|tcp| tcp.set_nonblocking(true).is_ok()),
            config: std::fs::read_to_string(at("ws/.git/config"))?,
            // Socket names are short on every system; the scratch folder's may not be.
            _socket: bind_in(&at("ws/run"))?,
            _leak: leak,
            _lock: lock,
            root,
        })
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.root.0.join(name)
    }

    pub(super) fn ws(&self, name: &str) -> PathBuf {
        self.at("ws").join(name)
    }

    /// A name in the private tmp, as it is inside.
    pub(super) fn tmp(&self, name: &str) -> PathBuf {
        let plan = self.plan(Mode::Default, Vec::new());
        let tmp = plan.tmpdir_inside().unwrap_or(plan.tmp);
        tmp.join(format!("hands-canary-{}-{name}", std::process::id()))
    }

    /// A name in the root of the machine that nobody else has.
    pub(super) fn in_root(&self) -> PathBuf {
        format!("/hands-canary-{}", std::process::id()).into()
    }

    pub(super) fn has_git(&self) -> bool {
        self.has_git
    }

    pub(super) fn has_broker(&self) -> bool {
        self.guarded && cfg!(target_os = "linux")
    }

    pub(super) fn has_namespaces(&self) -> bool {
        cfg!(target_os = "linux") && self.walls == Walls::Whole
    }

    /// A port on which this process listens.
    pub(super) fn port(&self) -> Option<u16> {
        let address = self.tcp.as_ref()?.local_addr();
        address.ok().map(|address| address.port())
    }

    pub(super) fn why_not_tried(&self, rule: Rule) -> String {
        match rule {
            Rule::VersionControl | Rule::BuildFolders => {
                format!("not tried: git was not found, or made no repository (looked for {GIT})")
            }
            Rule::Network => "not tried: no port of 127.0.0.1 could be listened on".into(),
            _ => "not tried on this system".into(),
        }
    }

    fn guard(&self) -> Option<Guard> {
        self.guarded.then(|| Guard {
            recovery: self.at("recovery"),
            turn_id: "canary".into(),
            session_id: "canary".into(),
            file_bytes: limits::CANARY_BYTES,
            quota_bytes: limits::CANARY_BYTES,
            min_age_s: limits::CANARY_KEEPS.as_secs(),
            ledger: None,
            build_folders: vec!["target".into(), "dist".into()],
        })
    }

    fn plan(&self, mode: Mode, argv: Vec<String>) -> Plan {
        // As the server does: where git's own files cannot be replaced, none is written.
        let sealed = match self.has_broker() && mode == Mode::Default {
            true => vec![self.ws(".git/hooks"), self.ws(".git/config")],
            false => vec![self.ws(".git")],
        };
        Plan {
            argv,
            cwd: self.at("ws"),
            env: git_environment().to_vec(),
            workspaces: vec![self.at("ws")],
            extra_write: vec![],
            closed: vec![self.ws("closed")],
            shallow: vec![],
            tmp: self.at("tmp"),
            masks: ["ws/secret", "ws/run", "home", "recovery"]
                .map(|name| self.at(name))
                .to_vec(),
            sealed,
            mode,
            walls: self.walls,
            network: match mode {
                Mode::ReadOnly => Network::Off,
                Mode::Strict if self.has_namespaces() => Network::Loopback { namespace: None },
                Mode::Strict if cfg!(target_os = "linux") => Network::Off,
                Mode::Default | Mode::Strict => Network::On,
            },
            guard: self.guard(),
            resources: crate::plan::Resources::default(),
        }
    }

    /// The probe in one mode, with these acts.
    pub(super) fn request(&self, mode: Mode, program: &Path, acts: String) -> Request {
        let program = program.to_string_lossy().into_owned();
        let left = limits::CANARY_TIMEOUT.saturating_sub(self.begun.elapsed());
        Request {
            plan: self.plan(mode, vec![program, "probe".into(), acts]),
            stdin: None,
            timeout_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
            grace_ms: 100,
            head_bytes: limits::DEFAULT_HEAD_BYTES,
            tail_bytes: limits::DEFAULT_TAIL_BYTES,
            spill: None,
            spill_max_bytes: 0,
            progress: false,
        }
    }

    /// What the disk says against a rule, whatever the probe said.
    pub(super) fn wrong_on_disk(&self, rule: Rule) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut expect = |is_so: bool, complaint: &str| {
            if !is_so {
                wrong.push(format!("on the disk: {complaint}"));
            }
        };
        let copies = || contents_below(&self.at("recovery"));
        match rule {
            Rule::NothingIsLost => {
                expect(self.is_as_before("old"), "the old file is not as it was");
                expect(self.is_as_before("other"), "the other one is not as it was");
                expect(self.ws("d").is_dir(), "the old folder is gone");
                for name in ["emptied", "replaced"] {
                    let kept = || old(name).is_some_and(|old| copies().contains(old));
                    let is_safe = self.is_as_before(name) || kept();
                    expect(is_safe, &format!("no copy of what was {name}"));
                }
            }
            Rule::WorkCleansUp => {
                expect(!self.ws("own").exists(), "what it made is still there");
                let renamed = content(&self.ws("renamed")) == old("named").map(String::from);
                expect(renamed, "the renamed file is not there");
            }
            Rule::VersionControl => {
                let kept = copies().contains(old("tracked").unwrap_or_default());
                expect(
                    kept || self.is_in_git(),
                    "the tracked file's content is lost",
                );
                expect(self.ws(".git/HEAD").is_file(), "the repository is gone");
            }
            Rule::BuildFolders => {
                let kept = self.is_as_before("dist/product");
                expect(kept, "what git does not ignore is gone");
            }
            Rule::Modes => {
                let made = self.ws("strict-made").exists();
                expect(made, "a file is gone in `strict`");
                let none = !self.ws("read-only-made").exists();
                expect(none, "a file was made in `read-only`");
                let same = self.is_as_before("untouched");
                expect(same, "a file was changed in `read-only`");
            }
            Rule::WritesAreListed => {
                let outside = self.at("outside/x").exists() || self.in_root().exists();
                expect(!outside, "there is a new file outside");
                let entries = std::fs::read_dir(self.ws("closed"));
                let closed = self.is_as_before("closed/old")
                    && entries.is_ok_and(|entries| entries.count() == 1);
                expect(closed, "the closed folder is not as it was");
                let hooks = std::fs::read_dir(self.ws(".git/hooks"));
                let git = hooks.is_ok_and(|mut hooks| hooks.next().is_none())
                    && content(&self.ws(".git/config")).as_ref() == Some(&self.config)
                    && !self.ws(".git/config.worktree").exists();
                expect(git, "git's hooks or configuration are not as they were");
            }
            Rule::SecretsAreHidden => {
                expect(!copies().contains(SECRET), "there is a copy of the secret");
                expect(!self.ws("hard").exists(), "the secret has a second name");
                let same = self.is_as_before("secret/key");
                expect(same, "the secret is not as it was");
            }
            Rule::NotByTheCheck => {
                expect(self.is_as_before("unseen"), "the old file is gone");
            }
            Rule::Network => {
                let reached = self.tcp.as_ref().is_some_and(|tcp| tcp.accept().is_ok());
                expect(!reached, "somebody connected");
            }
            Rule::NoWayRound => {
                let info = self.ws("new").metadata();
                let plain = info.map_or(true, |info| info.permissions().mode() & 0o6000 == 0);
                expect(plain, "there is a set-user-ID file");
            }
            Rule::HandsOutOfReach => {}
        }
        wrong
    }

    fn is_as_before(&self, name: &str) -> bool {
        content(&self.ws(name)).as_deref() == old(name)
    }

    /// Whether the object store holds the tracked file.
    fn is_in_git(&self) -> bool {
        let output = git(&self.at("ws"), &["cat-file", "blob", "HEAD:tracked"]);
        output.is_some_and(|output| Some(output.as_str()) == old("tracked"))
    }
}

/// What an old file held at first.
fn old(name: &str) -> Option<&'static str> {
    let found = OLD.iter().find(|(known, _)| *known == name);
    found.map(|(_, content)| *content)
}

fn write(path: &Path, content: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, content)
}

fn content(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// All short texts in the folders of a folder.
fn contents_below(folder: &Path) -> BTreeSet<String> {
    let list = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = list(folder).flat_map(|day| list(&day.path()));
    files.filter_map(|file| content(&file.path())).collect()
}

/// An environment in which git takes no settings but a repository's own.
fn git_environment() -> [(String, String); 8] {
    [
        ("PATH", "/usr/bin:/bin"),
        ("LC_ALL", "C"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_AUTHOR_NAME", "canary"),
        ("GIT_AUTHOR_EMAIL", "canary@localhost"),
        ("GIT_COMMITTER_NAME", "canary"),
        ("GIT_COMMITTER_EMAIL", "canary@localhost"),
    ]
    .map(|(name, value)| (name.into(), value.into()))
}

/// What git says in our own folder; nothing when it fails.
fn git(folder: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new(GIT)
        .args(args)
        .current_dir(folder)
        .env_clear()
        .envs(git_environment())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    output.status.success().then_some(said)
}

/// Makes the workspace a repository in which one file and the rules of what is ignored are
/// committed.
fn make_repository(folder: &Path) -> Option<()> {
    git(folder, &["init", "-q", "--template=", "."])?;
    git(folder, &["add", "tracked", ".gitignore"])?;
    git(folder, &["commit", "-q", "-m", "first"]).map(drop)
}

/// Binds `folder/s` by a short relative name: a socket's name holds about 100 bytes.
fn bind_in(folder: &Path) -> std::io::Result<UnixListener> {
    let here = rustix::fs::open(
        folder,
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    let short = PathBuf::from(format!(
        "/proc/self/fd/{}/s",
        std::os::fd::AsRawFd::as_raw_fd(&here)
    ));
    if short.parent().is_some_and(Path::exists) {
        return UnixListener::bind(short);
    }
    UnixListener::bind(folder.join("s"))
}
