//! launchctl and systemctl, played in the test's own process.
// Each test program uses a part of this.
#![allow(dead_code, unreachable_pub)]

use hands_launchd::{Answer, Runner, Service, ServiceError};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// A program played in this process: a function that answers, and the list of its calls.
pub struct Played<F> {
    name: &'static str,
    calls: RefCell<Vec<String>>,
    answer: F,
}

impl<F: Fn(&str) -> (i32, String)> Runner for &Played<F> {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn run(&self, arguments: &[&str]) -> Result<Answer, ServiceError> {
        let words: Vec<&str> = arguments
            .iter()
            .filter(|word| !word.starts_with("--no-"))
            .copied()
            .collect();
        let call = words.join(" ");
        let (code, text) = (self.answer)(&call);
        self.calls.borrow_mut().push(call);
        let (stdout, stderr) = if code == 0 {
            (text, String::new())
        } else {
            (String::new(), text)
        };
        Ok(Answer {
            code: Some(code),
            signal: None,
            stdout,
            stderr,
        })
    }

    fn pause(&self, _: Duration) {
        self.calls.borrow_mut().push("pause".to_owned());
    }
}

pub fn played<F: Fn(&str) -> (i32, String)>(name: &'static str, answer: F) -> Played<F> {
    Played {
        name,
        calls: RefCell::default(),
        answer,
    }
}

impl<F> Played<F> {
    pub fn calls(&self) -> Vec<String> {
        self.calls.take()
    }
}

pub struct Place {
    pub root: TempDir,
}

impl Place {
    pub fn new() -> Place {
        Place {
            root: TempDir::new().unwrap(),
        }
    }

    pub fn folder(&self) -> PathBuf {
        self.root.path().join("services")
    }

    pub fn service(&self) -> Service {
        Service::new(
            Path::new("/opt/hands/handsd"),
            &self.root.path().join("home"),
        )
        .unwrap()
    }

    pub fn plist(&self) -> String {
        self.folder()
            .join("dev.hands.handsd.plist")
            .display()
            .to_string()
    }
}

pub const T: &str = "gui/501/dev.hands.handsd";
pub const NOT_LOADED: &str =
    "Bad request.\nCould not find service \"dev.hands.handsd\" in domain for user gui: 501";

/// As launchctl prints it, shortened.
pub const PRINTED: &str = "gui/501/dev.hands.handsd = {\n\tactive count = 1\n\tpath = /Users/x/Library/LaunchAgents/dev.hands.handsd.plist\n\
    \ttype = LaunchAgent\n\tstate = running\n\n\tprogram = /opt/hands/handsd\n\tinherited environment = {\n\t\tstate = nested\n\t\tpid = 1\n\t}\n\
    \n\truns = 3\n\tpid = 4711\n\tlast exit code = 78: EX_CONFIG\n}\n";

/// launchctl with a service that is loaded or not; after `bootout` it stays for some looks.
pub fn launchctl(loaded: bool, lingers: u32) -> Played<impl Fn(&str) -> (i32, String)> {
    let state = RefCell::new((loaded, 0));
    played("launchctl", move |call| {
        let mut state = state.borrow_mut();
        let (loaded, looks) = &mut *state;
        match call.split(' ').next().unwrap() {
            "print" if *loaded && *looks > 0 => {
                *looks -= 1;
                *loaded = *looks > 0;
                (0, PRINTED.to_owned())
            }
            "print" if *loaded => (0, PRINTED.to_owned()),
            "print" => (113, NOT_LOADED.to_owned()),
            "bootstrap" if *loaded => (5, "Bootstrap failed: 5: Input/output error".to_owned()),
            "bootstrap" => {
                *loaded = true;
                (0, String::new())
            }
            "bootout" if !*loaded => (3, "Boot-out failed: 3: No such process".to_owned()),
            "bootout" => {
                *looks = lingers;
                *loaded = lingers > 0;
                (if lingers > 0 { 36 } else { 0 }, String::new())
            }
            _ => (0, String::new()),
        }
    })
}

/// systemctl with a unit in that state.
pub fn systemctl(active: &str, load: &str) -> Played<impl Fn(&str) -> (i32, String)> {
    let shown = format!(
        "LoadState={load}\nActiveState={active}\nSubState=x\nUnitFileState=enabled\nFragmentPath=/c/handsd.service\n\
         NeedDaemonReload=yes\nMainPID=815\nNRestarts=2\nResult=watchdog\nExecMainCode=3\nExecMainStatus=6\n"
    );
    played("systemctl", move |call| match call.split(' ').nth(1) {
        Some("show") => (0, shown.clone()),
        Some("reset-failed") => (
            1,
            "Failed to reset failed state of unit handsd.service: Unit handsd.service not loaded."
                .to_owned(),
        ),
        _ => (0, String::new()),
    })
}

/// The calls without the questions.
pub fn acts(calls: Vec<String>) -> Vec<String> {
    let acts = calls
        .into_iter()
        .filter_map(|call| call.strip_prefix("--user ").map(str::to_owned));
    acts.filter(|call| !call.starts_with("show ")).collect()
}
