//! The server's side of a `hands-runner`.

use crate::limits;
use hands_config::Config;
use hands_sandbox::canary::{Cause, Report, State};
use hands_sandbox::{Done, Frame, Progress, Request};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio_util::sync::CancellationToken;

/// A command to run to its end.
pub struct Order {
    /// What to run, and how.
    pub request: Request,
    /// Ends it when fired.
    pub cancel: CancellationToken,
    /// Time between SIGTERM and SIGKILL after a cancellation.
    pub cancel_grace: Duration,
}

/// A command that ran.
pub struct Finished {
    /// Its report.
    pub done: Done,
}

/// A command that did not.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The sandbox refused or could not be set up.
    #[error("{message}")]
    Refused {
        /// Why.
        message: String,
        /// What to do.
        hint: String,
    },
    /// The runner could not be started, or broke.
    #[error("{0}")]
    Broken(String),
}

/// Where the runner's program is: beside our own, never on a search path.
pub(super) fn program() -> Result<PathBuf, RunError> {
    let own = std::env::current_exe()
        .map_err(|e| RunError::Broken(format!("finding our own program: {e}")))?;
    let runner = own.with_file_name("hands-runner");
    if runner.is_file() {
        return Ok(runner);
    }
    Err(RunError::Refused {
        message: format!("hands-runner was not found at {}", runner.display()),
        hint: "Install hands-mcp and hands-runner in the same folder.".into(),
    })
}

fn spawn(program: &Path, args: &[&std::ffi::OsStr]) -> std::io::Result<Child> {
    Command::new(program)
        .args(args)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // A terminal's ^C must reach the server alone, which then ends its commands in order.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
}

/// Runs a command to its end, whatever the end is.
///
/// # Errors
/// When it was not started, or nothing true can be said of how it ended.
pub async fn run(order: Order, mut progress: impl FnMut(Progress)) -> Result<Finished, RunError> {
    let mut tries = 1;
    loop {
        match try_once(&order, &mut progress).await? {
            Frame::Done(done) => return Ok(Finished { done: *done }),
            // Nothing was started.
            Frame::Refused { again: true, .. }
                if tries < limits::SETUP_TRIES && !order.cancel.is_cancelled() =>
            {
                tries += 1;
            }
            Frame::Refused { message, hint, .. } => {
                return Err(RunError::Refused { message, hint });
            }
            Frame::Progress(_) => return Err(RunError::Broken("hands-runner broke off".into())),
        }
    }
}

/// Runs it by one runner; the runner's last word.
async fn try_once(order: &Order, progress: &mut impl FnMut(Progress)) -> Result<Frame, RunError> {
    let program = program()?;
    let broken = |what: &str, e: &dyn std::fmt::Display| RunError::Broken(format!("{what}: {e}"));
    let mut line =
        serde_json::to_vec(&order.request).map_err(|e| broken("writing the request", &e))?;
    line.push(b'\n');
    let mut child =
        spawn(&program, &[]).map_err(|e| broken(&format!("starting {}", program.display()), &e))?;
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(RunError::Broken("hands-runner has no pipes".into()));
    };
    stdin
        .write_all(&line)
        .await
        .map_err(|e| broken("sending the request to hands-runner", &e))?;
    let most = Duration::from_millis(
        order
            .request
            .timeout_ms
            .saturating_add(order.request.grace_ms),
    );
    let last = tokio::time::timeout(
        most + limits::RUNNER_SLACK,
        follow(stdout, &mut stdin, order, progress),
    );
    let last = last.await.unwrap_or_else(|_| {
        Err(RunError::Broken(
            "hands-runner did not end in time and was killed with its command".into(),
        ))
    })?;
    // It ends by itself after its last frame; its exit says nothing more.
    drop(stdin);
    let _ = child.wait().await;
    Ok(last)
}

/// Reads frames until the last one; passes a cancellation on, once.
async fn follow(
    stdout: ChildStdout,
    stdin: &mut ChildStdin,
    order: &Order,
    progress: &mut impl FnMut(Progress),
) -> Result<Frame, RunError> {
    let mut reader = BufReader::new(stdout);
    let mut line = Vec::new();
    let mut told = false;
    loop {
        tokio::select! {
            read = read_line(&mut reader, &mut line) => {
                read?;
                let frame = serde_json::from_slice(&line)
                    .map_err(|e| RunError::Broken(format!("hands-runner's answer: {e}")))?;
                line.clear();
                match frame {
                    Frame::Progress(now) => progress(now),
                    last => return Ok(last),
                }
            }
            () = order.cancel.cancelled(), if !told => {
                told = true;
                let grace_ms = u64::try_from(order.cancel_grace.as_millis()).unwrap_or(u64::MAX);
                let stop = serde_json::to_string(&hands_sandbox::Order::Stop { grace_ms });
                let stop = stop.unwrap_or_default() + "\n";
                // A runner that is gone has said so, or will be missed, above.
                let _ = stdin.write_all(stop.as_bytes()).await;
            }
        }
    }
}

/// Appends to `line` up to its end; may be dropped and called again.
async fn read_line(
    reader: &mut BufReader<ChildStdout>,
    line: &mut Vec<u8>,
) -> Result<(), RunError> {
    let read = reader.read_until(b'\n', line).await;
    let read = read.map_err(|e| RunError::Broken(format!("reading from hands-runner: {e}")))?;
    if line.len() > limits::RUNNER_LINE_BYTES {
        return Err(RunError::Broken("hands-runner's answer is too long".into()));
    }
    if read == 0 || line.last() != Some(&b'\n') {
        return Err(RunError::Broken(
            "hands-runner was killed; its command was ended with it".into(),
        ));
    }
    Ok(())
}

/// Tries the sandbox in a process of its own.
pub(crate) async fn canary(scratch: &Path, config: &Config) -> Report {
    match try_canary(scratch, config).await {
        Ok(report) => report,
        Err(e) => Report {
            backend: "none".into(),
            state: State::None,
            cause: Some(Cause::Other),
            promises: BTreeMap::new(),
            findings: Vec::new(),
            reason: Some(e.to_string()),
            hint: Some(match e {
                RunError::Refused { hint, .. } => hint,
                RunError::Broken(_) => "Run `handsctl doctor`.".into(),
            }),
        },
    }
}

async fn try_canary(scratch: &Path, config: &Config) -> Result<Report, RunError> {
    let program = program()?;
    let mut args = vec!["canary".as_ref(), "--scratch".as_ref(), scratch.as_os_str()];
    args.push("--walls".as_ref());
    args.push(config.sandbox.walls.as_str().as_ref());
    if !config.sandbox.broker {
        args.push("--no-broker".as_ref());
    }
    let mut child = spawn(&program, &args)
        .map_err(|e| RunError::Broken(format!("starting {}: {e}", program.display())))?;
    let mut said = Vec::new();
    let read = async {
        if let Some(stdout) = child.stdout.take() {
            stdout.take(64 * 1024).read_to_end(&mut said).await?;
        }
        child.wait().await
    };
    let limit = hands_sandbox::limits::CANARY_TIMEOUT + limits::RUNNER_SLACK;
    tokio::time::timeout(limit, read)
        .await
        .map_err(|_| RunError::Broken("the sandbox's self-test did not end in time".into()))?
        .map_err(|e| RunError::Broken(format!("the sandbox's self-test: {e}")))?;
    serde_json::from_slice(&said)
        .map_err(|e| RunError::Broken(format!("the sandbox's self-test said nothing usable: {e}")))
}
