//! The one trait that a platform's sandbox answers.

use crate::plan::Plan;
use crate::promise::{Keeping, Rule};
use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::PathBuf;

/// A command line that starts a confined child.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The sandbox program, an absolute path.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The environment that the sandbox program itself is started with. Nothing in it may come
    /// from the planner where that program runs unconfined.
    pub env: Vec<(String, String)>,
    /// The first line for the helper inside the sandbox, where the platform has one; it then
    /// reports how the command ended on the same socket.
    pub inner: Option<String>,
}

/// Why no sandbox can be had here, and what mends it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unavailable {
    /// What was looked for and what was found.
    pub reason: String,
    /// The command or setting that mends it.
    pub hint: String,
}

/// A platform's way to confine a child.
pub trait Backend: Send + Sync {
    /// The name that `status`, `doctor` and the tools' answers show.
    fn name(&self) -> &'static str;

    /// How it keeps a rule of the promise; `guarded`: when the plan has a guard.
    fn keeps(&self, rule: Rule, guarded: bool) -> Keeping;

    /// How to start `plan`, with a descriptor that the child inherits as its side of the socket
    /// to the runner.
    ///
    /// # Errors
    /// When this machine lacks what the sandbox needs. The command is then refused: nothing is
    /// ever run without a sandbox.
    fn launch(&self, plan: &Plan, socket: RawFd) -> Result<Launch, Unavailable>;
}

/// The backend that holds a plan's command.
pub fn backend_of(plan: &Plan) -> Box<dyn Backend> {
    #[cfg(target_os = "linux")]
    if plan.is_reduced() {
        return Box::new(crate::linux::reduced::Landlocked::here());
    }
    let _ = plan;
    platform_backend()
}

/// The backend of the platform that this was built for.
pub fn platform_backend() -> Box<dyn Backend> {
    #[cfg(target_os = "linux")]
    {
        Box::new(crate::linux::Bubblewrap::find())
    }
    #[cfg(target_os = "macos")]
    {
        Box::new(crate::macos::Seatbelt::find())
    }
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    {
        compile_error!("Hands runs on Linux and macOS")
    }
}
