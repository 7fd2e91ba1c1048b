//! What is in the recovery folder after a command, and after a runner that was killed in the
//! middle of one.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::World;
use hands_activity::{Entry, Kind, Recovery, RecoveryLimits, Restored};
use std::collections::HashMap;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

fn open(world: &World) -> Recovery {
    Recovery::open(&world.root.join("recovery"), RecoveryLimits::default()).unwrap()
}

fn content(recovery: &Recovery, entry: &Entry) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut content = recovery.read(entry).unwrap();
    std::io::Read::read_to_end(&mut content, &mut bytes).unwrap();
    bytes
}

#[test]
fn an_entry_says_what_it_came_from() {
    let world = World::new();
    for (name, text) in [
        ("replaced", "one\n"),
        ("emptied", "two\n"),
        ("d/sub/gone", "three\n"),
    ] {
        world.write(name, text);
    }
    let mode = std::fs::Permissions::from_mode(0o640);
    std::fs::set_permissions(world.at("replaced"), mode).unwrap();
    std::os::unix::fs::symlink("emptied", world.at("link")).unwrap();
    world.commit_all();
    let before = std::fs::metadata(world.at("replaced")).unwrap().modified();
    let ran = world.run(
        "echo new > t && mv -f t replaced; : > emptied; ln -s x l && mv -Tf l link
         git rm -qr d",
    );
    assert_eq!(ran.code, Some(0), "{}", ran.out);
    let recovery = open(&world);
    let all = recovery.list().unwrap();
    let entry = |name: &str| {
        let origin = world.at(name);
        let mut found = all.iter().filter(|e| e.origin.as_ref() == Some(&origin));
        let entry = found
            .next()
            .unwrap_or_else(|| panic!("{name} is not in {all:#?}"));
        assert!(found.next().is_none(), "{name} is there twice");
        assert_eq!(entry.session_id.as_deref(), Some("s-1"));
        assert_eq!(entry.turn_id, "t-1");
        entry
    };
    let replaced = entry("replaced");
    assert_eq!((replaced.kind, replaced.mode), (Kind::File, Some(0o640)));
    assert_eq!(content(&recovery, replaced), b"one\n");
    assert_eq!(content(&recovery, entry("emptied")), b"two\n");
    assert_eq!(content(&recovery, entry("d/sub/gone")), b"three\n");
    let link = entry("link");
    assert_eq!(link.kind, Kind::Symlink);
    assert_eq!(content(&recovery, link), b"emptied");
    assert_eq!(entry("d/sub").kind, Kind::Folder);
    assert_eq!(entry("d").kind, Kind::Folder);
    // And each of them goes back, a folder before what was in it.
    let mut all = all.clone();
    all.sort_by(|a, b| a.origin.cmp(&b.origin));
    for entry in &all {
        let Some(origin) = entry
            .origin
            .as_ref()
            .filter(|o| o.starts_with(world.at("")))
        else {
            continue;
        };
        if origin.starts_with(world.at(".git")) {
            continue;
        }
        let done = recovery.restore(entry, origin, "r").unwrap();
        assert_ne!(done, Restored::Unchanged, "{}", origin.display());
    }
    assert_eq!(world.read("replaced").as_deref(), Some("one\n"));
    assert_eq!(world.read("d/sub/gone").as_deref(), Some("three\n"));
    let link = std::fs::read_link(world.at("link")).unwrap();
    assert_eq!(link, Path::new("emptied"));
    let now = std::fs::metadata(world.at("replaced")).unwrap();
    assert_eq!(now.modified().unwrap(), before.unwrap());
    assert_eq!(now.permissions().mode() & 0o777, 0o640);
}

/// An entry as an earlier day left it.
fn plant(world: &World, day: &str, content: &[u8]) -> PathBuf {
    let folder = world.root.join("recovery").join(day);
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("t-0-1-old");
    std::fs::write(&path, content).unwrap();
    let record =
        format!("{{\"origin\":\"/x/old\",\"turn_id\":\"t-0\",\"ts\":\"{day}T00:00:00.000Z\"}}\n");
    std::fs::write(folder.join("t-0-1-old.meta.json"), record).unwrap();
    path
}

