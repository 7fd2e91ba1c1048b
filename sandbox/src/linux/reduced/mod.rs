//! What holds a command where no namespaces can be had: Landlock, seccomp and the broker alone.
//!
//! Nothing is mounted, so that nothing hides what is not to be read, and the command's processes are
//! among all others. The broker stands in for both. It carries out every opening, reading
//! included, and so judges what is read (`broker`); signals go to processes of the command
//! only; and as no process is started without it, none is started any more once the command is to
//! end, whose processes are then looked for by their parents (`tree`).

mod filter;
mod inner;
mod promise;

pub(super) use filter::{OF_PROCESSES, filter};
pub(super) use inner::run;
pub use promise::keeps;

use super::inner::InnerPlan;
use crate::backend::{Backend, Launch, Unavailable};
use crate::plan::{Network, Plan};
use crate::promise::{Keeping, Rule};
use serde::{Deserialize, Serialize};
use std::os::fd::RawFd;
use std::path::PathBuf;

/// What the helper needs to know besides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alone {
    /// Working folder.
    #[serde(with = "crate::path_bytes::one")]
    pub cwd: PathBuf,
    /// Whether the machine's network is reached.
    pub network: bool,
}

/// Landlock, seccomp and the broker, without bubblewrap.
#[derive(Debug, Clone)]
pub struct Landlocked {
    runner: PathBuf,
}

impl Landlocked {
    /// With this program as `hands-runner`.
    pub fn here() -> Self {
        Self {
            runner: std::env::current_exe().unwrap_or_default(),
        }
    }

    /// The same with another `hands-runner` than this program.
    #[must_use]
    pub fn run_by(self, runner: PathBuf) -> Self {
        Self { runner }
    }
}

impl Backend for Landlocked {
    fn name(&self) -> &'static str {
        "landlock+seccomp"
    }

    fn keeps(&self, rule: Rule, guarded: bool) -> Keeping {
        keeps(rule, guarded)
    }

    fn launch(&self, plan: &Plan, socket: RawFd) -> Result<Launch, Unavailable> {
        if plan.active_guard().is_none() {
            return Err(Unavailable {
                reason: "without namespaces commands need the removal broker, which is off".into(),
                hint: "set `sandbox.broker = true`, or allow bubblewrap to make namespaces".into(),
            });
        }
        if hides_processes(&std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default()) {
            return Err(Unavailable {
                reason: "/proc hides processes (`hidepid`), and a command's are ended by looking for them".into(),
                hint: "mount /proc without `hidepid`, or allow bubblewrap to make namespaces".into(),
            });
        }
        if let Some(path) = not_real(plan) {
            return Err(Unavailable {
                reason: format!("the plan names {}, which a link leads to", path.display()),
                hint: "report this as a fault".into(),
            });
        }
        if let Some(place) = overlapping(plan) {
            return Err(Unavailable {
                reason: format!(
                    "the private tmp {} and {} lie in each other, which only mounts could keep apart",
                    plan.tmp.display(),
                    place.display()
                ),
                hint: "move the home of Hands elsewhere, or allow bubblewrap to make namespaces"
                    .into(),
            });
        }
        let network = match plan.network {
            Network::On => true,
            Network::Off => false,
            Network::Loopback { .. } | Network::Hosts { .. } => {
                return Err(Unavailable {
                    reason: "a network of the session's own needs namespaces, which cannot be had here".into(),
                    hint: "set `sandbox.network` to `off` or `on`, or allow bubblewrap to make namespaces".into(),
                });
            }
        };
        let inner = InnerPlan::alone(plan, network);
        let inner = serde_json::to_string(&inner).map_err(|e| Unavailable {
            reason: format!("the inner plan cannot be written down: {e}"),
            hint: "report this as a fault".into(),
        })?;
        Ok(Launch {
            program: self.runner.clone(),
            args: vec!["inner".into(), socket.to_string().into()],
            env: Vec::new(),
            inner: Some(inner),
        })
    }
}

/// A place of the plan in which the private tmp lies, or one that lies in it.
fn overlapping(plan: &Plan) -> Option<&PathBuf> {
    let protected = plan.masks.iter().chain(&plan.sealed);
    let inside = plan
        .places()
        .chain(protected)
        .find(|place| place.starts_with(&plan.tmp));
    inside.or_else(|| plan.places().find(|place| plan.tmp.starts_with(place)))
}

/// Whether `/proc` shows a user less than all processes, by the machine's mounts.
fn hides_processes(mounts: &str) -> bool {
    let of_proc = mounts.lines().filter(|line| line.contains(" /proc "));
    let options = of_proc.flat_map(|line| line.split([' ', ',']));
    let mut values = options.filter_map(|option| option.strip_prefix("hidepid="));
    values.any(|value| !matches!(value, "0" | "off"))
}

/// A path that is not the one that the system has for what stands there: no mount is made by name, and
/// so all is compared by it.
fn not_real(plan: &Plan) -> Option<&PathBuf> {
    let protected = plan.masks.iter().chain(&plan.sealed);
    let mut all = plan.places().chain(protected).chain([&plan.tmp]);
    all.find(|path| path.canonicalize().is_ok_and(|real| real != **path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proc_that_hides_processes_is_known() {
        let line = |options: &str| {
            format!(
                "21 1 0:20 / /proc rw,nosuid - proc proc rw{options}\n22 1 0:21 / /sys rw - sysfs sysfs rw,hidepid=2\n"
            )
        };
        for (options, hides) in [
            ("", false),
            (",hidepid=0", false),
            (",hidepid=off", false),
            (",gid=4,hidepid=2", true),
            (",hidepid=invisible", true),
            (",hidepid=ptraceable", true),
        ] {
            assert_eq!(hides_processes(&line(options)), hides, "{options}");
        }
    }
}
