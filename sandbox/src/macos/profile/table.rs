//! The promise as a table: target × operation × mode, each row under the rule that it belongs to.
//! Each question is asked of the newest system and of the oldest, under both orders of rules
//! ([`Policy::allows`]), and of a kernel that compares names with regard to case and of one without.

use super::super::evaluate::{Policy, Target};
use super::super::keeps;
use super::tests::{READS, REMOVAL, WRITES};
use super::*;
use crate::promise::Rule;
use std::collections::BTreeSet;

const W: &str = "/Users/u/proj";
const HOME: &str = "/Users/u/.hands";
const TMP: &str = "/Users/u/.hands/work/scratch/s/tmp";
/// A workspace whose name would end a rule if it stood in the text.
const ODD: &str = "/Users/u/a \"b\") (allow default) ; \\ \n #\"^ü";

/// Which plan a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    /// Two workspaces, a build folder, secrets, sealed files; the network on.
    Usual,
    /// The same with the network off.
    Offline,
}
use Which::{Offline, Usual};

struct Row {
    rule: Rule,
    which: Which,
    /// What is allowed in `default`, `strict` and `read-only`: `y` or `n` each.
    allowed: &'static str,
    operations: &'static [&'static str],
    targets: &'static [Target<'static>],
}

const fn row(
    rule: Rule,
    which: Which,
    allowed: &'static str,
    operations: &'static [&'static str],
    targets: &'static [Target<'static>],
) -> Row {
    Row {
        rule,
        which,
        allowed,
        operations,
        targets,
    }
}

const CHANGE: &[&str] = &[
    "file-write-create",
    "file-write-data",
    "file-write-unlink",
    "file-link",
];
const ANY: &[&str] = &[
    "file-read-data",
    "file-read-metadata",
    "file-write-create",
    "file-write-data",
    "file-write-unlink",
    "file-link",
];
const SECOND_NAME: &[&str] = &["file-link", "file-clone"];
const CONNECT: &[&str] = &["network-outbound"];
const SOCKETS: &[&str] = &["network-outbound", "network-inbound", "network-bind"];

const fn path(path: &str) -> Target<'_> {
    Target::Path(path)
}

