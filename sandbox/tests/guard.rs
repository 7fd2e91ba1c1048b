//! The removal broker: what a command made may go, what was there before stays or is kept.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::World;
use hands_sandbox::Mode;

/// A workspace with old files in a repository, and a secret in it that is hidden.
fn world() -> World {
    let mut world = World::new();
    world.write("f", "one\n");
    world.write("g", "two\n");
    world.write("d/x", "x\n");
    world.commit_all();
    world.write("private/key", "SECRET\n");
    let hidden = world.at("private");
    world.plan.masks.push(hidden);
    world
}

/// Runs a line in a fresh world; it and the answer are shown when `holds` does not.
fn case(line: &str, holds: impl Fn(&World, &common::Ran) -> bool) {
    let world = world();
    let ran = world.run(line);
    assert!(
        holds(&world, &ran),
        "{line}\ncode {:?}: {}\n{:?}\nkept {:?}",
        ran.code,
        ran.out,
        ran.done.guarded,
        world.kept()
    );
    let notes = std::fs::read_dir(world.root.join("recovery/asides"));
    assert_eq!(notes.map_or(0, Iterator::count), 0, "{line} left a note");
}

fn is(world: &World, name: &str, content: &str) -> bool {
    world.read(name).as_deref() == Some(content)
}

#[test]
fn what_a_command_made_it_may_remove() {
    case(
        "echo a > n; mkdir -p q/r; echo > q/r/s; ln -s s q/l; mkfifo q/p; rm -r n q",
        |w, r| {
            r.code == Some(0) && !w.at("n").exists() && !w.at("q").exists() && w.kept().is_empty()
        },
    );
    case(
        "echo a > n; mv n m && rm m; echo b > n; echo c > m; mv n m; cat m; rm m",
        |w, r| r.out == "b\n" && r.code == Some(0) && !w.at("m").exists() && w.kept().is_empty(),
    );
}

#[test]
fn a_commands_umask_is_not_the_recovery_folders() {
    use std::os::unix::fs::PermissionsExt;
    let world = world();
    let ran = world.run("umask 0777; : > n; umask 0177; echo new > m; mv -f m f");
    assert_eq!(ran.code, Some(0), "{}: {:?}", ran.out, ran.done.guarded);
    assert!(is(&world, "f", "new\n") && world.has_kept("one\n"));
    let days = std::fs::read_dir(world.root.join("recovery")).unwrap();
    for day in days.flatten().filter(|day| day.path().is_dir()) {
        let mode = day.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{day:?}");
    }
}

#[test]
fn what_was_there_stays() {
    case("rm -f f; rm -rf d; unlink g", |w, r| {
        r.code != Some(0) && is(w, "f", "one\n") && is(w, "d/x", "x\n") && is(w, "g", "two\n")
    });
    case(
        "mv f $TMPDIR/; mv d $TMPDIR; mkdir k; mv f k/; rm -rf k; mv k/f $TMPDIR/x",
        |w, _| is(w, "k/f", "one\n") && is(w, "d/x", "x\n"),
    );
    case("mv -f f g; mv -f g f", |w, _| {
        is(w, "f", "one\n") && is(w, "g", "two\n")
    });
    case("rmdir e; chmod 777 f; touch f; rm -f f", |w, _| {
        is(w, "f", "one\n")
    });
}

#[test]
fn a_free_name_may_be_taken() {
    case("mv f f2 && mv d d2 && rm -f f2; rm -rf d2", |w, _| {
        is(w, "f2", "one\n") && is(w, "d2/x", "x\n") && !w.at("f").exists()
    });
}

