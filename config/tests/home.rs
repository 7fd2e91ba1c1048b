//! Where the home is, and making it private.
#![allow(clippy::unwrap_used)] // Helpers of tests are not marked as tests.

use hands_config::{Env, Home, Presence};
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn the_flag_wins_over_the_variable() {
    let env = Env::of(&[("HANDS_HOME", "/srv/env/"), ("HOME", "/home/ann")]);
    let flag = PathBuf::from("/srv/flag");
    assert_eq!(
        Home::locate(&env, Some(&flag)).unwrap().root(),
        Path::new("/srv/flag")
    );
    let home = Home::locate(&env, None).unwrap();
    assert_eq!(home.root(), Path::new("/srv/env"));
    assert_eq!(home.config_file(), Path::new("/srv/env/config.toml"));
    assert_eq!(
        home.activity_log(),
        Path::new("/srv/env/logs/agent_activity.jsonl")
    );
}

#[test]
fn homes_that_cannot_be_are_refused() {
    for (value, message) in [
        (
            "rel",
            "environment variable HANDS_HOME: rel is not absolute; give the absolute path of a folder of its own",
        ),
        (
            "/",
            "environment variable HANDS_HOME: / cannot be the home of Hands; give the absolute path of a folder of its own",
        ),
        (
            "/home/ann/",
            "environment variable HANDS_HOME: /home/ann/ cannot be the home of Hands; give the absolute path of a folder of its own",
        ),
        (
            "/a/../b",
            "environment variable HANDS_HOME: /a/../b contains `..`; give the absolute path of a folder of its own",
        ),
    ] {
        let env = Env::of(&[("HANDS_HOME", value), ("HOME", "/home/ann")]);
        let error = Home::locate(&env, None).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn prepare_makes_private_folders_and_is_repeatable() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(dir.path().join("deep/home"));
    assert_eq!(home.inspect().unwrap(), Presence::Missing);
    assert!(home.prepare().unwrap().is_empty());
    for folder in [
        home.root().to_path_buf(),
        home.logs_dir(),
        home.trail_dir(),
        home.work_dir(),
        home.recovery_dir(),
        home.jobs_dir(),
        home.scratch_dir(),
        home.run_dir(),
    ] {
        assert_eq!(mode(&folder), 0o700, "{}", folder.display());
    }
    assert!(home.prepare().unwrap().is_empty());
    assert_eq!(home.inspect().unwrap(), Presence::Private);
}

#[test]
fn a_home_of_ours_that_is_open_is_tightened() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(dir.path().join("home"));
    home.prepare().unwrap();
    chmod(home.root(), 0o755);
    chmod(&home.run_dir(), 0o777);
    assert_eq!(home.inspect().unwrap(), Presence::OpenToOthers);
    let notes = home.prepare().unwrap();
    assert!(notes[0].contains("its mode is 0700 now"), "{notes:?}");
    assert_eq!(mode(home.root()), 0o700);
    assert_eq!(mode(&home.run_dir()), 0o700);
}

#[test]
fn an_open_folder_with_other_things_in_it_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("shared");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("report.txt"), "x").unwrap();
    chmod(&root, 0o755);
    let error = Home::at(&root).prepare().unwrap_err().to_string();
    assert!(
        error.contains("is open to others (mode 0755) and holds other things"),
        "{error}"
    );
    assert_eq!(mode(&root), 0o755);
    assert!(!root.join("logs").exists());
}

#[test]
fn a_link_is_followed_unless_others_may_write_where_it_leads() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("target");
    std::fs::create_dir(&target).unwrap();
    chmod(&target, 0o700);
    let link = dir.path().join("link");
    symlink(&target, &link).unwrap();
    Home::at(&link).prepare().unwrap();
    assert!(target.join("logs").is_dir());

    let open = dir.path().join("open");
    std::fs::create_dir_all(open.join("home")).unwrap();
    chmod(&open, 0o777);
    let link = dir.path().join("link2");
    symlink(open.join("home"), &link).unwrap();
    let error = Home::at(&link).prepare().unwrap_err().to_string();
    assert!(error.contains("may be written by others"), "{error}");
    assert!(!open.join("home/logs").exists());
}

#[test]
fn a_dangling_link_a_file_and_a_linked_folder_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("link");
    symlink(dir.path().join("missing"), &link).unwrap();
    let error = Home::at(&link).prepare().unwrap_err().to_string();
    assert!(error.contains("target cannot be found"), "{error}");

    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = Home::at(&file).prepare().unwrap_err().to_string();
    assert!(error.contains("is not a folder"), "{error}");

    let home = dir.path().join("home");
    std::fs::create_dir(&home).unwrap();
    chmod(&home, 0o700);
    symlink(dir.path(), home.join("logs")).unwrap();
    let error = Home::at(&home).prepare().unwrap_err().to_string();
    assert!(
        error.contains("its folder logs is not a folder (a link is not accepted)"),
        "{error}"
    );
}

#[test]
fn a_home_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        // Only root can give a folder away; a folder of root's serves everyone else.
        let error = Home::at("/usr/share").prepare().unwrap_err().to_string();
        assert!(error.contains("belongs to user 0"), "{error}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("home");
    std::fs::create_dir(&root).unwrap();
    std::os::unix::fs::chown(&root, Some(12345), None).unwrap();
    let error = Home::at(&root).prepare().unwrap_err().to_string();
    assert!(error.contains("belongs to user 12345"), "{error}");
}
