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

#[path = "load/mod.rs"]
mod load;

use std::process::Stdio;

use hands_testkit::{ControlPlane, Planner, echo_program};
use hands_tunnel::driver::{Choice, ClientSpec};
use hands_tunnel::secret::KeyReference;
use serde_json::{Value, json};
use std::sync::Arc;

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let kind = args.first().map_or("null", String::as_str);
    let program = args.get(1).cloned().unwrap_or_default();
    let calls = args.get(2).map_or(20_000, |n| n.parse().expect("a number"));
    let plane = load::plane().await;
    let folder = tempfile::tempdir().unwrap();
    let mut client = None;
    if kind == "null" {
        tokio::spawn(load::null_client(Arc::clone(&plane)));
    } else {
        client = Some(start(kind, &program, &plane, folder.path()));
    }
    Planner::new(&plane).initialize_only().answer().await;

    let text = json!({"text": "thirty-two bytes of plain text.."});
    let no_error = |answer: &Value| assert!(answer["result"].is_object(), "{answer}");
    let figures = load::measure(&plane, "echo", &text, calls, no_error).await;
    println!(
        "{kind}: one at a time: p50 {:?}, p99 {:?}",
        figures.p50, figures.p99
    );
    println!(
        "{kind}: {} at a time: {calls} calls, {:.0} a second",
        load::AT_ONCE,
        figures.rate
    );
    if let Some(pid) = client.as_ref().and_then(tokio::process::Child::id) {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let memory = status.lines().find(|line| line.starts_with("VmRSS"));
        println!("{kind}: {}", memory.unwrap_or("memory not known here"));
    }
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
