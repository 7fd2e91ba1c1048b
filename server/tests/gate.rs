//! The permission gate: what asks, what opens, and what does not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Place, Reply, Server, until};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

fn overwrite(path: &str, text: &str) -> Value {
    json!({"path": path, "content": text, "overwrite": true})
}

fn with_nonce(mut args: Value, nonce: &str) -> Value {
    args["nonce"] = nonce.into();
    args
}

/// Asks for a change and takes the nonce that is answered.
fn nonce_for(server: &mut Server, path: &str) -> String {
    let reply = server.call("write_file", overwrite(path, "x"));
    reply
        .expect("permission_required")
        .string("nonce")
        .to_string()
}

/// A refusal that hands out another nonce, or tells that the folder is open, and not both.
fn refused(reply: Reply) -> Reply {
    let reply = reply.expect("permission_required");
    let has_nonce = reply.field("nonce").is_string();
    let without = reply.text().contains("without a nonce");
    assert_ne!(has_nonce, without, "{}", reply.text());
    reply
}

#[test]
fn the_first_change_asks_and_the_nonce_opens_the_folder() {
    let place = Place::new();
    place.write("docs/a.txt", "old a");
    place.write("docs/deep/b.txt", "old b");
    let mut server = place.open();
    let asked = server.call("write_file", overwrite("docs/a.txt", "new a"));
    let asked = asked.expect("permission_required");
    assert_eq!(asked.path("folder"), place.at("docs"));
    assert!(asked.string("expires_at").ends_with('Z'));
    let nonce = asked.string("nonce").to_string();
    assert!(
        asked.text().contains(&nonce) && asked.text().contains("user"),
        "{}",
        asked.text()
    );
    assert_eq!(place.read("docs/a.txt"), b"old a");
    server
        .call(
            "write_file",
            with_nonce(overwrite("docs/a.txt", "new a"), &nonce),
        )
        .ok();
    assert_eq!(place.read("docs/a.txt"), b"new a");
    // The folder is open now, for both tools and below it.
    server
        .call("write_file", overwrite("docs/deep/b.txt", "new b"))
        .ok();
    server
        .call(
            "edit",
            json!({"path": "docs/a.txt", "old": "new", "new": "newer"}),
        )
        .ok();
    let append = json!({"path": "docs/a.txt", "content": "!", "append": true});
    server.call("write_file", append).ok();
    assert_eq!(place.read("docs/a.txt"), b"newer a!");
    server.end();
}

#[test]
fn each_top_folder_asks_for_itself_and_the_workspaces_own_files_are_one() {
    let place = Place::new();
    for path in ["one/a", "two/a", "a", "b"] {
        place.write(path, "old");
    }
    let mut server = place.open();
    server
        .call_granted("write_file", overwrite("one/a", "new"))
        .ok();
    refused(server.call("write_file", overwrite("two/a", "new")));
    refused(server.call("write_file", overwrite("a", "new")));
    server
        .call_granted("write_file", overwrite("a", "new"))
        .ok();
    server.call("write_file", overwrite("b", "new")).ok();
    refused(server.call("write_file", overwrite("two/a", "new")));
    assert_eq!(place.read("two/a"), b"old");
    server.end();
}

#[test]
fn every_kind_of_change_asks_and_a_new_file_does_not() {
    let place = Place::new();
    place.write("d/a", "old");
    let mut server = place.open();
    server
        .call("write_file", json!({"path": "d/new", "content": "x"}))
        .ok();
    // Even one that was just made is an existing file.
    refused(server.call("write_file", overwrite("d/new", "y")));
    refused(server.call(
        "write_file",
        json!({"path": "d/a", "content": "x", "append": true}),
    ));
    refused(server.call("edit", json!({"path": "d/a", "old": "old", "new": "x"})));
    let files = json!({"files": [{"path": "d/a", "edits": [{"old": "old", "new": "x"}]}]});
    refused(server.call("edit", files));
    assert_eq!(place.read("d/a"), b"old");
    assert_eq!(place.read("d/new"), b"x");
    server.end();
}

