//! The configuration: flags, then environment, then file, then defaults.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use crate::control_plane::{Endpoint, is_plain_loopback};
use crate::dispatcher::CallLimits;
use crate::durations;
use crate::file::{self, File};
use crate::flags::Flags;
use crate::limits;
use crate::secret::{ApiKey, KeyReference, SecretError};

/// Everything that `run` needs.
#[derive(Debug, Clone)]
pub struct Config {
    /// The control plane.
    pub endpoint: Endpoint,
    /// The MCP server's program and arguments.
    pub mcp_argv: Vec<String>,
    /// Variables that the MCP server must not see: those that hold the key.
    pub hidden: Vec<OsString>,
    /// Bounds of calls.
    pub calls: CallLimits,
    /// Where the health pages listen on loopback.
    pub health_listen: Option<SocketAddr>,
    /// Where they listen on a Unix socket.
    pub health_socket: Option<PathBuf>,
    /// Whether only the process that started this one is answered there.
    pub health_parent_only: bool,
    /// The file that gets their URL.
    pub health_url_file: Option<PathBuf>,
    /// The file that gets the process id.
    pub pid_file: Option<PathBuf>,
    /// How to log.
    pub log: LogConfig,
    /// The file of commands not answered yet.
    pub journal: PathBuf,
}

/// How to log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    /// The least level that is written.
    pub level: Level,
    /// One JSON object a line, or text.
    pub json: bool,
    /// The file; standard error where there is none.
    pub file: Option<PathBuf>,
}

/// Levels of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Everything.
    Debug,
    /// What happens.
    Info,
    /// What goes wrong.
    Warn,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file is of no use.
    #[error("reading the configuration {path}: {reason}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Something that must be set is not.
    #[error("{what} is not set: give {flag}, or set {variable}")]
    Missing {
        /// What.
        what: &'static str,
        /// The flag.
        flag: &'static str,
        /// The variable.
        variable: &'static str,
    },
    /// Something is set to what it cannot be.
    #[error("{what} cannot be {value:?}: {why}")]
    Invalid {
        /// What.
        what: &'static str,
        /// The value.
        value: String,
        /// What it can be.
        why: String,
    },
    /// The key is of no use.
    #[error(transparent)]
    Secret(#[from] SecretError),
}

/// Looks an environment variable up.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The environment of this process; a variable that is not text is not set.
pub fn process_env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Where the values come from.
struct Sources<'a> {
    env: Env<'a>,
}

impl Sources<'_> {
    /// An empty variable is not set.
    fn variable(&self, name: &str) -> Option<String> {
        (self.env)(name).filter(|text| !text.trim().is_empty())
    }

    fn text(&self, flag: &Option<String>, name: &str, file: &Option<String>) -> Option<String> {
        let flag = flag.clone();
        flag.or_else(|| self.variable(name))
            .or_else(|| file.clone())
    }

    fn path(&self, flag: &Option<PathBuf>, name: &str, file: &Option<PathBuf>) -> Option<PathBuf> {
        let flag = flag.clone();
        flag.or_else(|| self.variable(name).map(PathBuf::from))
            .or_else(|| file.clone())
    }

    fn number(
        &self,
        flag: Option<usize>,
        what: &'static str,
        name: &str,
        file: Option<usize>,
    ) -> Result<Option<usize>, ConfigError> {
        if flag.is_some() {
            return Ok(flag);
        }
        match self.variable(name) {
            Some(text) => Ok(Some(parsed(what, &text, "a whole number")?)),
            None => Ok(file),
        }
    }
}

fn parsed<T: FromStr>(what: &'static str, text: &str, why: &str) -> Result<T, ConfigError> {
    text.trim().parse().map_err(|_| invalid(what, text, why))
}

fn invalid(what: &'static str, value: &str, why: impl Into<String>) -> ConfigError {
    ConfigError::Invalid {
        what,
        value: value.to_owned(),
        why: why.into(),
    }
}

