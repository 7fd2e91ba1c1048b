//! A daemon without a tunnel: start, stop, crashes, reload, endpoints.
#![allow(clippy::unwrap_used)] // Helpers of tests are not marked as tests.

mod common;

use common::{Place, alive, finished, gone, http, none_left, send};
use hands_control::ControlError;
use hands_control::types::daemon::{ChildState, Done, Event};
use hands_control::types::server::Sessions;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test(flavor = "multi_thread")]
async fn local_only_is_ready_and_ends_in_order() {
    let place = Place::new();
    let daemon = place.start().await;
    let status = daemon.ready().await;
    assert!(status.readiness.local_only && !status.tunnel.configured);
    assert_eq!(status.tunnel.child.state, ChildState::Stopped);
    assert_eq!(status.server.state, ChildState::Running);
    let (code, body) = daemon.get("/readyz").await;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (code, &body["local_only"], &body["reasons"]),
        (200, &json!(true), &json!([]))
    );
    assert_eq!(daemon.get("/healthz").await, (200, "alive\n".to_owned()));

    let run = place.run_dir();
    assert_eq!(mode(&run), 0o700);
    for name in ["handsd.sock", "mcp.sock", "handsd.pid", "children.json"] {
        assert_eq!(mode(&run.join(name)), 0o600, "{name}");
    }
    let pid = std::fs::read_to_string(run.join("handsd.pid")).unwrap();
    assert_eq!(pid.trim(), daemon.pid().to_string());

    let done: Done = daemon
        .client()
        .await
        .post("/v1/stop", &json!({}))
        .await
        .unwrap();
    assert!(done.message.contains("stopping"));
    let server = status.server.pid.unwrap();
    assert!(daemon.ended().await.success());
    assert!(!alive(server));
    none_left(&place).await;
    assert!(!run.join("handsd.sock").exists());
    assert_eq!(std::fs::read_to_string(run.join("handsd.pid")).unwrap(), "");
    let events: Vec<String> = place
        .lifecycle()
        .into_iter()
        .map(|(event, _)| event)
        .collect();
    for wanted in [
        "start",
        "child_start",
        "readiness",
        "stop_asked",
        "child_exit",
        "stop",
    ] {
        assert!(
            events.iter().any(|event| event == wanted),
            "{wanted}: {events:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_daemon_refuses_and_names_the_first() {
    let place = Place::new();
    let first = place.start().await;
    first.ready().await;
    let output = finished(place.command());
    assert_eq!(output.status.code(), Some(69));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains(&format!("pid {}", first.pid())), "{text}");
    assert!(
        first.status().await.readiness.ready,
        "the first one is not disturbed"
    );
    first.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_comes_back() {
    let place = Place::new();
    let daemon = place.start().await;
    let old = daemon.ready().await.server.pid.unwrap();
    send(old, Signal::KILL);
    let status = daemon
        .until("another server", |status| {
            status.readiness.ready && status.server.pid != Some(old)
        })
        .await;
    assert_eq!(status.server.restarts, 1);
    assert_eq!(status.server.last_exit.as_deref(), Some("signal 9"));
    let (_, page) = daemon.get("/metrics").await;
    assert!(
        page.contains("hands_child_restarts_total{child=\"server\"} 1"),
        "{page}"
    );
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_daemons_server_is_found_and_ended() {
    let place = Place::new();
    let first = place.start().await;
    let orphan = first.ready().await.server.pid.unwrap();
    first.kill();
    assert!(alive(orphan), "nobody ended it yet");
    let second = place.start().await;
    let status = second.ready().await;
    assert_ne!(status.server.pid, Some(orphan));
    gone(orphan).await;
    let notes = place.lifecycle();
    let note = notes.iter().find(|(event, _)| event == "orphan").unwrap();
    assert_eq!(
        (&note.1["pid"], &note.1["ended"]),
        (&json!(orphan), &json!(true))
    );
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_server_is_seen_and_replaced() {
    let place = Place::new();
    let daemon = place.start().await;
    let hung = daemon.ready().await.server.pid.unwrap();
    send(hung, Signal::STOP);
    let seen = Duration::from_secs(25);
    daemon
        .within(seen, "not ready", |status| !status.readiness.ready)
        .await;
    let (code, body) = daemon.get("/readyz").await;
    assert!(
        code == 503 && body.contains("server_silent"),
        "{code} {body}"
    );
    let status = daemon
        .within(Duration::from_secs(60), "replaced", |status| {
            status.readiness.ready && status.server.pid != Some(hung)
        })
        .await;
    assert_eq!(status.server.restarts, 1);
    assert!(!alive(hung));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_takes_what_is_good_and_keeps_what_was_where_it_is_not() {
    let place = Place::new();
    let daemon = place.start().await;
    let first = daemon.ready().await.server.pid.unwrap();
    let other = place.root().join("ann/other");
    std::fs::create_dir(&other).unwrap();
    place.config(&format!("workspaces = [{:?}]\n", other.to_str().unwrap()));
    daemon.signal(Signal::HUP);
    let status = daemon
        .until("a new server", |status| {
            status.readiness.ready && status.server.pid != Some(first)
        })
        .await;
    assert_eq!(status.server.restarts, 0, "on purpose, so not counted");

    place.config("workspaces = 5\n");
    let client = daemon.client().await;
    let error = client
        .post::<Done>("/v1/reload", &json!({}))
        .await
        .unwrap_err();
    let ControlError::Api(error) = error else {
        unreachable!("{error}")
    };
    assert!(error.message.contains("config.toml:1"), "{error}");
    let refused = daemon.status().await;
    assert_eq!(refused.server.pid, status.server.pid);
    let tells = |warnings: &[String]| {
        let mut warnings = warnings.iter();
        warnings.any(|text| text.contains("config.toml:1") && text.contains("stay in force"))
    };
    assert!(tells(&refused.warnings), "{:?}", refused.warnings);

    // Nothing that the server reads: it stays.
    place.config(&format!(
        "workspaces = [{:?}]\n[tunnel]\nclient = \"builtin\"\n",
        other.to_str().unwrap()
    ));
    let done: Done = client.post("/v1/reload", &json!({})).await.unwrap();
    assert!(
        done.message.contains("tunnel") && !done.message.contains("server"),
        "{done:?}"
    );
    let taken = daemon.ready().await;
    assert_eq!(taken.server.pid, status.server.pid);
    assert!(!tells(&taken.warnings), "{:?}", taken.warnings);

    // From the answer on nothing is said to be ready that has not been looked at since.
    place.config("[tunnel]\nid = \"tunnel_0123456789abcdef0123456789abcdef\"\n");
    let _: Done = client.post("/v1/reload", &json!({})).await.unwrap();
    let readiness = daemon.status().await.readiness;
    assert!(!readiness.ready && !readiness.local_only, "{readiness:?}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_endpoints_answer_this_machine_and_change_nothing() {
    let place = Place::new();
    let daemon = place.start().await;
    daemon.ready().await;
    for host in [
        "evil.example",
        "evil.example:8765",
        "",
        "127.0.0.1.evil.example",
    ] {
        for path in ["/healthz", "/readyz", "/api/status", "/metrics", "/"] {
            assert_eq!(daemon.http("GET", path, host).await.0, 403, "{host} {path}");
        }
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        assert_eq!(
            daemon.http(method, "/readyz", "localhost").await.0,
            405,
            "{method}"
        );
    }
    assert_eq!(
        daemon.http("HEAD", "/readyz", "127.0.0.1:1").await,
        (200, String::new())
    );
    for path in ["/", "/mcp", "/v1/stop", "/readyz/../metrics"] {
        assert_eq!(daemon.get(path).await.0, 404, "{path}");
    }
    let (code, page) = daemon.get("/metrics").await;
    assert_eq!(code, 200);
    for line in [
        "hands_ready 1",
        "hands_local_only 1",
        "hands_child_state{child=\"server\",state=\"ready\"} 1",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\n{page}");
    }
    assert!(page.contains("hands_build_info{"), "{page}");
    let (_, status) = daemon.get("/api/status").await;
    let home = place.root().to_str().unwrap();
    for page in [&page, &status] {
        assert!(!page.contains(home), "no folder of the person's: {page}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_holds_connections_open_keeps_nobody_out() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let place = Place::new();
    let daemon = place.start().await;
    let address = daemon.ready().await.daemon.http.unwrap();
    let mut held = Vec::new();
    for at in 0..64 {
        let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
        if at % 2 == 0 {
            stream
                .write_all(b"GET /readyz HTTP/1.1\r\nHo")
                .await
                .unwrap();
        }
        held.push(stream);
    }
    let answer = tokio::time::timeout(Duration::from_secs(5), daemon.get("/readyz")).await;
    assert_eq!(answer.unwrap().0, 200);
    drop(held);

    // Nor by asking again and again over one.
    let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
    let request = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn control_knows_its_paths_and_tells_events() {
    let place = Place::new();
    let daemon = place.start().await;
    daemon.ready().await;
    let client = daemon.client().await;
    let mut events = client.stream("/v1/events").await.unwrap();
    let sessions: Sessions = client.get("/v1/sessions").await.unwrap();
    assert!(
        sessions.sessions.is_empty(),
        "the daemon's own is left out: {sessions:?}"
    );
    let code = |error: ControlError| match error {
        ControlError::Api(error) => error.code,
        other => unreachable!("{other}"),
    };
    let error = client
        .post::<Done>("/v1/restart", &json!({"what": "tunnel"}))
        .await;
    assert_eq!(code(error.unwrap_err()), "conflict");
    let error = client
        .post::<Done>("/v1/restart", &json!({"what": "all"}))
        .await;
    assert_eq!(code(error.unwrap_err()), "bad_request");
    assert_eq!(
        code(client.get::<Done>("/v1/stop").await.unwrap_err()),
        "method"
    );
    assert_eq!(
        code(client.get::<Done>("/v2/status").await.unwrap_err()),
        "not_found"
    );

    let before = daemon.status().await.server.pid;
    let _: Done = client
        .post("/v1/restart", &json!({"what": "server"}))
        .await
        .unwrap();
    let status = daemon
        .until("restarted", |status| {
            status.readiness.ready && status.server.pid != before
        })
        .await;
    assert_eq!(status.server.restarts, 0);
    let mut kinds = Vec::new();
    while !kinds.iter().any(|kind| kind == "child_start") {
        let next = tokio::time::timeout(common::SOON, events.next::<Event>()).await;
        kinds.push(next.unwrap().unwrap().unwrap().event);
    }
    assert!(
        kinds.iter().any(|kind| kind == "restart_asked"),
        "{kinds:?}"
    );
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_configuration_stops_the_start() {
    let place = Place::new();
    place.config("[http]\nlisten = \"0.0.0.0:8765\"\n");
    let mut command = place.command();
    command.env_remove("HANDS_HTTP_LISTEN");
    let output = finished(command);
    assert_eq!(output.status.code(), Some(78));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.contains("config.toml:2") && text.contains("loopback"),
        "{text}"
    );
    assert!(!place.run_dir().join("handsd.sock").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_taken_is_told_and_taken_later() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let daemon = place
        .start_with(|command| {
            command.env("HANDS_HTTP_LISTEN", &address);
        })
        .await;
    let status = daemon.ready().await;
    assert_eq!(status.daemon.http, None);
    assert!(
        status
            .warnings
            .iter()
            .any(|warning| warning.contains(&address)),
        "{status:?}"
    );
    drop(taken);
    daemon
        .until("listening", |status| {
            status.daemon.http.as_deref() == Some(&address)
        })
        .await;
    assert_eq!(http(&address, "GET", "/readyz", "localhost").await.0, 200);
    daemon.stop().await;
}

/// What a service manager is told, one message after the other.
struct Manager(std::os::unix::net::UnixDatagram);

impl Manager {
    /// Waits for a message with this line.
    fn hears(&self, line: &str) {
        let mut buffer = [0; 4096];
        loop {
            let count = self
                .0
                .recv(&mut buffer)
                .unwrap_or_else(|why| unreachable!("never {line}: {why}"));
            let text = String::from_utf8_lossy(&buffer[..count]);
            if text.lines().any(|found| found.starts_with(line)) {
                return;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_manager_is_told_and_children_are_not_heard() {
    let place = Place::new();
    let path = place.root().join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(common::SOON)).unwrap();
    let manager = Manager(socket);
    let daemon = place
        .start_with(|command| {
            command
                .env("NOTIFY_SOCKET", &path)
                .env("WATCHDOG_USEC", "30000000");
        })
        .await;
    manager.hears("READY=1");
    manager.hears("WATCHDOG=1");
    let status = daemon.ready().await;
    assert_eq!(status.daemon.manager.as_deref(), Some("systemd"));
    let environment =
        std::fs::read(format!("/proc/{}/environ", status.server.pid.unwrap())).unwrap();
    let environment = String::from_utf8_lossy(&environment);
    assert!(!environment.contains("NOTIFY_SOCKET") && !environment.contains("WATCHDOG"));
    daemon.signal(Signal::HUP);
    manager.hears("RELOADING=1");
    manager.hears("READY=1");
    daemon.signal(Signal::TERM);
    manager.hears("STOPPING=1");
    assert!(daemon.ended().await.success());
}
