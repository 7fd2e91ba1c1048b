//! Folders of build products, in which old files may go without a copy: nothing of the person's
//! comes into one, whatever a command moves, in however many calls at once. The attackers of the
//! races are this same test program, started again inside the sandbox.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::World;
use std::path::Path;
use std::time::{Duration, Instant};

const PRECIOUS: &str = "precious\n";

/// A repository in which `target/` is ignored and holds an old product, and old files outside it.
fn world() -> World {
    let world = World::new();
    prepare(&world);
    world
}

fn prepare(world: &World) {
    world.write(".gitignore", "target/\n/packages/*/node_modules/\n");
    world.write("tracked", "t\n");
    world.commit_all();
    world.write("v", PRECIOUS);
    world.write("d/deep/w", "deep\n");
    world.write("target/old", "product\n");
}

/// Whether nothing that lay outside of the build folder is lost.
fn is_whole(world: &World) -> bool {
    [PRECIOUS, "deep\n"]
        .iter()
        .all(|content| world.holds(content) || world.has_kept(content))
}

#[test]
fn an_old_product_goes_and_nothing_old_comes_in() {
    for line in [
        "mkdir n; mv v n/; mv n target/n; rm -rf target",
        "mkdir n; mv v n/; mv target t2; mv n target; rm -rf target",
        "mkdir n; mv v n/; mv n target/n; echo x > target/n/v; truncate -s 0 target/n/v",
        "mkdir -p n/m; mv d n/m/; mv n target/n; rm -rf target",
        "mkdir n target/n; mv v n/; mv -T n target/n; rm -rf target",
        "mkdir n; ln v n/l; mv n target/n; rm -f v; rm -rf target; echo x > target/n/l",
        "mkdir n; mv v n/; ln -s ../n target/n; rm -rf target/n/ target/n/v",
        "mkdir n; mv v n/; tar cf $TMPDIR/t.tar --remove-files n/v; mv n target/n",
        "mv v target/; mv d target/; mv -T d target; rm -rf target d v",
        "cd target; mv ../v .; rm -f v; mkdir ../n; mv ../v ../n/; mv ../n .; rm -rf n",
    ] {
        let world = world();
        let ran = world.run(line);
        // A later call knows less of what was moved.
        world.run("rm -rf target; rm -rf target/n");
        assert!(is_whole(&world), "{line}: {}", ran.out);
        let ran = world.run("rm -rf target/old; ls target");
        assert!(!world.at("target/old").exists(), "{line}: {}", ran.out);
    }
}

#[test]
fn what_the_command_made_may_come_in() {
    let world = world();
    let ran = world.run(
        "mkdir -p out/a; echo n > out/a/n; mv out target/out && rm -rf target && mkdir dist.new
         echo n > dist.new/n; mv dist.new target && rm -r target && echo well",
    );
    assert_eq!(ran.out, "well\n");
    // A save of the person's stays where it is.
    let world = self::world();
    world.run("mkdir out; echo n > out/n");
    world.write("out/notes", "notes\n");
    let ran = world.run("mv out target/out; rm -rf target out");
    assert_eq!(world.read("out/notes").as_deref(), Some("notes\n"));
    let refused = ran.done.guarded.refused.join("\n");
    assert!(refused.contains("build products"), "{refused}");
}

#[test]
fn no_folder_is_moved_to_where_git_ignores_what_is_old_in_it() {
    let mut world = world();
    world.write("vendor/lib/node_modules/x", "vendored\n");
    let ran = world
        .run("mv vendor packages; mkdir k; mv vendor/lib k/; mv k packages; mv vendor v2; find .");
    assert!(world.at("k/lib/node_modules/x").exists(), "{}", ran.out);
    // Another session knows of no move.
    world.guard().ledger = None;
    world.run("rm -rf packages v2 k vendor");
    assert!(world.holds("vendored\n"));
}

/// Where git ignores them before as after, however many there are and whatever is in them.
#[test]
fn folders_with_many_build_folders_may_be_moved() {
    let world = world();
    world.person(
        "for n in $(seq 300); do mkdir -p all/p$n/target/debug/target; echo $n > all/p$n/target/debug/target/x; done
         echo m > all/m",
    );
    let ran =
        world.run("mv all moved && mkdir k && mv moved k/ && mv k/moved all && ls all | wc -l");
    assert_eq!(ran.out, "301\n", "{:?}", ran.done.guarded.refused);
    assert_eq!(
        world.read("all/p300/target/debug/target/x").as_deref(),
        Some("300\n")
    );
}

#[test]
fn a_repository_of_the_sessions_own_frees_nothing() {
    let world = World::new();
    world.write("target/v", PRECIOUS);
    world.write("sub/target/v", PRECIOUS);
    let make = "git init -q .; echo target > .gitignore; git add .gitignore; git commit -qm 1";
    world.run(make);
    world.run(&format!("cd sub; {make}"));
    let ran = world.run("rm -rf target sub/target");
    assert!(world.at("target/v").exists(), "{}", ran.out);
    assert!(world.at("sub/target/v").exists(), "{}", ran.out);
}

