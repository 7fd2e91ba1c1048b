//! From the policy to a confined child: what the sandbox is told, and whether it works here.

mod environment;
mod hidden;
mod runner;

pub use hidden::own_programs;
pub(crate) use runner::canary as try_sandbox;
pub use runner::{Finished, Order, RunError, run};

use crate::hub::Hub;
use crate::limits;
use hands_config::Mode;
use hands_sandbox::canary::{Report, State};
use hands_sandbox::{Network, Plan};
use hidden::{Hidden, Search};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::OnceCell;

/// How this session's commands are confined.
pub struct Confinement {
    workspaces: Vec<PathBuf>,
    extra_write: Vec<PathBuf>,
    extra_protected: Vec<PathBuf>,
    mode: Mode,
    pass: Vec<String>,
    user_home: PathBuf,
    hands_home: PathBuf,
    scratch: PathBuf,
    tmp: PathBuf,
    env_files: bool,
    /// What was found on the disk last, and when.
    hidden: Mutex<Option<(Instant, Arc<Hidden>)>>,
    canary: Arc<OnceCell<Report>>,
}

impl Confinement {
    /// Takes from the settings what concerns commands.
    pub fn new(hub: &Hub, tmp: PathBuf) -> Self {
        let config = &hub.config;
        Self {
            workspaces: config.workspaces.clone(),
            extra_write: config.write.extra.clone(),
            extra_protected: config.protect.paths.clone(),
            mode: config.sandbox.mode,
            pass: config.env.pass.clone(),
            user_home: hub.user_home.clone(),
            hands_home: hub.home.root().to_path_buf(),
            scratch: hub.home.scratch_dir(),
            tmp,
            env_files: config.protect.env_files,
            hidden: Mutex::default(),
            canary: Arc::clone(&hub.canary),
        }
    }

    /// What the sandbox was seen to stop on this machine; tried once per process.
    pub async fn report(&self) -> &Report {
        self.canary
            .get_or_init(|| runner::canary(&self.scratch))
            .await
    }

    /// Whether commands may run.
    ///
    /// # Errors
    /// Why not, and what mends it: without a whole sandbox nothing runs.
    pub async fn ready(&self) -> Result<(), (String, String)> {
        let report = self.report().await;
        if report.state == State::Full {
            return Ok(());
        }
        let reason = report.reason.clone().unwrap_or_default();
        let hint = report.hint.clone().unwrap_or_default();
        Err((
            format!("no sandbox: {reason}; commands are refused without one"),
            hint,
        ))
    }

    /// What is hidden and sealed now, looked for anew when the last look is old.
    fn hidden(&self, roots: &[PathBuf]) -> Arc<Hidden> {
        let mut last = self.hidden.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = last
            .as_ref()
            .filter(|(at, _)| at.elapsed() < limits::HIDDEN_FOR);
        if let Some((_, hidden)) = fresh {
            return Arc::clone(hidden);
        }
        let hidden = Arc::new(
            Search {
                user_home: &self.user_home,
                hands_home: &self.hands_home,
                extra_protected: &self.extra_protected,
                env_files: self.env_files,
                roots,
            }
            .look(),
        );
        *last = Some((Instant::now(), Arc::clone(&hidden)));
        hidden
    }

    /// The confined child for `argv`. Looks at the disk: not for async threads.
    ///
    /// # Errors
    /// When a folder of the private tmp cannot be made.
    pub fn plan(
        &self,
        argv: Vec<String>,
        cwd: PathBuf,
        env: &[(String, String)],
        network: bool,
    ) -> std::io::Result<Plan> {
        let mut plan = Plan {
            argv,
            cwd,
            env: Vec::new(),
            workspaces: real(&self.workspaces),
            extra_write: real(&self.extra_write),
            tmp: self.tmp.clone(),
            masks: Vec::new(),
            sealed: Vec::new(),
            mode: match self.mode {
                Mode::Default => hands_sandbox::Mode::Default,
                Mode::Strict => hands_sandbox::Mode::Strict,
                Mode::ReadOnly => hands_sandbox::Mode::ReadOnly,
            },
            network: match network {
                true => Network::On,
                false => Network::Off,
            },
        };
        let roots = [plan.workspaces.as_slice(), &plan.extra_write].concat();
        let mut hidden = Hidden::clone(&self.hidden(&roots));
        hidden.seal_around(&plan.cwd, &roots);
        plan.masks = hidden.masks;
        plan.sealed = hidden.sealed;
        let tmpdir = plan.tmpdir_inside()?;
        plan.env = environment::of_child(&self.user_home, &tmpdir, &self.pass, env);
        Ok(plan)
    }
}

/// The folders that are there, by their real paths. One that is missing (an unplugged disk) is
/// left out; it serves again when it appears.
fn real(folders: &[PathBuf]) -> Vec<PathBuf> {
    folders
        .iter()
        .filter_map(|f| f.canonicalize().ok())
        .collect()
}
