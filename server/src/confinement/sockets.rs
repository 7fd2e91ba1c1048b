//! Sockets through which others would act for a command, where the environment says that they lie.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// Variables that hold a path: of a socket, or of the folder that holds it.
const PATHS: &[&str] = &[
    "SSH_AUTH_SOCK",
    "GNOME_KEYRING_CONTROL",
    // Session bus, agents, sound, screen: everything in it acts for the person.
    "XDG_RUNTIME_DIR",
];
/// Variables that hold addresses of D-Bus.
const BUSES: &[&str] = &[
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "DBUS_STARTER_ADDRESS",
];
/// Variables that hold a URL of a container engine.
const ENGINES: &[&str] = &["DOCKER_HOST", "CONTAINER_HOST"];

/// Their paths, absolute ones only. Abstract sockets have none; Landlock keeps a command from
/// those.
pub(super) fn named_in(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = PATHS
        .iter()
        .filter_map(|name| variable(name))
        .map(PathBuf::from)
        .collect();
    for addresses in BUSES.iter().filter_map(|name| variable(name)) {
        found.extend(bus_paths(&addresses));
    }
    for url in ENGINES.iter().filter_map(|name| variable(name)) {
        let path = url.as_bytes().strip_prefix(b"unix://");
        found.extend(path.map(|path| PathBuf::from(OsStr::from_bytes(path))));
    }
    // `path:pid:version` of old versions.
    let agent = variable("GPG_AGENT_INFO");
    let path = agent
        .as_ref()
        .and_then(|info| info.as_bytes().split(|b| *b == b':').next());
    found.extend(path.map(|path| PathBuf::from(OsStr::from_bytes(path))));
    found.retain(|path| path.is_absolute() && path.parent().is_some());
    found
}

/// The paths in a list of D-Bus addresses (D-Bus specification, "Server addresses").
fn bus_paths(addresses: &OsStr) -> Vec<PathBuf> {
    let addresses = addresses.as_bytes().split(|byte| *byte == b';');
    let unix = addresses.filter_map(|address| address.strip_prefix(b"unix:"));
    unix.flat_map(|keys| keys.split(|byte| *byte == b','))
        .filter_map(|pair| {
            let path = ["path=", "dir=", "tmpdir="]
                .iter()
                .find_map(|key| pair.strip_prefix(key.as_bytes()))?;
            Some(PathBuf::from(OsString::from_vec(unescaped(path))))
        })
        .collect()
}

/// Undoes `%xx`; what is no such escape stays as it is.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(escaped) if byte == b'%' => {
                plain.push(escaped);
                rest = &after[2..];
            }
            _ => {
                plain.push(byte);
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, value: &str) -> Vec<String> {
        let paths = named_in(|asked| (asked == name).then(|| value.into()));
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        paths.iter().map(text).collect()
    }

    #[test]
    fn each_kind_of_variable_is_read() {
        for (name, value, paths) in [
            ("SSH_AUTH_SOCK", "/var/a/agent.1", &["/var/a/agent.1"][..]),
            ("SSH_AUTH_SOCK", "agent", &[]),
            ("XDG_RUNTIME_DIR", "/run/user/1", &["/run/user/1"]),
            ("XDG_RUNTIME_DIR", "/", &[]),
            ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/b/bus", &["/b/bus"]),
            (
                "DBUS_SESSION_BUS_ADDRESS",
                "unix:guid=1,path=/b/a%20b;tcp:host=x,port=1;unix:abstract=/c;unix:dir=/d",
                &["/b/a b", "/d"],
            ),
            ("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/s%zz", &["/s%zz"]),
            ("DBUS_SESSION_BUS_ADDRESS", "autolaunch:", &[]),
            ("DOCKER_HOST", "unix:///x/docker.sock", &["/x/docker.sock"]),
            ("DOCKER_HOST", "tcp://127.0.0.1:2375", &[]),
            ("CONTAINER_HOST", "unix:///p.sock", &["/p.sock"]),
            ("GPG_AGENT_INFO", "/g/S.gpg-agent:12:1", &["/g/S.gpg-agent"]),
            ("OTHER", "/x", &[]),
        ] {
            assert_eq!(found(name, value), paths, "{name}={value}");
        }
    }
}
