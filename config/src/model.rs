//! The configuration as the rest of the workspace uses it.

use crate::hosts::HostRule;
use crate::limits;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Every setting, checked. Made by [`crate::load`]; [`Config::default`] has the defaults and no workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Approved workspaces: absolute, as the person spelled them (`~` expanded), the first one is the default folder.
    pub workspaces: Vec<PathBuf>,
    /// Time within which a tool call answers.
    pub reply_budget: Duration,
    /// How commands are confined.
    pub sandbox: Sandbox,
    /// Sizes, counts and times.
    pub limits: Limits,
    /// The permission gate.
    pub permissions: Permissions,
    /// Where writing is allowed besides the workspaces.
    pub write: Write,
    /// What is protected besides the built-in list.
    pub protect: Protect,
    /// The environment of commands.
    pub env: EnvRules,
    /// Rotation of the activity log.
    pub trail: TrailCfg,
    /// The tunnel to ChatGPT.
    pub tunnel: Tunnel,
    /// The daemon's endpoints for readiness and monitoring.
    pub http: Http,
}

/// `[sandbox]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// What commands may change.
    pub mode: Mode,
    /// The most that a command reaches of the network; a call may only ask for less.
    pub network: Network,
    /// The hosts that commands reach where `network` is [`Network::Hosts`]; empty otherwise.
    pub hosts: Vec<HostRule>,
    /// Whether a look at the command line comes before the sandbox.
    pub command_check: bool,
    /// Whether commands remove and replace through the broker, where the platform has one.
    pub broker: bool,
    /// What holds commands, where there is a choice.
    pub walls: Walls,
    /// Names of folders of build products.
    pub build_folders: Vec<String>,
    /// Mebibytes of memory that a command may use, with all its processes; 0: three quarters of
    /// the machine's.
    pub memory_mb: u64,
    /// Processes and threads that a command may have.
    pub processes: u64,
    /// Files that one process of a command may have open.
    pub open_files: u64,
    /// Mebibytes of a file that a command writes.
    pub file_mb: u64,
}

/// What a command may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Workspaces are writable; old files are never lost.
    Default,
    /// Nothing in a workspace may be removed, not even new files.
    Strict,
    /// Nothing may be written.
    ReadOnly,
}

impl Mode {
    /// The name in the configuration: `default`, `strict`, `read-only`.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Default => "default",
            Mode::Strict => "strict",
            Mode::ReadOnly => "read-only",
        }
    }
}

/// What holds commands, on Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Walls {
    /// The whole sandbox, and what is left of it where no namespaces can be had.
    Auto,
    /// The whole sandbox or none.
    Whole,
    /// What works without namespaces.
    Reduced,
}

impl Walls {
    /// The name in the configuration: `auto`, `whole`, `reduced`.
    pub fn as_str(self) -> &'static str {
        match self {
            Walls::Auto => "auto",
            Walls::Whole => "whole",
            Walls::Reduced => "reduced",
        }
    }
}

/// What commands reach of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Whatever the machine reaches.
    On,
    /// Nothing.
    Off,
    /// The other commands of the same session.
    Loopback,
    /// Those, and the hosts that are named.
    Hosts,
}

impl Network {
    /// The name in the configuration: `on`, `off`, `loopback`, `hosts`.
    pub fn as_str(self) -> &'static str {
        match self {
            Network::On => "on",
            Network::Off => "off",
            Network::Loopback => "loopback",
            Network::Hosts => "hosts",
        }
    }
}

/// `[limits]`: sizes in bytes, times in the unit that the name ends in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Calls that run at once.
    pub concurrency: u64,
    /// Longest line accepted on stdin.
    pub line_bytes: u64,
    /// Text of a command's output shown in a result.
    pub output_bytes: u64,
    /// Text of a file shown in a result.
    pub read_bytes: u64,
    /// Text of a whole result.
    pub result_bytes: u64,
    /// Largest file that is edited or written.
    pub edit_bytes: u64,
    /// Time a command may run when the call does not say.
    pub bash_timeout_s: u64,
    /// Most time a call may ask for.
    pub bash_timeout_max_s: u64,
    /// Time between SIGTERM and SIGKILL.
    pub kill_grace_ms: u64,
    /// Largest previous content kept as a recovery file.
    pub recovery_file_bytes: u64,
    /// Most that the recovery folder holds.
    pub recovery_bytes: u64,
    /// Days for which a recovery entry is never dropped to make room.
    pub recovery_min_age_days: u64,
    /// Days after which a rotation drops a recovery entry.
    pub recovery_max_age_days: u64,
    /// Recovery entries that a rotation leaves.
    pub recovery_max_entries: u64,
    /// Most output of one command kept in its recovery file.
    pub spill_bytes: u64,
}

/// `[permissions]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permissions {
    /// Who may give a grant.
    pub mode: PermissionMode,
    /// Seconds a nonce is valid.
    pub nonce_ttl_s: u64,
    /// Seconds a grant lasts at most.
    pub grant_ttl_s: u64,
}

/// Who may give a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionMode {
    /// The planner repeats the call with the nonce after asking its user; the person grants too.
    Nonce,
    /// The person alone, with `handsctl permissions grant`.
    Human,
}

impl PermissionMode {
    /// The name in the configuration: `nonce`, `human`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nonce => "nonce",
            Self::Human => "human",
        }
    }
}

