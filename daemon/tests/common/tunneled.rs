//! A daemon with a tunnel, against a control plane on loopback.

use super::{Daemon, Place};
use hands_testkit::{ControlPlane, Planner};
use serde_json::json;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

/// The client that holds a tunnel.
#[derive(Debug, Clone)]
pub(crate) enum TunnelClient {
    Builtin,
    /// The official one, by its program.
    Official(PathBuf),
}

impl TunnelClient {
    /// The official client, where this test run names one.
    pub(crate) fn official() -> Option<TunnelClient> {
        let program = std::env::var_os("HANDS_TUNNEL_CLIENT").filter(|name| !name.is_empty())?;
        Some(TunnelClient::Official(program.into()))
    }

    /// The one that this test run is about.
    pub(crate) fn of_this_run() -> TunnelClient {
        TunnelClient::official().unwrap_or(TunnelClient::Builtin)
    }

    /// The name in a status.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            TunnelClient::Builtin => "builtin",
            TunnelClient::Official(_) => "official",
        }
    }
}

/// The key of this home, written as `handsctl tunnel setup` does.
pub(crate) fn key(place: &Place, text: &str) -> PathBuf {
    place.home().prepare().unwrap();
    let path = place.home().tunnel_key_file();
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// Configures a tunnel to this plane, with a short time for each poll.
pub(crate) fn configure(command: &mut Command, plane: &ControlPlane, client: &TunnelClient) {
    if let TunnelClient::Official(program) = client {
        command.env("HANDS_TUNNEL_CLIENT", program);
    }
    command
        .env("HANDS_TUNNEL_ID", plane.tunnel_id())
        .env("HANDS_TUNNEL_BASE_URL", plane.base_url())
        .env("HANDS_TUNNEL_POLL_TIMEOUT_S", "2");
}

/// A daemon whose tunnel, held by the client of this run, leads to this plane; with something
/// changed in its command.
pub(crate) async fn start_with(
    place: &Place,
    plane: &ControlPlane,
    change: impl FnOnce(&mut Command),
) -> Daemon {
    key(place, plane.api_key());
    let change = |command: &mut Command| {
        configure(command, plane, &TunnelClient::of_this_run());
        change(command);
    };
    place.start_with(change).await
}

/// A daemon whose tunnel leads to this plane, with its key in place.
pub(crate) async fn start(place: &Place, plane: &ControlPlane, client: &TunnelClient) -> Daemon {
    key(place, plane.api_key());
    let configured = |command: &mut Command| configure(command, plane, client);
    place.start_with(configured).await
}

/// Has a planner read a file through the whole path.
pub(crate) async fn reads_a_file(place: &Place, plane: &ControlPlane) {
    let path = place.workspace().join("hello.txt");
    std::fs::write(&path, "hello through the tunnel\n").unwrap();
    let planner = Planner::new(plane);
    let text = planner
        .call("read_file", json!({"path": path}))
        .text()
        .await;
    assert!(text.contains("hello through the tunnel"), "{text}");
}

/// The relay that this tunnel client started; none while there is none.
pub(crate) fn relay_of(tunnel: u32) -> Option<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| parent_of(*pid) == Some(tunnel))
}

/// The process that started this one.
pub(crate) fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, tail) = stat.rsplit_once(") ")?;
    tail.split(' ').nth(1)?.parse().ok()
}
