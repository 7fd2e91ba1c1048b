//! The tunnel's key in the system's store for secrets, here a real Secret Service.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // Helpers of tests are not marked as tests.

mod common;

use common::{Place, built, with_input};
use hands_control::types::daemon::ChildState;
use hands_testkit::{ControlPlane, Planner, Script, SecretService};
use serde_json::json;
use std::path::Path;
use std::process::Command;

fn configure(command: &mut Command, plane: &ControlPlane, bus: &str) {
    command
        .env("DBUS_SESSION_BUS_ADDRESS", bus)
        .env("HANDS_TUNNEL_ID", plane.tunnel_id())
        .env("HANDS_TUNNEL_BASE_URL", plane.base_url())
        .env("HANDS_TUNNEL_KEY_STORE", "keychain")
        .env("HANDS_TUNNEL_POLL_TIMEOUT_S", "2");
}

fn key(bus: &str, verb: &str, plane: &ControlPlane, input: &str) -> (bool, String) {
    let mut command = Command::new(built("hands-tunnel"));
    command
        .args(["key", verb, plane.tunnel_id()])
        .env_clear()
        .env("DBUS_SESSION_BUS_ADDRESS", bus);
    let output = with_input(command, input);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.success(),
        text(output.stdout) + &text(output.stderr),
    )
}

/// Every file below this folder that holds the text.
fn holding(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            found.extend(holding(&path, text));
        } else if kind.is_file() && memmem(&std::fs::read(&path).unwrap(), text.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

fn memmem(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_in_the_secret_service_serves_the_tunnel_and_lies_in_no_file() {
    let Some(service) = SecretService::start() else {
        return;
    };
    let plane = ControlPlane::start(Script::default()).await;
    let bus = service.address();
    let (found, said) = key(bus, "check", &plane, "");
    assert!(
        !found && said.contains("holds no API key") && said.contains("tunnel setup"),
        "{said}"
    );
    let place = Place::new();
    let daemon = place
        .start_with(|command| configure(command, &plane, bus))
        .await;
    // Without a key: told, not tried again and again.
    let status = daemon
        .until("told", |status| {
            status.tunnel.child.state == ChildState::NeedsOperator
        })
        .await;
    assert!(!status.readiness.ready);

    // One that was there before is replaced.
    for text in ["sk-an-older-one", plane.api_key()] {
        let (stored, said) = key(bus, "store", &plane, &format!("{text}\n"));
        assert!(stored && said.is_empty(), "{said}");
    }
    assert_eq!(key(bus, "check", &plane, ""), (true, String::new()));
    let attributes = ["service", "Hands tunnel", "username", plane.tunnel_id()];
    assert_eq!(
        service.lookup(&attributes).as_deref(),
        Some(plane.api_key())
    );
    daemon.signal(rustix::process::Signal::HUP);
    daemon.ready().await;

    // Nor can a command reach the bus, wherever its socket lies.
    let planner = Planner::new(&plane);
    planner.initialize().await;
    let socket = bus.strip_prefix("unix:path=").unwrap();
    let line = format!(
        "env | grep -c DBUS_SESSION; DBUS_SESSION_BUS_ADDRESS={bus} secret-tool lookup service 'Hands tunnel' \
         username {}; echo exit $?; ls {socket}",
        plane.tunnel_id()
    );
    let text = planner.call("bash", json!({"command": line})).text().await;
    assert!(
        !text.contains(plane.api_key()) && text.contains("exit 1"),
        "{text}"
    );
    assert_eq!(holding(place.root(), plane.api_key()), [""; 0]);
    daemon.stop().await;

    assert_eq!(key(bus, "forget", &plane, ""), (true, String::new()));
    assert_eq!(service.lookup(&attributes), None);
    assert!(!key(bus, "forget", &plane, "").0);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_bus_it_says_what_to_do() {
    let plane = ControlPlane::start(Script::default()).await;
    let dir = tempfile::tempdir().unwrap();
    let bus = format!("unix:path={}", dir.path().join("no-bus").display());
    for verb in ["check", "store", "forget"] {
        let (done, said) = key(&bus, verb, &plane, "sk-secret");
        assert!(!done, "{verb}");
        assert!(
            said.contains("Secret Service") && said.contains("--store file"),
            "{said}"
        );
        assert!(!said.contains("sk-secret"), "{said}");
    }
}
