//! Asking a running client's health pages.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::flags::HealthFlags;
use crate::limits;

/// Where the pages are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// On loopback: `host:port`.
    Tcp(String),
    /// On a Unix socket.
    Unix(PathBuf),
}

impl Place {
    /// Finds the place that the flags name.
    pub fn of(flags: &HealthFlags) -> Result<Self, String> {
        if let Some(path) = &flags.unix_socket {
            return Ok(Self::Unix(path.clone()));
        }
        if let Some(port) = flags.port {
            return Ok(Self::Tcp(format!("127.0.0.1:{port}")));
        }
        if let Some(url) = &flags.url {
            return Self::of_url(url);
        }
        if let Some(path) = &flags.url_file {
            let text = std::fs::read_to_string(path)
                .map_err(|e| format!("reading the health URL from {}: {e}", path.display()))?;
            return Self::of_url(&text);
        }
        Err("say where to ask: --url, --url-file, --port or --unix-socket".into())
    }

    fn of_url(url: &str) -> Result<Self, String> {
        let url = url
            .trim()
            .trim_end_matches("/healthz")
            .trim_end_matches("/readyz");
        if let Some(path) = url.strip_prefix("http+unix://") {
            return unix_path(path).ok_or_else(|| format!("{url:?} names no socket"));
        }
        match url.strip_prefix("http://") {
            Some(host) => Ok(Self::Tcp(host.trim_end_matches('/').to_owned())),
            None => Err(format!("{url:?} is no http:// or http+unix:// URL")),
        }
    }
}

fn unix_path(encoded: &str) -> Option<Place> {
    use base64::Engine;
    use std::os::unix::ffi::OsStringExt;
    let path = base64::engine::general_purpose::URL_SAFE_NO_PAD
        .decode(encoded)
        .ok()?;
    (!path.is_empty()).then(|| Place::Unix(std::ffi::OsString::from_vec(path).into()))
}

/// Fetches a page; its status and body.
pub async fn get(place: &Place, page: &str) -> Result<(u16, String), String> {
    let work = async {
        match place {
            Place::Tcp(host) => {
                let stream = tokio::net::TcpStream::connect(host).await;
                exchange(
                    stream.map_err(|e| format!("connecting to {host}: {e}"))?,
                    page,
                )
                .await
            }
            Place::Unix(path) => {
                let stream = tokio::net::UnixStream::connect(path).await;
                let failed = |e| format!("connecting to {}: {e}", path.display());
                exchange(stream.map_err(failed)?, page).await
            }
        }
    };
    let answer = tokio::time::timeout(Duration::from_secs(5), work).await;
    answer.unwrap_or_else(|_| Err(format!("{page} was not answered within 5 s")))
}

async fn exchange<S>(stream: S, page: &str) -> Result<(u16, String), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let failed = |e: hyper::Error| format!("asking for {page}: {e}");
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(failed)?;
    tokio::spawn(connection);
    let request = hyper::Request::get(page)
        .header("host", "localhost")
        .body(Empty::<Bytes>::new())
        .map_err(|e| format!("asking for {page}: {e}"))?;
    let response = sender.send_request(request).await.map_err(failed)?;
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), limits::ERROR_BODY_MAX).collect();
    let body = body.await.map_err(|e| format!("reading {page}: {e}"))?;
    Ok((
        status,
        String::from_utf8_lossy(&body.to_bytes()).into_owned(),
    ))
}

/// The two pages of `health`.
#[derive(Debug, serde::Serialize)]
pub struct Report {
    /// Whether it is alive.
    pub live: bool,
    /// Whether it is ready.
    pub ready: bool,
    /// What it said, or why it could not be asked.
    pub said: String,
}

/// Asks whether the client is alive and ready.
pub async fn report(place: &Place) -> Report {
    let live = get(place, "/healthz").await;
    let ready = match &live {
        Ok(_) => get(place, "/readyz").await,
        Err(error) => Err(error.clone()),
    };
    let good = |answer: &Result<(u16, String), String>| matches!(answer, Ok((200, _)));
    Report {
        live: good(&live),
        ready: good(&ready),
        said: match ready {
            Ok((_, text)) => text.trim().to_owned(),
            Err(error) => error,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn places_are_found_by_url() {
        let tcp = |text: &str| Place::Tcp(text.to_owned());
        assert_eq!(
            Place::of_url("http://127.0.0.1:8080/\n"),
            Ok(tcp("127.0.0.1:8080"))
        );
        assert_eq!(
            Place::of_url("http://127.0.0.1:1/readyz"),
            Ok(tcp("127.0.0.1:1"))
        );
        assert_eq!(
            Place::of_url(&crate::health::unix_url(Path::new("/a/b"))),
            Ok(Place::Unix("/a/b".into()))
        );
        assert!(Place::of_url("ftp://x").is_err());
    }
}
