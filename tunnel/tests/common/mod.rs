//! A control plane, a client's process and its MCP server, put together for a test.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests: where they fail, the test does"
)]
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test program uses a part of it"
)]

use std::cell::RefCell;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use hands_testkit::{ControlPlane, Folder, Planner, Script, echo_program, program};
use hands_tunnel::ask::{self, Place};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

/// Time for anything that should happen soon.
pub const SOON: Duration = Duration::from_secs(15);

/// What differs between tests.
#[derive(Default)]
pub struct Setup {
    pub script: Script,
    /// Arguments of `mcp-echo`.
    pub echo: Vec<String>,
    /// Further arguments of `hands-tunnel`.
    pub args: Vec<String>,
    /// Further variables of `hands-tunnel`.
    pub env: Vec<(String, String)>,
}

impl Setup {
    pub fn echo(mut self, args: &[&str]) -> Self {
        self.echo = args.iter().map(|arg| (*arg).to_owned()).collect();
        self
    }

    pub fn args(mut self, args: &[&str]) -> Self {
        self.args = args.iter().map(|arg| (*arg).to_owned()).collect();
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub async fn start(self) -> Rig {
        let plane = ControlPlane::start(self.script.clone()).await;
        let folder = Folder::temporary();
        let key = folder.path().join("key");
        hands_tunnel::health::write_private(&key, plane.api_key().as_bytes()).unwrap();
        let rig = Rig {
            plane,
            folder,
            setup: self,
            client: RefCell::new(None),
        };
        rig.start_client();
        rig
    }
}

/// A running client with both its sides.
pub struct Rig {
    // Dropped, and so killed, before its folder.
    client: RefCell<Option<Child>>,
    pub plane: ControlPlane,
    pub folder: Folder,
    setup: Setup,
}

impl Rig {
    pub async fn start() -> Self {
        Setup::default().start().await
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn command(&self) -> Command {
        let mut server = vec![echo_program().display().to_string()];
        server.extend(self.setup.echo.iter().cloned());
        let server = shlex::try_join(server.iter().map(String::as_str)).unwrap();
        let mut command = Command::new(program(env!("CARGO_BIN_EXE_hands-tunnel")));
        command
            .arg("run")
            .args(["--control-plane.base-url", &self.plane.base_url()])
            .args(["--control-plane.tunnel-id", self.plane.tunnel_id()])
            .arg(format!(
                "--control-plane.api-key=file:{}",
                self.path("key").display()
            ))
            .args(["--control-plane.poll-timeout", "2s"])
            .args(["--mcp.command", &server])
            .arg(format!(
                "--health.unix-socket={}",
                self.path("health").display()
            ))
            .arg(format!("--journal.file={}", self.path("journal").display()))
            .arg(format!("--log.file={}", self.path("log").display()))
            .args(["--log.format", "json", "--log.level", "debug"])
            .args(&self.setup.args)
            .envs(self.setup.env.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        command
    }

    pub fn start_client(&self) {
        let client = self.command().spawn().unwrap();
        *self.client.borrow_mut() = Some(client);
    }

    pub fn planner(&self) -> Planner<'_> {
        Planner::new(&self.plane)
    }

    pub fn pid(&self) -> Pid {
        let id = self.client.borrow().as_ref().and_then(Child::id).unwrap();
        Pid::from_raw(id.try_into().unwrap()).unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    pub async fn ended(&self) -> ExitStatus {
        let mut client = self.client.borrow_mut().take().unwrap();
        let ended = tokio::time::timeout(Duration::from_secs(20), client.wait());
        ended.await.expect("the client ends").unwrap()
    }

    pub async fn kill(&self) {
        self.signal(Signal::KILL);
        self.ended().await;
    }

    pub async fn page(&self, page: &str) -> (u16, String) {
        let place = Place::Unix(self.path("health"));
        ask::get(&place, page)
            .await
            .unwrap_or_else(|error| (0, error))
    }

    pub async fn status(&self) -> Value {
        serde_json::from_str(&self.page("/api/status").await.1).unwrap_or(Value::Null)
    }

    /// Waits until the page of the status is as wanted.
    pub async fn status_is(&self, what: &str, check: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + SOON;
        loop {
            let status = self.status().await;
            if check(&status) {
                return status;
            }
            assert!(
                Instant::now() < end,
                "waited in vain for {what}: {status:#}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub async fn ready(&self) {
        self.status_is("readiness", |status| status["ready"] == json!(true))
            .await;
    }

    /// The codes of the reasons not to be ready.
    pub async fn reasons(&self) -> Vec<String> {
        let status = self.status().await;
        let reasons = status["reasons"].as_array().cloned().unwrap_or_default();
        let code = |reason: &Value| reason["code"].as_str().unwrap_or_default().to_owned();
        reasons.iter().map(code).collect()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// What must hold at the end of every test.
    pub async fn check(self) {
        let running = self.client.borrow().is_some();
        if running {
            // Only a client that answers is sure to listen for signals.
            self.status_is("an answer", |status| !status.is_null())
                .await;
            self.signal(Signal::TERM);
            let status = self.ended().await;
            assert_eq!(
                status.code(),
                Some(0),
                "after SIGTERM; log:\n{}",
                self.log()
            );
        }
        self.plane.check_contract();
        let key = self.plane.api_key().to_owned();
        assert!(!self.log().contains(&key), "the key is in the log");
    }
}

/// A command that any server answers.
pub fn ping(id: i32) -> hands_testkit::Command {
    hands_testkit::Command::jsonrpc(json!({"jsonrpc": "2.0", "id": id, "method": "ping"}))
}

/// Whether a process of this id is there. One that has ended and that nobody has waited for yet is not.
pub fn alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    let state = stat.as_deref().ok().and_then(|stat| stat.rsplit_once(") "));
    state.is_some_and(|(_, state)| !state.starts_with('Z'))
}

/// Kills a process.
pub fn kill(pid: &str) {
    let pid = Pid::from_raw(pid.parse().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
}

/// Waits until a process is gone.
pub async fn gone(pid: &str) {
    let end = Instant::now() + SOON;
    while alive(pid) {
        assert!(Instant::now() < end, "process {pid} is still there");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
