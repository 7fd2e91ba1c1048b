//! What a server has only one of, however many clients are connected: the settings, the trail, the
//! recovery folder, the file locks, the places for calls.

use crate::files::analysis::Analyses;
use crate::files::locks::Locks;
use crate::live::Live;
use crate::outcome::Code;
use crate::session::Session;
use anyhow::Context;
use hands_activity::{Folders, Recovery, RecoveryLimits, Trail, TrailLimits};
use hands_config::{Config, Home};
use hands_metrics::{Guardrail, Process, Registry};
use hands_policy::permission::NonceRegistry;
use hands_sandbox::canary::Report;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};
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
    /// What is counted.
    pub metrics: Registry,
    /// When this process began.
    pub started_at: SystemTime,
    sessions: Mutex<Vec<Weak<Session>>>,
    answered: Mutex<BTreeMap<String, u64>>,
    in_flight: AtomicU64,
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
            max_total_bytes: config.limits.recovery_bytes,
            min_age: config.limits.recovery_min_age(),
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
            metrics: Registry::new(Process::Server, env!("CARGO_PKG_VERSION"))
                .context("making the registry of metrics")?,
            started_at: SystemTime::now(),
            sessions: Mutex::default(),
            answered: Mutex::default(),
            in_flight: AtomicU64::new(0),
            config: Arc::new(config),
            home,
            user_home,
        })
    }

    /// Takes a new session into the list.
    pub(crate) fn enlist(&self, session: &Arc<Session>) {
        lock(&self.sessions).push(Arc::downgrade(session));
        self.metrics.session_opened();
        self.metrics.set_sessions(self.sessions().len() as u64);
    }

    /// The sessions that are open, oldest first.
    pub fn sessions(&self) -> Vec<Arc<Session>> {
        let mut sessions = lock(&self.sessions);
        sessions.retain(|session| session.upgrade().is_some_and(|s| !s.is_closed()));
        sessions.iter().filter_map(Weak::upgrade).collect()
    }

    /// Calls that are at work or wait for a place.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Calls answered since the start, by code.
    pub fn answered(&self) -> BTreeMap<String, u64> {
        lock(&self.answered).clone()
    }

    pub(crate) fn call_begins(&self) {
        let now = self.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        self.metrics.set_calls(now, 0);
    }

    pub(crate) fn call_ends(&self, tool: &str, code: Code, took: Duration, bytes: (u64, u64)) {
        let now = self
            .in_flight
            .fetch_sub(1, Ordering::Relaxed)
            .saturating_sub(1);
        self.metrics.set_calls(now, 0);
        self.metrics
            .record_call(tool, code.as_str(), took, bytes.0, bytes.1);
        let guardrail = match code {
            Code::ProtectedPath => Some(Guardrail::ProtectedPath),
            Code::DeleteBlocked => Some(Guardrail::Deletion),
            Code::PermissionRequired => Some(Guardrail::Permission),
            Code::Sandbox => Some(Guardrail::Sandbox),
            _ => None,
        };
        guardrail
            .into_iter()
            .for_each(|g| self.metrics.record_denial(g));
        *lock(&self.answered)
            .entry(code.as_str().into())
            .or_default() += 1;
    }

    /// Brings the figures of the recovery folder up to date, at most a minute behind.
    pub(crate) fn measure_recovery(&self) {
        let (held, most) = self.recovery.usage();
        self.metrics.set_recovery(held.bytes, most, held.entries);
    }

    /// What the sandbox was seen to stop on this machine; tried once per process.
    pub async fn sandbox_report(&self) -> &Report {
        let scratch = self.home.scratch_dir();
        self.canary
            .get_or_init(|| crate::confinement::try_sandbox(&scratch, &self.config))
            .await
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the trail of this home lies.
pub fn folders(home: &Home) -> Folders {
    Folders {
        logs: home.logs_dir(),
        trail: home.trail_dir(),
        recovery: home.recovery_dir(),
    }
}
