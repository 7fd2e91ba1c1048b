//! One client's session: its grants, its private tmp, its part of the trail.

use crate::confinement::{Confinement, own_programs};
use crate::files::analysis::Analyses;
use crate::files::locks::Locks;
use crate::front::{Flights, Pulse};
use crate::hub::Hub;
use crate::live::Live;
use anyhow::Context;
use hands_activity::{Recovery, SessionTrail};
use hands_config::{Config, PermissionMode};
use hands_policy::paths::{PathPolicy, Settings};
use hands_policy::permission::{Consent, GrantLimits, Grants};
use std::fs::{DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::Semaphore;

/// What all tools need. Shared behind an `Arc`.
pub struct Session {
    /// Its name in the trail.
    pub id: String,
    /// The settings in force.
    pub config: Arc<Config>,
    /// Which paths may be read and written.
    pub policy: Arc<PathPolicy>,
    /// What the person has allowed; see [`Session::grants`].
    grants: Mutex<Grants>,
    /// Where each call leaves its records.
    pub trail: SessionTrail,
    /// Where replaced contents and long outputs are kept.
    pub recovery: Recovery,
    /// How commands are confined.
    pub confinement: Confinement,
    /// The live view.
    pub live: Live,
    /// One call at a time per file.
    pub locks: Locks,
    /// What is known of files read before.
    pub analyses: Arc<Analyses>,
    /// Places for commands.
    pub command_slots: Arc<Semaphore>,
    /// Places for calls that only touch files: a command that runs long must not hold them up.
    pub file_slots: Arc<Semaphore>,
    /// When it was opened.
    pub opened_at: SystemTime,
    /// What all sessions of the server share.
    pub hub: Arc<Hub>,
    client: Mutex<Option<(String, String)>>,
    calls: AtomicU64,
    closed: AtomicBool,
    /// The requests of its connection, once it is served.
    flights: OnceLock<Flights>,
    /// The process at the other end of its socket.
    peer: OnceLock<u32>,
    scratch: Scratch,
}

impl Session {
    /// Opens a session on this hub.
    ///
    /// # Errors
    /// When its folder below `work/scratch` cannot be made.
    pub fn open(hub: &Arc<Hub>) -> anyhow::Result<Arc<Self>> {
        let id = format!("s-{}", uuid::Uuid::now_v7().simple());
        let config = &hub.config;
        let scratch = Scratch::make(&hub.home.scratch_dir(), &id)?;
        let mut protected = config.protect.paths.clone();
        protected.extend(own_programs());
        let policy = PathPolicy::new(Settings {
            user_home: hub.user_home.clone(),
            hands_home: hub.home.root().to_path_buf(),
            workspaces: config.workspaces.clone(),
            extra_write: config.write.extra.clone(),
            extra_protected: protected,
            protect_env_files: config.protect.env_files,
            session_tmp: Some(scratch.tmp()),
        });
        let search_path = std::env::var_os("PATH").unwrap_or_default();
        let policy = Arc::new(policy.with_path_folders(std::env::split_paths(&search_path)));
        let grant_limits = GrantLimits {
            consent: match config.permissions.mode {
                PermissionMode::Nonce => Consent::Nonce,
                PermissionMode::Human => Consent::Person,
            },
            nonce_ttl: Duration::from_secs(config.permissions.nonce_ttl_s),
            grant_ttl: Duration::from_secs(config.permissions.grant_ttl_s),
        };
        let session = Arc::new(Self {
            confinement: Confinement::new(hub, &id, scratch.tmp()),
            grants: Mutex::new(Grants::new(&id, grant_limits, hub.nonces.clone())),
            trail: hub.trail.session(&id),
            live: hub.live.clone(),
            locks: hub.locks.clone(),
            analyses: Arc::clone(&hub.analyses),
            command_slots: Arc::clone(&hub.command_slots),
            file_slots: Arc::clone(&hub.file_slots),
            config: Arc::clone(config),
            recovery: hub.recovery.for_session(&id),
            id,
            policy,
            scratch,
            opened_at: SystemTime::now(),
            hub: Arc::clone(hub),
            client: Mutex::default(),
            calls: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            flights: OnceLock::new(),
            peer: OnceLock::new(),
        });
        hub.enlist(&session);
        Ok(session)
    }

    /// Notes who is connected, in its own words.
    pub fn set_client(&self, name: &str, version: &str) {
        self.trail.set_client(name, version);
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        *client = Some((name.to_string(), version.to_string()));
    }

    /// Who is connected: name and version, once it said so.
    pub fn client(&self) -> Option<(String, String)> {
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        client.clone()
    }

    /// Notes whose requests these are; the first counts.
    pub(crate) fn attend(&self, flights: Flights) {
        let _ = self.flights.set(flights);
    }

    /// Notes which process is at the other end; the first counts.
    pub(crate) fn set_peer(&self, pid: u32) {
        let _ = self.peer.set(pid);
    }

    /// The process at the other end of its socket; none over standard input and output.
    pub fn peer(&self) -> Option<u32> {
        self.peer.get().copied()
    }

    /// When its client last asked and was last answered.
    pub fn pulse(&self) -> Pulse {
        self.flights.get().map(Flights::pulse).unwrap_or_default()
    }

    /// Calls answered.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    pub(crate) fn call_ends(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// What the person has allowed, held against other calls. Whoever changes it writes it down
    /// before letting go ([`crate::consent`]).
    pub fn grants(&self) -> MutexGuard<'_, Grants> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether its client is gone.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// A file of the session's own, out of every child's reach, for the whole of a long output.
    pub fn spill_path(&self, turn_id: &str) -> PathBuf {
        self.scratch.folder.join(format!("output-{turn_id}"))
    }

    /// Ends the session: its grants and its private tmp go.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        crate::consent::end(self);
        self.hub
            .metrics
            .set_sessions(self.hub.sessions().len() as u64);
        self.scratch.remove();
    }
}

