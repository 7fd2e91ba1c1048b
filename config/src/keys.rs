//! One table of all settings. It drives reading, checking, showing and the reference page.

use crate::hosts::HostRule;
use crate::limits::{self, GIB, KIB, MIB};
use crate::model::{Config, KeyStore, Mode, Network, PermissionMode, Walls};
use crate::text;
use std::path::PathBuf;
use std::time::Duration;

/// One setting.
#[derive(Debug)]
pub struct Key {
    /// Name in the file, as `section.key` or `key`.
    pub name: &'static str,
    /// Type, range, and where the value lives.
    pub slot: Slot,
    /// Unit of the value, empty where it has none.
    pub unit: &'static str,
    /// What the setting does, in one sentence.
    pub doc: &'static str,
}

/// Type and range of a setting, and its place in [`Config`].
#[derive(Debug)]
pub enum Slot {
    /// `true` or `false`.
    Bool(fn(&mut Config) -> &mut bool),
    /// A whole number within the range.
    Int {
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
        /// Place.
        at: fn(&mut Config) -> &mut u64,
    },
    /// A time in seconds, decimals allowed, within the range.
    Seconds {
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
        /// Place.
        at: fn(&mut Config) -> &mut Duration,
    },
    /// One word of a list. Where `on` and `off` are among the words, true and false stand for them.
    Choice {
        /// The words.
        words: &'static [&'static str],
        /// Words that a later version will know.
        later: &'static [&'static str],
        /// The current word.
        get: fn(&Config) -> &'static str,
        /// Sets the word; only words of the list arrive here.
        set: fn(&mut Config, &str),
    },
    /// A list of absolute paths; `~` is expanded.
    Paths(fn(&mut Config) -> &mut Vec<PathBuf>),
    /// A list of names of environment variables.
    Names(fn(&mut Config) -> &mut Vec<String>),
    /// A list of names of folders, without a path.
    FolderNames(fn(&mut Config) -> &mut Vec<String>),
    /// A list of hosts.
    Hosts(fn(&mut Config) -> &mut Vec<HostRule>),
    /// One absolute path, or none; `~` is expanded.
    Path(fn(&mut Config) -> &mut Option<PathBuf>),
    /// A text that the setter checks.
    Text {
        /// What is accepted, in words.
        what: &'static str,
        /// The current text, if any.
        get: fn(&Config) -> Option<String>,
        /// Checks and sets the text; the error is a reason that may be shown.
        set: fn(&mut Config, &str) -> Result<(), &'static str>,
    },
}

impl Key {
    /// The environment variable that overrides this setting: `HANDS_` and the name in capitals.
    pub fn env_name(&self) -> String {
        format!("HANDS_{}", self.name.replace('.', "_").to_uppercase())
    }

    /// The type in words, as shown in messages and on the reference page.
    pub fn type_text(&self) -> String {
        match &self.slot {
            Slot::Bool(_) => "true or false".to_owned(),
            Slot::Int { min, max, .. } => format!("a whole number from {min} to {max}"),
            Slot::Seconds { min, max, .. } => format!("a number from {min} to {max}"),
            Slot::Choice { words, .. } => format!("one of {}", quoted(words)),
            Slot::Paths(_) => "a list of paths".to_owned(),
            Slot::Names(_) => "a list of variable names".to_owned(),
            Slot::FolderNames(_) => "a list of folder names".to_owned(),
            Slot::Hosts(_) => "a list of hosts".to_owned(),
            Slot::Path(_) => "a path".to_owned(),
            Slot::Text { what, .. } => (*what).to_owned(),
        }
    }

    /// The value in `config` as JSON.
    pub fn value(&self, config: &Config) -> serde_json::Value {
        // The places are given for changing; a copy keeps this function free of side effects.
        let mut copy = config.clone();
        match &self.slot {
            Slot::Bool(at) => (*at(&mut copy)).into(),
            Slot::Int { at, .. } => (*at(&mut copy)).into(),
            Slot::Seconds { at, .. } => seconds(*at(&mut copy)),
            Slot::Choice { get, .. } => get(config).into(),
            Slot::Paths(at) => at(&mut copy)
                .iter()
                .map(|path| path.to_string_lossy().into_owned())
                .collect(),
            Slot::Names(at) | Slot::FolderNames(at) => at(&mut copy).clone().into(),
            Slot::Hosts(at) => at(&mut copy).iter().map(HostRule::to_string).collect(),
            Slot::Path(at) => at(&mut copy)
                .as_ref()
                .map(|path| path.to_string_lossy().into_owned())
                .into(),
            Slot::Text { get, .. } => get(config).into(),
        }
    }
}

