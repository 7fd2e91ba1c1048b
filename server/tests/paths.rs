//! Paths: whatever way one is written, nothing outside is written and nothing protected is read.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Place, Reply, Server, picture, put};
use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const KEY: &str = "-- planted key --";

/// A place with keys in the person's home and a folder outside.
fn planted() -> Place {
    let place = Place::new();
    put(&place.ann().join(".ssh/id_rsa"), KEY);
    put(&place.ann().join(".aws/credentials"), KEY);
    put(&place.ann().join("out/there.txt"), "there");
    std::fs::create_dir_all(place.at("sub/deep")).unwrap();
    place.write("in.txt", "inside");
    place
}

/// All that lies in the person's home but outside the workspace.
fn outside(place: &Place) -> Vec<(PathBuf, String)> {
    let all = picture(&place.ann());
    let workspace = place.workspace();
    all.into_iter()
        .filter(|(path, _)| !path.starts_with(&workspace))
        .collect()
}

/// Reads, writes, appends to and edits `path`; none of it may work or show the key.
fn refused_everywhere(server: &mut Server, path: &str) {
    let calls: [(&str, Value); 6] = [
        ("read_file", json!({"path": path})),
        ("read_file", json!({"path": path, "as": "metadata"})),
        ("write_file", json!({"path": path, "content": "evil"})),
        (
            "write_file",
            json!({"path": path, "content": "evil", "overwrite": true}),
        ),
        (
            "write_file",
            json!({"path": path, "content": "evil", "append": true}),
        ),
        (
            "edit",
            json!({"path": path, "old": "planted", "new": "evil"}),
        ),
    ];
    for (tool, args) in calls {
        let reply = server.call_granted(tool, args);
        assert!(!reply.data().to_string().contains(KEY), "{tool} {path}");
        assert!(reply.code() != "ok", "{tool} {path}: {}", reply.text());
    }
}

fn write(server: &mut Server, path: &str) -> Reply {
    server.call_granted(
        "write_file",
        json!({"path": path, "content": "evil", "overwrite": true}),
    )
}

#[test]
fn links_of_every_kind_lead_nowhere() {
    let place = planted();
    let links = [
        ("final", "../.ssh/id_rsa"),
        ("final-absolute", ""),
        ("folder", "../.ssh"),
        ("sub/up", "../../.ssh"),
        ("above", ".."),
        ("root", "/"),
        ("chain1", "chain2"),
        ("chain2", "sub/chain3"),
        ("sub/chain3", "../folder"),
        ("loop", "loop"),
        ("loop-a", "loop-b"),
        ("loop-b", "loop-a"),
        ("dangling-secret", "../.ssh/new_key"),
        ("dangling-out", "../out/new.txt"),
        ("dangling-folder", "../out/no-folder"),
        ("passwd", "/etc/passwd"),
        ("proc", "/proc/self/root"),
        ("home", "../../hands"),
    ];
    for (name, target) in links {
        let absolute = place.ann().join(".ssh/id_rsa");
        let target = if target.is_empty() {
            absolute.as_path()
        } else {
            Path::new(target)
        };
        symlink(target, place.at(name)).unwrap();
    }
    let mut server = place.open();
    let before = outside(&place);
    let ssh = place.ann().join(".ssh");
    let ssh = ssh.to_str().unwrap();
    for path in [
        "final",
        "final-absolute",
        "folder/id_rsa",
        "folder/new",
        "folder",
        "folder/",
        "folder/.",
        "sub/up/id_rsa",
        "above/.ssh/id_rsa",
        "above/Hands/folder/id_rsa",
        "chain1/id_rsa",
        "chain1/new",
        "loop",
        "loop-a/x",
        "dangling-secret",
        "dangling-folder/x",
        "dangling-folder/deep/x",
        "passwd",
        "root/etc/passwd",
        &format!("root{ssh}/id_rsa"),
        "proc/etc/passwd",
        &format!("proc{ssh}/id_rsa"),
        "home/config.toml",
        "home/logs/agent_activity.jsonl",
        "home/trail/new",
        "home/run/new",
    ] {
        refused_everywhere(&mut server, path);
    }
    write(&mut server, "dangling-out").failed();
    assert_eq!(outside(&place), before);
    server.end();
    assert_eq!(place.verify()["ok"], true);
}

