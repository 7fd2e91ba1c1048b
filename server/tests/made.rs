//! What the file tools make is the session's own, and its commands may remove it; nothing else
//! becomes so.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Place, Server};
use serde_json::json;

/// A server that looks at no command line, so that only the sandbox is asked.
fn open(place: &Place) -> Server {
    let config = place.home().join("config.toml");
    common::put(&config, "[sandbox]\ncommand_check = false\n");
    place.open()
}

fn unlink(server: &mut Server, name: &str) -> common::Reply {
    server.bash(&format!("rm {name}"))
}

fn write(server: &mut Server, name: &str, content: &str, how: Option<&str>) {
    let mut args = json!({"path": name, "content": content});
    if let Some(how) = how {
        args[how] = true.into();
    }
    server.call_granted("write_file", args).ok();
}

#[test]
fn what_the_file_tools_made_a_command_removes() {
    let place = Place::new();
    // With the look at the command line as well.
    let mut server = place.open();
    for name in ["plain", "replaced", "longer", "edited", "folder/deep/x"] {
        write(&mut server, name, "made\n", None);
    }
    write(&mut server, "replaced", "anew\n", Some("overwrite"));
    write(&mut server, "longer", "more\n", Some("append"));
    let edits = json!({"path": "edited", "edits": [{"old": "made", "new": "changed"}]});
    server.call_granted("edit", edits).ok();
    assert_eq!(place.read("edited"), b"changed\n");
    assert_eq!(place.read("longer"), b"made\nmore\n");
    server
        .bash("rm plain replaced longer edited && rm -r folder")
        .ok();
    let left = std::fs::read_dir(place.workspace()).unwrap().count();
    assert_eq!(left, 0, "the workspace is empty again");
    server.end();
}

#[test]
fn what_was_there_stays_however_a_file_tool_changed_it() {
    let place = Place::new();
    for name in ["replaced", "longer", "edited", "linked", "there/old"] {
        place.write(name, "old\n");
    }
    std::fs::hard_link(place.at("linked"), place.at("other")).unwrap();
    let mut server = open(&place);
    write(&mut server, "replaced", "anew\n", Some("overwrite"));
    write(&mut server, "longer", "more\n", Some("append"));
    write(&mut server, "linked", "anew\n", Some("overwrite"));
    write(&mut server, "there/new", "made\n", None);
    let edits = json!({"path": "edited", "edits": [{"old": "old", "new": "changed"}]});
    server.call_granted("edit", edits).ok();
    for name in [
        "replaced",
        "longer",
        "edited",
        "linked",
        "other",
        "there/old",
    ] {
        unlink(&mut server, name).expect("process");
        assert!(place.at(name).exists(), "{name}");
    }
    server.bash("rm -r there").expect("process");
    assert!(!place.at("there/new").exists() && place.at("there/old").exists());
    assert_eq!(place.read("edited"), b"changed\n");
    server.end();
}

#[test]
fn what_the_person_puts_in_its_place_stays() {
    let place = Place::new();
    let mut server = open(&place);
    write(&mut server, "saved", "made\n", None);
    write(&mut server, "anew", "made\n", None);
    // A save by renaming, as editors do, and a new file under an old name.
    place.write("saved.tmp", "the person's\n");
    std::fs::rename(place.at("saved.tmp"), place.at("saved")).unwrap();
    std::fs::remove_file(place.at("anew")).unwrap();
    place.write("anew", "the person's\n");
    for name in ["saved", "anew"] {
        unlink(&mut server, name).expect("process");
        assert_eq!(place.read(name), b"the person's\n", "{name}");
    }
    // Changing it does not make it the session's.
    write(&mut server, "saved", "changed\n", Some("overwrite"));
    unlink(&mut server, "saved").expect("process");
    assert_eq!(place.read("saved"), b"changed\n");
    server.end();
}

#[test]
fn another_session_has_no_part_in_it_and_nobody_writes_the_ledger() {
    let place = Place::new();
    let mut server = open(&place);
    write(&mut server, "made", "made\n", None);
    let mut other = open(&place);
    unlink(&mut other, "made").expect("process");
    assert_eq!(place.read("made"), b"made\n");
    place.write("old", "old\n");
    let scratch = place.home().join("work/scratch");
    let sessions = std::fs::read_dir(&scratch).unwrap().flatten();
    let ledgers: Vec<_> = sessions
        .map(|session| session.path().join("made"))
        .filter(|ledger| ledger.exists())
        .collect();
    assert!(!ledgers.is_empty(), "in {}", scratch.display());
    for ledger in ledgers {
        let before = std::fs::read(&ledger).unwrap();
        let ledger_text = ledger.to_str().unwrap();
        let args = json!({"path": ledger_text, "content": "made 1 2 3 4\n", "append": true});
        other.call("write_file", args).expect("protected_path");
        let line = format!("echo made 1 2 3 4 >> {ledger_text}");
        other.bash(&line).expect("process");
        assert_eq!(std::fs::read(&ledger).unwrap(), before);
    }
    unlink(&mut other, "old").expect("process");
    assert_eq!(place.read("old"), b"old\n");
    drop(server);
    other.end();
}
