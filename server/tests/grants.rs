//! The person's side of the gate: folders that only `handsctl` opens, what commands write then, and
//! closing again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Place, Reply, SOON, Server, program, search_path, until};
use serde_json::{Value, json};
use std::process::Command;

fn overwrite(path: &str, text: &str) -> Value {
    json!({"path": path, "content": text, "overwrite": true})
}

/// Where only the person grants.
fn human(place: &Place) -> Server {
    place.start().env("HANDS_PERMISSIONS_MODE", "human").open()
}

fn permissions(place: &Place, args: &[&str]) -> String {
    let (code, out, err) = place.handsctl(&[&["permissions"], args].concat());
    assert_eq!(code, Some(0), "{args:?}: {out} {err}");
    out
}

/// Both kinds of place: `/tmp` is special for commands.
fn places() -> [Place; 2] {
    [Place::new(), Place::in_tmp()]
}

/// A refusal that hands out no nonce.
fn refused(reply: Reply) -> Reply {
    let reply = reply.expect("permission_required");
    assert!(reply.field("nonce").is_null(), "{}", reply.text());
    reply
}

#[test]
fn where_only_the_person_grants_no_nonce_opens_anything() {
    let place = Place::new();
    let name = "it's a 'report'\n$(x)";
    place.write(&format!("{name}/a"), "old");
    place.write("d/a", "old");
    let mut server = human(&place);
    let path = format!("{name}/a");
    let asked = refused(server.call("write_file", overwrite(&path, "new")));
    assert_eq!(asked.path("folder"), place.at(name));
    let line = asked.string("grant_command").to_string();
    assert!(asked.text().contains(&line), "{}", asked.text());
    assert!(line.chars().all(|c| !c.is_control()), "{line:?}");
    for nonce in ["yes", &"0".repeat(32), &line] {
        let mut args = overwrite(&path, "new");
        args["nonce"] = (*nonce).into();
        let reply = refused(server.call("write_file", args));
        assert!(reply.text().contains("only its user"), "{}", reply.text());
    }
    for change in [
        json!({"path": path, "content": "x", "append": true}),
        json!({"path": path, "content": "x", "overwrite": true, "nonce": ""}),
    ] {
        refused(server.call("write_file", change));
    }
    refused(server.call("edit", json!({"path": path, "old": "old", "new": "x"})));
    assert_eq!(place.read(&path), b"old");
    // The line in the answer is one that a person can paste.
    let search = search_path();
    let folders = [program("handsctl").parent().unwrap().to_path_buf()]
        .into_iter()
        .chain(std::env::split_paths(&search));
    let shell = Command::new("bash")
        .args(["-c", &line])
        .env_clear()
        .env("PATH", std::env::join_paths(folders).unwrap())
        .env("HOME", place.ann())
        .output()
        .unwrap();
    assert!(shell.status.success(), "{line}: {shell:?}");
    server.call("write_file", overwrite(&path, "new")).ok();
    assert_eq!(place.read(&path), b"new");
    // A new file replaces nothing; another folder is not open.
    server
        .call("write_file", json!({"path": "d/new", "content": "x"}))
        .ok();
    refused(server.call("write_file", overwrite("d/a", "x")));
    // A nonce is no good where the folder is open either.
    let mut args = overwrite(&path, "x");
    args["nonce"] = "yes".into();
    let reply = refused(server.call("write_file", args));
    assert!(reply.text().contains("without a nonce"), "{}", reply.text());
    assert_eq!(place.read("d/a"), b"old");
    server.end();
}

/// Tries to change what is in the workspace in many ways.
const CHANGES: &str = r#"
for f in top one/a two/a two/deep/b; do echo new > $f; done
for f in top one/a two/a two/deep/b; do echo more >> $f; done
for d in . one two two/deep; do echo made > $d/made; mkdir $d/folder; ln -s x $d/link; done
sed -i s/old/sed/ one/a two/a top
mv two/a two/moved; mv two renamed; mv one/a two/from-one; ln two/a one/hard; cp top two/copied
truncate -s 0 two/a two/deep/b
python3 -c 'open("two/a","w").write("python")'
echo scratch > /tmp/scratch; cat /tmp/scratch
true
"#;

