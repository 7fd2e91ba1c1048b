//! Many files in one call.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::World;
use std::io::Write;
use std::process::{Command, Stdio};

const FOLDERS: usize = 400;

/// A runner with fewer descriptors than there are files.
fn run_with_few_descriptors(world: &World, line: &str) {
    let mut child = Command::new("/bin/bash")
        .args(["-c", "ulimit -n 384; exec \"$0\""])
        .arg(common::program())
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let request = serde_json::to_string(&world.request(line)).unwrap();
    writeln!(stdin, "{request}").unwrap();
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("\"exit\":0"), "{said}");
}

#[test]
fn files_written_anew_need_no_descriptor_each() {
    let world = World::in_memory();
    world.person(&format!(
        "for n in $(seq {FOLDERS}); do mkdir $n; echo old $n > $n/f; echo gone $n > $n/g; done
         tar cf ../tmp/t.tar --exclude g [0-9]*"
    ));
    // What has no successor comes back, also where the folder is not held open.
    run_with_few_descriptors(
        &world,
        "tar xf $TMPDIR/t.tar && tar cf $TMPDIR/g.tar --remove-files */g && touch a && rm a",
    );
    for number in 1..=FOLDERS {
        let is = |name: &str| world.read(&format!("{number}/{name}"));
        assert_eq!(is("f"), Some(format!("old {number}\n")));
        assert_eq!(is("g"), Some(format!("gone {number}\n")));
    }
}
