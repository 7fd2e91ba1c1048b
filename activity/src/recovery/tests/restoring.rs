//! Putting entries back.

use super::*;
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

/// A recovery folder, and a folder of the person's beside it, both without links on the way.
fn place() -> (tempfile::TempDir, Recovery, PathBuf) {
    let (dir, recovery) = open(1 << 20);
    let home = fs::canonicalize(dir.path()).unwrap().join("home");
    fs::create_dir(&home).unwrap();
    (dir, recovery, home)
}

/// Keeps a file, as a tool does before it changes it.
fn keep(recovery: &Recovery, path: &Path) -> Entry {
    let file = File::open(path).unwrap();
    recovery.store_file(&file, path, "t", "changed").unwrap()
}

#[test]
fn a_file_comes_back_with_its_permissions_and_its_time() {
    let (_dir, recovery, home) = place();
    let path = home.join("a/b/run.sh");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
    let then = SystemTime::UNIX_EPOCH + Duration::new(1_600_000_000, 123_456_789);
    let file = File::options().write(true).open(&path).unwrap();
    file.set_modified(then).unwrap();
    let entry = keep(&recovery, &path);
    assert_eq!(entry.mode, Some(0o751));
    fs::remove_dir_all(home.join("a")).unwrap();
    let done = recovery.restore(&entry, &path, "r").unwrap();
    assert_eq!(done, Restored::Created);
    let info = fs::metadata(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(info.permissions().mode() & 0o7777, 0o751);
    assert_eq!(info.modified().unwrap(), then);
    let again = recovery.restore(&entry, &path, "r").unwrap();
    assert_eq!(again, Restored::Unchanged);
    assert_eq!(recovery.list().unwrap().len(), 1);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn what_is_replaced_is_kept_first_whatever_its_size() {
    let (_dir, recovery, home) = place();
    let path = home.join("a.md");
    fs::write(&path, "old").unwrap();
    let entry = keep(&recovery, &path);
    let newer = vec![b'n'; (1 << 20) + 1];
    fs::write(&path, &newer).unwrap();
    let done = recovery.restore(&entry, &path, "r-1").unwrap();
    let Restored::Replaced(kept) = done else {
        panic!("{done:?}");
    };
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(fs::read(&kept.path).unwrap(), newer);
    assert_eq!(
        (kept.turn_id.as_str(), kept.origin.as_deref()),
        ("r-1", Some(&*path))
    );
    assert_eq!(fs::read_dir(&home).unwrap().count(), 1, "nothing is left");
    let back = recovery.restore(&kept, &path, "r-2").unwrap();
    assert!(matches!(back, Restored::Replaced(_)));
    assert_eq!(fs::read(&path).unwrap(), newer);
}

#[test]
fn what_cannot_be_kept_is_not_replaced() {
    let (_dir, recovery, home) = place();
    let path = home.join("a.md");
    fs::write(&path, "old").unwrap();
    let entry = keep(&recovery, &path);
    fs::write(&path, "newer than that").unwrap();
    let limits = RecoveryLimits {
        max_total_bytes: 5,
        ..recovery.limits
    };
    let full = Recovery::open(&recovery.given, limits).unwrap();
    let refused = full.restore(&entry, &path, "r");
    assert!(matches!(refused, Err(RecoveryError::Full { .. })));
    assert_eq!(fs::read(&path).unwrap(), b"newer than that");
    assert_eq!(fs::read_dir(&home).unwrap().count(), 1, "nothing is left");
}

#[test]
fn a_link_that_was_planted_leads_nowhere() {
    let (_dir, recovery, home) = place();
    let (path, secret) = (home.join("d/key"), home.join("secret"));
    fs::create_dir(home.join("d")).unwrap();
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("key"), "secret").unwrap();
    fs::write(&path, "old").unwrap();
    let entry = keep(&recovery, &path);
    // On the way: refused.
    fs::rename(home.join("d"), home.join("moved")).unwrap();
    symlink(&secret, home.join("d")).unwrap();
    let refused = recovery.restore(&entry, &path, "r").unwrap_err();
    assert!(
        refused.to_string().contains("is a symbolic link to"),
        "{refused}"
    );
    assert!(matches!(Now::at(&path), Err(RecoveryError::Place { .. })));
    for wrong in ["relative", "/a/../b", "/"] {
        assert!(recovery.restore(&entry, Path::new(wrong), "r").is_err());
    }
    // At the end: the link itself is kept and replaced.
    let at_end = home.join("link");
    symlink(secret.join("key"), &at_end).unwrap();
    let done = recovery.restore(&entry, &at_end, "r").unwrap();
    let Restored::Replaced(kept) = done else {
        panic!("{done:?}");
    };
    assert_eq!(kept.kind, Kind::Symlink);
    assert!(!at_end.is_symlink());
    assert_eq!(fs::read(&at_end).unwrap(), b"old");
    assert_eq!(fs::read(secret.join("key")).unwrap(), b"secret");
    assert_eq!(fs::read_dir(&secret).unwrap().count(), 1);
    // And the link comes back as a link.
    recovery.restore(&kept, &at_end, "r").unwrap();
    assert_eq!(fs::read_link(&at_end).unwrap(), secret.join("key"));
    let again = recovery.restore(&kept, &at_end, "r").unwrap();
    assert_eq!(again, Restored::Unchanged);
}

#[test]
fn a_folder_or_a_pipe_in_the_way_stays() {
    let (_dir, recovery, home) = place();
    let path = home.join("a");
    fs::write(&path, "old").unwrap();
    let entry = keep(&recovery, &path);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    fs::write(path.join("inside"), "x").unwrap();
    let refused = recovery.restore(&entry, &path, "r").unwrap_err();
    assert!(
        refused.to_string().contains("a folder is there"),
        "{refused}"
    );
    assert!(path.join("inside").exists());
    let pipe = home.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    assert!(recovery.restore(&entry, &pipe, "r").is_err());
    assert!(matches!(Now::at(&pipe), Ok(Now::Other)));
    assert_eq!(fs::read_dir(&home).unwrap().count(), 2, "nothing is left");
}

#[test]
fn a_damaged_content_is_not_put_back() {
    let (_dir, recovery, home) = place();
    let path = home.join("a");
    fs::write(&path, "old").unwrap();
    let entry = keep(&recovery, &path);
    fs::write(&entry.path, "odd").unwrap();
    fs::write(&path, "new").unwrap();
    let refused = recovery.restore(&entry, &path, "r");
    assert!(matches!(refused, Err(RecoveryError::Damaged { .. })));
    let checked = recovery.check(&entry);
    assert!(matches!(checked, Err(RecoveryError::Damaged { .. })));
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(fs::read_dir(&home).unwrap().count(), 1, "nothing is left");
}

#[test]
fn a_folder_comes_back_with_its_permissions() {
    let (_dir, recovery, home) = place();
    let path = home.join("d");
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o2710)).unwrap();
    let folder = File::open(&path).unwrap();
    let entry = recovery.store_folder(folder.as_fd(), &path, "t", "removed by git");
    let entry = entry.unwrap();
    assert_eq!(
        (entry.kind, entry.bytes, entry.mode),
        (Kind::Folder, 0, Some(0o2710))
    );
    assert_eq!(recovery.list().unwrap(), std::slice::from_ref(&entry));
    fs::remove_dir(&path).unwrap();
    assert_eq!(
        recovery.restore(&entry, &path, "r").unwrap(),
        Restored::Created
    );
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o2710);
    assert_eq!(
        recovery.restore(&entry, &path, "r").unwrap(),
        Restored::Unchanged
    );
}

#[test]
fn a_moved_file_that_nobody_may_read_can_be_had_back() {
    let (_dir, recovery, home) = place();
    let path = home.join("locked");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    let folder = File::open(&home).unwrap();
    let name = OsStr::new("locked");
    let entry = recovery.adopt(folder.as_fd(), name, &path, "t", "replaced");
    let entry = entry.unwrap();
    assert_eq!((entry.mode, &entry.sha256), (Some(0), &None));
    recovery.restore(&entry, &path, "r").unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old");
}

#[test]
fn a_session_stands_in_the_record_and_an_origin_never_gets_lost() {
    let (_dir, recovery, home) = place();
    let path = home.join("a");
    fs::write(&path, "old").unwrap();
    let entry = keep(&recovery.for_session("s-9"), &path);
    assert_eq!(entry.session_id.as_deref(), Some("s-9"));
    let record = names::meta_path(&entry.path);
    let text = fs::read_to_string(&record).unwrap();
    // A record of a file that does not say which one is no record of an output.
    let without = text.replace(&format!("\"{}\"", path.display()), "null");
    assert_ne!(text, without);
    fs::write(&record, without).unwrap();
    assert_eq!(recovery.origin_of(&entry.path), None);
}
