//! The outer wall: bubblewrap's command line.

use super::inner::InnerPlan;
use crate::backend::{Backend, Launch, Unavailable};
use crate::plan::{Mode, Network, Plan};
use crate::promise::{Keeping, Rule};
use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

/// Where bubblewrap is looked for. Never through `PATH`: a planner may write to folders on it.
pub const CANDIDATES: &[&str] = &[
    "/usr/bin/bwrap",
    "/bin/bwrap",
    "/usr/local/bin/bwrap",
    "/run/current-system/sw/bin/bwrap",
];
/// Where our own binary appears inside. `/dev` is a file system of the sandbox's own, so that the
/// mount point leaves nothing behind anywhere.
const RUNNER_INSIDE: &str = "/dev/.hands-runner";
/// Where the private tmp appears inside.
const TMP: &str = "/tmp";

/// Looks for bubblewrap in the folders where systems install it.
///
/// # Errors
/// When it is in none of them.
pub(super) fn find() -> Result<PathBuf, Unavailable> {
    let found = CANDIDATES.iter().map(PathBuf::from).find(|p| p.is_file());
    found.ok_or_else(|| Unavailable {
        reason: format!(
            "bubblewrap was not found (looked for {})",
            CANDIDATES.join(", ")
        ),
        hint: "install it: apt-get install bubblewrap, dnf install bubblewrap or pacman -S \
               bubblewrap"
            .into(),
    })
}

/// bubblewrap, where this machine has it.
#[derive(Debug, Clone)]
pub struct Bubblewrap {
    program: Result<PathBuf, Unavailable>,
    runner: PathBuf,
}

impl Bubblewrap {
    /// Looks for bubblewrap in the folders where systems install it.
    pub fn find() -> Self {
        Self {
            program: find(),
            runner: std::env::current_exe().unwrap_or_default(),
        }
    }

    /// The same with another `hands-runner` than this program.
    #[must_use]
    pub fn run_by(self, runner: PathBuf) -> Self {
        Self { runner, ..self }
    }
}

impl Backend for Bubblewrap {
    fn name(&self) -> &'static str {
        "bubblewrap+landlock+seccomp"
    }

    fn keeps(&self, rule: Rule, guarded: bool) -> Keeping {
        super::keeps(rule, guarded)
    }

    fn launch(&self, plan: &Plan, socket: RawFd) -> Result<Launch, Unavailable> {
        let program = self.program.clone()?;
        let inner = InnerPlan::for_plan(plan).map_err(|e| Unavailable {
            reason: format!("this machine's mounts cannot be read: {e}"),
            hint: "see whether /proc is mounted".into(),
        })?;
        let inner = serde_json::to_string(&inner).map_err(|e| Unavailable {
            reason: format!("the inner plan cannot be written down: {e}"),
            hint: "report this as a fault".into(),
        })?;
        Ok(Launch {
            program,
            args: arguments(plan, &self.runner, socket),
            env: Vec::new(),
            inner: Some(inner),
        })
    }
}

/// Builds the argument list, in the order in which bubblewrap carries it out.
struct Args(Vec<OsString>);

impl Args {
    fn add(&mut self, words: &[&dyn AsRef<OsStr>]) {
        self.0
            .extend(words.iter().map(|w| w.as_ref().to_os_string()));
    }
}

fn arguments(plan: &Plan, runner: &Path, socket: RawFd) -> Vec<OsString> {
    // Named one by one: a new part of a plan does not compile until it is said here what becomes
    // of it on this platform.
    let Plan {
        // The helper inside starts the command, with its environment and limits.
        argv: _,
        env: _,
        resources: _,
        cwd,
        // All of these are mounts, see `binds`.
        workspaces: _,
        extra_write: _,
        closed: _,
        mode: _,
        // Whoever asks here has chosen.
        walls: _,
        // These are the broker's.
        shallow: _,
        guard: _,
        tmp,
        masks,
        sealed,
        network,
    } = plan;
    let mut args = Args(Vec::new());
    // As root bubblewrap keeps every capability unless told otherwise, and makes no user
    // namespace of its own accord.
    args.add(&[&"--unshare-user", &"--cap-drop", &"ALL"]);
    args.add(&[&"--unshare-pid", &"--unshare-ipc", &"--unshare-uts"]);
    // Where the runner has joined one already, that is the command's.
    if *network != Network::On && network.namespace().is_none() {
        args.add(&[&"--unshare-net"]);
    }
    // Process 1 is ours: nothing inside can signal it, and its end is the end of all of them.
    args.add(&[&"--as-pid-1", &"--die-with-parent", &"--new-session"]);
    args.add(&[
        &"--ro-bind",
        &"/",
        &"/",
        &"--dev",
        &"/dev",
        &"--proc",
        &"/proc",
    ]);
    // bubblewrap covers this by itself only where it sees that it could be written.
    args.add(&[&"--ro-bind", &"/proc/sys", &"/proc/sys"]);
    args.add(&[&"--ro-bind", &runner, &RUNNER_INSIDE]);
    args.add(&[&"--bind", tmp, &TMP]);
    for (place, bind) in binds(plan) {
        args.add(&[&bind, place, place]);
    }
    for sealed in sealed.iter().filter(|p| p.exists()) {
        args.add(&[&"--ro-bind", sealed, sealed]);
    }
    for mask in masks.iter().filter(|p| is_visible(p, plan)) {
        if mask.is_dir() {
            args.add(&[&"--tmpfs", mask, &"--remount-ro", mask]);
        } else {
            args.add(&[&"--ro-bind", &"/dev/null", mask]);
        }
    }
    args.add(&[&"--chdir", cwd, &"--", &RUNNER_INSIDE, &"inner"]);
    args.add(&[&socket.to_string()]);
    args.0
}

