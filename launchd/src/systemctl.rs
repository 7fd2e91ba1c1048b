//! systemd's manager of one person's services, by `systemctl --user`.

use crate::error::ServiceError;
use crate::file::{self, Presence};
use crate::limits::UNIT;
use crate::manager::{Installed, Manager, Overwrite, State, Status, said};
use crate::runner::{Answer, ProgramRunner, Runner};
use crate::service::Service;
use crate::unit;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Where `systemctl` is, on distributions of all kinds.
const PLACES: &[&str] = &[
    "/usr/bin/systemctl",
    "/bin/systemctl",
    "/run/current-system/sw/bin/systemctl",
];

const ALWAYS: &[&str] = &["--user", "--no-pager", "--no-ask-password"];

/// A [`Manager`] for systemd.
#[derive(Debug)]
pub struct Systemctl<R = ProgramRunner> {
    runner: R,
    path: PathBuf,
}

impl Systemctl<ProgramRunner> {
    /// The one of this machine, for the person whose configuration folder (`~/.config`) that is.
    ///
    /// # Errors
    /// This machine has no systemctl.
    pub fn native(config: &Path) -> Result<Systemctl, ServiceError> {
        let place = PLACES.iter().map(Path::new).find(|place| place.exists());
        let program = place.ok_or_else(|| ServiceError::NoManager {
            reason: "this machine has no systemctl".to_owned(),
        })?;
        let mut runner = ProgramRunner::new(program, &[]);
        if let Some(folder) = runtime_folder() {
            runner = runner.with_variable("XDG_RUNTIME_DIR", &folder);
        }
        Ok(Systemctl::new(runner, &config.join("systemd/user")))
    }
}

/// The person's runtime folder, where a shell that was not opened by a login (`su`, `cron`) does not know it.
fn runtime_folder() -> Option<PathBuf> {
    if std::env::var_os("XDG_RUNTIME_DIR").is_some_and(|value| !value.is_empty()) {
        return None;
    }
    let me = rustix::process::geteuid().as_raw();
    let folder = PathBuf::from(format!("/run/user/{me}"));
    let metadata = std::fs::symlink_metadata(&folder).ok()?;
    (metadata.is_dir() && metadata.uid() == me).then_some(folder)
}

impl<R: Runner> Systemctl<R> {
    /// Drives `runner`, with units in `folder` (`~/.config/systemd/user`).
    pub fn new(runner: R, folder: &Path) -> Systemctl<R> {
        Systemctl {
            runner,
            path: folder.join(UNIT),
        }
    }

    fn ask(&self, arguments: &[&str]) -> Result<Answer, ServiceError> {
        let all: Vec<&str> = ALWAYS.iter().chain(arguments).copied().collect();
        let answer = self.runner.run(&all)?;
        let text = said(&answer);
        let cut_off = [
            "Failed to connect to bus",
            "XDG_RUNTIME_DIR not defined",
            "not been booted with systemd",
        ];
        if !answer.is_success() && cut_off.iter().any(|sign| text.contains(sign)) {
            return Err(ServiceError::Unreachable {
                command: self.words(arguments),
                reason: text,
                hint: "log in as this person (not by su or sudo), or let their services run without a login by \
                       `loginctl enable-linger`; where systemd does not run at all, use `handsctl up`",
            });
        }
        Ok(answer)
    }

    fn do_it(&self, arguments: &[&str]) -> Result<(), ServiceError> {
        let answer = self.ask(arguments)?;
        if answer.is_success() {
            return Ok(());
        }
        Err(self.failure(arguments, &answer))
    }

    fn words(&self, arguments: &[&str]) -> String {
        format!("{} --user {}", self.runner.name(), arguments.join(" "))
    }

    fn failure(&self, arguments: &[&str], answer: &Answer) -> ServiceError {
        let reason = said(answer);
        let journal = "read `journalctl --user -u handsd.service` and `handsctl logs daemon`";
        let hint = if reason.contains("not found") || answer.code == Some(5) {
            "run `handsctl service install`".to_owned()
        } else if reason.contains("is masked") {
            format!("it was switched off on purpose; `systemctl --user unmask {UNIT}` undoes that")
        } else if reason.contains("bad unit file setting") || reason.contains("bad-setting") {
            format!(
                "`systemd-analyze --user verify {}` says what is wrong in it",
                self.path.display()
            )
        } else if reason.contains("Access denied") || reason.contains("Permission denied") {
            "run it as the person whose service it is, without sudo".to_owned()
        } else {
            journal.to_owned()
        };
        ServiceError::Failed {
            command: self.words(arguments),
            exit: answer.exit(),
            reason,
            hint,
        }
    }

    /// The unit's properties. A unit that is not there has them too.
    fn properties(&self) -> Result<HashMap<String, String>, ServiceError> {
        let arguments = [
            "show",
            UNIT,
            "--property=LoadState,ActiveState,SubState,UnitFileState,FragmentPath,NeedDaemonReload,MainPID,NRestarts,Result,ExecMainCode,ExecMainStatus",
        ];
        let answer = self.ask(&arguments)?;
        if !answer.is_success() {
            return Err(self.failure(&arguments, &answer));
        }
        let pairs = answer
            .stdout
            .lines()
            .filter_map(|line| line.split_once('='));
        Ok(pairs
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect())
    }

