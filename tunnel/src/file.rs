//! The configuration file, as YAML writes it.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::config::ConfigError;
use crate::limits;

/// The file. An unknown key is an error: what it was meant to do would be left undone.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct File {
    pub(crate) config_version: Option<u32>,
    pub(crate) control_plane: ControlPlane,
    pub(crate) mcp: Mcp,
    pub(crate) health: Health,
    pub(crate) log: Log,
    pub(crate) process: Process,
    pub(crate) journal: Journal,
    pub(crate) post: Post,
    pub(crate) ca_bundle: Option<PathBuf>,
    pub(crate) http_proxy: Option<String>,
}

/// `control_plane`
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ControlPlane {
    pub(crate) base_url: Option<String>,
    pub(crate) url_path: Option<String>,
    pub(crate) tunnel_id: Option<String>,
    pub(crate) api_key: Option<String>,
    pub(crate) organization_id: Option<String>,
    pub(crate) http_proxy: Option<String>,
    pub(crate) poll_timeout: Option<String>,
    pub(crate) poll_deadline_guardrail: Option<String>,
    /// The official client's buffer of commands; there is none here.
    #[serde(rename = "max_inflight_requests")]
    pub(crate) _max_inflight_requests: Option<u64>,
}

/// `mcp`
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Mcp {
    pub(crate) commands: Vec<Command>,
    pub(crate) max_concurrent_requests: Option<usize>,
    pub(crate) connection_max_ttl: Option<String>,
}

/// One entry of `mcp.commands`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Command {
    #[serde(default)]
    pub(crate) channel: Option<String>,
    pub(crate) command: String,
}

/// `health`
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Health {
    pub(crate) listen_addr: Option<String>,
    pub(crate) unix_socket: Option<PathBuf>,
    pub(crate) url_file: Option<PathBuf>,
}

/// `log`
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Log {
    pub(crate) level: Option<String>,
    pub(crate) format: Option<String>,
    pub(crate) file: Option<PathBuf>,
}

/// `process`
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Process {
    pub(crate) pid_file: Option<PathBuf>,
}

/// `journal`, of this client alone
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Journal {
    pub(crate) file: Option<PathBuf>,
}

/// `post`, of this client alone
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Post {
    pub(crate) max_bytes: Option<usize>,
}

/// Opens a regular file, through links. Anything else, such as a pipe that nobody writes to, is
/// refused rather than waited for.
pub(crate) fn open_regular(path: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let mut options = std::fs::OpenOptions::new();
    options.read(true).custom_flags(flags.bits() as i32);
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        let kind = std::io::ErrorKind::InvalidInput;
        return Err(std::io::Error::new(kind, "it is not a regular file"));
    }
    Ok(file)
}

/// Reads the file.
pub(crate) fn read(path: &Path) -> Result<File, ConfigError> {
    let failed = |reason: String| ConfigError::File {
        path: path.to_owned(),
        reason,
    };
    let mut text = String::new();
    open_regular(path)
        .and_then(|file| file.take(limits::CONFIG_MAX).read_to_string(&mut text))
        .map_err(|error| failed(error.to_string()))?;
    let file: File = serde_saphyr::from_str(&text).map_err(|error| {
        failed(format!(
            "{error} (this client serves one MCP server on stdio; what else the official client \
             can do, it alone can)"
        ))
    })?;
    match file.config_version {
        Some(1) => Ok(file),
        Some(other) => Err(failed(format!("config_version {other} is not known; 1 is"))),
        None => Err(failed(
            "config_version is missing; write `config_version: 1`".into(),
        )),
    }
}
