//! The server's own control socket, `run/server-PID.sock`: what daemon and `handsctl` may ask it.

use crate::hub::Hub;
use anyhow::Context;
use hands_control::types::server::{
    Calls, Client, Dropped, Grant, Grants, Mode, RecoveryUse, Sandbox, ServerStatus, Session,
    SessionGrant, Sessions,
};
use hands_control::{ApiError, Guard, Handler, Reply, Request, rfc3339, server_socket};
use hands_sandbox::ancestry::descends_from_runner;
use hands_sandbox::canary::Report;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// An open control socket. Close it with [`Desk::close`].
pub struct Desk {
    path: PathBuf,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl Desk {
    /// Opens the socket of this process in the hub's home.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(hub: &Arc<Hub>, mode: Mode) -> anyhow::Result<Self> {
        let path = server_socket(&hub.home.run_dir(), std::process::id());
        let listener = hands_control::bind(&path).context("opening the control socket")?;
        let stop = CancellationToken::new();
        let guard: Guard = Arc::new(descends_from_runner);
        let answers = Arc::new(Answers {
            hub: Arc::clone(hub),
            mode,
        });
        let serving = tokio::spawn(hands_control::serve(listener, answers, guard, stop.clone()));
        Ok(Self {
            path,
            stop,
            serving,
        })
    }

    /// Takes the socket away.
    pub fn close(self) {
        self.stop.cancel();
        self.serving.abort();
        // Of a name that was taken already nothing is to be removed.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// What is answered.
struct Answers {
    hub: Arc<Hub>,
    mode: Mode,
}

impl Handler for Answers {
    async fn handle(&self, request: Request) -> Reply {
        if request.method != "GET" {
            return ApiError::method("GET").into();
        }
        match request.path.as_str() {
            "/v1/status" => Reply::of(&self.status()),
            "/v1/sessions" => Reply::of(&Sessions {
                sessions: self.sessions(),
            }),
            "/v1/grants" => Reply::of(&self.grants()),
            "/v1/metrics" => Reply::of(&self.hub.metrics.snapshot()),
            path => ApiError::not_found(path).into(),
        }
    }
}

/// What the sandbox was seen to stop, as it is told.
pub(crate) fn sandbox(report: &Report) -> Sandbox {
    let state = serde_json::to_value(report.state).ok();
    let state = state.and_then(|state| state.as_str().map(str::to_string));
    Sandbox {
        backend: report.backend.clone(),
        state: state.unwrap_or_default(),
        reason: report.reason.clone(),
        hint: report.hint.clone(),
    }
}

impl Answers {
    fn status(&self) -> ServerStatus {
        let hub = &self.hub;
        let sandbox = hub.canary.get().map(sandbox);
        let workspaces = hub.config.workspaces.iter();
        ServerStatus {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").into(),
            started_at: rfc3339(hub.started_at),
            mode: self.mode,
            sandbox,
            sessions: hub.sessions().len() as u64,
            calls: self.calls(),
            workspaces: workspaces.map(|w| w.display().to_string()).collect(),
            // It may have to be counted.
            recovery: Some(tokio::task::block_in_place(|| self.recovery())),
        }
    }

    fn recovery(&self) -> RecoveryUse {
        let (bytes, max_bytes) = self.hub.recovery.usage();
        let dropped = self.hub.recovery.last_dropped();
        RecoveryUse {
            bytes,
            max_bytes,
            last_dropped: dropped.map(|last| Dropped {
                ts: last.ts,
                by: last.by,
                entries: last.entries,
                bytes: last.bytes,
                until: last.until,
            }),
        }
    }

    fn calls(&self) -> Calls {
        let by_code = self.hub.answered();
        Calls {
            total: by_code.values().sum(),
            in_flight: self.hub.in_flight(),
            by_code,
        }
    }

    fn sessions(&self) -> Vec<Session> {
        let ago = |at: Option<Instant>| at.map(|at| at.elapsed().as_millis() as u64);
        let session = |session: Arc<crate::session::Session>| Session {
            peer_pid: session.peer(),
            through_tunnel: false,
            asked_ms_ago: ago(session.pulse().asked),
            answered_ms_ago: ago(session.pulse().answered),
            at_work_ms: ago(session.pulse().at_work_since),
            id: session.id.clone(),
            server_pid: std::process::id(),
            client: session
                .client()
                .map(|(name, version)| Client { name, version }),
            opened_at: rfc3339(session.opened_at),
            calls: session.calls(),
            grants: session.open_folders().iter().map(grant).collect(),
        };
        self.hub.sessions().into_iter().map(session).collect()
    }

    fn grants(&self) -> Grants {
        let of_session = |session: Session| {
            let id = session.id;
            session.grants.into_iter().map(move |grant| SessionGrant {
                session: id.clone(),
                grant,
            })
        };
        Grants {
            grants: self.sessions().into_iter().flat_map(of_session).collect(),
        }
    }
}

fn grant(grant: &hands_policy::permission::Grant) -> Grant {
    Grant {
        folder: grant.folder.display().to_string(),
        purpose: grant.purpose.to_string(),
        expires_at: rfc3339(grant.expires_at),
    }
}
