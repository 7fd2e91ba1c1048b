//! Making room, compressing and dropping.

use super::*;
use std::os::unix::fs::symlink;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// A folder that may hold so many bytes.
fn small(max_total_bytes: u64) -> (tempfile::TempDir, Recovery) {
    let dir = tempfile::tempdir().unwrap();
    let limits = RecoveryLimits {
        max_total_bytes,
        ..RecoveryLimits::default()
    };
    let recovery = Recovery::open(&dir.path().join("work/recovery"), limits).unwrap();
    (dir, recovery)
}

fn store(recovery: &Recovery, name: &str, content: &[u8]) -> Entry {
    let origin = PathBuf::from(format!("/home/p/{name}"));
    let stored = recovery.store_bytes(content, Some(&origin), "t", name, "changed");
    stored.unwrap()
}

/// Makes an entry so many days old.
fn date_back(recovery: &Recovery, entry: &Entry, days: i64) -> Entry {
    let then = OffsetDateTime::now_utc() - time::Duration::days(days);
    let day = recovery.folder.join(clock::date(then));
    fsx::private_dir(&day).unwrap();
    let path = day.join(entry.path.file_name().unwrap());
    fs::rename(&entry.path, &path).unwrap();
    let record = fs::read_to_string(names::meta_path(&entry.path)).unwrap();
    fs::remove_file(names::meta_path(&entry.path)).unwrap();
    let record = record.replace(&entry.ts, &clock::format(then));
    fs::write(names::meta_path(&path), record).unwrap();
    Recovery::entry(&path).unwrap()
}

fn rotation() -> Rotation {
    Rotation {
        max_age: None,
        max_entries: u64::MAX,
        max_bytes: u64::MAX,
        min_age: 30 * 24 * HOUR,
        compress: false,
        dry_run: false,
    }
}

fn origins(recovery: &Recovery) -> Vec<String> {
    let all = recovery.list().unwrap();
    let name = |entry: &Entry| name_of(entry.origin.as_deref().unwrap());
    all.iter().map(name).collect()
}

#[test]
fn the_oldest_entries_make_room_when_they_are_old_enough() {
    let (_dir, recovery) = small(100);
    for (name, days) in [("a", 50), ("b", 40), ("c", 1)] {
        let entry = store(&recovery, name, &[b'x'; 30]);
        date_back(&recovery, &entry, days);
    }
    assert!(recovery.take_dropped().is_empty());
    store(&recovery, "d", &[b'x'; 30]);
    assert_eq!(origins(&recovery), ["b", "c", "d"]);
    let dropped = recovery.take_dropped();
    assert_eq!(dropped.len(), 1);
    assert_eq!((dropped[0].entries, dropped[0].bytes), (1, 30));
    assert_eq!(dropped[0].by, "room");
    assert_eq!(recovery.last_dropped().as_ref(), dropped.first());
    assert!(recovery.take_dropped().is_empty(), "told once");
}

