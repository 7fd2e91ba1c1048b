//! `handsctl up`: start the daemon.

use super::down;
use super::status::{self, verdict};
use crate::exit::{Exit, Failure};
use crate::programs::DAEMON;
use crate::{Context, daemon, limits};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

pub(crate) fn run(context: &Context, foreground: bool) -> Result<Exit, Failure> {
    let program = DAEMON
        .find(&context.env)
        .map_err(|why| why.failure("finding handsd"))?;
    if foreground {
        daemon::block_on(refuse_a_second(context))?;
        let cause = command(context, &program).arg("--foreground").exec();
        return Err(Failure::new(
            format!("starting {}", program.display()),
            cause.to_string(),
        ));
    }
    daemon::block_on(async {
        if let Some(client) = daemon::connect_if_running(context).await? {
            let found = daemon::status(&client).await?;
            if !found.daemon.stopping {
                let head = format!("handsd runs already, pid {}", found.daemon.pid);
                return status::show(context, &client, &found, Some(&head)).await;
            }
            down::until_gone(context).await?;
        }
        start(context, &program).await
    })
}

/// Two daemons cannot have one home; who wants one in this terminal is told which one to stop.
async fn refuse_a_second(context: &Context) -> Result<(), Failure> {
    let Some(client) = daemon::connect_if_running(context).await? else {
        return Ok(());
    };
    let found = daemon::status(&client).await?;
    let why = format!("handsd runs already, pid {}", found.daemon.pid);
    Err(Failure::new("starting the daemon", why).hint("`handsctl down` stops it"))
}

/// Starts it in the background and waits until it is ready, or says why it is not.
pub(crate) async fn start(context: &Context, program: &Path) -> Result<Exit, Failure> {
    let said = Said::new(context)?;
    let mut child = command(context, program)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(said.file()?)
        // Ctrl-C in this terminal is not meant for it; a SIGHUP only has it read its configuration again.
        .process_group(0)
        .current_dir("/")
        .spawn()
        .map_err(|cause| {
            Failure::new(format!("starting {}", program.display()), cause.to_string())
        })?;
    let client = match answered(context, &mut child, &said).await {
        Ok(client) => client,
        Err(failure) => {
            end(&mut child).await;
            return Err(failure);
        }
    };
    let (found, _) = daemon::wait_for(&client, limits::DAEMON_READY, |found| {
        found.readiness.ready || verdict(found) == Exit::Degraded && is_settled(found)
    })
    .await?;
    status::show(context, &client, &found, None).await
}

/// Nothing more will come by waiting: the operator has to act.
pub(crate) fn is_settled(found: &hands_control::types::daemon::Status) -> bool {
    let reasons = &found.readiness.reasons;
    reasons
        .iter()
        .any(|reason| reason.code.ends_with("needs_operator"))
}

fn command(context: &Context, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("--home").arg(context.home.root());
    command
}

async fn answered(
    context: &Context,
    child: &mut Child,
    said: &Said,
) -> Result<hands_control::Client, Failure> {
    let deadline = Instant::now() + limits::DAEMON_UP;
    loop {
        let ended = child.try_wait();
        // Another start was faster; its daemon is the one that is wanted.
        let lost = matches!(&ended, Ok(Some(status)) if status.code() == Some(hands_control::exit::RUNS_ALREADY.into()))
            && down::is_locked(&context.home.run_dir().join("handsd.pid"));
        if let Ok(Some(status)) = ended
            && !lost
        {
            let why = said
                .text()
                .unwrap_or_else(|| format!("it ended with {status}, {}", said.nothing()));
            return Err(Failure::new("starting the daemon", why));
        }
        if let Some(client) = daemon::connect_if_running(context).await? {
            return Ok(client);
        }
        if Instant::now() >= deadline {
            let why = format!(
                "it does not answer within {} s",
                limits::DAEMON_UP.as_secs()
            );
            return Err(Failure::new("starting the daemon", why).hint("see `handsctl logs daemon`"));
        }
        tokio::time::sleep(limits::LOOK).await;
    }
}

/// A start that failed leaves nothing behind.
async fn end(child: &mut Child) {
    let running = |child: &mut Child| matches!(child.try_wait(), Ok(None));
    if running(child) {
        let pid = rustix::process::Pid::from_child(child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
    let deadline = Instant::now() + limits::DAEMON_DOWN;
    while running(child) && Instant::now() < deadline {
        tokio::time::sleep(limits::LOOK).await;
    }
    if running(child) {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// What the daemon writes to its stderr before it ends: a file, for a pipe would break when this program is gone.
struct Said(PathBuf);

impl Said {
    fn new(context: &Context) -> Result<Said, Failure> {
        let prepared = context.home.prepare();
        prepared.map_err(|error| Failure::new("preparing the home", error.to_string()))?;
        Ok(Said(context.home.run_dir().join("handsd.err")))
    }

    fn file(&self) -> Result<File, Failure> {
        let mut options = File::options();
        options.create(true).truncate(true).write(true).mode(0o600);
        let file = options.open(&self.0);
        file.map_err(|cause| {
            Failure::new(format!("opening {}", self.0.display()), cause.to_string())
        })
    }

    /// Why nothing may have been said.
    fn nothing(&self) -> String {
        let nothing = format!("and wrote no reason to {}", self.0.display());
        match rustix::fs::statvfs(&self.0) {
            Ok(disk) => {
                let free = disk.f_bavail.saturating_mul(disk.f_frsize) >> 10;
                format!("{nothing} (free disk space there: {free} KiB)")
            }
            Err(_) => nothing,
        }
    }

    /// Its last line, without the program's name.
    fn text(&self) -> Option<String> {
        let mut text = String::new();
        let file = File::open(&self.0).ok()?;
        file.take(limits::STDERR_TAIL as u64)
            .read_to_string(&mut text)
            .ok()?;
        let last = text.trim().lines().next_back()?;
        Some(last.strip_prefix("handsd: ").unwrap_or(last).to_owned())
    }
}
