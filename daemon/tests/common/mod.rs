//! What the tests share: a home of its own for each, a real `handsd` on it, and looking at both from outside.
#![allow(dead_code)] // Each test program uses its part of this folder.
#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests are not marked as tests.

pub(crate) mod tunneled;

use hands_control::Client;
use hands_control::types::daemon::Status;
use hands_testkit::Folder;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

/// Time for things that happen at once on an idle machine and late on a loaded one.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// A person's home with a workspace and the home of Hands in it.
pub(crate) struct Place {
    _dir: Folder,
    root: PathBuf,
}

impl Place {
    /// Outside `/tmp`, which is a private one for commands; short, for the sockets' paths are bounded.
    pub(crate) fn new() -> Place {
        let dir = Folder::new(Path::new("/var/tmp"), "hd-");
        let root = dir.path().to_owned();
        std::fs::create_dir_all(root.join("ann/Hands")).unwrap();
        Place { _dir: dir, root }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn home(&self) -> hands_config::Home {
        hands_config::Home::at(self.root.join("hands"))
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.root.join("ann/Hands")
    }

    /// Writes `config.toml`.
    pub(crate) fn config(&self, text: &str) {
        self.home().prepare().unwrap();
        std::fs::write(self.home().config_file(), text).unwrap();
    }

    pub(crate) fn run_dir(&self) -> PathBuf {
        self.home().run_dir()
    }

    /// `handsd` with a small environment and a free port.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(built("handsd"));
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.root.join("ann"))
            .env("HANDS_HOME", self.home().root())
            .env("HANDS_HTTP_LISTEN", "127.0.0.1:0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    /// A daemon that answers on its socket.
    pub(crate) async fn start(&self) -> Daemon {
        self.start_with(|_| {}).await
    }

    /// The same, with something changed in its command.
    pub(crate) async fn start_with(&self, change: impl FnOnce(&mut Command)) -> Daemon {
        let mut command = self.command();
        change(&mut command);
        let child = command.spawn().unwrap();
        let pid = child.id();
        let mut daemon = Daemon {
            child: Some(child),
            run: self.run_dir(),
        };
        let socket = hands_control::daemon_socket(&self.run_dir());
        let deadline = Instant::now() + SOON;
        loop {
            if let Ok(client) = Client::connect(&socket).await
                && let Ok(status) = client.get::<Status>("/v1/status").await
                && status.daemon.pid == pid
            {
                return daemon;
            }
            let ended = daemon.child.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "handsd ended: {ended:?} {}", daemon.said());
            assert!(Instant::now() < deadline, "handsd does not answer");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// The lifecycle log's events of `handsd`, with their details.
    pub(crate) fn lifecycle(&self) -> Vec<(String, Value)> {
        let text = std::fs::read_to_string(self.home().lifecycle_log()).unwrap_or_default();
        let notes = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        notes
            .filter(|note| note["process"] == "handsd")
            .map(|note| {
                (
                    note["event"].as_str().unwrap().to_owned(),
                    note["detail"].clone(),
                )
            })
            .collect()
    }

    /// The home's trail.
    pub(crate) fn folders(&self) -> hands_activity::Folders {
        let home = self.home();
        hands_activity::Folders {
            logs: home.logs_dir(),
            trail: home.trail_dir(),
            recovery: home.recovery_dir(),
        }
    }

    /// All records of the trail in their order; it must be whole.
    pub(crate) fn trail(&self) -> Vec<hands_activity::Stored> {
        let report = hands_activity::verify(&self.folders()).unwrap();
        assert_eq!(report.first_bad, None, "{:?}", report.notes);
        let all = hands_activity::Filter::default();
        let items = hands_activity::read_last(&self.folders(), usize::MAX, &all).unwrap();
        let records = items.into_iter().filter_map(|item| match item {
            hands_activity::Item::Record(record) => Some(*record),
            hands_activity::Item::Note(_) => None,
        });
        let records: Vec<_> = records.collect();
        assert_eq!(records.len() as u64, report.records);
        records
    }

    /// The diagnostics log.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.home().logs_dir().join("handsd.log")).unwrap_or_default()
    }
}

/// A running `handsd`; stopped when dropped.
pub(crate) struct Daemon {
    child: Option<Child>,
    run: PathBuf,
}

impl Daemon {
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub(crate) async fn client(&self) -> Client {
        let client = Client::connect(&hands_control::daemon_socket(&self.run)).await;
        client.unwrap().with_timeout(SOON)
    }

