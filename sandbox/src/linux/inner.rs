//! Inside bubblewrap: restrict this process, start the command, wait as process 1.

use super::bound::HostView;
use super::reduced::{self, Alone};
use super::{netns, ruleset, seccomp, tree};
use crate::limits;
use crate::path_bytes;
use crate::plan::{Mode, OWN_TMP, Plan, Resources, SHM};
use crate::report::Ending;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// What the inner helper needs of a plan; one JSON line on the socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InnerPlan {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The command's whole environment. It is set here and not before: a planner may put
    /// `LD_PRELOAD` in it, and bubblewrap must not be started with that.
    pub env: Vec<(String, String)>,
    /// Folders, as they appear inside, in which nothing can be removed.
    #[serde(with = "path_bytes::many")]
    pub kept: Vec<PathBuf>,
    /// Folders, as they appear inside, in which the broker alone writes. With any, its listener
    /// is sent over the socket before the command starts.
    #[serde(with = "path_bytes::many")]
    pub brokered: Vec<PathBuf>,
    /// Folders, as they appear inside, in which everything can be done.
    #[serde(with = "path_bytes::many")]
    pub free: Vec<PathBuf>,
    /// Whether the runner has a proxy for the command, whose socket is made inside and sent to it,
    /// before the broker's listener.
    pub proxied: bool,
    /// What the mounts in the plan's folders must show.
    pub host: HostView,
    /// How much of the machine the command may use.
    pub resources: Resources,
    /// Where there is no bubblewrap around: what it would have seen to.
    #[serde(default)]
    pub alone: Option<Alone>,
}

/// Which processes are the command's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// All in this pid namespace.
    Namespace,
    /// All below this process.
    Tree,
}

impl Reach {
    /// SIGTERM to all of them.
    fn terminate_all(self) {
        match self {
            // SAFETY: plain numbers. From process 1 of a pid namespace, -1 means everything in it
            // but process 1 itself.
            Self::Namespace => drop(unsafe { libc::kill(-1, libc::SIGTERM) }),
            Self::Tree => {
                let own = std::process::id();
                for (pid, _) in tree::living(own) {
                    // One that is gone needs no signal.
                    let _ = tree::signal(pid, own, Signal::TERM);
                }
            }
        }
    }

    /// Names of the living ones.
    fn names(self) -> Vec<String> {
        let mut names = match self {
            Self::Namespace => others(),
            Self::Tree => tree::living(std::process::id())
                .into_iter()
                .map(|(_, name)| name)
                .collect(),
        };
        names.truncate(limits::LEFT_BEHIND_NAMES);
        names
    }

    /// The end of all when nobody asks for this process any longer.
    fn abandon(self) -> ! {
        if self == Self::Tree {
            // Whose parent has ended is our child: when there are no children, nobody is left.
            tree::end_all(std::process::id(), None, || {
                use rustix::io::Errno;
                loop {
                    match rustix::process::wait(WaitOptions::NOHANG) {
                        Ok(Some(_)) | Err(Errno::INTR) => {}
                        Ok(None) => return false,
                        Err(_) => return true,
                    }
                }
            });
        }
        std::process::exit(1)
    }
}

/// The byte that travels with the broker's listener.
pub(super) const LISTENER: u8 = b'L';
/// The byte that travels with the proxy's socket.
const PROXY: u8 = b'P';
/// Variables that name a proxy for what is not said to be reached without one.
const PROXIED: &[&str] = &[
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
];

/// How the command ended, the helper's one answer; a JSON line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InnerReport {
    /// It ran.
    Ended {
        /// How it ended.
        ending: Ending,
        /// Names of processes that were still there.
        left_behind: Vec<String>,
    },
    /// It was not started.
    Failed(String),
}

