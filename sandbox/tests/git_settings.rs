//! What makes git run something in submodules and further working trees, whatever these are called.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::World;

/// A repository with the directories of submodules of these names, and of working trees.
fn world(names: &[&str]) -> World {
    let world = World::new();
    world.write("f", "f\n");
    world.commit_all();
    for name in names {
        world.person(&format!(
            "git init -q --bare .git/modules/{name}; mkdir -p sub-{name}
             echo 'gitdir: ../.git/modules/{name}' > sub-{name}/.git
             git worktree add -q -b t-{name} ../trees/{name}"
        ));
    }
    world
}

#[test]
fn submodules_and_working_trees_keep_their_settings_whatever_their_names() {
    for name in ["m", "objects", "refs", "logs", "lfs"] {
        let world = world(&[name]);
        let before = world.read(&format!(".git/modules/{name}/config")).unwrap();
        let ran = world.run(&format!(
            "cd .git/modules/{name}; echo evil >> config; echo evil > c; mv -f c config; ln c config.worktree
             echo evil > hooks/post-commit; echo evil > info/attributes; mv hooks h2; mv config c2
             cd ../../..; git init -q --bare e; echo evil >> e/config; mv .git/modules/{name} .git/m2
             mv -T e .git/modules/{name}; mv .git/modules .git/m3; mkdir .git/modules
             cd .git/worktrees/{name} && echo evil > commondir; echo evil > config.worktree; cd ..
             mv {name} x; mkdir {name}; echo evil > {name}/commondir; cd ..; mv worktrees w2; rm -rf worktrees"
        ));
        let at = |rest: &str| world.at(&format!(".git/modules/{name}/{rest}"));
        let config = world.read(&format!(".git/modules/{name}/config"));
        assert_eq!(
            config.as_deref(),
            Some(before.as_str()),
            "{name}: {}",
            ran.out
        );
        for made in ["config.worktree", "hooks/post-commit", "info/attributes"] {
            assert!(!at(made).exists(), "{name}: {made}: {}", ran.out);
        }
        assert!(at("hooks").is_dir(), "{name}: {}", ran.out);
        let common = world.read(&format!(".git/worktrees/{name}/commondir"));
        assert_eq!(common.as_deref(), Some("../..\n"), "{name}: {}", ran.out);
        assert!(
            !world
                .at(&format!(".git/worktrees/{name}/config.worktree"))
                .exists()
        );
    }
}

#[test]
fn branches_of_such_names_are_ordinary_work() {
    let world = world(&[]);
    let ran = world.run(
        "for name in hooks config modules x/config hooks2/x worktrees/t; do
             git branch $name && git branch -d -q $name || echo missed $name
         done; git switch -qc config && git switch -q main && git branch -qd config && echo well",
    );
    let well = ran.out.contains("well\n") && !ran.out.contains("missed");
    assert!(well, "{} {:?}", ran.out, ran.done.guarded.refused);
}

/// A file that a broker has set aside for a moment is nobody else's.
#[test]
fn the_names_that_a_broker_gives_are_its_own() {
    let world = world(&[]);
    let ran = world.run(
        "echo x > .hands-aside-1-1; mkdir .hands-aside-2-2; mv f .hands-aside-3-3; ln f .hands-aside-4-4
         ls -A | grep aside; echo well",
    );
    assert!(
        ran.out.ends_with("well\n") && !ran.out.contains("\n.hands"),
        "{}",
        ran.out
    );
    assert_eq!(world.read("f").as_deref(), Some("f\n"));
}
