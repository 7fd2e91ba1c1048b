//! What the profile means, asked of its own text.

use super::super::evaluate::{Policy, Target};
use super::*;

const WORKSPACE: &str = "/Users/u/proj";
const HOME: &str = "/Users/u/.hands";
const TMP: &str = "/Users/u/.hands/work/scratch/s/tmp";

fn plan() -> Plan {
    Plan {
        argv: vec!["/bin/bash".into(), "-c".into(), "true".into()],
        cwd: WORKSPACE.into(),
        env: vec![],
        workspaces: vec![WORKSPACE.into()],
        extra_write: vec!["/Users/u/.cache/hands".into()],
        closed: vec![],
        shallow: vec![],
        resources: crate::plan::Resources::default(),
        tmp: TMP.into(),
        masks: vec![
            "/Users/u/.ssh".into(),
            format!("{WORKSPACE}/.env").into(),
            "/private/var/run/docker.sock".into(),
        ],
        sealed: vec![
            format!("{WORKSPACE}/.git/hooks").into(),
            format!("{WORKSPACE}/.git/config").into(),
        ],
        mode: Mode::Default,
        walls: crate::plan::Walls::Whole,
        network: Network::On,
        guard: None,
    }
}

fn in_mode(mode: Mode) -> Plan {
    Plan { mode, ..plan() }
}

const MODES: [Mode; 3] = [Mode::Default, Mode::Strict, Mode::ReadOnly];

/// Asks about every path and operation, of the newest system and of the oldest.
fn expect(plan: &Plan, allowed: bool, operations: &[&str], paths: &[&str]) {
    let profile = profile(plan, &[]);
    for newest in [true, false] {
        let policy = Policy::read(&profile, newest);
        for path in paths {
            for operation in operations {
                assert_eq!(
                    policy.allows(operation, Target::Path(path)),
                    allowed,
                    "{operation} on {path} in {:?}, newest: {newest}\n{}",
                    plan.mode,
                    profile.text
                );
            }
        }
    }
}

pub(super) const READS: &[&str] = &["file-read-data", "file-read-metadata", "file-read-xattr"];
pub(super) const WRITES: &[&str] = &[
    "file-write-create",
    "file-write-data",
    "file-write-mode",
    "file-write-owner",
    "file-write-flags",
    "file-write-times",
    "file-write-xattr",
];
pub(super) const REMOVAL: &[&str] = &["file-write-unlink"];
const LINK: &[&str] = &["file-link"];
const CONNECT: &[&str] = &["network-outbound"];

const IN_WORKSPACE: &[&str] = &[
    "/Users/u/proj/old",
    "/Users/u/proj/a/b/new",
    "/Users/u/proj/.git/index",
    "/Users/u/.cache/hands/x",
];
const OUTSIDE: &[&str] = &[
    "/Users/u/Documents/x",
    "/Users/u/.zshrc",
    "/Users/u/project/x",
    "/Users/u/Library/LaunchAgents/x.plist",
    "/private/etc/hosts",
    "/private/var/tmp/x",
    "/private/var/tmp/sh-thd-1/x",
    "/usr/local/bin/x",
    "/Users/u/.hands/config.toml",
    "/Users/u/.hands/work/scratch/s",
    "/Users/u/.hands/work/scratch/s/tmpx",
    "/dev/disk0",
    "/dev/ttys001",
    "/",
];

#[test]
fn a_workspace_is_written_but_in_read_only() {
    for mode in [Mode::Default, Mode::Strict] {
        expect(&in_mode(mode), true, WRITES, IN_WORKSPACE);
    }
    expect(&in_mode(Mode::ReadOnly), false, WRITES, IN_WORKSPACE);
}

#[test]
fn nothing_is_removed_from_a_workspace_in_any_mode() {
    for mode in MODES {
        expect(&in_mode(mode), false, REMOVAL, IN_WORKSPACE);
        expect(&in_mode(mode), false, REMOVAL, &[WORKSPACE, "/Users/u"]);
    }
}

#[test]
fn outside_nothing_is_written_removed_or_linked_in_any_mode() {
    for mode in MODES {
        for operations in [WRITES, REMOVAL, LINK] {
            expect(&in_mode(mode), false, operations, OUTSIDE);
        }
    }
}