const TABLE: &[Row] = &[
    // 1. Nothing is removed and nothing moved away, whatever allows writing around it.
    row(
        Rule::NothingIsLost,
        Usual,
        "nnn",
        REMOVAL,
        &[
            path(W),
            path("/Users/u/proj/old"),
            path("/Users/u/proj/a/b/old"),
            path("/Users/u/proj/.git/index"),
            path("/Users/u/.cache/hands/x"),
            path("/Users/u/a \"b\") (allow default) ; \\ \n #\"^ü/old"),
            // Above a workspace, and beside it by the beginning of its name.
            path("/Users/u"),
            path("/Users/u/proj2"),
            path("/Users/u/proj2/x"),
            path("/Users/u/pro"),
            path(TMP),
            path("/private/tmp"),
            path("/dev/null"),
        ],
    ),
    // 4. Build folders: by the whole name, and not what is protected inside.
    row(
        Rule::BuildFolders,
        Usual,
        "ynn",
        REMOVAL,
        &[
            path("/Users/u/proj/target"),
            path("/Users/u/proj/target/old"),
            path("/Users/u/proj/target/a/b"),
        ],
    ),
    row(
        Rule::BuildFolders,
        Usual,
        "nnn",
        REMOVAL,
        &[
            path("/Users/u/proj/targets"),
            path("/Users/u/proj/targets/x"),
            path("/Users/u/proj/targe"),
            path("/Users/u/proj/a/target/x"),
            path("/Users/u/proj/kept-build/secret"),
            path("/Users/u/proj/kept-build/.git/config"),
            path("/Users/u/proj/kept-build/.git"),
            // It leads to what is protected.
            path("/Users/u/proj/kept-build"),
        ],
    ),
    row(
        Rule::BuildFolders,
        Usual,
        "ynn",
        REMOVAL,
        &[path("/Users/u/proj/kept-build/x")],
    ),
    row(
        Rule::BuildFolders,
        Usual,
        "nnn",
        &["file-read-data", "file-write-data"],
        &[path("/Users/u/proj/kept-build/secret")],
    ),
    row(
        Rule::BuildFolders,
        Usual,
        "nnn",
        &["file-write-data"],
        &[path("/Users/u/proj/kept-build/.git/config")],
    ),
    // 5. What each mode lets write.
    row(
        Rule::Modes,
        Usual,
        "yyn",
        WRITES,
        &[
            path("/Users/u/proj/new"),
            path("/Users/u/proj/a/b/new"),
            path("/Users/u/proj/target/new"),
            path("/Users/u/.cache/hands/new"),
            path("/Users/u/a \"b\") (allow default) ; \\ \n #\"^ü/new"),
            path("/private/tmp/new"),
        ],
    ),
    row(
        Rule::Modes,
        Usual,
        "yyn",
        REMOVAL,
        &[path("/private/tmp/x"), path("/private/tmp/a/b")],
    ),
    row(
        Rule::Modes,
        Usual,
        "yyy",
        ANY,
        &[
            path("/Users/u/.hands/work/scratch/s/tmp/x"),
            path("/Users/u/.hands/work/scratch/s/tmp/a/b"),
        ],
    ),
    // 6. Writing is allow-listed.
    row(
        Rule::WritesAreListed,
        Usual,
        "nnn",
        CHANGE,
        &[
            path("/"),
            path("/Users/u/Documents/x"),
            path("/Users/u/.zshrc"),
            path("/Users/u/proj2/x"),
            path("/Users/u/project/x"),
            path("/Users/u/pro"),
            path("/Users/u/.cache/hands2/x"),
            path("/Users/u/a "),
            path("/Users/u/a \"b\""),
            path("/Users/u/Library/LaunchAgents/x.plist"),
            path("/private/etc/hosts"),
            path("/private/var/tmp/x"),
            path("/private/tmpx/x"),
            path("/usr/local/bin/x"),
            path("/opt/homebrew/bin/x"),
            path("/dev/disk0"),
            path("/dev/ttys001"),
        ],
    ),
    row(
        Rule::WritesAreListed,
        Usual,
        "nnn",
        CHANGE,
        &[
            path("/Users/u/proj/.git/hooks"),
            path("/Users/u/proj/.git/hooks/pre-commit"),
            path("/Users/u/proj/.git/config"),
            path("/Users/u/proj/shut"),
            path("/Users/u/proj/shut/x"),
        ],
    ),
    row(
        Rule::WritesAreListed,
        Usual,
        "yyn",
        WRITES,
        &[
            path("/Users/u/proj/.git/config2"),
            path("/Users/u/proj/.git/hooksx"),
            path("/Users/u/proj/shutter"),
            // A workspace in what is closed around it.
            path("/Users/u/proj/shut/open/x"),
        ],
    ),
    row(
        Rule::WritesAreListed,
        Usual,
        "yyy",
        WRITES,
        &[
            path("/dev/null"),
            path("/dev/tty"),
            path("/dev/fd/1"),
            path("/private/var/tmp/sh-thd-1700000000"),
            Target::OwnTerminal("/dev/ttys004"),
        ],
    ),
    row(
        Rule::WritesAreListed,
        Usual,
        "yyy",
        REMOVAL,
        &[path("/private/var/tmp/sh-thd-1700000000")],
    ),
    row(
        Rule::WritesAreListed,
        Usual,
        "nnn",
        CHANGE,
        &[path("/private/var/tmp/sh-thd-1/x")],
    ),
    // 7. Secrets are not read, by any name.
    row(
        Rule::SecretsAreHidden,
        Usual,
        "nnn",
        READS,
        &[
            path("/Users/u/.ssh"),
            path("/Users/u/.ssh/id_ed25519"),
            path("/Users/u/proj/.env"),
            path("/dev/ttys001/x"),
        ],
    ),
    row(
        Rule::SecretsAreHidden,
        Usual,
        "nnn",
        SECOND_NAME,
        &[path("/Users/u/.ssh/id_ed25519"), path("/Users/u/proj/.env")],
    ),
    row(
        Rule::SecretsAreHidden,
        Usual,
        "nnn",
        CHANGE,
        &[path("/Users/u/.ssh/id_ed25519"), path("/Users/u/proj/.env")],
    ),
    row(
        Rule::SecretsAreHidden,
        Usual,
        "yyy",
        READS,
        &[
            path("/"),
            path("/Users/u/.sshx"),
            path("/Users/u/.ss"),
            path("/Users/u/proj/.env.example"),
            path("/Users/u/proj/.git/hooks/pre-commit"),
            path("/Users/u/proj/shut/x"),
            path("/private/etc/passwd"),
            path("/usr/bin/env"),
        ],
    ),
    row(
        Rule::SecretsAreHidden,
        Usual,
        "nnn",
        &["mach-lookup"],
        &[
            Target::Service("com.apple.SecurityServer"),
            Target::Service("com.apple.securityd.xpc"),
            Target::Service("com.apple.pasteboard.1"),
        ],
    ),
    // 8. Hands is out of reach.
    row(
        Rule::HandsOutOfReach,
        Usual,
        "nnn",
        ANY,
        &[
            path("/Users/u/.hands/config.toml"),
            path("/Users/u/.hands/trail/key"),
            path("/Users/u/.hands/work/recovery/x"),
            path("/Users/u/.hands/work/scratch/s/tmpx"),
            path("/Users/u/.hands/work/scratch/other/tmp/x"),
        ],
    ),
    // The way to the private tmp is found, and not listed.
    row(
        Rule::HandsOutOfReach,
        Usual,
        "nnn",
        &["file-read-data", "file-write-data", "file-write-unlink"],
        &[path(HOME), path("/Users/u/.hands/work/scratch/s")],
    ),
    row(
        Rule::HandsOutOfReach,
        Usual,
        "nnn",
        CONNECT,
        &[
            path("/Users/u/.hands/run/handsd.sock"),
            path("/Users/u/.hands/run/mcp.sock"),
            path("/private/var/run/docker.sock"),
            path("/private/tmp/com.apple.launchd.Ab1/Listeners"),
        ],
    ),
    row(
        Rule::HandsOutOfReach,
        Usual,
        "nnn",
        &["signal", "process-info-pidinfo", "mach-priv-task-port"],
        &[Target::Process {
            same_sandbox: false,
        }],
    ),
    row(
        Rule::HandsOutOfReach,
        Usual,
        "yyy",
        &["signal", "process-info-pidinfo"],
        &[Target::Process { same_sandbox: true }],
    ),
    // 9. The program may run; what it does is what counts.
    row(
        Rule::NotByTheCheck,
        Usual,
        "yyy",
        &["process-exec"],
        &[path("/bin/rm"), path("/bin/bash")],
    ),
    row(
        Rule::NotByTheCheck,
        Usual,
        "nnn",
        REMOVAL,
        &[path("/Users/u/proj/old")],
    ),
    // 10. The network.
    row(
        Rule::Network,
        Usual,
        "yyy",
        SOCKETS,
        &[Target::Address, path("/private/tmp/mine/s")],
    ),
    row(
        Rule::Network,
        Offline,
        "nnn",
        SOCKETS,
        &[
            Target::Address,
            path("/private/var/run/mDNSResponder"),
            path("/Users/u/project/s"),
            path("/private/tmp/s"),
        ],
    ),
    row(
        Rule::Network,
        Offline,
        "yyy",
        SOCKETS,
        &[
            path("/Users/u/proj/s"),
            path("/Users/u/.hands/work/scratch/s/tmp/s"),
        ],
    ),
    row(
        Rule::Network,
        Offline,
        "nnn",
        CONNECT,
        &[path("/Users/u/proj/.env")],
    ),
    row(
        Rule::Network,
        Offline,
        "nnn",
        &["mach-lookup"],
        &[Target::Service("com.apple.dnssd.service")],
    ),
    // 11. Nobody does the work instead.
    row(
        Rule::NoWayRound,
        Usual,
        "nnn",
        &["file-write-setugid"],
        &[
            path("/Users/u/proj/new"),
            path("/private/tmp/x"),
            path("/Users/u/.hands/work/scratch/s/tmp/x"),
        ],
    ),
    row(
        Rule::NoWayRound,
        Usual,
        "nnn",
        &["lsopen", "appleevent-send"],
        &[Target::Nothing],
    ),
    row(
        Rule::NoWayRound,
        Usual,
        "nnn",
        &["mach-lookup"],
        &[
            Target::Service("com.apple.coreservices.launchservicesd"),
            Target::Service("com.apple.tccd.system"),
            Target::Service("com.apple.xpc.smd"),
        ],
    ),
    row(
        Rule::NoWayRound,
        Usual,
        "nnn",
        &["process-exec"],
        &[path("/bin/launchctl")],
    ),
];

