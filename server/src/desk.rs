//! The server's own control socket, `run/server-PID.sock`: what daemon and `handsctl` may ask it.

use crate::consent::{self, ConsentError};
use crate::hub::Hub;
use crate::limits;
use anyhow::Context;
use hands_control::types::server::{
    Calls, Client, Dropped, Grant, GrantRequest, Grants, Mode, Pending, RecoveryUse, RevokeRequest,
    Revoked, Sandbox, ServerStatus, Session, SessionGrant, Sessions,
};
use hands_control::{ApiError, Guard, Handler, Reply, Request, rfc3339, server_socket};
use hands_policy::paths::RefusalKind;
use hands_policy::permission;
use hands_sandbox::ancestry::descends_from_runner;
use hands_sandbox::canary::Report;
use serde::de::DeserializeOwned;
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
    looking: JoinHandle<()>,
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
            looking: tokio::spawn(look_for_lapsed(Arc::clone(hub))),
        })
    }

    /// Takes the socket away.
    pub fn close(self) {
        self.stop.cancel();
        self.serving.abort();
        self.looking.abort();
        // Of a name that was taken already nothing is to be removed.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Writes down, soon after, what time has ended.
async fn look_for_lapsed(hub: Arc<Hub>) {
    let mut ticks = tokio::time::interval(limits::LAPSE_LOOK);
    loop {
        ticks.tick().await;
        let hub = Arc::clone(&hub);
        let look = move || hub.sessions().iter().for_each(|s| consent::lapse(s));
        // One that panics has said so; the next look is in time.
        let _ = tokio::task::spawn_blocking(look).await;
    }
}

/// What is answered.
struct Answers {
    hub: Arc<Hub>,
    mode: Mode,
}

/// Paths that are only read.
const PATHS: &[&str] = &["/v1/status", "/v1/sessions", "/v1/metrics"];

impl Handler for Answers {
    async fn handle(&self, request: Request) -> Reply {
        let is_get = request.method == "GET";
        let is_post = request.method == "POST";
        match request.path.as_str() {
            "/v1/grants" if is_post => self.grant(&request).await,
            "/v1/grants/revoke" if is_post => self.revoke(&request).await,
            "/v1/grants/revoke" => ApiError::method("POST").into(),
            "/v1/grants" if !is_get => ApiError::method("GET and POST").into(),
            path if !is_get && PATHS.contains(&path) => ApiError::method("GET").into(),
            path if !is_get => ApiError::not_found(path).into(),
            "/v1/status" => Reply::of(&self.status()),
            "/v1/sessions" => Reply::of(&Sessions {
                sessions: self.sessions(),
            }),
            "/v1/grants" => Reply::of(&self.grants()),
            "/v1/metrics" => {
                // It may have to be counted.
                tokio::task::block_in_place(|| self.hub.measure_recovery());
                Reply::of(&self.hub.metrics.snapshot())
            }
            path => ApiError::not_found(path).into(),
        }
    }
}

/// What the sandbox was seen to stop, as it is told.
pub(crate) fn sandbox(report: &Report) -> Sandbox {
    let word = |value: serde_json::Result<serde_json::Value>| {
        let value = value.ok()?;
        value.as_str().map(str::to_string)
    };
    Sandbox {
        backend: report.backend.clone(),
        state: word(serde_json::to_value(report.state)).unwrap_or_default(),
        cause: report
            .cause
            .and_then(|cause| word(serde_json::to_value(cause))),
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
        let (held, max_bytes) = self.hub.recovery.usage();
        let dropped = self.hub.recovery.last_dropped();
        RecoveryUse {
            bytes: held.bytes,
            max_bytes,
            entries: held.entries,
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
            permissions: session.config.permissions.mode.as_str().into(),
            grants: grants_of(&session),
            pending: session.grants().pending().iter().map(pending).collect(),
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

/// The person's word, over the socket.
impl Answers {
    async fn grant(&self, request: &Request) -> Reply {
        let (wish, session) = match self.wish::<GrantRequest>(request, |wish| &wish.session) {
            Ok(found) => found,
            Err(error) => return error.into(),
        };
        let peer = request.peer;
        blocking(move || {
            let granted = consent::grant(&session, &wish.folders, wish.for_s, peer);
            let granted = granted.map_err(refused)?;
            let of_session = |one: &permission::Grant| SessionGrant {
                session: session.id.clone(),
                grant: grant(&session, one),
            };
            Ok(Reply::of(&Grants {
                grants: granted.iter().map(of_session).collect(),
            }))
        })
        .await
    }

    async fn revoke(&self, request: &Request) -> Reply {
        let (wish, session) = match self.wish::<RevokeRequest>(request, |wish| &wish.session) {
            Ok(found) => found,
            Err(error) => return error.into(),
        };
        let peer = request.peer;
        blocking(move || {
            let (ended, warnings) = consent::revoke(&session, wish.folders.as_deref(), peer);
            Ok(Reply::of(&Revoked {
                session: session.id.clone(),
                grants: ended.grants.iter().map(|g| grant(&session, g)).collect(),
                nonces: ended.nonces.iter().map(pending).collect(),
                warnings,
            }))
        })
        .await
    }

    /// The body, and the session that it names.
    fn wish<T: DeserializeOwned>(
        &self,
        request: &Request,
        id: impl Fn(&T) -> &String,
    ) -> Result<(T, Arc<crate::session::Session>), ApiError> {
        let wish: T = request.json()?;
        let mut open = self.hub.sessions().into_iter();
        match open.find(|session| session.id == *id(&wish)) {
            Some(session) => Ok((wish, session)),
            None => {
                let id: String = id(&wish).chars().take(limits::NAME_BYTES).collect();
                let message = format!("no session {id:?} is open in this server");
                Err(ApiError::new("not_found", message))
            }
        }
    }
}

/// Runs what waits for the disk off the threads that serve.
async fn blocking(work: impl FnOnce() -> Result<Reply, ApiError> + Send + 'static) -> Reply {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(reply)) => reply,
        Ok(Err(error)) => error.into(),
        Err(why) => ApiError::internal(format!("the request was not carried out: {why}")).into(),
    }
}

fn refused(why: ConsentError) -> ApiError {
    let message = why.to_string();
    match why {
        ConsentError::Folder(refusal) => {
            let error = match refusal.kind {
                RefusalKind::NotFound => ApiError::new("not_found", message),
                _ => ApiError::bad_request(message),
            };
            match refusal.hint {
                Some(hint) => error.hint(hint),
                None => error,
            }
        }
        ConsentError::Over => ApiError::new("not_found", message),
        ConsentError::Trail(_) => ApiError::internal(message),
        ConsentError::Time { .. } | ConsentError::NoFolder => ApiError::bad_request(message),
    }
}

fn grants_of(session: &crate::session::Session) -> Vec<Grant> {
    let open = session.grants().list();
    open.iter().map(|one| grant(session, one)).collect()
}

fn grant(session: &crate::session::Session, grant: &permission::Grant) -> Grant {
    let mut workspaces = session.policy.workspaces().iter();
    Grant {
        folder: grant.folder.display().to_string(),
        purpose: grant.purpose.to_string(),
        direct_only: workspaces.any(|root| root.real == grant.folder),
        by: grant.giver.as_str().into(),
        granted_at: rfc3339(grant.granted_at),
        expires_at: rfc3339(grant.expires_at),
    }
}

fn pending(asked: &permission::Pending) -> Pending {
    Pending {
        folder: asked.folder.display().to_string(),
        act: asked.act.to_string(),
        asked_at: rfc3339(asked.asked_at),
        expires_at: asked.expires_at.map(rfc3339),
    }
}
