//! Ways out and ways round that were found by attack; each looks for the side effect.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Place, Server, is_root, picture, put};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

const SECRET: &str = "planted-secret-4711";

fn unchecked(place: &Place) -> Server {
    place
        .start()
        .env("HANDS_SANDBOX_COMMAND_CHECK", "false")
        .open()
}

/// Runs an attack; whatever it answers, the secret is not in it.
fn silent(server: &mut Server, attack: &str) {
    let reply = server.bash(attack).expect_one_of(&["ok", "process"]);
    assert!(
        !reply.data().to_string().contains(SECRET),
        "{attack}: {}",
        reply.text()
    );
}

#[test]
fn settings_of_the_machine_are_not_written() {
    let place = Place::new();
    let setting = "/proc/sys/fs/lease-break-time";
    let before = std::fs::read_to_string(setting).unwrap();
    let mut server = unchecked(&place);
    let value = before.trim().parse::<u32>().unwrap() + 1;
    for way in [">", ">>", "<>"] {
        server
            .bash(&format!("echo {value} 1{way} {setting}"))
            .expect("process");
        assert_eq!(std::fs::read_to_string(setting).unwrap(), before, "{way}");
    }
    server.end();
}

#[test]
fn process_1_cannot_be_made_to_lie() {
    let place = Place::new();
    let mut server = unchecked(&place);
    for attack in [
        "head -c 1 /proc/1/mem",
        "echo x >> /proc/1/mem",
        "cat /proc/1/syscall",
    ] {
        server.bash(attack).expect("process");
    }
    server.end();
}

#[test]
fn no_program_gets_the_right_to_run_as_its_owner() {
    let place = Place::new();
    let mut server = unchecked(&place);
    for attack in [
        "cp /bin/true a && chmod 4755 a",
        "cp /bin/true b && chmod u+s b",
        "cp /bin/true c && chmod g+s c",
        "python3 -c 'import os; os.open(\"d\", os.O_CREAT | os.O_WRONLY, 0o4755)'",
        "install -m 4755 /bin/true e",
        "perl -e 'chmod 06755, \"a\"'",
    ] {
        server.bash(attack).expect_one_of(&["ok", "process"]);
    }
    for entry in std::fs::read_dir(place.workspace()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().mode();
        assert_eq!(mode & 0o6000, 0, "{}", entry.path().display());
    }
    server.end();
}

#[test]
fn neither_number_nor_depth_nor_decoys_uncover_a_secret() {
    let place = Place::new();
    let deep = format!("{}.env", "d/".repeat(30));
    let secrets = [
        "a/b/.env",
        "target/.env",
        "node_modules/x/id_rsa",
        deep.as_str(),
    ];
    for name in secrets {
        put(&place.at(name), SECRET);
    }
    for n in 0..11_000 {
        std::fs::write(place.at(&format!("f{n}")), "").unwrap();
    }
    let mut server = unchecked(&place);
    silent(&mut server, &format!("cat {}", secrets.join(" ")));
    server
        .bash("for i in $(seq 600); do : > .env.$i; done; cd a/b; mkdir HEAD objects refs")
        .expect("ok");
    server.end();
    // A new session looks anew.
    let mut server = unchecked(&place);
    silent(&mut server, &format!("cat {}", secrets.join(" ")));
    server.end();
}

#[test]
fn links_do_not_steer_what_is_hidden() {
    for place in [Place::new(), Place::in_tmp()] {
        put(&place.at(".env"), SECRET);
        for (name, to) in [
            (".env.a", "/"),
            (".env.b", "/usr"),
            (".env.c", "/tmp"),
            (".env.d", "/dev"),
        ] {
            symlink(to, place.at(name)).unwrap();
        }
        let mut server = unchecked(&place);
        silent(&mut server, "cat .env");
        let alive = server.bash("echo alive").expect("ok");
        assert_eq!(alive.stdout(), "alive\n");
        server.end();
    }
}