impl Config {
    /// Puts the configuration together.
    pub fn load(flags: &Flags, env: Env<'_>) -> Result<Self, ConfigError> {
        let sources = Sources { env };
        let path = sources.path(&flags.config, "TUNNEL_CLIENT_CONFIG", &None);
        let file = match &path {
            Some(path) => file::read(path)?,
            None => File::default(),
        };
        let (key, hidden) = key(&sources, flags, &file)?;
        let endpoint = endpoint(&sources, flags, &file, key)?;
        let journal = sources.path(&flags.journal, "JOURNAL_FILE", &file.journal.file);
        let journal = match journal {
            Some(path) => path,
            None => default_journal(&endpoint.tunnel_id)?,
        };
        let health = &file.health;
        let listen = sources.text(
            &flags.health_listen,
            "HEALTH_LISTEN_ADDR",
            &health.listen_addr,
        );
        Ok(Self {
            mcp_argv: mcp_argv(&sources, flags, &file)?,
            hidden,
            calls: call_limits(&sources, flags, &file)?,
            health_listen: listen.as_deref().map(loopback).transpose()?,
            health_parent_only: flags.health_parent_only,
            health_socket: sources.path(
                &flags.health_socket,
                "HEALTH_UNIX_SOCKET",
                &health.unix_socket,
            ),
            health_url_file: sources.path(
                &flags.health_url_file,
                "HEALTH_URL_FILE",
                &health.url_file,
            ),
            pid_file: sources.path(&flags.pid_file, "PID_FILE", &file.process.pid_file),
            log: log_config(&sources, flags, &file)?,
            journal,
            endpoint,
        })
    }

    /// The bound of one line of the MCP server, so that it fits a post.
    pub fn max_line(&self) -> usize {
        self.calls.post_max.saturating_sub(limits::POST_ENVELOPE)
    }
}

/// The key, and the variables that hold it or may hold another.
fn key(
    sources: &Sources<'_>,
    flags: &Flags,
    file: &File,
) -> Result<(ApiKey, Vec<OsString>), ConfigError> {
    let mut hidden: Vec<OsString> = [
        "CONTROL_PLANE_API_KEY",
        "OPENAI_API_KEY",
        "OPENAI_ADMIN_KEY",
    ]
    .map(OsString::from)
    .to_vec();
    let written = &file.control_plane.api_key;
    let key = if let Some(text) = &flags.api_key {
        referenced(sources, text, &mut hidden)?
    } else if let Some(text) = sources.variable("CONTROL_PLANE_API_KEY") {
        ApiKey::new(&text)?
    } else if let Some(text) = sources
        .variable("OPENAI_API_KEY")
        .filter(|_| written.is_none())
    {
        ApiKey::new(&text)?
    } else if let Some(text) = written {
        referenced(sources, text, &mut hidden)?
    } else {
        return Err(ConfigError::Missing {
            what: "the API key",
            flag: "--control-plane.api-key=file:/path",
            variable: "CONTROL_PLANE_API_KEY",
        });
    };
    Ok((key, hidden))
}

fn referenced(
    sources: &Sources<'_>,
    text: &str,
    hidden: &mut Vec<OsString>,
) -> Result<ApiKey, ConfigError> {
    let reference = KeyReference::parse(text)?;
    if let KeyReference::Env(name) = &reference {
        hidden.push(name.into());
    }
    Ok(reference.resolve(sources.env)?)
}

fn endpoint(
    sources: &Sources<'_>,
    flags: &Flags,
    file: &File,
    key: ApiKey,
) -> Result<Endpoint, ConfigError> {
    let plane = &file.control_plane;
    let base = sources.text(&flags.base_url, "CONTROL_PLANE_BASE_URL", &plane.base_url);
    let base = base.unwrap_or_else(|| limits::BASE_URL.to_owned());
    let path = sources.text(&flags.url_path, "CONTROL_PLANE_URL_PATH", &plane.url_path);
    let id = sources.text(
        &flags.tunnel_id,
        "CONTROL_PLANE_TUNNEL_ID",
        &plane.tunnel_id,
    );
    let id = id.ok_or(ConfigError::Missing {
        what: "the tunnel's id",
        flag: "--control-plane.tunnel-id",
        variable: "CONTROL_PLANE_TUNNEL_ID",
    })?;
    let timeout = sources.text(
        &flags.poll_timeout,
        "CONTROL_PLANE_POLL_TIMEOUT",
        &plane.poll_timeout,
    );
    let guardrail = sources.text(
        &flags.poll_guardrail,
        "CONTROL_PLANE_POLL_DEADLINE_GUARDRAIL",
        &plane.poll_deadline_guardrail,
    );
    let poll_timeout = duration("the poll time-out", timeout, limits::POLL_TIMEOUT)?;
    let poll_guardrail = duration("the poll guardrail", guardrail, limits::POLL_GUARDRAIL)?;
    if poll_timeout + poll_guardrail > limits::POLL_DEADLINE_MAX {
        let value = durations::show(poll_timeout + poll_guardrail);
        let why = "poll time-out and guardrail together may be 10m at most";
        return Err(invalid("the poll's deadline", &value, why));
    }
    Ok(Endpoint {
        base_url: base_url(&base, path.as_deref())?,
        tunnel_id: tunnel_id(&id)?,
        key,
        proxy: proxy(sources, flags, file)?,
        ca_bundle: sources.path(&flags.ca_bundle, "CA_BUNDLE", &file.ca_bundle),
        organization: sources.text(
            &flags.organization,
            "CONTROL_PLANE_ORGANIZATION_ID",
            &plane.organization_id,
        ),
        poll_timeout,
        poll_guardrail,
    })
}

