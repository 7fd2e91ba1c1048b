//! `write_file`: new files, replaced files, and nothing half done.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Place, is_root, picture, put};
use serde_json::{Value, json};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

/// Nothing but these names lies in a folder: no temporary file was left.
fn holds_just(folder: &Path, names: &[&str]) {
    let mut found: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    assert_eq!(found, names);
}

#[test]
fn a_new_file_is_made_with_its_parents_and_without_asking() {
    for place in [Place::new(), Place::in_tmp()] {
        let mut server = place.open();
        let args = json!({"path": "a/b/ünï \u{1F642}.txt", "content": "hello\n"});
        let reply = server.call("write_file", args).ok();
        assert_eq!(reply.path("path"), place.at("a/b/ünï \u{1F642}.txt"));
        assert_eq!(reply.field("created"), true);
        assert_eq!(reply.field("bytes"), 6);
        assert_eq!(place.read("a/b/ünï \u{1F642}.txt"), b"hello\n");
        let read = server
            .call("read_file", json!({"path": "a/b/ünï \u{1F642}.txt"}))
            .ok();
        assert_eq!(read.field("sha256"), reply.field("sha256"));
        server
            .call("write_file", json!({"path": "empty", "content": ""}))
            .ok();
        assert_eq!(place.read("empty"), b"");
        holds_just(&place.at("a/b"), &["ünï \u{1F642}.txt"]);
        server.end();
    }
}

#[test]
fn an_existing_file_needs_a_word_and_consent() {
    let place = Place::new();
    place.write("a.txt", "old");
    let mut server = place.open();
    let plain = json!({"path": "a.txt", "content": "new"});
    server.call("write_file", plain).expect("conflict");
    assert_eq!(place.read("a.txt"), b"old");
    let both = json!({"path": "a.txt", "content": "x", "overwrite": true, "append": true});
    server.call("write_file", both).expect("validation");
    let args = json!({"path": "a.txt", "content": "new", "overwrite": true});
    server
        .call("write_file", args.clone())
        .expect("permission_required");
    assert_eq!(place.read("a.txt"), b"old");
    let reply = server.call_granted("write_file", args).ok();
    assert_eq!(reply.field("created"), false);
    assert_eq!(place.read("a.txt"), b"new");
    assert_eq!(
        std::fs::read(reply.path("previous_recovery_path")).unwrap(),
        b"old"
    );
    let append = json!({"path": "a.txt", "content": "er", "append": true});
    let reply = server.call("write_file", append).ok();
    assert_eq!(place.read("a.txt"), b"newer");
    assert_eq!(
        std::fs::read(reply.path("previous_recovery_path")).unwrap(),
        b"new"
    );
    let fresh = json!({"path": "fresh.txt", "content": "x", "append": true});
    server.call("write_file", fresh).ok();
    holds_just(&place.workspace(), &["a.txt", "fresh.txt"]);
    server.end();
}

#[test]
fn bytes_encodings_and_line_ends_are_as_asked() {
    let place = Place::new();
    let mut server = place.open();
    let mut write = |args: Value| server.call("write_file", args).ok();
    write(json!({"path": "bytes", "content_base64": "AP/+YQ0K"}));
    assert_eq!(place.read("bytes"), b"\0\xff\xfea\r\n");
    write(json!({"path": "latin1", "content": "caf\u{e9}", "encoding": "latin1"}));
    assert_eq!(place.read("latin1"), b"caf\xe9");
    write(json!({"path": "utf16", "content": "é\n", "encoding": "utf-16le"}));
    assert!(place.read("utf16").ends_with(b"\xe9\0\n\0"));
    write(json!({"path": "crlf", "content": "a\nb\r\nc", "eol": "crlf"}));
    assert_eq!(place.read("crlf"), b"a\r\nb\r\nc");
    write(json!({"path": "lf", "content": "a\nb\r\nc", "eol": "lf"}));
    assert_eq!(place.read("lf"), b"a\nb\nc");
    write(json!({"path": "given", "content": "a\nb\r\nc\rd"}));
    assert_eq!(place.read("given"), b"a\nb\r\nc\rd");
    write(json!({"path": "run.sh", "content": "#!/bin/sh\necho ran\n", "executable": true}));
    assert_eq!(mode(&place.at("run.sh")) & 0o111, 0o111);
    assert_eq!(server.bash("./run.sh").ok().stdout(), "ran\n");
    let bad = json!({"path": "bad", "content": "日本", "encoding": "latin1"});
    server.call("write_file", bad).expect("validation");
    assert!(!place.at("bad").exists());
    // Appended text takes the file's own encoding.
    let args = json!({"path": "latin1", "content": "\u{e9}", "append": true});
    server.call_granted("write_file", args).ok();
    assert_eq!(place.read("latin1"), b"caf\xe9\xe9");
    server.end();
}