/// A session's folder below `work/scratch`, locked for as long as its process lives, so that a
/// later start can tell the leavings of a killed one from a living neighbour's.
struct Scratch {
    folder: PathBuf,
    lock: File,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Closing is not enough while a child that was just forked still has the descriptor.
        let _ = self.lock.unlock();
    }
}

const LOCK: &str = "lock";

impl Scratch {
    fn make(parent: &Path, id: &str) -> anyhow::Result<Self> {
        let folder = parent.join(id);
        let tmp = folder.join("tmp");
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&tmp)
            .with_context(|| format!("making the session's folder {}", tmp.display()))?;
        let mut options = File::options();
        options.create(true).truncate(true).write(true).mode(0o600);
        let lock = options
            .open(folder.join(LOCK))
            .with_context(|| format!("making the lock in {}", folder.display()))?;
        lock.lock()
            .with_context(|| format!("locking {}", folder.display()))?;
        Ok(Self { folder, lock })
    }

    fn tmp(&self) -> PathBuf {
        self.folder.join("tmp")
    }

    fn remove(&self) {
        // What cannot be removed now is swept at a later start.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Removes the folders of sessions whose process is gone.
pub fn sweep_scratch(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let folder = entry.path();
        let abandoned = match File::open(folder.join(LOCK)) {
            Ok(lock) => lock.try_lock().is_ok(),
            Err(_) => is_left_by_a_canary(&folder),
        };
        if abandoned {
            let _ = std::fs::remove_dir_all(&folder);
        }
    }
}

/// Whether a folder without a lock is what is left of a sandbox's trial that was cut short: it has
/// the process in its name.
fn is_left_by_a_canary(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str());
    let pid = name.and_then(|name| name.strip_prefix("canary-")?.parse().ok());
    let pid = pid.and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid).is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_abandoned_scratch_folders_are_swept() {
        let parent = tempfile::tempdir().unwrap();
        let living = Scratch::make(parent.path(), "living").unwrap();
        let dead = Scratch::make(parent.path(), "dead").unwrap();
        std::fs::write(dead.tmp().join("file"), "x").unwrap();
        let dead_folder = dead.folder.clone();
        drop(dead);
        std::fs::create_dir(parent.path().join("stranger")).unwrap();
        let own = format!("canary-{}", std::process::id());
        std::fs::create_dir(parent.path().join(&own)).unwrap();
        std::fs::create_dir(parent.path().join("canary-2147483647")).unwrap();
        sweep_scratch(parent.path());
        assert!(living.tmp().is_dir());
        assert!(!dead_folder.exists());
        assert!(parent.path().join("stranger").is_dir());
        assert!(parent.path().join(own).is_dir());
        assert!(!parent.path().join("canary-2147483647").exists());
    }
}
