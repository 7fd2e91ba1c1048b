//! Deaths and restarts, of the server and of the client; the health pages; the command line.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use common::{Rig, SOON, Setup, alive, gone, kill};
use hands_testkit::{Command, Endpoint, Fault, Span, echo_program, program};
use hands_tunnel::ask::{self, Place};
use rustix::process::Signal;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn calls_lost_with_one_server_say_nothing_of_the_next() {
    let rig = Rig::start().await;
    rig.ready().await;
    let planner = rig.planner();
    let pid = planner.call("pid", json!({})).text().await;
    let waiting: Vec<_> = (0..5).map(|_| planner.call("silent", json!({}))).collect();
    rig.status_is("calls in flight", |s| s["commands"]["in_flight"] == 5)
        .await;
    kill(&pid);
    for call in &waiting {
        call.error().await;
    }
    // No further call comes, and yet the client is ready again once the next server is there.
    rig.status_is("another server", |s| s["server"]["restarts"] == 1)
        .await;
    rig.ready().await;
    rig.check().await;
}

#[tokio::test]
async fn a_server_that_dies_of_every_call_makes_the_client_not_ready() {
    let rig = Rig::start().await;
    rig.ready().await;
    for _ in 0..3 {
        rig.planner().call("exit", json!({})).error().await;
    }
    rig.status_is("failing calls", |status| {
        let reasons = status["reasons"].as_array().unwrap();
        reasons.iter().any(|reason| reason["code"] == "calls_fail")
    })
    .await;
    rig.planner().list_tools().result().await;
    rig.ready().await;
    rig.check().await;
}

