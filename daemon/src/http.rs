//! The endpoints for readiness and monitoring, on loopback.
//!
//! They have no lock, so they change nothing and tell no secret, no path of one and no argument; they answer GET and HEAD only,
//! and only where the Host is this machine: a web page whose name resolves to loopback sends its own name.

use crate::core::Core;
use crate::limits;
use crate::servers::Scraped;
use bytes::Bytes;
use hands_control::types::daemon::{Child, Readiness, Status};
use hands_control::types::server::Sandbox;
use http_body_util::Full;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

/// What is needed to answer.
struct Pages {
    core: Arc<Core>,
    scraped: Scraped,
}

/// Serves until the daemon stops, where the settings say; an address that is taken is tried again and again.
pub(crate) async fn serve(core: Arc<Core>) {
    let pages = Arc::new(Pages {
        core: Arc::clone(&core),
        scraped: Scraped::default(),
    });
    let mut wanted = core.listen.subscribe();
    let mut told = None;
    loop {
        let address = *wanted.borrow_and_update();
        tokio::select! {
            () = core.stop.cancelled() => return,
            // A failure to listen is told once for each address.
            () = at(address, &pages, told != Some(address)) => told = Some(address),
            changed = wanted.changed() => if changed.is_err() { return },
        }
        core.http.send_replace(None);
    }
}

/// Serves at this address; returns after a pause when it cannot.
async fn at(address: SocketAddr, pages: &Arc<Pages>, tell: bool) {
    let listener = match TcpListener::bind(address).await {
        Ok(listener) => listener,
        Err(why) => {
            if tell {
                let detail = json!({"listen": address.to_string(), "reason": why.to_string()});
                pages.core.recorder.note("http_failed", detail);
            }
            return sleep(limits::HTTP_RETRY).await;
        }
    };
    pages.core.http.send_replace(listener.local_addr().ok());
    let mut open = Open::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => open.add(stream, pages),
            // Out of descriptors, most likely.
            Err(_) => sleep(limits::LOOK_AGAIN).await,
        }
    }
}

/// The connections, the oldest first. Whoever holds some open keeps nobody else out: the oldest that asks nothing goes.
#[derive(Default)]
struct Open(VecDeque<Held>);

struct Held {
    task: AbortHandle,
    asked: Arc<AtomicBool>,
}

impl Open {
    fn add(&mut self, stream: TcpStream, pages: &Arc<Pages>) {
        self.0.retain(|held| !held.task.is_finished());
        if self.0.len() >= limits::HTTP_CONNECTIONS {
            let idle = |held: &Held| !held.asked.load(Ordering::Relaxed);
            let at = self.0.iter().position(idle).unwrap_or_default();
            if let Some(held) = self.0.remove(at) {
                held.task.abort();
            }
        }
        let asked = Arc::new(AtomicBool::new(false));
        let serving = connection(stream, Arc::clone(pages), Arc::clone(&asked));
        let task = tokio::spawn(serving).abort_handle();
        self.0.push_back(Held { task, asked });
    }
}

