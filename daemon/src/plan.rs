//! How the children are to be started, by the settings in force.

use crate::limits;
use crate::log::log_lines;
use crate::programs::{self, Programs};
use hands_config::{Config, Home, KeyStore, TunnelClient};
use hands_tunnel::driver::{Choice, ClientSpec, Kind};
use hands_tunnel::secret::KeyReference;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

/// Variables that no child gets: the service manager's are for the daemon alone, and a key is read from its file by
/// the one program that needs it.
const WITHHELD: &[&str] = &[
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "CONTROL_PLANE_API_KEY",
    "OPENAI_API_KEY",
    "OPENAI_ADMIN_KEY",
];

/// The exit code of ours for a configuration that cannot be used.
const BAD_CONFIGURATION: i32 = hands_control::exit::CONFIG as i32;
/// The exit code of both tunnel clients for a configuration that cannot be used.
const TUNNEL_CONFIGURATION: i32 = 1;

/// What is to be done at the next start.
#[derive(Debug)]
pub(crate) enum Plan {
    /// Start this.
    Run(Box<Spec>),
    /// Nothing: it is not wanted, and why.
    Unwanted(String),
    /// Nothing can be started before the operator has mended this.
    Operator(String),
}

/// Makes the plan, each time anew. It may run programs to ask them for their version.
pub(crate) type Planner = Arc<dyn Fn() -> Plan + Send + Sync>;

/// A process to be started.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) program: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    /// Its name in the log.
    name: &'static str,
    /// Time from SIGTERM to SIGKILL.
    pub(crate) stop_within: Duration,
    /// Exit codes that only the operator can do something about.
    pub(crate) operator_exits: &'static [i32],
}

impl Spec {
    /// Starts it in a process group of its own; what it prints goes to the log.
    pub(crate) fn spawn(&self) -> std::io::Result<tokio::process::Child> {
        let mut child = tokio::process::Command::new(&self.program)
            .args(&self.arguments)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        log_lines(self.name, child.stdout.take());
        log_lines(self.name, child.stderr.take());
        Ok(child)
    }
}

/// What plans are made from.
#[derive(Debug, Clone)]
pub(crate) struct Basis {
    pub(crate) home: Home,
    pub(crate) programs: Programs,
    pub(crate) environment: Vec<(OsString, OsString)>,
}

impl Basis {
    /// The MCP server.
    pub(crate) fn server(&self) -> Plan {
        Plan::Run(Box::new(Spec {
            program: self.programs.mcp.clone(),
            arguments: vec!["--serve".into(), "--home".into(), self.home.root().into()],
            environment: self.environment(),
            name: "server",
            stop_within: limits::STOP_SERVER,
            operator_exits: &[BAD_CONFIGURATION],
        }))
    }

    /// The tunnel's client.
    pub(crate) fn tunnel(&self, config: &Config) -> Plan {
        let Some(id) = &config.tunnel.id else {
            return Plan::Unwanted("no tunnel is configured".to_owned());
        };
        match self.tunnel_spec(config, id) {
            Ok(spec) => Plan::Run(Box::new(spec)),
            Err(why) => Plan::Operator(why),
        }
    }

    fn tunnel_spec(&self, config: &Config, id: &str) -> Result<Spec, String> {
        let official = self.official(config)?;
        let key = self.key(config, id, official.is_some())?;
        let builtin = self.programs.tunnel.clone();
        let health_socket = tunnel_socket(&self.home);
        let spec = ClientSpec {
            choice: match official {
                Some(_) => Choice::Official,
                None => Choice::Builtin,
            },
            builtin: builtin.unwrap_or_else(|| self.programs.mcp.with_file_name("hands-tunnel")),
            official,
            tunnel_id: id.to_owned(),
            key,
            base_url: config.tunnel.base_url.clone(),
            mcp_argv: self.mcp_argv()?,
            health_socket: health_socket.clone(),
            health_parent_only: true,
            health_url_file: None,
            pid_file: None,
            log_file: None,
            poll_timeout: Some(config.tunnel.poll_timeout),
            ca_bundle: None,
            journal: Some(self.home.run_dir().join("tunnel.journal")),
        };
        let command = spec.command().map_err(|why| why.to_string())?;
        if command.kind == Kind::Official {
            // A stale one would keep the official client from listening.
            let _ = std::fs::remove_file(&health_socket);
        }
        let overruling = |name: &OsStr| {
            command
                .env_remove
                .iter()
                .any(|other| name == other.as_str())
        };
        let environment = self.environment().into_iter();
        Ok(Spec {
            program: command.program.clone(),
            arguments: command.args.iter().map(OsString::from).collect(),
            environment: environment.filter(|(name, _)| !overruling(name)).collect(),
            name: "tunnel",
            stop_within: limits::STOP_TUNNEL,
            operator_exits: &[TUNNEL_CONFIGURATION, BAD_CONFIGURATION],
        })
    }

