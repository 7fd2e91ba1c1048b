//! Trying to break each rule of the promise, so that what is reported is what was seen.
//!
//! [`Trial::run`] makes a small world (old files, a repository, a secret, a socket, a folder
//! outside), runs this same binary in the sandbox to attack it ([`probe`]), once in each mode, and
//! then looks at the disk itself. What the probe says of itself is believed only where the disk
//! cannot tell.

mod attempts;
mod probe;
mod world;

pub use probe::probe;

use crate::backend::{Backend, platform_backend};
use crate::plan::{Mode, Walls};
use crate::promise::{Keeping, Rule};
use crate::runner;
use attempts::Attempt;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use world::World;

/// How much of the sandbox works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Every promise held.
    Full,
    /// No namespaces can be had here. Every promise that is made without them held.
    Reduced,
    /// There is no sandbox, or one that did not hold: commands are refused.
    None,
}

/// What stands in the way of a whole sandbox. Names no path: it may be told to everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// bubblewrap is not installed.
    BubblewrapMissing,
    /// A setting of the kernel forbids user namespaces.
    NamespacesOff,
    /// AppArmor allows them to programs with a rule only.
    AppArmor,
    /// A container system forbids them.
    Container,
    /// They are refused, and no setting says why.
    NamespacesRefused,
    /// The kernel is too old, or did not start Landlock.
    Kernel,
    /// The configuration says so.
    Setting,
    /// Something else.
    Other,
}

impl Cause {
    /// The cause of a refusal with this reason, on this machine as it is now.
    #[cfg(target_os = "linux")]
    fn of(reason: &str) -> Self {
        crate::linux::obstacle::cause(reason)
    }

    #[cfg(not(target_os = "linux"))]
    fn of(_: &str) -> Self {
        Self::Other
    }

    /// Whether nothing but namespaces is missing.
    fn leaves_reduced(self) -> bool {
        match self {
            Self::BubblewrapMissing
            | Self::NamespacesOff
            | Self::AppArmor
            | Self::Container
            | Self::NamespacesRefused => true,
            Self::Kernel | Self::Setting | Self::Other => false,
        }
    }
}

/// What the canary found; one JSON line of `hands-runner canary`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// The sandbox that was tried.
    pub backend: String,
    /// How much of it works.
    pub state: State,
    /// What stands in its way, where the state is not `full`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// Each rule that was tried, by its name, and whether it held.
    pub promises: BTreeMap<String, bool>,
    /// What was tried of each rule and what was seen, in the order of the promise.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// Why the state is not `full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// What came of one rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The rule's number in the documents.
    pub number: usize,
    /// The rule's name for programs.
    pub rule: String,
    /// The rule in a few words.
    pub title: String,
    /// Whether it held; absent: it is not promised here, or could not be tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<bool>,
    /// What was tried.
    pub tried: String,
    /// What was seen; or why nothing was tried.
    pub seen: String,
}

/// What the probe says of one attempt: `None` when it worked, or the error.
type Said = Option<String>;

/// A trial of one sandbox.
pub struct Trial<'a> {
    /// The sandbox.
    pub backend: &'a dyn Backend,
    /// `hands-runner`, by its name inside.
    pub program: PathBuf,
    /// A folder in which one is made, and taken away afterwards.
    pub scratch: &'a Path,
    /// Whether the plan has a guard.
    pub guarded: bool,
    /// What the plan is to be held by.
    pub walls: Walls,
}

/// Which sandbox is tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Choice {
    /// The whole one, and what is left of it where no namespaces can be had.
    #[default]
    Auto,
    /// The whole one alone.
    Whole,
    /// What works without namespaces, alone.
    Reduced,
}

impl std::str::FromStr for Choice {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        match word {
            "auto" => Ok(Self::Auto),
            "whole" => Ok(Self::Whole),
            "reduced" => Ok(Self::Reduced),
            _ => Err(()),
        }
    }
}

/// `hands-runner canary`: prints the report; exit status 0 when commands run.
pub fn main(scratch: Option<&Path>, broker: bool, choice: Choice) -> i32 {
    let default = std::env::temp_dir();
    let report = check(scratch.unwrap_or(&default), broker, choice);
    let line = serde_json::to_string(&report).unwrap_or_default();
    let printed = writeln!(std::io::stdout(), "{line}").is_ok();
    i32::from(!printed || !report.lets_run())
}