async fn connection(stream: TcpStream, pages: Arc<Pages>, asked: Arc<AtomicBool>) {
    let service = service_fn(move |request| {
        asked.store(true, Ordering::Relaxed);
        let pages = Arc::clone(&pages);
        async move { Ok::<_, Infallible>(pages.answer(&request).await) }
    });
    let serving = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        // One request each: a place is not kept between two.
        .keep_alive(false)
        .header_read_timeout(limits::HTTP_HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    // A body that is announced and never sent is never read, so nothing else can hold it open for long.
    let _ = timeout(limits::HTTP_CONNECTION_TIMEOUT, serving).await;
}

impl Pages {
    async fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let mut hosts = request.headers().get_all(HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        if !host.is_some_and(is_local_host) || hosts.next().is_some() {
            return text(StatusCode::FORBIDDEN, "the Host is not this machine\n");
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
            response
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match request.uri().path() {
            "/healthz" => text(StatusCode::OK, "alive\n"),
            "/readyz" => {
                let readiness = without_paths(self.core.readiness());
                let status = match readiness.ready {
                    true => StatusCode::OK,
                    false => StatusCode::SERVICE_UNAVAILABLE,
                };
                json_page(status, &readiness)
            }
            "/api/status" => json_page(StatusCode::OK, &page(self.core.status().await)),
            "/metrics" => {
                self.scraped
                    .refresh(&self.core.home.run_dir(), &self.core.metrics)
                    .await;
                let mut response = text(StatusCode::OK, self.core.metrics.render());
                let kind = HeaderValue::from_static(hands_metrics::CONTENT_TYPE);
                response.headers_mut().insert(CONTENT_TYPE, kind);
                response
            }
            _ => text(StatusCode::NOT_FOUND, "no such page\n"),
        }
    }
}

/// What of the status anyone on this machine may see: nothing of the home, the folders or the reasons of failures, which name
/// programs and files.
fn page(status: Status) -> serde_json::Value {
    let child = |child: &Child| {
        json!({
            "state": child.state,
            "pid": child.pid,
            "since": child.since,
            "restarts": child.restarts,
            "last_exit": child.last_exit,
            "next_start": child.next_start,
        })
    };
    let server = status.server_status.as_ref();
    json!({
        "daemon": {
            "pid": status.daemon.pid,
            "version": status.daemon.version,
            "started_at": status.daemon.started_at,
            "stopping": status.daemon.stopping,
        },
        "server": child(&status.server),
        "sessions": server.map(|server| server.sessions),
        "calls": server.map(|server| &server.calls),
        "tunnel": {
            "configured": status.tunnel.configured,
            "client": status.tunnel.client,
            "child": child(&status.tunnel.child),
            "ready": status.tunnel.ready,
            "last_good_poll_s": status.tunnel.last_good_poll_s,
            "last_answered_s": status.tunnel.last_answered_s,
        },
        "sandbox": status.sandbox.map(sandbox),
        "readiness": without_paths(status.readiness),
    })
}

/// What everybody may know of the sandbox: a reason may hold a path, its kind and the cure do not.
fn sandbox(sandbox: Sandbox) -> Value {
    let hint = sandbox.hint.as_deref().map(names_only);
    json!({"backend": sandbox.backend, "state": sandbox.state, "cause": sandbox.cause, "cure": hint})
}

/// The same reasons with the names of files and programs only.
fn without_paths(mut readiness: Readiness) -> Readiness {
    for reason in &mut readiness.reasons {
        reason.message = names_only(&reason.message);
    }
    readiness
}

/// The text with each absolute path cut to its last name. A later word with a slash inside continues the path before it: names
/// of folders may hold spaces.
fn names_only(text: &str) -> String {
    let opening = |c: char| matches!(c, '(' | '`' | '"' | '\'' | '=' | '[');
    let starts = |word: &str| {
        let at = word.rfind(opening).map_or(0, |at| at + 1);
        word[at..].starts_with('/').then_some(at)
    };
    let continues = |word: &str| word.contains('/') && !word.contains("://");
    let mut words: Vec<String> = Vec::new();
    // Where the path began that later words may continue.
    let mut path: Option<(usize, String)> = None;
    for word in text.split(' ') {
        let name = word.rsplit('/').next().unwrap_or_default();
        match (starts(word), &path) {
            (Some(at), _) => {
                path = Some((words.len(), word[..at].to_owned()));
                words.push(format!("{}{name}", &word[..at]));
            }
            (None, Some((from, before))) if continues(word) => {
                words.truncate(*from);
                words.push(format!("{before}{name}"));
            }
            (None, _) => words.push(word.to_owned()),
        }
    }
    words.join(" ")
}

/// Whether a Host header names this machine.
fn is_local_host(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name.eq_ignore_ascii_case("localhost") || matches!(name, "127.0.0.1" | "[::1]")
}

fn text(status: StatusCode, body: impl Into<String>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body.into())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn json_page(status: StatusCode, page: &impl Serialize) -> Response<Full<Bytes>> {
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
    fn everybody_is_told_what_the_sandbox_lacks_and_no_path() {
        let told = sandbox(Sandbox {
            backend: "bubblewrap".into(),
            state: "none".into(),
            cause: Some("namespaces-off".into()),
            reason: Some("bwrap: /home/ann/secret plans: no".into()),
            hint: Some("sudo sysctl -w user.max_user_namespaces=15000".into()),
        });
        assert_eq!(told["state"], "none");
        assert_eq!(told["cause"], "namespaces-off");
        assert_eq!(
            told["cure"],
            "sudo sysctl -w user.max_user_namespaces=15000"
        );
        assert!(!told.to_string().contains("plans"), "{told}");
    }

    #[test]
    fn a_reason_keeps_the_name_of_a_file_and_loses_its_folders() {
        for (text, shown) in [
            (
                "the tunnel: /opt/hands/bin/hands-tunnel ended with 7: no",
                "the tunnel: hands-tunnel ended with 7: no",
            ),
            (
                "it: /Users/Ann Lee/my bin/hands-tunnel ended",
                "it: hands-tunnel ended",
            ),
            (
                "cannot read `/h/a b/tunnel.key`: mode",
                "cannot read `tunnel.key`: mode",
            ),
            ("(/a/b) and /c/d", "(b) and d"),
            (
                "http://127.0.0.1:1/v1 answers 503",
                "http://127.0.0.1:1/v1 answers 503",
            ),
            ("", ""),
        ] {
            assert_eq!(names_only(text), shown);
        }
    }

    #[test]
    fn only_this_machine_is_a_host() {
        for good in [
            "localhost",
            "LOCALHOST:8768",
            "127.0.0.1",
            "127.0.0.1:1",
            "[::1]:80",
            "[::1]",
        ] {
            assert!(is_local_host(good), "{good}");
        }
        for bad in [
            "",
            "evil.example",
            "evil.example:8765",
            "127.0.0.1.evil.example",
            "localhost.x",
            "localhost:x",
            "::1",
        ] {
            assert!(!is_local_host(bad), "{bad}");
        }
    }
}
