//! The command line.

mod recovery;

use crate::limits;
use clap::{Parser, Subcommand, ValueEnum};
pub(crate) use recovery::{KindName, ListArgs, RecoveryWhat, RestoreArgs, RotateArgs, WhichArgs};
use std::path::PathBuf;

/// Controls Hands: makes calls, reads the trail, checks this machine.
#[derive(Debug, Parser)]
#[command(name = "handsctl", version, max_term_width = 100)]
pub(crate) struct Args {
    /// The home of Hands (default: HANDS_HOME, else the platform's place).
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Print JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the daemon, and wait until it is ready.
    ///
    /// Exits with 0 when it is ready, 4 when it runs and is not.
    Up {
        /// Stay in the foreground and show what it does, until Ctrl-C.
        #[arg(long)]
        foreground: bool,
    },
    /// Stop the daemon, with the tunnel and the server, in order.
    Down,
    /// Restart the server, the tunnel, or (without a name) the whole daemon.
    Restart {
        /// Which part.
        what: Option<Part>,
    },
    /// Show on one screen what runs, whether it is ready, and what to do next.
    ///
    /// Exits with 0 when all is well, 3 when the daemon does not run, 4 when something is not well.
    Status,
    /// List the connected clients and what they were allowed.
    Sessions,
    /// Show what planners were allowed, open folders for them, close them again.
    ///
    /// Asks the servers that run, with a daemon or without. Permissions belong to sessions and end with them.
    Permissions {
        #[command(subcommand)]
        what: PermissionsWhat,
    },
    /// Connect ChatGPT: set the tunnel up, show it, try it.
    Tunnel {
        #[command(subcommand)]
        what: TunnelWhat,
    },
    /// Have launchd or systemd run the daemon.
    Service {
        #[command(subcommand)]
        what: ServiceWhat,
    },
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write the pages of all commands into a folder.
    Man {
        /// The folder; made if it is missing.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Make one real MCP call and print its result.
    ///
    /// It goes through the daemon's server where the daemon runs, else through a server of its own.
    /// Exits with 0 when the tool did its work, 1 when it answers a failure.
    Call(CallArgs),
    /// List the tools that the server offers.
    Tools {
        /// Ask a server of its own, even when the daemon runs.
        #[arg(long)]
        standalone: bool,
    },
    /// Read the trail and the other logs.
    Logs(Box<LogsArgs>),
    /// Get back what was changed or replaced: list, show, compare, restore; rotate what is old.
    Recovery {
        #[command(subcommand)]
        what: RecoveryWhat,
    },
    /// Say what would be allowed, and by which rule.
    Policy {
        #[command(subcommand)]
        what: PolicyWhat,
    },
    /// Check this machine and say what mends it.
    ///
    /// Exits with 0 when all is well, 4 when there are warnings, 1 when something fails.
    Doctor,
    /// Show or check the configuration.
    Config {
        #[command(subcommand)]
        what: ConfigWhat,
    },
    /// Print ready-to-paste entries that connect an MCP client.
    Clients {
        /// Which client (default: all).
        client: Option<ClientName>,
    },
}

/// A part of the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    Server,
    Tunnel,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PermissionsWhat {
    /// List the folders that are open, and those that were asked for.
    List {
        /// Only this session; the beginning of its id is enough.
        #[arg(long, value_name = "ID")]
        session: Option<String>,
    },
    /// Let a session change existing files in folders.
    ///
    /// A folder is a top-level folder of a workspace with all below it, a workspace (only the files directly in it), or a
    /// folder of `write.extra`. Without --session it must be clear which is meant: the only one that is open.
    Grant(GrantArgs),
    /// Close folders from the next call on, and make nonces void that would open them.
    ///
    /// Without --session in every session. A command that runs already keeps what it was given.
    Revoke(RevokeArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct GrantArgs {
    /// The folders.
    #[arg(required = true, value_name = "FOLDER")]
    pub(crate) folders: Vec<PathBuf>,
    /// How long at most: 30s, 10m, 2h (default and most: `permissions.grant_ttl_s`).
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) term: Option<String>,
    #[command(flatten)]
    pub(crate) which: WhichSessions,
}

/// The sessions that are meant.
#[derive(Debug, clap::Args)]
pub(crate) struct WhichSessions {
    /// This session; the beginning of its id is enough.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Vec<String>,
    /// Every session that is open now.
    #[arg(long, conflicts_with = "session")]
    pub(crate) all_sessions: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RevokeArgs {
    /// The folders.
    #[arg(required_unless_present = "all", value_name = "FOLDER")]
    pub(crate) folders: Vec<PathBuf>,
    /// Every folder.
    #[arg(long, conflicts_with = "folders")]
    pub(crate) all: bool,
    /// Only this session; the beginning of its id is enough.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TunnelWhat {
    /// Store the tunnel's id and key, and try them.
    ///
    /// The key is read from the terminal without being shown, or from standard input. It is kept outside the configuration: in a
    /// file of mode 0600, or with `--store keychain` in the system's store for secrets.
    Setup(SetupArgs),
    /// Show the tunnel.
    Status,
    /// Try id, key, network and server without serving a call.
    Test,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SetupArgs {
    /// The tunnel's id (asked for otherwise).
    #[arg(long)]
    pub(crate) id: Option<String>,
    /// Take the key from this file instead.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_from: Option<PathBuf>,
    /// Where to keep the key: a file of mode 0600, or Keychain on macOS and the Secret Service on Linux (default: as
    /// `tunnel.key_store` says).
    #[arg(long, value_enum)]
    pub(crate) store: Option<Store>,
    /// Do not try them.
    #[arg(long)]
    pub(crate) no_test: bool,
    /// Take an id that does not look as the service's ids do.
    #[arg(long)]
    pub(crate) force: bool,
}

/// Where the tunnel's key is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Store {
    File,
    #[value(alias = "secret-service")]
    Keychain,
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum ServiceWhat {
    /// Write the definition, have it started at login, and start it now.
    Install {
        /// Replace a definition that handsctl did not write.
        #[arg(long)]
        force: bool,
    },
    /// Stop it, take it from the login, and remove the definition.
    Uninstall {
        /// Remove a definition that handsctl did not write.
        #[arg(long)]
        force: bool,
    },
    /// Start it.
    Start,
    /// Stop it; it starts again at the next login.
    Stop,
    /// Stop it and start it again.
    Restart,
    /// Show what the manager knows of it.
    Status,
    /// Print the definition that install would write.
    Print,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CallArgs {
    /// Name of the tool.
    pub(crate) tool: String,
    /// Arguments as a JSON object; `-` reads them from stdin.
    #[arg(value_name = "JSON", default_value = "{}")]
    pub(crate) arguments: String,
    /// Use a server of its own, even when the daemon runs.
    #[arg(long)]
    pub(crate) standalone: bool,
    /// Seconds to wait for the answer.
    #[arg(long, value_name = "SECONDS", default_value_t = limits::CALL_TIMEOUT_S)]
    pub(crate) wait: u64,
    /// Show what the server writes to stderr.
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

// Options of the records before another verb are refused by the verb itself: clap would refuse --json and --home too.
#[derive(Debug, clap::Args)]
pub(crate) struct LogsArgs {
    #[command(subcommand)]
    pub(crate) what: Option<LogsWhat>,
    #[command(flatten)]
    pub(crate) activity: ActivityArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LogsWhat {
    /// Tool calls and their results (what `logs` alone shows).
    Activity(ActivityArgs),
    /// Check that no record of the trail was removed, altered or cut.
    Verify,
    /// Starts, stops and signals of the processes.
    Lifecycle {
        /// How many entries.
        #[arg(short = 'n', long = "last", value_name = "N", default_value_t = limits::LAST)]
        last: usize,
    },
    /// What the daemon and its children print.
    Daemon {
        /// How many lines.
        #[arg(short = 'n', long = "last", value_name = "N", default_value_t = limits::LAST)]
        last: usize,
    },
    /// Panics and fatal faults.
    Faults {
        /// How many faults.
        #[arg(short = 'n', long = "last", value_name = "N", default_value_t = limits::LAST)]
        last: usize,
    },
}

#[derive(Debug, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct ActivityArgs {
    /// How many records (default: 20).
    #[arg(short = 'n', long = "last", value_name = "N")]
    pub(crate) last: Option<usize>,
    /// Go on showing records as they are written.
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only this tool.
    #[arg(long)]
    pub(crate) tool: Option<String>,
    /// Only this diagnostic code.
    #[arg(long)]
    pub(crate) code: Option<String>,
    /// Only this turn.
    #[arg(long, value_name = "TURN_ID")]
    pub(crate) turn: Option<String>,
    /// Only this session.
    #[arg(long, value_name = "SESSION_ID")]
    pub(crate) session: Option<String>,
    /// Only records from this time on: RFC 3339, or 30s, 10m, 2h, 1d ago.
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only records up to this time.
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum ConfigWhat {
    /// Every setting with its value and where it came from.
    Show,
    /// Say whether the configuration is valid.
    Check,
    /// Print the path of the configuration file.
    Path,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyWhat {
    /// Explain what may be done at a path, or what is said of a command line.
    ///
    /// Nothing is done: the server's own code answers for a session that begins now, with the configuration of this home.
    /// Exits with 0 whatever the answer is.
    Explain(ExplainArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// A path, or a command line in quotes.
    ///
    /// What exists, begins with `/`, `~`, `./` or `../`, or is one word that no shell would read as more is taken for a path.
    #[arg(value_name = "PATH|COMMAND")]
    pub(crate) subject: String,
    /// Take it for a path.
    #[arg(long, conflicts_with = "command")]
    pub(crate) path: bool,
    /// Take it for a command line.
    #[arg(long)]
    pub(crate) command: bool,
    /// Working folder of the command (default: the first workspace, as for the tool).
    #[arg(long, value_name = "DIR", conflicts_with = "path")]
    pub(crate) cwd: Option<String>,
}

/// Clients with a known way to be connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClientName {
    ClaudeDesktop,
    ClaudeCode,
    Codex,
    Inspector,
}
