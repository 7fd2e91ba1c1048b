//! launchd's manager of one person's agents, by `launchctl`.

use crate::agent;
use crate::error::ServiceError;
use crate::file::{self, Presence};
use crate::limits::{GONE_TIMEOUT, LABEL, LOOK_INTERVAL};
use crate::manager::{Installed, Manager, Overwrite, State, Status, said};
use crate::runner::{Answer, ProgramRunner, Runner};
use crate::service::Service;
use std::path::{Path, PathBuf};

const PROGRAM: &str = "/bin/launchctl";

/// Exit statuses of launchctl: errno values, and launchd's own above 100. `launchctl error N` explains one.
mod exit {
    pub(super) const NO_SUCH_PROCESS: i32 = 3;
    pub(super) const INPUT_OUTPUT: i32 = 5;
    pub(super) const IN_PROGRESS: i32 = 36;
    pub(super) const ALREADY: i32 = 37;
    pub(super) const NO_DOMAIN: i32 = 112;
    pub(super) const NO_SERVICE: i32 = 113;
    pub(super) const DISABLED: i32 = 119;
    pub(super) const BAD_OWNERSHIP: i32 = 122;
    pub(super) const NO_ACTION: i32 = 125;
}

/// A [`Manager`] for launchd.
#[derive(Debug)]
pub struct Launchctl<R = ProgramRunner> {
    runner: R,
    path: PathBuf,
    domain: String,
    target: String,
}

impl Launchctl<ProgramRunner> {
    /// The one of this machine, for the person whose home folder that is.
    pub fn native(home: &Path) -> Launchctl {
        let runner = ProgramRunner::new(Path::new(PROGRAM), &[]);
        let uid = rustix::process::getuid().as_raw();
        Launchctl::new(runner, &home.join("Library/LaunchAgents"), uid)
    }
}

impl<R: Runner> Launchctl<R> {
    /// Drives `runner`, with agents in `folder` (`~/Library/LaunchAgents`), for the person with that user id.
    pub fn new(runner: R, folder: &Path, uid: u32) -> Launchctl<R> {
        Launchctl {
            runner,
            path: folder.join(format!("{LABEL}.plist")),
            domain: format!("gui/{uid}"),
            target: format!("gui/{uid}/{LABEL}"),
        }
    }

    fn ask(&self, arguments: &[&str]) -> Result<Answer, ServiceError> {
        let answer = self.runner.run(arguments)?;
        let no_domain = matches!(answer.code, Some(exit::NO_DOMAIN | exit::NO_ACTION))
            || (!answer.is_success() && said(&answer).contains("Could not find domain"));
        if no_domain {
            return Err(ServiceError::Unreachable {
                command: self.words(arguments),
                reason: said(&answer),
                hint: "an agent needs its person logged in at the screen (a login by ssh alone has no such session): \
                       log in there, or use `handsctl up`",
            });
        }
        Ok(answer)
    }

    /// Runs it; the exit statuses in `fine` count as success too.
    fn do_it(&self, arguments: &[&str], fine: &[i32]) -> Result<(), ServiceError> {
        let answer = self.ask(arguments)?;
        if answer.is_success() || answer.code.is_some_and(|code| fine.contains(&code)) {
            return Ok(());
        }
        Err(self.failure(arguments, &answer))
    }

    fn words(&self, arguments: &[&str]) -> String {
        format!("{} {}", self.runner.name(), arguments.join(" "))
    }

    fn failure(&self, arguments: &[&str], answer: &Answer) -> ServiceError {
        let path = self.path.display();
        let hint = match answer.code {
            Some(exit::INPUT_OUTPUT) => format!(
                "this mostly means that the definition is not accepted: `plutil -lint {path}`; \
                 or that the service is just ending: try again"
            ),
            Some(exit::NO_SERVICE | exit::NO_SUCH_PROCESS) => {
                "it is not loaded: run `handsctl service start`".to_owned()
            }
            Some(exit::IN_PROGRESS | exit::ALREADY) => {
                "an earlier start or stop is not done yet: try again in a moment".to_owned()
            }
            Some(exit::DISABLED) => {
                format!("it was switched off: `launchctl enable {}`", self.target)
            }
            Some(exit::BAD_OWNERSHIP) => format!(
                "{path} and its folder must belong to you, and others may not write them (`ls -le`)"
            ),
            Some(code) => format!(
                "`launchctl error {code}` explains the status; the daemon's first words are in logs/launchd.err.log of its home"
            ),
            None => "try again".to_owned(),
        };
        ServiceError::Failed {
            command: self.words(arguments),
            exit: answer.exit(),
            reason: said(answer),
            hint,
        }
    }

    /// What launchd prints of the loaded service; none if it is not loaded.
    fn loaded(&self) -> Result<Option<String>, ServiceError> {
        let arguments = ["print", self.target.as_str()];
        let answer = self.ask(&arguments)?;
        match answer.code {
            Some(0) => Ok(Some(answer.stdout)),
            Some(exit::NO_SERVICE | exit::NO_SUCH_PROCESS) => Ok(None),
            _ if said(&answer).contains("Could not find service") => Ok(None),
            _ => Err(self.failure(&arguments, &answer)),
        }
    }

    fn load(&self) -> Result<(), ServiceError> {
        // A service that was once disabled is not bootstrapped until it is enabled again.
        self.do_it(&["enable", &self.target], &[])?;
        let path = self.path.to_string_lossy();
        self.do_it(&["bootstrap", &self.domain, &path], &[exit::ALREADY])
    }

