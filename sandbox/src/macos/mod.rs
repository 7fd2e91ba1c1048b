//! macOS: a generated Seatbelt profile and `sandbox-exec`.
//!
//! The runner starts itself again ([`exec_in_session`]) to get a session without a terminal, and
//! that process becomes `sandbox-exec`, which takes the profile on and becomes the command. So
//! there is one process, whose end the runner sees as the command's own.
//!
//! What this backend cannot do, and the other can: it has no loopback interface and no process
//! ids of the command's own, and the arguments and environment of the user's other processes can
//! be read (`KERN_PROCARGS2` asks no sandbox). Setuid programs do not run, and a sandbox cannot
//! be taken on inside another.
//!
//! All but the system calls is plain text work and compiled, and tested, on every platform.

mod build;
#[cfg(test)]
mod evaluate;
pub mod profile;
mod promise;
mod session;

pub(crate) use build::freed;
pub use promise::keeps;
pub use session::exec_in_session;

use crate::backend::{Backend, Launch, Unavailable};
use crate::plan::{Network, Plan};
use crate::promise::{Keeping, Rule};
use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::{Component, Path, PathBuf};

/// Part of the system and protected by it. Never looked for anywhere else.
const SANDBOX_EXEC: &str = "/usr/bin/sandbox-exec";
/// Variables that the system's libraries obey in a process that is not confined yet.
const OBEYED_OUTSIDE: &[&str] = &["DYLD_", "Malloc"];

/// `sandbox-exec`, where this machine has it.
#[derive(Debug, Clone)]
pub struct Seatbelt {
    program: Option<PathBuf>,
    runner: PathBuf,
}

impl Seatbelt {
    /// Looks for `sandbox-exec` where the system has it.
    pub fn find() -> Self {
        Self {
            program: Some(PathBuf::from(SANDBOX_EXEC)).filter(|p| p.is_file()),
            runner: std::env::current_exe().unwrap_or_default(),
        }
    }
}

impl Backend for Seatbelt {
    fn name(&self) -> &'static str {
        "seatbelt"
    }

    fn keeps(&self, rule: Rule, guarded: bool) -> Keeping {
        keeps(rule, guarded)
    }

    fn launch(&self, plan: &Plan, _: RawFd) -> Result<Launch, Unavailable> {
        let program = self.program.as_ref().ok_or_else(|| Unavailable {
            reason: format!("{SANDBOX_EXEC} was not found"),
            hint: "it is part of macOS; check the system with `handsctl doctor`".into(),
        })?;
        check(plan)?;
        Ok(Launch {
            program: self.runner.clone(),
            args: arguments(program, &with_real_paths(plan), &freed(plan)),
            env: plan.env.clone(),
            inner: None,
        })
    }
}

/// The arguments of our own program: the helper's name, the working folder, then the command line
/// that it becomes.
fn arguments(program: &Path, plan: &Plan, freed: &[PathBuf]) -> Vec<OsString> {
    let profile = profile::profile(plan, freed);
    let mut args: Vec<OsString> = vec!["session".into(), (&plan.cwd).into(), program.into()];
    for (name, value) in profile.params {
        args.push("-D".into());
        args.push(format!("{name}={value}").into());
    }
    args.extend(["-p".into(), profile.text.into(), "--".into()]);
    args.extend(plan.argv.iter().map(OsString::from));
    args
}

/// Refuses what a profile cannot say faithfully: a rule that misses its path protects nothing.
fn check(plan: &Plan) -> Result<(), Unavailable> {
    // Named one by one: a new part of a plan does not compile until it is said here what becomes
    // of it on this platform.
    let Plan {
        argv,
        cwd,
        env,
        workspaces,
        extra_write,
        closed,
        // Nobody sees who made a folder: those that are there are named in `closed`.
        shallow: _,
        tmp,
        masks,
        sealed,
        network,
        // Matched whole by the profile.
        mode: _,
        // There are no others here.
        walls: _,
        // There is no broker; of its rules the build folders count.
        guard: _,
        // Nothing here can count all of a command's processes.
        resources: _,
    } = plan;
    if !matches!(network, Network::On | Network::Off) {
        return Err(Unavailable {
            reason: "this system has no network namespaces, which `sandbox.network` asks for"
                .into(),
            hint: "set `sandbox.network` to `on` or `off`".into(),
        });
    }
    if argv.is_empty() {
        return Err(Unavailable {
            reason: "the command is empty".into(),
            hint: "give a program to run".into(),
        });
    }
    let lists = [workspaces, extra_write, closed, masks, sealed];
    let mut paths = lists.into_iter().flatten().chain([tmp, cwd]);
    if let Some(path) = paths.find(|path| !is_usable(path)) {
        return Err(Unavailable {
            reason: format!(
                "no sandbox rule can be made for {}: it must be absolute, in UTF-8, without `..`",
                path.display()
            ),
            hint: "give the folder by its real path; `handsctl config check` finds the entry"
                .into(),
        });
    }
    let obeyed = |name: &&String| OBEYED_OUTSIDE.iter().any(|start| name.starts_with(start));
    match env.iter().map(|(name, _)| name).find(obeyed) {
        None => Ok(()),
        Some(name) => Err(Unavailable {
            reason: format!(
                "the variable {name} would act on the helper that starts the sandbox, outside it"
            ),
            hint: format!("set it in the command itself: {name}=… PROGRAM"),
        }),
    }
}

fn is_usable(path: &Path) -> bool {
    let up = |part| matches!(part, Component::ParentDir);
    path.is_absolute() && path.to_str().is_some() && !path.components().any(up)
}

/// The plan with real paths: the kernel resolves links before it asks the profile. Of what is
/// forbidden each that exists counts by its real path as well as by its own. The private tmp lies
/// where no command puts links. The folders that commands write in are taken as they stand: the
/// server found out where they really are when it began, and what a link leads to since then is not
/// meant; one that is not real is then not writable.
fn with_real_paths(plan: &Plan) -> Plan {
    let real_tmp = plan.tmp.canonicalize();
    Plan {
        masks: existing(&plan.masks),
        sealed: existing(&plan.sealed),
        closed: existing(&plan.closed),
        tmp: real_tmp.unwrap_or_else(|_| plan.tmp.clone()),
        ..plan.clone()
    }
}

fn existing(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in paths.iter().filter(|p| p.symlink_metadata().is_ok()) {
        found.push(path.clone());
        found.extend(path.canonicalize().ok().filter(|real| real != path));
    }
    found
}

#[cfg(test)]
mod tests;
