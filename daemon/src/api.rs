//! The daemon's side of the control API.

use crate::core::Core;
use crate::servers;
use hands_control::types::daemon::{Done, Restart, What};
use hands_control::{ApiError, Handler, Reply, Request};
use hyper::Method;
use serde_json::json;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Answers `/v1/…` on the daemon's socket.
pub(crate) struct Api(pub(crate) Arc<Core>);

impl Handler for Api {
    async fn handle(&self, request: Request) -> Reply {
        let is_get = request.method == Method::GET;
        let is_post = request.method == Method::POST;
        let run = self.0.home.run_dir();
        match request.path.as_str() {
            "/v1/status" if is_get => Reply::of(&self.0.status().await),
            "/v1/readiness" if is_get => Reply::of(&self.0.readiness()),
            "/v1/sessions" if is_get => {
                let tunnel = self.0.tunnel.status().pid;
                Reply::of(&servers::sessions(&run, tunnel).await)
            }
            "/v1/grants" if is_get => Reply::of(&servers::grants(&run).await),
            "/v1/events" if is_get => self.events(),
            "/v1/stop" if is_post => self.stop(),
            "/v1/reload" if is_post => self.reload().await,
            "/v1/restart" if is_post => match request.json() {
                Ok(restart) => self.restart(restart),
                Err(error) => error.into(),
            },
            "/v1/status" | "/v1/readiness" | "/v1/sessions" | "/v1/grants" | "/v1/events" => {
                ApiError::method("GET").into()
            }
            "/v1/stop" | "/v1/reload" | "/v1/restart" => ApiError::method("POST").into(),
            path => ApiError::not_found(path).into(),
        }
    }
}

impl Api {
    fn stop(&self) -> Reply {
        self.0.recorder.note("stop_asked", json!({"by": "control"}));
        self.0.stop.cancel();
        done(format!("handsd (pid {}) is stopping", std::process::id()))
    }

    /// Begun here, and done after the answer: ending a child may take longer than anyone waits.
    fn restart(&self, restart: Restart) -> Reply {
        let (name, handle) = match restart.what {
            What::Server => ("server", self.0.server.clone()),
            What::Tunnel if self.0.config().tunnel.id.is_none() => {
                let error =
                    ApiError::conflict("no tunnel is configured, so there is none to restart");
                return error.hint("run `handsctl tunnel setup`").into();
            }
            What::Tunnel => ("tunnel", self.0.tunnel.clone()),
        };
        self.0
            .recorder
            .note("restart_asked", json!({"child": name}));
        tokio::spawn(async move { handle.replace().await });
        done(format!("the {name} is being restarted"))
    }

    async fn reload(&self) -> Reply {
        let (answer, result) = oneshot::channel();
        let sent = self.0.reloads.send(answer).await;
        match (sent, result.await) {
            (Ok(()), Ok(Ok(done))) => Reply::of(&done),
            (Ok(()), Ok(Err(error))) => error.into(),
            _ => ApiError::new("unavailable", "the daemon is stopping").into(),
        }
    }

    fn events(&self) -> Reply {
        let (sender, reply) = Reply::stream();
        let mut events = self.0.recorder.listen();
        let stop = self.0.stop.clone();
        tokio::spawn(async move {
            loop {
                let event = tokio::select! {
                    event = events.next() => event,
                    () = sender.closed() => return,
                    () = stop.cancelled() => return,
                };
                let Some(event) = event else { return };
                if !sender.send(&event).await {
                    return;
                }
            }
        });
        reply
    }
}

fn done(message: String) -> Reply {
    let done = Done {
        message,
        warnings: Vec::new(),
    };
    match serde_json::to_value(done) {
        Ok(value) => Reply::Accepted(value),
        Err(why) => ApiError::internal(why.to_string()).into(),
    }
}
