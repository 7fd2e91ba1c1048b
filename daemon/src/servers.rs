//! Asking the servers of this home, the daemon's own and those that stand alone, over their sockets.

use crate::core::ask;
use crate::probe;
use crate::process;
use hands_control::types::server::{Grants, ServerStatus, Sessions};
use hands_control::{server_socket, server_sockets};
use hands_metrics::{Registry, Snapshot};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// What the server with that process id says of itself.
pub(crate) async fn status(run: &Path, pid: u32) -> Option<ServerStatus> {
    let client = ask(&server_socket(run, pid)).await?;
    client.get("/v1/status").await.ok()
}

/// The sessions of the server with that process id.
pub(crate) async fn of_one(run: &Path, pid: u32) -> Option<Sessions> {
    let client = ask(&server_socket(run, pid)).await?;
    client.get("/v1/sessions").await.ok()
}

/// The sessions of all servers, without the daemon's own; those of the relays that the process `tunnel` started are marked.
pub(crate) async fn sessions(run: &Path, tunnel: Option<u32>) -> Sessions {
    let mut all = Sessions::default();
    for (pid, found) in each::<Sessions>(run, "/v1/sessions").await {
        for mut session in found.sessions {
            session.server_pid = pid;
            let own = session
                .client
                .as_ref()
                .is_some_and(|client| client.name == probe::NAME);
            let parent = session.peer_pid.and_then(process::parent);
            session.through_tunnel = parent.is_some() && parent == tunnel;
            if !own {
                all.sessions.push(session);
            }
        }
    }
    all
}

/// The grants of all servers.
pub(crate) async fn grants(run: &Path) -> Grants {
    let mut all = Grants::default();
    for (_, found) in each::<Grants>(run, "/v1/grants").await {
        all.grants.extend(found.grants);
    }
    all
}

async fn each<T: serde::de::DeserializeOwned + Send + 'static>(
    run: &Path,
    what: &'static str,
) -> Vec<(u32, T)> {
    let mut asking = tokio::task::JoinSet::new();
    for (pid, path) in server_sockets(run) {
        asking.spawn(async move {
            let Some(client) = ask(&path).await else {
                // Left by a server that was killed.
                if !process::exists(pid) {
                    let _ = std::fs::remove_file(&path);
                }
                return None;
            };
            client.get(what).await.ok().map(|found| (pid, found))
        });
    }
    let mut all: Vec<(u32, T)> = asking.join_all().await.into_iter().flatten().collect();
    all.sort_by_key(|(pid, _)| *pid);
    all
}

/// Which servers' figures are in the registry.
#[derive(Debug, Default)]
pub(crate) struct Scraped(Mutex<BTreeSet<u32>>);

impl Scraped {
    /// Takes in the figures of all servers that answer; those of one that is gone are forgotten.
    pub(crate) async fn refresh(&self, run: &Path, metrics: &Registry) {
        let found = each::<Snapshot>(run, "/v1/metrics").await;
        let mut seen = BTreeSet::new();
        for (pid, snapshot) in found {
            match metrics.merge(&source(pid), &snapshot) {
                Ok(_) => drop(seen.insert(pid)),
                Err(why) => tracing::debug!("figures of server {pid}: {why}"),
            }
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let missing: Vec<u32> = known.difference(&seen).copied().collect();
        for pid in missing {
            // One that is only slow keeps its figures.
            if process::exists(pid) {
                seen.insert(pid);
            } else {
                metrics.forget(&source(pid));
            }
        }
        *known = seen;
    }
}

fn source(pid: u32) -> String {
    format!("server-{pid}")
}