#[test]
fn replacing_keeps_mode_owner_and_links() {
    let place = Place::new();
    let script = place.write("run.sh", "old");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o751)).unwrap();
    place.write("real/target.txt", "old");
    symlink("real/target.txt", place.at("link.txt")).unwrap();
    place.write("one", "old");
    std::fs::hard_link(place.at("one"), place.at("two")).unwrap();
    let mut server = place.open();
    let mut write = |path: &str| {
        let args = json!({"path": path, "content": "new", "overwrite": true});
        server.call_granted("write_file", args).ok()
    };
    write("run.sh");
    assert_eq!(mode(&script), 0o751);
    write("link.txt");
    assert_eq!(
        place.at("link.txt").read_link().unwrap(),
        Path::new("real/target.txt")
    );
    assert_eq!(place.read("real/target.txt"), b"new");
    write("one");
    assert_eq!(place.read("two"), b"new");
    assert_eq!(place.at("one").metadata().unwrap().nlink(), 2);
    server.end();
}

#[test]
fn extended_attributes_stay() {
    if !common::has("python3") {
        return;
    }
    let place = Place::new();
    let path = place.write("a.txt", "old");
    let python = |code: &str| {
        let run = std::process::Command::new("python3")
            .arg("-c")
            .arg(code)
            .arg(&path)
            .output();
        let output = run.unwrap();
        (
            output.status.success(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    let set = "import os,sys; os.setxattr(sys.argv[1], 'user.note', b'kept')";
    if !python(set).0 {
        return; // This file system has none.
    }
    let mut server = place.open();
    let args = json!({"path": "a.txt", "content": "new", "overwrite": true});
    server.call_granted("write_file", args).ok();
    let get = "import os,sys; print(os.getxattr(sys.argv[1], 'user.note').decode())";
    assert_eq!(python(get), (true, "kept\n".into()));
    assert_eq!(place.read("a.txt"), b"new");
    server.end();
}

#[test]
fn a_write_that_fails_leaves_the_old_content() {
    let place = Place::new();
    place.write("a.txt", "old content");
    let small = place.start().env("HANDS_LIMITS_RECOVERY_FILE_BYTES", "5");
    let mut server = small.open();
    let args = json!({"path": "a.txt", "content": "new", "overwrite": true});
    let reply = server
        .call_granted("write_file", args.clone())
        .expect("too_large");
    assert!(
        reply.text().contains("recovery_file_bytes"),
        "{}",
        reply.text()
    );
    assert_eq!(place.read("a.txt"), b"old content");
    let edit = json!({"path": "a.txt", "old": "old", "new": "new"});
    server.call_granted("edit", edit).expect("too_large");
    assert_eq!(place.read("a.txt"), b"old content");
    server.end();
    if !is_root() {
        place.write("locked/b.txt", "old content");
        let lock = |mode| {
            let folder = place.at("locked");
            std::fs::set_permissions(folder, PermissionsExt::from_mode(mode)).unwrap();
        };
        lock(0o555);
        let mut server = place.open();
        for name in ["locked/b.txt", "locked/new.txt"] {
            let args = json!({"path": name, "content": "new", "overwrite": true});
            server.call_granted("write_file", args).expect("sandbox");
        }
        let edit = json!({"path": "locked/b.txt", "old": "old", "new": "new"});
        server.call_granted("edit", edit).expect("sandbox");
        server.end();
        lock(0o755);
        assert_eq!(place.read("locked/b.txt"), b"old content");
        holds_just(&place.at("locked"), &["b.txt"]);
    }
    holds_just(
        &place.workspace(),
        if is_root() {
            &["a.txt"]
        } else {
            &["a.txt", "locked"]
        },
    );
}

/// An entry of the recovery folder as another day left it.
fn old_entry(place: &Place, day: &str, content: &str) -> std::path::PathBuf {
    let folder = place.home().join("work/recovery").join(day);
    let path = put(&folder.join("t-0-1-old"), content);
    let record =
        format!("{{\"origin\":\"/x/old\",\"turn_id\":\"t-0\",\"ts\":\"{day}T00:00:00.000Z\"}}");
    put(&folder.join("t-0-1-old.meta.json"), record);
    path
}

#[test]
fn old_recovery_files_make_room_and_the_trail_says_so() {
    let place = Place::new();
    place.write("a.txt", "0123456789");
    place.write("b.txt", "0123456789");
    let start = place.start().env("HANDS_LIMITS_RECOVERY_BYTES", "25");
    let mut server = start.open();
    let old = old_entry(&place, "2020-01-01", "xxxxxxxxxxxxxxxxxxxx");
    let args = json!({"path": "a.txt", "content": "new", "overwrite": true});
    server.call_granted("write_file", args).ok();
    assert!(!old.exists());
    let said = "1 recovery entries (20 bytes) kept until 2020-01-01T00:00:00.000Z were dropped";
    let notes = place.trail_lines();
    assert!(notes.iter().any(|line| line.contains(said)), "{notes:#?}");
    // A command's, too; and what is young makes no room.
    let older = old_entry(&place, "2019-01-01", "xxxxxxxxxxxx");
    let reply = server.bash("echo new > b.txt").ok();
    assert!(!older.exists() && reply.text().contains("were dropped to make room"));
    let notes = place.trail_lines();
    let notes = notes
        .iter()
        .filter(|line| line.contains("dropped to make room"));
    assert!(notes.count() >= 2);
    place.write("c.txt", "0123456789");
    let args = json!({"path": "c.txt", "content": "new", "overwrite": true});
    let refused = server.call_granted("write_file", args).expect("too_large");
    assert!(
        refused.text().contains("handsctl recovery rotate"),
        "{}",
        refused.text()
    );
    assert_eq!(place.read("c.txt"), b"0123456789");
    server.end();
}

#[test]
fn read_only_files_stay() {
    if is_root() {
        return; // Nothing is read-only to root.
    }
    let place = Place::new();
    let path = place.write("a.txt", "old");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).unwrap();
    let unreadable = place.write("b.txt", "old");
    std::fs::set_permissions(&unreadable, PermissionsExt::from_mode(0o200)).unwrap();
    let mut server = place.open();
    for name in ["a.txt", "b.txt"] {
        // Nobody is asked for what then cannot be done.
        let args = json!({"path": name, "content": "new", "overwrite": true});
        server.call("write_file", args).expect("sandbox");
    }
    assert_eq!(place.read("a.txt"), b"old");
    server.end();
}

#[test]
fn consent_is_asked_only_for_what_can_be_written() {
    let place = Place::new();
    place.write("a.txt", "old");
    let mut server = place.open();
    let args = json!({"path": "a.txt", "content": "日", "overwrite": true, "encoding": "latin1"});
    server.call("write_file", args).expect("validation");
    let args = json!({"path": "a.txt", "content": "x", "overwrite": true});
    server
        .call("write_file", args)
        .expect("permission_required");
    server.end();
}

#[test]
fn the_private_tmp_is_said_to_be_private() {
    let place = Place::new();
    let mut server = place.open();
    let args = json!({"path": "/tmp/hands-test-new", "content": "x"});
    let reply = server.call("write_file", args).ok();
    let said = "Created /tmp/hands-test-new in this session's private /tmp (1 bytes).";
    assert_eq!(reply.text(), said);
    assert_eq!(reply.string("path"), "/tmp/hands-test-new");
    let args = json!({"path": "/tmp/hands-test-new", "content": "y", "overwrite": true});
    let reply = server.call("write_file", args).ok();
    assert!(reply.text().contains("private /tmp"), "{}", reply.text());
    let args = json!({"path": "new.txt", "content": "x"});
    let reply = server.call("write_file", args).ok();
    assert!(!reply.text().contains("private"), "{}", reply.text());
    server.end();
}

#[test]
fn appends_at_once_are_all_there() {
    let place = Place::new();
    place.write("log.txt", "");
    let mut server = place.open();
    let first = json!({"path": "log.txt", "content": "start\n", "append": true});
    server.call_granted("write_file", first).ok();
    let ids: Vec<Value> = (0..40)
        .map(|n| {
            let args = json!({"path": "log.txt", "content": format!("line {n}\n"), "append": true});
            server.start_call("write_file", args)
        })
        .collect();
    ids.iter().for_each(|id| drop(server.reply(id).ok()));
    let text = String::from_utf8(place.read("log.txt")).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    let mut expected: Vec<String> = (0..40).map(|n| format!("line {n}")).collect();
    expected.push("start".into());
    expected.sort_unstable();
    assert_eq!(lines, expected);
    holds_just(&place.workspace(), &["log.txt"]);
    server.end();
}

#[test]
fn one_of_many_creators_wins() {
    let place = Place::new();
    let mut server = place.open();
    let ids: Vec<Value> = (0..20)
        .map(|n| {
            let args = json!({"path": "new/one.txt", "content": n.to_string()});
            server.start_call("write_file", args)
        })
        .collect();
    let replies: Vec<_> = ids.iter().map(|id| server.reply(id)).collect();
    let won: Vec<usize> = (0..20).filter(|n| replies[*n].code() == "ok").collect();
    assert_eq!(won.len(), 1, "{won:?}");
    assert_eq!(place.read("new/one.txt"), won[0].to_string().as_bytes());
    replies
        .iter()
        .filter(|r| r.code() != "ok")
        .for_each(|r| drop(r.clone().expect("conflict")));
    holds_just(&place.at("new"), &["one.txt"]);
    server.end();
}

#[test]
fn outside_the_workspaces_nothing_is_changed() {
    let place = Place::new();
    let outside = put(&place.ann().join("Documents/report.md"), "the original");
    let mut server = place.open();
    let args = json!({"path": outside, "content": "changed", "overwrite": true});
    let reply = server.call("write_file", args.clone()).ok();
    assert_eq!(reply.path("redirected_from"), outside);
    let copy = outside.with_file_name("report.edited.md");
    assert_eq!(reply.path("path"), copy);
    assert_eq!(std::fs::read(&copy).unwrap(), b"changed");
    assert_eq!(std::fs::read(&outside).unwrap(), b"the original");
    // The next one gets a name of its own.
    let reply = server.call("write_file", args).ok();
    assert_eq!(
        reply.path("path"),
        outside.with_file_name("report.edited-2.md")
    );
    let append = json!({"path": outside, "content": " and more", "append": true});
    let reply = server.call("write_file", append).ok();
    assert_eq!(
        std::fs::read(reply.path("path")).unwrap(),
        b"the original and more"
    );
    let edit = json!({"path": outside, "old": "original", "new": "edited"});
    let reply = server.call("edit", edit).ok();
    assert_eq!(std::fs::read(reply.path("path")).unwrap(), b"the edited");
    assert_eq!(reply.path("redirected_from"), outside);
    assert_eq!(std::fs::read(&outside).unwrap(), b"the original");
    // New files are not made there.
    let before = picture(&place.ann());
    for path in ["~/Documents/new.md", "~/new.md", "~/new/folder/x"] {
        server
            .call("write_file", json!({"path": path, "content": "x"}))
            .expect("protected_path");
    }
    assert_eq!(picture(&place.ann()), before);
    server.end();
}

#[test]
fn extra_folders_of_the_configuration_are_written() {
    let place = Place::new();
    let extra = place.ann().join("Notes");
    std::fs::create_dir(&extra).unwrap();
    let mut server = place.start().env("HANDS_WRITE_EXTRA", &extra).open();
    let path = extra.join("n.md");
    server
        .call("write_file", json!({"path": path, "content": "x"}))
        .ok();
    let args = json!({"path": path, "content": "y", "overwrite": true});
    server
        .call("write_file", args.clone())
        .expect("permission_required");
    server.call_granted("write_file", args).ok();
    assert_eq!(std::fs::read(&path).unwrap(), b"y");
    server.end();
}

#[test]
fn read_only_mode_writes_nothing() {
    let place = Place::new();
    place.write("a.txt", "old");
    let mut server = place.start().env("HANDS_SANDBOX_MODE", "read-only").open();
    let before = picture(&place.workspace());
    for args in [
        json!({"path": "new.txt", "content": "x"}),
        json!({"path": "a.txt", "content": "x", "overwrite": true}),
    ] {
        server.call("write_file", args).expect("protected_path");
    }
    server
        .call("edit", json!({"path": "a.txt", "old": "old", "new": "x"}))
        .expect("protected_path");
    server.bash("echo x > a.txt").expect("process");
    server.bash("echo x > new.txt").expect("process");
    server.bash("echo fine > /tmp/x && cat /tmp/x").ok();
    assert_eq!(picture(&place.workspace()), before);
    let read = server.call("read_file", json!({"path": "a.txt"}));
    assert_eq!(read.ok().text(), "old");
    server.end();
}

#[test]
fn folders_are_no_files() {
    let place = Place::new();
    std::fs::create_dir(place.at("d")).unwrap();
    let mut server = place.open();
    for path in ["d", "d/", ".", "~/Hands"] {
        let args = json!({"path": path, "content": "x", "overwrite": true});
        server.call("write_file", args).failed();
    }
    for path in ["new/", "/tmp/new/", "d/"] {
        let args = json!({"path": path, "content": "x"});
        let reply = server.call("write_file", args).expect("validation");
        assert!(reply.text().contains("`path`"), "{}", reply.text());
    }
    server
        .call("write_file", json!({"path": "a\0b", "content": "x"}))
        .expect("validation");
    let long = "n".repeat(300);
    server
        .call("write_file", json!({"path": long, "content": "x"}))
        .expect("validation");
    holds_just(&place.workspace(), &["d"]);
    server.end();
}
