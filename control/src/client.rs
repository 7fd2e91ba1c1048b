//! The asking side.

use crate::error::{ApiError, ControlError};
use crate::limits;
use crate::listener::check_length;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST};
use hyper::{Method, Response};
use hyper_util::rt::TokioIo;
use interprocess::local_socket::tokio::Stream;
use interprocess::local_socket::traits::tokio::Stream as _;
use interprocess::local_socket::{GenericFilePath, ToFsName as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::timeout;

/// Asks whoever listens on one socket. Cheap to clone; it holds no connection between requests.
#[derive(Debug, Clone)]
pub struct Client {
    path: PathBuf,
    timeout: Duration,
}

impl Client {
    /// A client of the socket at `path`, where somebody listens now.
    ///
    /// # Errors
    /// [`ControlError::NotRunning`] where nobody does; others where the socket cannot be used.
    pub async fn connect(path: &Path) -> Result<Self, ControlError> {
        check_length(path)?;
        let client = Self {
            path: path.to_path_buf(),
            timeout: limits::CLIENT_TIMEOUT,
        };
        client.open().await?;
        Ok(client)
    }

    /// With another time for a connection and an answer.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Asks for `path`, such as `/v1/status`.
    ///
    /// # Errors
    /// No answer, one that is not of that type, or the error that was answered.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ControlError> {
        self.whole(Method::GET, path, Bytes::new()).await
    }

    /// Posts `body` as JSON to `path`.
    ///
    /// # Errors
    /// As for [`Client::get`].
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ControlError> {
        let request = format!("POST {path}");
        let body = serde_json::to_vec(body).map_err(|why| self.protocol(&request, why))?;
        self.whole(Method::POST, path, body.into()).await
    }

    /// The answer to `GET path` as it is, whatever its status: for servers that speak HTTP but not this API.
    ///
    /// # Errors
    /// No answer, or none in time.
    pub async fn fetch(&self, path: &str) -> Result<(u16, Bytes), ControlError> {
        let request = format!("GET {path}");
        let asked = async {
            let response = self.ask(Method::GET, path, Bytes::new()).await?;
            let status = response.status().as_u16();
            Ok((status, self.body(&request, response).await?))
        };
        self.in_time(&request, asked).await
    }

    /// Asks for a stream of lines at `path`.
    ///
    /// # Errors
    /// As for [`Client::get`].
    pub async fn stream(&self, path: &str) -> Result<Lines, ControlError> {
        let request = format!("GET {path}");
        let asked = self.ask(Method::GET, path, Bytes::new());
        let response = self.in_time(&request, asked).await?;
        if !response.status().is_success() {
            return Err(self
                .in_time(&request, self.failure(&request, response))
                .await?);
        }
        Ok(Lines {
            client: self.clone(),
            request,
            body: response.into_body(),
            rest: BytesMut::new(),
        })
    }

    async fn whole<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<T, ControlError> {
        let request = format!("{method} {path}");
        let asked = async {
            let response = self.ask(method, path, body).await?;
            if !response.status().is_success() {
                return Err(self.failure(&request, response).await?);
            }
            let bytes = self.body(&request, response).await?;
            serde_json::from_slice(&bytes).map_err(|why| self.protocol(&request, why))
        };
        self.in_time(&request, asked).await
    }

    async fn in_time<T>(
        &self,
        request: &str,
        work: impl Future<Output = Result<T, ControlError>>,
    ) -> Result<T, ControlError> {
        match timeout(self.timeout, work).await {
            Ok(done) => done,
            Err(_) => Err(ControlError::Timeout {
                path: self.path.clone(),
                request: request.to_owned(),
                seconds: self.timeout.as_secs(),
            }),
        }
    }

    async fn open(&self) -> Result<Stream, ControlError> {
        let failed = |source: io::Error| match source.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => ControlError::NotRunning {
                path: self.path.clone(),
                source,
            },
            _ => ControlError::Io {
                action: "connect to",
                path: self.path.clone(),
                source,
            },
        };
        let name = self.path.as_path().to_fs_name::<GenericFilePath>();
        let stream = Stream::connect(name.map_err(failed)?)
            .await
            .map_err(failed)?;
        self.check_owner(&stream)?;
        Ok(stream)
    }

    /// Another user must not be able to stand in for the daemon.
    fn check_owner(&self, stream: &Stream) -> Result<(), ControlError> {
        let error = |source| ControlError::Io {
            action: "ask who serves",
            path: self.path.clone(),
            source,
        };
        let Stream::UdSocket(socket) = stream;
        let uid = socket.inner().peer_cred().map_err(error)?.uid();
        if uid == rustix::process::geteuid().as_raw() {
            return Ok(());
        }
        Err(ControlError::Foreign {
            path: self.path.clone(),
            uid,
        })
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, ControlError> {
        let request = format!("{method} {path}");
        let stream = self.open().await?;
        let failed = |why: hyper::Error| self.protocol(&request, why);
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(failed)?;
        // It ends with the answer's body, or when this client's end of it is dropped.
        tokio::spawn(connection);
        let asked = hyper::Request::builder()
            .method(method)
            .uri(path)
            // What servers that check the host accept.
            .header(HOST, "localhost")
            .header(CONNECTION, "close")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|why| self.protocol(&request, why))?;
        let answer = sender.send_request(asked).await;
        answer.map_err(|why| match has_hung_up(&why) {
            true => ControlError::Ended {
                path: self.path.clone(),
                request: request.clone(),
            },
            false => failed(why),
        })
    }

    async fn body(
        &self,
        request: &str,
        response: Response<Incoming>,
    ) -> Result<Bytes, ControlError> {
        let body = Limited::new(response.into_body(), limits::ANSWER_BYTES)
            .collect()
            .await;
        Ok(body.map_err(|why| self.protocol(request, why))?.to_bytes())
    }

    /// The error that was answered; `Err` where even that cannot be read.
    async fn failure(
        &self,
        request: &str,
        response: Response<Incoming>,
    ) -> Result<ControlError, ControlError> {
        let status = response.status();
        let bytes = self.body(request, response).await?;
        match serde_json::from_slice::<ApiError>(&bytes) {
            Ok(error) => Ok(ControlError::Api(error)),
            Err(_) => {
                Err(self.protocol(request, format!("status {status}, without an error's text")))
            }
        }
    }

    fn protocol(&self, request: &str, reason: impl std::fmt::Display) -> ControlError {
        ControlError::Protocol {
            path: self.path.clone(),
            request: request.to_owned(),
            reason: reason.to_string(),
        }
    }
}

