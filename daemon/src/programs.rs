//! Finding the programs that the daemon starts.

use crate::error::DaemonError;
use hands_config::Env;
use std::path::{Path, PathBuf};

/// Where the other programs are.
#[derive(Debug, Clone)]
pub struct Programs {
    /// `hands-mcp`.
    pub mcp: PathBuf,
    /// `hands-tunnel`; without it only an official client can hold the tunnel.
    pub tunnel: Option<PathBuf>,
}

impl Programs {
    /// Those that `HANDS_MCP_BIN` and `HANDS_TUNNEL_BIN` name, else those beside this program.
    ///
    /// # Errors
    /// There is no `hands-mcp`.
    pub fn find(env: &Env) -> Result<Self, DaemonError> {
        let me = std::env::current_exe().map_err(DaemonError::io("find", "this program"))?;
        let mcp = beside(env, &me, "hands-mcp", "HANDS_MCP_BIN");
        Ok(Self {
            mcp: mcp.ok_or(DaemonError::Program {
                name: "hands-mcp",
                place: me.clone(),
                variable: "HANDS_MCP_BIN",
            })?,
            tunnel: beside(env, &me, "hands-tunnel", "HANDS_TUNNEL_BIN"),
        })
    }
}

fn beside(env: &Env, me: &Path, name: &str, variable: &str) -> Option<PathBuf> {
    if let Some(text) = env.get(variable) {
        let path = PathBuf::from(text);
        return (path.is_absolute() && is_program(&path)).then_some(path);
    }
    // A link to handsd may lie elsewhere than the programs.
    let real = me.canonicalize().unwrap_or_else(|_| me.to_path_buf());
    let places = [me.with_file_name(name), real.with_file_name(name)];
    places.into_iter().find(|path| is_program(path))
}

/// A file that may be executed.
pub(crate) fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}