/// Tries a sandbox of this platform in a folder made below `scratch`: with a guard, where that is
/// wanted.
pub fn check(scratch: &Path, broker: bool, choice: Choice) -> Report {
    if cfg!(target_os = "linux") && choice == Choice::Reduced {
        return reduced(scratch, broker).in_place_of(Report::not_wanted());
    }
    let whole = Trial {
        backend: platform_backend().as_ref(),
        program: match cfg!(target_os = "linux") {
            true => "/dev/.hands-runner".into(),
            false => std::env::current_exe().unwrap_or_default(),
        },
        scratch,
        guarded: broker,
        walls: Walls::Whole,
    }
    .run();
    match choice == Choice::Auto && whole.cause.is_some_and(Cause::leaves_reduced) {
        true => reduced(scratch, broker).in_place_of(whole),
        false => whole,
    }
}

/// Tries what works without namespaces. On other systems than Linux there is nothing of the kind, and
/// nobody comes here.
fn reduced(scratch: &Path, guarded: bool) -> Report {
    let plan_backend = reduced_backend();
    Trial {
        backend: plan_backend.as_ref(),
        program: std::env::current_exe().unwrap_or_default(),
        scratch,
        guarded,
        walls: Walls::Reduced,
    }
    .run()
}

#[cfg(target_os = "linux")]
fn reduced_backend() -> Box<dyn Backend> {
    Box::new(crate::linux::reduced::Landlocked::here())
}

#[cfg(not(target_os = "linux"))]
fn reduced_backend() -> Box<dyn Backend> {
    platform_backend()
}

impl Report {
    /// Whether commands run.
    pub fn lets_run(&self) -> bool {
        self.state != State::None
    }

    /// What holds them then.
    pub fn walls(&self) -> Walls {
        match self.state {
            State::Reduced => Walls::Reduced,
            State::Full | State::None => Walls::Whole,
        }
    }

    /// The whole sandbox where it is not to be used.
    fn not_wanted() -> Self {
        Self {
            backend: String::new(),
            state: State::None,
            cause: Some(Cause::Setting),
            promises: BTreeMap::new(),
            findings: Vec::new(),
            reason: Some("`sandbox.walls` is `reduced`".into()),
            hint: Some("set `sandbox.walls` to `auto`".into()),
        }
    }

    /// What is reported where this is what is left of a sandbox that cannot be had.
    fn in_place_of(self, whole: Self) -> Self {
        if self.state != State::Full {
            let why = self.reason.unwrap_or_default();
            let reason = whole.reason.unwrap_or_default();
            return Self {
                reason: Some(format!(
                    "{reason}; nor can one be had without namespaces: {why}"
                )),
                ..whole
            };
        }
        Self {
            state: State::Reduced,
            cause: whole.cause,
            reason: whole.reason,
            hint: whole.hint,
            ..self
        }
    }
}