/// Whether the other side is gone, as opposed to having said something odd.
fn has_hung_up(error: &hyper::Error) -> bool {
    use std::error::Error as _;
    let broken = error
        .source()
        .and_then(|why| why.downcast_ref::<io::Error>());
    let broken = broken.is_some_and(|why| {
        matches!(
            why.kind(),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::NotConnected
        )
    });
    broken || error.is_incomplete_message() || error.is_canceled() || error.is_closed()
}

/// A stream of lines, each one JSON value.
#[derive(Debug)]
pub struct Lines {
    client: Client,
    request: String,
    body: Incoming,
    rest: BytesMut,
}

impl Lines {
    /// The next line's value; none at the end. Waits as long as it takes. It may be dropped and called again.
    ///
    /// # Errors
    /// The connection broke, or a line is not of that type.
    pub async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ControlError> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line = self.rest.split_to(end + 1);
                let value = serde_json::from_slice(&line);
                return value.map(Some).map_err(|why| self.broken(why));
            }
            if self.rest.len() > limits::LINE_BYTES {
                return Err(self.broken("a line is too long"));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.rest.extend(frame.into_data().ok()),
                Some(Err(why)) => return Err(self.broken(why)),
                None => return Ok(None),
            }
        }
    }

    fn broken(&self, why: impl std::fmt::Display) -> ControlError {
        self.client.protocol(&self.request, why)
    }
}
