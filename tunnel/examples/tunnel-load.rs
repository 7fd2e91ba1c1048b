//! Measures a client between a control plane and an MCP server, both on this machine:
//!
//! `tunnel-load builtin|official|null PROGRAM [CALLS]`
//!
//! `null` is no client at all: it polls and posts from inside this program, and so gives the
//! control plane's own round trip. Prints the round trip of calls one at a time and the calls
//! a second of fifty at a time. Build it and the client with optimization for figures that mean
//! something.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measuring program"
)]

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hands_testkit::{ControlPlane, Planner, Script, echo_program};
use hands_tunnel::control_plane::{ControlPlane as Client, Endpoint};
use hands_tunnel::driver::{Choice, ClientSpec};
use hands_tunnel::jsonrpc::{RawObject, raw};
use hands_tunnel::secret::{ApiKey, KeyReference};
use hands_tunnel::wire::{Answer, Work};
use serde_json::json;

const AT_ONCE: usize = 50;

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let kind = args.first().map_or("null", String::as_str);
    let program = args.get(1).cloned().unwrap_or_default();
    let calls = args.get(2).map_or(20_000, |n| n.parse().expect("a number"));
    let script = Script {
        record: false,
        ..Script::default()
    };
    let plane = Arc::new(ControlPlane::start(script).await);
    let folder = tempfile::tempdir().unwrap();
    let mut client = None;
    if kind == "null" {
        tokio::spawn(null_client(
            plane.base_url(),
            plane.tunnel_id().into(),
            plane.api_key().into(),
        ));
    } else {
        client = Some(start(kind, &program, &plane, folder.path()));
    }
    let planner = Planner::new(&plane);
    planner.initialize_only().answer().await;

    let mut trips: Vec<Duration> = Vec::new();
    for _ in 0..500 {
        let began = Instant::now();
        call(&planner).await;
        trips.push(began.elapsed());
    }
    trips.sort();
    println!(
        "{kind}: one at a time: p50 {:?}, p99 {:?}",
        trips[250], trips[495]
    );

    let left = Arc::new(AtomicUsize::new(calls));
    let began = Instant::now();
    let workers: Vec<_> = (0..AT_ONCE)
        .map(|_| {
            let (plane, left) = (Arc::clone(&plane), Arc::clone(&left));
            tokio::spawn(async move {
                let planner = Planner::new(&plane);
                while left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                    .is_ok()
                {
                    call(&planner).await;
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.expect("no call fails");
    }
    let rate = calls as f64 / began.elapsed().as_secs_f64();
    println!("{kind}: {AT_ONCE} at a time: {calls} calls, {rate:.0} a second");
    if let Some(pid) = client.as_ref().and_then(tokio::process::Child::id) {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let memory = status.lines().find(|line| line.starts_with("VmRSS"));
        println!("{kind}: {}", memory.unwrap_or("memory not known here"));
    }
}

async fn call(planner: &Planner<'_>) {
    planner
        .call("echo", json!({"text": "thirty-two bytes of plain text.."}))
        .answer()
        .await;
}

fn start(
    kind: &str,
    program: &str,
    plane: &ControlPlane,
    folder: &std::path::Path,
) -> tokio::process::Child {
    let key = folder.join("key");
    hands_tunnel::health::write_private(&key, plane.api_key().as_bytes()).unwrap();
    let spec = ClientSpec {
        choice: if kind == "official" {
            Choice::Official
        } else {
            Choice::Builtin
        },
        builtin: program.into(),
        official: Some(program.into()),
        tunnel_id: plane.tunnel_id().into(),
        key: KeyReference::File(key),
        base_url: Some(plane.base_url()),
        mcp_argv: vec![echo_program().display().to_string()],
        health_socket: folder.join("health"),
        health_parent_only: false,
        health_url_file: None,
        pid_file: None,
        log_file: Some(folder.join("log")),
        poll_timeout: None,
        ca_bundle: None,
        journal: Some(folder.join("journal")),
    };
    let command = spec.command().expect("the client works");
    let mut process = tokio::process::Command::from(command.to_std());
    process.stdin(Stdio::null()).kill_on_drop(true);
    process.spawn().expect("the client starts")
}

/// Answers each command at once.
async fn null_client(base_url: String, tunnel_id: String, key: String) {
    let endpoint = Endpoint {
        base_url,
        tunnel_id,
        key: ApiKey::new(&key).unwrap(),
        proxy: None,
        ca_bundle: None,
        organization: None,
        poll_timeout: Duration::from_secs(30),
        poll_guardrail: Duration::from_secs(5),
    };
    let client = Client::new(&endpoint).unwrap();
    loop {
        for command in client.poll(25).await.unwrap().into_iter().flatten() {
            let client = client.clone();
            tokio::spawn(async move {
                let Work::JsonRpc(message) = &command.work else {
                    return;
                };
                let mut answer = RawObject::default();
                answer.set("id", message.get("id").unwrap().to_owned());
                answer.set("result", raw(&json!({"content": []})));
                let body = Answer::response(raw(&answer)).to_body(&command.address);
                client.post(&command.address, body.into()).await.unwrap();
            });
        }
    }
}
