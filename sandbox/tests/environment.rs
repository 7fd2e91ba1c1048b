//! The environment that a planner asks for reaches the command, and nothing outside the sandbox.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic)]

use hands_sandbox::{Frame, Mode, Network, Plan, Request, decode_bytes};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

fn runner() -> std::path::PathBuf {
    match std::env::var_os("HANDS_TEST_BIN_DIR") {
        Some(folder) => Path::new(&folder).join("hands-runner"),
        None => env!("CARGO_BIN_EXE_hands-runner").into(),
    }
}

/// Runs a command line with this environment and gives its standard output and error.
fn run(folder: &Path, command: &str, env: &[(&str, &str)]) -> (String, String) {
    for name in ["ws", "tmp"] {
        std::fs::create_dir_all(folder.join(name)).unwrap();
    }
    let request = Request {
        plan: Plan {
            argv: vec!["/bin/bash".into(), "-c".into(), command.into()],
            cwd: folder.join("ws"),
            env: env
                .iter()
                .map(|(k, v)| (k.to_string(), v.to_string()))
                .collect(),
            workspaces: vec![folder.join("ws")],
            extra_write: vec![],
            closed: vec![],
            shallow: vec![],
            resources: hands_sandbox::Resources::default(),
            tmp: folder.join("tmp"),
            masks: vec![],
            sealed: vec![],
            mode: Mode::Default,
            walls: hands_sandbox::Walls::Whole,
            network: Network::On,
            guard: None,
        },
        stdin: None,
        timeout_ms: 20_000,
        grace_ms: 100,
        head_bytes: 60_000,
        tail_bytes: 60_000,
        spill: None,
        spill_max_bytes: 0,
        progress: false,
    };
    let mut child = Command::new(runner())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{}", serde_json::to_string(&request).unwrap()).unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    drop(stdin);
    child.wait().unwrap();
    let text = |field: &str| {
        let bytes = decode_bytes(field).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    match serde_json::from_str(&line).unwrap() {
        Frame::Done(done) => (text(&done.stdout.head), text(&done.stderr.head)),
        other => panic!("{other:?}"),
    }
}

/// The dynamic linker complains once for each program that is started with a preload it cannot
/// find. Only the command may be: whatever is loaded into the sandbox's own programs runs
/// before there is a sandbox.
#[test]
fn a_preload_is_obeyed_by_the_command_alone() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let (out, err) = run(&folder, ":", &[("LD_PRELOAD", "/no/such/library.so")]);
    assert_eq!(out, "");
    assert_eq!(err.matches("/no/such/library.so").count(), 1, "{err}");
}

#[test]
fn the_command_has_this_environment_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let (out, _) = run(
        &folder,
        "env | sort",
        &[("PATH", "/usr/bin:/bin"), ("A", "b c")],
    );
    let names: Vec<&str> = out.lines().filter_map(|l| l.split('=').next()).collect();
    // bash itself adds these.
    assert_eq!(names, ["A", "PATH", "PWD", "SHLVL", "_"], "{out}");
    assert!(out.contains("A=b c\n"));
}
