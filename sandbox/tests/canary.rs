//! The self-test tells a promise that is kept from one that is not: it is run in sandboxes that lack
//! a layer, and in none at all.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use hands_sandbox::canary::{Report, State, Trial};
use hands_sandbox::linux::Bubblewrap;
use hands_sandbox::linux::reduced::Landlocked;
use hands_sandbox::promise::{Keeping, Rule};
use hands_sandbox::{Backend, Launch, Mode, Network, Plan, Unavailable, Walls};
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Names in the scratch folder are made of the process's number, so one at a time.
static ONE: Mutex<()> = Mutex::new(());

/// The platform's sandbox, asked for less than the plan says.
struct Without(fn(&mut Plan));

impl Backend for Without {
    fn name(&self) -> &'static str {
        "a sandbox that lacks a layer"
    }

    fn keeps(&self, rule: Rule, guarded: bool) -> Keeping {
        hands_sandbox::linux::keeps(rule, guarded)
    }

    fn launch(&self, plan: &Plan, socket: RawFd) -> Result<Launch, Unavailable> {
        let mut plan = plan.clone();
        (self.0)(&mut plan);
        let whole = Bubblewrap::find().run_by(common::program());
        whole.launch(&plan, socket)
    }
}

/// No sandbox at all, said to keep everything.
struct Nothing;

impl Backend for Nothing {
    fn name(&self) -> &'static str {
        "nothing"
    }

    fn keeps(&self, _: Rule, _: bool) -> Keeping {
        Keeping::Whole { by: "a claim" }
    }

    fn launch(&self, plan: &Plan, _: RawFd) -> Result<Launch, Unavailable> {
        let (program, args) = plan.argv.split_first().unwrap();
        let mut words = vec!["-C".into(), plan.cwd.clone().into(), program.into()];
        words.extend(args.iter().map(Into::into));
        Ok(Launch {
            program: "/usr/bin/env".into(),
            args: words,
            env: plan.env.clone(),
            inner: None,
        })
    }
}

fn trial(backend: &dyn Backend, program: PathBuf, guarded: bool) -> Report {
    trial_in(backend, program, guarded, Walls::Whole)
}

fn trial_in(backend: &dyn Backend, program: PathBuf, guarded: bool, walls: Walls) -> Report {
    let _alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = tempfile::Builder::new()
        .prefix("hands-test-")
        .tempdir_in("/var/tmp")
        .unwrap();
    let report = Trial {
        backend,
        program,
        scratch: scratch.path(),
        guarded,
        walls,
    }
    .run();
    let left = std::fs::read_dir(scratch.path()).unwrap().count();
    assert_eq!(left, 0, "the self-test leaves nothing behind");
    report
}

fn without(change: fn(&mut Plan), guarded: bool) -> Report {
    trial(&Without(change), "/dev/.hands-runner".into(), guarded)
}

fn broken(report: &Report) -> Vec<&str> {
    let broken = report.promises.iter().filter(|(_, held)| !**held);
    broken.map(|(name, _)| name.as_str()).collect()
}

fn seen(report: &Report, rule: Rule) -> &str {
    let finding = report.findings.iter().find(|f| f.rule == rule.name());
    &finding.unwrap().seen
}

#[test]
fn every_rule_has_a_finding_and_holds_in_the_whole_sandbox() {
    for guarded in [true, false] {
        let whole = Bubblewrap::find().run_by(common::program());
        let report = trial(&whole, "/dev/.hands-runner".into(), guarded);
        assert_eq!(report.state, State::Full, "{report:#?}");
        let rules: Vec<&str> = report.findings.iter().map(|f| f.rule.as_str()).collect();
        assert_eq!(rules, Rule::all().map(Rule::name).collect::<Vec<_>>());
        for (rule, finding) in Rule::all().zip(&report.findings) {
            let promised = hands_sandbox::linux::keeps(rule, guarded).is_promised();
            assert_eq!(finding.held, promised.then_some(true), "{finding:?}");
        }
    }
}

