//! Where the sockets lie, and opening one.

use crate::error::ControlError;
use crate::limits;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;

/// The daemon's socket in a home's `run/`.
pub fn daemon_socket(run: &Path) -> PathBuf {
    run.join("handsd.sock")
}

/// The socket of the server with that process id in a home's `run/`.
pub fn server_socket(run: &Path, pid: u32) -> PathBuf {
    run.join(format!("server-{pid}.sock"))
}

/// The servers' sockets that lie in a home's `run/`, by process id; some may be left by servers that were killed.
pub fn server_sockets(run: &Path) -> Vec<(u32, PathBuf)> {
    let entries = std::fs::read_dir(run).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let pid = name
                .to_str()?
                .strip_prefix("server-")?
                .strip_suffix(".sock")?;
            Some((pid.parse().ok()?, entry.path()))
        })
        .collect();
    found.sort();
    found
}

/// Opens a socket that only its owner can connect to, in the place of a stale one. Call it within a tokio runtime, and only
/// where no living process can have the same socket: under a lock, or with the process id in its name.
///
/// # Errors
/// The path is too long, or the socket cannot be made.
pub fn bind(path: &Path) -> Result<UnixListener, ControlError> {
    check_length(path)?;
    let error = |action| {
        move |source| ControlError::Io {
            action,
            path: path.to_path_buf(),
            source,
        }
    };
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != ErrorKind::NotFound => {
            return Err(error("remove the stale socket")(source));
        }
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(error("listen on"))?;
    // Between the two calls the folder, which is the owner's alone, keeps others out.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
        .map_err(error("close to others"))?;
    Ok(listener)
}

/// The system's own message for this names neither the path nor the limit.
pub(crate) fn check_length(path: &Path) -> Result<(), ControlError> {
    let length = path.as_os_str().as_bytes().len();
    if length <= limits::SOCKET_PATH_BYTES {
        return Ok(());
    }
    Err(ControlError::PathTooLong {
        path: path.to_path_buf(),
        length,
        limit: limits::SOCKET_PATH_BYTES,
    })
}
