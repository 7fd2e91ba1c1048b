use super::*;
use std::os::unix::fs::symlink as link;
use tempfile::TempDir;

const OURS: &str = concat!(
    "# ",
    "Written by `handsctl service install`, which replaces it. "
);

fn ours(rest: &str) -> String {
    format!("# {MARKER}\n{rest}\n")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

#[test]
fn the_marker_fits_both_formats() {
    assert!(MARKER.starts_with(OURS.trim_start_matches("# ")));
    assert!(!MARKER.contains("--") && !MARKER.contains('\n'));
}

#[test]
fn a_definition_is_written_once_and_read_by_all() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("new/folder/x.service");
    assert_eq!(presence(&path).unwrap(), Presence::Missing);
    assert!(write(&path, &ours("1"), Overwrite::OwnOnly).unwrap());
    assert_eq!(presence(&path).unwrap(), Presence::Ours);
    assert_eq!(mode(&path), 0o644);
    assert_eq!(mode(path.parent().unwrap()) & 0o077, 0);

    let before = fs::metadata(&path).unwrap().ino();
    assert!(!write(&path, &ours("1"), Overwrite::OwnOnly).unwrap());
    assert_eq!(
        fs::metadata(&path).unwrap().ino(),
        before,
        "the same text is not written again"
    );
    assert!(write(&path, &ours("2"), Overwrite::OwnOnly).unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap(), ours("2"));
    assert_eq!(
        fs::read_dir(path.parent().unwrap()).unwrap().count(),
        1,
        "nothing is left over"
    );
}

#[test]
fn a_foreign_file_is_kept_unless_forced() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.service");
    fs::write(&path, "[Service]\n").unwrap();
    let error = write(&path, &ours("1"), Overwrite::OwnOnly).unwrap_err();
    assert!(matches!(error, ServiceError::Foreign { .. }), "{error}");
    let error = remove(&path, Overwrite::OwnOnly).unwrap_err();
    assert!(matches!(error, ServiceError::Foreign { .. }), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "[Service]\n");

    assert!(write(&path, &ours("1"), Overwrite::Forced).unwrap());
    assert!(remove(&path, Overwrite::OwnOnly).unwrap());
    assert!(!remove(&path, Overwrite::OwnOnly).unwrap());
}

#[test]
fn a_symlink_is_refused_even_when_forced_and_its_target_left_alone() {
    let folder = TempDir::new().unwrap();
    let target = folder.path().join("target");
    let path = folder.path().join("x.service");
    for there in [true, false] {
        let _ = fs::remove_file(&path);
        if there {
            fs::write(&target, ours("of the target")).unwrap();
        } else {
            fs::remove_file(&target).unwrap();
        }
        link(&target, &path).unwrap();
        for overwrite in [Overwrite::OwnOnly, Overwrite::Forced] {
            let error = write(&path, &ours("1"), overwrite).unwrap_err();
            assert!(matches!(error, ServiceError::Symlink { .. }), "{error}");
            assert!(remove(&path, overwrite).is_err());
        }
        assert_eq!(target.exists(), there);
    }
}

#[test]
fn a_folder_that_is_a_link_or_open_to_others_is_refused() {
    let folder = TempDir::new().unwrap();
    let real = folder.path().join("real");
    fs::create_dir(&real).unwrap();
    let linked = folder.path().join("linked");
    link(&real, &linked).unwrap();
    let error = write(&linked.join("x"), &ours("1"), Overwrite::Forced).unwrap_err();
    assert!(error.to_string().contains("symlink"), "{error}");

    fs::set_permissions(&real, fs::Permissions::from_mode(0o775)).unwrap();
    let error = write(&real.join("x"), &ours("1"), Overwrite::Forced).unwrap_err();
    assert!(error.to_string().contains("chmod go-w"), "{error}");
    assert_eq!(fs::read_dir(&real).unwrap().count(), 0);

    // A link further up is where a person keeps their files.
    fs::set_permissions(&real, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(write(&linked.join("deeper/x"), &ours("1"), Overwrite::OwnOnly).unwrap());
}

#[test]
fn what_is_no_plain_file_is_refused_and_a_fifo_holds_nobody() {
    let folder = TempDir::new().unwrap();
    let fifo = folder.path().join("fifo");
    let made = std::process::Command::new("mkfifo")
        .arg(&fifo)
        .status()
        .unwrap();
    assert!(made.success());
    assert!(
        presence(&fifo)
            .unwrap_err()
            .to_string()
            .contains("no plain file")
    );
    assert!(presence(folder.path()).is_err());
}