/// Whole seconds are shown without decimals.
fn seconds(time: Duration) -> serde_json::Value {
    if time.subsec_nanos() == 0 {
        time.as_secs().into()
    } else {
        time.as_secs_f64().into()
    }
}

/// The words in backquotes, with commas.
pub(crate) fn quoted(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    words.join(", ")
}

/// The key of that name.
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// Sections that are fixed but that this version does not have yet.
pub const LATER_SECTIONS: &[&str] = &["python", "mcp"];

/// Variables and prefixes that begin with `HANDS_` and belong to other parts: never warned about.
pub const FOREIGN_ENV: &[&str] = &[
    "HANDS_HOME",
    "HANDS_TUNNEL_BIN",
    "HANDS_DAEMON_BIN",
    "HANDS_PYTHON",
    "HANDS_MCP_",
    "HANDS_RUNNER_",
];

/// All settings, in the order in which they are shown.
pub static KEYS: &[Key] = &[
    Key {
        name: "workspaces",
        slot: Slot::Paths(|c| &mut c.workspaces),
        unit: "",
        doc: "Folders that may be changed; relative paths of a call start in the first. None: `~/Hands`.",
    },
    Key {
        name: "reply_budget_s",
        slot: Slot::Seconds {
            min: 1,
            max: 600,
            at: |c| &mut c.reply_budget,
        },
        unit: "s",
        doc: "Time within which a tool call answers.",
    },
    Key {
        name: "sandbox.mode",
        slot: Slot::Choice {
            words: &["default", "strict", "read-only"],
            later: &[],
            get: |c| c.sandbox.mode.as_str(),
            set: |c, word| {
                c.sandbox.mode = match word {
                    "strict" => Mode::Strict,
                    "read-only" => Mode::ReadOnly,
                    _ => Mode::Default,
                }
            },
        },
        unit: "",
        doc: "`default`: commands remove in the workspaces only what they made, and what they change or replace is kept first; `strict`: they remove and rename nothing there; `read-only`: nothing is written, by commands nor by the file tools.",
    },
    Key {
        name: "sandbox.network",
        slot: Slot::Choice {
            words: &["on", "off", "loopback", "hosts"],
            later: &[],
            get: |c| c.sandbox.network.as_str(),
            set: |c, word| {
                c.sandbox.network = match word {
                    "on" => Network::On,
                    "loopback" => Network::Loopback,
                    "hosts" => Network::Hosts,
                    _ => Network::Off,
                }
            },
        },
        unit: "",
        doc: "What commands reach of the network; a call may only ask for less. `on` (or true): whatever the machine reaches; `off` (or false): nothing; `loopback`: the servers of the session's other commands, on addresses of its own; `hosts`: those, and what `sandbox.hosts` names. The last two on Linux only.",
    },
    Key {
        name: "sandbox.hosts",
        slot: Slot::Hosts(|c| &mut c.sandbox.hosts),
        unit: "",
        doc: "With `sandbox.network = \"hosts\"`: the hosts that commands reach over http and https, through a proxy. `name`, `*.name` (what lies below it) or an address, each with `:port` for another port than 80 and 443. In the variable separated by commas. A name that leads to a private address is refused unless the address is named too.",
    },
    Key {
        name: "sandbox.command_check",
        slot: Slot::Bool(|c| &mut c.sandbox.command_check),
        unit: "",
        doc: "Whether a command line that plainly deletes is refused before it is run; the sandbox refuses the deletion either way.",
    },
    Key {
        name: "sandbox.broker",
        slot: Slot::Bool(|c| &mut c.sandbox.broker),
        unit: "",
        doc: "Linux: whether commands remove, replace and rename in the workspaces through the broker, which keeps what would be lost. Without it they remove and rename nothing there, and what they overwrite is not kept. macOS: whether build folders are free.",
    },
    Key {
        name: "sandbox.walls",
        slot: Slot::Choice {
            words: &["auto", "whole", "reduced"],
            later: &[],
            get: |c| c.sandbox.walls.as_str(),
            set: |c, word| {
                c.sandbox.walls = match word {
                    "auto" => Walls::Auto,
                    "reduced" => Walls::Reduced,
                    _ => Walls::Whole,
                }
            },
        },
        unit: "",
        doc: "Linux: what holds commands. `whole`: bubblewrap with Landlock, seccomp and the broker, and nothing runs where namespaces cannot be had; `reduced`: Landlock, seccomp and the broker alone; `auto`: the whole sandbox, and the reduced one where namespaces cannot be had.",
    },
    Key {
        name: "sandbox.build_folders",
        slot: Slot::FolderNames(|c| &mut c.sandbox.build_folders),
        unit: "",
        doc: "Names of folders of build products: where git ignores such a folder as of the last commit and tracks nothing in it, commands remove and change old files in it freely.",
    },
    Key {
        name: "sandbox.memory_mb",
        slot: Slot::Int {
            min: 0,
            max: 1 << 30,
            at: |c| &mut c.sandbox.memory_mb,
        },
        unit: "MiB",
        doc: "Linux: memory that a command may use, with all its processes; one that is seen to use more is ended. 0: three quarters of the machine's.",
    },
    Key {
        name: "sandbox.processes",
        slot: Slot::Int {
            min: 16,
            max: 1 << 22,
            at: |c| &mut c.sandbox.processes,
        },
        unit: "processes",
        doc: "Linux: processes and threads that a command may have.",
    },
    Key {
        name: "sandbox.open_files",
        slot: Slot::Int {
            min: 64,
            max: 1 << 30,
            at: |c| &mut c.sandbox.open_files,
        },
        unit: "files",
        doc: "Linux: files that one process of a command may have open.",
    },
    Key {
        name: "sandbox.file_mb",
        slot: Slot::Int {
            min: 1,
            max: 1 << 30,
            at: |c| &mut c.sandbox.file_mb,
        },
        unit: "MiB",
        doc: "Linux: how large a file a command may write.",
    },
    Key {
        name: "limits.concurrency",
        slot: Slot::Int {
            min: 1,
            max: 256,
            at: |c| &mut c.limits.concurrency,
        },
        unit: "calls",
        doc: "Calls that run at once.",
    },
    Key {
        name: "limits.line_bytes",
        slot: Slot::Int {
            min: 64 * KIB,
            max: GIB,
            at: |c| &mut c.limits.line_bytes,
        },
        unit: "bytes",
        doc: "Longest request line accepted.",
    },
    Key {
        name: "limits.output_bytes",
        slot: Slot::Int {
            min: KIB,
            max: limits::RESULT_BYTES,
            at: |c| &mut c.limits.output_bytes,
        },
        unit: "bytes",
        doc: "Text of a command's output shown in a result; the whole goes to a recovery file.",
    },
    Key {
        name: "limits.read_bytes",
        slot: Slot::Int {
            min: KIB,
            max: limits::RESULT_BYTES,
            at: |c| &mut c.limits.read_bytes,
        },
        unit: "bytes",
        doc: "Text of a file shown in a result of `read_file`.",
    },
    Key {
        name: "limits.result_bytes",
        slot: Slot::Int {
            min: 4 * KIB,
            max: limits::RESULT_BYTES,
            at: |c| &mut c.limits.result_bytes,
        },
        unit: "bytes",
        doc: "Text of a whole result, images apart.",
    },
    Key {
        name: "limits.edit_bytes",
        slot: Slot::Int {
            min: KIB,
            max: GIB,
            at: |c| &mut c.limits.edit_bytes,
        },
        unit: "bytes",
        doc: "Largest file that `edit` and `write_file` change.",
    },
    Key {
        name: "limits.bash_timeout_s",
        slot: Slot::Int {
            min: 1,
            max: 86_400,
            at: |c| &mut c.limits.bash_timeout_s,
        },
        unit: "s",
        doc: "Time a command may run when the call does not say.",
    },
    Key {
        name: "limits.bash_timeout_max_s",
        slot: Slot::Int {
            min: 1,
            max: 86_400,
            at: |c| &mut c.limits.bash_timeout_max_s,
        },
        unit: "s",
        doc: "Most time a call may ask for.",
    },
    Key {
        name: "limits.kill_grace_ms",
        slot: Slot::Int {
            min: 0,
            max: 60_000,
            at: |c| &mut c.limits.kill_grace_ms,
        },
        unit: "ms",
        doc: "Time between SIGTERM and SIGKILL when a command is ended.",
    },
    Key {
        name: "limits.recovery_file_bytes",
        slot: Slot::Int {
            min: 0,
            max: 1024 * GIB,
            at: |c| &mut c.limits.recovery_file_bytes,
        },
        unit: "bytes",
        doc: "Largest file whose previous content is kept before a change; a larger one is not changed.",
    },
    Key {
        name: "limits.recovery_bytes",
        slot: Slot::Int {
            min: 0,
            max: 1024 * GIB,
            at: |c| &mut c.limits.recovery_bytes,
        },
        unit: "bytes",
        doc: "Most that the recovery folder holds. When it is full, the oldest entries make room if they are old enough; otherwise no old file is changed or replaced.",
    },
    Key {
        name: "limits.recovery_min_age_days",
        slot: Slot::Int {
            min: 1,
            max: 36_500,
            at: |c| &mut c.limits.recovery_min_age_days,
        },
        unit: "days",
        doc: "Age below which no recovery entry is dropped to make room, nor by a rotation for its number or size.",
    },
    Key {
        name: "limits.recovery_max_age_days",
        slot: Slot::Int {
            min: 1,
            max: 36_500,
            at: |c| &mut c.limits.recovery_max_age_days,
        },
        unit: "days",
        doc: "Age from which `handsctl recovery rotate` drops an entry.",
    },
    Key {
        name: "limits.recovery_max_entries",
        slot: Slot::Int {
            min: 1,
            max: 100_000_000,
            at: |c| &mut c.limits.recovery_max_entries,
        },
        unit: "",
        doc: "Entries that `handsctl recovery rotate` leaves.",
    },
    Key {
        name: "limits.spill_bytes",
        slot: Slot::Int {
            min: 64 * KIB,
            max: 1024 * GIB,
            at: |c| &mut c.limits.spill_bytes,
        },
        unit: "bytes",
        doc: "Most output of one command kept in its recovery file.",
    },
    Key {
        name: "permissions.mode",
        slot: Slot::Choice {
            words: &["nonce", "human"],
            later: &[],
            get: |c| c.permissions.mode.as_str(),
            set: |c, word| {
                c.permissions.mode = match word {
                    "human" => PermissionMode::Human,
                    _ => PermissionMode::Nonce,
                }
            },
        },
        unit: "",
        doc: "`nonce`: the planner asks its user and repeats the call with the nonce. It records consent; it does not prove it. `human`: only `handsctl permissions grant` opens a folder, and commands write only in folders that are open.",
    },
    Key {
        name: "permissions.nonce_ttl_s",
        slot: Slot::Int {
            min: 10,
            max: 86_400,
            at: |c| &mut c.permissions.nonce_ttl_s,
        },
        unit: "s",
        doc: "Time a nonce is valid.",
    },
    Key {
        name: "permissions.grant_ttl_s",
        slot: Slot::Int {
            min: 10,
            max: limits::GRANT_TTL_S,
            at: |c| &mut c.permissions.grant_ttl_s,
        },
        unit: "s",
        doc: "Time a grant lasts at most; it ends with the session in any case.",
    },
    Key {
        name: "write.extra",
        slot: Slot::Paths(|c| &mut c.write.extra),
        unit: "",
        doc: "Folders outside the workspaces in which files may be written.",
    },
    Key {
        name: "protect.paths",
        slot: Slot::Paths(|c| &mut c.protect.paths),
        unit: "",
        doc: "Paths refused to the tools, for reading too, besides the built-in list.",
    },
    Key {
        name: "protect.env_files",
        slot: Slot::Bool(|c| &mut c.protect.env_files),
        unit: "",
        doc: "Whether `.env` files are refused to the tools.",
    },
    Key {
        name: "protect.search_s",
        slot: Slot::Int {
            min: 0,
            max: 60,
            at: |c| &mut c.protect.search_s,
        },
        unit: "s",
        doc: "Time a look through the workspaces for secrets and repositories may take before a command; when it is over, the command is refused. 0: no look, and what it would find is open to commands.",
    },
    Key {
        name: "env.pass",
        slot: Slot::Names(|c| &mut c.env.pass),
        unit: "",
        doc: "Variables that commands get besides the built-in ones.",
    },
    Key {
        name: "trail.max_bytes",
        slot: Slot::Int {
            min: 64 * KIB,
            max: GIB,
            at: |c| &mut c.trail.max_bytes,
        },
        unit: "bytes",
        doc: "Size at which the activity log is rotated.",
    },
    Key {
        name: "trail.keep",
        slot: Slot::Int {
            min: 1,
            max: 999,
            at: |c| &mut c.trail.keep,
        },
        unit: "files",
        doc: "Rotated activity logs that are kept.",
    },
    Key {
        name: "tunnel.id",
        slot: Slot::Text {
            what: "a tunnel's id",
            get: |c| c.tunnel.id.clone(),
            set: text::tunnel_id,
        },
        unit: "",
        doc: "The tunnel to ChatGPT, as the service names it. None: only local clients are served.",
    },
    Key {
        name: "tunnel.key_file",
        slot: Slot::Path(|c| &mut c.tunnel.key_file),
        unit: "",
        doc: "File with the tunnel's API key, of mode 0600; the tools may never touch it. None: `tunnel.key` in the home, where `handsctl tunnel setup` puts it.",
    },
    Key {
        name: "tunnel.key_store",
        slot: Slot::Choice {
            words: &["file", "keychain"],
            later: &[],
            get: |c| c.tunnel.key_store.as_str(),
            set: |c, word| {
                c.tunnel.key_store = match word {
                    "keychain" => KeyStore::Keychain,
                    _ => KeyStore::File,
                }
            },
        },
        unit: "",
        doc: "Where the tunnel's API key is kept: in `tunnel.key_file`, or in the system's store for secrets (Keychain on macOS, the Secret Service on Linux), under the tunnel's id. The official client takes it from a file only.",
    },
    Key {
        name: "tunnel.base_url",
        slot: Slot::Text {
            what: "an https URL",
            get: |c| c.tunnel.base_url.clone(),
            set: text::base_url,
        },
        unit: "",
        doc: "Where the tunnel's service is, without `/v1`. None: the service's own address. Plain http only on loopback.",
    },
    Key {
        name: "tunnel.client",
        slot: Slot::Text {
            what: "`auto`, `builtin`, `official` or the absolute path of an official client",
            get: |c| Some(c.tunnel.client.as_str().to_owned()),
            set: text::tunnel_client,
        },
        unit: "",
        doc: "Which client holds the tunnel: the built-in one, or the official one. A path means the official one at that place. `auto`: the built-in one, unless `tunnel.client_path` is set.",
    },
    Key {
        name: "tunnel.client_path",
        slot: Slot::Path(|c| &mut c.tunnel.client_path),
        unit: "",
        doc: "The official client's program. None: `tunnel-client` on `PATH`.",
    },
    Key {
        name: "tunnel.poll_timeout_s",
        slot: Slot::Seconds {
            min: 1,
            max: 300,
            at: |c| &mut c.tunnel.poll_timeout,
        },
        unit: "s",
        doc: "Time that a poll of the tunnel waits for commands; a tunnel whose polls stop is noticed that much later.",
    },
    Key {
        name: "http.listen",
        slot: Slot::Text {
            what: "a loopback address with port",
            get: |c| Some(c.http.listen.to_string()),
            set: text::listen,
        },
        unit: "",
        doc: "Where the daemon serves `/healthz`, `/readyz`, `/api/status` and `/metrics`; loopback only.",
    },
];

// The smallest sizes leave room for a marker line and for a head and a tail.
const _: () = assert!(limits::OUTPUT_BYTES < limits::RESULT_BYTES && limits::RESULT_BYTES == MIB);
