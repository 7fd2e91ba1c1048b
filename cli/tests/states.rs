//! What `handsctl status` says in each state that a person may find the daemon in.
#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests are not marked as tests.

mod common;

use common::{Ended, Place, built, chmod, with_input};
use hands_testkit::{ControlPlane, Endpoint, Fault, Planner, Script, Span};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(40);

/// A place whose daemon, if any, is stopped at the end.
struct Running(Place);

impl Running {
    fn new(plane: &ControlPlane) -> Running {
        for name in ["handsd", "hands-mcp", "hands-tunnel"] {
            built(name);
        }
        let place = Place::new();
        let url = plane.base_url();
        place.config(&format!(
            "[tunnel]\nbase_url = \"{url}\"\npoll_timeout_s = 2\n[http]\nlisten = \"127.0.0.1:0\"\n"
        ));
        chmod(&place.home().config_file(), 0o600);
        Running(place)
    }

    fn command(&self, args: &[&str]) -> Command {
        self.0.command(args)
    }

    fn run(&self, args: &[&str]) -> Ended {
        Ended::of(self.command(args).output().unwrap())
    }

    fn setup(&self, plane: &ControlPlane, key: &str) -> Ended {
        let words = ["tunnel", "setup", "--id", plane.tunnel_id()];
        with_input(self.command(&words), key)
    }

    fn json(&self) -> Value {
        self.run(&["status", "--json"]).json()
    }

    /// Waits for a screen that holds all of these, and gives it.
    fn until(&self, parts: &[&str]) -> Ended {
        let deadline = Instant::now() + SOON;
        loop {
            let ended = self.run(&["status"]);
            let all = format!("{}{}", ended.out, ended.err);
            if parts.iter().all(|part| all.contains(part)) {
                return ended;
            }
            assert!(Instant::now() < deadline, "never {parts:?}: {ended:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.run(&["down"]);
    }
}

fn kill(pid: &Value) {
    let pid = pid.as_i64().and_then(|pid| Pid::from_raw(pid as i32));
    kill_process(pid.unwrap(), Signal::KILL).unwrap();
}

/// How often the longest reason for not being ready is on the screen.
fn said_once(ended: &Ended, text: &str) {
    assert_eq!(ended.out.matches(text).count(), 1, "{}", ended.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_screen_tells_the_truth_in_every_state() {
    let plane = ControlPlane::start(Script::default()).await;
    let place = Running::new(&plane);
    let ended = place.run(&["status"]);
    assert!(
        ended.code == Some(3) && ended.err.contains("handsctl up"),
        "{ended:?}"
    );
    place.run(&["up"]);
    let ended = place.until(&["ready     yes, local only", "not configured"]);
    assert!(ended.out.contains("handsctl tunnel setup"), "{ended:?}");

    // A wrong key.
    let ended = place.setup(&plane, "sk-wrong");
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let ended = place.until(&["ready     no", "needs you", "401", "handsctl tunnel setup"]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    said_once(&ended, "the API key was refused");
    let ended = place.setup(&plane, plane.api_key());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let ended = place.until(&["ready     yes\n", "tunnel    running"]);
    assert!(
        !ended.out.contains("last answered"),
        "nobody asked yet: {ended:?}"
    );

    // A call.
    let planner = Planner::new(&plane);
    planner.initialize().await;
    planner
        .call("bash", json!({"command": "echo hello"}))
        .text()
        .await;
    place.until(&[
        "last answered",
        "1 answered",
        "bash ",
        "last good poll",
        "sessions  1: ",
    ]);
    let status = place.json();
    assert!(
        status["tunnel"]["last_answered_s"].as_u64() < Some(60),
        "{status}"
    );
    assert_eq!(status["sessions"][0]["through_tunnel"], true, "{status}");

    // The service is in trouble, or away: it is said whose turn it is, and nothing is restarted.
    plane.inject(Endpoint::Poll, Fault::Status(503), Span::UntilHealed);
    let ended = place.until(&["ready     no", "answered 503", "not working"]);
    said_once(&ended, "the control plane answered 503");
    assert!(ended.out.contains("handsctl tunnel test"), "{ended:?}");
    // The record can be read all the same: that is no word of the polls.
    let ended = place.run(&["tunnel", "test"]);
    assert!(
        ended.code == Some(1)
            && ended.out.contains("503")
            && !ended.out.contains("the tunnel works"),
        "{ended:?}"
    );
    plane.heal();
    place.until(&["ready     yes\n"]);
    let ended = place.run(&["tunnel", "test"]);
    assert!(
        ended.code == Some(0) && ended.out.contains("the tunnel works"),
        "{ended:?}"
    );

    // Polls are refused: a restart says so as soon as it is known.
    plane.inject(Endpoint::Poll, Fault::Status(403), Span::UntilHealed);
    place.until(&["ready     no", "needs you"]);
    let began = Instant::now();
    let ended = place.run(&["restart", "tunnel"]);
    assert!(
        ended.code == Some(4) && ended.out.contains("403"),
        "{ended:?}"
    );
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    plane.heal();
    place.run(&["restart", "tunnel"]);
    place.until(&["ready     yes\n"]);

    // The daemon hangs.
    let daemon = place.json()["daemon"]["pid"].clone();
    let pid = daemon.as_i64().and_then(|pid| Pid::from_raw(pid as i32));
    kill_process(pid.unwrap(), Signal::STOP).unwrap();
    let ended = place.run(&["status"]);
    kill_process(pid.unwrap(), Signal::CONT).unwrap();
    assert!(
        ended.err.contains(&format!("`kill -9 {daemon}`")),
        "{ended:?}"
    );
    place.until(&["ready     yes\n"]);
    let address = plane.base_url().to_owned();
    drop(plane);
    let ended = place.until(&["ready     no", &address, "Connection refused"]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert_eq!(place.json()["tunnel"]["child"]["restarts"], 0);

    // The server is killed: said, and soon mended.
    let before = place.json();
    kill(&before["server"]["pid"]);
    let deadline = Instant::now() + SOON;
    while place.json()["server"]["pid"] == before["server"]["pid"] {
        assert!(Instant::now() < deadline, "the same server");
    }
    place.until(&["restarted once", "server    running"]);

    // The daemon is killed.
    kill(&before["daemon"]["pid"]);
    let ended = place.until(&["handsctl up"]);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    // And its successor takes over what it left.
    let ended = place.run(&["up", "--json"]);
    let status = ended.json();
    assert_ne!(status["daemon"]["pid"], before["daemon"]["pid"]);
    assert_eq!(place.run(&["down"]).code, Some(0));
}