#[test]
fn the_private_tmp_is_free_in_every_mode_but_keeps_its_name() {
    let inside = format!("{TMP}/a/b");
    for mode in MODES {
        for operations in [READS, WRITES, REMOVAL, LINK] {
            expect(&in_mode(mode), true, operations, &[&inside]);
        }
        expect(&in_mode(mode), false, REMOVAL, &[TMP]);
    }
}

#[test]
fn the_shared_tmp_is_free_but_in_read_only() {
    let inside = ["/private/tmp/x", "/private/tmp/a/b"];
    for operations in [WRITES, REMOVAL] {
        expect(&plan(), true, operations, &inside);
        expect(&in_mode(Mode::ReadOnly), false, operations, &inside);
    }
    expect(&plan(), false, REMOVAL, &["/private/tmp"]);
}

#[test]
fn the_listeners_of_launchd_are_left_alone() {
    let listener = ["/private/tmp/com.apple.launchd.Ab1/Listeners"];
    for operations in [WRITES, REMOVAL, CONNECT] {
        expect(&plan(), false, operations, &listener);
    }
    expect(&plan(), true, CONNECT, &["/private/tmp/mine/socket"]);
}

#[test]
fn devices_and_here_documents_work_in_every_mode() {
    let devices = ["/dev/null", "/dev/tty", "/dev/fd/1", "/dev/ptmx"];
    let here_document = ["/private/var/tmp/sh-thd-1700000000"];
    for mode in MODES {
        expect(&in_mode(mode), true, WRITES, &devices);
        expect(&in_mode(mode), false, REMOVAL, &devices);
        for operations in [READS, WRITES, REMOVAL] {
            expect(&in_mode(mode), true, operations, &here_document);
        }
    }
}

#[test]
fn only_terminals_of_its_own_are_read_and_written() {
    let policy = Policy::read(&profile(&plan(), &[]), true);
    for operation in ["file-read-data", "file-write-data", "file-write-mode"] {
        assert!(policy.allows(operation, Target::OwnTerminal("/dev/ttys004")));
        assert!(!policy.allows(operation, Target::Path("/dev/ttys004")));
    }
}

#[test]
fn what_is_hidden_is_neither_read_written_removed_linked_nor_reached() {
    let hidden = [
        "/Users/u/.ssh",
        "/Users/u/.ssh/id_ed25519",
        "/Users/u/proj/.env",
        "/private/var/run/docker.sock",
    ];
    for mode in MODES {
        for operations in [READS, WRITES, REMOVAL, LINK, CONNECT] {
            expect(&in_mode(mode), false, operations, &hidden);
        }
    }
    let policy = Policy::read(&profile(&plan(), &[]), true);
    for path in hidden {
        assert!(!policy.allows("file-clone", Target::Path(path)), "{path}");
    }
    assert!(policy.allows("file-clone", Target::Path("/Users/u/proj/old")));
}

#[test]
fn the_system_and_the_neighbours_of_what_is_hidden_are_read() {
    let readable = [
        "/private/etc/passwd",
        "/usr/bin/env",
        "/Users/u/.sshx",
        "/Users/u/proj/.env.example",
        "/Users/u/proj/.git/hooks/pre-commit",
        "/",
    ];
    for mode in MODES {
        expect(&in_mode(mode), true, READS, &readable);
    }
}

#[test]
fn what_is_sealed_is_read_but_not_changed() {
    let sealed = [
        "/Users/u/proj/.git/hooks",
        "/Users/u/proj/.git/hooks/pre-commit",
        "/Users/u/proj/.git/config",
    ];
    for mode in MODES {
        expect(&in_mode(mode), true, READS, &sealed);
        for operations in [WRITES, REMOVAL, LINK] {
            expect(&in_mode(mode), false, operations, &sealed);
        }
    }
    expect(&plan(), true, WRITES, &["/Users/u/proj/.git/config2"]);
}

