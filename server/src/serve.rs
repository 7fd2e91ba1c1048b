//! A server from start to end: over standard input and output for one client, or on the home's
//! socket for many.

use crate::desk::Desk;
use crate::door::Door;
use crate::front::{Front, LineSink, Output};
use crate::handler::Handler;
use crate::hub::{Hub, folders};
use crate::limits;
use crate::session::{Session, sweep_scratch};
use crate::stdio::Streams;
use anyhow::Context;
use hands_activity::{Lifecycle, install_panic_hook};
use hands_config::{Env, Flags, Home};
use hands_control::types::server::Mode;
use hands_policy::redact::Redactor;
use serde_json::json;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The name of this process in logs.
const PROCESS: &str = "hands-mcp";

/// A server that is ready to serve.
pub(crate) struct Ready {
    pub(crate) hub: Arc<Hub>,
    lifecycle: Lifecycle,
    pub(crate) runtime: tokio::runtime::Runtime,
}

impl Ready {
    /// Serves until `serving` is over by itself, which `over` names, or a signal comes; tells which.
    fn serve(
        &self,
        mode: Mode,
        serving: impl Future<Output = ()>,
        stop: &CancellationToken,
        over: &'static str,
    ) -> &'static str {
        self.runtime.block_on(async {
            let mut signals = StopSignals::listen();
            warm_up(&self.hub);
            let desk = open_desk(&self.hub, mode);
            tokio::pin!(serving);
            let reason = tokio::select! {
                () = &mut serving => over,
                name = signals.next() => {
                    stop.cancel();
                    serving.await;
                    name
                }
            };
            desk.into_iter().for_each(Desk::close);
            reason
        })
    }
}

/// Loads the configuration and opens the home.
pub(crate) fn prepare(home: Home, env: &Env) -> anyhow::Result<Ready> {
    let loaded = hands_config::load(&home, env, &Flags::default())?;
    let notes = home.prepare()?;
    let made = loaded.create_default_workspace()?;
    let folders = folders(&home);
    install_panic_hook(&folders.faults(), PROCESS);
    let hub = Hub::open(home, loaded.config.clone(), user_home(env)?)?;
    for warning in loaded.warnings.iter().chain(&notes) {
        hub.live.line(&format!("warning: {warning}"));
    }
    if let Some(folder) = made {
        hub.live
            .line(&format!("made the workspace {}", folder.display()));
    }
    let lifecycle = Lifecycle::open(&folders, PROCESS, env!("CARGO_PKG_VERSION"))?;
    tell_leftovers(&hub, &lifecycle);
    Ok(Ready {
        hub: Arc::new(hub),
        lifecycle,
        runtime: tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(64)
            .enable_all()
            .build()
            .context("starting the runtime")?,
    })
}

/// Puts right what killed processes left in the workspaces, and says so.
fn tell_leftovers(hub: &Hub, lifecycle: &Lifecycle) {
    let settled = hub.recovery.settle_asides();
    if !settled.is_news() {
        return;
    }
    let names = |paths: &[PathBuf]| -> Vec<String> {
        paths
            .iter()
            .map(|path| path.display().to_string())
            .collect()
    };
    let (put_back, found) = (names(&settled.put_back), names(&settled.found));
    for path in &put_back {
        hub.live.line(&format!(
            "put back {path}, which a killed command had set aside"
        ));
    }
    for path in &found {
        hub.live.line(&format!(
            "warning: {path} was left by a killed command; look at it and remove it"
        ));
    }
    // What was done is done, told or not.
    let _ = lifecycle.note("leftovers", json!({"put_back": put_back, "found": found}));
}

/// Serves one client on standard input and output until it hangs up or a signal comes, being the
/// server itself.
///
/// # Errors
/// When the server cannot start: the configuration is broken, or the home cannot be used.
pub fn stdio(home: Option<&Path>, streams: &Streams) -> anyhow::Result<()> {
    let (own_stdin, own_stdout) = streams.handles().context("taking the client's streams")?;
    let env = Env::from_process();
    let ready = prepare(Home::locate(&env, home)?, &env)?;
    let session = Session::open(&ready.hub)?;
    ready.lifecycle.note(
        "start",
        json!({"session_id": session.id, "mode": "standalone"}),
    )?;
    let stop = CancellationToken::new();
    let serving = connection(&session, own_stdin, own_stdout, &stop);
    let reason = ready.serve(Mode::Standalone, serving, &stop, "end of input");
    session.close();
    // A trail of the end is worth having, but its lack is no reason to fail now.
    let detail = json!({"session_id": session.id, "reason": reason});
    let _ = ready.lifecycle.note("stop", detail);
    session.live.flush(limits::FLUSH);
    // Whatever still runs has been told to end; nothing waits for it.
    ready.runtime.shutdown_background();
    Ok(())
}

