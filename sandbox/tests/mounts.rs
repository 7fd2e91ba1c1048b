//! Names that change while the sandbox is set up show nothing that is hidden.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{World, try_run};
use hands_sandbox::Walls;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Tries for each list of a plan: where nothing looks, about one in twenty shows the secret.
const TRIES: usize = 150;

/// Makes a name a folder and a link in turn, as a command of the session could that still runs.
fn flip(folder: &Path, name: &str, to: &Path, over: &AtomicBool) {
    let at = |name: &str| folder.join(name);
    std::os::unix::fs::symlink(to, at("link")).unwrap();
    let rename = |from: &str, to: &str| {
        // bubblewrap makes a folder to mount on where it finds none just then.
        while let Err(e) = std::fs::rename(at(from), at(to)) {
            std::fs::remove_dir(at(to)).unwrap_or_else(|_| panic!("{from} to {to}: {e}"));
        }
    };
    while !over.load(Ordering::Relaxed) {
        rename(name, "folder");
        rename("link", name);
        std::thread::sleep(Duration::from_micros(150));
        rename(name, "link");
        rename("folder", name);
        std::thread::sleep(Duration::from_micros(150));
    }
}

/// Runs commands while the name changes; how many ran and saw nothing.
fn tries(world: &World, name: &str) -> usize {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| flip(&world.root.join("ws"), name, Path::new("../secret"), &over));
        let look = format!("cat {name}/key; ls {name}; cat {name}/../secret/key; true");
        let mut ran = 0;
        let mut leaks = 0;
        for _ in 0..TRIES {
            if let Ok(done) = try_run(&world.request(&look)) {
                ran += 1;
                leaks += usize::from(done.out.contains("SECRET"));
            }
        }
        over.store(true, Ordering::Relaxed);
        assert_eq!(leaks, 0, "of {ran} commands that ran");
        ran
    })
}

#[test]
fn a_name_that_changes_meanwhile_shows_no_secret() {
    let mut world = World::new();
    std::fs::write(world.root.join("secret/key"), "SECRET").unwrap();
    world.write("sealed/x", "x");
    world.write("closed/x", "x");
    let before = world.plan.clone();
    world.plan.sealed.push(world.at("sealed"));
    assert!(tries(&world, "sealed") > 0, "some commands run");
    std::fs::remove_file(world.at("link")).unwrap();
    world.plan = before;
    world.plan.closed.push(world.at("closed"));
    assert!(tries(&world, "closed") > 0, "some commands run");
}

/// A second mount of a folder shows no secret of it and opens nothing that is sealed. Only root can
/// make one.
#[test]
fn what_is_mounted_again_is_hidden_and_sealed_there_too() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for mut world in [World::new(), World::reduced()] {
        std::fs::write(world.root.join("secret/key"), "SECRET").unwrap();
        world.write("repo/.git/config", "[core]\n");
        world.write("repo/f", "f\n");
        world.plan.sealed.push(world.at("repo/.git/config"));
        let places = [world.root.join("again"), world.at("mounted")];
        let mount = |words: &[&std::ffi::OsStr]| {
            let done = std::process::Command::new(words[0])
                .args(&words[1..])
                .status();
            done.is_ok_and(|status| status.success())
        };
        let (root, repository) = (world.root.clone(), world.at("repo"));
        let mut mounted = true;
        for (from, to) in [(&root, &places[0]), (&repository, &places[1])] {
            std::fs::create_dir(to).unwrap();
            mounted &= mount(&[
                "mount".as_ref(),
                "--bind".as_ref(),
                from.as_ref(),
                to.as_ref(),
            ]);
        }
        let ran = world.run(&format!(
            "cat {0}/secret/key; cd {0}/secret && cat key; ls {0}/secret; cat {0}/ws/repo/f; \
             echo x > $W/mounted/.git/config; chmod 777 $W/mounted/.git/config; echo own > $W/mounted/own",
            places[0].display()
        ));
        for place in &places {
            mount(&["umount".as_ref(), place.as_ref()]);
        }
        if !mounted {
            return;
        }
        let reduced = world.plan.walls == Walls::Reduced;
        assert!(
            !ran.out.contains("SECRET") && !ran.out.contains("\nkey\n"),
            "{reduced}: {}",
            ran.out
        );
        assert!(ran.out.contains("f\n"), "{reduced}: {}", ran.out);
        assert_eq!(
            world.read("repo/.git/config").as_deref(),
            Some("[core]\n"),
            "{reduced}"
        );
        assert_eq!(
            world.read("repo/own").as_deref(),
            Some("own\n"),
            "{reduced}: {}",
            ran.out
        );
    }
}