    /// Where the client finds the key. One that was put into the system's store for secrets is never written to a file for a
    /// client that reads only files: it was put there so that it lies in none.
    fn key(&self, config: &Config, id: &str, official: bool) -> Result<KeyReference, String> {
        match config.tunnel.key_store {
            KeyStore::Keychain if official => Err(
                "the key is in the system's store for secrets, and the official client takes it from a file only: \
                 run `handsctl tunnel setup --store file`, or set tunnel.client to `builtin`"
                    .to_owned(),
            ),
            KeyStore::Keychain => Ok(KeyReference::Keychain(id.to_owned())),
            KeyStore::File => {
                let file = self.key_file(config);
                check_key(&file)?;
                Ok(KeyReference::File(file))
            }
        }
    }

    /// Where the key's file lies.
    fn key_file(&self, config: &Config) -> PathBuf {
        let named = config.tunnel.key_file.clone();
        named.unwrap_or_else(|| self.home.tunnel_key_file())
    }

    /// The official client's program, where it is to hold the tunnel.
    fn official(&self, config: &Config) -> Result<Option<PathBuf>, String> {
        if !uses_official(config) {
            return Ok(None);
        }
        if let Some(path) = &config.tunnel.client_path {
            return match programs::is_program(path) {
                true => Ok(Some(path.clone())),
                false => Err(format!(
                    "{} is no program: set tunnel.client_path to the official client",
                    path.display()
                )),
            };
        }
        let path = self.environment.iter().find(|(name, _)| name == "PATH");
        let folders = path.map(|(_, value)| std::env::split_paths(value).collect::<Vec<_>>());
        let mut candidates = folders
            .into_iter()
            .flatten()
            .map(|folder| folder.join("tunnel-client"));
        let found = candidates.find(|path| path.is_absolute() && programs::is_program(path));
        match found {
            Some(path) => Ok(Some(path)),
            None => Err("there is no tunnel-client on PATH: set tunnel.client_path, or tunnel.client to `builtin`".to_owned()),
        }
    }

    /// The relay's command line.
    fn mcp_argv(&self) -> Result<Vec<String>, String> {
        let words = [
            self.programs.mcp.as_path(),
            Path::new("--relay"),
            Path::new("--home"),
            self.home.root(),
        ];
        let word = |path: &Path| match path.to_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err(format!(
                "the path {} is no UTF-8: rename it",
                path.display()
            )),
        };
        words.into_iter().map(word).collect()
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        let withheld = |name: &OsStr| WITHHELD.iter().any(|other| name == *other);
        let kept = self
            .environment
            .iter()
            .filter(|(name, _)| !withheld(name) && name != "HANDS_HOME");
        let home = (OsString::from("HANDS_HOME"), self.home.root().into());
        kept.cloned().chain([home]).collect()
    }
}

/// Whether the official client is to hold the tunnel.
pub(crate) fn uses_official(config: &Config) -> bool {
    match config.tunnel.client {
        TunnelClient::Auto => config.tunnel.client_path.is_some(),
        TunnelClient::Builtin => false,
        TunnelClient::Official => true,
    }
}

/// The socket of the tunnel's health pages.
pub(crate) fn tunnel_socket(home: &Home) -> PathBuf {
    home.run_dir().join("tunnel.sock")
}

/// The clients would say so too, but only in their logs. The message names no path: it is shown where paths of secrets are not.
fn check_key(path: &Path) -> Result<(), String> {
    let setup = "run `handsctl tunnel setup`";
    let meta = std::fs::metadata(path)
        .map_err(|why| format!("the tunnel's key file cannot be read ({why}): {setup}"))?;
    if !meta.is_file() {
        return Err(format!("the tunnel's key file is no file: {setup}"));
    }
    if meta.mode() & 0o077 != 0 {
        return Err("the tunnel's key file can be read by others: set its mode to 0600".to_owned());
    }
    if meta.len() == 0 {
        return Err(format!("the tunnel's key file is empty: {setup}"));
    }
    Ok(())
}

#[cfg(test)]
impl Spec {
    /// A shell script that runs in `folder`, with 300 ms to end.
    pub(crate) fn for_test(script: &str, folder: &Path) -> Self {
        let script = format!("cd '{}' || exit 1; {script}", folder.display());
        Self {
            program: PathBuf::from("/bin/sh"),
            arguments: vec!["-c".into(), script.into()],
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
            name: "test",
            stop_within: Duration::from_millis(300),
            operator_exits: &[BAD_CONFIGURATION],
        }
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
