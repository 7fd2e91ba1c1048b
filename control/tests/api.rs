//! Client and serving side, over a real socket.
#![allow(clippy::unwrap_used)] // Helpers of tests are not marked as tests.

use hands_control::{ApiError, Client, ControlError, Guard, Handler, Reply, Request, bind, serve};
use hyper::Method;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

struct Echo;

impl Handler for Echo {
    async fn handle(&self, request: Request) -> Reply {
        match (request.method.clone(), request.path.as_str()) {
            (Method::GET, "/v1/status") => Reply::of(&json!({"query": request.query})),
            (Method::POST, "/v1/echo") => match request.json::<Value>() {
                Ok(value) => Reply::Accepted(value),
                Err(error) => error.into(),
            },
            (Method::GET, "/v1/events") => {
                let (sender, reply) = Reply::stream();
                tokio::spawn(async move {
                    for number in 0..3 {
                        sender.send(&json!({"number": number})).await;
                    }
                });
                reply
            }
            (_, "/v1/status") => ApiError::method("GET").into(),
            (_, path) => Reply::Error(ApiError::not_found(path).hint("see the manual")),
        }
    }
}

struct Place {
    _dir: tempfile::TempDir,
    socket: PathBuf,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
}

fn place(guard: impl Fn(i32) -> std::io::Result<bool> + Send + Sync + 'static) -> Place {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("x.sock");
    let listener = bind(&socket).unwrap();
    let stop = CancellationToken::new();
    let guard: Guard = Arc::new(guard);
    let serving = tokio::spawn(serve(listener, Arc::new(Echo), guard, stop.clone()));
    Place {
        _dir: dir,
        socket,
        stop,
        serving,
    }
}

fn api(error: ControlError) -> ApiError {
    match error {
        ControlError::Api(error) => error,
        other => unreachable!("{other}"),
    }
}

#[tokio::test]
async fn values_errors_and_streams_come_across() {
    let place = place(|_| Ok(false));
    let client = Client::connect(&place.socket).await.unwrap();
    let value: Value = client.get("/v1/status?x=1").await.unwrap();
    assert_eq!(value, json!({"query": "x=1"}));
    let value: Value = client.post("/v1/echo", &json!({"a": 1})).await.unwrap();
    assert_eq!(value, json!({"a": 1}));

    let error = api(client.get::<Value>("/v1/nothing").await.unwrap_err());
    assert_eq!(
        (error.code.as_str(), error.hint.as_deref()),
        ("not_found", Some("see the manual"))
    );
    let error = api(client
        .post::<Value>("/v1/status", &json!({}))
        .await
        .unwrap_err());
    assert_eq!(error.code, "method");
    let error = api(client.stream("/v1/nothing").await.unwrap_err());
    assert_eq!(error.code, "not_found");

    let mut lines = client.stream("/v1/events").await.unwrap();
    let mut numbers = Vec::new();
    while let Some(line) = lines.next::<Value>().await.unwrap() {
        numbers.push(line["number"].as_u64().unwrap());
    }
    assert_eq!(numbers, [0, 1, 2]);
}

#[tokio::test]
async fn a_body_that_is_too_large_or_no_json_is_an_error() {
    let place = place(|_| Ok(false));
    let client = Client::connect(&place.socket).await.unwrap();
    let large = json!({"a": "x".repeat(hands_control::limits::REQUEST_BYTES)});
    let error = api(client.post::<Value>("/v1/echo", &large).await.unwrap_err());
    assert_eq!(error.code, "too_large");

    let mut stream = UnixStream::connect(&place.socket).await.unwrap();
    let request =
        "POST /v1/echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\n{x}";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(answer.contains(r#""code":"bad_request""#), "{answer}");
}

#[tokio::test]
async fn a_peer_that_the_guard_refuses_gets_nothing_else() {
    for refuse in [true, false] {
        // An ancestry that cannot be found out counts as refused.
        let place = place(move |_| {
            if refuse {
                Ok(true)
            } else {
                Err(std::io::Error::other("gone"))
            }
        });
        let client = Client::connect(&place.socket).await.unwrap();
        let error = api(client.get::<Value>("/v1/status").await.unwrap_err());
        assert_eq!(error.code, "refused");
    }
}

#[tokio::test]
async fn only_the_owner_may_open_the_socket_and_a_stale_one_is_replaced() {
    let first = place(|_| Ok(false));
    let mode = std::fs::metadata(&first.socket)
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    first.stop.cancel();
    first.serving.await.unwrap();
    let error = Client::connect(&first.socket).await.unwrap_err();
    assert!(error.is_not_running(), "{error}");
    drop(bind(&first.socket).unwrap());
    let missing = first.socket.with_file_name("missing.sock");
    assert!(
        Client::connect(&missing)
            .await
            .unwrap_err()
            .is_not_running()
    );
}

#[tokio::test]
async fn a_path_that_fits_in_no_address_is_said_so() {
    let long = PathBuf::from(format!("/tmp/{}/x.sock", "y".repeat(100)));
    let error = bind(&long).unwrap_err();
    assert!(error.to_string().contains("HANDS_HOME"), "{error}");
    assert!(!Client::connect(&long).await.unwrap_err().is_not_running());
}

#[tokio::test]
async fn an_idle_connection_does_not_hold_up_the_end() {
    let place = place(|_| Ok(false));
    let _idle = UnixStream::connect(&place.socket).await.unwrap();
    let client = Client::connect(&place.socket).await.unwrap();
    let _: Value = client.get("/v1/status").await.unwrap();
    place.stop.cancel();
    let within = hands_control::limits::STOP_TIMEOUT * 2;
    tokio::time::timeout(within, place.serving)
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_is_a_client_too() {
    let place = place(|_| Ok(false));
    let output = tokio::process::Command::new("curl")
        .args(["-sS", "--max-time", "10", "--unix-socket"])
        .arg(&place.socket)
        .arg("http://hands/v1/status")
        .output()
        .await;
    match output {
        Ok(output) => assert_eq!(output.stdout, b"{\"query\":null}\n"),
        Err(why) => eprintln!("skipped: there is no curl here ({why})"),
    }
}

#[tokio::test]
async fn one_that_hangs_up_is_known_from_one_that_answers_badly() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.sock");
    let listener = bind(&path).unwrap();
    let serving = tokio::spawn(async move {
        // A client first looks whether anybody is there.
        drop(listener.accept().await.unwrap());
        // At once, after the question was read, and in the middle of an answer's head.
        for said in [
            None,
            Some(&b""[..]),
            Some(&b"HTTP/1.1 2"[..]),
            Some(&b"garbage\r\n\r\n"[..]),
        ] {
            let (mut stream, _) = listener.accept().await.unwrap();
            if let Some(said) = said {
                let mut head = [0; 16];
                stream.read_exact(&mut head).await.unwrap();
                stream.write_all(said).await.unwrap();
            }
        }
    });
    let client = Client::connect(&path).await.unwrap();
    for _ in 0..3 {
        let error = client
            .get::<serde_json::Value>("/v1/status")
            .await
            .unwrap_err();
        assert!(matches!(error, ControlError::Ended { .. }), "{error:?}");
    }
    let error = client
        .get::<serde_json::Value>("/v1/status")
        .await
        .unwrap_err();
    assert!(matches!(error, ControlError::Protocol { .. }), "{error:?}");
    serving.await.unwrap();
}