fn duration(
    what: &'static str,
    text: Option<String>,
    default: Duration,
) -> Result<Duration, ConfigError> {
    let Some(text) = text else {
        return Ok(default);
    };
    let read = durations::parse(&text).filter(|duration| !duration.is_zero());
    read.ok_or_else(|| invalid(what, &text, "a time such as 30s or 1500ms is wanted"))
}

fn base_url(base: &str, path: Option<&str>) -> Result<String, ConfigError> {
    let what = "the control plane's base URL";
    let url = reqwest::Url::parse(base.trim())
        .map_err(|e| invalid(what, base, format!("{e}; write https://host")))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(invalid(what, base, "write https://host"));
    }
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
        let why = "it holds a user, a password or a query, which it must not";
        return Err(invalid(what, &hide_credentials(&url), why));
    }
    if url.scheme() == "http" && !is_plain_loopback(&url) {
        let why = "the API key would cross the network in the clear; write https";
        return Err(invalid(what, base, why));
    }
    let mut text = url.as_str().trim_end_matches('/').to_owned();
    let path = path.unwrap_or_default().trim_matches('/');
    if !path.is_empty() {
        text.push('/');
        text.push_str(path);
    }
    Ok(text)
}

fn hide_credentials(url: &reqwest::Url) -> String {
    format!(
        "{}://…@{}",
        url.scheme(),
        url.host_str().unwrap_or_default()
    )
}

/// The id stands in a path, so nothing but its own form passes.
fn tunnel_id(text: &str) -> Result<String, ConfigError> {
    let id = text.trim();
    let hex = id.strip_prefix("tunnel_").unwrap_or_default();
    let good = hex.len() == 32
        && hex
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    if !good {
        let why = "it looks like tunnel_ and 32 hex digits; copy it from the tunnel's settings";
        return Err(invalid("the tunnel's id", text, why));
    }
    Ok(id.to_owned())
}

fn proxy(sources: &Sources<'_>, flags: &Flags, file: &File) -> Result<Option<String>, ConfigError> {
    let own = sources.text(
        &flags.control_plane_proxy,
        "CONTROL_PLANE_HTTP_PROXY",
        &file.control_plane.http_proxy,
    );
    let text =
        own.or_else(|| sources.text(&flags.proxy, "TUNNEL_CLIENT_HTTP_PROXY", &file.http_proxy));
    let Some(text) = text else { return Ok(None) };
    let Some(name) = text.strip_prefix("env:") else {
        return Ok(Some(text));
    };
    match sources.variable(name) {
        Some(value) => Ok(Some(value)),
        None => Err(invalid("the proxy", &text, "the variable is not set")),
    }
}