#[test]
fn old_entries_make_room_for_a_command_and_that_is_told() {
    let mut world = World::new();
    world.guard().quota_bytes = 100;
    let old = plant(&world, "2020-01-01", &[b'o'; 80]);
    world.write("f", &"x".repeat(50));
    let ran = world.run("echo new > f");
    assert_eq!(ran.code, Some(0), "{}", ran.out);
    assert!(!old.exists() && world.has_kept(&"x".repeat(50)));
    let dropped = &ran.done.guarded.dropped;
    assert_eq!(dropped.len(), 1, "{:?}", ran.done.guarded);
    assert_eq!((dropped[0].entries, dropped[0].bytes), (1, 80));
    assert_eq!(open(&world).last_dropped().as_ref(), dropped.first());
    // What is young makes no room: the change is refused, and says what to do.
    world.write("g", &"y".repeat(60));
    let ran = world.run("echo new > g");
    assert_ne!(ran.code, Some(0));
    let refused = ran.done.guarded.refused.join("\n");
    assert!(refused.contains("handsctl recovery rotate"), "{refused}");
    assert_eq!(world.read("g"), Some("y".repeat(60)));
    assert!(world.has_kept(&"x".repeat(50)) && ran.done.guarded.dropped.is_empty());
}

/// Whether a hard-linked file, which is copied and not moved, is kept as well when it is replaced.
#[test]
fn what_cannot_be_moved_is_copied_before_it_is_replaced() {
    let world = World::new();
    world.write("f", "one\n");
    std::fs::hard_link(world.at("f"), world.at("other")).unwrap();
    let ran = world.run("echo new > t && mv -f t f && ls -A");
    assert_eq!(ran.code, Some(0), "{}", ran.out);
    assert_eq!(ran.out, "f\nother\n");
    assert_eq!(world.read("f").as_deref(), Some("new\n"));
    assert_eq!(world.read("other").as_deref(), Some("one\n"));
    assert_eq!(world.kept(), ["one\n"]);
}

/// Where the recovery folder is on another file system nothing can be moved there.
#[test]
fn a_recovery_folder_on_another_file_system_keeps_as_much() {
    let mut world = World::new();
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let recovery = folder.path().canonicalize().unwrap();
    world.guard().recovery = recovery.clone();
    world.plan.masks.push(recovery.clone());
    for (name, text) in [("f", "one\n"), ("d/gone", "two\n"), ("emptied", "three\n")] {
        world.write(name, text);
    }
    std::os::unix::fs::symlink("f", world.at("link")).unwrap();
    world.commit_all();
    let ran = world.run(
        "echo new > t && mv -f t f; git rm -qr d; : > emptied; ln -s x l && mv -Tf l link
         tar cf $TMPDIR/t.tar emptied && tar xf $TMPDIR/t.tar; ls -A",
    );
    assert_eq!(ran.out, ".git\nemptied\nf\nlink\n");
    let recovery = Recovery::open(&recovery, RecoveryLimits::default()).unwrap();
    let all = recovery.list().unwrap();
    for (name, text) in [
        ("f", "one\n"),
        ("d/gone", "two\n"),
        ("emptied", "three\n"),
        ("link", "f"),
    ] {
        let origin = world.at(name);
        let from = all.iter().filter(|e| e.origin.as_ref() == Some(&origin));
        let held: Vec<_> = from.map(|e| content(&recovery, e)).collect();
        assert!(held.contains(&text.as_bytes().to_vec()), "{name}: {held:?}");
    }
}

const SMALL: usize = 40;
const BIG: usize = 1;
const BIG_BYTES: usize = 6 << 20;

/// The person's files: by name, with what they hold. No two hold the same.
fn fill(world: &World, round: usize) -> HashMap<PathBuf, Vec<u8>> {
    let mut all = HashMap::new();
    for way in ["replace", "empty", "write", "remove", "copied"] {
        for number in 0..SMALL + BIG {
            let line = format!("{round} {way} {number}\n").into_bytes();
            let size = if number < SMALL { 1000 } else { BIG_BYTES };
            let content: Vec<u8> = line.iter().copied().cycle().take(size).collect();
            let path = world.at(&format!("{way}/{number}"));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &content).unwrap();
            if way == "copied" {
                // A file with another name is copied, not moved.
                let other = world.at(&format!("names/{number}"));
                std::fs::create_dir_all(other.parent().unwrap()).unwrap();
                std::fs::hard_link(&path, other).unwrap();
            }
            all.insert(path, content);
        }
    }
    all
}

