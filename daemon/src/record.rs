//! What happens, to all who want to know: the lifecycle log, the diagnostics log, and readers of events.

use crate::limits;
use hands_activity::Lifecycle;
use hands_control::types::daemon::Event;
use serde_json::{Value, json};
use std::sync::mpsc;
use tokio::sync::broadcast;

/// Takes notes; cheap to clone. The lifecycle log is written on a thread of its own, for writing it may wait for a lock.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    notes: mpsc::Sender<Option<(String, Value)>>,
    events: broadcast::Sender<Event>,
}

/// Waits for the notes taken so far when dropped.
#[derive(Debug)]
pub(crate) struct Writer {
    notes: mpsc::Sender<Option<(String, Value)>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Recorder {
    pub(crate) fn start(lifecycle: Lifecycle) -> (Self, Writer) {
        Self::with(move |event, detail| {
            if let Err(why) = lifecycle.note(event, detail) {
                tracing::warn!("the lifecycle log: {why}");
            }
        })
    }

    /// One that keeps nothing, for tests.
    #[cfg(test)]
    pub(crate) fn silent() -> (Self, Writer) {
        Self::with(|_, _| {})
    }

    fn with(keep: impl Fn(&str, Value) + Send + 'static) -> (Self, Writer) {
        let (notes, to_keep) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            // Nothing more comes after a note that is none.
            while let Ok(Some((event, detail))) = to_keep.recv() {
                let event: String = event;
                keep(&event, detail);
            }
        });
        let (events, _) = broadcast::channel(limits::EVENTS_KEPT);
        let writer = Writer {
            notes: notes.clone(),
            thread: Some(thread),
        };
        (Self { notes, events }, writer)
    }

    /// Something that belongs into the lifecycle log.
    pub(crate) fn note(&self, event: &str, detail: Value) {
        tracing::info!("{event} {detail}");
        let _ = self.notes.send(Some((event.to_owned(), detail.clone())));
        self.event(event, detail);
    }

    /// Something for readers of events only.
    pub(crate) fn event(&self, event: &str, detail: Value) {
        // Nobody may be listening.
        let _ = self.events.send(Event {
            ts: hands_control::now(),
            event: event.to_owned(),
            detail,
        });
    }

    /// Reads events from now on.
    pub(crate) fn listen(&self) -> Listener {
        Listener(self.events.subscribe())
    }
}

/// A reader of events.
pub(crate) struct Listener(broadcast::Receiver<Event>);

impl Listener {
    /// The next event; none once the daemon ends.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        match self.0.recv().await {
            Ok(event) => Some(event),
            Err(broadcast::error::RecvError::Closed) => None,
            Err(broadcast::error::RecvError::Lagged(count)) => Some(Event {
                ts: hands_control::now(),
                event: "lost".to_owned(),
                detail: json!({"count": count}),
            }),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.notes.send(None);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
