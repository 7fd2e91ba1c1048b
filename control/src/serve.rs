//! The serving side.

use crate::error::ApiError;
use crate::limits;
use crate::lines::Answer;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Says of a process id whether it is to be refused; an error counts as yes. It may block shortly.
pub type Guard = Arc<dyn Fn(i32) -> io::Result<bool> + Send + Sync>;

/// A request, complete.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its method.
    pub method: Method,
    /// Its path, without the query.
    pub path: String,
    /// Its query, without the question mark.
    pub query: Option<String>,
    /// Its body; empty where there was none.
    pub body: Bytes,
    /// The process that connected; it has passed the guard.
    pub peer: i32,
}

impl Request {
    /// The body as JSON of that type.
    ///
    /// # Errors
    /// `bad_request`, with what is wrong.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        serde_json::from_slice(&self.body).map_err(|why| {
            ApiError::bad_request(format!(
                "the body of {} is not as expected: {why}",
                self.path
            ))
        })
    }
}

/// What a handler answers.
#[derive(Debug)]
pub enum Reply {
    /// 200 with this JSON.
    Json(serde_json::Value),
    /// 202 with this JSON: begun, not done.
    Accepted(serde_json::Value),
    /// 200 with lines, each one JSON object, as they come.
    Stream(mpsc::Receiver<Bytes>),
    /// An error, with the status of its code.
    Error(ApiError),
}

impl Reply {
    /// 200 with this value.
    pub fn of(value: &impl Serialize) -> Self {
        match serde_json::to_value(value) {
            Ok(value) => Self::Json(value),
            Err(why) => Self::Error(ApiError::internal(format!(
                "the answer cannot be written: {why}"
            ))),
        }
    }

    /// A stream, and the end that feeds it.
    pub fn stream() -> (StreamSender, Self) {
        let (sender, receiver) = mpsc::channel(limits::STREAM_QUEUE);
        (StreamSender(sender), Self::Stream(receiver))
    }
}

impl From<ApiError> for Reply {
    fn from(error: ApiError) -> Self {
        Self::Error(error)
    }
}

/// The feeding end of a stream.
#[derive(Debug, Clone)]
pub struct StreamSender(mpsc::Sender<Bytes>);

impl StreamSender {
    /// Sends one object as a line; false when the reader is gone. Waits for a slow reader.
    pub async fn send(&self, value: &impl Serialize) -> bool {
        let Ok(mut line) = serde_json::to_vec(value) else {
            return true;
        };
        line.push(b'\n');
        self.0.send(line.into()).await.is_ok()
    }

    /// Waits until the reader is gone.
    pub async fn closed(&self) {
        self.0.closed().await;
    }
}

/// What answers requests.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request.
    fn handle(&self, request: Request) -> impl Future<Output = Reply> + Send;
}

/// Serves whoever may connect until `stop` fires; then gives open connections a moment.
///
/// A peer of another user, or one that `guard` refuses, gets a `refused` error and nothing else.
pub async fn serve<H: Handler>(
    listener: UnixListener,
    handler: Arc<H>,
    guard: Guard,
    stop: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(limits::CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = accept(&listener, &places) => match accepted {
                Ok((stream, place)) => {
                    let (handler, guard, stop) = (Arc::clone(&handler), Arc::clone(&guard), stop.clone());
                    connections.spawn(async move {
                        connection(stream, handler, guard, stop).await;
                        drop(place);
                    });
                }
                // Out of descriptors, most likely; they come back as clients go.
                Err(_) => sleep(limits::ACCEPT_PAUSE).await,
            }
        }
    }
    let all = async { while connections.join_next().await.is_some() {} };
    let _ = timeout(limits::STOP_TIMEOUT, all).await;
}

async fn accept(
    listener: &UnixListener,
    places: &Arc<Semaphore>,
) -> io::Result<(UnixStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places)
        .acquire_owned()
        .await
        .map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

async fn connection<H: Handler>(
    stream: UnixStream,
    handler: Arc<H>,
    guard: Guard,
    stop: CancellationToken,
) {
    let admitted = admit(&stream, guard).await;
    let admitted = admitted.map_err(|why| ApiError::new("refused", why));
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (handler, admitted) = (Arc::clone(&handler), admitted.clone());
        async move {
            let reply = match admitted {
                Err(error) => Reply::Error(error),
                Ok(peer) => answer(&*handler, request, peer).await,
            };
            Ok::<_, Infallible>(response(reply))
        }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(serving);
    tokio::select! {
        _ = &mut serving => return,
        () = stop.cancelled() => serving.as_mut().graceful_shutdown(),
    }
    let _ = serving.await;
}

/// The process of this peer, or why it is not served.
async fn admit(stream: &UnixStream, guard: Guard) -> Result<i32, String> {
    let peer = stream
        .peer_cred()
        .map_err(|why| format!("the system does not say who you are: {why}"))?;
    if peer.uid() != rustix::process::geteuid().as_raw() {
        return Err(format!("user {} is not the owner", peer.uid()));
    }
    let Some(pid) = peer.pid() else {
        return Err("the system does not say which process you are".to_owned());
    };
    match tokio::task::spawn_blocking(move || guard(pid)).await {
        Ok(Ok(false)) => Ok(pid),
        Ok(Ok(true)) => Err(format!("process {pid} runs inside the sandbox")),
        Ok(Err(why)) => Err(format!("process {pid} cannot be looked at: {why}")),
        Err(_) => Err(format!("process {pid} could not be looked at")),
    }
}

async fn answer<H: Handler>(handler: &H, request: hyper::Request<Incoming>, peer: i32) -> Reply {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, limits::REQUEST_BYTES).collect();
    let body = match timeout(limits::BODY_TIMEOUT, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(why)) if why.is::<http_body_util::LengthLimitError>() => {
            let message = format!("the body is over {} bytes", limits::REQUEST_BYTES);
            return ApiError::new("too_large", message).into();
        }
        Ok(Err(why)) => {
            return ApiError::bad_request(format!("the body cannot be read: {why}")).into();
        }
        Err(_) => return ApiError::new("timeout", "the body did not come in time").into(),
    };
    let request = Request {
        method: head.method,
        path: head.uri.path().to_owned(),
        query: head.uri.query().map(str::to_owned),
        body,
        peer,
    };
    match timeout(limits::HANDLER_TIMEOUT, handler.handle(request)).await {
        Ok(reply) => reply,
        Err(_) => ApiError::new("unavailable", "it took too long").into(),
    }
}

fn response(reply: Reply) -> Response<Answer> {
    let (status, kind, body) = match reply {
        Reply::Json(value) => (StatusCode::OK, "application/json", whole(&value)),
        Reply::Accepted(value) => (StatusCode::ACCEPTED, "application/json", whole(&value)),
        Reply::Stream(lines) => (
            StatusCode::OK,
            "application/x-ndjson",
            Answer::Stream(lines),
        ),
        Reply::Error(error) => (error.status(), "application/json", whole(&error)),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn whole(value: &impl Serialize) -> Answer {
    let mut text = serde_json::to_vec(value).unwrap_or_default();
    // For whoever reads it in a terminal.
    text.push(b'\n');
    Answer::Whole(Some(text.into()))
}
