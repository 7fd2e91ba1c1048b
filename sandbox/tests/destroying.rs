//! Command lines that destroy a file: half of a list. Each starts in a fresh workspace that holds
//! `v` (precious text), `o`, `d/e` and `emptyd/`; `$G` is a repository elsewhere in which `v` is
//! committed. Afterwards the disk is looked at, not what the command said.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::World;
use common::lines::{FROM_THE_LIST, LINES};
use hands_sandbox::Mode;

const PRECIOUS: &str = "precious\n";

/// How those of the list begin that write into the file itself.
const OVERWRITING: &[&str] = &[
    "cp o v",
    "echo x >| v",
    "truncate",
    "dd ",
    "shred",
    "sort",
    "curl",
    "printf '1,$d",
    "openssl",
    "python3 -c 'import mmap",
    "fallocate",
];

fn world() -> World {
    let world = World::new();
    for (name, content) in [("v", PRECIOUS), ("o", "other\n"), ("d/e", "deep\n")] {
        world.write(name, content);
    }
    std::fs::create_dir(world.at("emptyd")).unwrap();
    world.person(
        "mkdir $G; cp v $G; cd $G; git init -q .; git add v; git -c user.name=a \
         -c user.email=a@b commit -qm 1",
    );

    world
}

/// Whether each old content is still in the workspace or in the recovery folder.
fn lost(world: &World) -> Vec<&'static str> {
    let all = [PRECIOUS, "other\n", "deep\n"];
    let there = |content: &&str| world.holds(content) || world.has_kept(content);
    all.into_iter().filter(|content| !there(content)).collect()
}

fn try_all(mode: Mode, intact: impl Fn(&World) -> Vec<&'static str>) {
    let mut failed = Vec::new();
    for line in LINES {
        let mut world = world();
        world.plan.mode = mode;
        let ran = world.run(line);
        let lost = intact(&world);
        if !lost.is_empty() {
            failed.push(format!("{line}\n  lost {lost:?}; said {}", ran.out));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn nothing_is_lost_in_default_mode() {
    try_all(Mode::Default, lost);
}

#[test]
fn nothing_is_lost_in_strict_mode() {
    try_all(Mode::Strict, |world| {
        let mut lost = lost(world);
        let entries = ["v", "o", "d/e", "emptyd"];
        lost.extend(entries.iter().filter(|name| !world.at(name).exists()));
        lost
    });
}

#[test]
fn nothing_changes_in_read_only_mode() {
    try_all(Mode::ReadOnly, |world| {
        let same =
            |(name, content): &(&'static str, &str)| world.read(name).as_deref() == Some(*content);
        let all = [("v", PRECIOUS), ("o", "other\n"), ("d/e", "deep\n")];
        let mut changed: Vec<&str> = all.into_iter().filter(|e| !same(e)).map(|e| e.0).collect();
        if std::fs::read_dir(world.root.join("ws")).unwrap().count() != 4 {
            changed.push("the folder");
        }
        changed
    });
}

/// Plain removal is refused, not only made up for.
#[test]
fn what_only_removes_leaves_the_file_in_place() {
    let makes_up = [
        "git ",
        "install",
        "ln ",
        "tar",
        "rsync",
        "vim",
        "mv v",
        "target",
        "busybox c",
    ];
    for line in LINES.iter().filter(|line| line.contains("rm v")) {
        if makes_up.iter().any(|word| line.contains(word)) {
            continue;
        }
        let world = world();
        let ran = world.run(line);
        let kept = world.read("v").is_some();
        assert!(kept, "{line}: {}", ran.out);
    }
}

/// The layers one by one, with the command check off: without the broker nothing is removed, and
/// what is overwritten is gone.
#[test]
fn without_the_broker_only_what_is_overwritten_is_lost() {
    if common::walls() == hands_sandbox::Walls::Reduced {
        // Nothing runs then.
        return;
    }
    let mut lines_lost = Vec::new();
    for line in LINES.iter().take(FROM_THE_LIST) {
        let mut world = world();
        world.plan.guard = None;
        world.run(line);
        for name in ["v", "o", "d/e", "emptyd"] {
            assert!(world.at(name).exists(), "{line}: {name} is gone");
        }
        if !lost(&world).is_empty() {
            lines_lost.push(*line);
        }
    }
    let overwrites = |line: &&str| OVERWRITING.iter().any(|begin| line.starts_with(begin));
    assert!(lines_lost.iter().all(overwrites), "{lines_lost:?}");
    assert!(!lines_lost.is_empty() && lines_lost.len() <= OVERWRITING.len());
}