#[test]
fn dots_and_spellings_lead_nowhere() {
    let place = planted();
    let mut server = place.open();
    let before = outside(&place);
    let ann = place.ann();
    let ann = ann.to_str().unwrap();
    for path in [
        "../.ssh/id_rsa",
        "sub/../../.ssh/id_rsa",
        "./.././.ssh//id_rsa",
        "~/.ssh/id_rsa",
        "~/.ssh",
        "~/.ssh/",
        "~/Hands/../.ssh/id_rsa",
        "~/.aws/credentials",
        &format!("{ann}/.ssh/id_rsa"),
        &format!("//{ann}//.ssh/./id_rsa"),
        &format!("/proc/self/root{ann}/.ssh/id_rsa"),
        &format!("/proc/1/root{ann}/.ssh/id_rsa"),
        "/proc/self/cwd/ann/.ssh/id_rsa",
        &format!("/proc/thread-self/root{ann}/.ssh/id_rsa"),
        "/proc/self/environ",
        "/proc/self/mem",
        "/proc/self/fd/0",
        "/dev/fd/1",
        "../../../../../../../../../../etc/passwd",
        "/etc/passwd",
        "/etc/../etc/shadow",
        "/usr/bin/env",
        "/bin/sh",
        "no-such/../../.ssh/id_rsa",
        "in.txt/../../.ssh/id_rsa",
        "..\u{2044}.ssh",
    ] {
        refused_everywhere_or_inside(&mut server, path, &place);
    }
    for path in ["..", "../", "../..", ".", "/", "~", "sub/..", "sub/../.."] {
        write(&mut server, path).failed();
        server
            .call("edit", json!({"path": path, "old": "a", "new": "b"}))
            .failed();
    }
    assert_eq!(outside(&place), before);
    server.end();
}

/// As [`refused_everywhere`]; a name that is an odd one inside the workspace may be written there.
fn refused_everywhere_or_inside(server: &mut Server, path: &str, place: &Place) {
    match path.contains('\u{2044}') {
        false => refused_everywhere(server, path),
        true => {
            let reply = write(server, path).ok();
            assert!(reply.path("path").starts_with(place.workspace()));
        }
    }
}

#[test]
fn protected_paths_hold_with_no_configuration_at_all() {
    let place = planted();
    let mut server = place.start().without("HANDS_WORKSPACES").open();
    let before = outside(&place);
    for path in [
        "../../../../../etc/passwd",
        "/etc/passwd",
        "~/.ssh/id_rsa",
        "../.ssh/id_rsa",
    ] {
        refused_everywhere(&mut server, path);
    }
    // The default workspace is there and works.
    server
        .call("write_file", json!({"path": "new.txt", "content": "x"}))
        .ok();
    assert_eq!(place.read("new.txt"), b"x");
    assert_eq!(outside(&place), before);
    server.end();
}

#[test]
fn a_name_that_only_begins_like_a_workspace_is_outside() {
    let place = planted();
    let evil = put(&place.ann().join("Hands-evil/s.txt"), "theirs");
    let before = outside(&place);
    let mut server = place.open();
    let new = evil.with_file_name("new.txt");
    write(&mut server, new.to_str().unwrap()).expect("protected_path");
    write(&mut server, "../Hands-evil/new.txt").expect("protected_path");
    assert_eq!(outside(&place), before);
    server.end();
}

#[test]
fn a_link_out_of_the_workspace_does_not_make_its_target_a_workspace() {
    let place = planted();
    symlink("../out", place.at("link")).unwrap();
    let mut server = place.open();
    let before = outside(&place);
    write(&mut server, "link/new.txt").expect("protected_path");
    write(&mut server, "link/new/deep.txt").expect("protected_path");
    assert_eq!(outside(&place), before);
    // An existing file there gets a working copy; it stays as it is.
    let reply = write(&mut server, "link/there.txt").ok();
    assert_eq!(
        reply.path("redirected_from"),
        place.ann().join("out/there.txt")
    );
    assert_eq!(
        std::fs::read(place.ann().join("out/there.txt")).unwrap(),
        b"there"
    );
    server.end();
}

