//! `handsctl recovery`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // Helpers of tests are not marked as tests.

mod common;

use common::Place;
use hands_activity::{Entry, Recovery, RecoveryLimits};
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

fn recovery(place: &Place) -> Recovery {
    place.prepare();
    Recovery::open(&place.home().recovery_dir(), RecoveryLimits::default()).unwrap()
}

/// Writes a file and keeps it, as a tool does before it changes it.
fn keep(place: &Place, session: &str, turn: &str, name: &str, content: impl AsRef<[u8]>) -> Entry {
    let path = place.workspace().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    let recovery = recovery(place).for_session(session);
    let file = File::open(&path).unwrap();
    recovery.store_file(&file, &path, turn, "edited").unwrap()
}

/// Three files of two sessions, and an output.
fn filled() -> (Place, Vec<Entry>) {
    let place = Place::new();
    let mut all = vec![
        keep(&place, "s-1", "t-1", "a.md", "one\ntwo\n"),
        keep(&place, "s-1", "t-2", "d/b.bin", b"\x00\xff\x01"),
        keep(&place, "s-2", "t-3", "d/c.md", "three\n"),
    ];
    let output = recovery(&place).for_session("s-2");
    let output = output.store_bytes(b"printed\n", None, "t-4", "output.txt", "whole output");
    all.push(output.unwrap());
    (place, all)
}

fn ids(place: &Place, args: &[&str]) -> Vec<String> {
    let ended = place.run(&[&["recovery", "list", "--json"], args].concat());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let all = ended.json_lines();
    all.iter()
        .map(|e| e["id"].as_str().unwrap().to_owned())
        .collect()
}

fn ids_of(entries: &[Entry], which: &[usize]) -> Vec<String> {
    which.iter().map(|at| entries[*at].id.clone()).collect()
}

