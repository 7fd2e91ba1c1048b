//! Starting and ending the MCP server's process.

use std::ffi::OsString;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

use crate::limits;
use crate::link::Link;
use crate::metrics::Metrics;

/// What to start.
#[derive(Debug, Clone)]
pub struct ChildSpec {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Variables it must not see.
    pub hidden: Vec<OsString>,
    /// The longest line it may print, in bytes.
    pub max_line: usize,
}

/// Why it could not be started.
#[derive(Debug, thiserror::Error)]
#[error("starting the MCP server {program:?}: {error}")]
pub struct SpawnError {
    program: String,
    error: std::io::Error,
}

/// A running child with its pipes.
#[derive(Debug)]
pub struct Running {
    child: Child,
    pid: u32,
    /// Its pipes.
    pub link: Arc<Link>,
}

impl Running {
    /// Starts it in a process group of its own, so that ending it ends what it started, and a
    /// signal typed at this process's terminal does not reach it.
    pub fn spawn(spec: &ChildSpec, metrics: Arc<Metrics>) -> Result<Self, SpawnError> {
        let program = spec.argv.first().cloned().unwrap_or_default();
        let failed = |error| SpawnError {
            program: program.clone(),
            error,
        };
        let mut command = Command::new(&program);
        command
            .args(spec.argv.iter().skip(1))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .process_group(0)
            .kill_on_drop(true);
        for name in &spec.hidden {
            command.env_remove(name);
        }
        let mut child = command.spawn().map_err(failed)?;
        let pipes = (child.id(), child.stdin.take(), child.stdout.take());
        let (Some(pid), Some(stdin), Some(stdout)) = pipes else {
            return Err(failed(std::io::Error::other("it came without its pipes")));
        };
        let link = Link::start(pid, stdin, stdout, spec.max_line, metrics);
        Ok(Self { child, pid, link })
    }

    /// Waits for its end, by itself or because its output closed.
    pub async fn ended(&mut self) {
        tokio::select! {
            _ = self.child.wait() => {}
            () = self.link.closed.cancelled() => {}
        }
    }

    /// Ends it in order: its input is closed, then SIGTERM, then SIGKILL, each to the whole
    /// group; how it ended.
    pub async fn stop(mut self, patience: Duration) -> Option<ExitStatus> {
        self.link.closed.cancel();
        let mut status = self.wait(patience).await;
        if status.is_none() {
            self.signal(Signal::TERM);
            status = self.wait(patience).await;
        }
        // What it left in its group has no pipe to anybody any more.
        self.signal(Signal::KILL);
        if status.is_none() {
            status = self.wait(limits::STOP_CHILD).await;
        }
        status
    }

    async fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let ended = tokio::time::timeout(patience, self.child.wait()).await;
        ended.ok().and_then(Result::ok)
    }

    fn signal(&self, signal: Signal) {
        let group = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            let _ = kill_process_group(group, signal);
        }
    }
}

/// How a process ended, in words.
pub fn describe(status: Option<ExitStatus>) -> String {
    use std::os::unix::process::ExitStatusExt;
    match status.map(|status| (status.code(), status.signal())) {
        Some((Some(code), _)) => format!("it ended with code {code}"),
        Some((_, Some(signal))) => format!("it was ended by signal {signal}"),
        _ => "its output closed".to_owned(),
    }
}
