//! What killed processes leave.

use super::*;
use crate::fsx::Temp;
use std::os::fd::AsFd;
use std::time::{Duration, SystemTime};

/// Dates a file back.
fn set_age(path: &Path, age: Duration) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - age).unwrap();
}

#[test]
fn a_half_written_file_is_cleared_when_its_writer_is_gone() {
    let (_dir, recovery) = open(100);
    let day = recovery.day().unwrap();
    let at_work = Temp::in_dir(&day).unwrap();
    let left = fsx::temp_path(&day);
    fs::write(&left, b"half").unwrap();
    assert_eq!(recovery.list().unwrap(), [], "neither is an entry");
    Recovery::open(&recovery.given, recovery.limits).unwrap();
    assert!(!left.exists() && at_work.path().exists());
    fs::write(&left, b"half").unwrap();
    Recovery::open_briefly(&recovery.given, recovery.limits).unwrap();
    assert!(!left.exists() && at_work.path().exists());
    // Looking changes nothing.
    fs::write(&left, b"half").unwrap();
    Recovery::look(&recovery.given, recovery.limits).unwrap();
    assert!(left.exists());
    assert_eq!(recovery.settle(Duration::ZERO).unwrap().cleared, 1);
    assert!(!left.exists());
}

#[test]
fn a_record_without_a_content_is_no_entry_and_goes_when_it_is_old() {
    let (_dir, recovery) = open(100);
    let path = recovery.reserve(1, "t", "output.txt", "spill").unwrap();
    let record = names::meta_path(&path);
    recovery.settle(Duration::ZERO).unwrap();
    assert!(record.exists(), "somebody may be about to use it");
    set_age(&record, Duration::from_secs(2 * 3600));
    assert_eq!(recovery.settle(Duration::ZERO).unwrap().cleared, 1);
    assert!(!record.exists());
    // With its content it stays, whatever its age.
    let entry = recovery.store_bytes(b"x", None, "t", "x", "").unwrap();
    set_age(&names::meta_path(&entry.path), Duration::from_secs(1 << 30));
    assert_eq!(recovery.settle(Duration::ZERO).unwrap(), Settled::default());
    assert_eq!(recovery.list().unwrap(), [entry]);
}

/// A file, and where it lies between its replacement and the move.
fn replaced() -> (tempfile::TempDir, Recovery, PathBuf, PathBuf) {
    let (dir, recovery) = open(100);
    let root = fs::canonicalize(dir.path()).unwrap();
    let (origin, between) = (root.join("notes.md"), root.join("sedXYZ"));
    fs::write(&origin, "old").unwrap();
    let folder = File::open(&root).unwrap();
    let place = (folder.as_fd(), OsStr::new("notes.md"));
    let announced = recovery
        .announce(place, &origin, Some(&between), "t", "replaced")
        .unwrap();
    // The announcing process is killed.
    std::mem::forget(announced);
    (dir, recovery, origin, between)
}

#[test]
fn a_file_that_was_replaced_and_not_yet_moved_becomes_an_entry() {
    let (_dir, recovery, origin, between) = replaced();
    fs::rename(&origin, &between).unwrap();
    fs::write(&origin, "new").unwrap();
    assert_eq!(recovery.list().unwrap(), []);
    Recovery::open(&recovery.given, recovery.limits).unwrap();
    assert!(between.exists(), "its mover may be at work");
    let settled = recovery.settle(Duration::ZERO).unwrap();
    assert_eq!((settled.kept, settled.cleared), (1, 0));
    let all = recovery.list().unwrap();
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].origin.as_deref(), Some(origin.as_path()));
    assert_eq!(fs::read(&all[0].path).unwrap(), b"old");
    assert!(!between.exists());
    assert_eq!(fs::read(&origin).unwrap(), b"new");
}

#[test]
fn a_file_that_was_not_replaced_after_all_stays_where_it_is() {
    let (_dir, recovery, origin, between) = replaced();
    // What was to take its place lies there still.
    fs::write(&between, "new").unwrap();
    let settled = recovery.settle(Duration::ZERO).unwrap();
    assert_eq!((settled.kept, settled.cleared), (0, 1));
    assert_eq!(fs::read(&origin).unwrap(), b"old");
    assert_eq!(fs::read(&between).unwrap(), b"new");
    assert!(names(&recovery).is_empty());
}

#[test]
fn a_link_on_the_way_to_such_a_file_is_not_followed() {
    let (dir, recovery, origin, between) = replaced();
    let elsewhere = tempfile::tempdir_in(dir.path()).unwrap();
    fs::rename(&origin, elsewhere.path().join("sedXYZ")).unwrap();
    std::os::unix::fs::symlink(elsewhere.path().join("sedXYZ"), &between).unwrap();
    let settled = recovery.settle(Duration::ZERO).unwrap();
    assert_eq!((settled.kept, settled.cleared), (0, 1));
    assert!(elsewhere.path().join("sedXYZ").exists() && between.is_symlink());
}

#[test]
fn what_turns_out_to_be_a_folder_keeps_its_name() {
    let (dir, recovery) = open(100);
    let root = fs::canonicalize(dir.path()).unwrap();
    let origin = root.join("f");
    fs::write(&origin, "old").unwrap();
    let folder = File::open(&root).unwrap();
    let place = (folder.as_fd(), OsStr::new("f"));
    let announced = recovery.announce(place, &origin, None, "t", "").unwrap();
    fs::remove_file(&origin).unwrap();
    fs::create_dir(&origin).unwrap();
    fs::write(origin.join("inside"), "old").unwrap();
    let done = recovery.complete(announced, folder.as_fd(), OsStr::new("f"));
    assert!(
        matches!(done, Err(RecoveryError::NotAFile { .. })),
        "{done:?}"
    );
    assert!(origin.join("inside").exists());
    assert_eq!(recovery.survey().unwrap(), (vec![], vec![]));
}

#[test]
fn an_announcement_that_came_to_nothing_leaves_no_record() {
    let (dir, recovery) = open(100);
    let origin = dir.path().join("a");
    fs::write(&origin, "x").unwrap();
    let folder = File::open(dir.path()).unwrap();
    let place = (folder.as_fd(), OsStr::new("a"));
    let announced = recovery.announce(place, &origin, None, "t", "");
    drop(announced.unwrap());
    assert!(names(&recovery).is_empty() && origin.exists());
}
