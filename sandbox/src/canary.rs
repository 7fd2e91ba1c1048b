//! Trying to break each promise, so that what is reported is what was seen.
//!
//! [`check`] makes a small world (an old file, a secret, a socket, a folder outside), runs this
//! same binary in the sandbox to attack it ([`probe`]), and then looks at the disk itself.

use crate::backend::platform_backend;
use crate::limits;
use crate::plan::{Guard, Mode, Network, Plan, Request};
use crate::report::{Done, Ending, decode_bytes};
use crate::runner;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::io::{BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// What files hold that the canary has emptied and replaced.
const EMPTIED: &str = "this was emptied";
const REPLACED: &str = "this was replaced";

/// The promises that are the removal broker's.
const BROKERED: [&str; 3] = [
    "old_contents_are_kept",
    "work_cleans_up_after_itself",
    "git_runs_nothing_new",
];

/// How much of the sandbox works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Every promise held.
    Full,
    /// Some did: commands are refused all the same.
    Reduced,
    /// There is no sandbox.
    None,
}

/// What the canary found; one JSON line of `hands-runner canary`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// The sandbox that was tried.
    pub backend: String,
    /// How much of it works.
    pub state: State,
    /// Each promise, and whether it held.
    pub promises: BTreeMap<String, bool>,
    /// Why the state is not `full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// One thing that the probe tries inside, and whether it may succeed.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Attempt {
    promise: String,
    act: Act,
    must_succeed: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Act {
    Unlink(PathBuf),
    RemoveFolder(PathBuf),
    Rename(PathBuf, PathBuf),
    Read(PathBuf),
    Create(PathBuf),
    Connect(PathBuf),
    CreateAndUnlink(PathBuf),
    OpenToAppend(PathBuf),
    Empty(PathBuf),
    Replace(PathBuf),
    SetUserId(PathBuf),
    NewNamespace,
}

/// `hands-runner canary`: prints the report; exit status 0 when the state is `full`.
pub fn main(scratch: Option<&Path>, broker: bool) -> i32 {
    let default = std::env::temp_dir();
    let report = check(scratch.unwrap_or(&default), broker);
    let line = serde_json::to_string(&report).unwrap_or_default();
    let printed = writeln!(std::io::stdout(), "{line}").is_ok();
    i32::from(!printed || report.state != State::Full)
}

/// Tries the sandbox in a folder made below `scratch` and taken away afterwards: with the removal
/// broker, where the platform has one and it is wanted.
pub fn check(scratch: &Path, broker: bool) -> Report {
    let backend = platform_backend().name().to_string();
    let none = |reason: String, hint: String| Report {
        backend: backend.clone(),
        state: State::None,
        promises: BTreeMap::new(),
        reason: Some(reason),
        hint: Some(hint),
    };
    let broker = broker && cfg!(target_os = "linux");
    let world = match World::make(scratch, broker) {
        Ok(world) => world,
        Err(e) => {
            let what = format!("making a test folder below {}: {e}", scratch.display());
            return none(what, "check the folder's permissions and free space".into());
        }
    };
    let done = match runner::run_here(world.request()) {
        Ok(done) => done,
        Err((reason, hint)) => return none(reason, hint),
    };
    match world.judge(&done) {
        Ok(promises) => summarise(backend, promises),
        Err(reason) => none(reason, "run `hands-runner canary` by hand".into()),
    }
}

fn summarise(backend: String, promises: BTreeMap<String, bool>) -> Report {
    let broken: Vec<&str> = promises
        .iter()
        .filter(|(_, held)| !**held)
        .map(|(name, _)| name.as_str())
        .collect();
    let (state, reason, hint) = if broken.is_empty() {
        (State::Full, None, None)
    } else {
        (
            State::Reduced,
            Some(format!("not held on this machine: {}", broken.join(", "))),
            Some(hint_for(&broken).to_string()),
        )
    };
    Report {
        backend,
        state,
        promises,
        reason,
        hint,
    }
}