#[test]
fn a_used_nonce_opens_nothing() {
    let place = Place::new();
    place.write("one/a", "old");
    place.write("two/a", "old");
    let mut server = place.open();
    let nonce = nonce_for(&mut server, "one/a");
    server
        .call("write_file", with_nonce(overwrite("one/a", "1"), &nonce))
        .ok();
    let again = refused(server.call("write_file", with_nonce(overwrite("one/a", "2"), &nonce)));
    assert!(again.text().contains("used before"), "{}", again.text());
    assert_eq!(place.read("one/a"), b"1");
    let other = refused(server.call("write_file", with_nonce(overwrite("two/a", "2"), &nonce)));
    let fresh = format!("this new nonce \"{}\"", other.string("nonce"));
    assert!(other.text().contains(&fresh), "{}", other.text());
    assert_eq!(place.read("two/a"), b"old");
    // Without it the folder is open, as the answer said.
    server.call("write_file", overwrite("one/a", "3")).ok();
    server.end();
}

#[test]
fn a_nonce_of_another_folder_opens_nothing() {
    let place = Place::new();
    place.write("one/a", "old");
    place.write("two/a", "old");
    let mut server = place.open();
    let nonce = nonce_for(&mut server, "one/a");
    let wrong = refused(server.call("write_file", with_nonce(overwrite("two/a", "x"), &nonce)));
    assert_ne!(wrong.string("nonce"), nonce);
    assert_eq!(place.read("two/a"), b"old");
    server.end();
}

#[test]
fn a_nonce_for_one_use_is_good_for_no_other() {
    let change = |kind: &str| match kind {
        "overwrite" => ("write_file", overwrite("d/a", "new")),
        "append" => (
            "write_file",
            json!({"path": "d/a", "content": "+", "append": true}),
        ),
        _ => ("edit", json!({"path": "d/a", "old": "old", "new": "x"})),
    };
    for asked in ["overwrite", "append", "edit"] {
        let place = Place::new();
        place.write("d/a", "old");
        let mut server = place.open();
        let (tool, args) = change(asked);
        let nonce = refused(server.call(tool, args.clone()));
        let nonce = nonce.string("nonce").to_string();
        for other in ["overwrite", "append", "edit"] {
            if other == asked {
                continue;
            }
            let (tool, args) = change(other);
            let wrong = refused(server.call(tool, with_nonce(args, &nonce)));
            let why = format!("issued for another use ({asked})");
            assert!(wrong.text().contains(&why), "{}", wrong.text());
            assert_eq!(place.read("d/a"), b"old", "{asked} for {other}");
        }
        // For its own use it still works, and the folder is then open for all of them.
        server.call(tool, with_nonce(args, &nonce)).ok();
        server.call("write_file", overwrite("d/a", "the last")).ok();
        assert_eq!(place.read("d/a"), b"the last");
        server.end();
    }
}

#[test]
fn a_nonce_of_another_session_opens_nothing() {
    let place = Place::new();
    place.write("d/a", "old");
    let mut first = place.open();
    let mut second = place.open();
    let nonce = nonce_for(&mut first, "d/a");
    refused(second.call("write_file", with_nonce(overwrite("d/a", "x"), &nonce)));
    assert_eq!(place.read("d/a"), b"old");
    // A grant is the session's own too.
    first
        .call("write_file", with_nonce(overwrite("d/a", "1"), &nonce))
        .ok();
    refused(second.call("write_file", overwrite("d/a", "x")));
    assert_eq!(place.read("d/a"), b"1");
    second.end_beside(&first);
    first.end();
    let mut third = place.open();
    refused(third.call("write_file", with_nonce(overwrite("d/a", "x"), &nonce)));
    refused(third.call("write_file", overwrite("d/a", "x")));
    assert_eq!(place.read("d/a"), b"1");
    third.end();
}

