//! Either client, run by the driver against the same control plane and server. The official one
//! is named by `HANDS_TUNNEL_CLIENT`; unset, its half is skipped, and the test says so.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: where they fail, the test does"
)]

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use hands_testkit::{Command, ControlPlane, Folder, Planner, Script, echo_program, program};
use hands_tunnel::ask::{self, Place};
use hands_tunnel::driver::{Choice, ClientCommand, ClientSpec, Kind};
use hands_tunnel::secret::KeyReference;
use serde_json::json;
use tokio::process::Child;

const SOON: Duration = Duration::from_secs(20);

fn official() -> Option<PathBuf> {
    let path = std::env::var_os("HANDS_TUNNEL_CLIENT").filter(|path| !path.is_empty());
    if path.is_none() {
        eprintln!("HANDS_TUNNEL_CLIENT is not set: the official client is not tried");
    }
    path.map(PathBuf::from)
}

struct Rig {
    // Dropped, and so killed, before its folder.
    client: Child,
    plane: ControlPlane,
    folder: Folder,
    command: ClientCommand,
}

impl Rig {
    async fn start(choice: Choice, official: Option<PathBuf>) -> Self {
        let plane = ControlPlane::start(Script::default()).await;
        let folder = Folder::temporary();
        let path = |name: &str| folder.path().join(name);
        hands_tunnel::health::write_private(&path("key"), plane.api_key().as_bytes()).unwrap();
        let spec = ClientSpec {
            choice,
            builtin: program(env!("CARGO_BIN_EXE_hands-tunnel")),
            official,
            tunnel_id: plane.tunnel_id().to_owned(),
            key: KeyReference::File(path("key")),
            base_url: Some(plane.base_url()),
            mcp_argv: vec![
                echo_program().display().to_string(),
                "a word with \"quotes\" and $HOME \\ 'too'".to_owned(),
            ],
            health_socket: path("health"),
            health_parent_only: false,
            health_url_file: Some(path("url")),
            pid_file: Some(path("pid")),
            log_file: Some(path("log")),
            poll_timeout: Some(Duration::from_secs(2)),
            ca_bundle: None,
            journal: Some(path("journal")),
        };
        let command = spec.command().unwrap();
        let mut process = tokio::process::Command::from(command.to_std());
        process
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Must not reach the client: they would overrule what the driver asks for.
            .env_remove("HANDS_TUNNEL_CLIENT")
            .kill_on_drop(true);
        let client = process.spawn().unwrap();
        Self {
            plane,
            folder,
            command,
            client,
        }
    }

    async fn stop(mut self) {
        let id = self.client.id().unwrap().try_into().unwrap();
        let pid = rustix::process::Pid::from_raw(id).unwrap();
        let written = std::fs::read_to_string(self.folder.path().join("pid")).unwrap();
        assert_eq!(written.trim(), id.to_string());
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let ended = tokio::time::timeout(SOON, self.client.wait()).await;
        assert_eq!(ended.unwrap().unwrap().code(), Some(0));
        self.plane.check_contract();
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
        assert!(!log.contains(self.plane.api_key()), "the key is in the log");
    }
}

/// What holds for both clients.
async fn tour(rig: Rig) {
    let planner = Planner::new(&rig.plane);
    planner.discover().answer().await;
    planner.initialize().await;
    let text = planner
        .call_as(0, "echo", json!({"text": "häh\n"}))
        .text()
        .await;
    assert_eq!(text, "häh\n");
    let call = planner.call_as("s", "fail", json!({}));
    assert_eq!(call.error().await["code"], -32003);
    let call = planner.call_with_progress(json!("t"), "progress", json!({"steps": 2, "ms": 20}));
    assert_eq!(call.text().await, "done");
    let answers = rig.plane.answers(&call.request_id);
    assert_eq!(answers.notifies().len(), 2);
    assert_eq!(answers.notifies()[0].json()["params"]["progressToken"], "t");
    // Past the deadline nothing is posted, and the server is still there.
    let late = Planner::new(&rig.plane).timeout("300ms");
    let late = late.call_as("late", "echo", json!({"text": "late", "ms": 800}));
    tokio::time::sleep(Duration::from_millis(1000)).await;
    assert!(rig.plane.answers(&late.request_id).posts.is_empty());
    assert_eq!(
        planner.call("echo", json!({"text": "on"})).text().await,
        "on"
    );
    let end = rig.plane.push(Command::session_termination("s1"));
    let end = rig.plane.final_answer(&end, SOON).await;
    assert_eq!(end.kind(), "session_termination_response");
    let health = Place::Unix(rig.folder.path().join("health"));
    assert_eq!(ask::get(&health, "/healthz").await.unwrap().0, 200);
    let ready = ask::get(&health, "/readyz").await.unwrap();
    assert_eq!(ready.0, 200, "{}", ready.1);
    // The URL file names the same socket to whoever reads it.
    let report = tokio::process::Command::new(program(env!("CARGO_BIN_EXE_hands-tunnel")))
        .args(["health", "--url-file"])
        .arg(rig.folder.path().join("url"))
        .output()
        .await
        .unwrap();
    assert_eq!(report.status.code(), Some(0), "{report:?}");
    rig.stop().await;
}

#[tokio::test]
async fn the_builtin_client_is_driven() {
    let rig = Rig::start(Choice::Builtin, None).await;
    assert_eq!(rig.command.kind, Kind::Builtin);
    tour(rig).await;
}

#[tokio::test]
async fn the_official_client_is_driven_the_same_way() {
    let Some(path) = official() else { return };
    let rig = Rig::start(Choice::Official, Some(path)).await;
    assert_eq!(rig.command.kind, Kind::Official);
    tour(rig).await;
}
