//! What is tried of each rule, and what must come of it.

use super::world::World;
use crate::look::GIT;
use crate::plan::Mode;
use crate::promise::Rule;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// One thing that the probe does inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Act {
    Unlink(PathBuf),
    RemoveFolder(PathBuf),
    Rename(PathBuf, PathBuf),
    Link(PathBuf, PathBuf),
    Read(PathBuf),
    Create(PathBuf),
    Connect(PathBuf),
    ConnectTcp(u16),
    CreateAndUnlink(PathBuf),
    OpenToAppend(PathBuf),
    Empty(PathBuf),
    Replace { new: PathBuf, old: PathBuf },
    Run(Vec<String>),
    FindInherited(String),
    SetUserId(PathBuf),
    Signal(u32),
    NewNamespace,
    BeTraced,
    OpenKeyring,
}

/// An act, in which mode it is done, and whether it must work.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    /// What it is, for the report.
    pub(super) what: String,
    pub(super) act: Act,
    pub(super) mode: Mode,
    pub(super) must_work: bool,
}

impl Attempt {
    /// What is wrong with the outcome, if anything is; `error` is why the act did not work.
    pub(super) fn wrong(&self, error: Option<&str>) -> Option<String> {
        match (self.must_work, error) {
            (true, Some(error)) => Some(format!("{} did not work: {error}", self.what)),
            (false, None) => Some(format!("{} worked", self.what)),
            _ => None,
        }
    }
}

/// The attempts of one rule, as they are put together.
struct List(Vec<Attempt>);

impl List {
    fn add(&mut self, mode: Mode, must_work: bool, what: &str, act: Act) {
        self.0.push(Attempt {
            what: what.into(),
            act,
            mode,
            must_work,
        });
    }

    fn fails(&mut self, what: &str, act: Act) {
        self.add(Mode::Default, false, what, act);
    }

    fn works(&mut self, what: &str, act: Act) {
        self.add(Mode::Default, true, what, act);
    }
}

impl World {
    /// What is tried of a rule. Nothing, where this machine lacks what it takes.
    pub(super) fn attempts(&self, rule: Rule) -> Vec<Attempt> {
        let mut list = List(Vec::new());
        match rule {
            Rule::NothingIsLost => self.lose(&mut list),
            Rule::WorkCleansUp => self.clean_up(&mut list),
            Rule::VersionControl if self.has_git() => self.use_git(&mut list),
            Rule::BuildFolders if self.has_git() => self.build(&mut list),
            Rule::VersionControl | Rule::BuildFolders => {}
            Rule::Modes => self.try_modes(&mut list),
            Rule::WritesAreListed => self.write_around(&mut list),
            Rule::SecretsAreHidden => self.read_secrets(&mut list),
            Rule::HandsOutOfReach => self.reach_hands(&mut list),
            Rule::NotByTheCheck => {
                // No check of words sees this one, and here nobody asks a check.
                let line = format!("eval \"r\"\"m -f '{}'\"", self.ws("unseen").display());
                let words = ["/bin/sh".into(), "-c".into(), line];
                list.fails("a disguised `rm` of an old file", Act::Run(words.into()));
            }
            Rule::Network => self.connect(&mut list),
            Rule::NoWayRound => self.go_round(&mut list),
        }
        list.0
    }

    fn lose(&self, list: &mut List) {
        let old = self.ws("old");
        list.fails("removing an old file", Act::Unlink(old.clone()));
        list.fails("removing an old folder", Act::RemoveFolder(self.ws("d")));
        let other = Act::Rename(self.ws("other"), old.clone());
        list.fails("moving an old file over another", other);
        list.fails("moving one out", Act::Rename(old, self.tmp("old")));
        if self.has_broker() {
            list.works("emptying one", Act::Empty(self.ws("emptied")));
            let replace = Act::Replace {
                new: self.ws("new-for-old"),
                old: self.ws("replaced"),
            };
            list.works("replacing one", replace);
        }
    }

    fn clean_up(&self, list: &mut List) {
        list.works(
            "removing what it made",
            Act::CreateAndUnlink(self.ws("own")),
        );
        let rename = Act::Rename(self.ws("named"), self.ws("renamed"));
        list.works("renaming to a free name", rename);
    }

    fn use_git(&self, list: &mut List) {
        let words = [GIT, "rm", "-q", "tracked"];
        let words = words.map(String::from).to_vec();
        list.works("`git rm` of a tracked file", Act::Run(words));
        list.fails(
            "moving `.git` away",
            Act::Rename(self.ws(".git"), self.ws(".gone")),
        );
        list.fails(
            "removing its configuration",
            Act::Unlink(self.ws(".git/config")),
        );
        list.fails(
            "removing its hooks",
            Act::RemoveFolder(self.ws(".git/hooks")),
        );
    }

    fn build(&self, list: &mut List) {
        let free = self.ws("target/product");
        list.works(
            "removing an old file in a folder that git ignores",
            Act::Unlink(free),
        );
        let kept = self.ws("dist/product");
        list.fails("the same where git does not", Act::Unlink(kept));
    }

