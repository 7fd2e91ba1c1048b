//! The health pages, on a Unix socket, on loopback, or on both.
//!
//! They have no lock, so they say nothing secret, change nothing, answer GET and HEAD only, and
//! refuse a request whose Host is not this machine (a web page that resolves its own name to
//! loopback would send its name).

use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::Semaphore;

use crate::limits;
use crate::status::Status;

/// Why the pages cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    /// The address is of no use.
    #[error("listening for health pages on {place}: {error}")]
    Bind {
        /// The address.
        place: String,
        /// Why.
        error: std::io::Error,
    },
    /// A running process has the socket.
    #[error("listening for health pages on {0}: a running process answers there already")]
    InUse(PathBuf),
    /// The URL could not be written down.
    #[error("writing the health URL to {path}: {error}")]
    UrlFile {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}

/// Listening sockets, and the files to take away at the end.
#[derive(Debug, Default)]
pub struct Listeners {
    tcp: Option<TcpListener>,
    unix: Option<UnixListener>,
    files: Vec<PathBuf>,
    parent_only: bool,
}

impl Listeners {
    /// Binds what is asked for and writes the URL down.
    pub async fn bind(
        listen: Option<SocketAddr>,
        socket: Option<&Path>,
        url_file: Option<&Path>,
    ) -> Result<Self, HealthError> {
        let mut this = Self::default();
        let mut url = None;
        if let Some(path) = socket {
            this.unix = Some(bind_unix(path).await?);
            this.files.push(path.to_owned());
            url = Some(unix_url(path));
        }
        if let Some(address) = listen {
            let failed = |error| HealthError::Bind {
                place: address.to_string(),
                error,
            };
            let listener = TcpListener::bind(address).await.map_err(failed)?;
            let bound = listener.local_addr().map_err(failed)?;
            this.tcp = Some(listener);
            url = Some(format!("http://{bound}"));
        }
        if let (Some(path), Some(url)) = (url_file, url) {
            let failed = |error| HealthError::UrlFile {
                path: path.to_owned(),
                error,
            };
            write_private(path, url.as_bytes()).map_err(failed)?;
            this.files.push(path.to_owned());
        }
        Ok(this)
    }

    /// Whether the socket answers only the process that started this one: a supervisor tells what may be known, to whom it may.
    #[must_use]
    pub fn parent_only(mut self, only: bool) -> Self {
        self.parent_only = only;
        self
    }

    /// Where the pages listen on loopback.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().and_then(|tcp| tcp.local_addr().ok())
    }

    /// Serves the pages until dropped; takes socket and URL file away then.
    pub async fn serve(self, status: Arc<Status>) {
        let Self {
            tcp,
            unix,
            files,
            parent_only,
        } = self;
        let _files = RemoveOnDrop(files);
        let slots = Arc::new(Semaphore::new(limits::HEALTH_CONNECTIONS));
        let on_tcp = async {
            let Some(listener) = tcp else { return };
            loop {
                let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
                    return;
                };
                match listener.accept().await {
                    Ok((stream, _)) => connection(stream, Arc::clone(&status), slot),
                    Err(error) => pause(&error).await,
                }
            }
        };
        let on_unix = async {
            let Some(listener) = unix else { return };
            loop {
                let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
                    return;
                };
                match listener.accept().await {
                    Ok((stream, _)) if may_ask(&stream, parent_only) => {
                        connection(stream, Arc::clone(&status), slot);
                    }
                    Ok(_) => tracing::warn!("refused a health request of another user or process"),
                    Err(error) => pause(&error).await,
                }
            }
        };
        tokio::join!(on_tcp, on_unix);
        std::future::pending::<()>().await;
    }
}

#[derive(Debug)]
struct RemoveOnDrop(Vec<PathBuf>);

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Accepting fails when descriptors run out; then it is tried again a little later.
async fn pause(error: &std::io::Error) {
    tracing::warn!(%error, "accepting a health request failed");
    tokio::time::sleep(limits::BACKOFF_MIN).await;
}

fn may_ask(stream: &UnixStream, parent_only: bool) -> bool {
    let me = rustix::process::geteuid().as_raw();
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_pid());
    stream.peer_cred().is_ok_and(|peer| {
        let is_parent = peer.pid().is_some() && peer.pid() == parent;
        (peer.uid() == me || peer.uid() == 0) && (is_parent || !parent_only)
    })
}