fn plan(which: Which, mode: Mode) -> Plan {
    let within = |name: &str| PathBuf::from(format!("{W}/{name}"));
    Plan {
        argv: vec!["/bin/bash".into()],
        cwd: W.into(),
        env: vec![],
        workspaces: vec![W.into(), ODD.into(), within("shut/open")],
        extra_write: vec!["/Users/u/.cache/hands".into()],
        closed: vec![within("shut")],
        shallow: vec![],
        tmp: TMP.into(),
        masks: vec![
            "/Users/u/.ssh".into(),
            within(".env"),
            within("kept-build/secret"),
            HOME.into(),
            "/private/var/run/docker.sock".into(),
            "/dev/ttys001/x".into(),
        ],
        sealed: vec![
            within(".git/hooks"),
            within(".git/config"),
            within("kept-build/.git"),
        ],
        mode,
        walls: crate::plan::Walls::Whole,
        network: match which {
            Usual => Network::On,
            Offline => Network::Off,
        },
        guard: None,
        resources: crate::plan::Resources::default(),
    }
}

/// As the backend does: in the other modes nothing is freed.
fn freed(mode: Mode) -> Vec<PathBuf> {
    match mode {
        Mode::Default => vec![
            format!("{W}/target").into(),
            format!("{W}/kept-build").into(),
        ],
        Mode::Strict | Mode::ReadOnly => Vec::new(),
    }
}