#[test]
fn a_workspace_in_the_shared_tmp_keeps_its_files_and_its_place() {
    let workspace = "/private/tmp/deep/ws";
    for mode in MODES {
        let plan = Plan {
            workspaces: vec![workspace.into()],
            sealed: vec![format!("{workspace}/.git/hooks").into()],
            masks: vec!["/private/tmp/other/secret".into()],
            ..in_mode(mode)
        };
        let kept = [
            workspace,
            "/private/tmp/deep/ws/old",
            // Moving a folder above would take the rules' names away.
            "/private/tmp/deep",
            "/private/tmp/other",
            "/private/tmp",
        ];
        expect(&plan, false, REMOVAL, &kept);
        let writable = mode != Mode::ReadOnly;
        let beside = ["/private/tmp/deep/x", "/private/tmp/other/x"];
        expect(&plan, writable, WRITES, &["/private/tmp/deep/ws/new"]);
        expect(&plan, writable, REMOVAL, &beside);
        expect(&plan, false, WRITES, &["/private/tmp/deep/ws/.git/hooks/x"]);
        expect(&plan, false, READS, &["/private/tmp/other/secret"]);
    }
}

#[test]
fn whatever_a_rule_is_about_keeps_the_names_above_it() {
    let bare = Plan {
        workspaces: vec![],
        masks: vec![],
        sealed: vec![],
        ..plan()
    };
    let above = ["/private/tmp/a", "/private/tmp/a/b"];
    expect(&bare, true, REMOVAL, &above);
    let path = || vec!["/private/tmp/a/b/c".into()];
    for plan in [
        Plan {
            workspaces: path(),
            ..bare.clone()
        },
        Plan {
            masks: path(),
            ..bare.clone()
        },
        Plan {
            sealed: path(),
            ..bare.clone()
        },
    ] {
        expect(&plan, false, REMOVAL, &above);
        expect(&plan, false, REMOVAL, &["/private/tmp/a/b/c"]);
        expect(&plan, true, REMOVAL, &["/private/tmp/a/x"]);
    }
}

#[test]
fn a_closed_folder_stays_as_it_is_and_an_open_one_inside_does_not() {
    let at = |name: &str| format!("{WORKSPACE}/{name}");
    let plan = Plan {
        workspaces: vec![at("open").into(), at("all").into()],
        closed: vec![WORKSPACE.into(), at("all/shut").into()],
        ..plan()
    };
    let shut = [at("x"), at("other/x"), at("all/shut"), at("all/shut/x")];
    let shut = shut.each_ref().map(String::as_str);
    expect(&plan, false, WRITES, &shut);
    expect(&plan, false, REMOVAL, &shut);
    expect(&plan, true, READS, &shut);
    let open = [at("open/x"), at("all/x")];
    expect(&plan, true, WRITES, &open.each_ref().map(String::as_str));
    expect(&plan, false, REMOVAL, &open.each_ref().map(String::as_str));
}

#[test]
fn the_innermost_folder_decides() {
    let tmp = "/private/tmp/ws/.scratch/tmp";
    let plan = Plan {
        workspaces: vec!["/private/tmp/ws".into()],
        tmp: tmp.into(),
        ..plan()
    };
    expect(&plan, true, REMOVAL, &["/private/tmp/ws/.scratch/tmp/x"]);
    expect(&plan, false, REMOVAL, &[tmp, "/private/tmp/ws/.scratch"]);
    let read_only = Plan {
        mode: Mode::ReadOnly,
        ..plan
    };
    expect(
        &read_only,
        true,
        WRITES,
        &["/private/tmp/ws/.scratch/tmp/x"],
    );
    expect(&read_only, false, WRITES, &["/private/tmp/ws/.scratch/x"]);
}

#[test]
fn a_mask_around_the_private_tmp_hides_all_but_the_tmp() {
    let inside = format!("{TMP}/a");
    let secret = format!("{TMP}/.secret");
    for mode in MODES {
        let plan = Plan {
            masks: vec![secret.clone().into(), HOME.into()],
            ..in_mode(mode)
        };
        for operations in [READS, WRITES, REMOVAL, LINK, CONNECT] {
            expect(&plan, true, operations, &[&inside]);
            expect(&plan, false, operations, &[&secret]);
            let hidden = [
                "/Users/u/.hands/config.toml",
                "/Users/u/.hands/run/handsd.sock",
                "/Users/u/.hands/work/scratch/s/tmpx",
            ];
            expect(&plan, false, operations, &hidden);
        }
        // The folders on the way are found, but not listed.
        let way = [HOME, "/Users/u/.hands/work/scratch/s"];
        expect(&plan, true, &["file-read-metadata"], &way);
        expect(&plan, false, &["file-read-data"], &way);
    }
}

