//! The sandbox, with the command check switched off: what the kernel alone must stop. Each test
//! looks at the disk afterwards.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Place, Server, has, picture, put, survives};
use serde_json::json;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::Command;

const KEY: &str = "planted-key-material";

/// Both kinds of place: below `/tmp` other rules are at work.
fn places() -> [Place; 2] {
    [Place::new(), Place::in_tmp()]
}

/// A server without the command check.
fn unchecked(place: &Place) -> Server {
    place
        .start()
        .env("HANDS_SANDBOX_COMMAND_CHECK", "false")
        .open()
}

/// A folder with old files in it.
fn old_files(place: &Place) {
    place.write("v", "old v");
    place.write("w", "old w");
    place.write("d/deep/x", "old x");
    place.write("d/y", "old y");
    std::fs::create_dir_all(place.at("empty")).unwrap();
    symlink("v", place.at("link")).unwrap();
}

/// Everything of `before` is still there, as it was.
fn nothing_lost(place: &Place, before: &[(PathBuf, String)], after: &str) {
    let now = picture(&place.workspace());
    for entry in before {
        assert!(now.contains(entry), "lost by {after}: {entry:?}");
    }
}

/// What a command may try against old files.
fn attacks_on_old_files() -> Vec<&'static str> {
    let attacks = [
        "rm v",
        "rm -rf d",
        "rm -rf .",
        "rm -rf \"$PWD\"",
        "rmdir empty",
        "unlink v",
        "unlink link",
        "mv v w",
        "mv -f new v",
        "mv v /tmp/v",
        "mv d /tmp/d",
        "mv v renamed",
        "mv d renamed",
        "mv v d/v",
        "cp -f --remove-destination new v",
        "install new v",
        "ln -sf /etc/passwd v",
        "ln -f new v",
        "find . -delete",
        "find . -type f -exec rm -f {} +",
        "cd d && rm -rf ../v y",
        "rm -f /proc/self/cwd/v",
        "rm -f /proc/self/root$PWD/v",
        "exec 3< .; rm -f /proc/self/fd/3/v",
        "bash -c 'exec rm v'",
        "(rm v &) ; sleep 0.1",
        "setsid rm v",
        "tar -xf new.tar --unlink-first",
    ];
    let interpreters = [
        ("python3", "python3 -c 'import os; os.remove(\"v\")'"),
        ("python3", "python3 -c 'import os; os.unlink(\"link\")'"),
        (
            "python3",
            "python3 -c 'import os; os.replace(\"new\", \"v\")'",
        ),
        ("python3", "python3 -c 'import os; os.rename(\"v\", \"z\")'"),
        (
            "python3",
            "python3 -c 'import shutil; shutil.rmtree(\"d\")'",
        ),
        (
            "python3",
            "python3 -c 'import shutil; shutil.move(\"d\", \"/tmp/d\")'",
        ),
        (
            "python3",
            "python3 -c 'import pathlib; pathlib.Path(\"v\").unlink()'",
        ),
        ("python3", "python3 -c 'import os; os.rmdir(\"empty\")'"),
        // renameat2 with RENAME_EXCHANGE, then remove what came out.
        (
            "python3",
            "python3 -c 'import ctypes; l = ctypes.CDLL(None, use_errno=True); \
            l.renameat2(-100, b\"new\", -100, b\"v\", 2)'; rm -f new",
        ),
        ("perl", "perl -e 'unlink \"v\"'"),
        ("perl", "perl -e 'rename \"new\", \"v\"'"),
        ("perl", "perl -e 'rmdir \"empty\"'"),
        (
            "perl",
            "perl -MFile::Path -e 'File::Path::remove_tree(\"d\")'",
        ),
        ("node", "node -e 'require(\"fs\").unlinkSync(\"v\")'"),
        ("ruby", "ruby -e 'File.delete(\"v\")'"),
        ("git", "git init -q . && git add v && git rm -fq v"),
        ("git", "git init -q . && git clean -fdx"),
    ];
    let known = interpreters
        .into_iter()
        .filter(|(name, _)| has(name))
        .map(|(_, line)| line);
    attacks.into_iter().chain(known).collect()
}

