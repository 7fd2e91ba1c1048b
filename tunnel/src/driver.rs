//! Running a tunnel client as a child: this one, or the official one, the same way.
//!
//! A [`ClientSpec`] says what is wanted; [`ClientSpec::command`] gives the command line and the
//! environment that make a client of the chosen kind do it. What a version of the official
//! client can do is asked of it, never assumed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::durations;
use crate::secret::KeyReference;

/// Which client is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// The official one where a path to it is given and it works, else the built-in one.
    #[default]
    Auto,
    /// The built-in one.
    Builtin,
    /// The official one.
    Official,
}

impl std::str::FromStr for Choice {
    type Err = DriverError;

    fn from_str(text: &str) -> Result<Self, DriverError> {
        match text {
            "auto" => Ok(Self::Auto),
            "builtin" => Ok(Self::Builtin),
            "official" => Ok(Self::Official),
            other => Err(DriverError::UnknownChoice(other.to_owned())),
        }
    }
}

/// Which client it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `hands-tunnel`.
    Builtin,
    /// `tunnel-client`.
    Official,
}

/// Why a client cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// Not a choice.
    #[error("tunnel.client cannot be {0:?}; it is auto, builtin or official")]
    UnknownChoice(String),
    /// No path to the official client.
    #[error("tunnel.client is official, but no path to it is set")]
    NoOfficial,
    /// The program does not work.
    #[error("asking {program} for {what}: {reason}")]
    Program {
        /// The program.
        program: PathBuf,
        /// What was asked.
        what: &'static str,
        /// What went wrong.
        reason: String,
    },
    /// The program lacks something that is needed.
    #[error("{program} {version} has no flag {flag}, which is needed: take a later version")]
    TooOld {
        /// The program.
        program: PathBuf,
        /// Its version.
        version: String,
        /// The flag.
        flag: &'static str,
    },
}

/// What a client is to do.
#[derive(Debug, Clone)]
pub struct ClientSpec {
    /// Which client.
    pub choice: Choice,
    /// The built-in client's program.
    pub builtin: PathBuf,
    /// The official client's program.
    pub official: Option<PathBuf>,
    /// The tunnel's id.
    pub tunnel_id: String,
    /// Where the key is.
    pub key: KeyReference,
    /// The control plane; the service's own where there is none.
    pub base_url: Option<String>,
    /// The MCP server's program and arguments.
    pub mcp_argv: Vec<String>,
    /// The Unix socket of its health pages.
    pub health_socket: PathBuf,
    /// Whether only the process that starts the client is answered there; of the built-in client alone.
    pub health_parent_only: bool,
    /// The file that gets their URL.
    pub health_url_file: Option<PathBuf>,
    /// The file that gets its process id.
    pub pid_file: Option<PathBuf>,
    /// The file it logs to; its standard error or output where there is none.
    pub log_file: Option<PathBuf>,
    /// How long a poll waits.
    pub poll_timeout: Option<Duration>,
    /// Certificates trusted beside the system's.
    pub ca_bundle: Option<PathBuf>,
    /// The journal; of the built-in client alone.
    pub journal: Option<PathBuf>,
}

/// How to start a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCommand {
    /// Which client it is.
    pub kind: Kind,
    /// Its version.
    pub version: ClientVersion,
    /// The program.
    pub program: PathBuf,
    /// Its arguments; none of them is a secret.
    pub args: Vec<String>,
    /// Variables to take out of its environment: they would overrule what is asked for, or
    /// hold a key that it does not need.
    pub env_remove: Vec<String>,
    /// How many calls it carries to one MCP server at once.
    pub concurrent: bool,
    /// Whether it starts an MCP server again that has ended; else it ends itself, with code 0.
    pub restarts_server: bool,
}

impl ClientCommand {
    /// The command, ready to be given pipes and started.
    pub fn to_std(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args);
        for name in &self.env_remove {
            command.env_remove(name);
        }
        command
    }
}

/// A client's version, as it tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientVersion {
    /// The whole text.
    pub text: String,
    /// Its first three numbers.
    pub numbers: (u64, u64, u64),
}

