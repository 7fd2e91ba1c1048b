mod leftovers;
mod restoring;
mod rotation;

use super::*;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

fn open(limit: u64) -> (tempfile::TempDir, Recovery) {
    let dir = tempfile::tempdir().unwrap();
    let limits = RecoveryLimits {
        max_file_bytes: limit,
        ..RecoveryLimits::default()
    };
    let recovery = Recovery::open(&dir.path().join("work/recovery"), limits).unwrap();
    (dir, recovery)
}

fn names(recovery: &Recovery) -> Vec<String> {
    let name = |item: io::Result<fs::DirEntry>| item.unwrap().file_name().into_string().unwrap();
    let all = recovery.days().unwrap();
    let mut names: Vec<_> = all
        .iter()
        .flat_map(|d| fs::read_dir(d).unwrap())
        .map(name)
        .collect();
    names.sort();
    names
}

#[test]
fn a_file_is_kept_byte_for_byte() {
    let (dir, recovery) = open(1 << 20);
    let origin = dir.path().join("plan é.md");
    let content: Vec<u8> = (0..COPY_BLOCK * 2 + 3).map(|n| (n % 251) as u8).collect();
    fs::write(&origin, &content).unwrap();
    let mut source = File::open(&origin).unwrap();
    source.seek(SeekFrom::Start(5)).unwrap();
    let entry = recovery
        .store_file(&source, &origin, "t1", "overwrite")
        .unwrap();
    assert_eq!(fs::read(&entry.path).unwrap(), content);
    assert_eq!(entry.bytes, content.len() as u64);
    assert_eq!(entry.sha256, Some(hex(&Sha256::digest(&content))));
    assert_eq!(entry.origin.as_deref(), Some(origin.as_path()));
    let mut rest = Vec::new();
    source.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, content[5..], "the caller's offset is where it was");
    let mode = fs::metadata(&entry.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(
        names(&recovery),
        ["t1-1-plan_é.md", "t1-1-plan_é.md.meta.json"]
    );
    assert_eq!(recovery.list().unwrap(), std::slice::from_ref(&entry));
    assert_eq!(recovery.origin_of(&entry.path), Some(Some(origin)));
}

#[test]
fn output_has_no_origin() {
    let (_dir, recovery) = open(100);
    let entry = recovery
        .store_bytes(b"\xff\x00out", None, "t", "stdout.txt", "cut")
        .unwrap();
    assert_eq!(fs::read(&entry.path).unwrap(), b"\xff\x00out");
    assert_eq!(recovery.origin_of(&entry.path), Some(None));
    assert_eq!(recovery.list().unwrap(), [entry]);
}

#[test]
fn one_turn_has_many_files() {
    let (_dir, recovery) = open(100);
    let again = recovery.clone();
    let store = |recovery: &Recovery| -> Vec<PathBuf> {
        let one = |n: u8| recovery.store_bytes(&[n], None, "t", "x", "").unwrap().path;
        (0..20).map(one).collect()
    };
    let mut paths: Vec<PathBuf> = std::thread::scope(|scope| {
        let threads = [
            scope.spawn(|| store(&recovery)),
            scope.spawn(|| store(&again)),
        ];
        let joined = threads.into_iter().map(|t| t.join().unwrap());
        joined.flatten().collect()
    });
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), 40);
    assert_eq!(recovery.list().unwrap().len(), 40);
}

#[test]
fn what_is_too_large_is_refused_and_leaves_nothing() {
    let (dir, recovery) = open(10);
    let origin = dir.path().join("big");
    fs::write(&origin, [0; 11]).unwrap();
    let source = File::open(&origin).unwrap();
    let error = recovery.store_file(&source, &origin, "t", "").unwrap_err();
    assert!(
        error.to_string().contains("limits.recovery_file_bytes"),
        "{error}"
    );
    assert!(matches!(
        error,
        RecoveryError::TooLarge {
            bytes: 11,
            limit: 10,
            ..
        }
    ));
    assert!(recovery.store_bytes(&[0; 11], None, "t", "x", "").is_err());
    assert!(recovery.store_bytes(&[0; 10], None, "u", "x", "").is_ok());
    assert_eq!(names(&recovery), ["u-1-x", "u-1-x.meta.json"]);
}

#[test]
fn a_folder_is_no_file() {
    let (dir, recovery) = open(10);
    let source = File::open(dir.path()).unwrap();
    let error = recovery
        .store_file(&source, dir.path(), "t", "")
        .unwrap_err();
    assert!(matches!(error, RecoveryError::NotAFile { .. }), "{error}");
}

