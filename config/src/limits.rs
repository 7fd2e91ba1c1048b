//! Defaults of every setting, and the bounds of this crate itself.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Bytes in a kibibyte.
pub const KIB: u64 = 1 << 10;
/// Bytes in a mebibyte.
pub const MIB: u64 = 1 << 20;
/// Bytes in a gibibyte.
pub const GIB: u64 = 1 << 30;

/// Largest `config.toml` that is read, in bytes.
pub const CONFIG_FILE_BYTES: u64 = MIB;

/// Name of the folder in the person's home that is the workspace when none is named.
pub const DEFAULT_WORKSPACE: &str = "Hands";

/// Seconds within which a tool call answers.
pub const REPLY_BUDGET_S: u64 = 45;
/// Calls that run at once.
pub const CONCURRENCY: u64 = 10;
/// Longest line accepted on stdin, in bytes.
pub const LINE_BYTES: u64 = 32 * MIB;
/// Text of a command's output shown in a result, in bytes.
pub const OUTPUT_BYTES: u64 = 64 * KIB;
/// Text of a file shown in a result, in bytes.
pub const READ_BYTES: u64 = 256 * KIB;
/// Text of a whole result, in bytes. The contract promises clients that it is never more.
pub const RESULT_BYTES: u64 = MIB;
/// Largest file that `edit` and `write_file` change, in bytes.
pub const EDIT_BYTES: u64 = 64 * MIB;
/// Seconds a command may run when the call does not say.
pub const BASH_TIMEOUT_S: u64 = 600;
/// Most seconds a call may ask for.
pub const BASH_TIMEOUT_MAX_S: u64 = 3600;
/// Milliseconds between SIGTERM and SIGKILL.
pub const KILL_GRACE_MS: u64 = 2000;
/// Largest previous content kept as a recovery file, in bytes.
pub const RECOVERY_FILE_BYTES: u64 = 256 * MIB;
/// Most that the recovery folder holds, in bytes.
pub const RECOVERY_BYTES: u64 = 16 * GIB;
/// Days for which a recovery entry is never dropped to make room.
pub const RECOVERY_MIN_AGE_DAYS: u64 = 30;
/// Days after which a rotation drops a recovery entry.
pub const RECOVERY_MAX_AGE_DAYS: u64 = 90;
/// Recovery entries that a rotation leaves.
pub const RECOVERY_MAX_ENTRIES: u64 = 100_000;
/// Names of folders of build products.
pub const BUILD_FOLDERS: [&str; 14] = [
    "target",
    "node_modules",
    ".venv",
    "venv",
    "dist",
    "build",
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".tox",
    ".next",
    ".gradle",
    "coverage",
];
/// Mebibytes of memory that a command may use; 0: three quarters of the machine's.
pub const MEMORY_MB: u64 = 0;
/// Processes and threads that a command may have.
pub const PROCESSES: u64 = 4096;
/// Files that one process of a command may have open.
pub const OPEN_FILES: u64 = 65_536;
/// Mebibytes of a file that a command writes.
pub const FILE_MB: u64 = 64 * KIB;
/// Most output of one command kept in its recovery file, in bytes.
pub const SPILL_BYTES: u64 = 2 * GIB;
/// Seconds a look through the workspaces for secrets may take before a command.
pub const SEARCH_S: u64 = 5;
/// Seconds a nonce is valid.
pub const NONCE_TTL_S: u64 = 600;
/// Seconds a grant lasts at most.
pub const GRANT_TTL_S: u64 = 8 * 3600;
/// Size at which the activity log is rotated, in bytes.
pub const TRAIL_MAX_BYTES: u64 = 16 * MIB;
/// Rotated activity logs that are kept.
pub const TRAIL_KEEP: u64 = 8;
/// Where the daemon serves its endpoints for readiness and monitoring.
pub const HTTP_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8765);
/// Seconds that a poll of the tunnel waits for commands.
pub const TUNNEL_POLL_TIMEOUT_S: u64 = 30;
/// Longest id of a tunnel that is accepted, in bytes.
pub const TUNNEL_ID_BYTES: usize = 128;
