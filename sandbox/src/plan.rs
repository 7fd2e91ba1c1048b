//! What a confined child may do, in the platform's own terms but for no platform in particular.

use crate::hosts::HostRule;
use crate::limits;
use crate::path_bytes;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The part of the private tmp that stays wholly the command's own even when a workspace lies
/// below `/tmp`.
pub(crate) const OWN_TMP: &str = ".own";

/// Memory that programs share by name; a file system of the sandbox's own.
pub(crate) const SHM: &str = "/dev/shm";

/// How much a command may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Workspaces can be written; what is removed, replaced or renamed in them is the guard's to say.
    Default,
    /// Workspaces can be written; nothing in them is removed or renamed, whatever the guard.
    Strict,
    /// Nothing but the private tmp can be written.
    ReadOnly,
}

/// What a command is held by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Walls {
    /// All that the platform has.
    #[default]
    Whole,
    /// On Linux, where no namespaces can be had: Landlock, seccomp and the broker, which then also
    /// judges what is read. Nowhere else.
    Reduced,
}

/// What of the network a command reaches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// The machine's own network.
    On,
    /// None, but for a loopback interface of the command's own.
    Off,
    /// None, but for a loopback interface that commands share. Linux only.
    Loopback {
        /// A file that stands for the network namespace that the command joins
        /// (`linux::SessionNetwork`); absent: it gets one of its own.
        #[serde(default)]
        namespace: Option<PathBuf>,
    },
    /// The same, and these hosts through a proxy of the runner. Linux only.
    Hosts {
        /// As for `Loopback`.
        #[serde(default)]
        namespace: Option<PathBuf>,
        /// What the proxy lets through.
        rules: Vec<HostRule>,
    },
}

impl Network {
    /// The namespace that a command joins before its sandbox is made.
    pub fn namespace(&self) -> Option<&Path> {
        match self {
            Self::On | Self::Off => None,
            Self::Loopback { namespace } | Self::Hosts { namespace, .. } => namespace.as_deref(),
        }
    }

    /// What the proxy lets through, where there is one.
    pub fn rules(&self) -> Option<&[HostRule]> {
        match self {
            Self::Hosts { rules, .. } => Some(rules),
            _ => None,
        }
    }
}

/// A confined child, described. Both backends compile from this one type, so that no rule can
/// exist on one platform only. Every path is absolute and real (no symbolic link in it).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// Program and arguments, started without a shell of ours.
    pub argv: Vec<String>,
    /// Working folder.
    #[serde(with = "path_bytes::one")]
    pub cwd: PathBuf,
    /// The child's whole environment.
    pub env: Vec<(String, String)>,
    /// Folders that can be written, but in which nothing can be removed.
    #[serde(with = "path_bytes::many")]
    pub workspaces: Vec<PathBuf>,
    /// Further folders under the same rule as `workspaces`.
    #[serde(with = "path_bytes::many")]
    pub extra_write: Vec<PathBuf>,
    /// Folders around or inside those two that can be read and not written, whatever lies around
    /// them. The innermost folder decides.
    #[serde(default, with = "path_bytes::many")]
    pub closed: Vec<PathBuf>,
    /// Those of `workspaces` of which only the entries directly in them are the command's to change,
    /// and the folders that it makes there itself. The broker sees to it; without a guard (and
    /// where no broker is) folders that come to be there meanwhile can be written, so that those
    /// which are there must be named in `closed`.
    #[serde(default, with = "path_bytes::many")]
    pub shallow: Vec<PathBuf>,
    /// The private tmp: on Linux it appears at `/tmp`, elsewhere and within reduced walls under its
    /// own name.
    #[serde(with = "path_bytes::one")]
    pub tmp: PathBuf,
    /// Files and folders that the child must not see. Those that do not exist are skipped.
    #[serde(with = "path_bytes::many")]
    pub masks: Vec<PathBuf>,
    /// Files and folders inside the workspaces that stay read-only. Under a guard, those that do
    /// not exist stay absent; without one they are skipped.
    #[serde(with = "path_bytes::many")]
    pub sealed: Vec<PathBuf>,
    /// How much may be changed.
    pub mode: Mode,
    /// What holds the command.
    #[serde(default)]
    pub walls: Walls,
    /// What of the network is reached.
    pub network: Network,
    /// What lets a command remove and replace files in the workspaces with nothing lost. Without
    /// it nothing there can be removed or renamed. Elsewhere than on Linux there is no broker: of its
    /// rules only the build folders count there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<Guard>,
    /// How much of the machine it may use.
    #[serde(default)]
    pub resources: Resources,
}