#[test]
fn commands_write_in_granted_folders_only() {
    for place in places() {
        for broker in ["true", "false"] {
            let files = ["top", "one/a", "two/a", "two/deep/b"];
            for file in files {
                place.write(file, "old\n");
            }
            let start = place.start().env("HANDS_PERMISSIONS_MODE", "human");
            let mut server = start.env("HANDS_SANDBOX_BROKER", broker).open();
            let before = common::picture(&place.workspace());
            let none = server.bash(CHANGES).ok();
            assert!(none.stdout().ends_with("scratch\n"), "{}", none.text());
            assert_eq!(common::picture(&place.workspace()), before, "{broker}");
            // What is closed can be read.
            assert_eq!(server.bash("cat two/deep/b").ok().stdout(), "old\n");
            // A command that fails is told why.
            let told = server.bash("echo x > two/a").expect("process");
            assert!(told.text().contains("permissions grant"), "{}", told.text());

            permissions(&place, &["grant", &place.text("one")]);
            server.bash(CHANGES).ok();
            assert_ne!(place.read("one/a"), b"old\n", "{broker}");
            assert!(place.at("one/folder").is_dir());
            let elsewhere = |picture: Vec<(std::path::PathBuf, String)>| {
                let one = place.at("one");
                let others = picture
                    .into_iter()
                    .filter(|(path, _)| !path.starts_with(&one));
                others.collect::<Vec<_>>()
            };
            let now = elsewhere(common::picture(&place.workspace()));
            assert_eq!(now, elsewhere(before), "{broker}");

            // The workspace itself: the files directly in it, and new entries.
            permissions(&place, &["grant", &place.text("")]);
            let two = common::picture(&place.at("two"));
            server.bash(CHANGES).ok();
            assert_ne!(place.read("top"), b"old\n");
            assert!(place.at("made").is_file() && place.at("folder").is_dir());
            server.bash("mkdir mine && echo made > mine/file").ok();
            assert_eq!(place.read("mine/file"), b"made\n");
            assert_eq!(common::picture(&place.at("two")), two, "{broker}");
            assert!(!place.at("renamed").exists());

            permissions(&place, &["revoke", &place.text("one")]);
            permissions(&place, &["revoke", &place.text("")]);
            let closed = common::picture(&place.workspace());
            server.bash(CHANGES).ok();
            assert_eq!(common::picture(&place.workspace()), closed, "{broker}");
            server.end();
            for entry in std::fs::read_dir(place.workspace()).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() && !path.is_symlink() {
                    true => std::fs::remove_dir_all(path).unwrap(),
                    false => std::fs::remove_file(path).unwrap(),
                }
            }
        }
    }
}

