//! What all parts of a daemon share.

use crate::facts::Facts;
use crate::keeper::Handle;
use crate::plan;
use crate::readiness;
use crate::record::Recorder;
use crate::servers;
use hands_activity::{Event, Filter, Folders, Item};
use hands_config::{Config, Home};
use hands_control::types::daemon::{
    Call, Child, ChildState, Daemon, Done, Readiness, Status, Tunnel,
};
use hands_control::{ApiError, Client};
use hands_metrics::Registry;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

/// The settings in force, and what a person should know of them.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) config: Arc<Config>,
    pub(crate) warnings: Vec<String>,
    /// Why the file on disk cannot be used, where the last reload was refused.
    pub(crate) refused: Option<String>,
}

/// A wish to read the configuration again, with the way to answer.
pub(crate) type Reload = oneshot::Sender<Result<Done, ApiError>>;

/// The shared parts.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) home: Home,
    pub(crate) settings: Arc<RwLock<Settings>>,
    pub(crate) server: Handle,
    pub(crate) tunnel: Handle,
    pub(crate) readiness: watch::Sender<Readiness>,
    pub(crate) facts: watch::Sender<Option<Facts>>,
    /// Where HTTP is to be served.
    pub(crate) listen: watch::Sender<SocketAddr>,
    /// Where it is.
    pub(crate) http: watch::Sender<Option<SocketAddr>>,
    pub(crate) recorder: Recorder,
    pub(crate) metrics: Arc<Registry>,
    pub(crate) reloads: mpsc::Sender<Reload>,
    pub(crate) stop: CancellationToken,
    pub(crate) started_at: String,
    /// Who started it, if no person did.
    pub(crate) manager: Option<String>,
}

impl Core {
    /// The settings in force.
    pub(crate) fn config(&self) -> Arc<Config> {
        Arc::clone(&self.settings().config)
    }

    pub(crate) fn settings(&self) -> Settings {
        self.settings
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Whether a call would work now: what was found at the last look, with what the keepers know since.
    pub(crate) fn readiness(&self) -> Readiness {
        let last = self.readiness.borrow().clone();
        let Some(mut facts) = self.facts.borrow().clone() else {
            return last;
        };
        if self.stop.is_cancelled() {
            return last;
        }
        let (server, tunnel) = (self.server.status(), self.tunnel.status());
        if !last.ready {
            // A server that is gone since comes first: without it the rest does not matter.
            let known = last
                .reasons
                .iter()
                .any(|reason| reason.code.starts_with("server_"));
            facts.server.state = server.state;
            facts.server.reason = server.reason;
            return match known || server.pid.is_some() {
                true => last,
                false => readiness::judge(&facts),
            };
        }
        // What was found of one process says nothing of its successor.
        if server.state == ChildState::Starting {
            facts.server.ping = Err("it is starting".to_owned());
        }
        let same = tunnel.pid.is_some() && tunnel.state != ChildState::Starting;
        facts.server.state = server.state;
        facts.server.reason = server.reason;
        if let Some(found) = &mut facts.tunnel {
            found.state = tunnel.state;
            found.reason = tunnel.reason;
            found.health = found.health.take().filter(|_| same);
        }
        readiness::judge(&facts)
    }

    /// Everything there is to say.
    pub(crate) async fn status(&self) -> Status {
        let settings = self.settings();
        let server = self.server.status();
        let run = self.home.run_dir();
        let server_status = match server.pid {
            Some(pid) => servers::status(&run, pid).await,
            None => None,
        };
        let home = self.home.clone();
        let last_calls = tokio::task::spawn_blocking(move || last_calls(&home)).await;
        let http = *self.http.borrow();
        let mut warnings = settings.warnings;
        warnings.extend(settings.refused.map(|why| {
            format!(
                "the configuration on disk cannot be used, and the settings before stay in force: {why}; `handsctl config check` says what is wrong"
            )
        }));
        if http.is_none() {
            warnings.push(format!(
                "http.listen: {} cannot be listened on (is another program there?); it is tried again and again",
                settings.config.http.listen
            ));
        }
        Status {
            daemon: Daemon {
                pid: std::process::id(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                started_at: self.started_at.clone(),
                home: self.home.root().to_string_lossy().into_owned(),
                http: http.map(|address| address.to_string()),
                stopping: self.stop.is_cancelled(),
                manager: self.manager.clone(),
            },
            tunnel: self.tunnel_status(&settings.config, self.tunnel.status()),
            sandbox: server_status
                .as_ref()
                .and_then(|status| status.sandbox.clone()),
            server,
            server_status,
            readiness: self.readiness(),
            last_calls: last_calls.unwrap_or_default(),
            warnings,
        }
    }

    fn tunnel_status(&self, config: &Config, child: Child) -> Tunnel {
        let facts = self.facts.borrow();
        let found = facts.as_ref().and_then(|facts| facts.tunnel.as_ref());
        let health = found.and_then(|tunnel| tunnel.health.as_ref());
        let relayed = found.and_then(|tunnel| tunnel.relayed).unwrap_or_default();
        let configured = config.tunnel.id.is_some();
        let client = match plan::uses_official(config) {
            true => "official",
            false => "builtin",
        };
        Tunnel {
            configured,
            id: config.tunnel.id.as_deref().map(shortened),
            client: configured.then(|| client.to_owned()),
            child,
            ready: health.map(|health| health.troubles.is_empty()),
            last_good_poll_s: health
                .and_then(|health| health.last_good_poll)
                .map(|age| age.as_secs()),
            next_try: health
                .and_then(|health| health.next_try)
                .filter(|at| *at > SystemTime::now())
                .map(hands_control::rfc3339),
            last_answered_s: relayed.answered.map(|age| age.as_secs()),
            at_work_s: relayed.at_work.map(|age| age.as_secs()),
        }
    }
}

/// Enough to tell tunnels apart; whoever has the whole id and a key could serve it.
fn shortened(id: &str) -> String {
    match id.char_indices().nth(14) {
        Some((at, _)) => format!("{}…", &id[..at]),
        None => id.to_owned(),
    }
}

/// Where the trail of this home lies.
pub(crate) fn folders(home: &Home) -> Folders {
    Folders {
        logs: home.logs_dir(),
        trail: home.trail_dir(),
        recovery: home.recovery_dir(),
    }
}

fn last_calls(home: &Home) -> Vec<Call> {
    let filter = Filter {
        event: Some(Event::Result),
        ..Filter::default()
    };
    let items = hands_activity::read_last(&folders(home), crate::limits::LAST_CALLS, &filter);
    let records = items.unwrap_or_default().into_iter();
    records
        .filter_map(|item| match item {
            Item::Record(record) => Some(Call {
                ts: record.ts.unwrap_or_default(),
                tool: record.tool.unwrap_or_default(),
                code: record.code.unwrap_or_default(),
                duration_ms: record.duration_ms,
            }),
            Item::Note(_) => None,
        })
        .collect()
}

/// A client of a socket, that gives up soon.
pub(crate) async fn ask(path: &Path) -> Option<Client> {
    let client = Client::connect(path).await.ok()?;
    Some(client.with_timeout(crate::limits::ASK_SERVER))
}
