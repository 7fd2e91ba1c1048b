//! The HTTP side: routes, faults, recording.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::plane::Inner;
use crate::{Endpoint, Exchange, Fault};

/// Ends the connection without an answer: hyper closes it when a service fails.
#[derive(Debug)]
struct Hangup;

impl std::fmt::Display for Hangup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the test asked for a dropped connection")
    }
}

impl std::error::Error for Hangup {}

/// A body that arrives in pieces and may end in an error.
struct Pieces(mpsc::Receiver<Result<Bytes, Hangup>>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Hangup;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Hangup>>> {
        self.0
            .poll_recv(cx)
            .map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

type AnyBody = http_body_util::combinators::UnsyncBoxBody<Bytes, Hangup>;
type Answer = Result<Response<AnyBody>, Hangup>;

pub(crate) async fn serve(listener: TcpListener, inner: Arc<Inner>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let _ = stream.set_nodelay(true);
        let inner = Arc::clone(&inner);
        connections.spawn(async move {
            let service = service_fn(move |request| handle(request, Arc::clone(&inner)));
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

impl Exchange {
    fn answered(&mut self, response: &Response<AnyBody>, body: String) {
        self.status = Some(response.status().as_u16());
        self.answer_headers = plain(response.headers());
        self.answer = body.into_bytes();
    }
}

fn plain(headers: &HeaderMap) -> Vec<(String, String)> {
    let plain = headers.iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        (name.as_str().to_owned(), value)
    });
    plain.collect()
}

/// A request read whole, with what was decided about it so far.
struct Seen {
    exchange: Exchange,
    fault: Option<Fault>,
}

async fn handle(request: Request<Incoming>, inner: Arc<Inner>) -> Answer {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let endpoint = route(&parts.method, &path, &inner.script.tunnel_id);
    let body = read_body(body, inner.script.max_body).await;
    let mut seen = Seen {
        exchange: Exchange {
            at: Instant::now(),
            endpoint,
            method: parts.method.to_string(),
            path,
            query: parts.uri.query().unwrap_or_default().to_owned(),
            headers: plain(&parts.headers),
            body: body.clone().unwrap_or_default(),
            status: None,
            answer_headers: Vec::new(),
            answer: Vec::new(),
            off_contract: false,
        },
        fault: endpoint.and_then(|endpoint| inner.state().faults.take(endpoint)),
    };
    let Some(endpoint) = endpoint else {
        return finish(&inner, seen, 404, api_error(404)).await;
    };
    if let Some(answer) = early(&inner, &mut seen, endpoint).await {
        return answer;
    }
    if body.is_none() {
        return finish(&inner, seen, 413, api_error(413)).await;
    }
    let expected = format!("Bearer {}", inner.script.api_key);
    if seen.exchange.header("authorization") != Some(expected.as_str()) {
        return finish(&inner, seen, 401, api_error(401)).await;
    }
    match endpoint {
        Endpoint::Metadata => {
            let body = json!({
                "id": inner.script.tunnel_id, "name": "test tunnel",
                "description": "a control plane on loopback", "unknown_field": {"kept": true},
            });
            finish(&inner, seen, 200, Some(body)).await
        }
        Endpoint::Poll => poll(&inner, seen).await,
        Endpoint::Response => respond(&inner, seen).await,
    }
}

/// Reads a body; none where it is over `max`. It is read to its end all the same: a service that
/// answers earlier may have its answer lost in the client's broken pipe.
async fn read_body(mut body: Incoming, max: usize) -> Option<Vec<u8>> {
    let mut kept = Vec::new();
    let mut size = 0;
    while let Some(frame) = body.frame().await {
        let data = frame.ok()?.into_data().unwrap_or_default();
        size += data.len();
        if size <= max {
            kept.extend_from_slice(&data);
        }
    }
    (size <= max).then_some(kept)
}

fn route(method: &Method, path: &str, tunnel: &str) -> Option<Endpoint> {
    let at = path.find("/v1/tunnels/")?;
    let rest = path[at..].strip_prefix("/v1/tunnels/")?;
    let (id, tail) = rest.split_once('/').unwrap_or((rest, ""));
    match (method, tail) {
        _ if id != tunnel => None,
        (&Method::GET, "") => Some(Endpoint::Metadata),
        (&Method::GET, "poll") => Some(Endpoint::Poll),
        (&Method::POST, "response") => Some(Endpoint::Response),
        _ => None,
    }
}

/// Faults that need no effect of the request.
async fn early(inner: &Arc<Inner>, seen: &mut Seen, endpoint: Endpoint) -> Option<Answer> {
    let (status, retry_after) = match seen.fault.clone()? {
        Fault::Status(status) => (Some(status), None),
        Fault::StatusRetryAfter(status, after) => (Some(status), Some(after.header())),
        Fault::Drop | Fault::HalfOpen => (None, None),
        _ => return None,
    };
    if endpoint == Endpoint::Response {
        let payload = seen.exchange.json().unwrap_or(Value::Null);
        let token = seen.exchange.header("x-tunnel-shard-token").unwrap_or("");
        inner.note_refused(payload, token, status);
    }
    seen.exchange.status = status;
    let Some(status) = status else {
        inner.record(seen.exchange.clone());
        if matches!(seen.fault, Some(Fault::HalfOpen)) {
            std::future::pending::<Infallible>().await;
        }
        return Some(Err(Hangup));
    };
    let body = api_error(status);
    let text = body.as_ref().map(Value::to_string).unwrap_or_default();
    let mut response = whole(status, body);
    if let Some(after) = retry_after.and_then(|text| HeaderValue::from_str(&text).ok()) {
        response.headers_mut().insert("retry-after", after);
    }
    seen.exchange.answered(&response, text);
    inner.record(seen.exchange.clone());
    Some(Ok(response))
}

/// Tells the plane that a poll waits, for as long as it lives.
struct Waiting<'a>(&'a Inner);

impl<'a> Waiting<'a> {
    fn new(inner: &'a Inner) -> Self {
        inner.waiting(1);
        Self(inner)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting(-1);
    }
}

async fn poll(inner: &Arc<Inner>, mut seen: Seen) -> Answer {
    let query = |name: &str| {
        seen.exchange
            .query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(key, _)| *key == name)
            .and_then(|(_, value)| value.parse::<u64>().ok())
    };
    let limit = query("limit").unwrap_or(25).clamp(1, 25) as usize;
    let asked = Duration::from_millis(query("timeout_ms").unwrap_or(u64::MAX));
    let end = tokio::time::Instant::now() + asked.min(inner.script.max_wait);
    let batch = loop {
        let pushed = inner.pushed.notified();
        tokio::pin!(pushed);
        pushed.as_mut().enable();
        if let Some(batch) = inner.take_batch(limit) {
            break Some(batch);
        }
        let _waiting = Waiting::new(inner);
        if tokio::time::timeout_at(end, pushed).await.is_err() {
            break inner.take_batch(limit);
        }
    };
    let Some(batch) = batch else {
        return finish(inner, seen, 204, None).await;
    };
    seen.exchange.off_contract = !batch.on_contract;
    if matches!(
        seen.fault,
        Some(Fault::DropInBody | Fault::TruncatedJson | Fault::AcceptThenDrop)
    ) {
        inner.put_back(&batch.ids);
    }
    finish(inner, seen, 200, Some(batch.body)).await
}

async fn respond(inner: &Arc<Inner>, seen: Seen) -> Answer {
    let Some(token) = seen.exchange.header("x-tunnel-shard-token") else {
        return finish(inner, seen, 400, api_error(400)).await;
    };
    let Some(payload) = seen.exchange.json().filter(Value::is_object) else {
        return finish(inner, seen, 400, api_error(400)).await;
    };
    let status = inner.accept(payload, token);
    let body = if status == 200 {
        Some(json!({"status": "ok"}))
    } else {
        api_error(status)
    };
    finish(inner, seen, status, body).await
}

/// Records the exchange and sends the answer, through the fault where there is one.
async fn finish(inner: &Arc<Inner>, mut seen: Seen, status: u16, body: Option<Value>) -> Answer {
    let text = body.as_ref().map(Value::to_string).unwrap_or_default();
    let fault = seen.fault.take();
    let response = match fault {
        Some(Fault::AcceptThenDrop) => {
            inner.record(seen.exchange);
            return Err(Hangup);
        }
        Some(Fault::TruncatedJson) => full(status, text[..text.len() / 2].to_owned()),
        Some(Fault::DropInBody) => in_pieces(status, text.clone(), Duration::ZERO, true),
        Some(Fault::SlowBody(pause)) => in_pieces(status, text.clone(), pause, false),
        _ => full(status, text.clone()),
    };
    seen.exchange.off_contract |= matches!(fault, Some(Fault::TruncatedJson | Fault::DropInBody));
    seen.exchange.answered(&response, text);
    inner.record(seen.exchange);
    Ok(response)
}

fn whole(status: u16, body: Option<Value>) -> Response<AnyBody> {
    full(
        status,
        body.map(|body| body.to_string()).unwrap_or_default(),
    )
}

fn full(status: u16, text: String) -> Response<AnyBody> {
    let body = http_body_util::Full::new(Bytes::from(text));
    build(
        status,
        body.map_err(|never: Infallible| match never {})
            .boxed_unsync(),
    )
}

fn in_pieces(status: u16, text: String, pause: Duration, breaks: bool) -> Response<AnyBody> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let bytes = Bytes::from(text);
        let step = (bytes.len() / 4).max(1);
        for start in (0..bytes.len()).step_by(step) {
            if breaks && start > 0 {
                // Only once the first piece was taken is the headers' arrival certain.
                let _ = sender.send(Err(Hangup)).await;
                return;
            }
            tokio::time::sleep(pause).await;
            let piece = bytes.slice(start..(start + step).min(bytes.len()));
            if sender.send(Ok(piece)).await.is_err() {
                return;
            }
        }
    });
    build(status, Pieces(receiver).boxed_unsync())
}

fn build(status: u16, body: AnyBody) -> Response<AnyBody> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::IM_A_TEAPOT);
    if status != 204 {
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert("content-type", json);
    }
    response
}

/// The API's error body, with the stable code that the contract names for the status.
fn api_error(status: u16) -> Option<Value> {
    let (code, kind) = match status {
        401 => (json!("tunnel_missing_principals"), "invalid_request_error"),
        403 => (json!("tunnel_use_forbidden"), "invalid_request_error"),
        404 => (json!("pending_request_not_found"), "invalid_request_error"),
        413 => (json!("request_body_too_large"), "invalid_request_error"),
        429 => (json!("rate_limit_exceeded"), "rate_limit_error"),
        503 => (json!("tunnel_transport_unavailable"), "server_error"),
        500.. => (Value::Null, "server_error"),
        _ => (Value::Null, "invalid_request_error"),
    };
    let message = format!("the control plane under test answers {status}");
    Some(json!({"error": {"message": message, "type": kind, "param": null, "code": code}}))
}
