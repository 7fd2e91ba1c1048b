//! The command line: the official client's, for the part used here.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// A client of the Secure MCP Tunnel for one MCP server on stdio.
#[derive(Debug, Parser)]
#[command(name = "hands-tunnel", version, disable_help_subcommand = true)]
// Of a flag given twice the last one counts, as it does to the official client.
#[command(args_override_self = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Action,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Poll the control plane and serve its commands until SIGTERM or SIGINT.
    Run(Flags),
    /// Check configuration, key, control plane and MCP server without serving.
    Doctor(DoctorFlags),
    /// Ask a running client whether it is alive and ready.
    Health(HealthFlags),
    /// Keep an API key in the system's store for secrets: Keychain, or the Secret Service.
    #[command(subcommand)]
    Key(KeyAction),
}

/// What is done with a key in the system's store for secrets.
#[derive(Debug, Subcommand)]
pub enum KeyAction {
    /// Read the key from standard input and store it.
    Store {
        /// The account to store it under.
        account: String,
    },
    /// Say whether it is there and can be read; it is not shown.
    Check {
        /// The account.
        account: String,
    },
    /// Remove it.
    Forget {
        /// The account.
        account: String,
    },
}

/// Flags of `run`. A flag wins over the environment, that over the file, that over the default.
#[derive(Debug, Clone, Default, Args)]
pub struct Flags {
    /// YAML file (`config_version: 1`) [env: TUNNEL_CLIENT_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Host root of the control plane [env: CONTROL_PLANE_BASE_URL]
    #[arg(long = "control-plane.base-url", value_name = "URL")]
    pub base_url: Option<String>,
    /// Path put before /v1 [env: CONTROL_PLANE_URL_PATH]
    #[arg(long = "control-plane.url-path", value_name = "PATH")]
    pub url_path: Option<String>,
    /// The tunnel's id [env: CONTROL_PLANE_TUNNEL_ID]
    #[arg(long = "control-plane.tunnel-id", value_name = "ID")]
    pub tunnel_id: Option<String>,
    /// Where the API key is: env:NAME, file:/path (mode 0600) or keychain:ACCOUNT [env: CONTROL_PLANE_API_KEY holds the key itself]
    #[arg(
        long = "control-plane.api-key",
        value_name = "env:NAME|file:PATH|keychain:ACCOUNT"
    )]
    pub api_key: Option<String>,
    /// Sent as OpenAI-Organization [env: CONTROL_PLANE_ORGANIZATION_ID]
    #[arg(long = "control-plane.organization-id", value_name = "ID")]
    pub organization: Option<String>,
    /// How long a poll waits for commands, 30s unless set [env: CONTROL_PLANE_POLL_TIMEOUT]
    #[arg(long = "control-plane.poll-timeout", value_name = "DURATION")]
    pub poll_timeout: Option<String>,
    /// How much longer its answer may take, 5s unless set [env: CONTROL_PLANE_POLL_DEADLINE_GUARDRAIL]
    #[arg(
        long = "control-plane.poll-deadline-guardrail",
        value_name = "DURATION"
    )]
    pub poll_guardrail: Option<String>,
    /// Proxy for the control plane; without it HTTPS_PROXY, HTTP_PROXY and NO_PROXY [env: CONTROL_PLANE_HTTP_PROXY]
    #[arg(long = "control-plane.http-proxy", value_name = "URL|env:NAME")]
    pub control_plane_proxy: Option<String>,
    /// Proxy for everything [env: TUNNEL_CLIENT_HTTP_PROXY]
    #[arg(long = "http-proxy", value_name = "URL|env:NAME")]
    pub proxy: Option<String>,
    /// PEM file of certificates trusted beside the system's [env: CA_BUNDLE]
    #[arg(long = "ca-bundle", value_name = "FILE")]
    pub ca_bundle: Option<PathBuf>,
    /// The MCP server's command line, split with quotes, run by no shell [env: MCP_COMMAND]
    #[arg(long = "mcp.command", value_name = "ARGV")]
    pub mcp_command: Option<String>,
    /// Calls at once, 100 unless set [env: MCP_MAX_CONCURRENT_REQUESTS]
    #[arg(long = "mcp.max-concurrent-requests", value_name = "N")]
    pub concurrent: Option<usize>,
    /// The longest a call without a deadline may take, 10m unless set [env: MCP_CONNECTION_MAX_TTL]
    #[arg(long = "mcp.connection-max-ttl", value_name = "DURATION")]
    pub call_ttl: Option<String>,
    /// Loopback address of the health pages; none unless set [env: HEALTH_LISTEN_ADDR]
    #[arg(long = "health.listen-addr", value_name = "HOST:PORT")]
    pub health_listen: Option<String>,
    /// Unix socket of the health pages [env: HEALTH_UNIX_SOCKET]
    #[arg(long = "health.unix-socket", value_name = "PATH")]
    pub health_socket: Option<PathBuf>,
    /// On that socket answer only the process that started this client
    #[arg(
        long = "health.parent-only",
        value_name = "true|false",
        action = clap::ArgAction::Set,
        default_value_t = false
    )]
    pub health_parent_only: bool,
    /// File that the health pages' URL is written to [env: HEALTH_URL_FILE]
    #[arg(long = "health.url-file", value_name = "FILE")]
    pub health_url_file: Option<PathBuf>,
    /// File that the process id is written to [env: PID_FILE]
    #[arg(long = "pid.file", value_name = "FILE")]
    pub pid_file: Option<PathBuf>,
    /// debug, info or warn [env: LOG_LEVEL]
    #[arg(long = "log.level", value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// struct-text or json [env: LOG_FORMAT]
    #[arg(long = "log.format", value_name = "FORMAT")]
    pub log_format: Option<String>,
    /// File that is logged to; standard error unless set [env: LOG_FILE]
    #[arg(long = "log.file", value_name = "FILE")]
    pub log_file: Option<PathBuf>,
    /// File of commands not answered yet; in the platform's place for state unless set [env: JOURNAL_FILE]
    #[arg(long = "journal.file", value_name = "FILE")]
    pub journal: Option<PathBuf>,
    /// The largest answer posted, in bytes; 10 MiB unless set [env: POST_MAX_BYTES]
    #[arg(long = "post.max-bytes", value_name = "BYTES")]
    pub post_max: Option<usize>,
}

/// Flags of `doctor`.
#[derive(Debug, Clone, Default, Args)]
pub struct DoctorFlags {
    /// The configuration to check.
    #[command(flatten)]
    pub flags: Flags,
    /// Print the checks as JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `health`.
#[derive(Debug, Clone, Default, Args)]
pub struct HealthFlags {
    /// URL of the health pages
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// File that holds it
    #[arg(long, value_name = "FILE")]
    pub url_file: Option<PathBuf>,
    /// Port of the health pages on loopback
    #[arg(long)]
    pub port: Option<u16>,
    /// Unix socket of the health pages
    #[arg(long, value_name = "PATH")]
    pub unix_socket: Option<PathBuf>,
    /// Print the answers as JSON
    #[arg(long)]
    pub json: bool,
}