#[test]
fn a_reserved_path_is_free_and_nobody_elses() {
    let (_dir, recovery) = open(100);
    let path = recovery.reserve(3, "t", "output.log", "spill").unwrap();
    assert!(!path.exists());
    assert_ne!(
        recovery.reserve(3, "t", "output.log", "spill").unwrap(),
        path
    );
    assert_eq!(recovery.origin_of(&path), Some(None));
    assert_eq!(recovery.list().unwrap(), [], "nothing was written yet");
    fsx::create_new(&path).unwrap().write_all(b"abc").unwrap();
    let all = recovery.list().unwrap();
    assert_eq!((all.len(), all[0].bytes, &all[0].sha256), (1, 3, &None));
}

#[test]
fn only_recovery_files_have_an_origin() {
    let (dir, recovery) = open(100);
    let entry = recovery
        .store_bytes(b"x", Some(Path::new("/home/p/a.md")), "t", "a.md", "")
        .unwrap();
    let resolved = fs::canonicalize(&entry.path).unwrap();
    assert_eq!(
        recovery.origin_of(&resolved),
        Some(Some("/home/p/a.md".into()))
    );
    let day = entry.path.parent().unwrap();
    for other in [
        dir.path().join("a.md"),
        day.join("a.md"),
        names::meta_path(&entry.path),
        day.join("x/a.md"),
        day.join("../../secret"),
        recovery.given.clone(),
        day.to_path_buf(),
    ] {
        assert_eq!(recovery.origin_of(&other), None, "{}", other.display());
    }
    fs::write(names::meta_path(&entry.path), "{").unwrap();
    assert_eq!(
        recovery.origin_of(&entry.path),
        None,
        "the record is damaged"
    );
    assert_eq!(recovery.list().unwrap(), []);
}

#[test]
fn an_origin_that_is_not_utf8_is_kept_exactly() {
    let (_dir, recovery) = open(100);
    let origin = Path::new(OsStr::from_bytes(b"/home/p/\xff\xfe.txt"));
    let entry = recovery
        .store_bytes(b"x", Some(origin), "t", "x", "")
        .unwrap();
    assert_eq!(
        recovery.origin_of(&entry.path),
        Some(Some(origin.to_path_buf()))
    );
}

#[test]
fn content_without_a_record_is_not_overwritten() {
    let (_dir, recovery) = open(100);
    let day = recovery.day().unwrap();
    fs::write(day.join("t-1-x"), b"mine").unwrap();
    let entry = recovery.store_bytes(b"new", None, "t", "x", "").unwrap();
    assert_eq!(entry.path, day.join("t-2-x"));
    assert_eq!(fs::read(day.join("t-1-x")).unwrap(), b"mine");
}

#[test]
fn a_file_is_adopted_and_given_back() {
    use std::os::fd::AsFd;
    let (dir, recovery) = open(10);
    let origin = dir.path().join("notes.md");
    let folder = File::open(dir.path()).unwrap();
    // Larger than what would be copied: nothing is.
    fs::write(&origin, "longer than ten bytes").unwrap();
    let name = OsStr::new("notes.md");
    let entry = recovery
        .adopt(folder.as_fd(), name, &origin, "t", "replaced")
        .unwrap();
    assert!(!origin.exists());
    assert_eq!(fs::read(&entry.path).unwrap(), b"longer than ten bytes");
    assert_eq!(entry.bytes, 21);
    assert_eq!(recovery.total_bytes(), 21);
    assert_eq!(recovery.origin_of(&entry.path), Some(Some(origin.clone())));
    assert_eq!(recovery.list().unwrap().len(), 1);
    // A name that is taken is not taken over.
    fs::write(&origin, "newer").unwrap();
    assert!(
        recovery
            .give_back(&entry.path, folder.as_fd(), name)
            .is_err()
    );
    assert_eq!(fs::read(&origin).unwrap(), b"newer");
    fs::remove_file(&origin).unwrap();
    recovery
        .give_back(&entry.path, folder.as_fd(), name)
        .unwrap();
    assert_eq!(fs::read(&origin).unwrap(), b"longer than ten bytes");
    assert!(names(&recovery).is_empty());
    let missing = recovery.adopt(folder.as_fd(), OsStr::new("no"), &origin, "t", "replaced");
    assert!(missing.is_err() && names(&recovery).is_empty());
}

#[test]
fn many_files_of_a_turn_get_a_name_each() {
    let (dir, recovery) = open(100);
    let origin = dir.path().join("a");
    let store = |recovery: &Recovery, name: &str| {
        let kept = recovery.store_bytes(b"x", Some(&origin), "t", name, "changed");
        kept.unwrap().path
    };
    let mut paths: Vec<_> = (0..20).map(|_| store(&recovery, "a")).collect();
    paths.extend((0..5).map(|_| store(&recovery.without_sync(), "b")));
    paths.push(store(
        &Recovery::open(recovery.folder(), recovery.limits).unwrap(),
        "a",
    ));
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), 26);
}
