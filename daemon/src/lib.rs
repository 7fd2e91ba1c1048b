//! The daemon: holds the MCP server and the tunnel client, and tells whether a planner's call would work.
//!
//! **What it is.** [`run`] is a whole daemon: one a home, with a keeper for each child, the endpoints `/healthz`, `/readyz`,
//! `/api/status` and `/metrics` on loopback, and the control API on `run/handsd.sock`. The program `handsd` only calls it.
//!
//! **What it is not.** It speaks no MCP but for a ping, sees no call and no argument, and decides nothing about either. It keeps no
//! state that a restart would lose: killed, its successor finds and ends the children it left (`ledger`).
//!
//! **Theory of operation.** A *keeper* is one task that owns one process: it starts it, waits for its end, starts it again
//! after a jittered delay that grows and is forgotten after a stable minute. A *plan* says how, by the settings in force. The *monitor* looks
//! every two seconds: it pings the server over the socket that relays use, asks the tunnel client's health socket, brings both
//! into *facts*, has *readiness* judge them, tells the keepers, and lets the *mender* decide whether a living child that does not do its
//! work is restarted. What the operator must mend (a refused key, a broken configuration) is shown and rarely tried again; what the
//! other side must mend (5xx, no network) is never answered by a restart of ours. No tunnel configured is a normal state, `local only`.
//! At the end the tunnel stops first, so that no call comes in that the server could not answer, then the server.
#![forbid(unsafe_code)]

mod api;
mod backoff;
mod core;
mod disk;
pub mod error;
mod facts;
mod http;
mod instance;
mod keeper;
mod ledger;
pub mod limits;
pub mod log;
mod mender;
mod monitor;
mod notify;
mod plan;
mod probe;
mod process;
pub mod programs;
mod readiness;
mod record;
mod relayed;
mod reload;
mod servers;
mod signals;
mod tunnel_health;

pub use error::DaemonError;
pub use programs::Programs;

use crate::core::{Core, Settings};
use hands_activity::{Lifecycle, install_panic_hook};
use hands_config::{Env, Flags, Home};
use hands_control::Guard;
use hands_metrics::{Process, Registry};
use plan::{Basis, Planner};
use serde_json::json;
use std::ffi::OsString;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The name of this process in logs.
const PROCESS: &str = "handsd";

/// What a daemon is to run with.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its home.
    pub home: Home,
    /// The variables that its configuration is read from.
    pub env: Env,
    /// The environment that its children get, without what they must not have.
    pub environment: Vec<(OsString, OsString)>,
    /// The programs that it starts.
    pub programs: Programs,
    /// Ends it in order when cancelled.
    pub stop: CancellationToken,
    /// Whether it listens for SIGTERM, SIGINT and SIGHUP.
    pub signals: bool,
}