    fn try_modes(&self, list: &mut List) {
        let made = self.ws("strict-made");
        let create = Act::Create(made.clone());
        list.add(Mode::Strict, true, "strict: creating a file", create);
        let unlink = Act::Unlink(made.clone());
        list.add(Mode::Strict, false, "removing it", unlink);
        let rename = Act::Rename(made, self.ws("strict-renamed"));
        list.add(Mode::Strict, false, "renaming it", rename);
        let create = Act::Create(self.ws("read-only-made"));
        list.add(Mode::ReadOnly, false, "read-only: creating a file", create);
        let empty = Act::Empty(self.ws("untouched"));
        list.add(Mode::ReadOnly, false, "emptying an old one", empty);
        let tmp = Act::CreateAndUnlink(self.tmp("scratch"));
        list.add(Mode::ReadOnly, true, "writing in the private tmp", tmp);
    }

    fn write_around(&self, list: &mut List) {
        list.works(
            "creating a file in the workspace",
            Act::Create(self.ws("new")),
        );
        list.works(
            "one in the private tmp",
            Act::CreateAndUnlink(self.tmp("x")),
        );
        list.works(
            "writing to /dev/null",
            Act::OpenToAppend("/dev/null".into()),
        );
        list.fails("creating a file outside", Act::Create(self.at("outside/x")));
        list.fails("one in /", Act::Create(self.in_root()));
        list.works(
            "reading in a closed folder",
            Act::Read(self.ws("closed/old")),
        );
        list.fails("one in a closed folder", Act::Create(self.ws("closed/x")));
        list.fails("emptying a file there", Act::Empty(self.ws("closed/old")));
        let opened = Act::Rename(self.ws("closed"), self.ws("opened"));
        list.fails("moving that folder", opened);
        if cfg!(target_os = "linux") {
            // Opened for appending and never written: opening is what must fail.
            let setting = PathBuf::from("/proc/sys/fs/lease-break-time");
            list.fails(
                "opening a setting of the kernel",
                Act::OpenToAppend(setting),
            );
        }
        for (what, name) in [
            ("planting a git hook", "hooks/post-checkout"),
            ("replacing git's configuration", "config"),
            ("making another one", "config.worktree"),
        ] {
            let replace = Act::Replace {
                new: self.ws("planted"),
                old: self.ws(".git").join(name),
            };
            list.fails(what, replace);
        }
    }

    fn read_secrets(&self, list: &mut List) {
        let key = self.ws("secret/key");
        list.works("reading an ordinary file", Act::Read(self.ws("other")));
        list.fails("reading a hidden file", Act::Read(key.clone()));
        list.fails("through a link", Act::Read(self.ws("to-the-key")));
        list.fails(
            "by a hard link of it",
            Act::Link(key.clone(), self.ws("hard")),
        );
        list.fails("opening it for writing", Act::OpenToAppend(key.clone()));
        let recovered = self.at("recovery").join(super::world::EARLIER);
        list.fails("by a recovery file", Act::Read(recovered));
        let inherited = Act::FindInherited(super::world::SECRET.into());
        list.fails("by an inherited descriptor", inherited);
        if cfg!(target_os = "linux") {
            let root = Path::new("/proc/self/root");
            let roundabout = root.join(key.strip_prefix("/").unwrap_or(&key));
            list.fails("through /proc", Act::Read(roundabout));
        }
    }

    fn reach_hands(&self, list: &mut List) {
        list.fails(
            "connecting to a hidden socket",
            Act::Connect(self.ws("run/s")),
        );
        list.fails(
            "reading the home of Hands",
            Act::Read(self.at("home/trail.key")),
        );
        if cfg!(target_os = "linux") {
            let memory = PathBuf::from("/proc/1/mem");
            list.fails("reading the memory of process 1", Act::Read(memory.clone()));
            list.fails("opening it for writing", Act::OpenToAppend(memory));
        }
        if !self.has_namespaces() {
            // In a process namespace of its own the number would be somebody else's.
            list.fails("signalling its process", Act::Signal(std::process::id()));
        }
    }

    fn connect(&self, list: &mut List) {
        let Some(port) = self.port() else {
            return;
        };
        let act = Act::ConnectTcp(port);
        let what = "connecting to 127.0.0.1 with the network off";
        list.add(Mode::ReadOnly, false, what, act.clone());
        if cfg!(target_os = "linux") {
            let what = match self.has_namespaces() {
                true => "with a loopback of its own",
                false => "the same in `strict`",
            };
            list.add(Mode::Strict, false, what, act);
        }
    }

    fn go_round(&self, list: &mut List) {
        let bit = Act::SetUserId(self.ws("new"));
        list.fails("setting a set-user-ID bit", bit);
        if cfg!(target_os = "linux") {
            list.fails("making a namespace", Act::NewNamespace);
            list.fails("being traced", Act::BeTraced);
            list.fails("opening the session's keyring", Act::OpenKeyring);
        }
    }
}