#[test]
fn what_is_changed_or_replaced_is_kept_first() {
    for line in [
        "echo new > n; mv -f n f",
        "echo new > f",
        ": > f; echo new > f",
        "printf new > f; echo >> f",
        "python3 -c 'import os; os.truncate(\"f\", 0); open(\"f\", \"r+\").write(\"new\\n\")'",
        "python3 -c 'open(\"f\", \"r+\").write(\"new\\n\")'",
        "exec 3<f; echo new > /proc/self/fd/3",
        "exec 3<f; echo new > /dev/fd/3",
        "echo new > /proc/$$/cwd/f",
        "ln f k; echo new > k",
        "ln -s f k; echo new > k",
        "cp f n; sed -i s/one/new/ f",
        "echo new > n; cp n f",
        "echo new > n; cp -f n f; rm n",
        "echo new > n; python3 -c 'import os; os.replace(\"n\", \"f\")'",
    ] {
        case(line, |w, r| {
            is(w, "f", "new\n") && w.has_kept("one\n") && r.code == Some(0)
        });
    }
    case(
        "echo new > n; mv n f; rm -f f; echo newer > n; mv n f",
        |w, r| {
            let named = |kept: &hands_sandbox::Kept| kept.origin == w.at("f");
            is(w, "f", "newer\n")
                && w.has_kept("one\n")
                && w.has_kept("new\n")
                && r.done.guarded.kept.iter().all(named)
                && r.done.guarded.kept_total == 2
        },
    );
}

#[test]
fn git_is_not_made_to_run_anything() {
    let intact = |w: &World, _: &common::Ran| {
        let config = w.read(".git/config").unwrap_or_default();
        let hooks = std::fs::read_dir(w.at(".git/hooks")).unwrap().flatten();
        let names: Vec<_> = hooks
            .map(|e| e.file_name().into_string().unwrap())
            .collect();
        w.at(".git/HEAD").exists()
            && !config.is_empty()
            && !config.contains("evil")
            && names.iter().all(|name| name.ends_with(".sample"))
            && !w.at(".git/config.worktree").exists()
            && !w.at(".git/commondir").exists()
            && !w.at(".git/info/attributes").exists()
    };
    for line in [
        "echo evil > h; mv h .git/hooks/post-checkout; echo e > .git/hooks/y; ln h .git/hooks/z",
        "echo evil > c; mv -f c .git/config",
        "ln .git/config k; echo evil >> k; ln .git/config .git/config.worktree",
        "echo evil > .git/config.worktree; echo ../x > .git/commondir; ln -s x .git/commondir",
        "echo '* filter=evil' > .git/info/attributes; echo x > x; mv x .git/info/attributes",
        "rm -rf .git/info; mkdir i; echo evil > i/attributes; mv i .git/info",
        "mv .git/info .git/i2; mkdir i; echo evil > i/attributes; mv i .git/info",
        "mv .git .g2; mv .git/hooks h2; mkdir h; mv -T h .git/hooks",
        "mkdir z; mv -T z .git; mv -T .git z",
        "ln -s .git/hooks s; echo evil > s/post-commit; ln -s .git/config s2; echo evil >> s2",
        "exec 3<.git/config; echo evil > /proc/self/fd/3; echo evil > /proc/self/root$PWD/.git/config",
        "git config user.name evil; git config core.hooksPath evil",
        "mkdir x; git init -q x; mv x/.git/hooks .git/; cp -r x/.git/hooks/* .git/hooks/evil",
        "cd ..; mv ws/.git ws/.g2; rm -rf ws/.git",
    ] {
        case(line, intact);
    }
    case(
        "git init -q r && git -C r config user.name me && echo x > r/.git/hooks/h && rm -r r",
        |w, r| r.code == Some(0) && !w.at("r").exists(),
    );
}

#[test]
fn a_hidden_file_is_neither_changed_nor_copied() {
    case(
        "echo x >> private/key; : > private/key; mv f private/; ln private/key k; mv private p2;
         echo n > n; mv n private/key; mv private/key k2; cat private/key",
        |w, r| {
            is(w, "private/key", "SECRET\n")
                && is(w, "f", "one\n")
                && !r.out.contains("SECRET")
                && !w.kept().iter().any(|kept| kept.contains("SECRET"))
        },
    );
}

