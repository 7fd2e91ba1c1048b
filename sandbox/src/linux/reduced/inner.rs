//! The helper beside the command: it stays outside the walls, so that it can end all that is
//! inside when the runner is gone.

use super::Alone;
use crate::linux::broker::sys;
use crate::linux::inner::{
    ChildSignals, InnerPlan, LISTENER, Reach, close_inherited, end_left_behind, limit, wait_for,
};
use crate::linux::{netns, ruleset, seccomp};
use crate::report::Ending;
use std::io::{BufReader, Error};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Starts the command of the plan, waits for its end and ends what it left behind.
pub(in crate::linux) fn run(
    plan: &InnerPlan,
    alone: &Alone,
    socket: &UnixStream,
    orders: &mut BufReader<UnixStream>,
) -> Result<(Ending, Vec<String>), String> {
    let own = rustix::process::getpid();
    close_inherited()?;
    // No terminal of the person's.
    rustix::process::setsid().map_err(|e| format!("setsid: {e}"))?;
    // Whose parent has ended comes to us, and so is found.
    rustix::process::set_child_subreaper(Some(own))
        .map_err(|e| format!("prctl(PR_SET_CHILD_SUBREAPER): {e}"))?;
    limit(&plan.resources, false);
    let ended = ChildSignals::block().map_err(|e| format!("signalfd: {e}"))?;
    let main_child = start(plan, alone, socket)?;
    let ending = wait_for(main_child, &ended, orders, Reach::Tree);
    Ok((ending, end_left_behind(Reach::Tree)))
}

fn start(
    plan: &InnerPlan,
    alone: &Alone,
    socket: &UnixStream,
) -> Result<rustix::process::Pid, String> {
    let (program, args) = plan.argv.split_first().ok_or("the command is empty")?;
    let mut rules = Some(ruleset::of_plan(plan)?);
    let filter = super::filter(alone.network);
    let runner = socket.try_clone().map_err(|e| format!("socket: {e}"))?;
    let restrict = move || {
        let rules = rules.take().ok_or(std::io::ErrorKind::InvalidInput)?;
        ruleset::apply(rules).map_err(Error::other)?;
        sys::bound_capabilities()?;
        sys::drop_capabilities()?;
        let listener = seccomp::ask(&filter).map_err(Error::other)?;
        // The next program closes our copy: when the runner is gone, nobody must wait for an answer.
        netns::send(runner.as_fd(), LISTENER, listener.as_fd())
    };
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(plan.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&alone.cwd)
        .stdin(Stdio::inherit())
        .process_group(0);
    // SAFETY: this process has one thread, so that the child may do all that it could.
    unsafe { command.pre_exec(restrict) };
    let child = command
        .spawn()
        .map_err(|e| format!("starting {program}: {e}"))?;
    i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .ok_or_else(|| "the child has no process id".to_string())
}