#[test]
fn a_made_up_nonce_opens_nothing() {
    let place = Place::new();
    place.write("d/a", "old");
    let mut server = place.open();
    let real = nonce_for(&mut server, "d/a");
    let shorter = real[..real.len() - 1].to_string();
    let longer = format!("{real}0");
    let zeros = "0".repeat(real.len());
    let huge = "a".repeat(100_000);
    for nonce in [
        &shorter,
        &longer,
        &zeros,
        "yes",
        "true",
        "*",
        &real.to_uppercase(),
        &huge,
    ] {
        if *nonce == real {
            continue; // A nonce of digits only has no other case.
        }
        refused(server.call("write_file", with_nonce(overwrite("d/a", "x"), nonce)));
    }
    assert_eq!(place.read("d/a"), b"old");
    let nonce = json!({"path": "d/a", "content": "x", "overwrite": true, "nonce": 5});
    server.call("write_file", nonce).expect("validation");
    server.end();
}

#[test]
fn an_expired_nonce_opens_nothing() {
    let place = Place::new();
    place.write("d/a", "old");
    // The shortest that the configuration takes.
    let mut server = place
        .start()
        .env("HANDS_PERMISSIONS_NONCE_TTL_S", "10")
        .open();
    let nonce = nonce_for(&mut server, "d/a");
    let asked = SystemTime::now();
    until("its time is over", Duration::from_secs(20), || {
        asked.elapsed().unwrap_or_default() > Duration::from_millis(10_050)
    });
    let late = refused(server.call("write_file", with_nonce(overwrite("d/a", "x"), &nonce)));
    assert!(late.text().contains("expired"), "{}", late.text());
    assert_eq!(place.read("d/a"), b"old");
    // The one that comes with the refusal works.
    let fresh = late.string("nonce");
    server
        .call("write_file", with_nonce(overwrite("d/a", "new"), fresh))
        .ok();
    assert_eq!(place.read("d/a"), b"new");
    server.end();
}

#[test]
fn a_grant_ends_when_its_time_is_over() {
    let place = Place::new();
    place.write("d/a", "old");
    let mut server = place
        .start()
        .env("HANDS_PERMISSIONS_GRANT_TTL_S", "10")
        .open();
    server
        .call_granted("write_file", overwrite("d/a", "1"))
        .ok();
    let granted = SystemTime::now();
    server.call("write_file", overwrite("d/a", "2")).ok();
    until("the grant is over", Duration::from_secs(20), || {
        granted.elapsed().unwrap_or_default() > Duration::from_millis(10_050)
    });
    refused(server.call("write_file", overwrite("d/a", "3")));
    assert_eq!(place.read("d/a"), b"2");
    server.end();
}

#[test]
fn several_folders_in_one_edit_all_have_to_be_open() {
    let place = Place::new();
    place.write("one/a", "old");
    place.write("two/a", "old");
    let mut server = place.open();
    let args = json!({"files": [
        {"path": "one/a", "edits": [{"old": "old", "new": "new"}]},
        {"path": "two/a", "edits": [{"old": "old", "new": "new"}]},
    ]});
    let first = refused(server.call("edit", args.clone()));
    let second = refused(server.call("edit", with_nonce(args.clone(), first.string("nonce"))));
    assert_ne!(first.string("folder"), second.string("folder"));
    assert_eq!(
        (place.read("one/a"), place.read("two/a")),
        (b"old".to_vec(), b"old".to_vec())
    );
    server
        .call("edit", with_nonce(args, second.string("nonce")))
        .ok();
    assert_eq!(
        (place.read("one/a"), place.read("two/a")),
        (b"new".to_vec(), b"new".to_vec())
    );
    server.end();
}