#[test]
fn a_file_too_large_to_keep_is_not_changed() {
    let mut world = world();
    world.guard().file_bytes = 3;
    let ran = world.run("echo new > f; echo $?; truncate -s 0 f; echo n > n; mv n f; cat f");
    // A rename moves the old file and copies nothing.
    assert_eq!(world.read("f").as_deref(), Some("n\n"), "{}", ran.out);
    assert!(world.has_kept("one\n"));
    assert!(ran.out.contains("File too large"), "{}", ran.out);
    let refused = ran.done.guarded.refused.join("\n");
    assert!(refused.contains("limits.recovery_file_bytes"), "{refused}");
    world.guard().quota_bytes = 1;
    let ran = world.run("echo new > g; echo n > m; mv m g; cat g");
    assert_eq!(world.read("g").as_deref(), Some("two\n"), "{}", ran.out);
    let refused = ran.done.guarded.refused.join("\n");
    assert!(refused.contains("limits.recovery_bytes"), "{refused}");
}

#[test]
fn a_later_command_may_remove_what_an_earlier_one_made() {
    let mut world = world();
    world.run("echo a > n; mkdir q; echo b > q/r; echo h > h; mv h f");
    let ran = world.run("rm n; rm -r q; rm -f f");
    assert!(
        !world.at("n").exists() && !world.at("q").exists(),
        "{}",
        ran.out
    );
    assert_eq!(world.read("f").as_deref(), Some("h\n"));
    world.run("echo a > n");
    world.guard().ledger = None;
    world.run("rm -f n");
    assert!(world.at("n").exists(), "another session");
}

#[test]
fn what_the_person_makes_meanwhile_stays() {
    let world = world();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !world.at("begun").exists() {
                std::thread::yield_now();
            }
            world.write("out", "mine\n");
            world.write("od/q", "q\n");
            world.write("go", "");
        });
        let ran = world.run(
            "touch begun; until [ -e go ]; do sleep 0.01; done
             rm -f out; rm -rf od; : > out2; mv -f out2 out; mkdir ok; mv od/q ok/; rm -rf ok",
        );
        assert!(
            world.at("out").exists() && world.at("od").is_dir(),
            "{}",
            ran.out
        );
        assert_eq!(world.read("ok/q").as_deref(), Some("q\n"));
        assert!(world.has_kept("mine\n"));
    });
}