#[test]
fn without_the_broker_old_files_cannot_be_removed_or_moved_away() {
    for place in places() {
        old_files(&place);
        let before = picture(&place.workspace());
        place.write("new", "new");
        let start = place.start().env("HANDS_SANDBOX_COMMAND_CHECK", "false");
        let mut server = start.env("HANDS_SANDBOX_BROKER", "false").open();
        for attack in attacks_on_old_files() {
            let reply = server.bash(attack);
            reply.expect_one_of(&["ok", "process"]);
            nothing_lost(&place, &before, attack);
        }
        // A removal that fails is seen by whoever tries it.
        let reply = server.bash("rm v").expect("process");
        assert!(reply.string("stderr").contains("rm: "), "{}", reply.text());
        server.end();
    }
}

#[test]
fn no_old_content_is_lost_in_any_way() {
    for place in places() {
        let mut server = unchecked(&place);
        for (number, attack) in attacks_on_old_files().into_iter().enumerate() {
            let folder = format!("case{number}");
            let names = ["v", "w", "d/deep/x", "d/y"];
            let content = |name: &str| format!("old {name} {number}");
            for name in names {
                place.write(&format!("{folder}/{name}"), content(name));
            }
            symlink("v", place.at(&format!("{folder}/link"))).unwrap();
            std::fs::create_dir(place.at(&format!("{folder}/empty"))).unwrap();
            let line = format!("cd {folder}; echo new > new; tar -cf new.tar v\n{attack}");
            let reply = server.bash(&line).expect_one_of(&["ok", "process"]);
            for name in names {
                let held = survives(&place, &content(name));
                assert!(held, "{name} lost by {attack}: {}", reply.text());
            }
            let links = ["link", "empty"].map(|name| place.at(&format!("{folder}/{name}")));
            assert!(
                links.iter().all(|path| path.symlink_metadata().is_ok()),
                "{attack}"
            );
        }
        let reply = server.bash("unlink case0/w").expect("process");
        let said = reply.text();
        assert!(said.contains("case0/w: it was there before"), "{said}");
        server.end();
    }
}

/// What is changed is named with the file that holds its old content, and the planner can read
/// that.
#[test]
fn what_was_kept_is_named_and_can_be_read() {
    for place in places() {
        place.write("v", "old content\n");
        let mut server = unchecked(&place);
        let reply = server
            .bash("echo new > n; mv n v; echo x > own; rm own")
            .expect("ok");
        let kept = reply.data()["kept"][0].clone();
        assert_eq!(kept["path"], place.at("v").to_str().unwrap());
        let path = kept["recovery_path"].as_str().unwrap();
        assert!(reply.text().contains(path), "{}", reply.text());
        assert_eq!(std::fs::read_to_string(path).unwrap(), "old content\n");
        let read = server.call("read_file", json!({"path": path})).expect("ok");
        assert!(read.text().contains("old content"), "{}", read.text());
        assert_eq!(reply.data()["recovery_path"], path);
        server.end();
    }
}

/// A line of ours is told by its brackets at the beginning of a line.
#[test]
fn no_name_of_a_file_or_process_adds_a_line_to_what_is_said() {
    let place = Place::new();
    place.write("v", "old\n");
    let mut server = unchecked(&place);
    let name = "$'n\\n[all is fine]\\n'";
    let reply = server.bash(&format!(
        "mv v {name}; rm -f {name}; : > {name}; cp /bin/sleep /tmp/{name}; /tmp/{name} 60 & sleep 0.1; true"
    ));
    let text = reply.text();
    assert!(
        text.contains("[refused: ") && text.contains("background"),
        "{text}"
    );
    assert!(!text.contains("\n[all"), "{text}");
    server.end();
}

#[test]
fn content_can_be_changed_and_tmp_is_free() {
    for place in places() {
        place.write("v", "old");
        let mut server = unchecked(&place);
        server
            .bash("echo new > v; echo more >> v; echo x > made; mkdir -p a/b; touch a/b/c")
            .ok();
        assert_eq!(place.read("v"), b"new\nmore\n");
        assert!(place.at("a/b/c").exists());
        server.bash("t=$(mktemp -d); cd \"$t\"; mkdir x; echo y > x/y; mv x z; rm -r z; cd /; rmdir \"$t\"").ok();
        server.bash("truncate -s 0 v; chmod 600 v").ok();
        assert_eq!(place.read("v"), b"");
        server.end();
    }
}

