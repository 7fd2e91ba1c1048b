//! Watching the readiness from outside: each time without it, and the delays that were in force meanwhile.

use hands_control::Client;
use hands_control::types::daemon::{Readiness, Status};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(25);

/// Reasons that lie with the control plane; a tunnel on its way up meets its faults as well.
const OTHER_SIDE: &[&str] = &[
    "tunnel_unreachable",
    "tunnel_needs_operator",
    "tunnel_starting",
];

/// A time without readiness.
#[derive(Debug, Clone)]
pub(crate) struct Gap {
    pub(crate) from: Instant,
    pub(crate) to: Instant,
    /// The end of the last delay of ours in force, or the beginning where there was none.
    delayed_until: Instant,
    /// Until when the control plane's faults last.
    plane_until: Option<Instant>,
    /// Why it was not ready, every reason once.
    pub(crate) reasons: Vec<String>,
}

impl Gap {
    /// Time to be ready again, counted from the end of the last delay. The control plane's faults excuse only what
    /// is said to be due to them.
    pub(crate) fn recovery(&self) -> Duration {
        let theirs = |reason: &String| OTHER_SIDE.contains(&reason.as_str());
        let plane = self.plane_until.filter(|_| self.reasons.iter().any(theirs));
        let last = self.delayed_until.max(plane.unwrap_or(self.from));
        self.to.saturating_duration_since(last)
    }
}

#[derive(Debug, Default)]
struct Seen {
    open: Option<Gap>,
    gaps: Vec<Gap>,
    /// When the last daemon was started.
    started: Option<Instant>,
    plane_until: Option<Instant>,
    looks: u64,
}

/// The watch over one home's daemons, one after the other.
pub(crate) struct Watch {
    run: PathBuf,
    seen: Mutex<Seen>,
}

impl Watch {
    pub(crate) fn new(run: PathBuf) -> Arc<Watch> {
        let seen = Mutex::default();
        Arc::new(Watch { run, seen })
    }

    pub(crate) fn start(self: &Arc<Self>) -> tokio::task::JoinHandle<()> {
        let watch = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                watch.look().await;
                tokio::time::sleep(PAUSE).await;
            }
        })
    }

    /// A service manager starts a daemon now.
    pub(crate) fn started(&self) {
        let now = Instant::now();
        let mut seen = self.seen.lock().unwrap();
        seen.started = Some(now);
        if let Some(gap) = &mut seen.open {
            gap.delayed_until = gap.delayed_until.max(now);
        }
    }

    /// A fault of the control plane lasts until then.
    pub(crate) fn plane_until(&self, at: Instant) {
        let mut seen = self.seen.lock().unwrap();
        seen.plane_until = seen.plane_until.max(Some(at));
        let until = seen.plane_until;
        if let Some(gap) = &mut seen.open {
            gap.plane_until = until;
        }
    }

    /// Looks made so far that came to their end.
    pub(crate) fn looks(&self) -> u64 {
        self.seen.lock().unwrap().looks
    }

    pub(crate) fn is_ready(&self) -> bool {
        let seen = self.seen.lock().unwrap();
        seen.looks > 0 && seen.open.is_none()
    }

    /// What is wrong now.
    pub(crate) fn open(&self) -> Option<Gap> {
        self.seen.lock().unwrap().open.clone()
    }

    pub(crate) fn gaps(&self) -> Vec<Gap> {
        self.seen.lock().unwrap().gaps.clone()
    }

    async fn look(&self) {
        let looked_at = Instant::now();
        let socket = hands_control::daemon_socket(&self.run);
        let readiness: Option<Readiness> = ask(&socket, "/v1/readiness").await;
        if readiness.is_some_and(|readiness| readiness.ready) {
            self.was_ready();
            return;
        }
        let status: Option<Status> = ask(&socket, "/v1/status").await;
        let mut seen = self.seen.lock().unwrap();
        let mut ends: Vec<Instant> = Vec::new();
        if let Some(status) = &status {
            let starts = [
                &status.server.next_start,
                &status.tunnel.child.next_start,
                &status.tunnel.next_try,
            ];
            ends.extend(starts.into_iter().flatten().filter_map(|at| instant(at)));
        }
        let (started, plane_until) = (seen.started, seen.plane_until);
        let gap = seen.open.get_or_insert_with(|| Gap {
            from: looked_at,
            to: looked_at,
            delayed_until: started.unwrap_or(looked_at).max(looked_at),
            plane_until,
            reasons: Vec::new(),
        });
        for end in ends {
            gap.delayed_until = gap.delayed_until.max(end);
        }
        let reasons = match &status {
            Some(status) => status
                .readiness
                .reasons
                .iter()
                .map(|r| r.code.clone())
                .collect(),
            None => vec!["no daemon".to_owned()],
        };
        for reason in reasons {
            if !gap.reasons.contains(&reason) {
                gap.reasons.push(reason);
            }
        }
        seen.looks += 1;
    }

    fn was_ready(&self) {
        let mut seen = self.seen.lock().unwrap();
        seen.looks += 1;
        if let Some(mut gap) = seen.open.take() {
            gap.to = Instant::now();
            seen.gaps.push(gap);
        }
    }
}

async fn ask<T: serde::de::DeserializeOwned>(socket: &std::path::Path, path: &str) -> Option<T> {
    let client = Client::connect(socket).await.ok()?;
    let client = client.with_timeout(Duration::from_secs(2));
    client.get(path).await.ok()
}

/// A time of the wall clock on the clock that only goes forward.
fn instant(rfc3339: &str) -> Option<Instant> {
    let at = OffsetDateTime::parse(rfc3339, &Rfc3339).ok()?;
    let left = at - OffsetDateTime::now_utc();
    let now = Instant::now();
    match left.is_negative() {
        true => now.checked_sub(left.unsigned_abs()),
        false => Some(now + left.unsigned_abs()),
    }
}