#[test]
fn a_list_tells_what_there_is_by_every_filter() {
    let (place, all) = filled();
    let of = |which: &[usize]| ids_of(&all, which);
    assert_eq!(ids(&place, &[]), of(&[0, 1, 2, 3]));
    assert_eq!(ids(&place, &["-n", "2"]), of(&[2, 3]));
    assert_eq!(ids(&place, &["--session", "s-1"]), of(&[0, 1]));
    assert_eq!(ids(&place, &["--turn", "t-3"]), of(&[2]));
    assert_eq!(ids(&place, &["--kind", "output"]), of(&[3]));
    assert_eq!(ids(&place, &["--since", "1h"]).len(), 4);
    assert!(ids(&place, &["--until", "1h"]).is_empty());
    let below = place.workspace().join("d").display().to_string();
    assert_eq!(ids(&place, &["--path", &below]), of(&[1, 2]));
    // Through a link, and by a relative path.
    let link = place.ann().join("link");
    std::os::unix::fs::symlink(place.workspace(), &link).unwrap();
    let through = link.join("a.md").display().to_string();
    assert_eq!(ids(&place, &["--path", &through]), of(&[0]));
    let mut command = place.command(&["recovery", "list", "--json", "--path", "d"]);
    let output = command.current_dir(place.workspace()).output().unwrap();
    assert_eq!(common::Ended::of(output).json_lines().len(), 2);

    let text = place.run(&["recovery", "list"]);
    for (entry, size) in all.iter().zip(["8 B", "3 B", "6 B", "8 B"]) {
        let line = text.out.lines().find(|line| line.starts_with(&entry.id));
        assert!(line.unwrap().contains(size), "{text:?}");
    }
    let first = &place.run(&["recovery", "list", "--json"]).json_lines()[0];
    assert_eq!(
        first["origin"],
        place.workspace().join("a.md").to_str().unwrap()
    );
    assert_eq!(
        (&first["kind"], &first["session_id"]),
        (&"file".into(), &"s-1".into())
    );
    assert_eq!(
        (&first["bytes"], &first["mode"]),
        (&8.into(), &"0644".into())
    );
    assert_eq!(first["sha256"].as_str().unwrap().len(), 64);
    let wrong = place.run(&["recovery", "list", "--since", "yesterday"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
}

#[test]
fn a_home_without_entries_says_so_and_stays_as_it_is() {
    let place = Place::new();
    for args in [&["recovery", "list"][..], &["recovery", "rotate"]] {
        let ended = place.run(args);
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    let ended = place.run(&["recovery", "list"]);
    assert!(
        ended.err.contains("no such recovery entries at"),
        "{ended:?}"
    );
    let ended = place.run(&["recovery", "show", "r0123456789ab"]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.err.contains("there is no recovery entry"),
        "{ended:?}"
    );
    assert!(!place.home().root().exists(), "looking makes nothing");
}

#[test]
fn show_prints_the_bytes_as_they_were() {
    let (place, all) = filled();
    let stdout = |id: &str| {
        place
            .command(&["recovery", "show", id])
            .output()
            .unwrap()
            .stdout
    };
    assert_eq!(stdout(&all[1].id), b"\x00\xff\x01");
    assert_eq!(stdout(&all[0].id[..9]), b"one\ntwo\n");
    assert_eq!(stdout(all[3].path.to_str().unwrap()), b"printed\n");
    let json = |id: &str| place.run(&["recovery", "show", "--json", id]).json();
    assert_eq!(json(&all[0].id)["text"], "one\ntwo\n");
    assert_eq!(json(&all[1].id)["base64"], "AP8B");
    assert_eq!(json(&all[1].id)["whole"], true);
    // A content that is not what was kept is shown, and said to be that.
    fs::write(&all[0].path, "odd").unwrap();
    let damaged = place.run(&["recovery", "show", &all[0].id]);
    assert_eq!((damaged.code, damaged.out.as_str()), (Some(1), "odd"));
    assert!(damaged.err.contains("damaged"), "{damaged:?}");
}

/// Runs a program on a terminal and prints what that showed.
const TERMINAL: &str = "
import os, pty, sys
pid, master = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
shown = b''
try:
    while data := os.read(master, 4096):
        shown += data
except OSError:
    pass
print(repr(shown), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";

#[test]
fn a_terminal_is_shown_text_and_told_of_the_rest() {
    let place = Place::new();
    let escape = keep(&place, "s", "t-1", "a", "red \u{1b}[31m\nend\n");
    let binary = keep(&place, "s", "t-2", "b", b"\x00\x1b[2J");
    let on_terminal = |id: &str| {
        let plain = place.command(&["recovery", "show", id]);
        let mut command = Command::new("python3");
        command
            .args(["-c", TERMINAL])
            .arg(plain.get_program())
            .args(plain.get_args());
        command.env_clear();
        for (name, value) in plain.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        let output = command.stdin(std::process::Stdio::null()).output().unwrap();
        common::Ended::of(output).out
    };
    let shown = on_terminal(&escape.id);
    assert!(
        shown.contains("red \\\\u{1b}[31m") && shown.contains("end"),
        "{shown}"
    );
    assert!(!shown.contains("\\x1b[31m"), "{shown}");
    let shown = on_terminal(&binary.id);
    assert!(
        shown.contains("binary, 5 B") && shown.contains("> FILE"),
        "{shown}"
    );
    assert!(!shown.contains("[2J"), "{shown}");
}

#[test]
fn diff_compares_with_what_is_there_now() {
    let (place, all) = filled();
    let diff = |id: &str| place.run(&["recovery", "diff", id]);
    let same = diff(&all[0].id);
    assert!(same.out.contains("the same, then and now"), "{same:?}");
    fs::write(place.workspace().join("a.md"), "one\n2\n").unwrap();
    let ended = diff(&all[0].id);
    assert_eq!(ended.code, Some(0));
    assert!(ended.out.contains("\n-two\n+2"), "{ended:?}");
    let json = place
        .run(&["recovery", "diff", "--json", &all[0].id])
        .json();
    assert_eq!(
        (&json["same"], &json["now"]),
        (&false.into(), &"file".into())
    );
    fs::write(place.workspace().join("d/b.bin"), b"\x00").unwrap();
    let ended = diff(&all[1].id);
    assert!(
        ended.out.contains("3 bytes were kept; 1 other bytes"),
        "{ended:?}"
    );
    fs::remove_file(place.workspace().join("d/c.md")).unwrap();
    assert!(diff(&all[2].id).out.contains("nothing is there now"));
    fs::create_dir(place.workspace().join("d/c.md")).unwrap();
    assert!(diff(&all[2].id).out.contains("it is a folder now"));
    // An output came from no file.
    assert_eq!(diff(&all[3].id).code, Some(2));
    let with = place.workspace().join("a.md").display().to_string();
    let ended = place.run(&["recovery", "diff", &all[3].id, "--with", &with]);
    assert!(ended.out.contains("-printed"), "{ended:?}");
}

fn result(place: &Place, args: &[&str]) -> Value {
    let ended = place.run(&[&["recovery", "restore", "--json"], args].concat());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.json()
}

#[test]
fn restore_puts_back_and_keeps_what_it_replaces() {
    let (place, all) = filled();
    let path = place.workspace().join("a.md");
    assert_eq!(result(&place, &[&all[0].id])["result"], "unchanged");
    fs::write(&path, "newer").unwrap();
    let replaced = result(&place, &[&all[0].id]);
    assert_eq!(replaced["result"], "replaced");
    assert_eq!(fs::read(&path).unwrap(), b"one\ntwo\n");
    let kept = replaced["kept"]["id"].as_str().unwrap();
    assert_eq!(place.run(&["recovery", "show", kept]).out, "newer");
    let ended = place.run(&["recovery", "restore", kept]);
    assert!(
        ended.out.contains("what was there is kept as r"),
        "{ended:?}"
    );
    assert_eq!(fs::read(&path).unwrap(), b"newer");
    fs::remove_file(&path).unwrap();
    assert_eq!(result(&place, &[kept])["result"], "created");
    // What a person did with it is in the log.
    let log = place.run(&["logs", "lifecycle"]);
    assert!(log.out.contains("recovery_restore"), "{log:?}");
}

#[test]
fn restore_goes_where_it_is_told_and_nowhere_else() {
    let (place, all) = filled();
    let other = place.ann().join("other/x.md");
    let to = |path: &Path| path.display().to_string();
    let done = result(&place, &[&all[0].id, "--to", &to(&other)]);
    assert_eq!(
        (&done["result"], &done["to"]),
        (&"created".into(), &to(&other).into())
    );
    assert_eq!(fs::read(&other).unwrap(), b"one\ntwo\n");
    // Into a folder, under its name.
    let folder = other.parent().unwrap();
    result(&place, &[&all[2].id, "--to", &to(folder)]);
    assert_eq!(fs::read(folder.join("c.md")).unwrap(), b"three\n");
    // The output of a tool has no place of its own.
    let ended = place.run(&["recovery", "restore", &all[3].id]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    // A link in the place of its folder is not followed.
    let victim = place.ann().join("victim");
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("c.md"), "theirs").unwrap();
    fs::rename(place.workspace().join("d"), place.workspace().join("moved")).unwrap();
    std::os::unix::fs::symlink(&victim, place.workspace().join("d")).unwrap();
    for args in [
        &[all[2].id.as_str()][..],
        &["--under", &to(&place.workspace()), "--replace"],
    ] {
        let ended = place.run(&[&["recovery", "restore"], args].concat());
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let said = format!("{}{}", ended.out, ended.err);
        assert!(said.contains("is a symbolic link to"), "{said}");
    }
    assert_eq!(fs::read(victim.join("c.md")).unwrap(), b"theirs");
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 1);
    // Neither an id nor a folder, or both.
    for args in [
        &[][..],
        &["x", "--under", "y"],
        &["x", "--replace"],
        &["x", "--turn", "t"],
    ] {
        let ended = place.run(&[&["recovery", "restore"], args].concat());
        assert_eq!(ended.code, Some(2), "{ended:?}");
    }
}

#[test]
fn a_removed_tree_comes_back_as_it_was_first() {
    let place = Place::new();
    let names = ["t/a", "t/sub/b", "t/sub/deep/c"];
    for name in names {
        keep(&place, "s", "t-1", name, format!("{name} first"));
    }
    // A later state of one of them; another turn's file beside the tree.
    keep(&place, "s", "t-1", "t/a", "t/a later");
    keep(&place, "s", "t-2", "t/other", "other");
    keep(&place, "s", "t-1", "beside", "beside");
    let tree = place.workspace().join("t");
    fs::remove_dir_all(&tree).unwrap();
    fs::remove_file(place.workspace().join("beside")).unwrap();
    fs::create_dir_all(tree.join("sub")).unwrap();
    fs::write(tree.join("sub/b"), "somebody's new one").unwrap();
    let under = tree.display().to_string();
    let restore = |args: &[&str]| {
        let ended = place.run(&[&["recovery", "restore", "--under", &under], args].concat());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.out
    };
    let said = restore(&["--turn", "t-1"]);
    assert!(said.ends_with("2 restored\n"), "{said}");
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    assert_eq!(read(&tree.join("a")), "t/a first");
    assert_eq!(read(&tree.join("sub/deep/c")), "t/sub/deep/c first");
    assert_eq!(read(&tree.join("sub/b")), "somebody's new one");
    assert!(!tree.join("other").exists() && !place.workspace().join("beside").exists());
    // Asked to, it replaces too, and keeps what was there.
    restore(&["--turn", "t-1", "--replace"]);
    assert_eq!(read(&tree.join("sub/b")), "t/sub/b first");
    let all = recovery(&place).list().unwrap();
    let kept = all
        .iter()
        .find(|e| e.reason.contains("restoration"))
        .unwrap();
    assert_eq!(read(&kept.path), "somebody's new one");
    // Elsewhere, the whole tree.
    let copy = place.ann().join("copy");
    restore(&["--to", &copy.display().to_string()]);
    assert_eq!(read(&copy.join("sub/b")), "t/sub/b first");
    assert_eq!(read(&copy.join("other")), "other");
}

#[test]
fn the_doctor_sees_a_folder_that_is_nearly_full() {
    let (place, _) = filled();
    let named = |args: &[&str]| {
        let checks = place.run(&[&["doctor", "--json"], args].concat()).json()["checks"].clone();
        let all = checks.as_array().unwrap().clone();
        all.into_iter().find(|check| check["name"] == "recovery")
    };
    assert_eq!(named(&[]), None);
    place.config("[limits]\nrecovery_bytes = 100\n");
    assert_eq!(named(&[]), None, "25 of 100 bytes");
    place.config("[limits]\nrecovery_bytes = 26\n");
    let check = named(&[]).unwrap();
    assert_eq!(check["state"], "warn");
    assert!(
        check["mend"].as_str().unwrap().contains("recovery rotate"),
        "{check}"
    );
}

/// Makes an entry so old that a rotation may drop it.
fn date_back(entry: &Entry, day: &str) -> PathBuf {
    let folder = entry.path.parent().unwrap().with_file_name(day);
    fs::create_dir_all(&folder).unwrap();
    let name = entry.path.file_name().unwrap().to_str().unwrap();
    let (record, path) = (format!("{name}.meta.json"), folder.join(name));
    let text = fs::read_to_string(entry.path.with_file_name(&record)).unwrap();
    let then = format!("{day}T00:00:00.000Z");
    fs::write(folder.join(&record), text.replace(&entry.ts, &then)).unwrap();
    fs::remove_file(entry.path.with_file_name(&record)).unwrap();
    fs::rename(&entry.path, &path).unwrap();
    path
}

#[test]
fn rotate_says_what_it_would_do_and_does_it() {
    let (place, all) = filled();
    let old = date_back(&all[0], "2020-01-01");
    let young = keep(&place, "s", "t-9", "big", "line\n".repeat(10_000));
    let rotate = |args: &[&str]| place.run(&[&["recovery", "rotate"], args].concat());
    let told = rotate(&["--dry-run"]);
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(
        told.out
            .contains("would have dropped 1 entries kept until 2020-01-01"),
        "{told:?}"
    );
    assert!(told.out.contains("a.md"), "{told:?}");
    assert!(old.exists());
    let done = rotate(&["--json"]);
    assert_eq!(done.json()["dropped"].as_array().unwrap().len(), 1);
    assert_eq!(done.json()["entries"], 4);
    assert!(!old.exists() && !old.parent().unwrap().exists());
    let log = place.run(&["logs", "lifecycle"]);
    assert!(log.out.contains("recovery_rotate"), "{log:?}");
    // Young entries stay, unless their age is named too.
    let over = rotate(&["--max-entries", "1"]);
    assert!(
        over.out.contains("dropped nothing") && over.out.contains("still over"),
        "{over:?}"
    );
    rotate(&["--max-entries", "1", "--min-age", "0s"]);
    let left = recovery(&place).list().unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].path, young.path);
    for wrong in [
        &["--max-age", "old"][..],
        &["--max-bytes", "much"],
        &["--min-age", "-1d"],
        &["--max-entries", "x"],
    ] {
        assert_eq!(rotate(wrong).code, Some(2), "{wrong:?}");
    }
}

#[test]
fn the_configuration_has_the_limits_of_a_rotation() {
    let (place, all) = filled();
    for (entry, day) in all.iter().zip(["2020-01-01", "2020-01-02", "2020-01-03"]) {
        date_back(entry, day);
    }
    place.config("[limits]\nrecovery_max_age_days = 36500\nrecovery_max_entries = 3\n");
    place.run(&["recovery", "rotate"]);
    assert_eq!(recovery(&place).list().unwrap().len(), 3);
    place.config("[limits]\nrecovery_max_age_days = 36500\nrecovery_bytes = 15\n");
    place.run(&["recovery", "rotate"]);
    assert_eq!(recovery(&place).list().unwrap().len(), 2);
    // A broken configuration does not keep a person from their files, but nothing is dropped.
    place.config("limits = 1\n");
    assert_eq!(place.run(&["recovery", "rotate"]).code, Some(1));
    let shown = place.run(&["recovery", "show", &all[3].id]);
    assert_eq!((shown.code, shown.out.as_str()), (Some(0), "printed\n"));
}

#[test]
fn a_compressed_entry_is_as_good_as_before() {
    let place = Place::new();
    let text = "line\n".repeat(10_000);
    let entry = keep(&place, "s", "t", "big.txt", &text);
    let yesterday = time::OffsetDateTime::now_utc() - time::Duration::days(3);
    let old = date_back(&entry, &yesterday.date().to_string());
    let done = place.run(&["recovery", "rotate"]);
    assert!(done.out.contains("compressed 1 entries"), "{done:?}");
    assert!(!old.exists());
    let by_path = place.run(&["recovery", "show", old.to_str().unwrap()]);
    assert_eq!((by_path.code, by_path.out == text), (Some(0), true));
    let listed = &place.run(&["recovery", "list", "--json"]).json_lines()[0];
    assert_eq!(
        (&listed["compressed"], &listed["bytes"]),
        (&true.into(), &50_000.into())
    );
    let path = place.workspace().join("big.txt");
    fs::remove_file(&path).unwrap();
    place.run(&["recovery", "restore", listed["id"].as_str().unwrap()]);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn names_that_drive_a_terminal_or_lead_away_stay_text() {
    let place = Place::new();
    let name = "\u{1b}[2J\n\u{202e}x";
    let entry = keep(&place, "s", "t", name, "x");
    let listed = place.run(&["recovery", "list"]);
    assert!(!listed.out.contains('\u{1b}'), "{listed:?}");
    assert_eq!(listed.out.lines().count(), 2, "{listed:?}");
    let path = place.workspace().join(name);
    fs::remove_file(&path).unwrap();
    let done = place.run(&["recovery", "restore", &entry.id]);
    assert!(!done.out.contains('\u{1b}'), "{done:?}");
    assert_eq!(fs::read(&path).unwrap(), b"x");
    for hostile in ["../../config.toml", "/etc/passwd", ""] {
        let ended = place.run(&["recovery", "show", hostile]);
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{ended:?}");
    }
}

#[test]
fn what_a_killed_restoration_left_is_found() {
    finds_what_a_kill_left(1);
}

#[test]
fn what_a_restoration_left_that_was_killed_before_its_first_byte_is_found() {
    finds_what_a_kill_left(0);
}

/// Kills a restoration as soon as its copy has so many bytes, and looks for what is left.
fn finds_what_a_kill_left(least: u64) {
    let place = Place::new();
    let large = vec![7u8; 48 << 20];
    let entry = keep(&place, "s-1", "t-1", "large", &large);
    let path = place.workspace().join("large");
    let leftovers = || -> Vec<PathBuf> {
        let all = fs::read_dir(place.workspace()).unwrap().flatten();
        all.map(|item| item.path())
            .filter(|item| item != &path)
            .collect()
    };
    let has_begun = || {
        let all = leftovers();
        all.iter()
            .any(|item| item.metadata().is_ok_and(|info| info.len() >= least))
    };
    let mut tries = 0;
    while leftovers().is_empty() {
        tries += 1;
        assert!(tries < 50, "no kill came in the middle");
        fs::write(&path, "newer\n").unwrap();
        let mut restore = place
            .command(&["recovery", "restore", &entry.id])
            .spawn()
            .unwrap();
        while !has_begun() && restore.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        restore.kill().unwrap();
        restore.wait().unwrap();
    }
    let left = leftovers();
    let name = left[0].file_name().unwrap().to_string_lossy();
    assert!(name.starts_with(".hands-restore-"), "{name}");
    let now = fs::read(&path).unwrap();
    assert!(now == b"newer\n" || now == large, "neither old nor new");
    let ended = place.run(&["recovery", "rotate", "--no-compress"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.out.contains("kept 1 files that a killed"),
        "{ended:?}"
    );
    assert_eq!(leftovers(), [] as [PathBuf; 0]);
    assert_eq!(fs::read(&path).unwrap(), now, "it stays as it was");
    let entries = recovery(&place).list().unwrap();
    assert!(entries.contains(&entry));
    let reasons: Vec<_> = entries.iter().map(|entry| entry.reason.as_str()).collect();
    assert!(
        reasons.contains(&"left by a process that was killed"),
        "{reasons:?}"
    );
}
