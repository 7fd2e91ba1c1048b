//! The command line, and what is refused before there is one.

use super::*;
use crate::plan::{Mode, Network};

fn seatbelt() -> Seatbelt {
    Seatbelt {
        program: Some(SANDBOX_EXEC.into()),
        runner: "/opt/hands-runner".into(),
    }
}

fn plan() -> Plan {
    Plan {
        argv: vec!["/bin/echo".into(), "-p".into(), "(x)".into()],
        cwd: "/Users/u/proj".into(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        workspaces: vec!["/Users/u/proj".into()],
        extra_write: vec![],
        closed: vec![],
        shallow: vec![],
        resources: crate::plan::Resources::default(),
        tmp: "/Users/u/tmp".into(),
        masks: vec![],
        sealed: vec![],
        mode: Mode::Default,
        walls: crate::plan::Walls::Whole,
        network: Network::On,
        guard: None,
    }
}

fn words(plan: &Plan) -> Vec<String> {
    let launch = seatbelt().launch(plan, 9).unwrap();
    assert_eq!(launch.program, Path::new("/opt/hands-runner"));
    assert!(launch.inner.is_none());
    let text = |word: &OsString| word.to_str().unwrap().to_string();
    launch.args.iter().map(text).collect()
}

fn refusal(plan: &Plan) -> Unavailable {
    seatbelt().launch(plan, 9).unwrap_err()
}

#[test]
fn the_helper_enters_the_folder_and_becomes_sandbox_exec() {
    let words = words(&plan());
    assert_eq!(words[..3], ["session", "/Users/u/proj", SANDBOX_EXEC]);
    let profile = words.iter().position(|word| word == "-p").unwrap();
    assert!(words[profile + 1].starts_with("(version 1)\n"));
    // What comes after `--` is the command's, whatever it looks like.
    assert_eq!(words[profile + 2..], ["--", "/bin/echo", "-p", "(x)"]);
    let definitions = words[3..profile].chunks(2);
    assert!(definitions.clone().count() >= 3);
    for pair in definitions {
        assert_eq!(pair[0], "-D");
        assert!(pair[1].starts_with('P') && pair[1].contains("=/"));
    }
}

#[test]
fn masks_count_by_their_real_path_too_and_only_where_there_is_something() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    std::fs::create_dir(folder.join("real")).unwrap();
    std::os::unix::fs::symlink("real", folder.join("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", folder.join("dangling")).unwrap();
    let given = ["link", "dangling", "missing"].map(|name| folder.join(name));
    let plan = Plan {
        masks: given.to_vec(),
        sealed: vec![folder.join("missing"), folder.join("real")],
        closed: vec![folder.join("link"), folder.join("missing")],
        tmp: folder.join("link"),
        workspaces: vec![folder.join("link")],
        ..plan()
    };
    let plan = with_real_paths(&plan);
    assert_eq!(plan.closed, ["link", "real"].map(|name| folder.join(name)));
    assert_eq!(plan.tmp, folder.join("real"));
    // What a link leads to by now is not meant.
    assert_eq!(plan.workspaces, [folder.join("link")]);
    let names = ["link", "real", "dangling"].map(|name| folder.join(name));
    assert_eq!(plan.masks, names);
    assert_eq!(plan.sealed, [folder.join("real")]);
}

#[test]
fn a_path_that_no_rule_can_name_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let bytes = std::ffi::OsStr::from_bytes(b"/Users/\xff");
    for path in [Path::new("proj"), Path::new("/a/../b"), bytes.as_ref()] {
        let masks = Plan {
            masks: vec![path.into()],
            ..plan()
        };
        let tmp = Plan {
            tmp: path.into(),
            ..plan()
        };
        for plan in [masks, tmp] {
            assert!(refusal(&plan).reason.contains("no sandbox rule"));
        }
    }
}

#[test]
fn variables_that_act_before_the_sandbox_are_refused() {
    for name in ["DYLD_INSERT_LIBRARIES", "MallocLogFile"] {
        let plan = Plan {
            env: vec![(name.into(), "/Users/u/proj/x".into())],
            ..plan()
        };
        assert!(refusal(&plan).reason.contains(name));
    }
}

#[test]
fn an_empty_command_and_a_missing_program_are_refused() {
    let empty = Plan {
        argv: vec![],
        ..plan()
    };
    assert_eq!(refusal(&empty).reason, "the command is empty");
    let without = Seatbelt {
        program: None,
        ..seatbelt()
    };
    let reason = without.launch(&plan(), 9).unwrap_err().reason;
    assert!(reason.contains(SANDBOX_EXEC));
}
