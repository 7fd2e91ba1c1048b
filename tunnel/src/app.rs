//! The running client: its parts put together, and their order at the start and the end.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::child::ChildSpec;
use crate::config::Config;
use crate::control_plane::{ControlPlane, SetupError};
use crate::dispatcher::Dispatcher;
use crate::health::{HealthError, Listeners, write_private};
use crate::journal::{Journal, JournalError};
use crate::limits;
use crate::metrics::Metrics;
use crate::poller::{PollState, Poller};
use crate::poster::{PostState, Poster};
use crate::sessions::Sessions;
use crate::status::Status;
use crate::sync::lock;

/// Why the client could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The control plane's client.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The health pages.
    #[error(transparent)]
    Health(#[from] HealthError),
    /// The file of the process id.
    #[error("writing the process id to {path}: {error}")]
    PidFile {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Signals.
    #[error("listening for signals: {0}")]
    Signals(std::io::Error),
}

/// A file that goes with the process.
#[derive(Debug)]
struct PidFile(PathBuf);

impl PidFile {
    fn write(path: PathBuf) -> Result<Self, StartError> {
        let text = format!("{}\n", std::process::id());
        match write_private(&path, text.as_bytes()) {
            Ok(()) => Ok(Self(path)),
            Err(error) => Err(StartError::PidFile { path, error }),
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Serves the tunnel until SIGTERM, SIGINT or `stop`, and then stops in order: no more polls,
/// calls in flight are waited for and the rest answered with a failure, the children are ended.
///
/// Runs best on a single-threaded runtime: messages then reach the MCP server in the order in
/// which the control plane sent them.
pub async fn run(config: Config, stop: CancellationToken) -> Result<(), StartError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(StartError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(StartError::Signals)?;
    let metrics = Arc::new(Metrics::default());
    let plane = ControlPlane::new(&config.endpoint)?;
    let (journal, left) = Journal::open(&config.journal)?;
    let listeners = Listeners::bind(
        config.health_listen,
        config.health_socket.as_deref(),
        config.health_url_file.as_deref(),
    )
    .await?
    .parent_only(config.health_parent_only);
    let _pid_file = config.pid_file.clone().map(PidFile::write).transpose()?;

    let spec = ChildSpec {
        max_line: config.max_line(),
        argv: config.mcp_argv,
        hidden: config.hidden,
    };
    let sessions = Arc::new(Sessions::start(spec, Arc::clone(&metrics)));
    let polls = Arc::new(PollState::default());
    let posts = Arc::new(PostState::default());
    let status = Arc::new(Status {
        tunnel_id: config.endpoint.tunnel_id.clone(),
        stale_after: config.endpoint.stale_after(),
        metrics: Arc::clone(&metrics),
        polls: Arc::clone(&polls),
        posts: Arc::clone(&posts),
        sessions: Arc::clone(&sessions),
        metadata: Mutex::default(),
        stopping: stop.clone(),
    });
    let health = tokio::spawn(listeners.serve(Arc::clone(&status)));

    let good_polls = watch::Sender::new(0);
    let poster = Poster::new(
        plane.clone(),
        Arc::clone(&metrics),
        posts,
        good_polls.subscribe(),
    );
    let dispatcher = Arc::new(Dispatcher::new(
        Arc::clone(&sessions),
        poster,
        journal,
        Arc::clone(&metrics),
        config.calls,
    ));
    dispatcher.answer_left_over(left);
    let fetching = tokio::spawn(fetch_metadata(plane.clone(), status));
    let poller = Poller {
        plane,
        dispatcher: Arc::clone(&dispatcher),
        metrics,
        state: polls,
        good_polls,
        stop: stop.clone(),
    };
    let polling = tokio::spawn(poller.run());
    tracing::info!(
        tunnel_id = config.endpoint.tunnel_id,
        base_url = config.endpoint.base_url,
        version = env!("CARGO_PKG_VERSION"),
        "serving the tunnel"
    );

    let why = tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
        () = stop.cancelled() => "its owner",
    };
    tracing::info!(why, "stopping");
    stop.cancel();
    let _ = polling.await;
    fetching.abort();
    dispatcher.stop().await;
    sessions.stop().await;
    health.abort();
    let _ = health.await;
    tracing::info!("stopped");
    Ok(())
}

/// Fetches the tunnel's record for the log and the status page; the tunnel works without.
async fn fetch_metadata(plane: ControlPlane, status: Arc<Status>) {
    let mut backoff = Backoff::default();
    for _ in 0..limits::POST_TRIES {
        match plane.metadata().await {
            Ok(record) => {
                tracing::info!(
                    tunnel_id = record.id,
                    name = record.name,
                    "the tunnel is known"
                );
                *lock(&status.metadata) = Some(record);
                return;
            }
            Err(error) => {
                if error.is_not_found() {
                    status.polls.note_unknown_tunnel();
                }
                tracing::warn!(%error, "fetching the tunnel's record failed");
            }
        }
        tokio::time::sleep(backoff.next_delay()).await;
    }
}