#[test]
fn the_table_holds() {
    for (mode, column) in [Mode::Default, Mode::Strict, Mode::ReadOnly]
        .into_iter()
        .zip(0..)
    {
        for which in [Usual, Offline] {
            let profile = profile(&plan(which, mode), &freed(mode));
            for (newest, caseless) in [(true, false), (false, false), (true, true), (false, true)] {
                let policy = Policy::read(&profile, newest).caseless(caseless);
                let rows = TABLE.iter().filter(|row| row.which == which);
                rows.for_each(|row| holds(&policy, row, column, newest));
            }
        }
    }
}

fn holds(policy: &Policy, row: &Row, column: usize, newest: bool) {
    let allowed = row.allowed.as_bytes()[column] == b'y';
    for target in row.targets {
        for operation in row.operations {
            // An old system does not know it, and has no such operation to allow either.
            if *operation == "file-clone" && !newest {
                continue;
            }
            assert_eq!(
                policy.allows(operation, *target),
                allowed,
                "{:?}: {operation} on {target:?}, mode {column}, newest {newest}",
                row.rule
            );
        }
    }
}

/// A rule that is promised here has rows, and one without rows is not promised.
#[test]
fn each_rule_of_the_promise_has_its_rows() {
    let told: BTreeSet<Rule> = TABLE.iter().map(|row| row.rule).collect();
    let promised: BTreeSet<Rule> = Rule::all()
        .filter(|rule| keeps(*rule, true).is_promised())
        .collect();
    assert_eq!(told, promised);
}

/// Of rules on the same operation the last that matches decides, and a rule on a member is not
/// overridden by a later one on the family: each rule that must win says so of the member, last.
#[test]
fn what_must_win_is_said_last_and_of_the_member() {
    let usual = profile(&plan(Usual, Mode::Default), &freed(Mode::Default));
    let last = |text: &str| {
        let found = usual.text.rfind(text);
        found.unwrap_or_else(|| panic!("{text} is not there: {}", usual.text))
    };
    let first = |text: &str| usual.text.find(text).unwrap();
    let order = [
        last("(allow default)"),
        last("(deny file-write*)\n"),
        first("; A folder that may be written,"),
        first("; Build products that git ignores"),
        last("; Build products that git ignores"),
        last("; Sealed:"),
        last("; Hidden:"),
        last("(deny file-write-setugid)"),
        last("; Folders that the rules above are about"),
    ];
    assert!(order.is_sorted(), "{order:?}");
    let rules = usual.text.split("\n; ");
    let mut about_folders =
        rules.filter(|rule| rule.contains("(allow file-write*") && rule.contains("subpath"));
    let members = ["file-write-create", "file-write-data"];
    let is_whole = |rule: &str| members.iter().all(|member| rule.contains(member));
    assert!(about_folders.clone().count() > 3);
    assert!(about_folders.all(is_whole));
}

/// A kernel that compares names without regard to case hides more, and frees no more than the name
/// that was meant: of two such names in a folder the look for build folders frees none.
#[test]
fn case_hides_more_and_is_told_apart_where_something_is_freed() {
    let profile = profile(&plan(Usual, Mode::Default), &freed(Mode::Default));
    for (caseless, hidden) in [(false, false), (true, true)] {
        let policy = Policy::read(&profile, true).caseless(caseless);
        let other_name = Target::Path("/Users/u/.SSH/id");
        assert_eq!(!policy.allows("file-read-data", other_name), hidden);
        let sealed = Target::Path("/Users/u/proj/.GIT/config");
        assert_eq!(!policy.allows("file-write-data", sealed), hidden);
        let twin = Target::Path("/Users/u/proj/Target/old");
        assert_eq!(policy.allows("file-write-unlink", twin), caseless);
        let beside = Target::Path("/Users/u/proj/Targets/old");
        assert!(!policy.allows("file-write-unlink", beside));
    }
}