impl InnerPlan {
    /// The part of `plan` that Landlock enforces, and the machine's mounts as they are now.
    ///
    /// Landlock adds rights up on the way from a file to the root and cannot take any away below
    /// a folder that has them. So when a workspace lies below `/tmp`, removal is not granted on
    /// `/tmp` as a whole, but only on a folder of the session's own in it (`TMPDIR` points there)
    /// and on the folders that stand beside the workspace.
    ///
    /// # Errors
    /// When the machine's mounts cannot be read.
    pub fn for_plan(plan: &Plan) -> std::io::Result<Self> {
        let roots = || plan.workspaces.iter().chain(&plan.extra_write);
        let mut kept: Vec<PathBuf> = match plan.mode {
            Mode::ReadOnly => Vec::new(),
            Mode::Default | Mode::Strict => roots().cloned().collect(),
        };
        let mut free = Vec::new();
        if plan.workspace_in_tmp() {
            kept.push("/tmp".into());
            free.push(Path::new("/tmp").join(OWN_TMP));
            for entry in std::fs::read_dir(&plan.tmp).into_iter().flatten().flatten() {
                let inside = Path::new("/tmp").join(entry.file_name());
                let holds_root = plan.places().any(|root| root.starts_with(&inside));
                let is_folder = entry.file_type().is_ok_and(|t| t.is_dir());
                if is_folder && !holds_root {
                    free.push(inside);
                }
            }
        } else {
            free.push("/tmp".into());
        }
        match plan.workspace_in_shm() {
            true => kept.push(SHM.into()),
            false => free.push(SHM.into()),
        }
        let (kept, brokered) = match plan.active_guard() {
            Some(_) => (Vec::new(), kept),
            None => (kept, Vec::new()),
        };
        Ok(Self {
            argv: plan.argv.clone(),
            env: plan.env.clone(),
            kept,
            brokered,
            free,
            proxied: plan.network.rules().is_some(),
            host: HostView::of(plan)?,
            resources: plan.resources,
            alone: None,
        })
    }

    /// The same where there is no bubblewrap around.
    pub(super) fn alone(plan: &Plan, network: bool) -> Self {
        Self {
            argv: plan.argv.clone(),
            env: plan.env.clone(),
            kept: Vec::new(),
            brokered: Vec::new(),
            free: Vec::new(),
            proxied: false,
            host: HostView::default(),
            resources: plan.resources,
            alone: Some(Alone {
                cwd: plan.cwd.clone(),
                network,
            }),
        }
    }
}

/// The helper's whole life; returns its exit status, which nobody reads.
pub fn main(socket: RawFd) -> i32 {
    // SAFETY: the number was handed to us by our own runner on the command line; nothing else in
    // this fresh process owns it.
    let socket = UnixStream::from(unsafe { OwnedFd::from_raw_fd(socket) });
    let report = match confine_and_run(&socket) {
        Ok((ending, left_behind)) => InnerReport::Ended {
            ending,
            left_behind,
        },
        Err(reason) => InnerReport::Failed(reason),
    };
    let mut line = serde_json::to_vec(&report).unwrap_or_default();
    line.push(b'\n');
    i32::from((&socket).write_all(&line).is_err())
}

fn confine_and_run(socket: &UnixStream) -> Result<(Ending, Vec<String>), String> {
    let mut reader = BufReader::new(socket.try_clone().map_err(|e| format!("socket: {e}"))?);
    let mut line = String::new();
    reader
        .read_line(&mut line)
        .map_err(|e| format!("reading the plan: {e}"))?;
    let mut plan: InnerPlan = serde_json::from_str(&line).map_err(|e| format!("the plan: {e}"))?;
    // Nobody inside may read or write this process's memory, whoever they run as.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(|e| format!("prctl(PR_SET_DUMPABLE): {e}"))?;
    if let Some(alone) = &plan.alone {
        return reduced::run(&plan, alone, socket, &mut reader);
    }
    close_inherited()?;
    let mounts = std::fs::read("/proc/self/mountinfo");
    let mounts = mounts.map_err(|e| format!("reading the mounts: {e}"))?;
    plan.host.check(&mounts)?;
    limit(&plan.resources, true);
    if plan.proxied {
        offer_proxy(socket, &mut plan.env)?;
    }
    ruleset::restrict(&plan)?;
    if let Some(listener) = seccomp::restrict(!plan.brokered.is_empty())? {
        // Our own copy is closed at once: when the runner is gone, nobody must wait for an answer.
        netns::send(socket.as_fd(), LISTENER, listener.as_fd())
            .map_err(|e| format!("sending the listener: {e}"))?;
    }
    let ended = ChildSignals::block().map_err(|e| format!("signalfd: {e}"))?;
    let main_child = start(&plan)?;
    let ending = wait_for(main_child, &ended, &mut reader, Reach::Namespace);
    Ok((ending, end_left_behind(Reach::Namespace)))
}

