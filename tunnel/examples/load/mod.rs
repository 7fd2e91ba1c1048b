//! What the programs that measure share: a client that does nothing, and taking the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hands_testkit::{ControlPlane, Planner, Script};
use hands_tunnel::control_plane::{ControlPlane as Client, Endpoint};
use hands_tunnel::jsonrpc::{RawObject, raw};
use hands_tunnel::secret::ApiKey;
use hands_tunnel::wire::{Answer, Work};
use serde_json::{Value, json};

/// Calls at once where the rate is measured.
pub(crate) const AT_ONCE: usize = 50;
/// Calls one at a time.
const TRIPS: usize = 500;

/// What was measured.
pub(crate) struct Figures {
    /// Half of the calls took no longer.
    pub(crate) p50: Duration,
    /// Nor did 99 of 100.
    pub(crate) p99: Duration,
    /// Calls a second with [`AT_ONCE`] at a time.
    pub(crate) rate: f64,
}

/// A control plane that keeps no record of what went over it.
pub(crate) async fn plane() -> Arc<ControlPlane> {
    let script = Script {
        record: false,
        ..Script::default()
    };
    Arc::new(ControlPlane::start(script).await)
}

/// Calls a tool one at a time, and then `calls` times with many at once. `check` panics where an
/// answer is not what it should be.
pub(crate) async fn measure(
    plane: &Arc<ControlPlane>,
    tool: &'static str,
    arguments: &Value,
    calls: usize,
    check: fn(&Value),
) -> Figures {
    let planner = Planner::new(plane);
    let mut trips: Vec<Duration> = Vec::new();
    for _ in 0..TRIPS {
        let began = Instant::now();
        let answer = planner.call(tool, arguments.clone()).answer().await;
        trips.push(began.elapsed());
        check(answer.json());
    }
    trips.sort();

    let left = Arc::new(AtomicUsize::new(calls));
    let began = Instant::now();
    let workers: Vec<_> = (0..AT_ONCE)
        .map(|_| {
            let (plane, left) = (Arc::clone(plane), Arc::clone(&left));
            let arguments = arguments.clone();
            tokio::spawn(async move {
                let planner = Planner::new(&plane);
                while left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                    .is_ok()
                {
                    let answer = planner.call(tool, arguments.clone()).answer().await;
                    check(answer.json());
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.expect("no call fails");
    }
    Figures {
        p50: trips[TRIPS / 2],
        p99: trips[TRIPS * 99 / 100],
        rate: calls as f64 / began.elapsed().as_secs_f64(),
    }
}

/// Polls and posts from inside this program, and answers each command at once: what remains is
/// the control plane's own round trip.
pub(crate) async fn null_client(plane: Arc<ControlPlane>) {
    let endpoint = Endpoint {
        base_url: plane.base_url(),
        tunnel_id: plane.tunnel_id().into(),
        key: ApiKey::new(plane.api_key()).expect("the key is one"),
        proxy: None,
        ca_bundle: None,
        organization: None,
        poll_timeout: Duration::from_secs(30),
        poll_guardrail: Duration::from_secs(5),
    };
    let client = Client::new(&endpoint).expect("the client can be made");
    loop {
        let polled = client.poll(25, || ()).await.expect("a poll is answered");
        for command in polled.into_iter().flatten() {
            let client = client.clone();
            tokio::spawn(async move {
                let Work::JsonRpc(message) = &command.work else {
                    return;
                };
                let mut answer = RawObject::default();
                let id = message.get("id").expect("a request has an id");
                answer.set("id", id.to_owned());
                answer.set("result", raw(&json!({"content": []})));
                let body = Answer::response(raw(&answer)).to_body(&command.address);
                let posted = client.post(&command.address, body.into()).await;
                posted.expect("a post is answered");
            });
        }
    }
}