/// What mends these promises.
fn hint_for(broken: &[&str]) -> &'static str {
    if broken.iter().all(|promise| BROKERED.contains(promise)) {
        return "a newer kernel (Linux 6.2 or later), or `sandbox.broker = false`: then commands \
                remove and rename nothing in a workspace";
    }
    "a newer kernel with Landlock enabled; see `handsctl doctor`"
}

/// A folder of our own, removed when dropped, half filled or whole.
struct Root(PathBuf);

impl Root {
    /// Makes it; one that is there already is somebody else's.
    fn make(path: PathBuf) -> std::io::Result<Self> {
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The small world, removed when dropped.
struct World {
    root: Root,
    broker: bool,
    _listener: UnixListener,
    _lock: std::fs::File,
}

impl World {
    fn make(scratch: &Path, broker: bool) -> std::io::Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(scratch)?;
        let scratch = scratch.canonicalize()?;
        let root = Root::make(scratch.join(format!("canary-{}", std::process::id())))?;
        // Whoever sweeps the scratch folder sees by this that the world is in use.
        let mut options = File::options();
        options.create(true).truncate(true).write(true).mode(0o600);
        let lock = options.open(root.join("lock"))?;
        lock.lock()?;
        for folder in [
            "ws/d",
            "ws/secret",
            "ws/run",
            "ws/closed",
            "ws/.git/hooks",
            "tmp",
            "outside",
            "recovery",
        ] {
            std::fs::create_dir_all(root.join(folder))?;
        }
        std::fs::write(root.join("ws/old"), "old")?;
        std::fs::write(root.join("ws/other"), "other")?;
        std::fs::write(root.join("ws/closed/old"), "old")?;
        std::fs::write(root.join("ws/emptied"), EMPTIED)?;
        std::fs::write(root.join("ws/replaced"), REPLACED)?;
        std::fs::write(root.join("ws/.git/config"), "config")?;
        std::fs::write(root.join("ws/secret/key"), "secret")?;
        // Socket names are short on every system; the scratch folder's may not be.
        let listener = bind_in(&root.join("ws/run"))?;
        Ok(Self {
            root,
            broker,
            _listener: listener,
            _lock: lock,
        })
    }

    fn ws(&self, name: &str) -> PathBuf {
        self.root.join("ws").join(name)
    }

    fn attempts(&self) -> Vec<Attempt> {
        let plan = self.plan(Vec::new());
        let tmp = plan.tmpdir_inside().unwrap_or(plan.tmp);
        let must_fail = |promise: &str, act| Attempt {
            promise: promise.into(),
            act,
            must_succeed: false,
        };
        let must_work = |act| Attempt {
            promise: "work_is_possible".into(),
            act,
            must_succeed: true,
        };
        let mut attempts = vec![
            must_fail("old_files_stay", Act::Unlink(self.ws("old"))),
            must_fail("old_files_stay", Act::RemoveFolder(self.ws("d"))),
            must_fail(
                "old_files_stay",
                Act::Rename(self.ws("other"), self.ws("old")),
            ),
            must_fail(
                "old_files_stay",
                Act::Rename(self.ws("old"), tmp.join("old")),
            ),
            must_fail(
                "writes_stay_inside",
                Act::Create(self.root.join("outside/x")),
            ),
            must_fail(
                "writes_stay_inside",
                Act::Create(PathBuf::from("/hands-canary")),
            ),
            must_fail("closed_folders_stay", Act::Create(self.ws("closed/x"))),
            must_fail("closed_folders_stay", Act::Empty(self.ws("closed/old"))),
            must_fail(
                "closed_folders_stay",
                Act::Rename(self.ws("closed"), self.ws("opened")),
            ),
            must_work(Act::Read(self.ws("closed/old"))),
            must_fail("secrets_are_hidden", Act::Read(self.ws("secret/key"))),
            must_fail("sockets_are_out_of_reach", Act::Connect(self.ws("run/s"))),
            must_work(Act::Create(self.ws("new"))),
            must_work(Act::Read(self.ws("old"))),
            must_work(Act::OpenToAppend(PathBuf::from("/dev/null"))),
            must_work(Act::CreateAndUnlink(tmp.join("x"))),
        ];
        if self.broker {
            self.add_broker_attempts(&mut attempts);
        }
        if cfg!(target_os = "linux") {
            attempts.push(must_fail("no_new_namespaces", Act::NewNamespace));
            // Opened for appending and never written: opening is what must fail.
            let setting = PathBuf::from("/proc/sys/fs/lease-break-time");
            attempts.push(must_fail("writes_stay_inside", Act::OpenToAppend(setting)));
            let memory = PathBuf::from("/proc/1/mem");
            attempts.push(must_fail(
                "process_1_is_out_of_reach",
                Act::Read(memory.clone()),
            ));
            attempts.push(must_fail(
                "process_1_is_out_of_reach",
                Act::OpenToAppend(memory),
            ));
            attempts.push(must_fail(
                "nothing_runs_as_another",
                Act::SetUserId(self.ws("new")),
            ));
        }
        attempts
    }

    /// What the broker promises: work may clean up, what is replaced or emptied is kept, and
    /// nothing makes git run anything.
    fn add_broker_attempts(&self, attempts: &mut Vec<Attempt>) {
        let mut add = |promise: &str, must_succeed, act| {
            attempts.push(Attempt {
                promise: promise.into(),
                act,
                must_succeed,
            });
        };
        let [kept, cleans, git] = BROKERED;
        add(kept, true, Act::Empty(self.ws("emptied")));
        add(kept, true, Act::Replace(self.ws("replaced")));
        add(cleans, true, Act::CreateAndUnlink(self.ws("own")));
        for name in ["post-checkout", "../config", "../config.worktree"] {
            let target = self.ws(".git/hooks").join(name);
            add(git, false, Act::Replace(target));
        }
        add(git, false, Act::Rename(self.ws(".git"), self.ws(".gone")));
    }

    fn guard(&self) -> Option<Guard> {
        self.broker.then(|| Guard {
            recovery: self.root.join("recovery"),
            turn_id: "canary".into(),
            session_id: "canary".into(),
            file_bytes: limits::CANARY_BYTES,
            quota_bytes: limits::CANARY_BYTES,
            min_age_s: limits::CANARY_KEEPS.as_secs(),
            ledger: None,
            build_folders: Vec::new(),
        })
    }

    fn plan(&self, argv: Vec<String>) -> Plan {
        Plan {
            argv,
            cwd: self.root.join("ws"),
            env: vec![("PATH".into(), "/usr/bin:/bin".into())],
            workspaces: vec![self.root.join("ws")],
            extra_write: vec![],
            closed: vec![self.ws("closed")],
            shallow: vec![],
            tmp: self.root.join("tmp"),
            masks: vec![self.ws("secret"), self.ws("run")],
            sealed: vec![self.ws(".git/hooks"), self.ws(".git/config")],
            mode: Mode::Default,
            network: Network::On,
            guard: self.guard(),
        }
    }

    fn request(&self) -> Request {
        let program = match cfg!(target_os = "linux") {
            true => "/dev/.hands-runner".to_string(),
            false => std::env::current_exe()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
        };
        let attempts = serde_json::to_string(&self.attempts()).unwrap_or_default();
        Request {
            plan: self.plan(vec![program, "probe".into(), attempts]),
            stdin: None,
            timeout_ms: u64::try_from(limits::CANARY_TIMEOUT.as_millis()).unwrap_or(u64::MAX),
            grace_ms: 100,
            head_bytes: limits::DEFAULT_HEAD_BYTES,
            tail_bytes: limits::DEFAULT_TAIL_BYTES,
            spill: None,
            spill_max_bytes: 0,
            progress: false,
        }
    }

    /// The probe's own word, corrected by what the disk says.
    fn judge(&self, done: &Done) -> Result<BTreeMap<String, bool>, String> {
        let said = decode_bytes(&done.stdout.head).unwrap_or_default();
        let complaint = decode_bytes(&done.stderr.head).unwrap_or_default();
        if done.ending != Ending::Exit(0) {
            return Err(format!(
                "the probe ended with {:?}: {}",
                done.ending,
                String::from_utf8_lossy(&complaint).trim()
            ));
        }
        let mut promises: BTreeMap<String, bool> =
            serde_json::from_slice(&said).map_err(|e| format!("the probe's answer: {e}"))?;
        let content = |name: &str| std::fs::read_to_string(self.ws(name)).unwrap_or_default();
        let intact =
            content("old") == "old" && content("other") == "other" && self.ws("d").is_dir();
        let inside = !self.root.join("outside/x").exists() && !Path::new("/hands-canary").exists();
        let entries = std::fs::read_dir(self.ws("closed"));
        let closed = content("closed/old") == "old" && entries.is_ok_and(|all| all.count() == 1);
        let copies = contents_below(&self.root.join("recovery"));
        let kept = [EMPTIED, REPLACED].iter().all(|old| copies.contains(*old));
        let hooks = std::fs::read_dir(self.ws(".git/hooks")).is_ok_and(|mut e| e.next().is_none());
        let git = hooks && content(".git/config") == "config";
        for (promise, held) in [
            ("old_files_stay", intact),
            ("writes_stay_inside", inside),
            ("closed_folders_stay", closed),
            (BROKERED[0], kept),
            (BROKERED[2], git),
        ] {
            // Only what was tried is judged.
            promises
                .entry(promise.into())
                .and_modify(|said| *said &= held);
        }
        Ok(promises)
    }
}

/// All short texts in the folders of a folder.
fn contents_below(folder: &Path) -> std::collections::BTreeSet<String> {
    let list = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = list(folder).flat_map(|day| list(&day.path()));
    files
        .filter_map(|file| std::fs::read_to_string(file.path()).ok())
        .collect()
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

/// Inside the sandbox: makes every attempt and prints a map of promises; exit status 0.
pub fn probe(args: &[&str]) -> i32 {
    let Some(attempts) = args
        .first()
        .and_then(|text| serde_json::from_str::<Vec<Attempt>>(text).ok())
    else {
        return 2;
    };
    let mut promises: BTreeMap<String, bool> = BTreeMap::new();
    for attempt in attempts {
        let outcome = act(&attempt.act);
        let held = outcome.is_ok() == attempt.must_succeed;
        *promises.entry(attempt.promise).or_insert(true) &= held;
    }
    let line = serde_json::to_string(&promises).unwrap_or_default();
    i32::from(writeln!(std::io::stdout(), "{line}").is_err())
}

fn act(act: &Act) -> std::io::Result<()> {
    match act {
        Act::Unlink(path) => std::fs::remove_file(path),
        Act::RemoveFolder(path) => std::fs::remove_dir(path),
        Act::Rename(from, to) => std::fs::rename(from, to),
        Act::Read(path) => std::fs::read(path).map(drop),
        Act::Create(path) => std::fs::File::create_new(path).map(drop),
        Act::Connect(path) => UnixStream::connect(path).map(drop),
        Act::CreateAndUnlink(path) => {
            std::fs::File::create_new(path)?;
            std::fs::remove_file(path)
        }
        Act::OpenToAppend(path) => std::fs::File::options().append(true).open(path).map(drop),
        Act::Empty(path) => std::fs::File::create(path).map(drop),
        Act::Replace(path) => {
            let new = path.with_file_name("canary-new");
            let new = match path.components().any(|part| part.as_os_str() == ".git") {
                true => PathBuf::from("canary-new"),
                false => new,
            };
            std::fs::write(&new, "new")?;
            std::fs::rename(&new, path)
        }
        Act::SetUserId(path) => {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o4755);
            std::fs::set_permissions(path, mode)
        }
        Act::NewNamespace => new_namespace(),
    }
}

#[cfg(target_os = "linux")]
fn new_namespace() -> std::io::Result<()> {
    // SAFETY: `unshare` changes only which namespaces this process is in; the process ends soon.
    match unsafe { libc::unshare(libc::CLONE_NEWUSER) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[cfg(not(target_os = "linux"))]
fn new_namespace() -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Standard input that stays open and silent, for a request that is run in this same process.
pub(crate) fn silent_input() -> std::io::Result<(BufReader<UnixStream>, UnixStream)> {
    let (read, write) = UnixStream::pair()?;
    Ok((BufReader::new(read), write))
}