#[test]
fn a_workspace_named_by_a_link_works_in_both_spellings() {
    let place = Place::new();
    let link = place.root().join("spelled");
    symlink(place.workspace(), &link).unwrap();
    let mut server = place.start().workspaces(std::slice::from_ref(&link)).open();
    for (n, folder) in [link, place.workspace()].iter().enumerate() {
        let path = folder.join(format!("{n}.txt"));
        server
            .call("write_file", json!({"path": path, "content": "x"}))
            .ok();
        server.call("read_file", json!({"path": path})).ok();
        let args = json!({"command": "echo y > from-bash", "cwd": folder});
        server.call("bash", args).ok();
    }
    assert_eq!(place.read("1.txt"), b"x");
    assert_eq!(place.read("from-bash"), b"y\n");
    server.end();
}

#[test]
fn protected_names_hold_in_either_unicode_form() {
    let place = Place::new();
    let composed = place.ann().join("Geh\u{e9}im");
    let decomposed = place.ann().join("Tre\u{301}sor");
    put(&composed.join("k"), KEY);
    put(&decomposed.join("k"), KEY);
    // Each is protected in the form that it does not have on disk.
    let other = [
        place.ann().join("Gehe\u{301}im"),
        place.ann().join("Tr\u{e9}sor"),
    ];
    let paths = std::env::join_paths(&other).unwrap();
    let mut server = place.start().env("HANDS_PROTECT_PATHS", paths).open();
    let before = outside(&place);
    for name in [
        "Geh\u{e9}im",
        "Gehe\u{301}im",
        "Tr\u{e9}sor",
        "Tre\u{301}sor",
    ] {
        refused_everywhere(&mut server, &format!("~/{name}/k"));
        write(&mut server, &format!("~/{name}/new")).failed();
    }
    assert_eq!(outside(&place), before);
    server.end();
}

#[test]
fn hard_links_to_keys_are_known() {
    let place = planted();
    std::fs::hard_link(place.ann().join(".ssh/id_rsa"), place.at("innocent.txt")).unwrap();
    let mut server = place.open();
    refused_everywhere(&mut server, "innocent.txt");
    assert_eq!(
        std::fs::read(place.ann().join(".ssh/id_rsa")).unwrap(),
        KEY.as_bytes()
    );
    server.end();
}

#[test]
fn a_refusal_names_the_asked_path_and_nothing_else() {
    let place = planted();
    let second = place.root().join("second-workspace");
    std::fs::create_dir(&second).unwrap();
    let both = [place.workspace(), second];
    let mut server = place.start().workspaces(&both).open();
    for path in [
        "/etc/passwd",
        "~/.ssh/id_rsa",
        "~/new.txt",
        "../x",
        "/no/such/folder/x",
    ] {
        for reply in [
            write(&mut server, path),
            server.call("read_file", json!({"path": path})),
        ] {
            let text = reply.failed().data().to_string();
            assert!(!text.contains("second-workspace"), "{path}: {text}");
            assert!(
                !text.contains(place.home().to_str().unwrap()),
                "{path}: {text}"
            );
        }
    }
    server.end();
}