/// Serves every client that connects to the home's socket until a signal comes.
///
/// # Errors
/// As [`stdio`]; also when another server has this home's socket.
pub fn socket(home: Option<&Path>) -> anyhow::Result<()> {
    let env = Env::from_process();
    let ready = prepare(Home::locate(&env, home)?, &env)?;
    let door = ready.runtime.block_on(async { Door::open(&ready.hub) })?;
    ready.lifecycle.note("start", json!({"mode": "serve"}))?;
    let stop = CancellationToken::new();
    let reason = ready.serve(Mode::Serve, door.serve(&stop), &stop, "the socket failed");
    let _ = ready.lifecycle.note("stop", json!({"reason": reason}));
    ready.hub.live.flush(limits::FLUSH);
    ready.runtime.shutdown_background();
    Ok(())
}

/// Opens the control socket. A server without one serves its clients all the same.
fn open_desk(hub: &Arc<Hub>, mode: Mode) -> Option<Desk> {
    match Desk::open(hub, mode) {
        Ok(desk) => Some(desk),
        Err(e) => {
            hub.live.line(&format!("warning: {e:#}"));
            None
        }
    }
}

/// Gets ready what the first call would otherwise wait for.
fn warm_up(hub: &Arc<Hub>) {
    let hub = Arc::clone(hub);
    tokio::spawn(async move {
        tokio::task::spawn_blocking(Redactor::shared);
        // What the sandbox's trial finds is told with the first command.
        hub.sandbox_report().await;
        tokio::task::spawn_blocking(move || sweep_scratch(&hub.home.scratch_dir())).await
    });
}

/// Serves one client over these two ends until it hangs up, or until `stop` fires.
pub(crate) async fn connection(
    session: &Arc<Session>,
    input: impl Read + Send + 'static,
    output: impl LineSink,
    stop: &CancellationToken,
) {
    let line_bytes = usize::try_from(session.config.limits.line_bytes).unwrap_or(usize::MAX);
    let output = Output::start(output);
    let front = Front::new(input, output.clone(), line_bytes);
    let shutdown = front.shutdown();
    session.attend(front.flights());
    let handler = Handler::new(Arc::clone(session), front.flights());
    let running = rmcp::service::serve_directly(handler, front, None);
    tokio::select! {
        () = shutdown.over.cancelled() => {}
        () = stop.cancelled() => {
            shutdown.order.cancel();
            let _ = tokio::time::timeout(limits::EOF_DEADLINE, shutdown.over.cancelled()).await;
        }
    }
    output.flush(limits::FLUSH).await;
    drop(running);
}

/// The signals that end a process that serves. Listened for from the moment this is made: a client
/// that has had an answer may rely on it.
pub(crate) struct StopSignals {
    term: Option<Signal>,
    int: Option<Signal>,
    hup: Option<Signal>,
}

impl StopSignals {
    pub(crate) fn listen() -> Self {
        // One that cannot be listened for ends the process by itself.
        let listen = |kind| signal(kind).ok();
        Self {
            term: listen(SignalKind::terminate()),
            int: listen(SignalKind::interrupt()),
            hup: listen(SignalKind::hangup()),
        }
    }

    /// Waits for one of them and tells its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        async fn wait(signal: &mut Option<Signal>) {
            match signal {
                Some(signal) => drop(signal.recv().await),
                None => std::future::pending().await,
            }
        }
        tokio::select! {
            () = wait(&mut self.term) => "SIGTERM",
            () = wait(&mut self.int) => "SIGINT",
            () = wait(&mut self.hup) => "SIGHUP",
        }
    }
}

fn user_home(env: &Env) -> anyhow::Result<PathBuf> {
    let named = env
        .get("HOME")
        .map(PathBuf::from)
        .filter(|p| p.is_absolute());
    let found = named.or_else(std::env::home_dir);
    found.context("finding the user's home folder: HOME is not set and the system names none")
}