/// `[write]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Write {
    /// Folders outside the workspaces that may be written; absolute.
    pub extra: Vec<PathBuf>,
}

/// `[protect]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protect {
    /// Paths refused for reading and writing besides the built-in list; absolute.
    pub paths: Vec<PathBuf>,
    /// Whether `.env` files are protected.
    pub env_files: bool,
    /// Seconds a look through the workspaces for secrets may take before a command; 0: none.
    pub search_s: u64,
}

/// `[env]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnvRules {
    /// Names of variables that commands get besides the built-in ones.
    pub pass: Vec<String>,
}

/// `[trail]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrailCfg {
    /// Size at which the activity log is rotated, in bytes.
    pub max_bytes: u64,
    /// Rotated files that are kept.
    pub keep: u64,
}

/// `[tunnel]`. No id: no tunnel, which is a normal state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tunnel {
    /// The tunnel's id, as the service gave it.
    pub id: Option<String>,
    /// The file that holds the API key, mode 0600; none: [`crate::Home::tunnel_key_file`].
    pub key_file: Option<PathBuf>,
    /// Where the API key is kept.
    pub key_store: KeyStore,
    /// Where the service is, without the path `/v1`; none: the client's own default.
    pub base_url: Option<String>,
    /// Which client holds the tunnel.
    pub client: TunnelClient,
    /// The official client's program; none: `tunnel-client` on `PATH`.
    pub client_path: Option<PathBuf>,
    /// How long a poll waits for commands.
    pub poll_timeout: Duration,
}

impl Default for Tunnel {
    fn default() -> Tunnel {
        Tunnel {
            id: None,
            key_file: None,
            key_store: KeyStore::File,
            base_url: None,
            client: TunnelClient::Auto,
            client_path: None,
            poll_timeout: Duration::from_secs(limits::TUNNEL_POLL_TIMEOUT_S),
        }
    }
}

/// Where the tunnel's API key is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KeyStore {
    /// In a file of mode 0600.
    #[default]
    File,
    /// In the system's store for secrets, under the tunnel's id.
    Keychain,
}

impl KeyStore {
    /// The name in the configuration: `file`, `keychain`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Keychain => "keychain",
        }
    }
}

/// Which client holds the tunnel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TunnelClient {
    /// The built-in one, unless the official one's path is given.
    #[default]
    Auto,
    /// The built-in one.
    Builtin,
    /// The official one.
    Official,
}

impl TunnelClient {
    /// The name in the configuration: `auto`, `builtin`, `official`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Builtin => "builtin",
            Self::Official => "official",
        }
    }
}

/// `[http]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http {
    /// Where the daemon listens; always a loopback address.
    pub listen: SocketAddr,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            workspaces: Vec::new(),
            reply_budget: Duration::from_secs(limits::REPLY_BUDGET_S),
            sandbox: Sandbox {
                mode: Mode::Default,
                network: Network::On,
                hosts: Vec::new(),
                command_check: true,
                broker: true,
                walls: Walls::Auto,
                build_folders: limits::BUILD_FOLDERS.map(str::to_owned).to_vec(),
                memory_mb: limits::MEMORY_MB,
                processes: limits::PROCESSES,
                open_files: limits::OPEN_FILES,
                file_mb: limits::FILE_MB,
            },
            limits: Limits::default(),
            permissions: Permissions {
                mode: PermissionMode::Nonce,
                nonce_ttl_s: limits::NONCE_TTL_S,
                grant_ttl_s: limits::GRANT_TTL_S,
            },
            write: Write::default(),
            protect: Protect {
                paths: Vec::new(),
                env_files: true,
                search_s: limits::SEARCH_S,
            },
            env: EnvRules::default(),
            trail: TrailCfg {
                max_bytes: limits::TRAIL_MAX_BYTES,
                keep: limits::TRAIL_KEEP,
            },
            tunnel: Tunnel::default(),
            http: Http {
                listen: limits::HTTP_LISTEN,
            },
        }
    }
}

impl Limits {
    /// Age below which no recovery entry is dropped to make room.
    pub fn recovery_min_age(&self) -> Duration {
        days(self.recovery_min_age_days)
    }

    /// Age from which a rotation drops a recovery entry.
    pub fn recovery_max_age(&self) -> Duration {
        days(self.recovery_max_age_days)
    }
}

fn days(count: u64) -> Duration {
    Duration::from_secs(count.saturating_mul(24 * 3600))
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            concurrency: limits::CONCURRENCY,
            line_bytes: limits::LINE_BYTES,
            output_bytes: limits::OUTPUT_BYTES,
            read_bytes: limits::READ_BYTES,
            result_bytes: limits::RESULT_BYTES,
            edit_bytes: limits::EDIT_BYTES,
            bash_timeout_s: limits::BASH_TIMEOUT_S,
            bash_timeout_max_s: limits::BASH_TIMEOUT_MAX_S,
            kill_grace_ms: limits::KILL_GRACE_MS,
            recovery_file_bytes: limits::RECOVERY_FILE_BYTES,
            recovery_bytes: limits::RECOVERY_BYTES,
            recovery_min_age_days: limits::RECOVERY_MIN_AGE_DAYS,
            recovery_max_age_days: limits::RECOVERY_MAX_AGE_DAYS,
            recovery_max_entries: limits::RECOVERY_MAX_ENTRIES,
            spill_bytes: limits::SPILL_BYTES,
        }
    }
}
