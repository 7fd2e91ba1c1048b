//! Reading the configuration again, and bringing what runs into line with it.

use crate::core::{Core, Reload, Settings};
use crate::notify;
use crate::readiness;
use hands_config::{Config, Env, Flags};
use hands_control::ApiError;
use hands_control::types::daemon::{ChildState, Done};
use serde_json::json;
use std::sync::{Arc, PoisonError};
use tokio::sync::mpsc;

/// Reloads whenever somebody wants it, one after the other, until the daemon stops.
pub(crate) async fn serve(core: Arc<Core>, env: Env, mut wishes: mpsc::Receiver<Reload>) {
    loop {
        tokio::select! {
            () = core.stop.cancelled() => return,
            wish = wishes.recv() => {
                let Some(answer) = wish else { return };
                notify::reloading();
                let result = reload(&core, &env).await;
                notify::ready();
                // Whoever asked may be gone.
                let _ = answer.send(result);
            }
        }
    }
}

async fn reload(core: &Arc<Core>, env: &Env) -> Result<Done, ApiError> {
    let (home, reading) = (core.home.clone(), env.clone());
    let loaded =
        tokio::task::spawn_blocking(move || hands_config::load(&home, &reading, &Flags::default()))
            .await;
    let loaded = match loaded {
        Ok(Ok(loaded)) => loaded,
        Ok(Err(error)) => {
            let message = format!(
                "the configuration cannot be used, so the one before stays in force: {error}"
            );
            core.recorder
                .note("reload_failed", json!({"reason": error.to_string()}));
            // Whoever asked by a signal hears no answer; the status tells it.
            core.settings
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .refused = Some(error.to_string());
            return Err(
                ApiError::bad_request(message).hint("`handsctl config check` says what is wrong")
            );
        }
        Err(why) => {
            return Err(ApiError::internal(format!(
                "reading the configuration: {why}"
            )));
        }
    };
    let before = core.config();
    let after = Arc::new(loaded.config);
    *core
        .settings
        .write()
        .unwrap_or_else(PoisonError::into_inner) = Settings {
        config: Arc::clone(&after),
        warnings: loaded.warnings.clone(),
        refused: None,
    };
    let changes = changes(
        &before,
        &after,
        core.server.status().state,
        core.tunnel.status().state,
    );
    core.recorder
        .note("reload", json!({"changed": changes.names()}));
    apply(core, &changes, &after);
    Ok(Done {
        message: changes.text(),
        warnings: loaded.warnings,
    })
}

/// What is to be brought into line.
#[derive(Debug, PartialEq, Eq)]
struct Changes {
    server: bool,
    tunnel: bool,
    http: bool,
}

impl Changes {
    fn names(&self) -> Vec<&'static str> {
        let all = [
            (self.server, "server"),
            (self.tunnel, "tunnel"),
            (self.http, "http"),
        ];
        all.into_iter()
            .filter(|(changed, _)| *changed)
            .map(|(_, name)| name)
            .collect()
    }

    fn text(&self) -> String {
        match self.names().as_slice() {
            [] => "the configuration was read; nothing that runs is concerned".to_owned(),
            names => format!(
                "the configuration was read; brought into line: {}",
                names.join(", ")
            ),
        }
    }
}

/// A child that waits for the operator is tried again at once: the file may be what was mended, even where it did not change.
fn changes(before: &Config, after: &Config, server: ChildState, tunnel: ChildState) -> Changes {
    let of_server = |config: &Config| {
        let mut config = config.clone();
        config.http = Config::default().http;
        config.tunnel = Config::default().tunnel;
        config
    };
    Changes {
        server: of_server(before) != of_server(after) || server == ChildState::NeedsOperator,
        tunnel: before.tunnel != after.tunnel || tunnel == ChildState::NeedsOperator,
        http: before.http != after.http,
    }
}

/// The children follow after the answer: ending one may take longer than anyone waits.
fn apply(core: &Arc<Core>, changes: &Changes, after: &Config) {
    if changes.server || changes.tunnel {
        // What was found of the processes before says nothing of those to come.
        let local_only = after.tunnel.id.is_none();
        core.readiness.send_replace(readiness::changing(local_only));
        core.facts.send_replace(None);
    }
    if changes.http {
        core.listen.send_replace(after.http.listen);
    }
    if changes.server {
        let server = core.server.clone();
        tokio::spawn(async move { server.replace().await });
    }
    if changes.tunnel {
        // Without a tunnel's id the plan is to run none.
        let tunnel = core.tunnel.clone();
        tokio::spawn(async move { tunnel.replace().await });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn only_what_is_concerned_is_restarted() {
        let before = Config::default();
        let well = ChildState::Running;
        let names =
            |after: &Config, server, tunnel| changes(&before, after, server, tunnel).names();
        assert_eq!(names(&before, well, well), [""; 0]);
        assert_eq!(names(&before, ChildState::NeedsOperator, well), ["server"]);
        assert_eq!(names(&before, well, ChildState::NeedsOperator), ["tunnel"]);
        let mut after = before.clone();
        after.workspaces = vec![PathBuf::from("/w")];
        assert_eq!(names(&after, well, well), ["server"]);
        let mut after = before.clone();
        after.tunnel.id = Some("tunnel_1".to_owned());
        assert_eq!(names(&after, well, well), ["tunnel"]);
        after.http.listen.set_port(1);
        assert_eq!(names(&after, well, well), ["tunnel", "http"]);
    }
}