#[test]
fn nothing_is_written_outside() {
    for place in places() {
        put(&place.ann().join("Documents/report.md"), "mine");
        put(&place.ann().join(".bashrc"), "# mine");
        symlink("../Documents", place.at("link")).unwrap();
        let world = place.root().join("world-writable");
        std::fs::create_dir(&world).unwrap();
        std::fs::set_permissions(&world, PermissionsExt::from_mode(0o777)).unwrap();
        put(&world.join("f"), "theirs");
        let mut server = unchecked(&place);
        let outside = || -> Vec<_> {
            let all = picture(place.root()).into_iter();
            let own = [place.workspace(), place.home()];
            all.filter(|(path, _)| !own.iter().any(|o| path.starts_with(o)))
                .collect()
        };
        let before = outside();
        let world = world.display();
        for attack in [
            "echo evil > ../Documents/report.md",
            "echo evil > link/report.md",
            "echo evil > link/new.md",
            "echo evil >> ~/.bashrc",
            "echo evil > ~/.profile",
            "mkdir -p ~/.config/autostart ~/.config/systemd/user",
            "echo evil > ../new",
            "rm -rf ../Documents",
            "mv ../Documents ../gone",
            "ln ../Documents/report.md stolen; echo evil > stolen",
            "ln -s ../Documents/report.md soft; echo evil > soft",
            "echo evil > /proc/self/root\"$HOME\"/new",
            "echo evil > /proc/1/root\"$HOME\"/new",
            "echo evil > /var/tmp/hands-test-evil; echo evil > /dev/hands-test-evil",
            "touch /etc/hands-test-evil /usr/hands-test-evil /hands-test-evil /run/hands-test-evil",
            "cp /bin/true ~/bin-true; dd if=/dev/zero of=../zero count=1",
            &format!("echo evil > {world}/f; echo evil > {world}/new; rm -f {world}/f"),
            "truncate -s 0 ../Documents/report.md; chmod 777 ../Documents/report.md",
            "touch -d 2001-01-01 ../Documents/report.md",
        ] {
            server.bash(attack).expect_one_of(&["ok", "process"]);
            assert_eq!(outside(), before, "{attack}");
        }
        for evil in ["/var/tmp", "/dev", "/etc", "/usr", "/", "/run", "/tmp"] {
            let path = Path::new(evil).join("hands-test-evil");
            assert!(!path.exists(), "{}", path.display());
        }
        let bits = place.ann().join("Documents/report.md").metadata().unwrap();
        assert_ne!(bits.permissions().mode() & 0o777, 0o777);
        server.end();
    }
}

#[test]
fn keys_cannot_be_read_in_any_way() {
    for place in places() {
        let ssh = place.ann().join(".ssh");
        put(&ssh.join("id_ed25519"), KEY);
        put(&place.ann().join(".aws/credentials"), KEY);
        put(&place.ann().join(".netrc"), KEY);
        put(&place.ann().join(".config/gh/hosts.yml"), KEY);
        symlink(ssh.join("id_ed25519"), place.at("link")).unwrap();
        symlink("../.ssh", place.at("dir")).unwrap();
        let mut server = unchecked(&place);
        for attack in [
            "cat ~/.ssh/id_ed25519",
            "cat ../.ssh/id_ed25519 link dir/id_ed25519",
            "cat ~/.ssh/*; ls -la ~/.ssh; find ~/.ssh",
            "cat ~/.aws/credentials ~/.netrc ~/.config/gh/hosts.yml",
            "cat /proc/self/root\"$HOME\"/.ssh/id_ed25519",
            "cat /proc/1/root\"$HOME\"/.ssh/id_ed25519",
            "cat /proc/*/root\"$HOME\"/.ssh/id_ed25519",
            "cat /proc/*/cwd/../.ssh/id_ed25519",
            "ln ~/.ssh/id_ed25519 hard; cat hard",
            "cp -r ~/.ssh copy; cat copy/*",
            "mv ~/.ssh moved; cat moved/*",
            "tar -c ~/.ssh ~/.aws | cat",
            "grep -r planted ~ 2>/dev/null",
            "cd ~/.ssh && cat id_ed25519",
            "umount ~/.ssh; cat ~/.ssh/id_ed25519",
            "unshare -rm sh -c 'umount ~/.ssh; cat ~/.ssh/id_ed25519'",
            "unshare -Urm cat ~/.ssh/id_ed25519",
            "mount --bind / /mnt; cat /mnt\"$HOME\"/.ssh/id_ed25519",
            "chroot / cat ~/.ssh/id_ed25519",
            "nsenter -t 1 -m cat ~/.ssh/id_ed25519",
        ] {
            let reply = server.bash(attack).expect_one_of(&["ok", "process"]);
            assert!(
                !reply.data().to_string().contains(KEY),
                "{attack}: {}",
                reply.text()
            );
            for (path, content) in picture(&place.workspace()) {
                assert!(
                    !content.contains(KEY),
                    "{attack}: {} holds it",
                    path.display()
                );
            }
        }
        assert_eq!(
            std::fs::read_to_string(ssh.join("id_ed25519")).unwrap(),
            KEY
        );
        server.end();
    }
}

