//! From the policy to a confined child: what the sandbox is told, and whether it works here.

mod environment;
mod hidden;
mod network;
mod runner;
mod sockets;
mod zones;

pub use hidden::own_programs;
pub(crate) use network::in_words as network_in_words;
pub(crate) use runner::canary as try_sandbox;
pub use runner::{Finished, Order, RunError, run};

use crate::hub::Hub;
use crate::limits;
use crate::outcome::{Code, Outcome, system};
use hands_config::{Config, Mode};
use hands_sandbox::canary::Report;
use hands_sandbox::{Guard, Plan, Resources, Walls};
use hidden::{Hidden, Search, Unknown};
use network::SessionNet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;
use zones::Zones;

/// How this session's commands are confined.
pub struct Confinement {
    workspaces: Vec<Root>,
    extra_write: Vec<Root>,
    /// The same with those that lie in others: each has grants of its own.
    every_workspace: Vec<Root>,
    every_extra: Vec<Root>,
    search: Duration,
    extra_protected: Vec<PathBuf>,
    mode: Mode,
    network: SessionNet,
    pass: Vec<String>,
    user_home: PathBuf,
    hands_home: PathBuf,
    scratch: PathBuf,
    tmp: PathBuf,
    env_files: bool,
    /// What of the guard is the same for every command; absent: none is used.
    guard: Option<Guard>,
    resources: Resources,
    /// What was found on the disk last, and until when it counts.
    hidden: Mutex<Option<(Instant, Arc<Hidden>)>>,
    config: Arc<Config>,
    reduced_told: AtomicBool,
    canary: Arc<OnceCell<Report>>,
}

impl Confinement {
    /// Takes from the settings what concerns commands.
    pub fn new(hub: &Hub, session_id: &str, tmp: PathBuf) -> Self {
        let config = &hub.config;
        Self {
            workspaces: roots(&config.workspaces, &config.write.extra),
            extra_write: roots(&config.write.extra, &config.workspaces),
            every_workspace: config.workspaces.iter().map(|p| Root::of(p)).collect(),
            every_extra: config.write.extra.iter().map(|p| Root::of(p)).collect(),
            search: Duration::from_secs(config.protect.search_s),
            extra_protected: config.protect.paths.clone(),
            mode: config.sandbox.mode,
            network: SessionNet::new(config),
            pass: config.env.pass.clone(),
            user_home: hub.user_home.clone(),
            hands_home: hub.home.root().to_path_buf(),
            scratch: hub.home.scratch_dir(),
            tmp: tmp.clone(),
            env_files: config.protect.env_files,
            guard: config.sandbox.broker.then(|| Guard {
                recovery: hub.home.recovery_dir(),
                turn_id: String::new(),
                session_id: session_id.to_string(),
                file_bytes: config.limits.recovery_file_bytes,
                quota_bytes: config.limits.recovery_bytes,
                min_age_s: config.limits.recovery_min_age().as_secs(),
                // Beside the private tmp, in the home that no child sees.
                ledger: Some(tmp.with_file_name("made")),
                build_folders: config.sandbox.build_folders.clone(),
            }),
            resources: resources(config),
            hidden: Mutex::default(),
            config: Arc::clone(config),
            reduced_told: AtomicBool::new(false),
            canary: Arc::clone(&hub.canary),
        }
    }

    /// What the sandbox was seen to stop on this machine; tried once per process.
    pub async fn report(&self) -> &Report {
        self.canary
            .get_or_init(|| runner::canary(&self.scratch, &self.config))
            .await
    }

    /// Whether commands may run.
    ///
    /// # Errors
    /// Why not, and what mends it: without a sandbox nothing runs.
    pub async fn ready(&self) -> Result<(), (String, String)> {
        let report = self.report().await;
        if report.lets_run() {
            return Ok(());
        }
        let reason = report.reason.clone().unwrap_or_default();
        let hint = report.hint.clone().unwrap_or_default();
        Err((
            format!("no sandbox: {reason}; commands are refused without one"),
            hint,
        ))
    }

    /// What holds commands, as far as it was tried.
    fn walls(&self) -> Walls {
        self.canary.get().map(Report::walls).unwrap_or_default()
    }

    /// Whether commands find a private folder at `/tmp`, and not only at `$TMPDIR`.
    pub(crate) fn has_own_tmp(&self) -> bool {
        cfg!(target_os = "linux") && self.walls() == Walls::Whole
    }