    /// Ends and unloads it, and waits until launchd has let go of it: a `bootstrap` before that fails.
    fn unload(&self) -> Result<(), ServiceError> {
        let arguments = ["bootout", self.target.as_str()];
        let fine = [exit::IN_PROGRESS, exit::NO_SERVICE, exit::NO_SUCH_PROCESS];
        self.do_it(&arguments, &fine)?;
        let looks = GONE_TIMEOUT.as_millis() / LOOK_INTERVAL.as_millis();
        for _ in 0..looks {
            if self.loaded()?.is_none() {
                return Ok(());
            }
            self.runner.pause(LOOK_INTERVAL);
        }
        Err(ServiceError::Timeout {
            command: self.words(&arguments),
            seconds: GONE_TIMEOUT.as_secs(),
        })
    }

    fn require_file(&self) -> Result<(), ServiceError> {
        match file::presence(&self.path)? {
            Presence::Missing => Err(ServiceError::NotInstalled {
                path: self.path.clone(),
            }),
            Presence::Ours | Presence::Foreign => Ok(()),
        }
    }

    /// Whether it starts at login; none if launchd does not say.
    fn at_login(&self) -> Option<bool> {
        let answer = self.ask(&["print-disabled", &self.domain]).ok()?;
        if !answer.is_success() {
            return None;
        }
        let name = format!("\"{LABEL}\"");
        let line = answer.stdout.lines().find(|line| line.contains(&name));
        // `=> disabled`, on older systems `=> true`; a service that was never disabled is not listed.
        Some(!line.is_some_and(|line| line.ends_with("disabled") || line.ends_with("true")))
    }
}

impl<R: Runner> Manager for Launchctl<R> {
    fn path(&self) -> &Path {
        &self.path
    }

    fn print(&self, service: &Service) -> Result<String, ServiceError> {
        agent::definition(service)
    }

    fn install(&self, service: &Service, overwrite: Overwrite) -> Result<Installed, ServiceError> {
        let text = self.print(service)?;
        // First of all: where no manager answers, nothing is written.
        let loaded = self.loaded()?.is_some();
        // launchd makes the log files, not their folder.
        file::make_folder(&service.logs())?;
        let changed = file::write(&self.path, &text, overwrite)?;
        if loaded && changed {
            self.unload()?;
        }
        if loaded && !changed {
            self.do_it(&["kickstart", &self.target], &[exit::ALREADY])?;
        } else {
            self.load()?;
        }
        Ok(Installed {
            path: self.path.clone(),
            changed,
            notes: Vec::new(),
        })
    }

    fn uninstall(&self, overwrite: Overwrite) -> Result<bool, ServiceError> {
        let presence = file::presence(&self.path)?;
        if presence == Presence::Foreign && overwrite == Overwrite::OwnOnly {
            return Err(ServiceError::Foreign {
                path: self.path.clone(),
            });
        }
        if self.loaded()?.is_some() {
            self.unload()?;
        }
        file::remove(&self.path, overwrite)
    }

    fn start(&self) -> Result<(), ServiceError> {
        self.require_file()?;
        match self.loaded()? {
            None => self.load(),
            // It answers "already in progress" for one that runs.
            Some(_) => self.do_it(&["kickstart", &self.target], &[exit::ALREADY]),
        }
    }

    fn stop(&self) -> Result<(), ServiceError> {
        match self.loaded()? {
            None => Ok(()),
            Some(_) => self.unload(),
        }
    }

    fn restart(&self) -> Result<(), ServiceError> {
        self.require_file()?;
        // Not `kickstart -k`, which neither stops in order nor reads the definition again.
        self.stop()?;
        self.load()
    }

    fn status(&self) -> Result<Status, ServiceError> {
        let file = file::presence(&self.path)?;
        let printed = self.loaded()?;
        let text = printed.as_deref().unwrap_or_default();
        let last_exit = field(text, "last exit code").filter(|code| !code.contains("never"));
        let loaded_from = field(text, "path").map(PathBuf::from);
        Ok(Status {
            path: self.path.clone(),
            file,
            loaded: printed.is_some(),
            loaded_from,
            needs_reload: false,
            at_login: match file {
                Presence::Missing => Some(false),
                Presence::Ours | Presence::Foreign => self.at_login(),
            },
            state: state(field(text, "state"), last_exit),
            pid: field(text, "pid").and_then(|pid| pid.parse().ok()),
            last_exit: last_exit.map(|code| format!("exit status {code}")),
            starts: field(text, "runs").and_then(|runs| runs.parse().ok()),
        })
    }
}

/// A line `name = value` of the service itself, not of what is nested in it (indented further).
fn field<'a>(printed: &'a str, name: &str) -> Option<&'a str> {
    printed.lines().find_map(|line| {
        let line = line.strip_prefix('\t')?;
        let (found, value) = line.split_once(" = ")?;
        (found == name).then_some(value.trim())
    })
}

fn state(printed: Option<&str>, last_exit: Option<&str>) -> State {
    match printed {
        None => State::Stopped,
        Some("running") => State::Running,
        Some("spawn scheduled" | "spawning" | "xpcproxy") => State::Starting,
        Some("spawn failed") => State::Failed,
        Some("not running" | "exited" | "waiting") => match last_exit {
            None | Some("0") => State::Stopped,
            Some(_) => State::Failed,
        },
        Some(other) => State::Other(other.to_owned()),
    }
}