/// What a command may use at most, with all its processes. Linux only; elsewhere it is passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// Bytes of memory of all its processes together, with what it holds in its own `/dev/shm`.
    /// The runner looks at it from time to time and ends a command that has more.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub processes: u64,
    /// Files that one process has open.
    pub open_files: u64,
    /// Bytes of a file that it writes.
    pub file_bytes: u64,
}

impl Default for Resources {
    fn default() -> Self {
        Self {
            memory_bytes: u64::MAX,
            processes: limits::MAX_PROCESSES,
            open_files: limits::MAX_OPEN_FILES,
            file_bytes: limits::MAX_FILE_BYTES,
        }
    }
}

/// The rules of the removal broker, which carries out a command's creating, replacing and removing
/// calls itself (`linux::broker`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    /// The recovery folder.
    #[serde(with = "path_bytes::one")]
    pub recovery: PathBuf,
    /// The turn that recovery files are named after.
    pub turn_id: String,
    /// The session of that turn, for their records.
    #[serde(default)]
    pub session_id: String,
    /// Largest content that is copied; a larger file is not opened for writing.
    pub file_bytes: u64,
    /// Most bytes that the recovery folder may hold.
    pub quota_bytes: u64,
    /// Age below which none of its entries is dropped to make room, seconds.
    #[serde(default = "never")]
    pub min_age_s: u64,
    /// The session's ledger of what its commands made, out of every child's reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<PathBuf>,
    /// Names of folders of build products, in which old files may be removed where git ignores
    /// the folder.
    #[serde(default)]
    pub build_folders: Vec<String>,
}

/// What an owner that does not say it means.
fn never() -> u64 {
    u64::from(u32::MAX)
}

impl Plan {
    /// Every folder in which a command writes by the rules of a workspace.
    pub fn roots(&self) -> impl Iterator<Item = &PathBuf> {
        self.workspaces.iter().chain(&self.extra_write)
    }

    /// Every folder whose access differs from that of what lies around it.
    pub fn places(&self) -> impl Iterator<Item = &PathBuf> {
        self.roots().chain(&self.closed)
    }

    /// The guard, where it is at work: in read-only mode, and without a folder that can be written,
    /// nothing is there to be guarded, unless reading is its to judge as well.
    pub fn active_guard(&self) -> Option<&Guard> {
        let writes = self.mode != Mode::ReadOnly && self.roots().next().is_some();
        let guard = self.guard.as_ref();
        guard.filter(|_| cfg!(target_os = "linux") && (writes || self.is_reduced()))
    }

    /// Whether there are no namespaces around the command.
    pub fn is_reduced(&self) -> bool {
        self.walls == Walls::Reduced
    }

    /// Whether `/tmp` and `/dev/shm` are the command's own.
    fn has_own_tmp(&self) -> bool {
        cfg!(target_os = "linux") && !self.is_reduced()
    }

    /// Whether a workspace lies below `/tmp`, where the private tmp appears on Linux.
    pub fn workspace_in_tmp(&self) -> bool {
        self.has_own_tmp() && self.places().any(|root| root.starts_with("/tmp"))
    }

    /// Whether a workspace lies below `/dev/shm`, where the sandbox has a folder of its own.
    pub fn workspace_in_shm(&self) -> bool {
        self.has_own_tmp() && self.places().any(|root| root.starts_with(SHM))
    }

    /// What `TMPDIR` must say inside; the folder is made on the machine's side if need be.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn tmpdir_inside(&self) -> std::io::Result<PathBuf> {
        if !self.has_own_tmp() {
            return Ok(self.tmp.clone());
        }
        if !self.workspace_in_tmp() {
            return Ok("/tmp".into());
        }
        std::fs::create_dir_all(self.tmp.join(OWN_TMP))?;
        Ok(PathBuf::from("/tmp").join(OWN_TMP))
    }
}

/// One command for one runner: the first line on its standard input, as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request {
    /// The confined child.
    pub plan: Plan,
    /// Bytes for its standard input (base64); absent: `/dev/null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Wall time after which it is ended, milliseconds.
    pub timeout_ms: u64,
    /// Time between SIGTERM and SIGKILL, milliseconds.
    pub grace_ms: u64,
    /// Bytes kept of each stream's beginning.
    pub head_bytes: usize,
    /// Bytes kept of each stream's end.
    pub tail_bytes: usize,
    /// Where the whole output goes, both streams in the order they arrived, when it is longer
    /// than what is kept or is not UTF-8. Created exclusively, mode 0600; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spill: Option<PathBuf>,
    /// Most bytes that are written to `spill`.
    pub spill_max_bytes: u64,
    /// Whether progress frames are wanted.
    pub progress: bool,
}
