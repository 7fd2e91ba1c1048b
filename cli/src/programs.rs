//! Finding and asking the other programs.

use crate::exit::Failure;
use hands_config::Env;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;

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

/// Why a program of ours cannot be used, and what mends it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unusable {
    pub(crate) why: String,
    pub(crate) mend: String,
}

impl Unusable {
    /// The failure of a verb that needs the program.
    pub(crate) fn failure(self, what: &str) -> Failure {
        Failure::new(what, self.why).hint(self.mend)
    }
}

impl Program {
    /// Its absolute path: what the variable says, else the file beside this program.
    pub(crate) fn find(self, env: &Env) -> Result<PathBuf, Unusable> {
        let mend = || {
            format!(
                "build it and put it beside handsctl, or set {} to its absolute path",
                self.variable
            )
        };
        if let Some(text) = env.get(self.variable) {
            let path = PathBuf::from(text);
            if path.is_absolute() && path.is_file() {
                return self.usable(path);
            }
            let why = format!(
                "{} is {text}, which is not the absolute path of a program",
                self.variable
            );
            return Err(Unusable { why, mend: mend() });
        }
        let me = std::env::current_exe().map_err(|cause| Unusable {
            why: format!("the place of this program is not known: {cause}"),
            mend: mend(),
        })?;
        // A link to handsctl may lie elsewhere than the programs.
        let real = me.canonicalize().unwrap_or_else(|_| me.clone());
        let beside = [&me, &real].map(|path| path.with_file_name(self.name));
        match beside.into_iter().find(|path| path.is_file()) {
            Some(path) => self.usable(path),
            None => Err(Unusable {
                why: format!("there is no {} beside {}", self.name, me.display()),
                mend: mend(),
            }),
        }
    }

    fn usable(self, path: PathBuf) -> Result<PathBuf, Unusable> {
        match obstacle(&path) {
            None => Ok(path),
            Some(obstacle) => Err(Unusable {
                why: format!("{} {}", path.display(), obstacle.text()),
                mend: match obstacle {
                    Obstacle::Empty => format!("build {} again", self.name),
                    Obstacle::NoExec => {
                        "copy all programs of Hands to a folder on a disk that allows execution"
                            .to_owned()
                    }
                    Obstacle::Mode => format!("chmod +x {}", quoted(&path)),
                },
            }),
        }
    }
}

/// Why a file that is there cannot be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// It has no bytes.
    Empty,
    /// Its disk is mounted without execution.
    NoExec,
    /// Its mode does not let this user run it.
    Mode,
}

impl Obstacle {
    /// What is said of the file.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Obstacle::Empty => "is empty (0 bytes)",
            Obstacle::NoExec => "is on a disk that is mounted noexec",
            Obstacle::Mode => "is not executable",
        }
    }
}

/// What keeps this file from being run, as far as that can be seen from outside.
pub(crate) fn obstacle(path: &Path) -> Option<Obstacle> {
    if path.metadata().is_ok_and(|meta| meta.len() == 0) {
        return Some(Obstacle::Empty);
    }
    if rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() {
        return None;
    }
    Some(if is_noexec(path) {
        Obstacle::NoExec
    } else {
        Obstacle::Mode
    })
}

#[cfg(target_os = "linux")]
fn is_noexec(path: &Path) -> bool {
    use rustix::fs::{StatVfsMountFlags, statvfs};
    statvfs(path).is_ok_and(|stat| stat.f_flag.contains(StatVfsMountFlags::NOEXEC))
}

/// Other systems do not say so through `statvfs`.
#[cfg(not(target_os = "linux"))]
fn is_noexec(_path: &Path) -> bool {
    false
}

/// A path as a word of a shell command.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    format!("'{}'", text.replace('\'', r"'\''"))
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
    tell(path, args, "", limit)
}

/// The same, with this text on its standard input.
pub(crate) fn tell(
    path: &Path,
    args: &[&str],
    input: &str,
    limit: Duration,
) -> Result<Output, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|cause| format!("cannot wait for {}: {cause}", path.display()))?;
    runtime.block_on(async {
        let output = async {
            let mut child = tokio::process::Command::new(path)
                .args(args)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .kill_on_drop(true)
                .spawn()?;
            if let Some(mut stdin) = child.stdin.take() {
                // One that ends without reading says itself why.
                let _ = stdin.write_all(input.as_bytes()).await;
            }
            child.wait_with_output().await
        };
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