    /// The guard of a turn's command. Where nothing is written there is none, unless what is read is
    /// its to judge as well.
    fn guard_of(&self, turn_id: &str) -> Option<Guard> {
        let writes = self.mode != Mode::ReadOnly;
        let guard = self.guard.clone();
        let guard = guard.filter(|_| writes || self.walls() == Walls::Reduced)?;
        Some(Guard {
            turn_id: turn_id.to_string(),
            ..guard
        })
    }

    /// What a planner should know of a sandbox that is not whole; told once.
    pub(crate) fn news_of_reduced(&self) -> Option<String> {
        let report = self
            .canary
            .get()
            .filter(|report| report.walls() == Walls::Reduced)?;
        if self.reduced_told.swap(true, Ordering::Relaxed) {
            return None;
        }
        let part = |text: &Option<String>| text.clone().unwrap_or_default();
        Some(format!(
            "the sandbox here is reduced ({}): commands have no /tmp of their own (they write in $TMPDIR), no \
             terminals and no UNIX sockets. Your user can mend it: {}",
            part(&report.reason),
            part(&report.hint)
        ))
    }

    /// What is hidden and sealed now, looked for anew when the last look is old.
    fn hidden(&self, roots: &[PathBuf]) -> Result<Arc<Hidden>, Unknown> {
        let mut last = self.hidden.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = last.as_ref().filter(|(until, _)| Instant::now() < *until);
        if let Some((_, hidden)) = fresh {
            return Ok(Arc::clone(hidden));
        }
        let began = Instant::now();
        let hidden = Arc::new(
            Search {
                user_home: &self.user_home,
                hands_home: &self.hands_home,
                extra_protected: &self.extra_protected,
                env_files: self.env_files,
                whole_repositories: self.seals_whole(),
                roots,
                patience: self.search,
            }
            .look()?,
        );
        let (least, most) = limits::HIDDEN_FOR;
        let counts_for = (began.elapsed() * limits::HIDDEN_SHARE).clamp(least, most);
        *last = Some((Instant::now() + counts_for, Arc::clone(&hidden)));
        Ok(hidden)
    }

    /// The folders that commands may write now, by their real names.
    pub(crate) fn roots(&self) -> Vec<PathBuf> {
        [there(&self.workspaces), there(&self.extra_write)].concat()
    }

    /// Where commands may remove what they made: the session's ledger of that.
    pub(crate) fn ledger(&self) -> Option<&Path> {
        let guard = self.guard.as_ref();
        guard
            .filter(|_| cfg!(target_os = "linux") && self.mode == Mode::Default)
            .and_then(|guard| guard.ledger.as_deref())
    }

    /// Whether commands can rename nothing, so that git must not begin.
    fn seals_whole(&self) -> bool {
        !cfg!(target_os = "linux") || self.guard.is_none() || self.mode != Mode::Default
    }

    /// The folders that a command writes in: all, or those that `open` names.
    fn zones(&self, open: Option<&[PathBuf]>) -> Result<Zones, Outcome> {
        match open {
            None => Ok(Zones::all(
                there(&self.workspaces),
                there(&self.extra_write),
            )),
            Some(open) => {
                let (workspaces, extra) = (&self.every_workspace, &self.every_extra);
                Zones::granted(&there(workspaces), &there(extra), open)
            }
        }
    }