    fn require_file(&self) -> Result<(), ServiceError> {
        match file::presence(&self.path)? {
            Presence::Missing => Err(ServiceError::NotInstalled {
                path: self.path.clone(),
            }),
            Presence::Ours | Presence::Foreign => Ok(()),
        }
    }

    /// Begins the count of failed starts anew: a person who asks for a start wants one.
    fn forgive(&self) -> Result<(), ServiceError> {
        // It fails when the unit is not loaded, that is, when there is nothing to forgive.
        self.ask(&["reset-failed", UNIT]).map(|_| ())
    }
}

impl<R: Runner> Manager for Systemctl<R> {
    fn path(&self) -> &Path {
        &self.path
    }

    fn print(&self, service: &Service) -> Result<String, ServiceError> {
        unit::definition(service)
    }

    fn install(&self, service: &Service, overwrite: Overwrite) -> Result<Installed, ServiceError> {
        let text = self.print(service)?;
        // First of all: where no manager answers, nothing is written.
        self.properties()?;
        let changed = file::write(&self.path, &text, overwrite)?;
        self.do_it(&["daemon-reload"])?;
        self.do_it(&["enable", UNIT])?;
        self.forgive()?;
        self.do_it(&[if changed { "restart" } else { "start" }, UNIT])?;
        Ok(Installed {
            path: self.path.clone(),
            changed,
            notes: vec![
                "It runs while you are logged in; `loginctl enable-linger` keeps it running without.".to_owned(),
            ],
        })
    }

    fn uninstall(&self, overwrite: Overwrite) -> Result<bool, ServiceError> {
        let presence = file::presence(&self.path)?;
        if presence == Presence::Foreign && overwrite == Overwrite::OwnOnly {
            return Err(ServiceError::Foreign {
                path: self.path.clone(),
            });
        }
        if presence == Presence::Missing {
            self.stop()?;
            return Ok(false);
        }
        self.do_it(&["disable", "--now", UNIT])?;
        let removed = file::remove(&self.path, overwrite)?;
        self.do_it(&["daemon-reload"])?;
        self.forgive()?;
        Ok(removed)
    }

    fn start(&self) -> Result<(), ServiceError> {
        self.require_file()?;
        self.forgive()?;
        self.do_it(&["start", UNIT])
    }

    fn stop(&self) -> Result<(), ServiceError> {
        // Not "is it loaded": a unit whose file was removed may still run.
        let properties = self.properties()?;
        if properties
            .get("ActiveState")
            .is_some_and(|state| state == "inactive")
        {
            return Ok(());
        }
        self.do_it(&["stop", UNIT])
    }

    fn restart(&self) -> Result<(), ServiceError> {
        self.require_file()?;
        self.do_it(&["daemon-reload"])?;
        self.forgive()?;
        self.do_it(&["restart", UNIT])
    }

    fn status(&self) -> Result<Status, ServiceError> {
        let file = file::presence(&self.path)?;
        let properties = self.properties()?;
        let get = |name: &str| properties.get(name).map_or("", String::as_str);
        let number = |name: &str| get(name).parse::<u64>().ok();
        let pid = number("MainPID").and_then(|pid| u32::try_from(pid).ok());
        Ok(Status {
            path: self.path.clone(),
            file,
            loaded: get("LoadState") == "loaded",
            loaded_from: Some(get("FragmentPath"))
                .filter(|path| !path.is_empty())
                .map(PathBuf::from),
            needs_reload: get("NeedDaemonReload") == "yes",
            at_login: match get("UnitFileState") {
                "" => None,
                state => Some(state.starts_with("enabled")),
            },
            state: state(get("ActiveState"), get("SubState")),
            pid: pid.filter(|pid| *pid != 0),
            last_exit: last_exit(get("Result"), get("ExecMainCode"), get("ExecMainStatus")),
            starts: number("NRestarts"),
        })
    }
}

fn state(active: &str, sub: &str) -> State {
    match active {
        "active" | "reloading" => State::Running,
        "activating" => State::Starting,
        "deactivating" => State::Stopping,
        "inactive" => State::Stopped,
        "failed" => State::Failed,
        other => State::Other(format!("{other} ({sub})")),
    }
}

/// `code` is the kernel's: 1 exited, 2 killed, 3 dumped; 0 while it never ended.
fn last_exit(result: &str, code: &str, status: &str) -> Option<String> {
    let ended = match code {
        "1" => format!("exit status {status}"),
        "2" | "3" => format!("signal {status}"),
        _ => return None,
    };
    let plain = matches!(
        result,
        "success" | "exit-code" | "signal" | "core-dump" | ""
    );
    Some(if plain {
        ended
    } else {
        format!("{ended} ({result})")
    })
}