/// Variables that set what the command line sets, or hold keys.
const OVERRULING: [&str; 22] = [
    "TUNNEL_CLIENT_CONFIG",
    "TUNNEL_CLIENT_PROFILE",
    "TUNNEL_CLIENT_PROFILE_FILE",
    "TUNNEL_CLIENT_PROFILE_DIR",
    "CONTROL_PLANE_API_KEY",
    "OPENAI_API_KEY",
    "OPENAI_ADMIN_KEY",
    "CONTROL_PLANE_BASE_URL",
    "CONTROL_PLANE_URL_PATH",
    "CONTROL_PLANE_TUNNEL_ID",
    "CONTROL_PLANE_POLL_TIMEOUT",
    "CONTROL_PLANE_POLL_CHANNELS",
    "MCP_COMMAND",
    "MCP_SERVER_URL",
    "HEALTH_LISTEN_ADDR",
    "HEALTH_UNIX_SOCKET",
    "HEALTH_URL_FILE",
    "PID_FILE",
    "LOG_FILE",
    "LOG_FORMAT",
    "LOG_HTTP_RAW_UNSAFE",
    "JOURNAL_FILE",
];

/// Flags without which a client cannot be run as it must be.
const NEEDED: [&str; 5] = [
    "--control-plane.tunnel-id",
    "--control-plane.api-key",
    "--mcp.command",
    "--health.unix-socket",
    "--log.file",
];

impl ClientSpec {
    /// Finds the client and gives the command that runs it. It starts the program twice, for
    /// its version and its flags: call it off the async threads.
    pub fn command(&self) -> Result<ClientCommand, DriverError> {
        match (self.choice, &self.official) {
            (Choice::Builtin, _) | (Choice::Auto, None) => self.with(Kind::Builtin, &self.builtin),
            (Choice::Official, None) => Err(DriverError::NoOfficial),
            (Choice::Official, Some(program)) => self.with(Kind::Official, program),
            (Choice::Auto, Some(program)) => self.with(Kind::Official, program).or_else(|error| {
                tracing::warn!(%error, "the built-in client is taken instead");
                self.with(Kind::Builtin, &self.builtin)
            }),
        }
    }

    fn with(&self, kind: Kind, program: &Path) -> Result<ClientCommand, DriverError> {
        let version = detect_version(program)?;
        let flags = detect_flags(program)?;
        let has = |flag: &str| flags.iter().any(|known| known == flag);
        if let Some(flag) = NEEDED.into_iter().find(|flag| !has(flag)) {
            return Err(DriverError::TooOld {
                program: program.to_owned(),
                version: version.text,
                flag,
            });
        }
        let mut args = vec!["run".to_owned()];
        for (flag, value) in self.settings(kind) {
            if has(flag) {
                args.push(format!("{flag}={value}"));
            } else {
                tracing::warn!(program = %program.display(), flag, "the client has no such flag");
            }
        }
        Ok(ClientCommand {
            kind,
            version,
            program: program.to_owned(),
            args,
            env_remove: self.env_remove(),
            concurrent: kind == Kind::Builtin,
            restarts_server: kind == Kind::Builtin,
        })
    }

    fn settings(&self, kind: Kind) -> Vec<(&'static str, String)> {
        let key = match &self.key {
            KeyReference::Env(name) => format!("env:{name}"),
            KeyReference::File(path) => format!("file:{}", path.display()),
            KeyReference::Keychain(account) => format!("keychain:{account}"),
        };
        let mut all = vec![
            ("--control-plane.tunnel-id", self.tunnel_id.clone()),
            ("--control-plane.api-key", key),
            ("--mcp.command", self.command_line()),
            ("--health.unix-socket", text(&self.health_socket)),
            ("--log.format", "json".to_owned()),
        ];
        let paths = [
            ("--health.url-file", &self.health_url_file),
            ("--pid.file", &self.pid_file),
            ("--log.file", &self.log_file),
            ("--ca-bundle", &self.ca_bundle),
        ];
        all.extend(
            paths
                .into_iter()
                .filter_map(|(flag, path)| Some((flag, text(path.as_ref()?)))),
        );
        if let Some(url) = &self.base_url {
            all.push(("--control-plane.base-url", url.clone()));
        }
        if let Some(timeout) = self.poll_timeout {
            all.push(("--control-plane.poll-timeout", durations::show(timeout)));
        }
        if kind == Kind::Builtin && self.health_parent_only {
            all.push(("--health.parent-only", "true".to_owned()));
        }
        if let (Kind::Builtin, Some(path)) = (kind, &self.journal) {
            all.push(("--journal.file", text(path)));
        }
        all
    }