impl Trial<'_> {
    /// Tries it. What it leaves behind is nothing.
    pub fn run(&self) -> Report {
        match self.findings() {
            Ok(findings) => self.summarise(findings),
            Err((reason, hint)) => Report {
                backend: self.backend.name().into(),
                state: State::None,
                cause: Some(Cause::of(&reason)),
                promises: BTreeMap::new(),
                findings: Vec::new(),
                reason: Some(reason),
                hint: Some(hint),
            },
        }
    }

    fn findings(&self) -> Result<Vec<Finding>, (String, String)> {
        let world = World::make(self.scratch, self.guarded, self.walls).map_err(|e| {
            let what = format!("making a test folder below {}: {e}", self.scratch.display());
            (what, "check the folder's permissions and free space".into())
        })?;
        let tried: Vec<(Rule, Attempt)> = Rule::all()
            .filter(|rule| self.keeps(*rule).is_promised())
            .flat_map(|rule| world.attempts(rule).into_iter().map(move |a| (rule, a)))
            .collect();
        let mut said: Vec<Said> = vec![Some("not reached".into()); tried.len()];
        for mode in [Mode::Default, Mode::Strict, Mode::ReadOnly] {
            let (numbers, attempts): (Vec<usize>, Vec<Attempt>) = tried
                .iter()
                .enumerate()
                .filter(|(_, (_, attempt))| attempt.mode == mode)
                .map(|(number, (_, attempt))| (number, attempt.clone()))
                .unzip();
            for (number, outcome) in numbers
                .into_iter()
                .zip(self.probe(&world, mode, &attempts)?)
            {
                said[number] = outcome;
            }
        }
        let outcomes: Vec<(Rule, Attempt, Said)> = tried
            .into_iter()
            .zip(said)
            .map(|((rule, attempt), said)| (rule, attempt, said))
            .collect();
        Ok(Rule::all()
            .map(|rule| self.finding(&world, rule, &outcomes))
            .collect())
    }

    fn keeps(&self, rule: Rule) -> Keeping {
        self.backend.keeps(rule, self.guarded)
    }

    /// Runs the probe in one mode.
    fn probe(
        &self,
        world: &World,
        mode: Mode,
        attempts: &[Attempt],
    ) -> Result<Vec<Said>, (String, String)> {
        let by_hand = || "run `hands-runner canary` by hand".to_string();
        let acts: Vec<_> = attempts.iter().map(|attempt| &attempt.act).collect();
        let acts = serde_json::to_string(&acts)
            .map_err(|e| (format!("writing the attempts down: {e}"), by_hand()))?;
        let request = world.request(mode, &self.program, acts);
        let done = runner::run_here(self.backend, request)?;
        let said = probe::answers(&done).map_err(|reason| (reason, by_hand()))?;
        match said.len() == attempts.len() {
            true => Ok(said),
            false => Err(("the probe did not make every attempt".into(), by_hand())),
        }
    }

    fn finding(&self, world: &World, rule: Rule, all: &[(Rule, Attempt, Said)]) -> Finding {
        let finding = |held, tried: String, seen: String| Finding {
            number: rule.number(),
            rule: rule.name().into(),
            title: rule.title().into(),
            held,
            tried,
            seen,
        };
        if let Keeping::NotHere { because } = self.keeps(rule) {
            return finding(
                None,
                "nothing".into(),
                format!("not promised here: {because}"),
            );
        }
        let own = || all.iter().filter(|(of, ..)| *of == rule);
        if own().next().is_none() {
            return finding(None, "nothing".into(), world.why_not_tried(rule));
        }
        let mut wrong: Vec<String> = own()
            .filter_map(|(_, attempt, said)| attempt.wrong(said.as_deref()))
            .collect();
        wrong.extend(world.wrong_on_disk(rule));
        let whats: Vec<&str> = own().map(|(_, attempt, _)| attempt.what.as_str()).collect();
        let refused = own().filter(|(.., said)| said.is_some()).count();
        let seen = match wrong.is_empty() {
            true => format!(
                "{refused} refused, {} done, and the disk agrees",
                whats.len() - refused
            ),
            false => format!("NOT HELD: {}", wrong.join("; ")),
        };
        finding(Some(wrong.is_empty()), whats.join(", "), seen)
    }

    fn summarise(&self, findings: Vec<Finding>) -> Report {
        let promises: BTreeMap<String, bool> = findings
            .iter()
            .filter_map(|finding| Some((finding.rule.clone(), finding.held?)))
            .collect();
        let broken: Vec<Rule> = Rule::all()
            .filter(|rule| promises.get(rule.name()) == Some(&false))
            .collect();
        let names: Vec<&str> = broken.iter().map(|rule| rule.name()).collect();
        let (state, reason, hint) = match broken.is_empty() {
            true => (State::Full, None, None),
            false => (
                State::None,
                Some(format!("not held on this machine: {}", names.join(", "))),
                Some(hint_for(&broken).to_string()),
            ),
        };
        Report {
            backend: self.backend.name().into(),
            state,
            cause: (state != State::Full).then_some(Cause::Kernel),
            promises,
            findings,
            reason,
            hint,
        }
    }
}

/// What mends these rules.
fn hint_for(broken: &[Rule]) -> &'static str {
    let brokered = [
        Rule::NothingIsLost,
        Rule::WorkCleansUp,
        Rule::VersionControl,
        Rule::BuildFolders,
    ];
    if cfg!(target_os = "linux") && broken.iter().all(|rule| brokered.contains(rule)) {
        return "a newer kernel (Linux 6.2 or later), or `sandbox.broker = false`: then commands \
                remove and rename nothing in a workspace";
    }
    "a newer kernel with Landlock enabled; see `handsctl doctor`"
}

/// Standard input that stays open and silent, for a request that is run in this same process.
pub(crate) fn silent_input() -> std::io::Result<(BufReader<UnixStream>, UnixStream)> {
    let (read, write) = UnixStream::pair()?;
    Ok((BufReader::new(read), write))
}