    /// The confined child for `argv`, one of the turn's. With `open`, it writes only in the folders
    /// with these keys. `network` is what the call asked for, if it did. Looks at the disk: not for
    /// async threads.
    ///
    /// # Errors
    /// When a folder of the private tmp cannot be made, it is not known what to hide or close, or
    /// the configuration does not open the network that was asked for.
    pub fn plan(
        &self,
        turn_id: &str,
        argv: Vec<String>,
        cwd: PathBuf,
        env: &[(String, String)],
        network: Option<bool>,
        open: Option<&[PathBuf]>,
    ) -> Result<Plan, Outcome> {
        let zones = self.zones(open)?;
        let mut plan = Plan {
            argv,
            cwd,
            env: Vec::new(),
            workspaces: zones.workspaces,
            extra_write: zones.extra_write,
            closed: zones.closed,
            shallow: zones.shallow,
            tmp: self.tmp.clone(),
            masks: Vec::new(),
            sealed: Vec::new(),
            mode: match self.mode {
                Mode::Default => hands_sandbox::Mode::Default,
                Mode::Strict => hands_sandbox::Mode::Strict,
                Mode::ReadOnly => hands_sandbox::Mode::ReadOnly,
            },
            walls: self.walls(),
            network: self.network.of_call(network)?,
            guard: self.guard_of(turn_id),
            resources: self.resources,
        };
        // Secrets are hidden where nothing can be written too.
        let roots = self.roots();
        let hidden = self.hidden(&roots);
        let hidden = hidden.map_err(|e| Outcome::fail(Code::Sandbox, e.message).hint(e.hint))?;
        let mut hidden = Hidden::clone(&hidden);
        hidden.seal_around(&plan.cwd, &roots, self.seals_whole());
        plan.masks = hidden.masks;
        plan.sealed = hidden.sealed;
        let tmpdir = plan.tmpdir_inside();
        let tmpdir = tmpdir.map_err(|e| system("preparing the private tmp", &e))?;
        plan.env = environment::of_child(&self.user_home, &tmpdir, &self.pass, env);
        Ok(plan)
    }
}

/// Whether what commands of this server change goes through the broker.
pub(crate) fn brokered(config: &Config) -> bool {
    cfg!(target_os = "linux") && config.sandbox.broker && config.sandbox.mode != Mode::ReadOnly
}

/// How much of the machine a command may use.
fn resources(config: &Config) -> Resources {
    let bytes = |mib: u64| mib.saturating_mul(1024 * 1024);
    let sandbox = &config.sandbox;
    Resources {
        memory_bytes: match sandbox.memory_mb {
            0 => machine_memory().map_or(u64::MAX, |all| all / 4 * 3),
            mib => bytes(mib),
        },
        processes: sandbox.processes,
        open_files: sandbox.open_files,
        file_bytes: bytes(sandbox.file_mb),
    }
}

/// Bytes of memory that the machine has, where the system says so in a file.
fn machine_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

/// A folder that commands may write, and where it was at the start. It is never looked up anew: a
/// planner may put a link in the place of one that is missing.
struct Root {
    given: PathBuf,
    real: PathBuf,
}

impl Root {
    fn of(given: &Path) -> Self {
        Self {
            given: given.to_path_buf(),
            real: expected(given),
        }
    }
}

/// Finds where the roots are. One that lies in another is left out: the other covers it.
fn roots(given: &[PathBuf], others: &[PathBuf]) -> Vec<Root> {
    let all: Vec<PathBuf> = given.iter().chain(others).map(|p| expected(p)).collect();
    let inside = |root: &Root| {
        let mut above = all.iter().filter(|other| **other != root.real);
        above.any(|other| root.real.starts_with(other))
    };
    given
        .iter()
        .map(|given| Root::of(given))
        .filter(|root| !inside(root))
        .collect()
}

/// The real path of what is there, with what is missing below it added as it is spelt.
fn expected(path: &Path) -> PathBuf {
    let mut missing = Vec::new();
    for ancestor in path.ancestors() {
        if let Ok(real) = ancestor.canonicalize() {
            return missing.iter().rev().fold(real, |at, name| at.join(name));
        }
        missing.extend(ancestor.file_name());
    }
    path.to_path_buf()
}

/// The roots that are there now, and where they were expected. One that is missing (an unplugged
/// disk) is left out; it serves again when it appears.
fn there(roots: &[Root]) -> Vec<PathBuf> {
    let in_place = |root: &&Root| root.given.canonicalize().is_ok_and(|now| now == root.real);
    roots
        .iter()
        .filter(in_place)
        .map(|root| root.real.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_that_was_missing_is_never_what_a_link_makes_of_it() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let victim = place.join("victim");
        std::fs::create_dir(&victim).unwrap();
        let given = [place.join("gone"), place.join("later")];
        let roots = roots(&given, &[]);
        assert!(there(&roots).is_empty());
        std::os::unix::fs::symlink(&victim, &given[0]).unwrap();
        std::fs::create_dir(&given[1]).unwrap();
        assert_eq!(there(&roots), [given[1].clone()]);
    }

    #[test]
    fn a_root_in_a_root_is_covered_by_it() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let inner = place.join("inner");
        assert!(roots(&[inner], std::slice::from_ref(&place)).is_empty());
        assert_eq!(roots(std::slice::from_ref(&place), &[]).len(), 1);
    }
}