#[tokio::test]
async fn results_that_are_too_large_and_commands_that_are_malformed_are_no_failure_of_the_server() {
    let rig = Setup::default()
        .args(&["--post.max-bytes", "20000"])
        .start()
        .await;
    rig.ready().await;
    for _ in 0..4 {
        let large = rig.planner().call("big", json!({"bytes": 50_000}));
        large.error().await;
        let other = Command::jsonrpc(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
        let id = rig.plane.push(other.channel("elsewhere"));
        rig.plane.final_answer(&id, SOON).await;
    }
    assert_eq!(rig.reasons().await, [""; 0]);
    rig.check().await;
}

#[tokio::test]
async fn a_dead_server_is_replaced_and_given_the_handshake_again() {
    let rig = Setup::default().echo(&["--strict"]).start().await;
    let planner = rig.planner();
    planner.initialize().await;
    let pid = planner.call("pid", json!({})).text().await;
    let waiting: Vec<_> = (0..5).map(|_| planner.call("silent", json!({}))).collect();
    rig.status_is("calls in flight", |s| s["commands"]["in_flight"] == 5)
        .await;
    let began = Instant::now();
    kill(&pid);
    for call in &waiting {
        let error = call.error().await;
        assert_eq!(error["code"], -32603);
        let failure = &error["data"]["tunnel_failure"];
        assert_eq!(failure["source"], "transport_closed");
        assert_eq!(failure["upstream_response_received"], false);
        assert_eq!(rig.plane.answers(&call.request_id).finals(), 1);
    }
    // A strict server: it would refuse this without the handshake.
    let seen = planner.call("seen", json!({})).text().await;
    assert!(
        seen.contains("initialize notifications/initialized"),
        "{seen}"
    );
    assert!(
        began.elapsed() < Duration::from_secs(3),
        "{:?}",
        began.elapsed()
    );
    let next = planner.call("pid", json!({})).text().await;
    assert_ne!(next, pid);
    rig.ready().await;
    let status = rig.status().await;
    assert_eq!(status["server"]["restarts"], 1);
    assert_eq!(status["server"]["restart_in_ms"], json!(null));
    assert!(
        status["server"]["last_end"]
            .as_str()
            .unwrap()
            .contains("signal 9"),
        "{status}"
    );
    rig.check().await;
}

#[tokio::test]
async fn a_server_that_crashes_in_a_call_costs_that_call_only() {
    let rig = Rig::start().await;
    let planner = rig.planner();
    planner.initialize().await;
    for tool in ["crash", "exit"] {
        let error = planner.call(tool, json!({})).error().await;
        assert_eq!(
            error["data"]["tunnel_failure"]["source"], "transport_closed",
            "{tool}"
        );
        assert_eq!(
            planner.call("echo", json!({"text": "on"})).text().await,
            "on"
        );
    }
    rig.check().await;
}

#[tokio::test]
async fn a_server_that_cannot_start_is_told_and_tried_again() {
    let starts = tempfile::NamedTempFile::new().unwrap();
    let path = starts.path().to_str().unwrap();
    let rig = Setup::default()
        .echo(&["--starts", path, "--die"])
        .start()
        .await;
    let error = rig.planner().call("echo", json!({})).error().await;
    assert_eq!(error["data"]["tunnel_failure"]["source"], "connect");
    assert!(
        error["message"].as_str().unwrap().contains("code 3"),
        "{error}"
    );
    let count = std::fs::read_to_string(path).unwrap().lines().count();
    // About 10 s of backoff from 0.2 s: a handful, not a storm.
    assert!((3..=12).contains(&count), "{count} starts");
    assert!(rig.reasons().await.contains(&"server_down".to_owned()));
    rig.check().await;
}

#[tokio::test]
async fn a_hung_server_is_seen_and_replaced() {
    let rig = Rig::start().await;
    let planner = rig.planner();
    planner.initialize().await;
    rig.ready().await;
    let pid = planner.call("pid", json!({})).text().await;
    // It reads and answers nothing from now on; this call's own answer never comes either.
    rig.planner().timeout("100ms").call("deaf", json!({}));
    let began = Instant::now();
    let end = began + Duration::from_secs(25);
    let mut seen = None;
    while alive(&pid) {
        if seen.is_none() && rig.page("/readyz").await.0 == 503 {
            seen = Some(began.elapsed());
        }
        assert!(Instant::now() < end, "it was not replaced");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(
        seen.is_some_and(|after| after <= Duration::from_secs(15)),
        "seen after {seen:?}"
    );
    assert_eq!(
        planner.call("echo", json!({"text": "on"})).text().await,
        "on"
    );
    rig.ready().await;
    rig.check().await;
}

#[tokio::test]
async fn what_a_killed_client_left_is_answered_at_the_next_start() {
    let rig = Rig::start().await;
    let pid = rig.planner().call("pid", json!({})).text().await;
    let lost = rig.planner().call_as("lost", "silent", json!({}));
    let expiring = rig.planner().timeout("700ms").call("silent", json!({}));
    rig.status_is("calls in flight", |s| s["commands"]["in_flight"] == 2)
        .await;
    let mode = std::fs::metadata(rig.path("journal"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    rig.kill().await;
    // Its server sees the end of its input.
    gone(&pid).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    rig.start_client();
    let answer = rig.plane.final_answer(&lost.request_id, SOON).await;
    assert_eq!(answer.json()["id"], "lost");
    let failure = &answer.json()["error"]["data"]["tunnel_failure"];
    assert_eq!(failure["source"], "client_internal");
    assert!(rig.plane.answers(&expiring.request_id).posts.is_empty());
    rig.ready().await;
    // And once only.
    rig.kill().await;
    rig.start_client();
    rig.ready().await;
    assert_eq!(rig.plane.answers(&lost.request_id).finals(), 1);
    rig.check().await;
}

#[tokio::test]
async fn sigterm_lets_calls_finish_and_answers_the_rest() {
    let rig = Setup::default().echo(&["--unhurried"]).start().await;
    let planner = rig.planner();
    let pid = planner.call("pid", json!({})).text().await;
    let ends = planner.call("echo", json!({"text": "finished", "ms": 1500}));
    let never = planner.call("silent", json!({}));
    rig.status_is("calls in flight", |s| s["commands"]["in_flight"] == 2)
        .await;
    let began = Instant::now();
    rig.signal(Signal::TERM);
    // Nothing is polled for any more.
    let status = rig.ended().await;
    let took = began.elapsed();
    assert_eq!(status.code(), Some(0));
    assert!(took < Duration::from_secs(15), "{took:?}");
    assert_eq!(ends.text().await, "finished");
    let error = never.error().await;
    assert_eq!(error["data"]["tunnel_failure"]["source"], "client_internal");
    assert!(!alive(&pid), "the server is left behind");
    assert!(!rig.path("health").exists(), "the socket is left behind");
    rig.check().await;
}

#[tokio::test]
async fn an_idle_client_stops_at_once() {
    let rig = Rig::start().await;
    rig.ready().await;
    for signal in [Signal::TERM, Signal::INT] {
        let began = Instant::now();
        rig.signal(signal);
        assert_eq!(rig.ended().await.code(), Some(0));
        assert!(
            began.elapsed() < Duration::from_secs(1),
            "{:?}",
            began.elapsed()
        );
        rig.start_client();
        rig.ready().await;
    }
    rig.check().await;
}

#[tokio::test]
async fn ready_means_that_both_sides_answered() {
    let rig = Setup::default().echo(&["--deaf"]).start().await;
    rig.status_is("a good poll", |s| s["poll"]["last_good_age_ms"].is_number())
        .await;
    let (code, page) = rig.page("/readyz").await;
    assert_eq!(code, 503);
    let page: serde_json::Value = serde_json::from_str(&page).unwrap();
    assert_eq!(page["reasons"][0]["code"], "server_silent", "{page}");
    assert_eq!(rig.page("/healthz").await.0, 200);
    rig.check().await;
}

#[tokio::test]
async fn polls_that_stop_are_seen() {
    let rig = Setup::default()
        .args(&["--control-plane.poll-timeout", "1s"])
        .start()
        .await;
    rig.ready().await;
    rig.plane
        .inject(Endpoint::Poll, Fault::HalfOpen, Span::UntilHealed);
    rig.status_is("stale polls", |s| s["ready"] == json!(false))
        .await;
    rig.plane.heal();
    rig.ready().await;
    rig.check().await;
}

#[tokio::test]
async fn the_health_pages_are_guarded() {
    let folder = tempfile::tempdir().unwrap();
    let url = folder.path().join("url");
    let rig = Setup::default()
        .args(&[
            "--health.listen-addr",
            "127.0.0.1:0",
            "--health.url-file",
            url.to_str().unwrap(),
        ])
        .start()
        .await;
    rig.ready().await;
    let mode = std::fs::metadata(rig.path("health"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let host = std::fs::read_to_string(&url).unwrap();
    let host = host.strip_prefix("http://").unwrap().to_owned();
    assert_eq!(
        ask::get(&Place::Tcp(host.clone()), "/healthz")
            .await
            .unwrap()
            .0,
        200
    );
    let cases = [
        ("GET /readyz HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403"),
        (
            "POST /readyz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
            "405",
        ),
        ("GET /else HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
        ("HEAD /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n", "200"),
    ];
    for (request, expected) in cases {
        let mut stream = tokio::net::TcpStream::connect(&host).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = [0; 64];
        let n = stream.read(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer[..n]).into_owned();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {expected}")),
            "{request}: {answer}"
        );
    }
    for page in ["/healthz", "/readyz", "/metrics", "/api/status"] {
        let (_, text) = rig.page(page).await;
        assert!(!text.contains(rig.plane.api_key()), "{page}");
        assert!(
            !text.contains(rig.folder.path().to_str().unwrap()),
            "{page}: {text}"
        );
    }
    rig.check().await;
    assert!(!url.exists());
}

#[tokio::test]
async fn exit_codes_tell_configuration_from_service() {
    let rig = Rig::start().await;
    rig.ready().await;
    // The journal is in use.
    let second = rig.command().output().await.unwrap();
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.is_empty() || said.contains("in use"), "{said}");
    let client = program(env!("CARGO_BIN_EXE_hands-tunnel"));
    let run = async |args: &[&str]| {
        let mut command = tokio::process::Command::new(&client);
        let output = command.args(args).env_clear().output().await.unwrap();
        let text = [output.stdout, output.stderr].concat();
        (
            output.status.code(),
            String::from_utf8_lossy(&text).into_owned(),
        )
    };
    let (code, text) = run(&["run"]).await;
    assert!(
        code == Some(1) && text.contains("API key"),
        "{code:?} {text}"
    );
    assert_eq!(run(&["run", "--no-such-flag"]).await.0, Some(1));
    assert_eq!(run(&["--version"]).await.0, Some(0));
    assert_eq!(run(&["run", "--help"]).await.0, Some(0));
    let socket = rig.path("health").display().to_string();
    let (code, text) = run(&["health", "--unix-socket", &socket, "--json"]).await;
    assert!(
        code == Some(0) && text.contains("\"ready\":true"),
        "{code:?} {text}"
    );
    assert_eq!(run(&["health", "--port", "1"]).await.0, Some(2));
    let key = format!("file:{}", rig.path("key").display());
    let server = echo_program().display().to_string();
    let base = rig.plane.base_url();
    let mut args = vec![
        "doctor",
        "--json",
        "--control-plane.tunnel-id",
        rig.plane.tunnel_id(),
        "--control-plane.api-key",
        &key,
        "--control-plane.base-url",
        &base,
        "--journal.file",
        "/nowhere/journal",
        "--mcp.command",
        &server,
    ];
    let (code, text) = run(&args).await;
    assert_eq!(code, Some(0), "{text}");
    *args.last_mut().unwrap() = "/no/such/server";
    let (code, text) = run(&args).await;
    assert!(
        code == Some(2) && text.contains("/no/such/server"),
        "{code:?} {text}"
    );
    rig.check().await;
}

#[tokio::test]
async fn a_key_file_that_others_can_read_stops_the_start() {
    let rig = Rig::start().await;
    rig.kill().await;
    let key = rig.path("key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let mut command = rig.command();
    let output = command
        .stderr(std::process::Stdio::piped())
        .output()
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("chmod 600"), "{said}");
}