/// Changes every file once, in five ways at the same time, and leaves a process behind.
const WORK: &str = r#"
setsid sleep 986 & setsid nohup sleep 987 >/dev/null 2>&1 &
git rm -qr remove &
python3 - <<'END' &
import os
for n in sorted(os.listdir("replace"), key=int, reverse=True):
    open("t1", "w").write("new")
    os.replace("t1", "replace/" + n)
END
python3 - <<'END' &
import os
for n in sorted(os.listdir("copied"), key=int):
    open("t2", "w").write("new")
    os.replace("t2", "copied/" + n)
END
for f in empty/*; do : > "$f"; done &
for f in write/*; do echo new > "$f"; done
wait
sleep 985
"#;

/// Processes that have the world's folder in their arguments or environment.
fn alive(world: &World) -> Vec<String> {
    let needle = world.root.to_str().unwrap().as_bytes().to_vec();
    let mut found = Vec::new();
    for item in std::fs::read_dir("/proc").unwrap().flatten() {
        let is_process = item.file_name().to_string_lossy().parse::<u32>().is_ok();
        for part in ["cmdline", "environ"] {
            let text = std::fs::read(item.path().join(part)).unwrap_or_default();
            if is_process && text.windows(needle.len()).any(|w| w == needle) {
                found.push(format!(
                    "{}: {}",
                    item.path().display(),
                    String::from_utf8_lossy(&text)
                ));
                break;
            }
        }
    }
    found
}

fn records(world: &World) -> usize {
    let days = std::fs::read_dir(world.root.join("recovery"))
        .unwrap()
        .flatten();
    let items = days.flat_map(|day| {
        std::fs::read_dir(day.path())
            .into_iter()
            .flatten()
            .flatten()
    });
    let is_record =
        |item: &std::fs::DirEntry| item.file_name().to_string_lossy().ends_with(".meta.json");
    items.filter(is_record).count()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "not within 60 s: {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn start(world: &World, command: &str) -> (Child, ChildStdin) {
    let mut child = Command::new(common::program())
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let request = world.request(command);
    writeln!(stdin, "{}", serde_json::to_string(&request).unwrap()).unwrap();
    (child, stdin)
}

/// Starts the work, and kills the runner when so much has been kept.
fn kill_at(world: &World, kept: usize) {
    let before = records(world);
    let (mut child, _stdin) = start(world, WORK);
    wait_until("something is kept", || records(world) >= before + kept);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("no process of the call is alive", || {
        alive(world).is_empty()
    });
}

#[test]
fn a_runner_killed_in_the_middle_leaves_no_process_and_no_torn_file_and_loses_nothing() {
    let mut world = World::new();
    world.guard().file_bytes = 1 << 30;
    world.guard().quota_bytes = 1 << 40;
    let mut in_the_middle = 0;
    for (round, kept) in [1, 3, 10, 40, 90, 140].into_iter().enumerate() {
        let files = fill(&world, round);
        world.commit_all();
        kill_at(&world, kept);

        // The next start finds what the killed one left.
        let recovery = open(&world);
        recovery.settle(Duration::ZERO).unwrap();
        let (entries, strange) = recovery.survey().unwrap();
        assert!(strange.is_empty(), "{strange:?}");
        let mut by_origin: HashMap<PathBuf, Vec<Vec<u8>>> = HashMap::new();
        for entry in &entries {
            recovery.check(entry).unwrap();
            let Some(origin) = entry.origin.clone() else {
                continue;
            };
            let held = content(&recovery, entry);
            if let Some(was) = files.get(&origin) {
                assert!(held == *was, "{} is torn", entry.path.display());
            }
            by_origin.entry(origin).or_default().push(held);
        }
        let (mut as_before, mut changed) = (0, 0);
        for (path, was) in &files {
            let is = std::fs::read(path).ok();
            if is.as_ref() == Some(was) {
                as_before += 1;
                continue;
            }
            changed += 1;
            let kept = by_origin.get(path).is_some_and(|all| all.contains(was));
            assert!(kept, "round {round}: {} is lost", path.display());
        }
        in_the_middle += usize::from(as_before > 0 && changed > 0);
        let temporary = std::fs::read_dir(world.root.join("recovery"))
            .unwrap()
            .flatten();
        let temporary =
            temporary.flat_map(|day| std::fs::read_dir(day.path()).into_iter().flatten());
        for item in temporary.flatten() {
            let name = item.file_name().to_string_lossy().into_owned();
            assert!(!name.starts_with(".tmp-"), "{name} is left");
        }
        std::fs::remove_dir_all(world.root.join("recovery")).unwrap();
        std::fs::create_dir(world.root.join("recovery")).unwrap();
        std::fs::remove_dir_all(world.at("")).unwrap();
        std::fs::create_dir(world.at("")).unwrap();
    }
    assert!(
        in_the_middle >= 3,
        "only {in_the_middle} rounds were cut in the middle"
    );
}

/// Whether a record waits for its content, and where that is now: in its place still, or under the
/// name between.
fn between(world: &World) -> Option<(PathBuf, bool)> {
    let days = std::fs::read_dir(world.root.join("recovery"))
        .unwrap()
        .flatten();
    let items = days.flat_map(|day| {
        std::fs::read_dir(day.path())
            .into_iter()
            .flatten()
            .flatten()
    });
    for item in items {
        let path = item.path();
        let Some(content) = path.to_str().unwrap().strip_suffix(".meta.json") else {
            continue;
        };
        if Path::new(content).exists() {
            continue;
        }
        let record: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).ok()?).ok()?;
        let origin = PathBuf::from(record["origin"].as_str()?);
        let replaced = std::fs::read(&origin).ok()? == b"new";
        return Some((origin, replaced));
    }
    None
}

/// The runner is stopped again and again until it is seen between the record and the move, and
/// killed there.
#[test]
fn a_replaced_file_that_a_killed_runner_did_not_move_is_found() {
    let work = r#"exec python3 -c '
import os
for n in range(1000):
    open("t", "w").write("new")
    os.replace("t", "f%d" % n)
'"#;
    let (mut before, mut after) = (0, 0);
    for _ in 0..30 {
        if before > 0 && after > 0 {
            return;
        }
        let world = World::in_memory();
        for n in 0..1000 {
            world.write(&format!("f{n}"), &format!("old {n}"));
        }
        let (mut child, _stdin) = start(&world, work);
        let pid = rustix::process::Pid::from_child(&child);
        let signal = |signal| rustix::process::kill_process(pid, signal).unwrap();
        let seen = loop {
            signal(rustix::process::Signal::STOP);
            let stat = || std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
            wait_until("it is stopped", || {
                stat().contains(") T ") || stat().contains(") Z ")
            });
            let seen = between(&world);
            if seen.is_some() || world.read("f999").as_deref() == Some("new") {
                break seen;
            }
            signal(rustix::process::Signal::CONT);
            std::thread::sleep(Duration::from_micros(50));
        };
        child.kill().unwrap();
        child.wait().unwrap();
        wait_until("no process of the call is alive", || {
            alive(&world).is_empty()
        });
        let recovery = open(&world);
        let settled = recovery.settle(Duration::ZERO).unwrap();
        if let Some((_, replaced)) = seen {
            before += usize::from(!replaced);
            after += usize::from(replaced);
            assert_eq!(settled.kept, u64::from(replaced));
        }
        let entries = recovery.list().unwrap();
        for n in 0..1000 {
            let (path, old) = (world.at(&format!("f{n}")), format!("old {n}"));
            let holds = |entry: &&Entry| content(&recovery, entry) == old.as_bytes();
            let mut kept = entries.iter().filter(|e| e.origin.as_ref() == Some(&path));
            let there = std::fs::read(&path).unwrap();
            assert!(
                there == old.as_bytes() || kept.any(|e| holds(&e)),
                "f{n} is lost"
            );
        }
    }
    panic!("seen only {before} times before the replacement, {after} times after it");
}