#[test]
fn a_way_round_by_names_leads_to_the_same_gate() {
    let place = Place::new();
    place.write("open/a", "old");
    place.write("shut/a", "old");
    std::os::unix::fs::symlink("../shut", place.at("open/into-shut")).unwrap();
    std::os::unix::fs::symlink("../shut/a", place.at("open/link")).unwrap();
    let mut server = place.open();
    server
        .call_granted("write_file", overwrite("open/a", "new"))
        .ok();
    for path in [
        "open/into-shut/a",
        "open/link",
        "open/../shut/a",
        "./shut//a",
    ] {
        let asked = refused(server.call("write_file", overwrite(path, "x")));
        assert_eq!(asked.path("folder"), place.at("shut"), "{path}");
    }
    assert_eq!(place.read("shut/a"), b"old");
    server.end();
}

#[test]
fn consent_is_on_record() {
    let place = Place::new();
    place.write("d/a", "old");
    place.write("e/a", "old");
    let mut server = place.open();
    let asked = refused(server.call("write_file", overwrite("d/a", "1")));
    let nonce = asked.string("nonce").to_string();
    let done = server
        .call("write_file", with_nonce(overwrite("d/a", "1"), &nonce))
        .ok();
    refused(server.call("write_file", with_nonce(overwrite("d/a", "2"), &nonce)));
    let other = refused(server.call("write_file", with_nonce(overwrite("e/a", "2"), &nonce)));
    assert_ne!(other.string("nonce"), nonce);
    server.end();
    let trail = place.trail();
    let denied = trail.iter().filter(|r| r["event"] == "denied").count();
    assert_eq!(denied, 3);
    let steps: Vec<&Value> = trail
        .iter()
        .filter(|r| r["event"] == "permission" || r["event"] == "grant")
        .collect();
    let (d, e) = (place.text("d"), place.text("e"));
    let expected = [
        ("permission", "asked", &d, "nonce issued for"),
        ("grant", "opened", &d, "nonce accepted (overwrite)"),
        ("permission", "refused", &d, "used before"),
        ("permission", "refused", &e, "another session or folder"),
        ("permission", "asked", &e, "nonce issued for"),
        ("grant", "ended", &d, "the session has ended"),
        ("permission", "ended", &e, "was not used"),
    ];
    assert_eq!(steps.len(), expected.len(), "{steps:#?}");
    for (step, (event, status, folder, says)) in steps.iter().zip(expected) {
        assert_eq!(
            (&step["event"], &step["status"]),
            (&json!(event), &json!(status))
        );
        let message = step["message"].as_str().unwrap();
        assert!(message.contains(folder.as_str()), "{message}");
        assert!(message.contains(says), "{message}");
    }
    assert_eq!(steps[1]["turn_id"], done.string("turn_id"));
    // What would open a folder stands in no record but the planner's own calls.
    let own = |r: &&Value| r["event"] != "call" && r.to_string().contains(&nonce);
    assert_eq!(trail.iter().filter(own).count(), 0);
    assert_eq!(place.verify()["ok"], true);
}

#[test]
fn what_time_ends_is_on_record_without_another_call() {
    let place = Place::new();
    place.write("d/a", "old");
    place.write("e/a", "old");
    let mut server = place
        .start()
        .env("HANDS_PERMISSIONS_GRANT_TTL_S", "10")
        .env("HANDS_PERMISSIONS_NONCE_TTL_S", "10")
        .open();
    server
        .call_granted("write_file", overwrite("d/a", "1"))
        .ok();
    nonce_for(&mut server, "e/a");
    let expired = |event: &str| {
        let is = |r: &Value| r["event"] == event && r["status"] == "expired";
        place.trail().iter().any(is)
    };
    until("both are on record", Duration::from_secs(60), || {
        expired("grant") && expired("permission")
    });
    server.end();
    let ended = place.trail().iter().any(|r| r["status"] == "ended");
    assert!(!ended, "what has ended does not end again");
}
