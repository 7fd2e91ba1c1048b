//! What of the network a session's commands get.

use crate::outcome::{Code, Outcome};
use hands_config::{Config, HostPattern, HostRule, Network as Setting};
use hands_sandbox::{Host, Network};
use std::path::PathBuf;

/// The setting, and the namespace that the session's commands share.
pub(super) struct SessionNet {
    setting: Setting,
    rules: Vec<hands_sandbox::HostRule>,
    #[cfg(target_os = "linux")]
    shared: std::sync::Mutex<Option<hands_sandbox::linux::SessionNetwork>>,
}

impl SessionNet {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            setting: config.sandbox.network,
            rules: config.sandbox.hosts.iter().map(rule).collect(),
            #[cfg(target_os = "linux")]
            shared: std::sync::Mutex::default(),
        }
    }

    /// What a call gets that asked for this much. A call may ask for less than the configuration
    /// opens, never for more. Makes the session's namespace if need be, which blocks.
    pub(super) fn of_call(&self, asked: Option<bool>) -> Result<Network, Outcome> {
        match (self.setting, asked) {
            (Setting::Off, Some(true)) => Err(Outcome::fail(
                Code::Sandbox,
                "commands have no network here: `sandbox.network` is `off`",
            )
            .hint(
                "Nothing was run. Leave `network` out, or ask your user to open the network in \
                 the configuration.",
            )),
            (_, Some(false)) | (Setting::Off, None) => Ok(Network::Off),
            (Setting::On, _) => Ok(Network::On),
            (Setting::Loopback, _) => Ok(Network::Loopback {
                namespace: self.namespace()?,
            }),
            (Setting::Hosts, _) => Ok(Network::Hosts {
                namespace: self.namespace()?,
                rules: self.rules.clone(),
            }),
        }
    }

    #[cfg(target_os = "linux")]
    fn namespace(&self) -> Result<Option<PathBuf>, Outcome> {
        use hands_sandbox::linux::SessionNetwork;
        use std::sync::PoisonError;
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = shared.as_ref() {
            return Ok(Some(shared.path()));
        }
        let runner =
            super::runner::program().map_err(|e| Outcome::fail(Code::Sandbox, e.to_string()))?;
        let made = SessionNetwork::make(&runner)
            .map_err(|e| Outcome::fail(Code::Sandbox, e.reason).hint(e.hint))?;
        let path = made.path();
        *shared = Some(made);
        Ok(Some(path))
    }

    /// There is none; the backend refuses the plan and says so.
    #[cfg(not(target_os = "linux"))]
    fn namespace(&self) -> Result<Option<PathBuf>, Outcome> {
        Ok(None)
    }
}

/// What commands reach, in the planner's words.
pub(crate) fn in_words(config: &Config) -> String {
    match config.sandbox.network {
        Setting::On => "It reaches the network; false: it does not".into(),
        Setting::Off => "Commands have no network here; true is refused".into(),
        Setting::Loopback => "It reaches the servers of this session's other commands on \
             127.0.0.1, and nothing else; false: not these either"
            .into(),
        Setting::Hosts => {
            let hosts: Vec<String> = config
                .sandbox
                .hosts
                .iter()
                .map(HostRule::to_string)
                .collect();
            format!(
                "It reaches the servers of this session's other commands on 127.0.0.1 and, over \
                 http and https by the proxy that its environment names, {}; false: nothing",
                hosts.join(", ")
            )
        }
    }
}

fn rule(rule: &HostRule) -> hands_sandbox::HostRule {
    hands_sandbox::HostRule {
        host: match &rule.host {
            HostPattern::Name(name) => Host::Name(name.clone()),
            HostPattern::Below(name) => Host::Below(name.clone()),
            HostPattern::Address(address) => Host::Address(*address),
        },
        port: rule.port,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(setting: Setting) -> SessionNet {
        let mut config = Config::default();
        config.sandbox.network = setting;
        SessionNet::new(&config)
    }

    #[test]
    fn a_call_gets_less_and_never_more() {
        assert_eq!(session(Setting::On).of_call(None).unwrap(), Network::On);
        assert_eq!(
            session(Setting::On).of_call(Some(true)).unwrap(),
            Network::On
        );
        for setting in [Setting::On, Setting::Off, Setting::Loopback, Setting::Hosts] {
            let off = session(setting).of_call(Some(false)).unwrap();
            assert_eq!(off, Network::Off, "{setting:?}");
        }
        assert_eq!(session(Setting::Off).of_call(None).unwrap(), Network::Off);
        assert!(session(Setting::Off).of_call(Some(true)).is_err());
    }
}