fn mcp_argv(sources: &Sources<'_>, flags: &Flags, file: &File) -> Result<Vec<String>, ConfigError> {
    let what = "the MCP server's command";
    let mut written = None;
    for entry in &file.mcp.commands {
        match entry.channel.as_deref() {
            None | Some(limits::MAIN_CHANNEL) => written = Some(entry.command.clone()),
            Some(other) => {
                return Err(invalid(
                    "mcp.commands",
                    other,
                    "only the channel main is served",
                ));
            }
        }
    }
    let text = sources
        .text(&flags.mcp_command, "MCP_COMMAND", &written)
        .ok_or(ConfigError::Missing {
            what,
            flag: "--mcp.command",
            variable: "MCP_COMMAND",
        })?;
    let line = match text.trim().strip_prefix("channel=") {
        None => text.trim(),
        Some(rest) => match rest.split_once(",command=") {
            Some((limits::MAIN_CHANNEL, line)) => line,
            _ => return Err(invalid(what, &text, "only the channel main is served")),
        },
    };
    let argv = shlex::split(line).filter(|argv| !argv.is_empty());
    argv.ok_or_else(|| invalid(what, line, "its quotes do not match, or nothing is in it"))
}

fn call_limits(
    sources: &Sources<'_>,
    flags: &Flags,
    file: &File,
) -> Result<CallLimits, ConfigError> {
    let what = "mcp.max-concurrent-requests";
    let concurrent = sources.number(
        flags.concurrent,
        what,
        "MCP_MAX_CONCURRENT_REQUESTS",
        file.mcp.max_concurrent_requests,
    )?;
    let concurrent = concurrent.unwrap_or(limits::CONCURRENT);
    if !(1..=limits::CONCURRENT_MAX).contains(&concurrent) {
        let why = format!("it goes from 1 to {}", limits::CONCURRENT_MAX);
        return Err(invalid(what, &concurrent.to_string(), why));
    }
    let what = "post.max-bytes";
    let post_max = sources.number(flags.post_max, what, "POST_MAX_BYTES", file.post.max_bytes)?;
    let post_max = post_max.unwrap_or(limits::POST_BODY_MAX);
    if post_max < 4 * limits::POST_ENVELOPE {
        let why = format!("it is {} at least", 4 * limits::POST_ENVELOPE);
        return Err(invalid(what, &post_max.to_string(), why));
    }
    let ttl = sources.text(
        &flags.call_ttl,
        "MCP_CONNECTION_MAX_TTL",
        &file.mcp.connection_max_ttl,
    );
    Ok(CallLimits {
        concurrent,
        call_ttl: duration("mcp.connection-max-ttl", ttl, limits::CALL_TTL)?,
        post_max,
    })
}

/// The address of the health pages: loopback alone, since they have no lock.
fn loopback(text: &str) -> Result<SocketAddr, ConfigError> {
    let what = "health.listen-addr";
    let text = text.trim();
    let named = text
        .strip_prefix("localhost:")
        .map(|port| format!("127.0.0.1:{port}"));
    let address: SocketAddr = parsed(
        what,
        named.as_deref().unwrap_or(text),
        "write 127.0.0.1:PORT",
    )?;
    if !address.ip().is_loopback() {
        let why = "anybody on the network could read it; write 127.0.0.1:PORT";
        return Err(invalid(what, text, why));
    }
    Ok(address)
}

fn log_config(sources: &Sources<'_>, flags: &Flags, file: &File) -> Result<LogConfig, ConfigError> {
    let level = sources.text(&flags.log_level, "LOG_LEVEL", &file.log.level);
    let level = match level.as_deref() {
        None | Some("info") => Level::Info,
        Some("debug") => Level::Debug,
        Some("warn") => Level::Warn,
        Some(other) => return Err(invalid("log.level", other, "it is debug, info or warn")),
    };
    let format = sources.text(&flags.log_format, "LOG_FORMAT", &file.log.format);
    let json = match format.as_deref() {
        None | Some("struct-text") => false,
        Some("json") => true,
        Some(other) => return Err(invalid("log.format", other, "it is struct-text or json")),
    };
    Ok(LogConfig {
        level,
        json,
        file: sources.path(&flags.log_file, "LOG_FILE", &file.log.file),
    })
}

/// One journal for each tunnel, in the platform's place for state.
fn default_journal(tunnel_id: &str) -> Result<PathBuf, ConfigError> {
    let dirs = directories::ProjectDirs::from("", "", "hands-tunnel");
    let missing = ConfigError::Missing {
        what: "a place for the journal",
        flag: "--journal.file",
        variable: "JOURNAL_FILE",
    };
    let dirs = dirs.ok_or(missing)?;
    let folder: &Path = dirs.state_dir().unwrap_or_else(|| dirs.data_local_dir());
    Ok(folder.join(format!("{tunnel_id}.journal")))
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
