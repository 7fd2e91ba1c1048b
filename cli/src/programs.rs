//! Finding and asking the other programs.

use hands_config::Env;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

/// The MCP server.
pub(crate) const MCP: Program = Program {
    name: "hands-mcp",
    variable: "HANDS_MCP_BIN",
};

/// The owner of confined commands.
pub(crate) const RUNNER: Program = Program {
    name: "hands-runner",
    variable: "HANDS_RUNNER_BIN",
};

/// The daemon.
pub(crate) const DAEMON: Program = Program {
    name: "handsd",
    variable: "HANDS_DAEMON_BIN",
};

/// The built-in tunnel client.
pub(crate) const TUNNEL: Program = Program {
    name: "hands-tunnel",
    variable: "HANDS_TUNNEL_BIN",
};

/// A program of ours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// Variable that names it instead.
    pub(crate) variable: &'static str,
}

impl Program {
    /// Its absolute path: what the variable says, else the file beside this program.
    pub(crate) fn find(self, env: &Env) -> Result<PathBuf, String> {
        if let Some(text) = env.get(self.variable) {
            let path = PathBuf::from(text);
            return if path.is_absolute() && is_program(&path) {
                Ok(path)
            } else {
                Err(format!(
                    "{} is {text}, which is not the absolute path of a program",
                    self.variable
                ))
            };
        }
        let me = std::env::current_exe()
            .map_err(|cause| format!("the place of this program is not known: {cause}"))?;
        // A link to handsctl may lie elsewhere than the programs.
        let real = me.canonicalize().unwrap_or_else(|_| me.clone());
        let beside = [&me, &real].map(|path| path.with_file_name(self.name));
        let found = beside.iter().find(|path| is_program(path));
        found
            .cloned()
            .ok_or_else(|| format!("there is no {} beside {}", self.name, me.display()))
    }
}

/// A file that may be executed.
fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// A program on PATH.
pub(crate) fn on_path(env: &Env, name: &str) -> Option<PathBuf> {
    let folders = std::env::split_paths(env.get("PATH")?);
    folders
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|path| is_program(path))
}

/// Runs a program without input and waits at most `limit`; a program that takes longer is killed.
pub(crate) fn ask(path: &Path, args: &[&str], limit: Duration) -> Result<Output, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|cause| format!("cannot wait for {}: {cause}", path.display()))?;
    runtime.block_on(async {
        let output = tokio::process::Command::new(path)
            .args(args)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        match tokio::time::timeout(limit, output).await {
            Ok(Ok(output)) => Ok(output),
            Ok(Err(cause)) => Err(format!("{} cannot be started: {cause}", path.display())),
            Err(_) => Err(format!(
                "{} gave no answer within {} s",
                path.display(),
                limit.as_secs()
            )),
        }
    })
}