#[test]
fn nothing_is_dropped_for_room_that_would_not_do() {
    let (_dir, recovery) = small(100);
    let old = store(&recovery, "old", &[b'x'; 30]);
    date_back(&recovery, &old, 50);
    let young = store(&recovery, "young", &[b'x'; 60]);
    date_back(&recovery, &young, 29);
    let origin = Path::new("/home/p/new");
    for bytes in [80, 101] {
        let kept = recovery.store_bytes(&vec![b'x'; bytes], Some(origin), "t", "new", "");
        let error = kept.unwrap_err();
        assert!(matches!(error, RecoveryError::Full { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("handsctl recovery rotate"), "{text}");
        assert!(text.contains("limits.recovery_bytes"), "{text}");
    }
    assert_eq!(origins(&recovery), ["old", "young"]);
    assert!(recovery.take_dropped().is_empty() && recovery.last_dropped().is_none());
    // What fits is kept all the same.
    store(&recovery, "small", &[b'x'; 10]);
    assert_eq!(recovery.list().unwrap().len(), 3);
}

#[test]
fn old_contents_are_compressed_and_still_read_as_they_were() {
    let (dir, recovery) = small(1 << 30);
    let text: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
    let mut noise = vec![0u8; 100_000];
    getrandom::fill(&mut noise).unwrap();
    let file = dir.path().join("a.md");
    fs::write(&file, &text).unwrap();
    let old = recovery.store_file(&File::open(&file).unwrap(), &file, "t", "changed");
    let old = date_back(&recovery, &old.unwrap(), 2);
    let random = date_back(&recovery, &store(&recovery, "random", &noise), 2);
    let young = store(&recovery, "young", text.as_bytes());
    let tiny = date_back(&recovery, &store(&recovery, "tiny", b"aaaa"), 2);

    let wish = Rotation {
        compress: true,
        ..rotation()
    };
    let dry = Rotation {
        dry_run: true,
        ..wish.clone()
    };
    let told = recovery.rotate(&dry).unwrap();
    assert_eq!(told.compressed.len(), 1);
    assert_eq!(told.compressed[0].id, old.id);
    assert!(old.path.exists(), "only told");

    let done = recovery.rotate(&wish).unwrap();
    assert_eq!(done.compressed.len(), 1, "{done:?}");
    assert!(done.compressed[0].after * 3 < done.compressed[0].before);
    assert!(done.failed.is_empty() && done.dropped.is_empty());
    for entry in [&random, &young, &tiny] {
        assert!(entry.path.exists());
    }
    let all = recovery.list().unwrap();
    let packed = all.iter().find(|entry| entry.id == old.id).unwrap();
    assert!(packed.packed && !old.path.exists());
    assert_eq!(packed.bytes, text.len() as u64);
    assert_eq!((packed.mode, packed.modified), (old.mode, old.modified));
    recovery.check(packed).unwrap();
    let mut read = String::new();
    let content = recovery.read(packed).unwrap().read_to_string(&mut read);
    assert_eq!((content.unwrap(), read == text), (text.len(), true));
    // By its first path too, and under the same protection.
    for path in [&old.path, &packed.path] {
        let found = recovery.find(path.to_str().unwrap()).unwrap();
        assert_eq!(&found, packed);
        assert_eq!(recovery.origin_of(path), Some(Some(file.clone())));
        assert!(recovery.is_packed(path));
    }
    fs::remove_file(&file).unwrap();
    assert_eq!(
        recovery.restore(packed, &file, "r").unwrap(),
        Restored::Created
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    assert_eq!(recovery.rotate(&wish).unwrap().compressed, []);
}

#[test]
fn a_rotation_that_was_killed_leaves_no_entry_twice() {
    let (_dir, recovery) = small(1 << 30);
    let entry = store(&recovery, "a", &[b'x'; 100_000]);
    let entry = date_back(&recovery, &entry, 2);
    fs::write(names::packed_path(&entry.path), "half").unwrap();
    assert_eq!(recovery.list().unwrap(), std::slice::from_ref(&entry));
    let wish = Rotation {
        compress: true,
        ..rotation()
    };
    let done = recovery.rotate(&wish).unwrap();
    assert_eq!((done.cleared, done.compressed.len()), (1, 1));
    let all = recovery.list().unwrap();
    assert_eq!(all.len(), 1);
    recovery.check(&all[0]).unwrap();
}

#[test]
fn what_is_beyond_age_number_or_size_is_dropped_the_oldest_first() {
    let fill = || {
        let (dir, recovery) = small(1 << 30);
        for (name, days) in [("a", 100), ("b", 60), ("c", 40), ("d", 10), ("e", 0)] {
            let entry = store(&recovery, name, &[b'x'; 10]);
            date_back(&recovery, &entry, days);
        }
        (dir, recovery)
    };
    let day = 24 * HOUR;
    let cases = [
        (rotation(), &["a", "b", "c", "d", "e"][..]),
        (
            Rotation {
                max_age: Some(50 * day),
                ..rotation()
            },
            &["c", "d", "e"],
        ),
        (
            Rotation {
                max_entries: 3,
                ..rotation()
            },
            &["c", "d", "e"],
        ),
        (
            Rotation {
                max_bytes: 45,
                ..rotation()
            },
            &["b", "c", "d", "e"],
        ),
        // Younger than the least age: they stay, whatever their number.
        (
            Rotation {
                max_entries: 0,
                ..rotation()
            },
            &["d", "e"],
        ),
        (
            Rotation {
                max_bytes: 0,
                min_age: 5 * day,
                ..rotation()
            },
            &["e"],
        ),
    ];
    for (wish, left) in cases {
        let (_dir, recovery) = fill();
        let dry = Rotation {
            dry_run: true,
            ..wish.clone()
        };
        let told = recovery.rotate(&dry).unwrap();
        assert_eq!(origins(&recovery).len(), 5, "only told");
        let done = recovery.rotate(&wish).unwrap();
        assert_eq!(origins(&recovery), left, "{wish:?}");
        assert_eq!(told.dropped, done.dropped);
        assert_eq!(done.entries, left.len() as u64);
        assert_eq!(done.noted.is_some(), left.len() < 5);
        assert_eq!(names(&recovery).len(), 2 * left.len(), "records go too");
    }
}

/// All files below a folder, and what they hold.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for item in fs::read_dir(folder).unwrap() {
        let path = item.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            all.extend(contents(&path));
        } else {
            all.push((path.clone(), fs::read(&path).unwrap_or_default()));
        }
    }
    all.sort();
    all
}

