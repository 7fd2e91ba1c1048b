//! Signals: SIGTERM and SIGINT stop, SIGHUP reads the configuration again.

use crate::core::Core;
use serde_json::json;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// Listens until the daemon stops.
pub(crate) async fn listen(core: Arc<Core>) {
    let open = |kind| match signal(kind) {
        Ok(signal) => Some(signal),
        Err(why) => {
            tracing::warn!("a signal cannot be listened for: {why}");
            None
        }
    };
    let mut term = open(SignalKind::terminate());
    let mut int = open(SignalKind::interrupt());
    let mut hup = open(SignalKind::hangup());
    loop {
        let name = tokio::select! {
            () = next(&mut term) => "SIGTERM",
            () = next(&mut int) => "SIGINT",
            () = next(&mut hup) => "SIGHUP",
            () = core.stop.cancelled() => return,
        };
        core.recorder.note("signal", json!({"signal": name}));
        if name != "SIGHUP" {
            return core.stop.cancel();
        }
        let (answer, _) = oneshot::channel();
        let _ = core.reloads.send(answer).await;
    }
}

async fn next(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        // It cannot be listened for: it then ends the process by itself.
        None => std::future::pending().await,
    }
}