#[test]
fn a_folder_that_comes_to_be_meanwhile_is_not_open() {
    let place = Place::new();
    place.write("top", "old");
    // The check in front would say so of `rm`; here the layers behind it are asked.
    let start = place.start().env("HANDS_PERMISSIONS_MODE", "human");
    let mut server = start.env("HANDS_SANDBOX_COMMAND_CHECK", "false").open();
    permissions(&place, &["grant", &place.text("")]);
    let id = server.start_call(
        "bash",
        json!({"command": "touch begun; until [ -e later/go ]; do sleep 0.05; done
                echo x > later/a; echo x > later/new; ln later/a linked; echo x > linked; mv later other; rm -r later; mkdir later/d
                mkdir own; echo own > own/a; mv own mine; echo more >> mine/a; echo top > top"}),
    );
    until("it has begun", SOON, || place.at("begun").exists());
    place.write("later/a", "the person's");
    place.write("later/go", "");
    server.reply(&id).ok();
    let later = common::picture(&place.at("later"));
    let names: Vec<&str> = later
        .iter()
        .map(|(path, _)| path.file_name().unwrap().to_str().unwrap())
        .collect();
    assert_eq!(names, ["a", "go"]);
    assert_eq!(place.read("later/a"), b"the person's");
    assert!(!place.at("other").exists());
    assert_eq!(
        place.read("linked"),
        b"x\n",
        "a file of its own, no second name"
    );
    // What it makes itself is its own.
    assert_eq!(place.read("mine/a"), b"own\nmore\n");
    assert_eq!(place.read("top"), b"top\n");
    server.end();
}

#[test]
fn secrets_stay_hidden_and_git_stays_sealed_where_nothing_is_granted_and_where_something_is() {
    let place = Place::new();
    place.write("one/.env", "SECRET=1");
    place.write("two/.env", "SECRET=2");
    place.write("one/.git/config", "[core]\n");
    place.write("one/.git/HEAD", "ref: refs/heads/main\n");
    std::fs::create_dir_all(place.at("one/.git/objects")).unwrap();
    std::fs::create_dir_all(place.at("one/.git/refs")).unwrap();
    let mut server = human(&place);
    let look = "cat one/.env two/.env; echo evil >> one/.git/config; echo x > two/x; true";
    for _ in 0..2 {
        let seen = server.bash(look).ok();
        assert!(!seen.text().contains("SECRET"), "{}", seen.text());
        assert_eq!(place.read("one/.git/config"), b"[core]\n");
        assert!(!place.at("two/x").exists());
        permissions(&place, &["grant", &place.text("one")]);
    }
    server.end();
}

#[test]
fn a_grant_opens_for_the_time_given_and_its_end_is_on_record() {
    let place = Place::new();
    place.write("d/a", "old");
    let mut server = human(&place);
    permissions(&place, &["grant", "--for", "2s", &place.text("d")]);
    server.call("write_file", overwrite("d/a", "1")).ok();
    let closed = |server: &mut Server| {
        let reply = server.call("write_file", overwrite("d/a", "1"));
        reply.code() == "permission_required"
    };
    until("its time is over", SOON, || closed(&mut server));
    assert_eq!(place.read("d/a"), b"1");
    let expired = |r: &Value| r["event"] == "grant" && r["status"] == "expired";
    assert_eq!(place.trail().into_iter().filter(expired).count(), 1);
    server.end();
}

#[test]
fn closing_takes_effect_at_the_next_call_also_for_a_nonce() {
    let place = Place::new();
    for file in ["d/a", "e/a"] {
        place.write(file, "old");
    }
    let mut server = place.open();
    server
        .call_granted("write_file", overwrite("d/a", "1"))
        .ok();
    let nonce = server.call("write_file", overwrite("e/a", "1"));
    let nonce = nonce.string("nonce").to_string();
    let out = permissions(&place, &["revoke", &place.text("d"), &place.text("e")]);
    assert!(out.contains("is closed") && out.contains("void"), "{out}");
    let mut late = overwrite("e/a", "2");
    late["nonce"] = nonce.as_str().into();
    let late = server
        .call("write_file", late)
        .expect("permission_required");
    assert!(late.text().contains("revoked"), "{}", late.text());
    server
        .call("write_file", overwrite("d/a", "2"))
        .expect("permission_required");
    assert_eq!(
        (place.read("d/a"), place.read("e/a")),
        (b"1".to_vec(), b"old".to_vec())
    );
    // A person's grant opens where nonces do as well, and all is closed at once.
    permissions(&place, &["grant", &place.text("d"), &place.text("e")]);
    server.call("write_file", overwrite("d/a", "3")).ok();
    server.call("write_file", overwrite("e/a", "3")).ok();
    permissions(&place, &["revoke", "--all"]);
    for file in ["d/a", "e/a"] {
        let reply = server.call("write_file", overwrite(file, "4"));
        reply.expect("permission_required");
        assert_eq!(place.read(file), b"3");
    }
    server.end();
}

#[test]
fn who_opened_and_closed_is_on_record() {
    let place = Place::new();
    place.write("d/a", "old");
    let mut server = human(&place);
    refused(server.call("write_file", overwrite("d/a", "1")));
    permissions(&place, &["grant", &place.text("d")]);
    permissions(&place, &["revoke", &place.text("d")]);
    permissions(&place, &["grant", &place.text("d")]);
    server.end();
    let trail = place.trail();
    let steps = trail
        .iter()
        .filter(|r| r["event"] == "permission" || r["event"] == "grant");
    let steps: Vec<(String, String)> = steps
        .map(|r| (r["status"].to_string(), r["message"].to_string()))
        .collect();
    let expected = [
        ("asked", "only the person can open it"),
        ("opened", "granted over the control socket by process"),
        ("revoked", "revoked over the control socket by process"),
        ("opened", "granted over the control socket by process"),
        ("ended", "by the person's grant"),
    ];
    assert_eq!(steps.len(), expected.len(), "{steps:#?}");
    for ((status, message), (wanted, says)) in steps.iter().zip(expected) {
        assert!(
            status.contains(wanted) && message.contains(says),
            "{steps:#?}"
        );
        assert!(message.contains(&place.text("d")), "{message}");
    }
    assert_eq!(place.verify()["ok"], true);
}

#[test]
fn what_is_no_folder_of_the_gate_is_not_granted() {
    let place = Place::new();
    place.write("d/deep/a", "old");
    std::os::unix::fs::symlink("d", place.at("harmless")).unwrap();
    let server = human(&place);
    let outside = place.ann().to_str().unwrap().to_string();
    let most = (8 * 3600 + 1).to_string() + "s";
    let (d, deep) = (place.text("d"), place.text("d/deep"));
    for (args, says) in [
        (vec![deep.as_str()], "name"),
        (vec![d.as_str(), deep.as_str()], "name"),
        (vec![&place.text("d/deep/a")], "name"),
        (vec![&place.text("harmless")], "link"),
        (vec![&place.text("gone")], "cannot find"),
        (vec![outside.as_str()], "no workspace"),
        (vec!["--for", most.as_str(), d.as_str()], "28800"),
    ] {
        let all = [&["permissions", "grant"], args.as_slice()].concat();
        let (code, _, err) = place.handsctl(&all);
        assert_eq!(code, Some(1), "{args:?}: {err}");
        assert!(err.contains(says), "{args:?}: {err}");
    }
    // Nothing was opened on the way.
    let list: Value = serde_json::from_str(&permissions(&place, &["list", "--json"])).unwrap();
    assert_eq!(list["sessions"][0]["grants"], json!([]), "{list}");
    server.end();
}
