//! Prometheus itself scrapes a running daemon, by the project's example configuration.
#![allow(clippy::unwrap_used)] // Helpers of tests are not marked as tests.

mod common;

use common::{Place, SOON, http};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const SCRAPE: &str = include_str!("../../metrics/examples/scrape.yml");
const ALERTS: &str = include_str!("../../metrics/examples/alerts.yml");

/// A running Prometheus, on a free port; killed when dropped.
struct Prometheus {
    child: Child,
    address: String,
}

impl Prometheus {
    /// Starts it; none, and a word on it, where it is not installed.
    fn start(folder: &Path) -> Option<Prometheus> {
        // Taken and given back: Prometheus takes no socket, and tells no port that it chose.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let log = std::fs::File::create(folder.join("prometheus.log")).unwrap();
        let child = Command::new("prometheus")
            .arg(format!(
                "--config.file={}",
                folder.join("scrape.yml").display()
            ))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        match child {
            Ok(child) => Some(Prometheus { child, address }),
            Err(error) => {
                eprintln!(
                    "skipped: prometheus cannot be started: {error} (Debian's package `prometheus`)"
                );
                None
            }
        }
    }

    /// The value of a query's first sample.
    async fn value(&self, query: &str) -> Option<String> {
        let path = format!("/api/v1/query?query={query}");
        tokio::net::TcpStream::connect(&self.address).await.ok()?;
        let (status, body) = http(&self.address, "GET", &path, "localhost").await;
        let answer: Value = serde_json::from_str(&body).ok().filter(|_| status == 200)?;
        let value = &answer["data"]["result"][0]["value"][1];
        value.as_str().map(str::to_owned)
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_scrapes_a_daemon_by_the_example() {
    let place = Place::new();
    let daemon = place.start().await;
    let status = daemon.ready().await;
    let ours = status.daemon.http.unwrap();

    let folder = tempfile::tempdir().unwrap();
    // The port is the daemon's; the rest is the file as it is.
    let port = "127.0.0.1:8768\"";
    assert_eq!(SCRAPE.matches(port).count(), 1);
    let config = SCRAPE.replace(port, &format!("{ours}\""));
    std::fs::write(folder.path().join("scrape.yml"), config).unwrap();
    std::fs::write(folder.path().join("alerts.yml"), ALERTS).unwrap();
    let Some(mut prometheus) = Prometheus::start(folder.path()) else {
        return daemon.stop().await;
    };
    let log = || std::fs::read_to_string(folder.path().join("prometheus.log")).unwrap();
    let deadline = Instant::now() + 2 * SOON;
    for (query, wanted) in [
        ("up{job=\"hands\"}", "1"),
        ("hands_ready", "1"),
        ("hands_local_only", "1"),
        ("hands_child_state{child=\"server\",state=\"ready\"}", "1"),
        // What the server counts comes over its socket.
        ("count(hands_sessions)", "1"),
    ] {
        let encoded = query
            .replace('"', "%22")
            .replace('{', "%7B")
            .replace('}', "%7D");
        loop {
            let found = prometheus.value(&encoded).await;
            if found.as_deref() == Some(wanted) {
                break;
            }
            assert!(prometheus.child.try_wait().unwrap().is_none(), "{}", log());
            assert!(Instant::now() < deadline, "{query}: {found:?} {}", log());
            sleep(Duration::from_millis(100)).await;
        }
    }
    // Its alert rules are loaded, and an idle daemon that is well sets none off.
    let (_, rules) = http(&prometheus.address, "GET", "/api/v1/rules", "localhost").await;
    assert!(rules.contains("\"health\":"), "{rules}");
    let (_, alerts) = http(&prometheus.address, "GET", "/api/v1/alerts", "localhost").await;
    assert!(alerts.contains("\"alerts\":[]"), "{alerts}");
    let sample = prometheus.value("hands_build_info").await;
    assert_eq!(sample.as_deref(), Some("1"));
    drop(prometheus);
    daemon.stop().await;
}