/// Listens where the command's programs look for a proxy, gives the runner the listening end, and
/// the command the variables by which programs find it.
fn offer_proxy(socket: &UnixStream, env: &mut Vec<(String, String)>) -> Result<(), String> {
    let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0));
    let listener = listener.map_err(|e| format!("listening for the proxy: {e}"))?;
    let address = listener.local_addr();
    let address = address.map_err(|e| format!("listening for the proxy: {e}"))?;
    env.retain(|(name, _)| !name.to_ascii_lowercase().ends_with("_proxy"));
    let proxy = format!("http://{address}");
    for name in PROXIED {
        env.push(((*name).into(), proxy.clone()));
    }
    for name in ["no_proxy", "NO_PROXY"] {
        env.push((name.into(), "localhost,127.0.0.1,::1".into()));
    }
    netns::send(socket.as_fd(), PROXY, listener.as_fd())
        .map_err(|e| format!("sending the proxy's socket: {e}"))
}

/// Marks every descriptor but the three standard ones to be closed at the next exec.
pub(super) fn close_inherited() -> Result<(), String> {
    const CLOSE_RANGE_CLOEXEC: u32 = 4;
    // SAFETY: the call changes descriptor flags only; no memory is passed.
    let done = unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, CLOSE_RANGE_CLOEXEC) };
    if done == 0 {
        return Ok(());
    }
    Err(format!(
        "close_range: {} (Linux 5.11 or newer is needed)",
        std::io::Error::last_os_error()
    ))
}

/// What the system itself sees to. A limit that cannot be lowered is no reason to refuse the
/// command. Where the command's user is not `apart`, the system would count the person's processes.
pub(super) fn limit(most: &Resources, apart: bool) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let lower = |resource, value: u64| {
        let now = getrlimit(resource);
        let within = |limit: Option<u64>| Some(limit.map_or(value, |limit| limit.min(value)));
        let wanted = Rlimit {
            current: within(now.current),
            maximum: within(now.maximum),
        };
        let _ = setrlimit(resource, wanted);
    };
    lower(Resource::Core, 0);
    if apart {
        lower(Resource::Nproc, most.processes);
    }
    lower(Resource::Nofile, most.open_files);
    lower(Resource::Fsize, most.file_bytes);
    // When the machine's memory runs out, the command goes before the person's programs.
    let _ = std::fs::write("/proc/self/oom_score_adj", limits::OOM_SCORE.to_string());
}

fn start(plan: &InnerPlan) -> Result<Pid, String> {
    let (program, args) = plan.argv.split_first().ok_or("the command is empty")?;
    let child = Command::new(program)
        .args(args)
        .env_clear()
        .envs(plan.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::inherit())
        .process_group(0)
        .spawn()
        .map_err(|e| format!("starting {program}: {e}"))?;
    // The child is waited for below, as process 1 waits for everybody.
    i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| "the child has no process id".to_string())
}

/// The news that a process has ended, as a descriptor.
pub(super) struct ChildSignals(OwnedFd);

impl ChildSignals {
    /// Makes of the signal a descriptor. (A program that is started gets an empty mask.)
    pub(super) fn block() -> std::io::Result<Self> {
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the call makes the set that it is given an empty one.
        unsafe { libc::sigemptyset(set.as_mut_ptr()) };
        // SAFETY: `sigemptyset` has written all of it.
        let mut set = unsafe { set.assume_init() };
        // SAFETY: the set is a whole one.
        unsafe { libc::sigaddset(&mut set, libc::SIGCHLD) };
        // SAFETY: the set is only read; no old one is asked for.
        let blocked = unsafe { libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
        // SAFETY: the set is only read; a new descriptor is asked for.
        let fd = unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if blocked != 0 || fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: the kernel made the descriptor for us just now; nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Forgets what has been told so far.
    fn clear(&self) {
        let mut told = [0u8; 1024];
        while rustix::io::read(&self.0, &mut told).is_ok_and(|got| got > 0) {}
    }
}

/// Reaps whatever ends until the command itself does. Meanwhile carries out the runner's orders:
/// each line means SIGTERM to everything inside. SIGKILL needs no order: the runner ends this
/// process, and the kernel all others with it. A runner that is gone is such an order too.
pub(super) fn wait_for(
    main_child: Pid,
    ended: &ChildSignals,
    orders: &mut BufReader<UnixStream>,
    reach: Reach,
) -> Ending {
    loop {
        ended.clear();
        if let Some(ending) = reap(main_child) {
            return ending;
        }
        // What was read along with the plan is not seen by polling.
        if orders.buffer().is_empty() {
            let socket = orders.get_ref();
            let mut fds = [
                PollFd::new(&ended.0, PollFlags::IN),
                PollFd::new(socket, PollFlags::IN),
            ];
            let polled = poll(&mut fds, None);
            if polled.is_err() || fds[1].revents().is_empty() {
                continue;
            }
        }
        let mut line = String::new();
        match orders.read_line(&mut line) {
            Ok(1..) => reach.terminate_all(),
            _ => reach.abandon(),
        }
    }
}

/// Reaps all that has ended; how the command ended, if it is among them.
fn reap(main_child: Pid) -> Option<Ending> {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == main_child => return Some(ending(status)),
            Ok(None) => return None,
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            // Nobody left to wait for, and the command's end was not seen: say the worst.
            Err(_) => return Some(Ending::Signal(Signal::KILL.as_raw())),
        }
    }
}

