//! The lifecycle log and the fault log.

use crate::common::{Home, folders_in};
use hands_activity::{Lifecycle, install_panic_hook, read_faults, read_lifecycle, record_fault};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

const CHILD_HOME: &str = "HANDS_ACTIVITY_FAULT_HOME";

#[test]
fn lifecycle_lines_come_back() {
    let home = Home::new();
    let log = Lifecycle::open(&home.folders, "hands-mcp", "0.1.0").unwrap();
    log.note(
        "start",
        json!({"args": ["--standalone"], "token": "hidden value"}),
    )
    .unwrap();
    log.note("stop", Value::Null).unwrap();
    let text = std::fs::read_to_string(home.folders.lifecycle()).unwrap();
    assert_eq!(text.lines().count(), 2);
    assert!(!text.contains("hidden value"), "{text}");
    let notes = read_lifecycle(&home.folders, 10).unwrap();
    assert_eq!(notes[0].event, "start");
    assert_eq!(notes[0].detail["args"][0], "--standalone");
    assert_eq!(
        (notes[1].process.as_str(), notes[1].pid),
        ("hands-mcp", std::process::id())
    );
    assert_eq!(read_lifecycle(&home.folders, 1).unwrap(), notes[1..]);
    assert_eq!(read_lifecycle(&home.folders, 0).unwrap(), []);
}

#[test]
fn several_processes_write_lifecycle_lines_at_once() {
    let home = Home::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let log = Lifecycle::open(&home.folders, "p", "1").unwrap();
                for n in 0..100 {
                    log.note("tick", json!(n)).unwrap();
                }
            });
        }
    });
    assert_eq!(read_lifecycle(&home.folders, 1000).unwrap().len(), 400);
}

#[test]
fn faults_are_kept_one_by_one() {
    let home = Home::new();
    let path = home.folders.faults();
    record_fault(&path, "handsd", "first\n=== fault forged").unwrap();
    record_fault(&path, "handsd", "second").unwrap();
    let faults = read_faults(&home.folders, 5).unwrap();
    assert_eq!(faults.len(), 2, "{faults:#?}");
    assert!(faults[0].starts_with("=== fault ") && faults[0].contains("\n  first\n"));
    assert_eq!(read_faults(&home.folders, 1).unwrap(), faults[1..]);
}

/// Not a test by itself: the process that panics.
#[test]
fn child() {
    let Ok(home) = std::env::var(CHILD_HOME) else {
        return;
    };
    let folders = folders_in(Path::new(&home));
    install_panic_hook(&folders.faults(), "hands-test");
    let thread = std::thread::Builder::new().name("worker".into());
    let secret = format!("token=ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let joined = thread
        .spawn(move || panic!("out of luck, {secret}"))
        .unwrap()
        .join();
    assert!(joined.is_err());
}

#[test]
fn a_panic_goes_to_the_log_and_to_stderr_and_not_to_stdout() {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["lifecycle_and_faults::child", "--exact", "--nocapture"])
        .env(CHILD_HOME, dir.path())
        .output()
        .unwrap();
    assert!(output.status.success());
    let faults = read_faults(&folders_in(dir.path()), 5).unwrap();
    assert_eq!(faults.len(), 1);
    for part in [
        " hands-test pid ",
        "\"worker\"",
        "out of luck",
        "lifecycle_and_faults.rs",
        "backtrace:",
    ] {
        assert!(faults[0].contains(part), "{part}: {}", faults[0]);
    }
    assert!(!faults[0].contains("a1B2c3D4e5F6"), "{}", faults[0]);
    let (out, err) = (output.stdout, output.stderr);
    assert!(String::from_utf8_lossy(&err).contains("out of luck"));
    assert!(!String::from_utf8_lossy(&out).contains("out of luck"));
}