/// Secrets that are known by a pattern, not by one name, and those that lie in the workspace.
#[test]
fn secrets_known_by_a_pattern_cannot_be_read() {
    for place in places() {
        let in_home = [
            ".bash_history",
            ".cargo/credentials.toml",
            ".claude/.credentials.json",
            ".config/google-chrome/Default/Cookies",
        ];
        for name in in_home {
            put(&place.ann().join(name), KEY);
        }
        let in_workspace = [".env", "app/.env.production", "app/deploy/id_ed25519"];
        for name in in_workspace {
            put(&place.at(name), KEY);
        }
        put(&place.at("app/.env.example"), "NAME=value");
        let mut server = unchecked(&place);
        let names = in_home.map(|name| format!("~/{name}")).join(" ");
        for attack in [
            format!("cat {names}"),
            format!("cat {}", in_workspace.join(" ")),
            "grep -r planted ~ . 2>/dev/null".to_string(),
            "cp -r app copy; cat copy/.env* copy/deploy/*".to_string(),
        ] {
            let reply = server.bash(&attack).expect_one_of(&["ok", "process"]);
            assert!(!reply.data().to_string().contains(KEY), "{attack}");
        }
        let example = server.bash("cat app/.env.example").expect("ok");
        assert!(example.text().contains("NAME=value"));
        server.end();
    }
}

/// A repository anywhere in the workspace, not only at its root or around the working folder.
#[test]
fn hooks_and_configuration_of_every_repository_stay() {
    for place in places() {
        for repository in ["one", "deep/er/two"] {
            put(&place.at(&format!("{repository}/.git/config")), "[core]\n");
            put(
                &place.at(&format!("{repository}/.git/hooks/pre-commit")),
                "#!/bin/sh\n",
            );
        }
        let before = picture(&place.workspace());
        let mut server = unchecked(&place);
        for repository in ["one", "deep/er/two"] {
            for attack in [
                "echo x > .git/hooks/post-checkout",
                "echo x >> .git/hooks/pre-commit",
                "echo x >> .git/config",
                "ln -sf /tmp/x .git/hooks/pre-push",
            ] {
                let line = format!("cd {repository} && {attack}");
                server.bash(&line).expect("process");
                assert_eq!(picture(&place.workspace()), before, "{line}");
            }
        }
        server.end();
    }
}

/// A hard link made before, by somebody else, is an ordinary file to the kernel: a command can read
/// it. The file tools know it by its identity (see the tests of paths); here this is on record.
#[test]
fn a_hard_link_that_was_there_before_is_not_hidden_from_commands() {
    let place = Place::new();
    let key = put(&place.ann().join(".ssh/id_ed25519"), KEY);
    std::fs::hard_link(&key, place.at("before")).unwrap();
    let mut server = unchecked(&place);
    server
        .call("read_file", json!({"path": "before"}))
        .expect("protected_path");
    server
        .bash("cat before > /dev/null")
        .expect_one_of(&["ok", "process"]);
    assert_eq!(std::fs::read_to_string(&key).unwrap(), KEY);
    server.end();
}