#[test]
fn calls_mean_what_they_mean_without_a_broker() {
    for (line, expected) in [
        ("echo hi > n; cat n; cat nothing; mkdir d; rmdir d/x; ln -s a d", "hi\n"),
        (
            "umask 077; echo > m1; mkdir m2; umask 002; echo > m3; umask 0; mkfifo -m 640 m4
             (umask 022; echo > m5); stat -c %a m1 m2 m3 m4 m5",
            "600\n700\n664\n640\n644\n",
        ),
        ("echo hi > o; (echo a; echo b > /dev/stdout) >> o; cat o", "b\n"),
        ("mkfifo p; (sleep 0.1; cat p) & echo hey > p; wait", "hey\n"),
        ("mkfifo p; (echo a > p) & sleep 0.1; kill $!; wait; echo over", "over\n"),
        ("mkfifo $TMPDIR/p; (echo hey > $TMPDIR/p) & cat $TMPDIR/p; echo y > /dev/null", "hey\n"),
        ("set -C; echo x > n; { echo y > n; } 2>/dev/null || cat n", "x\n"),
        ("mkdir -p .git/info d/deep; echo x > d/deep/; echo x > d; echo $?", "1\n"),
        (
            "python3 -c 'import os, fcntl
a = os.open(\"p\", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
assert fcntl.fcntl(a, 1) & 1 and fcntl.fcntl(a, 3) & os.O_APPEND
os.set_inheritable(a, True)
p = os.posix_spawn(\"/bin/echo\", [\"echo\", \"hi\"], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, \"sp\", os.O_WRONLY | os.O_CREAT, 0o644)])
os.waitpid(p, 0)
t = os.open(\".\", os.O_TMPFILE | os.O_RDWR, 0o644)
os.write(t, b\"t\")
import ctypes
assert ctypes.CDLL(None).linkat(-100, b\"/proc/self/fd/%d\" % t, -100, b\"tl\", 0x400) == 0
os.unlink(\"tl\")
print(open(\"sp\").read(), end=\"\")'",
            "hi\n",
        ),
        (
            "python3 -c 'import ctypes, os
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
os.mkdir(\"nd\"); os.rmdir(\"nd\")'; echo undumpable",
            "undumpable\n",
        ),
        (
            "ulimit -n 20; python3 -c 'import os, errno
try:
  for i in range(40): os.open(\"e%d\" % i, os.O_CREAT | os.O_WRONLY)
except OSError as e: print(e.errno == errno.EMFILE)'",
            "True\n",
        ),
    ] {
        case(line, |_, ran| {
            let said = ran.out.lines().filter(|line| !line.contains(": "));
            said.map(|line| format!("{line}\n")).collect::<String>() == expected
        });
    }
}

#[test]
fn root_lends_nobody_its_powers() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let world = world();
    world.person("echo o > other; chown 4242 other; chmod 644 other; echo no > np; chmod 444 np");
    let ran = world.run("echo x > other; echo y > np");
    assert_eq!(world.read("other").as_deref(), Some("o\n"), "{}", ran.out);
    assert_eq!(world.read("np").as_deref(), Some("no\n"), "{}", ran.out);
}

#[test]
fn strict_removes_nothing_and_read_only_changes_nothing() {
    let mut world = world();
    world.plan.mode = Mode::Strict;
    let ran = world.run("echo n > n; rm n; mv n m; mv f f2; rm -f f; echo new > f; cat f");
    assert!(
        world.at("n").exists() && !world.at("m").exists(),
        "{}",
        ran.out
    );
    assert_eq!(world.read("f").as_deref(), Some("new\n"));
    assert!(world.has_kept("one\n"));
    world.plan.mode = Mode::ReadOnly;
    world.run("echo n > k; rm -f n; echo new > g; mv g g2; mkdir e");
    assert!(world.at("n").exists() && !world.at("k").exists() && !world.at("e").exists());
    assert_eq!(world.read("g").as_deref(), Some("two\n"));
}

#[test]
fn a_folder_of_build_products_is_free_by_the_commit_alone() {
    let world = World::new();
    world.write(".gitignore", "target/\n");
    world.write("target/old", "product\n");
    world.write("node_modules/old", "module\n");
    world.person("git init -q .; git add .gitignore; git commit -qm 1");
    // A rule that is edited, or committed by the session itself, frees nothing.
    for free in [
        "echo node_modules >> .gitignore; rm -rf node_modules",
        "git add .gitignore; git commit -qm 2; rm -rf node_modules",
        "rm -rf node_modules; mv node_modules dist; mkdir -p x; mv dist x/target; rm -rf x/target",
    ] {
        let ran = world.run(free);
        assert!(world.holds("module\n"), "{free}: {}", ran.out);
    }
    // What is old cannot be brought into it.
    world.write("mine", "mine\n");
    world.run("mv mine target/; ln mine target/l; : > target/l; rm -rf target/l mine");
    assert!(world.holds("mine\n") || world.has_kept("mine\n"));
    assert!(world.at("mine").exists());
    let ran =
        world.run("echo new > target/old; echo n > target/n; mv target/n target/m; rm -rf target");
    assert!(
        !world.at("target").exists(),
        "{} {:?}",
        ran.out,
        ran.done.guarded
    );
    assert!(!world.has_kept("product\n"));
}

#[test]
fn what_has_no_successor_is_put_back() {
    let world = world();
    std::fs::set_permissions(
        world.at("f"),
        std::os::unix::fs::PermissionsExt::from_mode(0o751),
    )
    .unwrap();
    std::os::unix::fs::symlink("g", world.at("l")).unwrap();
    std::fs::hard_link(world.at("g"), world.at("g2")).unwrap();
    let ran = world.run("tar cf $TMPDIR/t.tar --remove-files f d l g2; ls; echo new > g");
    let put_back = &ran.done.guarded.put_back;
    for name in ["f", "d/x", "l", "g2"] {
        assert!(put_back.contains(&world.at(name)), "{name}: {put_back:?}");
    }
    assert!(is(&world, "f", "one\n") && is(&world, "d/x", "x\n"));
    assert_eq!(
        std::fs::read_link(world.at("l")).unwrap(),
        std::path::Path::new("g")
    );
    let mode = std::fs::metadata(world.at("f")).unwrap().permissions();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777,
        0o751
    );
    assert!(!world.has_kept("one\n"), "{:?}", ran.done.guarded);
    // A successor keeps its name.
    let ran = world.run(
        "echo new > n; tar cf $TMPDIR/t.tar --transform s/n/f/ n; tar xf $TMPDIR/t.tar; rm -f f",
    );
    assert!(
        is(&world, "f", "new\n") && world.has_kept("one\n"),
        "{}",
        ran.out
    );
}

#[test]
fn a_long_copy_does_not_hold_up_others() {
    let mut world = World::new();
    world.guard().file_bytes = 1 << 30;
    // Every copy may be over before the folder's turn comes on a busy machine, but not each time.
    let overtook = (0..5u8).any(|round| {
        for number in 0..6 {
            let big = vec![round; 24 << 20];
            std::fs::write(world.at(&format!("big{number}")), &big).unwrap();
        }
        let ran = world.run(
            "rm -f $TMPDIR/done; for n in 0 1 2 3 4 5; do (: >> big$n; echo copied >> $TMPDIR/done) & done
             until [ \"$(ls /proc/[0-9]*/wchan | wc -l)\" -gt 6 ]; do :; done
             mkdir quick && rmdir quick && cat $TMPDIR/done 2>/dev/null | wc -l; wait; wc -l < $TMPDIR/done",
        );
        assert!(ran.out.ends_with("6\n"), "{}", ran.out);
        ran.out != "6\n6\n"
    });
    assert!(overtook, "the folder waited for every copy");
}

#[test]
fn a_killed_runner_leaves_no_recovery_file_torn() {
    use std::io::Write;
    let mut world = World::new();
    world.guard().file_bytes = 1 << 30;
    let big = vec![b'x'; 32 << 20];
    for delay in [5, 20, 60, 150] {
        std::fs::write(world.at("big"), &big).unwrap();
        let mut child = std::process::Command::new(common::program())
            .env_clear()
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let request = world
            .request("touch begun; while :; do : > big; head -c 33554432 /dev/zero > big; done");
        writeln!(stdin, "{}", serde_json::to_string(&request).unwrap()).unwrap();
        while !world.at("begun").exists() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        std::thread::sleep(std::time::Duration::from_millis(delay));
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_file(world.at("begun")).unwrap();
    }
    let days = std::fs::read_dir(world.root.join("recovery"))
        .unwrap()
        .flatten();
    for file in days.flat_map(|day| std::fs::read_dir(day.path()).unwrap().flatten()) {
        let name = file.file_name().into_string().unwrap();
        if name.ends_with(".meta.json") || name.starts_with(".tmp-") {
            continue;
        }
        let record = std::fs::read(file.path().with_file_name(format!("{name}.meta.json")));
        let record: serde_json::Value = serde_json::from_slice(&record.unwrap()).unwrap();
        let held = file.metadata().unwrap().len();
        assert_eq!(record["bytes"], held, "{name}");
    }
}

/// What the person has mounted in a workspace is part of it. Only root can make such a mount.
#[test]
fn a_mount_below_a_workspace_is_part_of_it() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let world = world();
    let inside = world.at("mounted");
    std::fs::create_dir(&inside).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "tmpfs"])
        .arg(&inside)
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        return;
    }
    world.write("mounted/old", "old\n");
    world.write("mounted/gone", "gone\n");
    let ran = world.run(
        "cd mounted; rm -f old; echo n > n; mv n old; tar cf $TMPDIR/t.tar --remove-files gone
         echo x > own; rm own; mv ../f .; ls",
    );
    let now = (world.read("mounted/old"), world.read("mounted/gone"));
    let own = world.at("mounted/own").exists();
    let kept = world.has_kept("old\n");
    let unmounted = std::process::Command::new("umount").arg(&inside).status();
    assert!(unmounted.unwrap().success());
    let expected = (Some("n\n".to_string()), Some("gone\n".to_string()));
    assert_eq!(now, expected, "{}", ran.out);
    assert!(kept && !own && is(&world, "f", "one\n"));
}

/// On overlayfs a file gets another identity when it is first changed, were it only by `chmod`. Only
/// root can make such a mount.
#[test]
fn an_old_file_is_no_new_one_because_its_identity_changed() {
    let mut world = world();
    let (upper, work) = (world.root.join("upper"), world.root.join("work"));
    std::fs::create_dir(&upper).unwrap();
    std::fs::create_dir(&work).unwrap();
    let ws = world.root.join("ws");
    let shown = |path: &std::path::Path| path.display().to_string();
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        shown(&ws),
        shown(&upper),
        shown(&work)
    );
    let mounted = std::process::Command::new("mount")
        .args(["-t", "overlay", "overlay", "-o", &options])
        .arg(&ws)
        .stderr(std::process::Stdio::null())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        return;
    }
    world.plan.masks.clear();
    let ran = world.run(
        "chmod 600 f; rm -f f; touch g; mv g g2; rm -f g2; chmod 700 d .git; rm -rf d; mv .git x
         echo evil > c; mv c .git/config; echo e > .git/hooks/x; echo n > n; rm n; echo new > d/x; ls",
    );
    let read = |name: &str| world.read(name);
    let now = [read("f"), read("g2"), read("n"), read("d/x")];
    let config = read(".git/config").unwrap_or_default();
    let hook = world.at(".git/hooks/x").exists();
    let kept = world.has_kept("x\n");
    let unmounted = std::process::Command::new("umount").arg(&ws).status();
    assert!(unmounted.unwrap().success());
    let text = |text: &str| Some(text.to_string());
    assert_eq!(
        now,
        [text("one\n"), text("two\n"), None, text("new\n")],
        "{}",
        ran.out
    );
    assert!(
        !config.is_empty() && !config.contains("evil") && !hook && kept,
        "{}",
        ran.out
    );
}

#[test]
fn what_git_writes_in_an_old_ones_place_stays() {
    let world = world();
    world.person("git switch -qc side; echo other > f; mkdir e; echo e > e/e; git add f e; git commit -qm 2; git switch -q main");
    let ran = world.run("git switch -q side && rm -f f; git switch -q main; git switch -q side; rm -f f d/x; git status --short");
    assert!(
        is(&world, "f", "other\n") && is(&world, "d/x", "x\n"),
        "{}",
        ran.out
    );
    assert!(
        is(&world, "e/e", "e\n") && ran.code == Some(0),
        "{}",
        ran.out
    );
    // A later command knows it no better.
    let ran = world.run("rm -f f; git switch -q main && ls; rm -f f; git fsck --strict");
    assert!(
        is(&world, "f", "one\n") && !world.at("e").exists(),
        "{}",
        ran.out
    );
}