/// The workspaces and what is closed in them, outermost first: a later mount covers an earlier one.
/// Of two on one folder the closed one comes last.
fn binds(plan: &Plan) -> Vec<(&PathBuf, &'static str)> {
    let open = match plan.mode {
        Mode::ReadOnly => "--ro-bind",
        Mode::Default | Mode::Strict => "--bind",
    };
    let closed = plan.closed.iter().filter(|place| place.exists());
    let closed = closed.map(|place| (place, "--ro-bind"));
    let mut all: Vec<_> = plan
        .roots()
        .map(|root| (root, open))
        .chain(closed)
        .collect();
    // The sort is stable.
    all.sort_by_key(|(place, _)| place.components().count());
    all
}

/// Whether a path of the machine can be seen inside at all: the machine's `/tmp` cannot, except
/// where a workspace lies in it. (A mask on what is not there would make bubblewrap create it.)
fn is_visible(path: &Path, plan: &Plan) -> bool {
    let bound = || plan.places().any(|place| path.starts_with(place));
    path.exists() && (!path.starts_with(TMP) || bound())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            argv: vec!["/bin/true".into()],
            cwd: "/srv/w".into(),
            env: vec![],
            workspaces: vec!["/srv/w".into()],
            extra_write: vec![],
            closed: vec![],
            shallow: vec![],
            resources: crate::plan::Resources::default(),
            tmp: "/home/u/.hands/work/scratch/s/tmp".into(),
            masks: vec!["/etc".into(), "/no/such/file".into(), "/tmp".into()],
            sealed: vec![],
            mode: Mode::Default,
            walls: crate::plan::Walls::Whole,
            network: Network::On,
            guard: None,
        }
    }

    fn line(plan: &Plan) -> String {
        let words: Vec<String> = arguments(plan, Path::new("/opt/hands-runner"), 5)
            .iter()
            .map(|w| w.to_string_lossy().into_owned())
            .collect();
        words.join(" ")
    }

    #[test]
    fn every_capability_goes_and_the_root_is_read_only() {
        let line = line(&plan());
        assert!(line.contains("--unshare-user --cap-drop ALL"));
        assert!(line.contains("--ro-bind / /"));
        assert!(line.contains("--die-with-parent --new-session"));
        assert!(line.ends_with("--chdir /srv/w -- /dev/.hands-runner inner 5"));
    }

    #[test]
    fn masks_come_after_the_workspaces_and_only_where_there_is_something() {
        let line = line(&plan());
        let workspace = line.find("--bind /srv/w").unwrap();
        let mask = line.find("--tmpfs /etc --remount-ro /etc").unwrap();
        assert!(workspace < mask);
        assert!(!line.contains("/no/such/file"));
        assert!(!line.contains("--tmpfs /tmp"));
    }

    #[test]
    fn read_only_mode_binds_nothing_writable_but_the_tmp() {
        let line = line(&Plan {
            mode: Mode::ReadOnly,
            ..plan()
        });
        assert!(line.contains("--ro-bind /srv/w /srv/w"));
        // The private tmp, and nothing else.
        assert_eq!(line.matches("--bind ").count(), 1);
    }

    #[test]
    fn the_innermost_place_decides_and_protection_comes_last() {
        let here = tempfile::tempdir().unwrap();
        let at = |name: &str| here.path().join(name);
        for name in ["ws/shut", "ws/open/inner", "ws/open/.git"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        let line = line(&Plan {
            workspaces: vec![at("ws/open"), at("other")],
            closed: vec![at("ws/open/inner"), at("ws"), at("ws/gone")],
            sealed: vec![at("ws/open/.git")],
            ..plan()
        });
        let find = |bind: &str, name: &str| {
            let path = at(name).display().to_string();
            let found = line.find(&format!(" {bind} {path} {path} "));
            found.unwrap_or_else(|| panic!("{bind} {name}: {line}"))
        };
        let order = [
            find("--ro-bind", "ws"),
            find("--bind", "ws/open"),
            find("--ro-bind", "ws/open/inner"),
            find("--ro-bind", "ws/open/.git"),
        ];
        assert!(order.is_sorted(), "{order:?} {line}");
        assert!(!line.contains("gone"), "{line}");
    }

    #[test]
    fn network_off_is_a_namespace() {
        assert!(!line(&plan()).contains("--unshare-net"));
        let off = Plan {
            network: Network::Off,
            ..plan()
        };
        assert!(line(&off).contains("--unshare-net"));
        for (namespace, own) in [(None, true), (Some("/proc/7/fd/9".into()), false)] {
            let rules = Vec::new();
            for network in [
                Network::Loopback {
                    namespace: namespace.clone(),
                },
                Network::Hosts { namespace, rules },
            ] {
                let plan = Plan { network, ..plan() };
                assert_eq!(line(&plan).contains("--unshare-net"), own);
            }
        }
    }
}
