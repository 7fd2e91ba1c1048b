//! From file, environment and flags to one checked configuration.

use crate::env::Env;
use crate::error::{ConfigError, Place};
use crate::file;
use crate::folders::Surroundings;
use crate::home::Home;
use crate::keys::{self, KEYS, Key, Slot};
use crate::limits;
use crate::model::{Config, Network};
use crate::near::nearest;
use crate::value::{Fault, Raw, apply};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Nobody set it.
    Default,
    /// The configuration file, on this line (counted from 1).
    File {
        /// Line, counted from 1.
        line: usize,
    },
    /// This environment variable.
    Env {
        /// Name of the variable.
        name: String,
    },
    /// A command-line flag.
    Flag,
}

impl std::fmt::Display for Source {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Default => out.write_str("default"),
            Source::File { line } => write!(out, "config.toml:{line}"),
            Source::Env { name } => out.write_str(name),
            Source::Flag => out.write_str("flag"),
        }
    }
}

/// Settings given on the command line; they override everything else.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    values: Vec<(String, String)>,
    workspaces: Vec<PathBuf>,
}

impl Flags {
    /// Sets a key (as in the file, `section.key`) to a value written as in an environment variable.
    #[must_use]
    pub fn set(mut self, key: &str, value: &str) -> Flags {
        self.values.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Adds a workspace. All workspaces given as flags together replace those of file and environment.
    #[must_use]
    pub fn workspace(mut self, path: &Path) -> Flags {
        self.workspaces.push(path.to_path_buf());
        self
    }
}

/// A checked configuration, and what there is to say about it.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// Where each key's value came from; every key of [`KEYS`] is present.
    pub sources: BTreeMap<&'static str, Source>,
    /// What does not stop the start but should be read by a person.
    pub warnings: Vec<String>,
}

/// One line of `handsctl config show`.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The setting.
    pub key: &'static Key,
    /// Its value.
    pub value: serde_json::Value,
    /// Where the value came from.
    pub source: Source,
}

impl Loaded {
    /// Every key with value and source, in the table's order.
    pub fn entries(&self) -> Vec<Entry> {
        KEYS.iter()
            .map(|key| Entry {
                key,
                value: key.value(&self.config),
                source: self
                    .sources
                    .get(key.name)
                    .cloned()
                    .unwrap_or(Source::Default),
            })
            .collect()
    }

    /// Creates `~/Hands` if no workspace was named and it is missing. Returns what was created.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn create_default_workspace(&self) -> Result<Option<PathBuf>, ConfigError> {
        if self.sources.get("workspaces") != Some(&Source::Default) {
            return Ok(None);
        }
        let Some(path) = self.config.workspaces.first().filter(|path| !path.exists()) else {
            return Ok(None);
        };
        let error = |reason: String, hint: &str| {
            let reason = format!(
                "the workspace {} cannot be created: {reason}",
                path.display()
            );
            ConfigError::new(Place::Default, reason)
                .key("workspaces")
                .hint(hint)
        };
        match std::fs::create_dir(path) {
            Ok(()) => Ok(Some(path.clone())),
            // Another server that starts at the same moment did it.
            Err(cause) if cause.kind() == std::io::ErrorKind::AlreadyExists => {
                if path.exists() {
                    return Ok(None);
                }
                Err(error(
                    "a link to nowhere is in its place".to_owned(),
                    "remove the link, or make its target",
                ))
            }
            Err(cause) => Err(error(
                cause.to_string(),
                "set HANDS_WORKSPACES to a folder that you may write",
            )),
        }
    }
}

/// Loads and checks the configuration of `home`. Reads files, changes nothing.
///
/// # Errors
/// The first thing that is wrong, with its place: the file cannot be read or understood, a key is unknown, a value has the
/// wrong type or range (in the file, a variable or a flag), or a folder may not be a workspace.
pub fn load(home: &Home, env: &Env, flags: &Flags) -> Result<Loaded, ConfigError> {
    let mut loader = Loader {
        file: home.config_file(),
        user_home: env.user_home(),
        config: Config::default(),
        sources: KEYS.iter().map(|key| (key.name, Source::Default)).collect(),
        element_lines: BTreeMap::new(),
        warnings: Vec::new(),
    };
    loader.read_file()?;
    loader.read_env(env)?;
    loader.read_flags(flags)?;
    loader.default_workspace()?;
    loader.check_limits()?;
    loader.check_network()?;
    loader.check_folders(home)?;
    loader.protect_key();
    Ok(Loaded {
        config: loader.config,
        sources: loader.sources,
        warnings: loader.warnings,
    })
}

