//! TLS and proxies between the client and the control plane.

#![allow(
    clippy::expect_used,
    reason = "helpers of tests: where they fail, the test does"
)]

mod common;

use std::net::SocketAddr;
use std::sync::Arc;

use common::{SOON, Setup};
use hands_testkit::{ControlPlane, Planner, Script};
use serde_json::json;
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

#[tokio::test]
async fn a_proxy_is_used_by_flag_by_environment_and_not_where_it_says_no() {
    // The control plane stands in for the proxy: it takes a whole URL as well as a path.
    let plane = ControlPlane::start(Script::default()).await;
    // Nobody listens on port 9 of loopback.
    let nowhere = ["--control-plane.base-url", "http://127.0.0.1:9"];
    let setups = [
        Setup::default().args(
            &[
                &nowhere[..],
                &["--control-plane.http-proxy", &plane.base_url()],
            ]
            .concat(),
        ),
        Setup::default()
            .args(&nowhere)
            .env("HTTP_PROXY", &plane.base_url())
            .env("http_proxy", &plane.base_url()),
    ];
    for setup in setups {
        let rig = setup.start().await;
        let text = Planner::new(&plane)
            .call("echo", json!({"text": "by proxy"}))
            .text()
            .await;
        assert_eq!(text, "by proxy");
        rig.check().await;
    }
    let rig = Setup::default()
        .env("HTTP_PROXY", "http://127.0.0.1:9")
        .env("http_proxy", "http://127.0.0.1:9")
        .env("NO_PROXY", "127.0.0.1")
        .env("no_proxy", "127.0.0.1")
        .start()
        .await;
    rig.plane.polled(SOON).await;
    rig.check().await;
}