#[test]
fn nothing_outside_the_folder_is_reached_whatever_lies_in_it() {
    let (dir, recovery) = small(1 << 30);
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let text = "x".repeat(50_000);
    let record = r#"{"origin":"/home/p/a","turn_id":"t","ts":"2020-01-01T00:00:00.000Z"}"#;
    for name in ["t-1-a", "t-2-b", "t-2-b.packed.gz", ".tmp-1-1-x"] {
        fs::write(outside.join(name), &text).unwrap();
        fs::write(outside.join(format!("{name}.meta.json")), record).unwrap();
    }
    let before = contents(&outside);
    let folder = recovery.folder.clone();
    // A link in the place of a day, of a content, of a record, of a temporary file.
    symlink(&outside, folder.join("2020-01-01")).unwrap();
    let day = folder.join("2020-01-02");
    fs::create_dir(&day).unwrap();
    symlink(outside.join("t-1-a"), day.join("t-1-a")).unwrap();
    fs::write(day.join("t-1-a.meta.json"), record).unwrap();
    fs::write(day.join("t-2-b"), &text).unwrap();
    symlink(outside.join("t-2-b.meta.json"), day.join("t-2-b.meta.json")).unwrap();
    symlink(outside.join(".tmp-1-1-x"), day.join(".tmp-1-1-y")).unwrap();
    // A content that is a folder, an origin that leads out, a pending file that is not there.
    fs::create_dir(day.join("t-3-c")).unwrap();
    fs::write(day.join("t-3-c.meta.json"), record).unwrap();
    fs::write(day.join("t-4-d"), &text).unwrap();
    let led_out = record.replace("/home/p/a", outside.join("t-1-a").to_str().unwrap());
    fs::write(day.join("t-4-d.meta.json"), led_out).unwrap();
    // A day that leads out by its name is none.
    fs::create_dir(folder.join("not a day")).unwrap();
    fs::write(folder.join("not a day/t-1-x"), &text).unwrap();

    recovery.settle(Duration::ZERO).unwrap();
    let wish = Rotation {
        max_age: Some(Duration::ZERO),
        max_bytes: 0,
        max_entries: 0,
        min_age: Duration::ZERO,
        compress: true,
        dry_run: false,
    };
    let done = recovery.rotate(&wish).unwrap();
    assert_eq!(done.dropped.len(), 1, "{done:?}");
    assert_eq!(contents(&outside), before);
    assert!(folder.join("2020-01-01").is_symlink());
    assert!(folder.join("not a day/t-1-x").exists());
    assert!(day.join("t-1-a").is_symlink() && day.join("t-2-b").exists());
    assert!(day.join("t-3-c").is_dir() && !day.join("t-4-d").exists());
    let strange: Vec<_> = done
        .strange
        .iter()
        .map(|p| p.file_name().unwrap())
        .collect();
    assert_eq!(strange, ["t-1-a", "t-2-b", "t-3-c"]);
}

#[test]
fn the_count_is_right_whoever_changes_what() {
    let (_dir, recovery) = small(1 << 30);
    let sizes = recovery.folder.join("sizes.json");
    let mut kept = Vec::new();
    for days in [0, 3, 5] {
        let entry = store(&recovery, "a", &[b'x'; 100]);
        kept.push(date_back(&recovery, &entry, days));
    }
    let settle = |entry: &Entry| {
        // As if it had been changed a while ago.
        let day = File::open(entry.path.parent().unwrap()).unwrap();
        let then = std::time::SystemTime::now() - HOUR;
        day.set_modified(then).unwrap();
    };
    assert_eq!(recovery.total_bytes(), 300);
    assert!(!sizes.exists(), "all were changed just now");
    kept.iter().for_each(settle);
    assert_eq!(recovery.total_bytes(), 300);
    let text = fs::read_to_string(&sizes).unwrap();
    let count = text.matches("\"bytes\":100").count();
    assert_eq!(count, 2, "not today's: {text}");
    // A past day in which a name changes is counted anew; the others are not.
    recovery.remove(&kept[1].path).unwrap();
    fs::write(&kept[2].path, "grown without a new name").unwrap();
    assert_eq!(recovery.total_bytes(), 200);
    for damaged in ["", "{", "{\"2020-01-01\":7}"] {
        fs::write(&sizes, damaged).unwrap();
        assert_eq!(recovery.total_bytes(), 124, "{damaged}");
    }
    // Looking writes nothing down.
    fs::remove_file(&sizes).unwrap();
    let looked = Recovery::look(&recovery.given, recovery.limits).unwrap();
    assert_eq!(looked.unwrap().total_bytes(), 124);
    assert!(!sizes.exists());
}

#[test]
fn two_do_not_rotate_at_once() {
    let (_dir, recovery) = small(100);
    let held = recovery.lock(Duration::ZERO).unwrap();
    let refused = recovery.rotate(&rotation());
    assert!(matches!(refused, Err(RecoveryError::Busy { .. })));
    drop(held);
    recovery.rotate(&rotation()).unwrap();
}

#[test]
fn entries_are_found_by_id_beginning_and_path() {
    let (_dir, recovery) = small(1 << 20);
    let one = store(&recovery, "a", b"1");
    let two = store(&recovery, "b", b"2");
    assert_ne!(one.id, two.id);
    let day = one.path.strip_prefix(&recovery.folder).unwrap();
    for wanted in [
        &one.id,
        &one.id[..8],
        one.path.to_str().unwrap(),
        day.to_str().unwrap(),
    ] {
        assert_eq!(recovery.find(wanted).unwrap(), one, "{wanted}");
    }
    for unknown in ["", "r", "r00", "/etc/passwd", "../x"] {
        let found = recovery.find(unknown);
        assert!(
            matches!(found, Err(RecoveryError::Unknown { .. })),
            "{unknown}"
        );
    }
}
