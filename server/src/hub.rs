//! What a server has only one of, however many clients are connected: the settings, the trail, the
//! recovery folder, the file locks, the places for calls.

use crate::files::analysis::Analyses;
use crate::files::locks::Locks;
use crate::live::Live;
use anyhow::Context;
use hands_activity::{Folders, Recovery, RecoveryLimits, Trail, TrailLimits};
use hands_config::{Config, Home};
use hands_policy::permission::NonceRegistry;
use hands_sandbox::canary::Report;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::{OnceCell, Semaphore};

/// What all sessions of a server share.
pub struct Hub {
    /// The home it serves.
    pub home: Home,
    /// The settings in force.
    pub config: Arc<Config>,
    /// The person's home folder.
    pub user_home: PathBuf,
    /// Where all calls leave their records.
    pub trail: Trail,
    /// Where replaced contents and long outputs are kept.
    pub recovery: Recovery,
    /// The live view.
    pub live: Live,
    /// One call at a time per file, across sessions.
    pub locks: Locks,
    /// What is known of files read before.
    pub analyses: Arc<Analyses>,
    /// The nonces of all sessions, so that a foreign one is known as such.
    pub nonces: NonceRegistry,
    /// Places for commands.
    pub command_slots: Arc<Semaphore>,
    /// Places for calls that only touch files: a command that runs long must not hold them up.
    pub file_slots: Arc<Semaphore>,
    /// What the sandbox was seen to stop on this machine; tried once per process.
    pub canary: Arc<OnceCell<Report>>,
}

impl Hub {
    /// Opens the shared parts of a home.
    ///
    /// # Errors
    /// When a folder of the home cannot be used; the message says which.
    pub fn open(home: Home, config: Config, user_home: PathBuf) -> anyhow::Result<Self> {
        let folders = folders(&home);
        let limits = TrailLimits {
            max_bytes: config.trail.max_bytes,
            keep: u32::try_from(config.trail.keep).unwrap_or(u32::MAX),
        };
        let recovery_limits = RecoveryLimits {
            max_file_bytes: config.limits.recovery_file_bytes,
            ..RecoveryLimits::default()
        };
        let places = usize::try_from(config.limits.concurrency).unwrap_or(Semaphore::MAX_PERMITS);
        let places = places.min(Semaphore::MAX_PERMITS);
        Ok(Self {
            trail: Trail::open(&folders, limits).context("opening the trail")?,
            recovery: Recovery::open(&folders.recovery, recovery_limits)
                .context("opening the recovery folder")?,
            live: Live::start(),
            locks: Locks::default(),
            analyses: Arc::default(),
            nonces: NonceRegistry::new(),
            command_slots: Arc::new(Semaphore::new(places)),
            file_slots: Arc::new(Semaphore::new(places)),
            canary: Arc::default(),
            config: Arc::new(config),
            home,
            user_home,
        })
    }
}

impl Hub {
    /// What the sandbox was seen to stop on this machine; tried once per process.
    pub async fn sandbox_report(&self) -> &Report {
        let scratch = self.home.scratch_dir();
        self.canary
            .get_or_init(|| async { crate::confinement::try_sandbox(&scratch).await })
            .await
    }
}

/// Where the trail of this home lies.
pub fn folders(home: &Home) -> Folders {
    Folders {
        logs: home.logs_dir(),
        trail: home.trail_dir(),
        recovery: home.recovery_dir(),
    }
}