struct Loader {
    file: PathBuf,
    user_home: Option<PathBuf>,
    config: Config,
    sources: BTreeMap<&'static str, Source>,
    /// Lines of the elements of lists that came from the file.
    element_lines: BTreeMap<&'static str, Vec<usize>>,
    warnings: Vec<String>,
}

impl Loader {
    fn read_file(&mut self) -> Result<(), ConfigError> {
        let Some(text) = file::read(&self.file)? else {
            return Ok(());
        };
        for written in file::parse(&self.file, &text)? {
            self.element_lines
                .insert(written.key.name, written.element_lines);
            self.take(
                written.key,
                &written.raw,
                Source::File { line: written.line },
            )?;
        }
        Ok(())
    }

    fn read_env(&mut self, env: &Env) -> Result<(), ConfigError> {
        if let Some(name) = env.unreadable("HANDS_").next() {
            return Err(ConfigError::new(
                Place::Env(name.to_owned()),
                "the value is not UTF-8",
            ));
        }
        for key in KEYS {
            let name = key.env_name();
            if let Some(text) = env.get(&name) {
                self.take(key, &Raw::from_text(key, text), Source::Env { name })?;
            }
        }
        for (name, _) in env.with_prefix("HANDS_") {
            self.warn_if_unknown(name);
        }
        Ok(())
    }

    fn warn_if_unknown(&mut self, name: &str) {
        let foreign = keys::FOREIGN_ENV.iter().any(|known| {
            if known.ends_with('_') {
                name.starts_with(known)
            } else {
                name == *known
            }
        });
        let names: Vec<String> = KEYS.iter().map(Key::env_name).collect();
        if foreign || names.iter().any(|known| known == name) {
            return;
        }
        let known = names.iter().map(String::as_str).chain(["HANDS_HOME"]);
        self.warnings.push(match nearest(name, known) {
            Some(near) => format!(
                "environment variable {name} is not known and has no effect; did you mean {near}?"
            ),
            None => format!("environment variable {name} is not known and has no effect"),
        });
    }

    fn read_flags(&mut self, flags: &Flags) -> Result<(), ConfigError> {
        for (name, text) in &flags.values {
            let Some(key) = keys::find(name) else {
                let near = nearest(name, KEYS.iter().map(|key| key.name));
                return Err(
                    ConfigError::new(Place::Flag(name.clone()), "the key is not known")
                        .maybe_hint(near.map(|near| format!("did you mean `{near}`?"))),
                );
            };
            self.take(key, &Raw::from_text(key, text), Source::Flag)?;
        }
        if let (false, Some(key)) = (flags.workspaces.is_empty(), keys::find("workspaces")) {
            let texts = flags
                .workspaces
                .iter()
                .map(|path| path.to_string_lossy().into_owned());
            self.take(key, &Raw::List(texts.collect()), Source::Flag)?;
        }
        Ok(())
    }

    /// Puts one value in its place.
    fn take(&mut self, key: &'static Key, raw: &Raw, source: Source) -> Result<(), ConfigError> {
        self.sources.insert(key.name, source);
        apply(key, raw, &mut self.config, self.user_home.as_deref())
            .map_err(|fault| self.error(key.name, fault))
    }

    /// The fault at the place where the key's value came from.
    fn error(&self, key: &'static str, fault: Fault) -> ConfigError {
        let place = match self.sources.get(key) {
            Some(Source::File { line }) => {
                let element = fault.element.and_then(|at| {
                    let lines = self.element_lines.get(key)?;
                    lines.get(at).copied()
                });
                file::at_line(&self.file, element.unwrap_or(*line))
            }
            Some(Source::Env { name }) => {
                // The variable's name says which key it is.
                return ConfigError::new(Place::Env(name.clone()), fault.reason)
                    .maybe_hint(fault.hint);
            }
            Some(Source::Flag) => {
                return ConfigError::new(Place::Flag(key.to_owned()), fault.reason)
                    .maybe_hint(fault.hint);
            }
            Some(Source::Default) | None => Place::Default,
        };
        ConfigError::new(place, fault.reason)
            .key(key)
            .maybe_hint(fault.hint)
    }

    fn default_workspace(&mut self) -> Result<(), ConfigError> {
        if self.sources.get("workspaces") != Some(&Source::Default) {
            if self.config.workspaces.is_empty() {
                return Err(self.error(
                    "workspaces",
                    Fault::new("the list is empty")
                        .hint("name a folder, or remove the key to use ~/Hands"),
                ));
            }
            return Ok(());
        }
        let Some(user_home) = &self.user_home else {
            return Err(self.error(
                "workspaces",
                Fault::new("none is named, and the home folder of this user is not known")
                    .hint("set HANDS_WORKSPACES"),
            ));
        };
        self.config.workspaces = vec![user_home.join(limits::DEFAULT_WORKSPACE)];
        Ok(())
    }