#[test]
fn what_would_be_run_later_is_not_written() {
    let place = Place::new();
    for file in [
        "HEAD",
        "config",
        "hooks/pre-commit.sample",
        "objects/x",
        "refs/x",
        "info/exclude",
    ] {
        place.write(&format!("repo/.git/{file}"), "x");
        place.write(&format!("bare/{file}"), "x");
    }
    put(&place.ann().join(".bashrc"), "# mine");
    std::fs::create_dir(place.at("bin")).unwrap();
    let own = std::iter::once(place.at("bin"));
    let others = common::search_path();
    let path = own.chain(std::env::split_paths(&others));
    let path = std::env::join_paths(path).unwrap();
    let mut server = place.start().env("PATH", path).open();
    let before = picture(&place.ann());
    for path in [
        "repo/.git/hooks/pre-commit",
        "repo/.git/config",
        "repo/.git/config.worktree",
        "repo/.git/info/attributes",
        "repo/.git/modules/x/hooks/post-checkout",
        "bare/hooks/pre-commit",
        "bare/config",
        "new-repo/.git/hooks/pre-commit",
        "~/.bashrc",
        "~/.bash_profile",
        "~/.profile",
        "~/.zshrc",
        "~/.config/fish/config.fish",
        "~/.config/autostart/x.desktop",
        "~/.config/systemd/user/x.service",
        "~/.ssh/authorized_keys",
        "~/.local/bin/tool",
        "~/.gitconfig",
        "bin/tool",
    ] {
        let reply = write(&mut server, path);
        assert_eq!(reply.code(), "protected_path", "{path}: {}", reply.text());
    }
    assert_eq!(picture(&place.ann()), before);
    server
        .call("write_file", json!({"path": "fine", "content": "x"}))
        .ok();
    server.end();
}

#[test]
fn env_files_are_refused_where_the_person_says_so() {
    let place = Place::new();
    place.write(".env", "TOKEN=x");
    place.write("app/.env.production", "TOKEN=x");
    let mut server = place.start().env("HANDS_PROTECT_ENV_FILES", "true").open();
    for path in [".env", "app/.env.production"] {
        server
            .call("read_file", json!({"path": path}))
            .expect("protected_path");
        write(&mut server, path).expect("protected_path");
    }
    assert_eq!(place.read(".env"), b"TOKEN=x");
    server.end();
}

#[test]
fn hands_own_files_are_out_of_reach() {
    let place = Place::new();
    put(&place.home().join("config.toml"), "reply_budget_s = 45\n");
    let mut server = place.open();
    server.bash("true").ok();
    let home = place.home();
    let home = home.to_str().unwrap();
    for path in [
        "config.toml",
        "logs/agent_activity.jsonl",
        "logs/server_faults.log",
        "logs",
        "trail/new",
        "trail",
        "run/new.sock",
        "work/tool_mcp/servers.json",
        "work/jobs/x",
        "",
    ] {
        refused_everywhere(&mut server, &format!("{home}/{path}"));
        refused_everywhere(&mut server, &format!("../../hands/{path}"));
    }
    let config = std::fs::read_to_string(place.home().join("config.toml")).unwrap();
    assert_eq!(config, "reply_budget_s = 45\n");
    server.end();
    assert_eq!(place.verify()["ok"], true);
}

#[test]
fn a_path_that_changes_between_check_and_use_leads_nowhere() {
    let place = planted();
    std::fs::create_dir(place.at("real")).unwrap();
    place.write("real/id_rsa", "harmless");
    symlink("real", place.at("to-real")).unwrap();
    symlink("../.ssh", place.at("to-keys")).unwrap();
    symlink("real", place.at("flip")).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let flipper = {
        let (stop, ws) = (Arc::clone(&stop), place.workspace());
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                for target in ["../.ssh", "real"] {
                    let draft = ws.join("draft-link");
                    symlink(target, &draft).unwrap();
                    std::fs::rename(&draft, ws.join("flip")).unwrap();
                }
            }
        })
    };
    let mut server = place.open();
    let before = outside(&place);
    // Open the folder first, so that the writes get as far as they can.
    write(&mut server, "real/id_rsa");
    place.write("real/id_rsa", "harmless");
    for n in 0..150 {
        let read = server.call("read_file", json!({"path": "flip/id_rsa"}));
        assert!(!read.data().to_string().contains(KEY), "{}", read.text());
        let new = json!({"path": format!("flip/new-{n}"), "content": "evil"});
        server.call("write_file", new);
        let old = json!({"path": "flip/id_rsa", "content": "evil", "overwrite": true});
        server.call("write_file", old);
    }
    stop.store(true, Ordering::Relaxed);
    flipper.join().unwrap();
    assert_eq!(outside(&place), before);
    server.end();
}