#[test]
fn a_folder_that_is_missing_is_not_what_a_link_makes_of_it() {
    let place = Place::new();
    let victim = place.ann().join("elsewhere");
    put(&victim.join("v"), "old");
    let missing = place.at("missing");
    let mut server = place
        .start()
        .workspaces(&[place.workspace(), missing])
        .env("HANDS_SANDBOX_COMMAND_CHECK", "false")
        .open();
    let link = format!("ln -s {} missing", victim.display());
    server.bash(&link).expect_one_of(&["ok", "process"]);
    server
        .bash("echo evil > missing/v; echo evil > missing/new")
        .expect("process");
    assert_eq!(picture(&victim), [(victim.join("v"), "old".to_string())]);
    server.end();
}

#[test]
fn nothing_of_a_repository_is_written() {
    let place = Place::new();
    for file in [
        "repo/.git/HEAD",
        "repo/.git/config",
        "repo/.git/modules/sub/config",
        "repo/.git/worktrees/wt/commondir",
        "bare/HEAD",
        "bare/config",
        "bare/objects/x",
        "bare/refs/x",
        "bare/worktrees/wt/commondir",
        "hg/.hg/hgrc",
    ] {
        put(&place.at(file), "old\n");
    }
    let before = picture(&place.workspace());
    let mut server = unchecked(&place);
    for attack in [
        "echo ../evil > repo/.git/commondir",
        "echo x >> repo/.git/config",
        "echo x >> repo/.git/modules/sub/config",
        "mkdir repo/.git/modules/sub/hooks",
        "echo x > repo/.git/worktrees/wt/commondir",
        "echo x >> bare/config",
        "mkdir bare/hooks",
        "echo x > bare/worktrees/wt/commondir",
        "echo x > bare/worktrees/wt/config.worktree",
        "echo x >> hg/.hg/hgrc",
    ] {
        server.bash(attack).expect("process");
        assert_eq!(picture(&place.workspace()), before, "{attack}");
    }
    server.end();
    // Where nothing can rename, git must not begin: its lock would stop the person's own git.
    for (name, value) in [("BROKER", "false"), ("MODE", "strict")] {
        let start = place.start().env("HANDS_SANDBOX_COMMAND_CHECK", "false");
        let mut server = start.env(&format!("HANDS_SANDBOX_{name}"), value).open();
        for attack in ["echo x > repo/.git/index.lock", "echo x > bare/config"] {
            server.bash(attack).expect("process");
            assert_eq!(picture(&place.workspace()), before, "{attack}");
        }
        server.end();
    }
}

#[test]
fn names_like_a_repositorys_make_no_secret_readable() {
    let place = Place::new();
    put(&place.at("p/.env"), SECRET);
    put(&place.at("p/objects/.env"), SECRET);
    let mut server = unchecked(&place);
    server.bash("touch p/HEAD; mkdir p/refs").expect("ok");
    silent(&mut server, "cat p/.env p/objects/.env");
    server.end();
    // A new server looks for the first time.
    let mut server = unchecked(&place);
    silent(&mut server, "cat p/.env p/objects/.env");
    server.end();
}

#[test]
fn names_that_are_no_text_stop_nothing() {
    let place = Place::new();
    let odd = place.workspace().join(std::ffi::OsStr::from_bytes(b"\xff"));
    put(&odd.join(".env"), SECRET);
    let mut server = unchecked(&place);
    silent(&mut server, "cat $'\\xff/.env'");
    let alive = server.bash("echo alive; echo written > new");
    assert_eq!(alive.expect("ok").stdout(), "alive\n");
    assert_eq!(place.read("new"), b"written\n");
    server.end();
}

/// The machine's own device nodes are usable; another user's command cannot change them. (One run
/// by root can: SECURITY.md says so.)
#[test]
fn device_nodes_are_as_they_were() {
    if is_root() {
        return;
    }
    let place = Place::new();
    let mode = || std::fs::metadata("/dev/full").unwrap().permissions().mode();
    let before = mode();
    let mut server = unchecked(&place);
    server.bash("chmod 600 /dev/full").expect("process");
    assert_eq!(mode(), before);
    server.end();
}