    /// Settings that contradict each other.
    fn check_limits(&self) -> Result<(), ConfigError> {
        let limits = &self.config.limits;
        let pairs = [
            (
                ("limits.bash_timeout_s", limits.bash_timeout_s),
                ("limits.bash_timeout_max_s", limits.bash_timeout_max_s),
            ),
            (
                ("limits.output_bytes", limits.output_bytes),
                ("limits.result_bytes", limits.result_bytes),
            ),
            (
                ("limits.read_bytes", limits.read_bytes),
                ("limits.result_bytes", limits.result_bytes),
            ),
        ];
        for ((low, low_value), (high, high_value)) in pairs {
            if low_value <= high_value {
                continue;
            }
            // Blame the one that a person set.
            let fault = |is: &str, other, value| {
                Fault::new(format!("is {is} than `{other}`, which is {value}"))
            };
            return Err(if self.sources.get(low) == Some(&Source::Default) {
                self.error(
                    high,
                    fault(&format!("{high_value}, less"), low, low_value)
                        .hint(format!("set `{low}` too")),
                )
            } else {
                self.error(low, fault(&format!("{low_value}, more"), high, high_value))
            });
        }
        Ok(())
    }

    /// A list of hosts that nothing looks at would be taken for a bound.
    fn check_network(&self) -> Result<(), ConfigError> {
        let sandbox = &self.config.sandbox;
        let fault = match (sandbox.network, sandbox.hosts.is_empty()) {
            (Network::Hosts, true) => {
                let fault = Fault::new("is `hosts`, and `sandbox.hosts` names none");
                let hint = "name the hosts, or use `loopback` or `off`";
                return Err(self.error("sandbox.network", fault.hint(hint)));
            }
            (Network::Hosts, false) | (_, true) => return Ok(()),
            (other, false) => Fault::new(format!(
                "bounds nothing while `sandbox.network` is `{}`",
                other.as_str()
            )),
        };
        let hint = "set `sandbox.network` to `hosts`, or remove the list";
        Err(self.error("sandbox.hosts", fault.hint(hint)))
    }

    fn check_folders(&mut self, home: &Home) -> Result<(), ConfigError> {
        let around = Surroundings::new(self.user_home.as_deref(), home.root());
        for (key, what) in [("workspaces", "workspace"), ("write.extra", "folder")] {
            let paths = folders_of(key, &mut self.config);
            for (at, path) in paths.iter().enumerate() {
                if let Some(why) = around.objection(path) {
                    let hint = "name a narrower folder that is yours";
                    let reason = format!("{} cannot be a {what}: {why}", path.display());
                    return Err(self.error(key, Fault::new(reason).hint(hint).at(at)));
                }
                self.check_presence(key, what, at, path)?;
            }
        }
        self.drop_doubles();
        Ok(())
    }

    fn check_presence(
        &mut self,
        key: &'static str,
        what: &str,
        at: usize,
        path: &Path,
    ) -> Result<(), ConfigError> {
        let is_default = self.sources.get(key) == Some(&Source::Default);
        match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() => Ok(()),
            Ok(_) => Err(self.error(
                key,
                Fault::new(format!("{} is not a folder", path.display())).at(at),
            )),
            // The default one is created on the first start.
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound && is_default => Ok(()),
            Err(cause) => {
                self.warnings.push(format!(
                    "{what} {} is not there ({cause}); it serves as soon as it appears",
                    path.display()
                ));
                Ok(())
            }
        }
    }

    /// The key is protected wherever it lies; in the home it is already.
    fn protect_key(&mut self) {
        if let Some(key) = self.config.tunnel.key_file.clone()
            && !self.config.protect.paths.contains(&key)
        {
            self.config.protect.paths.push(key);
        }
    }

    fn drop_doubles(&mut self) {
        let mut seen: Vec<PathBuf> = Vec::new();
        for path in std::mem::take(&mut self.config.workspaces) {
            if seen.contains(&path) {
                self.warnings
                    .push(format!("workspace {} is named twice", path.display()));
            } else {
                seen.push(path);
            }
        }
        self.config.workspaces = seen;
    }
}

/// The folders that the key of that name holds.
fn folders_of(name: &str, config: &mut Config) -> Vec<PathBuf> {
    match keys::find(name).map(|key| &key.slot) {
        Some(Slot::Paths(at)) => at(config).clone(),
        _ => Vec::new(),
    }
}