    /// The MCP server's command as one string, quoted so that both clients split it the same.
    fn command_line(&self) -> String {
        self.mcp_argv
            .iter()
            .map(|word| quote(word))
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn env_remove(&self) -> Vec<String> {
        let kept = match &self.key {
            KeyReference::Env(name) => Some(name.as_str()),
            KeyReference::File(_) | KeyReference::Keychain(_) => None,
        };
        let all = OVERRULING.into_iter().filter(|name| Some(*name) != kept);
        all.map(str::to_owned).collect()
    }
}

fn text(path: impl AsRef<Path>) -> String {
    path.as_ref().display().to_string()
}

/// Quotes a word for a splitter with a shell's quotes. Double quotes with backslashes are what
/// the splitters of both clients share.
fn quote(word: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-=:,@%+".contains(&b);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in word.chars() {
        if matches!(c, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    quoted
}

/// Asks a client for its version.
pub fn detect_version(program: &Path) -> Result<ClientVersion, DriverError> {
    let what = "its version";
    let said = ask(program, &["--version"], what)?;
    parse_version(&said).ok_or_else(|| DriverError::Program {
        program: program.to_owned(),
        what,
        reason: "there is no version in what it said".to_owned(),
    })
}

fn parse_version(said: &str) -> Option<ClientVersion> {
    let word = said.split_whitespace().find(|word| {
        let word = word.trim_start_matches('v');
        word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit())
    })?;
    let mut numbers = word
        .trim_start_matches('v')
        .split(['.', '-', '+'])
        .map(|part| part.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    Some(ClientVersion {
        text: word.to_owned(),
        numbers: (next(), next(), next()),
    })
}

/// The long flags that `run --help` names.
fn detect_flags(program: &Path) -> Result<Vec<String>, DriverError> {
    let said = ask(program, &["run", "--help"], "its flags")?;
    let word = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        let name = word.split('=').next().unwrap_or(word);
        name.starts_with("--").then(|| name.to_owned())
    };
    Ok(said.split_whitespace().filter_map(word).collect())
}

/// Runs a program for what it says, for at most 10 s.
fn ask(program: &Path, args: &[&str], what: &'static str) -> Result<String, DriverError> {
    let failed = |reason: String| DriverError::Program {
        program: program.to_owned(),
        what,
        reason,
    };
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null());
    // What it says may be on either; neither is long enough to fill a pipe and block.
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    for name in OVERRULING {
        command.env_remove(name);
    }
    let mut child = command.spawn().map_err(|e| failed(e.to_string()))?;
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        match child.try_wait() {
            Ok(Some(_)) => break,
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed("it did not end within 10 s".into()));
            }
            Err(error) => return Err(failed(error.to_string())),
        }
    }
    let output = child
        .wait_with_output()
        .map_err(|e| failed(e.to_string()))?;
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.push('\n');
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        let line = said.trim().lines().next().unwrap_or_default();
        return Err(failed(format!("it ended with {}: {line}", output.status)));
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use proptest::prelude::*;

    const HELP: &str = "      --control-plane.tunnel-id string  x\n --control-plane.api-key s\n\
        --control-plane.base-url s (default)\n --mcp.command stringArray\n --pid.file string\n\
        --health.unix-socket string\n --health.url-file string\n --log.file s\n --log.format s";

    fn program(folder: &Path, version: &str, help: &str) -> PathBuf {
        let path = folder.join("client");
        let script = format!(
            "#!/bin/sh\nif [ \"$1\" = --version ]; then echo '{version}'; else cat <<'X'\n{help}\nX\nfi\n"
        );
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        path
    }

    fn spec(choice: Choice, official: Option<PathBuf>, builtin: PathBuf) -> ClientSpec {
        ClientSpec {
            choice,
            builtin,
            official,
            tunnel_id: "tunnel_x".into(),
            key: KeyReference::File("/run/key".into()),
            base_url: Some("http://127.0.0.1:1".into()),
            mcp_argv: vec![
                "/bin/hands mcp".into(),
                "--a=b".into(),
                "".into(),
                "q\"$x'".into(),
            ],
            health_socket: "/run/h.sock".into(),
            health_parent_only: false,
            health_url_file: None,
            pid_file: None,
            log_file: Some("/run/log".into()),
            poll_timeout: Some(Duration::from_secs(10)),
            ca_bundle: None,
            journal: Some("/run/journal".into()),
        }
    }

    #[test]
    fn a_command_asks_only_for_what_the_version_has() {
        let folder = tempfile::tempdir().unwrap();
        let official = program(folder.path(), "0.0.13-dev+abc", HELP);
        let command = spec(Choice::Official, Some(official.clone()), "/none".into())
            .command()
            .unwrap();
        assert_eq!(command.kind, Kind::Official);
        assert_eq!(command.version.numbers, (0, 0, 13));
        let args = command.args.join(" ");
        assert!(
            args.starts_with("run --control-plane.tunnel-id=tunnel_x"),
            "{args}"
        );
        assert!(
            args.contains("--control-plane.api-key=file:/run/key"),
            "{args}"
        );
        // The help does not name it, and the journal is not the official client's.
        assert!(
            !args.contains("poll-timeout") && !args.contains("journal"),
            "{args}"
        );
        assert!(
            command
                .env_remove
                .contains(&"CONTROL_PLANE_API_KEY".to_owned())
        );
    }

    #[test]
    fn auto_falls_back_and_official_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let builtin = program(folder.path(), "hands-tunnel 0.1.0", HELP);
        let broken = Some(PathBuf::from("/no/such/program"));
        let auto = spec(Choice::Auto, broken.clone(), builtin.clone()).command();
        assert_eq!(auto.unwrap().kind, Kind::Builtin);
        let auto = spec(Choice::Auto, None, builtin.clone()).command();
        assert_eq!(auto.unwrap().kind, Kind::Builtin);
        assert!(
            spec(Choice::Official, broken, builtin.clone())
                .command()
                .is_err()
        );
        assert!(spec(Choice::Official, None, builtin).command().is_err());
    }

    #[test]
    fn a_client_that_lacks_a_needed_flag_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let help = HELP.replace("--health.unix-socket string", "");
        let old = program(folder.path(), "0.0.3", &help);
        let error = spec(Choice::Official, Some(old), "/none".into())
            .command()
            .unwrap_err();
        assert!(
            error.to_string().contains("--health.unix-socket"),
            "{error}"
        );
    }

    #[test]
    fn versions_are_read_in_any_dress() {
        let cases = [
            ("\n0.0.13-dev\n", Some((0, 0, 13))),
            ("hands-tunnel 0.1.0", Some((0, 1, 0))),
            ("tunnel-client version v1.2.3+abc", Some((1, 2, 3))),
            ("no idea", None),
        ];
        for (said, expected) in cases {
            assert_eq!(parse_version(said).map(|v| v.numbers), expected, "{said}");
        }
    }

    proptest! {
        #[test]
        fn what_is_quoted_is_split_again(argv in proptest::collection::vec("[^\0]{0,12}", 1..4)) {
            let line = argv.iter().map(|w| quote(w)).collect::<Vec<_>>().join(" ");
            let split = shlex::split(&line);
            // A dollar or backquote is nothing special: no shell is in between.
            prop_assert_eq!(split, Some(argv));
        }
    }
}
