//! The home's socket: where relays come in.
//!
//! One connection is one session. Who connects is looked at before a byte is read: the socket lies
//! in a folder of the owner's alone, the peer must be the owner's process, and no process that
//! descends from a `hands-runner` is served (a command must not be able to call the tools).

use crate::hub::Hub;
use crate::limits;
use crate::serve::connection;
use crate::session::Session;
use anyhow::{Context, bail};
use hands_config::Home;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream as StdStream;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The first line on a connection, each way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// What the speaker is: `relay` or `server`.
    pub hands: String,
    /// Its version.
    pub version: String,
    /// Its process id.
    pub pid: u32,
}

impl Hello {
    /// The line that this process says of itself.
    pub fn own(what: &str) -> Self {
        Self {
            hands: what.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
        }
    }

    /// As it goes over the socket.
    pub fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }

    /// Reads the other side's line, byte by byte: what follows it is not ours to take.
    ///
    /// # Errors
    /// When it does not come within [`limits::HELLO`], or is no such line.
    pub async fn read(stream: &mut UnixStream) -> std::io::Result<Self> {
        let read = async {
            let mut line = Vec::new();
            while line.last() != Some(&b'\n') && line.len() < limits::HELLO_BYTES {
                line.push(stream.read_u8().await?);
            }
            serde_json::from_slice(&line).map_err(std::io::Error::other)
        };
        tokio::time::timeout(limits::HELLO, read)
            .await
            .map_err(|_| std::io::ErrorKind::TimedOut)?
    }
}

/// Where the socket of a home lies.
pub fn socket_path(home: &Home) -> PathBuf {
    home.run_dir().join("mcp.sock")
}

/// An open socket.
pub struct Door {
    hub: Arc<Hub>,
    listener: UnixListener,
    path: PathBuf,
    /// Held for as long as this server has the socket.
    _lock: File,
}

impl Door {
    /// Opens the socket of the hub's home.
    ///
    /// # Errors
    /// When another server has it, or it cannot be made.
    pub fn open(hub: &Arc<Hub>) -> anyhow::Result<Self> {
        let path = socket_path(&hub.home);
        let lock_path = path.with_extension("lock");
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&lock_path)
            .with_context(|| format!("opening {}", lock_path.display()))?;
        if lock.try_lock().is_err() {
            bail!("another server has {} already", path.display());
        }
        // One left by a server that was killed makes way: the lock says that nobody has it.
        let listener = hands_control::bind(&path).context("opening the clients' socket")?;
        Ok(Self {
            hub: Arc::clone(hub),
            listener,
            path,
            _lock: lock,
        })
    }

    /// Serves whoever connects until `stop` fires; then ends all connections.
    pub async fn serve(self, stop: &CancellationToken) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let (hub, stop) = (Arc::clone(&self.hub), stop.clone());
                        connections.spawn(async move { serve_one(&hub, stream, &stop).await });
                    }
                    Err(e) => {
                        self.hub.live.line(&format!("warning: accepting a client: {e}"));
                        // Out of descriptors, most likely; they come back as clients go.
                        tokio::time::sleep(limits::ACCEPT_PAUSE).await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        }
        let all = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(limits::EOF_DEADLINE + limits::FLUSH, all).await;
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn serve_one(hub: &Arc<Hub>, stream: UnixStream, stop: &CancellationToken) {
    if let Err(e) = try_serve(hub, stream, stop).await {
        hub.live
            .line(&format!("warning: a connection was refused: {e:#}"));
    }
}

async fn try_serve(
    hub: &Arc<Hub>,
    mut stream: UnixStream,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let peer = check_peer(&stream)?;
    let hello = Hello::read(&mut stream)
        .await
        .context("reading its first line")?;
    if hello.hands != "relay" {
        bail!("it calls itself `{}`", hello.hands);
    }
    stream
        .write_all(&Hello::own("server").line())
        .await
        .context("answering its first line")?;
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    let writer: StdStream = stream.try_clone()?;
    let session = Session::open(hub)?;
    session.set_peer(peer);
    hub.live.line(&format!(
        "session {} opened by relay {} (pid {})",
        session.id, hello.version, hello.pid
    ));
    let ends = stream.try_clone()?;
    connection(&session, stream, writer, stop).await;
    // The reading thread waits on its own copy of the socket; this wakes it.
    let _ = ends.shutdown(std::net::Shutdown::Both);
    session.close();
    hub.live.line(&format!("session {} closed", session.id));
    Ok(())
}

/// The process that connects, if it may.
fn check_peer(stream: &UnixStream) -> anyhow::Result<u32> {
    let peer = stream.peer_cred().context("asking who it is")?;
    let own = rustix::process::geteuid().as_raw();
    if peer.uid() != own {
        bail!("it belongs to user {}", peer.uid());
    }
    let Some(pid) = peer.pid() else {
        bail!("the system does not say which process it is");
    };
    if hands_sandbox::ancestry::descends_from_runner(pid)? {
        bail!("process {pid} runs inside the sandbox");
    }
    Ok(pid.unsigned_abs())
}
