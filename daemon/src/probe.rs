//! Asking the MCP server whether it answers, the way a relay would: over its socket, as a client.
//!
//! One connection is kept for a while, for each is a session at the server; then a new one tries the way in as well. It calls itself
//! `handsd`, so that lists of sessions can leave it out.

use crate::limits;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// The name by which the server knows it.
pub(crate) const NAME: &str = "handsd";

/// Pings one server's socket.
#[derive(Debug)]
pub(crate) struct Probe {
    path: PathBuf,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    stream: BufReader<UnixStream>,
    pings: u32,
}

impl Probe {
    /// A probe of the server that listens in this `run/`.
    pub(crate) fn new(run: &Path) -> Self {
        Self {
            path: run.join("mcp.sock"),
            open: None,
        }
    }

    /// One ping; the reason where no answer came.
    pub(crate) async fn ping(&mut self) -> Result<(), String> {
        let asked = timeout(limits::PING_TIMEOUT, self.try_ping()).await;
        let result = match asked {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(why)) => Err(why.to_string()),
            Err(_) => Err(format!(
                "no answer within {} s",
                limits::PING_TIMEOUT.as_secs()
            )),
        };
        // What is late on this connection must not be taken for the next answer.
        self.open = None;
        result
    }

    /// Ends the connection: the server it led to is gone or going.
    pub(crate) fn close(&mut self) {
        self.open = None;
    }

    async fn try_ping(&mut self) -> std::io::Result<()> {
        if self
            .open
            .as_ref()
            .is_some_and(|open| open.pings >= limits::PINGS_A_CONNECTION)
        {
            self.open = None;
        }
        if self.open.is_none() {
            self.open = Some(Open::new(&self.path).await?);
        }
        match &mut self.open {
            Some(open) => open.ping().await,
            None => Ok(()),
        }
    }
}

impl Open {
    async fn new(path: &Path) -> std::io::Result<Self> {
        let stream = UnixStream::connect(path).await?;
        let mut open = Self {
            stream: BufReader::new(stream),
            pings: 0,
        };
        let version = env!("CARGO_PKG_VERSION");
        let hello = json!({"hands": "relay", "version": version, "pid": std::process::id()});
        open.send(&hello).await?;
        open.line().await?;
        let info = json!({"name": NAME, "version": version});
        let params =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info});
        open.ask("initialize", params).await?;
        open.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await?;
        Ok(open)
    }

    async fn ping(&mut self) -> std::io::Result<()> {
        self.ask("ping", json!({})).await?;
        Ok(())
    }

    async fn ask(&mut self, method: &str, params: Value) -> std::io::Result<Value> {
        self.pings += 1;
        let id = self.pings;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(&request).await?;
        loop {
            let answer = self.line().await?;
            // Notifications may come between.
            if answer.get("id") != Some(&json!(id)) {
                continue;
            }
            return match answer.get("error") {
                None => Ok(answer),
                Some(error) => Err(std::io::Error::other(format!(
                    "it answers {method} with {error}"
                ))),
            };
        }
    }

    async fn send(&mut self, message: &Value) -> std::io::Result<()> {
        let mut line = message.to_string();
        line.push('\n');
        self.stream.get_mut().write_all(line.as_bytes()).await
    }

    async fn line(&mut self) -> std::io::Result<Value> {
        let mut line = Vec::new();
        let mut bounded = (&mut self.stream).take(limits::PROBE_LINE_BYTES);
        bounded.read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        serde_json::from_slice(&line).map_err(std::io::Error::other)
    }
}
