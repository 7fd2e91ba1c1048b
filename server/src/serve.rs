//! A server over standard input and output, from start to end.

use crate::front::{Front, Output};
use crate::handler::Handler;
use crate::limits;
use crate::session::{Session, folders, sweep_scratch};
use crate::stdio::Streams;
use anyhow::Context;
use hands_activity::{Lifecycle, install_panic_hook};
use hands_config::{Env, Flags, Home};
use hands_policy::redact::Redactor;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The name of this process in logs.
const PROCESS: &str = "hands-mcp";

/// Serves one client on standard input and output until it hangs up or a signal comes.
///
/// # Errors
/// When the server cannot start: the configuration is broken, or the home cannot be used.
pub fn stdio(home: Option<&Path>, streams: &Streams) -> anyhow::Result<()> {
    let (own_stdin, own_stdout) = streams.handles().context("taking the client's streams")?;
    let env = Env::from_process();
    let home = Home::locate(&env, home)?;
    let loaded = hands_config::load(&home, &env, &Flags::default())?;
    let notes = home.prepare()?;
    let made = loaded.create_default_workspace()?;
    let folders = folders(&home);
    install_panic_hook(&folders.faults(), PROCESS);
    let user_home = user_home(&env)?;
    let session = Session::open(&home, loaded.config.clone(), user_home)?;
    for warning in loaded.warnings.iter().chain(&notes) {
        session.live.line(&format!("warning: {warning}"));
    }
    if let Some(folder) = made {
        session
            .live
            .line(&format!("made the workspace {}", folder.display()));
    }
    let lifecycle = Lifecycle::open(&folders, PROCESS, env!("CARGO_PKG_VERSION"))?;
    lifecycle.note(
        "start",
        json!({"session_id": session.id, "mode": "standalone"}),
    )?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(64)
        .enable_all()
        .build()
        .context("starting the runtime")?;
    let reason = runtime.block_on(serve(&session, own_stdin, own_stdout, home.scratch_dir()));
    session.close();
    // A trail of the end is worth having, but its lack is no reason to fail now.
    let _ = lifecycle.note("stop", json!({"session_id": session.id, "reason": reason}));
    session.live.flush(limits::FLUSH);
    // Whatever still runs has been told to end; nothing waits for it.
    runtime.shutdown_background();
    Ok(())
}

async fn serve(
    session: &Arc<Session>,
    input: std::fs::File,
    output: std::fs::File,
    scratch: PathBuf,
) -> &'static str {
    let mut signals = StopSignals::listen();
    let line_bytes = usize::try_from(session.config.limits.line_bytes).unwrap_or(usize::MAX);
    let output = Output::start(output);
    let front = Front::new(input, output.clone(), line_bytes);
    let shutdown = front.shutdown();
    let handler = Handler::new(Arc::clone(session), front.flights());
    let running = rmcp::service::serve_directly(handler, front, None);
    let warm = Arc::clone(session);
    tokio::spawn(async move {
        // Before the first call needs them; what the sandbox's trial finds is told with that call.
        tokio::task::spawn_blocking(Redactor::shared);
        warm.confinement.report().await;
        tokio::task::spawn_blocking(move || sweep_scratch(&scratch)).await
    });
    let reason = tokio::select! {
        () = shutdown.over.cancelled() => "end of input",
        name = signals.next() => {
            shutdown.order.cancel();
            let _ = tokio::time::timeout(limits::EOF_DEADLINE, shutdown.over.cancelled()).await;
            name
        }
    };
    output.flush(limits::FLUSH).await;
    drop(running);
    reason
}

/// The signals that end a server. Listened for from the moment this is made: a client that has
/// had an answer may rely on it.
struct StopSignals {
    term: Option<Signal>,
    int: Option<Signal>,
    hup: Option<Signal>,
}

impl StopSignals {
    fn listen() -> Self {
        // One that cannot be listened for ends the process by itself.
        let listen = |kind| signal(kind).ok();
        Self {
            term: listen(SignalKind::terminate()),
            int: listen(SignalKind::interrupt()),
            hup: listen(SignalKind::hangup()),
        }
    }

    /// Waits for one of them and tells its name.
    async fn next(&mut self) -> &'static str {
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
