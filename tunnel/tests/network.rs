//! TLS and proxies between the client and the control plane.

#![allow(
    clippy::expect_used,
    reason = "helpers of tests: where they fail, the test does"
)]

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::Setup;
use hands_testkit::{ControlPlane, Planner, Script};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{self, pki_types::PrivateKeyDer};

/// A TLS front of a plain server; its address and its certificate in PEM.
async fn tls_front(behind: SocketAddr) -> (SocketAddr, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]);
    let rcgen::CertifiedKey { cert, signing_key } = made.expect("a certificate");
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder
                .with_no_client_auth()
                .with_single_cert(vec![cert.der().clone()], key)
        })
        .expect("a configuration");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("an address");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut inside) = acceptor.accept(stream).await else {
                    return;
                };
                let Ok(mut plain) = TcpStream::connect(behind).await else {
                    return;
                };
                let _ = tokio::io::copy_bidirectional(&mut inside, &mut plain).await;
            });
        }
    });
    (address, cert.pem())
}

#[tokio::test]
async fn a_custom_certificate_is_trusted_where_it_is_given_and_only_there() {
    let plane = ControlPlane::start(Script::default()).await;
    let (front, pem) = tls_front(plane.address()).await;
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("ca.pem");
    std::fs::write(&bundle, pem).unwrap();
    let url = format!("https://localhost:{}", front.port());

    let without = Setup::default()
        .args(&["--control-plane.base-url", &url])
        .start()
        .await;
    let status = without
        .status_is("a failed poll", |s| {
            s["poll"]["failures_in_a_row"].as_u64() >= Some(1)
        })
        .await;
    let trouble = status["poll"]["trouble"]["message"].as_str().unwrap();
    assert!(trouble.contains("certificate"), "{trouble}");
    assert!(plane.exchanges().is_empty());
    without.check().await;

    let with = Setup::default()
        .args(&[
            "--control-plane.base-url",
            &url,
            "--ca-bundle",
            bundle.to_str().unwrap(),
        ])
        .start()
        .await;
    let text = Planner::new(&plane)
        .call("echo", json!({"text": "over TLS"}))
        .text()
        .await;
    assert_eq!(text, "over TLS");
    with.check().await;
    plane.check_contract();
}

/// A proxy that connects to whatever it is asked for; its URL and how often it was asked.
async fn proxy() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("an address");
    let address = listener.local_addr().expect("an address");
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(connect(stream));
        }
    });
    (format!("http://{address}"), asked)
}

/// Serves one `CONNECT`.
async fn connect(mut stream: TcpStream) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).ok()?;
    let port = head.strip_prefix("CONNECT localhost:")?.split(' ').next()?;
    let port: u16 = port.parse().ok()?;
    let mut behind = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.ok()?;
    let _ = tokio::io::copy_bidirectional(&mut stream, &mut behind).await;
    Some(())
}

#[tokio::test]
async fn a_proxy_is_used_by_flag_and_by_environment() {
    let plane = ControlPlane::start(Script::default()).await;
    let (front, pem) = tls_front(plane.address()).await;
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("ca.pem");
    std::fs::write(&bundle, pem).unwrap();
    let url = format!("https://localhost:{}", front.port());
    let (proxy, asked) = proxy().await;
    let mut args = vec!["--control-plane.base-url", &url];
    args.extend(["--ca-bundle", bundle.to_str().unwrap()]);
    let flag = [&args[..], &["--control-plane.http-proxy", &proxy]].concat();
    let setups = [
        Setup::default().args(&flag),
        Setup::default()
            .args(&args)
            .env("HTTPS_PROXY", &proxy)
            .env("https_proxy", &proxy),
    ];
    for setup in setups {
        let before = asked.load(Ordering::Relaxed);
        let rig = setup.start().await;
        let text = Planner::new(&plane)
            .call("echo", json!({"text": "by proxy"}))
            .text()
            .await;
        assert_eq!(text, "by proxy");
        assert!(asked.load(Ordering::Relaxed) > before);
        rig.check().await;
    }
    let rig = Setup::default()
        .args(&args)
        .env("HTTPS_PROXY", "http://127.0.0.1:9")
        .env("NO_PROXY", "localhost")
        .env("no_proxy", "localhost")
        .start()
        .await;
    // Not "a poll waits": one of the client before it may still be there.
    rig.ready().await;
    rig.check().await;
}

#[tokio::test]
async fn plain_http_on_loopback_never_goes_by_a_proxy() {
    let (proxy, asked) = proxy().await;
    let setups = [
        Setup::default().args(&["--control-plane.http-proxy", &proxy]),
        Setup::default()
            .env("HTTP_PROXY", &proxy)
            .env("http_proxy", &proxy)
            .env("ALL_PROXY", &proxy),
    ];
    for setup in setups {
        let rig = setup.start().await;
        let text = rig.planner().call("echo", json!({"text": "direct"}));
        assert_eq!(text.text().await, "direct");
        assert_eq!(asked.load(Ordering::Relaxed), 0);
        rig.check().await;
    }
}
