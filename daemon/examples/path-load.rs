//! Measures the whole path from the control plane to a file and back, and asserts its figures:
//!
//! `path-load PROGRAMS FOLDER [CALLS]`
//!
//! `PROGRAMS` holds `handsd`, `hands-mcp`, `hands-tunnel` and `hands-runner`, built with optimization; `FOLDER` is an
//! empty folder outside `/tmp`. The control plane's own round trip is measured first, in the same run: what a shared
//! machine takes, it takes from both. Ends with exit status 1 where a figure is missed.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measuring program"
)]

#[path = "../../tunnel/examples/load/mod.rs"]
mod load;

use hands_control::Client;
use hands_control::types::daemon::Status;
use hands_testkit::{ControlPlane, Planner};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is read: 32 bytes.
const CONTENT: &str = "thirty-two bytes of plain text.\n";
/// What the path may take over the control plane's own round trip, for half of the calls.
const P50_OVER: Duration = Duration::from_millis(3);
/// Calls a second.
const RATE: f64 = 1000.0;
/// Memory of tunnel, relay and server together, in KiB.
const MEMORY: u64 = 40 << 10;

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [programs, folder, ..] = args.as_slice() else {
        panic!("usage: path-load PROGRAMS FOLDER [CALLS]");
    };
    let calls = args.get(2).map_or(20_000, |n| n.parse().expect("a number"));
    let null = null(calls).await;
    println!(
        "null: p50 {:.3?}, p99 {:.3?}, {:.0} calls/s",
        null.p50, null.p99, null.rate
    );

    let plane = load::plane().await;
    let path = Running::start(Path::new(programs), Path::new(folder), &plane).await;
    Planner::new(&plane).initialize().await;
    let first = path.memory().await;
    let file = Path::new(folder).join("workspace/file.txt");
    std::fs::write(&file, CONTENT).unwrap();
    let whole = load::measure(
        &plane,
        "read_file",
        &json!({"path": file}),
        calls,
        is_content,
    )
    .await;
    println!(
        "path: p50 {:.3?}, p99 {:.3?}, {:.0} calls/s",
        whole.p50, whole.p99, whole.rate
    );
    let last = path.memory().await;
    path.end();
    for (memory, when) in [(&first, "before"), (&last, "after")] {
        for (name, rss, pss) in memory {
            println!("{when} {calls} calls: {name}: RSS {rss} KiB, PSS {pss} KiB");
        }
    }

    let over = whole.p50.saturating_sub(null.p50);
    let rss: u64 = last
        .iter()
        .filter(|(name, ..)| *name != "daemon")
        .map(|(_, rss, _)| rss)
        .sum();
    let pss: u64 = last
        .iter()
        .filter(|(name, ..)| *name != "daemon")
        .map(|(_, _, pss)| pss)
        .sum();
    println!("tunnel, relay and server together: RSS {rss} KiB, PSS {pss} KiB");
    println!(
        "the path over the control plane alone: p50 {over:.3?} more ({:.1} times), {:.2} of its rate",
        whole.p50.as_secs_f64() / null.p50.as_secs_f64(),
        whole.rate / null.rate
    );
    let mut missed = false;
    let mut wanted = |what: &str, holds: bool| {
        println!("{} {what}", if holds { "held:  " } else { "MISSED:" });
        missed |= !holds;
    };
    wanted(
        "one at a time, p50 at most 3 ms over the control plane's",
        over <= P50_OVER,
    );
    wanted(
        "50 at a time, at least 1,000 calls a second",
        whole.rate >= RATE,
    );
    wanted(
        "memory of tunnel, relay and server at most 40 MiB (RSS)",
        rss <= MEMORY,
    );
    if missed {
        std::process::exit(1);
    }
}

fn is_content(answer: &Value) {
    let text = answer["result"]["content"][0]["text"].as_str();
    assert_eq!(text, Some(CONTENT), "{answer}");
}

async fn null(calls: usize) -> load::Figures {
    let plane = load::plane().await;
    let client = tokio::spawn(load::null_client(Arc::clone(&plane)));
    let any = |answer: &Value| assert!(answer["result"].is_object(), "{answer}");
    let figures = load::measure(&plane, "nothing", &json!({}), calls, any).await;
    client.abort();
    figures
}

/// A daemon with its tunnel.
struct Running {
    daemon: Child,
    run: PathBuf,
}

impl Running {
    async fn start(programs: &Path, folder: &Path, plane: &ControlPlane) -> Running {
        let home = folder.join("home");
        std::fs::create_dir_all(folder.join("workspace")).unwrap();
        std::fs::create_dir_all(&home).unwrap();
        let key = folder.join("key");
        std::fs::write(&key, plane.api_key()).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        let daemon = Command::new(programs.join("handsd"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", folder)
            .env("HANDS_HOME", &home)
            .env("HANDS_WORKSPACES", folder.join("workspace"))
            .env("HANDS_HTTP_LISTEN", "127.0.0.1:0")
            .env("HANDS_TUNNEL_ID", plane.tunnel_id())
            .env("HANDS_TUNNEL_BASE_URL", plane.base_url())
            .env("HANDS_TUNNEL_KEY_FILE", key)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let running = Running {
            daemon,
            run: home.join("run"),
        };
        let deadline = Instant::now() + Duration::from_secs(30);
        while !running
            .status()
            .await
            .is_some_and(|status| status.readiness.ready)
        {
            assert!(Instant::now() < deadline, "the path is never ready");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        running
    }

    async fn status(&self) -> Option<Status> {
        let socket = hands_control::daemon_socket(&self.run);
        let client = Client::connect(&socket).await.ok()?;
        client.get("/v1/status").await.ok()
    }

    /// Each process with its resident and its proportional memory, in KiB.
    async fn memory(&self) -> Vec<(&'static str, u64, u64)> {
        let status = self.status().await.expect("the daemon answers");
        let tunnel = status.tunnel.child.pid.expect("the tunnel runs");
        let processes = [
            ("tunnel", tunnel),
            ("relay", child_of(tunnel)),
            ("server", status.server.pid.expect("the server runs")),
            ("daemon", self.daemon.id()),
        ];
        let of = |(name, pid)| {
            let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
            (name, figure(&text, "Rss:"), figure(&text, "Pss:"))
        };
        processes.into_iter().map(of).collect()
    }

    /// Ends in order; its children with it.
    fn end(mut self) {
        let pid = rustix::process::Pid::from_child(&self.daemon);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.daemon.wait().unwrap();
    }
}

fn child_of(parent: u32) -> u32 {
    let threads = std::fs::read_dir(format!("/proc/{parent}/task")).unwrap();
    let of = |thread: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(thread.unwrap().path().join("children")).unwrap()
    };
    let children: String = threads.map(of).collect();
    children.trim().parse().expect("the tunnel has one child")
}

fn figure(text: &str, name: &str) -> u64 {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