#[test]
fn a_workspace_below_a_mask_is_hidden() {
    let plan = Plan {
        masks: vec!["/Users/u".into()],
        tmp: "/private/var/folders/a/hands".into(),
        ..plan()
    };
    for operations in [READS, WRITES, REMOVAL] {
        expect(&plan, false, operations, IN_WORKSPACE);
    }
}

#[test]
fn without_network_only_sockets_of_its_own_folders_are_left() {
    let off = Plan {
        network: Network::Off,
        ..plan()
    };
    let policy = Policy::read(&profile(&off, &[]), true);
    let open = Policy::read(&profile(&plan(), &[]), true);
    for operation in ["network-outbound", "network-inbound", "network-bind"] {
        assert!(!policy.allows(operation, Target::Address));
        assert!(open.allows(operation, Target::Address));
        assert!(!policy.allows(operation, Target::Path("/private/var/run/mDNSResponder")));
        for socket in [format!("{TMP}/s"), format!("{WORKSPACE}/s")] {
            assert!(policy.allows(operation, Target::Path(&socket)));
        }
    }
    expect(&off, false, CONNECT, &["/Users/u/proj/.env"]);
    let names = Target::Service("com.apple.dnssd.service");
    assert!(!policy.allows("mach-lookup", names) && open.allows("mach-lookup", names));
}

#[test]
fn the_ways_out_are_closed_and_ordinary_services_open() {
    let policy = Policy::read(&profile(&plan(), &[]), true);
    let service = |name| policy.allows("mach-lookup", Target::Service(name));
    for name in [
        "com.apple.SecurityServer",
        "com.apple.securityd.xpc",
        "com.apple.tccd.system",
        "com.apple.pasteboard.1",
        "com.apple.coreservices.launchservicesd",
        "com.apple.lsd.modifydb",
        "com.apple.xpc.smd",
    ] {
        assert!(!service(name), "{name}");
    }
    for name in ["com.apple.trustd.agent", "com.apple.logd"] {
        assert!(service(name), "{name}");
    }
    for operation in [
        "lsopen",
        "appleevent-send",
        "job-creation",
        "hid-control",
        "user-preference-write",
    ] {
        assert!(!policy.allows(operation, Target::Nothing), "{operation}");
    }
    for operation in ["signal", "process-info-pidinfo", "mach-priv-task-port"] {
        let process = |same_sandbox| policy.allows(operation, Target::Process { same_sandbox });
        assert!(process(true) && !process(false), "{operation}");
    }
    let run = |path| policy.allows("process-exec", Target::Path(path));
    assert!(run("/bin/ls") && !run("/bin/launchctl"));
}

#[test]
fn no_path_of_the_plan_stands_in_the_text() {
    let odd = "/Users/u/a \"b\") (allow default) ; \\ \n c";
    let plan = Plan {
        workspaces: vec![odd.into()],
        masks: vec![format!("{odd}/m").into()],
        sealed: vec![format!("{odd}/s").into()],
        ..plan()
    };
    let profile = profile(&plan, &[]);
    assert!(!profile.text.contains("/Users/"));
    expect(&plan, true, WRITES, &[&format!("{odd}/new")]);
    for (n, (name, _)) in profile.params.iter().enumerate() {
        assert_eq!(*name, format!("P{n}"));
    }
    let mut values: Vec<&String> = profile.params.iter().map(|(_, value)| value).collect();
    values.sort();
    values.dedup();
    assert_eq!(
        values.len(),
        profile.params.len(),
        "each path is one parameter"
    );
}

#[test]
fn slashes_that_say_nothing_do_not_weaken_a_rule() {
    let plan = Plan {
        workspaces: vec!["/Users/u//proj/".into()],
        masks: vec!["/Users/u/.ssh/".into()],
        ..plan()
    };
    expect(&plan, true, WRITES, &["/Users/u/proj/x"]);
    expect(&plan, false, READS, &["/Users/u/.ssh", "/Users/u/.ssh/x"]);
}

#[test]
fn every_rule_gives_its_reason() {
    let plan = Plan {
        network: Network::Off,
        masks: vec![HOME.into(), "/Users/u/.ssh".into()],
        ..plan()
    };
    let text = profile(&plan, &[]).text;
    let mut before = "";
    for line in text.lines().skip(1) {
        if line.starts_with('(') {
            // Rules that belong together may share a reason.
            assert!(
                before.starts_with([';', '(']) || before.ends_with(')'),
                "{line}"
            );
        }
        before = line;
    }
    assert!(text.lines().filter(|line| line.starts_with(';')).count() > 30);
}