/// Runs a daemon until it is told to stop by a signal, over the control API or by its token.
///
/// # Errors
/// It cannot start: another one runs, the configuration is broken, or the home cannot be used. Nothing is left running then.
pub async fn run(options: Options) -> Result<(), DaemonError> {
    let signals = options.signals.then(signals::Signals::open);
    let home = &options.home;
    let loaded = hands_config::load(home, &options.env, &Flags::default())?;
    let mut notes = home.prepare()?;
    let instance = instance::Instance::claim(home)?;
    let folders = crate::core::folders(home);
    install_panic_hook(&folders.faults(), PROCESS);
    let lifecycle = Lifecycle::open(&folders, PROCESS, env!("CARGO_PKG_VERSION"))?;
    let (recorder, writer) = record::Recorder::start(lifecycle);
    notes.splice(0..0, loaded.warnings);
    for note in &notes {
        tracing::warn!("{note}");
    }
    let settings = Settings {
        config: Arc::new(loaded.config),
        warnings: notes,
        refused: None,
    };
    let ledger = Arc::new(ledger::Ledger::open(&home.run_dir(), &recorder).await);
    let socket = hands_control::daemon_socket(&home.run_dir());
    let listener = hands_control::bind(&socket)?;
    recorder.note("start", json!({"home": home.root()}));

    let (reloads, wishes) = mpsc::channel(1);
    let core = Arc::new(assemble(&options, settings, ledger, recorder, reloads)?);
    let guard: Guard = Arc::new(hands_sandbox::ancestry::descends_from_runner);
    let mut parts = JoinSet::new();
    let api = Arc::new(api::Api(Arc::clone(&core)));
    parts.spawn(hands_control::serve(
        listener,
        api,
        guard,
        core.stop.clone(),
    ));
    parts.spawn(http::serve(Arc::clone(&core)));
    parts.spawn(reload::serve(
        Arc::clone(&core),
        options.env.clone(),
        wishes,
    ));
    if let Some(signals) = signals {
        parts.spawn(signals::listen(signals, Arc::clone(&core)));
    }
    core.server.start().await;
    parts.spawn(monitor::Monitor::new(Arc::clone(&core)).run());
    notify::ready();

    core.stop.cancelled().await;
    stop(&core).await;
    let _ = std::fs::remove_file(&socket);
    while parts.join_next().await.is_some() {}
    core.recorder.note("stop", json!({}));
    drop(writer);
    drop(instance);
    Ok(())
}

/// Everything that the parts share, with keepers whose children are not started yet.
fn assemble(
    options: &Options,
    settings: Settings,
    ledger: Arc<ledger::Ledger>,
    recorder: record::Recorder,
    reloads: mpsc::Sender<crate::core::Reload>,
) -> Result<Core, DaemonError> {
    let metrics = Arc::new(Registry::new(Process::Daemon, env!("CARGO_PKG_VERSION"))?);
    let shared = keeper::Shared {
        ledger,
        recorder: recorder.clone(),
        metrics: Arc::clone(&metrics),
    };
    let basis = Basis {
        home: options.home.clone(),
        programs: options.programs.clone(),
        environment: options.environment.clone(),
    };
    let local_only = settings.config.tunnel.id.is_none();
    let listen = settings.config.http.listen;
    let settings = Arc::new(RwLock::new(settings));
    let server_basis = basis.clone();
    let server: Planner = Arc::new(move || server_basis.server());
    let (tunnel_basis, tunnel_settings) = (basis.clone(), Arc::clone(&settings));
    let tunnel: Planner = Arc::new(move || {
        let settings = tunnel_settings
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let config = Arc::clone(&settings.config);
        drop(settings);
        tunnel_basis.tunnel(&config)
    });
    Ok(Core {
        home: options.home.clone(),
        settings,
        server: keeper::keep(keeper::Kind::Server, server, shared.clone()),
        tunnel: keeper::keep(keeper::Kind::Tunnel, tunnel, shared),
        readiness: watch::Sender::new(readiness::unknown(local_only)),
        facts: watch::Sender::new(None),
        listen: watch::Sender::new(listen),
        http: watch::Sender::new(None),
        recorder,
        metrics,
        reloads,
        stop: options.stop.clone(),
        started_at: hands_control::now(),
        manager: manager(&options.env),
    })
}

/// The service manager that started this process, by what only it sets.
fn manager(env: &Env) -> Option<String> {
    let launchd = env
        .get("XPC_SERVICE_NAME")
        .is_some_and(|name| name.contains("handsd"));
    let found = match (env.get("NOTIFY_SOCKET"), launchd) {
        (Some(_), _) => "systemd",
        (None, true) => "launchd",
        (None, false) => return None,
    };
    Some(found.to_owned())
}

/// The tunnel first: no call comes in any more that the server could not answer.
async fn stop(core: &Core) {
    notify::stopping(limits::STOP_TUNNEL + limits::STOP_SERVER + limits::KILL_PATIENCE);
    let local_only = core.config().tunnel.id.is_none();
    core.readiness.send_replace(readiness::stopping(local_only));
    core.metrics.set_ready(false);
    core.tunnel.stop().await;
    core.server.stop().await;
}
