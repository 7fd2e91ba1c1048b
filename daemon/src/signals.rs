//! Signals: SIGTERM and SIGINT stop, SIGHUP reads the configuration again.

use crate::core::Core;
use serde_json::json;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// The signals that mean something to the daemon. Opened before anything else is, so that no
/// signal finds the daemon half started and ends it with its children running.
pub(crate) struct Signals {
    term: Option<Signal>,
    int: Option<Signal>,
    hup: Option<Signal>,
}

impl Signals {
    pub(crate) fn open() -> Self {
        let open = |kind| match signal(kind) {
            Ok(signal) => Some(signal),
            Err(why) => {
                tracing::warn!("a signal cannot be listened for: {why}");
                None
            }
        };
        Self {
            term: open(SignalKind::terminate()),
            int: open(SignalKind::interrupt()),
            hup: open(SignalKind::hangup()),
        }
    }
}

/// Listens until the daemon stops.
pub(crate) async fn listen(mut signals: Signals, core: Arc<Core>) {
    loop {
        let name = tokio::select! {
            () = next(&mut signals.term) => "SIGTERM",
            () = next(&mut signals.int) => "SIGINT",
            () = next(&mut signals.hup) => "SIGHUP",
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