/// git itself reads a forged object without a word.
#[test]
fn a_forged_object_frees_nothing() {
    let world = world();
    world.write("build/v", PRECIOUS);
    let mut world = world;
    world.guard().build_folders.push("build".into());
    let ran = world.run(
        r#"python3 - <<'END'
import os, subprocess, zlib
def git(*args): return subprocess.check_output(("git",) + args, text=True).strip()
for name in "HEAD:.gitignore", "HEAD^{tree}":
    id = git("rev-parse", name)
    kind = git("cat-file", "-t", id)
    data = b"build\n" if kind == "blob" else b""
    open("forged", "wb").write(zlib.compress(b"%s %d\0%s" % (kind.encode(), len(data), data)))
    os.rename("forged", ".git/objects/%s/%s" % (id[:2], id[2:]))
    print(git("cat-file", kind, id))
    subprocess.run(["rm", "-rf", "build", "target"])
END"#,
    );
    assert!(ran.out.contains("build\n"), "{}", ran.out);
    assert!(world.at("build/v").exists(), "{}", ran.out);
}

#[test]
fn a_repository_that_makes_git_wait_holds_the_call_up_for_a_moment_only() {
    let mut world = world();
    world.write("other/v", "x\n");
    let begun = Instant::now();
    let mut request = world.request(
        "mkfifo .git/objects/info/alternates; rm -rf target; mkdir n && rmdir n && echo well",
    );
    request.timeout_ms = 30_000;
    let ran = common::run(&request);
    assert!(ran.out.ends_with("well\n"), "{}", ran.out);
    assert!(!ran.done.timed_out && begun.elapsed() < Duration::from_secs(30));
    assert!(world.at("target/old").exists());
    world.guard().ledger = None;
}

/// How long each race runs.
const RACE: Duration = Duration::from_secs(2);

/// The attackers, inside the sandbox only.
#[test]
#[ignore = "started by the other tests, inside the sandbox"]
fn attack() {
    let act = std::env::var("HANDS_TEST_ACT").unwrap_or_default();
    let until = Instant::now() + RACE;
    let mut number = 0;
    while Instant::now() < until && !act.is_empty() {
        number += 1;
        step(&act, number);
    }
}

/// One try of an attacker. What of it is refused is no matter.
fn step(act: &str, number: usize) {
    use std::fs::{create_dir, remove_dir, remove_file, rename, write};
    match act {
        "wrap" => {
            let _ = create_dir("new");
            let _ = rename("new", "target/new");
            let _ = remove_file("target/new/v");
            let _ = rename("target/new", "new");
        }
        "fill" => {
            let _ = rename("v", "new/v");
            let _ = rename("new/v", "v");
            let _ = rename("target/new/v", "v");
        }
        "unlink" => drop(remove_file("target/new/v")),
        "replace" => {
            let _ = write("target/m", "new");
            let _ = rename("target/m", format!("many/{}", number % MANY));
        }
        "unlink-m" => drop(remove_file("target/m")),
        "empty-m" => drop(write("target/m", "")),
        "no-replace" => no_replace("v", "target/x"),
        "make-x" => {
            let _ = write("target/x", "");
            let _ = remove_file("target/x");
        }
        "socket" => {
            drop(std::os::unix::net::UnixListener::bind("s"));
            let _ = rename("s", "s2");
            let _ = rename("v", "s");
            let _ = rename("s", "v");
            let _ = remove_file("s2");
        }
        "unlink-s" => drop(remove_file("s")),
        "make" => {
            let _ = create_dir("x");
            let _ = remove_file("x");
            let _ = remove_dir("x");
        }
        "take" => {
            let _ = rename("x", "y");
            let _ = rename("v", "x");
            let _ = rename("x", "v");
            let _ = remove_dir("y");
        }
        _ => panic!("{act}?"),
    }
}

fn no_replace(from: &str, to: &str) {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let _ = renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE);
}

const MANY: usize = 300;

/// Several calls of one session at once, each with its own broker.
fn race(acts: &[&str]) -> World {
    let world = World::in_memory();
    prepare(&world);
    for number in 0..MANY {
        world.write(&format!("many/{number}"), &format!("old {number}\n"));
    }
    let own = std::env::current_exe().unwrap();
    std::thread::scope(|scope| {
        for act in acts {
            let line = format!(
                "HANDS_TEST_ACT={act} {} --ignored --exact attack",
                own.display()
            );
            let world = &world;
            scope.spawn(move || assert_eq!(world.run(&line).code, Some(0), "{act}"));
        }
    });
    world
}

#[test]
fn calls_at_once_bring_nothing_old_in() {
    for acts in [
        ["wrap", "fill", "unlink"],
        ["no-replace", "make-x", "unlink"],
    ] {
        let world = race(&acts);
        assert!(is_whole(&world), "{acts:?}");
    }
}

#[test]
fn calls_at_once_do_not_reach_what_is_being_replaced() {
    let world = race(&["replace", "unlink-m", "empty-m"]);
    let kept: std::collections::HashSet<String> = world.kept().into_iter().collect();
    for number in 0..MANY {
        let old = format!("old {number}\n");
        let stands = world.read(&format!("many/{number}")) == Some(old.clone());
        assert!(stands || kept.contains(&old), "{number} is lost");
    }
    assert!(Path::new(&world.at("many/0")).exists());
}

#[test]
fn calls_at_once_do_not_take_one_thing_for_another() {
    for acts in [
        ["socket", "unlink-s", "unlink-s"],
        ["make", "take", "unlink"],
    ] {
        let world = race(&acts);
        assert!(is_whole(&world), "{acts:?}");
    }
}