#[test]
fn what_is_promised_without_namespaces_holds() {
    let alone = Landlocked::here().run_by(common::program());
    let report = trial_in(&alone, common::program(), true, Walls::Reduced);
    assert_eq!(report.state, State::Full, "{report:#?}");
    for finding in &report.findings {
        assert_eq!(finding.held, Some(true), "{finding:?}");
    }
    let refused = trial_in(&alone, common::program(), false, Walls::Reduced);
    assert_eq!(refused.state, State::None, "{refused:#?}");
    assert!(refused.reason.unwrap().contains("the removal broker"));
}

/// What is taken from the plan, whether it has a guard, and what is then broken.
type Case = (fn(&mut Plan), bool, &'static [Rule]);

#[test]
fn a_layer_that_is_missing_breaks_its_promises_and_no_other() {
    // With a guard the runner's broker keeps to the whole plan, whatever the walls are told.
    let cases: [Case; 6] = [
        (
            |plan| plan.guard = None,
            true,
            &[
                Rule::NothingIsLost,
                Rule::WorkCleansUp,
                Rule::VersionControl,
                Rule::BuildFolders,
            ],
        ),
        (
            |plan| plan.masks.clear(),
            true,
            &[Rule::SecretsAreHidden, Rule::HandsOutOfReach],
        ),
        (|plan| plan.closed.clear(), true, &[Rule::WritesAreListed]),
        (
            |plan| plan.extra_write.push(plan.cwd.with_file_name("outside")),
            false,
            &[Rule::WritesAreListed],
        ),
        (|plan| plan.mode = Mode::Default, false, &[Rule::Modes]),
        (|plan| plan.network = Network::On, true, &[Rule::Network]),
    ];
    for (change, guarded, expected) in cases {
        let report = without(change, guarded);
        assert_eq!(report.state, State::None, "{report:#?}");
        let mut expected: Vec<&str> = expected.iter().map(|rule| rule.name()).collect();
        expected.sort_unstable();
        assert_eq!(broken(&report), expected, "{report:#?}");
        for name in expected {
            assert!(report.reason.as_ref().unwrap().contains(name), "{report:?}");
        }
    }
}

/// Each rule's attempts succeed where nothing stops them, so that a refusal says something.
#[test]
fn without_a_sandbox_every_promise_is_seen_to_be_broken() {
    let report = trial(&Nothing, common::program(), true);
    for rule in Rule::all().filter(|rule| *rule != Rule::WorkCleansUp) {
        assert_eq!(
            report.promises.get(rule.name()),
            Some(&false),
            "{report:#?}"
        );
    }
    for (rule, complaint) in [
        (Rule::NothingIsLost, "removing an old file worked"),
        (Rule::NothingIsLost, "the old file is not as it was"),
        (Rule::NothingIsLost, "no copy of what was emptied"),
        (Rule::VersionControl, "the repository is gone"),
        (Rule::BuildFolders, "what git does not ignore is gone"),
        (Rule::Modes, "a file is gone in `strict`"),
        (Rule::Modes, "a file was made in `read-only`"),
        (Rule::WritesAreListed, "there is a new file outside"),
        (Rule::WritesAreListed, "the closed folder is not as it was"),
        (Rule::SecretsAreHidden, "reading a hidden file worked"),
        (Rule::SecretsAreHidden, "through a link worked"),
        (Rule::SecretsAreHidden, "by an inherited descriptor worked"),
        (Rule::SecretsAreHidden, "by a recovery file worked"),
        (Rule::SecretsAreHidden, "through /proc worked"),
        (Rule::SecretsAreHidden, "the secret has a second name"),
        (
            Rule::HandsOutOfReach,
            "connecting to a hidden socket worked",
        ),
        (Rule::NotByTheCheck, "the old file is gone"),
        (Rule::Network, "somebody connected"),
        (Rule::NoWayRound, "there is a set-user-ID file"),
    ] {
        assert!(
            seen(&report, rule).contains(complaint),
            "{complaint}: {report:#?}"
        );
    }
}