#[test]
fn system_secrets_cannot_be_read() {
    let place = Place::new();
    let mut server = unchecked(&place);
    for path in ["/etc/shadow", "/etc/gshadow", "/etc/sudoers"] {
        let reply = server.bash(&format!("cat {path}; wc -c < {path}"));
        let reply = reply.expect_one_of(&["ok", "process"]);
        let shown = reply.stdout().trim();
        assert!(shown.is_empty() || shown == "0", "{path}: {shown}");
    }
    // Reading the rest of the system is what a shell needs.
    server
        .bash("cat /etc/passwd /etc/hostname > /dev/null; ls /usr/bin > /dev/null")
        .ok();
    server.end();
}

#[test]
fn the_home_of_hands_is_out_of_reach() {
    for place in places() {
        put(&place.home().join("config.toml"), "reply_budget_s = 45\n");
        let mut server = unchecked(&place);
        server.bash("seq 1 100000").ok(); // Makes a recovery file.
        let home = place.home();
        let h = home.display();
        let wanted = ["config.toml", "trail", "logs", "work/recovery"];
        let before: Vec<_> = wanted.iter().map(|name| home.join(name).exists()).collect();
        for attack in [
            format!("cat {h}/config.toml {h}/logs/* {h}/trail/* {h}/work/recovery/*"),
            format!("ls -laR {h}; find {h}"),
            format!("cat ../../hands/config.toml /proc/self/root{h}/config.toml"),
        ] {
            let reply = server.bash(&attack).expect_one_of(&["ok", "process"]);
            for secret in ["reply_budget_s", "\"mac\"", "99999"] {
                assert!(
                    !reply.stdout().contains(secret),
                    "{attack}: {}",
                    reply.stdout()
                );
            }
        }
        for attack in [
            format!("echo '[sandbox]' > {h}/config.toml"),
            format!("echo evil >> {h}/logs/agent_activity.jsonl"),
            format!("truncate -s 0 {h}/logs/agent_activity.jsonl"),
            format!("rm -rf {h}"),
            format!("mv {h} {h}.gone"),
            format!("mv {h}/trail {h}/trail.gone"),
            format!("touch {h}/new {h}/run/new {h}/work/new {h}/work/scratch/new"),
            format!("ln -s /tmp {h}/link; mkdir {h}/folder; chmod 777 {h}"),
            format!("umount {h}; echo evil > {h}/config.toml"),
        ] {
            server.bash(&attack).expect_one_of(&["ok", "process"]);
            let now: Vec<_> = wanted.iter().map(|name| home.join(name).exists()).collect();
            assert_eq!(now, before, "{attack}");
            let config = std::fs::read_to_string(home.join("config.toml")).unwrap();
            assert_eq!(config, "reply_budget_s = 45\n", "{attack}");
            for new in [
                "new",
                "run/new",
                "work/new",
                "work/scratch/new",
                "link",
                "folder",
            ] {
                assert!(
                    home.join(new).symlink_metadata().is_err(),
                    "{attack}: {new}"
                );
            }
        }
        assert_eq!(home.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        server.end();
        assert_eq!(place.verify()["ok"], true);
    }
}

#[test]
fn no_child_connects_to_a_socket_of_ours() {
    if !has("python3") {
        return;
    }
    for place in places() {
        let mut server = unchecked(&place);
        let run = place.home().join("run");
        let listener = UnixListener::bind(run.join("mcp.sock")).unwrap();
        listener.set_nonblocking(true).unwrap();
        // And one in the workspace, as a link to it.
        symlink(run.join("mcp.sock"), place.at("sock")).unwrap();
        for path in [run.join("mcp.sock"), place.at("sock")] {
            let line = format!(
                "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); \
                 s.connect(\"{}\"); s.send(b\"x\"); print(\"connected\")'",
                path.display()
            );
            let reply = server.bash(&line).expect("process");
            assert!(!reply.stdout().contains("connected"), "{}", reply.text());
            assert!(listener.accept().is_err(), "{}", path.display());
        }
        // An abstract one is no file that could be masked.
        let name = format!("hands-test-{}", std::process::id());
        let address = <SocketAddr as SocketAddrExt>::from_abstract_name(&name).unwrap();
        if let Ok(abstracted) = UnixListener::bind_addr(&address) {
            abstracted.set_nonblocking(true).unwrap();
            let line = format!(
                "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); \
                 s.connect(\"\\0{name}\"); print(\"connected\")'"
            );
            let reply = server.bash(&line);
            let newer = reply.code() == "process";
            // Scoped from Landlock 6 on; an older kernel says nothing of it.
            assert_eq!(abstracted.accept().is_err(), newer, "{}", reply.text());
        }
        server.end();
    }
}

#[test]
fn git_files_that_are_run_later_stay() {
    if !has("git") {
        return;
    }
    let place = Place::new();
    let git = |args: &[&str]| {
        let run = Command::new("git")
            .args(args)
            .current_dir(place.workspace())
            .output();
        assert!(run.unwrap().status.success());
    };
    git(&["init", "-q", "."]);
    git(&["init", "-q", "sub/repo"]);
    let of = |name: &str| std::fs::read_to_string(place.at(name)).unwrap();
    let before = (of(".git/config"), of("sub/repo/.git/config"));
    let mut server = unchecked(&place);
    for attack in [
        "echo evil > .git/hooks/pre-commit",
        "cp /bin/true .git/hooks/post-checkout",
        "echo '[core] fsmonitor = evil' >> .git/config",
        "git config core.sshCommand evil",
        "mv .git git-away",
        "ln -sf /tmp/x .git/hooks/pre-push",
        "cd .git && echo evil > hooks/pre-commit; echo evil >> config",
    ] {
        server.bash(attack).expect_one_of(&["ok", "process"]);
        assert_eq!(of(".git/config"), before.0, "{attack}");
        for hook in ["pre-commit", "post-checkout", "pre-push"] {
            let path = place.at(&format!(".git/hooks/{hook}"));
            assert!(path.symlink_metadata().is_err(), "{attack}: {hook}");
        }
    }
    // In the repository that the command works in.
    let args = json!({"command": "echo evil > .git/hooks/pre-commit; git config core.pager evil",
                      "cwd": "sub/repo"});
    server.call("bash", args).expect_one_of(&["ok", "process"]);
    assert_eq!(of("sub/repo/.git/config"), before.1);
    assert!(!place.at("sub/repo/.git/hooks/pre-commit").exists());
    // Ordinary work goes on.
    let work = "echo x > f && git status --short && git log --oneline -1; git diff --stat";
    let reply = server.bash(work).ok();
    assert!(reply.stdout().contains("?? f"), "{}", reply.text());
    assert_eq!(
        reply.string("stderr").matches("lock").count(),
        0,
        "{}",
        reply.text()
    );
    assert!(
        !place.at(".git/index.lock").exists(),
        "git's lock was left behind"
    );
    server.end();
}

#[test]
fn a_folder_on_the_search_path_is_not_written_by_commands() {
    let place = Place::new();
    put(&place.at("bin/tool"), "#!/bin/sh\n");
    let others = common::search_path();
    let own = std::iter::once(place.at("bin"));
    let path = std::env::join_paths(own.chain(std::env::split_paths(&others))).unwrap();
    let start = place
        .start()
        .env("PATH", path)
        .env("HANDS_SANDBOX_COMMAND_CHECK", "false");
    let mut server = start.open();
    let before = picture(&place.at("bin"));
    for attack in [
        "echo evil > bin/ls",
        "echo evil > bin/tool",
        "cp /bin/true bin/git",
    ] {
        server.bash(attack).expect_one_of(&["ok", "process"]);
        assert_eq!(picture(&place.at("bin")), before, "{attack}");
    }
    server.end();
}

#[test]
fn what_the_person_protects_is_hidden() {
    let place = Place::new();
    let secret = put(&place.at("private/plan.txt"), KEY);
    let folder = secret.parent().unwrap();
    let start = place.start().env("HANDS_PROTECT_PATHS", folder);
    let mut server = start.env("HANDS_SANDBOX_COMMAND_CHECK", "false").open();
    let attacks = [
        "cat private/plan.txt",
        "grep -r planted .",
        "echo evil > private/plan.txt",
    ];
    for attack in attacks {
        let reply = server.bash(attack).expect_one_of(&["ok", "process"]);
        assert!(!reply.stdout().contains(KEY), "{attack}");
    }
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), KEY);
    server.end();
}