fn ending(status: WaitStatus) -> Ending {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Ending::Exit(code),
        (None, Some(signal)) => Ending::Signal(signal),
        (None, None) => Ending::Signal(Signal::KILL.as_raw()),
    }
}

/// Ends what the command left running, politely at first; the end of this process ends the rest, or
/// the runner does.
pub(super) fn end_left_behind(reach: Reach) -> Vec<String> {
    let names = reach.names();
    if names.is_empty() {
        return names;
    }
    reach.terminate_all();
    let deadline = Instant::now() + limits::LEFT_BEHIND_GRACE;
    while Instant::now() < deadline && !reach.names().is_empty() {
        while matches!(rustix::process::wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    names
}

/// Names of the living processes in this namespace but our own.
fn others() -> Vec<String> {
    let own = std::process::id();
    let mut names = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|n| n.parse::<u32>().ok())
        else {
            continue;
        };
        if pid == own {
            continue;
        }
        names.extend(tree::living_name(pid));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Network;

    fn plan(workspace: &str, tmp: &Path) -> Plan {
        Plan {
            argv: vec!["true".into()],
            cwd: workspace.into(),
            env: vec![],
            workspaces: vec![workspace.into()],
            extra_write: vec![],
            closed: vec![],
            shallow: vec![],
            tmp: tmp.into(),
            masks: vec![],
            sealed: vec![],
            mode: Mode::Default,
            walls: crate::plan::Walls::Whole,
            network: Network::On,
            guard: None,
            resources: Resources::default(),
        }
    }

    #[test]
    fn tmp_is_free_when_no_workspace_is_in_it() {
        let tmp = tempfile::tempdir().unwrap();
        let inner = InnerPlan::for_plan(&plan("/srv/w", tmp.path())).unwrap();
        assert_eq!(inner.kept, [Path::new("/srv/w")]);
        assert_eq!(inner.free, ["/tmp", "/dev/shm"].map(PathBuf::from));
    }

    #[test]
    fn a_workspace_below_tmp_takes_removal_from_tmp() {
        let tmp = tempfile::tempdir().unwrap();
        for name in ["a", "mine"] {
            std::fs::create_dir(tmp.path().join(name)).unwrap();
        }
        std::fs::write(tmp.path().join("file"), "").unwrap();
        let inner = InnerPlan::for_plan(&plan("/tmp/a/ws", tmp.path())).unwrap();
        assert_eq!(inner.kept, ["/tmp/a/ws", "/tmp"].map(PathBuf::from));
        let mut free = inner.free;
        free.sort();
        assert_eq!(
            free,
            ["/dev/shm", "/tmp/.own", "/tmp/mine"].map(PathBuf::from)
        );
    }

    #[test]
    fn a_workspace_in_shared_memory_takes_removal_from_it() {
        let tmp = tempfile::tempdir().unwrap();
        let inner = InnerPlan::for_plan(&plan("/dev/shm/a/ws", tmp.path())).unwrap();
        assert_eq!(inner.kept, ["/dev/shm/a/ws", "/dev/shm"].map(PathBuf::from));
        assert_eq!(inner.free, [Path::new("/tmp")]);
    }

    #[test]
    fn read_only_keeps_nothing() {
        let tmp = tempfile::tempdir().unwrap();
        let mut plan = plan("/srv/w", tmp.path());
        plan.mode = Mode::ReadOnly;
        assert!(InnerPlan::for_plan(&plan).unwrap().kept.is_empty());
    }
}
