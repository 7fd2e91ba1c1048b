//! A runner that is killed in the middle of its work: nothing is lost, and what it left is put
//! right.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::World;
use hands_activity::{Recovery, RecoveryLimits};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Kills that are tried until one leaves a file under a name for a moment.
const TRIES: usize = 300;

/// Starts a command and kills its runner once it has removed something.
fn kill_at_work(world: &World, command: &str) {
    let mut runner = Command::new(common::program())
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = runner.stdin.take().unwrap();
    let request = serde_json::to_string(&world.request(command)).unwrap();
    writeln!(stdin, "{request}").unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while !world.at("begun").exists() {
        assert!(Instant::now() < until, "the command did not begin");
        std::thread::sleep(Duration::from_millis(1));
    }
    runner.kill().unwrap();
    runner.wait().unwrap();
    // Its command goes with it.
    while !hands_testkit::running_in(&world.root).is_empty() {
        assert!(Instant::now() < until, "something is left running");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn names(folder: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(folder).unwrap().flatten();
    all.map(|entry| entry.path()).collect()
}

fn is_aside(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_string_lossy();
    name.starts_with(".hands-aside-")
}

#[test]
fn a_file_that_was_about_to_go_gets_its_name_back() {
    let world = World::in_memory();
    let line = "perl -e 'for my $n (1..1000000) { \
                open(my $f, \">\", \"n$n\"); print $f \"n$n\"; close $f; unlink \"n$n\"; \
                if ($n == 50) { open(my $b, \">\", \"begun\") } }'";
    let mut left = 0;
    for _ in 0..TRIES {
        kill_at_work(&world, line);
        std::fs::remove_file(world.at("begun")).unwrap();
        let asides: Vec<PathBuf> = names(&world.root.join("ws"))
            .into_iter()
            .filter(|p| is_aside(p))
            .collect();
        let contents: Vec<Vec<u8>> = asides
            .iter()
            .map(|path| std::fs::read(path).unwrap())
            .collect();
        let recovery = Recovery::open(&world.root.join("recovery"), RecoveryLimits::default());
        let settled = recovery.unwrap().settle_asides();
        assert!(settled.found.is_empty(), "{settled:?}");
        assert_eq!(settled.put_back.len(), asides.len(), "{settled:?}");
        for (path, content) in settled.put_back.iter().zip(contents) {
            let name = path.file_name().unwrap().as_encoded_bytes();
            assert_eq!(name, content, "{}", path.display());
            assert_eq!(std::fs::read(path).unwrap(), content);
            left += 1;
        }
        for path in names(&world.root.join("ws")) {
            assert!(!is_aside(&path), "{}", path.display());
            std::fs::remove_file(path).unwrap();
        }
        if left > 1 {
            let notes = names(&world.root.join("recovery/asides"));
            assert!(notes.is_empty(), "{notes:?}");
            return;
        }
    }
    panic!("in {TRIES} kills none came at that moment");
}