/// Binds beside the path and moves the socket there, so that it is private before it has its
/// name, and takes the place of one that a dead process left.
async fn bind_unix(path: &Path) -> Result<UnixListener, HealthError> {
    if UnixStream::connect(path).await.is_ok() {
        return Err(HealthError::InUse(path.to_owned()));
    }
    let failed = |error| HealthError::Bind {
        place: path.display().to_string(),
        error,
    };
    let beside = path.with_extension(format!("{}", std::process::id()));
    let _ = std::fs::remove_file(&beside);
    let listener = UnixListener::bind(&beside).map_err(failed)?;
    std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(0o600))
        .and_then(|()| std::fs::rename(&beside, path))
        .map_err(failed)?;
    Ok(listener)
}

/// Writes a file of mode 0600 whole or not at all.
pub fn write_private(path: &Path, content: &[u8]) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let beside = path.with_file_name(name);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&beside)?;
    file.write_all(content)?;
    std::fs::rename(&beside, path)
}

fn connection<S>(stream: S, status: Arc<Status>, slot: tokio::sync::OwnedSemaphorePermit)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        let service = service_fn(|request| {
            let response = answer(&request, &status);
            async move { Ok::<_, Infallible>(response) }
        });
        let served = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits::HEALTH_HEADER_TIMEOUT)
            .serve_connection(TokioIo::new(stream), service);
        let _ = served.await;
        drop(slot);
    });
}

fn answer<B>(request: &Request<B>, status: &Status) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n".into());
    }
    let host = request
        .headers()
        .get(HOST)
        .and_then(|host| host.to_str().ok());
    if !host.is_some_and(is_local_host) {
        return text(
            StatusCode::FORBIDDEN,
            "the Host is not this machine\n".into(),
        );
    }
    match request.uri().path() {
        "/healthz" => text(StatusCode::OK, "live\n".into()),
        "/readyz" => readiness(status),
        "/metrics" => {
            let ready = status.reasons().is_empty();
            let mut response = text(StatusCode::OK, status.metrics.text(ready));
            let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
            response.headers_mut().insert(CONTENT_TYPE, kind);
            response
        }
        "/api/status" => json_page(StatusCode::OK, &status.page()),
        _ => text(StatusCode::NOT_FOUND, "no such page\n".into()),
    }
}

fn readiness(status: &Status) -> Response<Full<Bytes>> {
    let reasons = status.reasons();
    if reasons.is_empty() {
        return json_page(StatusCode::OK, &json!({"status": "ready", "reasons": []}));
    }
    let page = json!({"status": "not ready", "reasons": reasons});
    json_page(StatusCode::SERVICE_UNAVAILABLE, &page)
}

/// The URL of a Unix socket as the official client writes it: the path in URL-safe base64.
pub fn unix_url(path: &Path) -> String {
    use base64::Engine;
    use std::os::unix::ffi::OsStrExt;
    let path = path.as_os_str().as_bytes();
    let path = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(path);
    format!("http+unix://{path}")
}

/// Whether a Host header names this machine.
fn is_local_host(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    matches!(name, "localhost" | "127.0.0.1" | "[::1]" | "")
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn json_page(status: StatusCode, page: &impl serde::Serialize) -> Response<Full<Bytes>> {
    let mut body = serde_json::to_string(page).unwrap_or_default();
    body.push('\n');
    let mut response = text(status, body);
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_a_host() {
        for good in [
            "localhost",
            "localhost:8080",
            "127.0.0.1:1",
            "[::1]:80",
            "[::1]",
            "",
        ] {
            assert!(is_local_host(good), "{good}");
        }
        for bad in [
            "evil.example",
            "evil.example:8080",
            "127.0.0.1.evil.example",
            "localhost.x",
        ] {
            assert!(!is_local_host(bad), "{bad}");
        }
    }

    #[tokio::test]
    async fn a_socket_is_private_and_a_live_one_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("health.sock");
        let first = bind_unix(&path).await.unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(matches!(bind_unix(&path).await, Err(HealthError::InUse(_))));
        drop(first);
        // The file is still there, and nobody answers on it.
        assert!(path.exists());
        bind_unix(&path).await.unwrap();
    }
}