#[test]
fn no_rule_about_no_path() {
    let plan = Plan {
        workspaces: vec![],
        extra_write: vec![],
        closed: vec![],
        shallow: vec![],
        resources: crate::plan::Resources::default(),
        masks: vec![],
        sealed: vec![],
        ..plan()
    };
    expect(
        &plan,
        true,
        READS,
        &["/Users/u/.ssh/id", "/private/etc/hosts"],
    );
    expect(&plan, false, WRITES, IN_WORKSPACE);
    expect(&plan, true, CONNECT, &["/private/var/run/docker.sock"]);
}

/// Paths that nest and meet, with one of each kind of neighbour.
const NESTED: &[&str] = &[
    "/private/tmp",
    "/private/tmp/a",
    "/private/tmp/a/b",
    "/c",
    "/c/d",
];
const TARGETS: &[&str] = &[
    "/private/tmp/x",
    "/private/tmp/a",
    "/private/tmp/a/x",
    "/private/tmp/a/b/x",
    "/c",
    "/c/x",
    "/c/d/x",
    "/cc",
];

/// Every way in which a workspace, the private tmp, a mask and a sealed file can nest.
fn nestings(mode: Mode) -> impl Iterator<Item = Plan> {
    let count = NESTED.len();
    (0..count.pow(4)).map(move |n| {
        let pick = |place: u32| PathBuf::from(NESTED[n / count.pow(place) % count]);
        Plan {
            workspaces: vec![pick(0)],
            extra_write: vec![],
            closed: vec![],
            shallow: vec![],
            resources: crate::plan::Resources::default(),
            tmp: pick(1),
            masks: vec![pick(2)],
            sealed: vec![pick(3)],
            network: [Network::On, Network::Off][n % 2].clone(),
            ..in_mode(mode)
        }
    })
}

/// `Policy::allows` itself fails where the answer depends on how rules are ordered.
#[test]
fn the_promises_hold_however_folders_nest() {
    for plan in [Mode::Default, Mode::ReadOnly]
        .into_iter()
        .flat_map(nestings)
    {
        let policy = Policy::read(&profile(&plan, &[]), true);
        for target in TARGETS {
            check_promises(&plan, &[], &policy, target);
        }
    }
}

/// The same with a build folder directly in the workspace.
#[test]
fn the_promises_hold_with_a_folder_that_is_freed() {
    for plan in nestings(Mode::Default) {
        for name in ["a", "b", "d"] {
            let freed = [plan.workspaces[0].join(name)];
            let policy = Policy::read(&profile(&plan, &freed), true);
            for target in TARGETS {
                check_promises(&plan, &freed, &policy, target);
            }
        }
    }
}

fn check_promises(plan: &Plan, freed: &[PathBuf], policy: &Policy, target: &str) {
    let allowed = |operation| policy.allows(operation, Target::Path(target));
    let below = |root: &PathBuf| Path::new(target).starts_with(root);
    let none = |operations: &[&'static str]| {
        for operation in operations {
            assert!(!allowed(operation), "{operation} on {target}: {plan:?}");
        }
    };
    let tmp = below(&plan.tmp);
    let writable = plan.mode != Mode::ReadOnly;
    let shared = writable && target.starts_with("/private/tmp");
    if plan.masks.iter().any(below) && !tmp {
        none(&["file-read-data", "file-write-data", "file-write-unlink"]);
        none(&["file-link", "file-clone", "network-outbound"]);
    }
    if plan.sealed.iter().any(below) {
        none(&[
            "file-write-data",
            "file-write-create",
            "file-write-unlink",
            "file-link",
        ]);
    }
    let free = freed.iter().any(below);
    if !tmp && !shared {
        if !free {
            none(&["file-write-unlink"]);
        }
        if !(writable && plan.workspaces.iter().any(below)) {
            none(&["file-write-data", "file-write-create", "file-link"]);
        }
    }
    if plan.workspaces.iter().any(below) && plan.tmp.components().count() < 3 && !free {
        // No tmp within the workspace frees anything in it.
        none(&["file-write-unlink"]);
    }
}