    pub(crate) async fn status(&self) -> Status {
        self.client().await.get("/v1/status").await.unwrap()
    }

    /// Waits until the status is as wanted.
    pub(crate) async fn until(
        &self,
        what: &str,
        mut wanted: impl FnMut(&Status) -> bool,
    ) -> Status {
        self.within(SOON, what, |status| wanted(status)).await
    }

    /// The same, with another time.
    pub(crate) async fn within(
        &self,
        time: Duration,
        what: &str,
        mut wanted: impl FnMut(&Status) -> bool,
    ) -> Status {
        let deadline = Instant::now() + time;
        loop {
            let status = self.status().await;
            if wanted(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "never {what}: {status:#?}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) async fn ready(&self) -> Status {
        self.until("ready", |status| status.readiness.ready).await
    }

    /// Sends a request to the HTTP endpoints; status and body.
    pub(crate) async fn http(&self, method: &str, path: &str, host: &str) -> (u16, String) {
        let status = self
            .until("HTTP", |status| status.daemon.http.is_some())
            .await;
        http(&status.daemon.http.unwrap(), method, path, host).await
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        self.http("GET", path, "localhost").await
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// Sends SIGKILL and waits; its children stay.
    pub(crate) fn kill(mut self) {
        self.signal(Signal::KILL);
        self.child.take().unwrap().wait().unwrap();
    }

    /// Waits for its end.
    pub(crate) async fn ended(mut self) -> ExitStatus {
        let mut child = self.child.take().unwrap();
        let deadline = Instant::now() + SOON;
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
            if Instant::now() >= deadline {
                let _ = child.kill();
                panic!("handsd did not end");
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Stops it in order.
    pub(crate) async fn stop(self) {
        self.signal(Signal::TERM);
        let status = self.ended().await;
        assert!(status.success(), "{status:?}");
    }

    fn said(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut stderr) = self.child.as_mut().and_then(|child| child.stderr.take()) {
            let _ = std::io::Read::read_to_string(&mut stderr, &mut text);
        }
        text
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        send(child.id(), Signal::TERM);
        for _ in 0..1500 {
            if child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// One HTTP exchange.
pub(crate) async fn http(address: &str, method: &str, path: &str, host: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

pub(crate) fn send(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let _ = kill_process(pid, signal);
}

/// Whether the process lives; one that is dead and not waited for does not.
pub(crate) fn alive(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => !stat
            .rsplit_once(") ")
            .is_some_and(|(_, tail)| tail.starts_with('Z')),
        Err(_) => false,
    }
}

pub(crate) async fn gone(pid: u32) {
    let deadline = Instant::now() + SOON;
    while alive(pid) {
        assert!(Instant::now() < deadline, "process {pid} is still there");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until no process of this place is left. What the kernel ends with its parent ends a
/// moment after it.
pub(crate) async fn none_left(place: &Place) {
    let end = Instant::now() + SOON;
    loop {
        let left = hands_testkit::running_in(place.root());
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < end, "still there: {left:#?}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// A program of ours: in the folder that the environment names, else where cargo built it.
pub(crate) fn built(name: &str) -> PathBuf {
    let path = match std::env::var_os("HANDS_TEST_BIN_DIR") {
        Some(folder) => Path::new(&folder).join(name),
        None => Path::new(env!("CARGO_BIN_EXE_handsd")).with_file_name(name),
    };
    assert!(
        path.is_file(),
        "this test needs {}: build the whole workspace first (cargo build --workspace --bins)",
        path.display()
    );
    path
}

pub(crate) fn finished(mut command: Command) -> Output {
    command.stderr(Stdio::piped()).output().unwrap()
}

/// Runs a command with this text on its standard input.
pub(crate) fn with_input(mut command: Command, input: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may end without reading.
    let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes());
    child.wait_with_output().unwrap()
}
