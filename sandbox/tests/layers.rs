//! The layers one by one: what each alone lets through of the lines that destroy a file and of the
//! holes that sandboxes of this kind have had. The disk is looked at, and the table in
//! `docs/sandbox.md` is what is found.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::lines::{FROM_THE_LIST, LINES};
use common::{World, documents};
use hands_policy::command::{Ground, Scene, Standing, Verdict, look_at};
use hands_sandbox::linux::Bubblewrap;
use hands_sandbox::{Backend, Plan};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Commands that run at once.
const AT_ONCE: usize = 6;

/// What stands around a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Layers {
    /// Nothing at all.
    Nothing,
    /// Only the check of the command line.
    Check,
    /// Only the outer wall, with its mounts.
    Bubblewrap,
    /// The walls, and no broker; the check is off.
    Walls,
    /// The walls and the broker; the check is off.
    Broker,
    /// All of it, the check in front.
    Everything,
}

const ALL: [Layers; 6] = [
    Layers::Nothing,
    Layers::Check,
    Layers::Bubblewrap,
    Layers::Walls,
    Layers::Broker,
    Layers::Everything,
];

impl Layers {
    /// Runs a line in the world's workspace and returns what it printed.
    fn run(self, world: &mut World, line: &str) -> String {
        let checked = matches!(self, Self::Check | Self::Everything);
        if checked && is_refused(world, line) {
            return "refused by the check".into();
        }
        match self {
            Self::Nothing | Self::Check => unconfined(world, line),
            Self::Bubblewrap => in_bubblewrap(world, line),
            Self::Walls => {
                world.plan.guard = None;
                world.run(line).out
            }
            Self::Broker | Self::Everything => world.run(line).out,
        }
    }
}

/// At the time of the check everything in the workspace is old.
struct Disk;

impl Ground for Disk {
    fn standing(&self, path: &Path) -> Standing {
        match path.symlink_metadata() {
            Err(_) => Standing::Open,
            Ok(there) if there.is_dir() => Standing::Folder,
            Ok(_) => Standing::File,
        }
    }
}

fn is_refused(world: &World, line: &str) -> bool {
    let scene = Scene {
        folder: &world.plan.cwd,
        home: &world.root.join("tmp"),
        roots: &world.plan.workspaces,
        ground: Some(&Disk),
    };
    matches!(look_at(line, &scene), Verdict::Refused(_))
}

fn bash(plan: &Plan, program: &Path, args: &[std::ffi::OsString], tmp: &Path) -> String {
    let output = Command::new(program)
        .args(args)
        .current_dir(&plan.cwd)
        .env_clear()
        .envs(plan.env.iter().cloned())
        .env("TMPDIR", tmp)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn unconfined(world: &World, line: &str) -> String {
    let args = ["-c".into(), line.into()];
    bash(
        &world.plan,
        Path::new("/bin/bash"),
        &args,
        &world.root.join("tmp"),
    )
}

/// The outer wall as it is, around the command itself instead of around the helper that makes the
/// inner ones.
fn in_bubblewrap(world: &World, line: &str) -> String {
    let request = world.request(line);
    let whole = Bubblewrap::find().run_by(common::program());
    let launch = whole.launch(&request.plan, 9).unwrap();
    let end = launch.args.iter().position(|word| word == "--").unwrap();
    let mut args = launch.args[..=end].to_vec();
    args.extend(request.plan.argv.iter().map(Into::into));
    bash(&request.plan, &launch.program, &args, Path::new("/tmp"))
}

/// What became of the old files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Each is in its place with its content.
    Stayed,
    /// Each content is still there: by another name, in git's objects, or in the recovery folder.
    Kept,
    /// A content is gone for good.
    Lost,
}

const OLD: [(&str, &str); 3] = [("v", "precious\n"), ("o", "other\n"), ("d/e", "deep\n")];

fn destroyed(layers: Layers, line: &str) -> Fate {
    let mut world = World::new();
    for (name, content) in OLD {
        world.write(name, content);
    }
    std::fs::create_dir(world.at("emptyd")).unwrap();
    world.person("mkdir $G; cp v $G; cd $G; git init -q .; git add v; git commit -qm 1");
    layers.run(&mut world, line);
    let same = |(name, content): (&str, &str)| world.read(name).as_deref() == Some(content);
    if OLD.into_iter().all(same) && world.at("emptyd").is_dir() {
        return Fate::Stayed;
    }
    let objects = objects(&world);
    let is_kept = |content: &str| {
        world.holds(content) || world.has_kept(content) || objects.contains(content)
    };
    match OLD.into_iter().all(|(_, content)| is_kept(content)) && world.at("emptyd").is_dir() {
        true => Fate::Kept,
        false => Fate::Lost,
    }
}

/// What git's objects hold, in one text.
fn objects(world: &World) -> String {
    let output = Command::new("/usr/bin/git")
        .args(["cat-file", "--batch-all-objects", "--batch"])
        .current_dir(world.root.join("ws"))
        .env_clear()
        .env("GIT_CEILING_DIRECTORIES", &world.root)
        .envs(world.plan.env.iter().cloned())
        .stderr(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A hole, and whether it is open.
struct Hole {
    what: &'static str,
    /// Whether this machine lets it be tried.
    can_be_tried: fn() -> bool,
    is_open: fn(Layers) -> bool,
}

/// A repository of the person's with a hidden folder in it, and a folder of theirs outside.
fn person() -> World {
    let mut world = World::new();
    world.write("f", "one\n");
    world.write(".gitignore", "target\n");
    world.commit_all();
    world.write("private/key", "SECRET\n");
    world.write("node_modules/m", "module\n");
    world.plan.masks.push(world.at("private"));
    std::fs::create_dir(world.root.join("outside")).unwrap();
    world
}

fn after(layers: Layers, line: &str) -> (World, String) {
    let mut world = person();
    let said = layers.run(&mut world, line);
    (world, said)
}

fn lost(world: &World, content: &str) -> bool {
    !world.holds(content) && !world.has_kept(content)
}

fn always() -> bool {
    true
}

/// While one thread opens `l` to empty it, another makes it lead now to the old file, now to one of
/// the command's own.
const FLIP: &str = r#"python3 -c '
import os, sys, threading
sys.setswitchinterval(1e-5)
open("own", "w").close()
flips = 0
over = False
def flip():
    global flips
    while not over:
        for to in ("own", "f"):
            try:
                os.symlink(to, "k")
                os.rename("k", "l")
            except OSError:
                pass
            flips += 1
os.symlink("own", "l")
thread = threading.Thread(target=flip)
thread.start()
tries = 0
while tries < 1000 or (flips < 1000 and tries < 100000):
    tries += 1
    try:
        open("l", "w").close()
    except OSError:
        pass
over = True
thread.join()
'"#;

/// A mount over the workspace, taken away when dropped.
struct Overlay(std::path::PathBuf);

impl Overlay {
    fn over(world: &World) -> Option<Self> {
        for name in ["upper", "work"] {
            std::fs::create_dir(world.root.join(name)).unwrap();
        }
        let ws = world.root.join("ws");
        let at = |name: &str| world.root.join(name).display().to_string();
        let folders = format!("lowerdir={},upperdir={}", at("ws"), at("upper"));
        let options = format!("{folders},workdir={}", at("work"));
        let mounted = Command::new("mount")
            .args(["-t", "overlay", "overlay", "-o", &options])
            .arg(&ws)
            .stderr(Stdio::null())
            .status();
        mounted
            .is_ok_and(|status| status.success())
            .then_some(Self(ws))
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

fn overlay_can_be_mounted() -> bool {
    rustix::process::geteuid().is_root() && Overlay::over(&World::new()).is_some()
}

const HOLES: &[Hole] = &[
    Hole {
        what: "`mv h .git/hooks/post-checkout` plants a hook",
        can_be_tried: always,
        is_open: |layers| {
            let line = "echo evil > h; chmod +x h; mv h .git/hooks/post-checkout";
            after(layers, line)
                .0
                .at(".git/hooks/post-checkout")
                .exists()
        },
    },
    Hole {
        what: "`mv -f c .git/config` replaces git's settings",
        can_be_tried: always,
        is_open: |layers| {
            let (world, _) = after(layers, "echo evil > c; mv -f c .git/config");
            world
                .read(".git/config")
                .is_none_or(|now| now.contains("evil"))
        },
    },
    Hole {
        what: "`mv .git .g2` takes the history away",
        can_be_tried: always,
        is_open: |layers| !after(layers, "mv .git .g2").0.at(".git/HEAD").exists(),
    },
    Hole {
        what: "`cat private/key` reads a hidden file",
        can_be_tried: always,
        is_open: |layers| after(layers, "cat private/key").1.contains("SECRET"),
    },
    Hole {
        what: "a refused write to a hidden file leaves a copy of it",
        can_be_tried: always,
        is_open: |layers| {
            let (world, _) = after(layers, "echo x >> private/key; : > private/key");
            let changed = world.read("private/key").as_deref() != Some("SECRET\n");
            changed || world.has_kept("SECRET\n")
        },
    },
    Hole {
        what: "`ln private/key k; cat k` reads it by a second name",
        can_be_tried: always,
        is_open: |layers| {
            after(layers, "ln private/key k; cat k")
                .1
                .contains("SECRET")
        },
    },
    Hole {
        what: "`rm` takes a file that the person makes during the call",
        can_be_tried: always,
        is_open: |layers| {
            let mut world = person();
            let root = world.root.join("ws");
            let person = std::thread::spawn(move || {
                while !root.join("begun").exists() {
                    std::thread::yield_now();
                }
                std::fs::write(root.join("out"), "mine\n").unwrap();
                std::fs::write(root.join("go"), "").unwrap();
            });
            // In words that no check sees.
            let line = "touch begun; until [ -e go ]; do sleep 0.01; done; r''m -f \"o\"ut";
            layers.run(&mut world, line);
            // A line that was refused has not begun.
            world.write("begun", "");
            person.join().unwrap();
            lost(&world, "mine\n")
        },
    },
    Hole {
        what: "`chmod 000 f; rm -f f` takes an old file",
        can_be_tried: always,
        is_open: |layers| {
            lost(
                &after(layers, "chmod 000 f; chmod 644 f; rm -f f").0,
                "one\n",
            )
        },
    },
    Hole {
        what: "an edit of `.gitignore` frees a folder",
        can_be_tried: always,
        is_open: |layers| {
            let line = "echo node_modules >> .gitignore; rm -rf node_modules";
            lost(&after(layers, line).0, "module\n")
        },
    },
    Hole {
        what: "`chmod 600 f; rm -f f` does on overlayfs, where the file then has another identity",
        can_be_tried: overlay_can_be_mounted,
        is_open: |layers| {
            let mut world = person();
            world.plan.masks.retain(|mask| !mask.ends_with("private"));
            let overlay = Overlay::over(&world).unwrap();
            layers.run(&mut world, "chmod 600 f; rm -f f");
            let is_lost = lost(&world, "one\n");
            drop(overlay);
            is_lost
        },
    },
    Hole {
        what: "a path that changes while it is opened empties an old file, 1,000 tries",
        can_be_tried: always,
        is_open: |layers| lost(&after(layers, FLIP).0, "one\n"),
    },
    Hole {
        what: "`echo x > ../outside/x` writes outside",
        can_be_tried: always,
        is_open: |layers| {
            after(layers, "echo x > ../outside/x")
                .0
                .root
                .join("outside/x")
                .exists()
        },
    },
    Hole {
        what: "`unshare -Ur true` makes a namespace in which it is root",
        can_be_tried: always,
        is_open: |layers| {
            after(layers, "unshare -Ur true && echo made")
                .1
                .contains("made")
        },
    },
];

/// Names of programs that the lines use and that a machine may lack.
const PROGRAMS: &[&str] = &[
    "busybox",
    "vim.tiny",
    "sqlite3",
    "rsync",
    "make",
    "curl",
    "ed",
    "openssl",
    "perl",
    "python3",
    "gzip",
    "sudo",
    "shred",
    "fallocate",
    "git",
    "unshare",
];

/// Whether this machine lacks a program of the line, so that it says nothing.
fn is_unknown(line: &str) -> bool {
    let mut words = line.split(|c: char| !(c.is_alphanumeric() || c == '.'));
    words.any(|word| PROGRAMS.contains(&word) && !is_installed(word))
}

fn is_installed(program: &str) -> bool {
    let folders = ["/usr/local/bin", "/usr/bin", "/bin"];
    let there = folders
        .iter()
        .any(|folder| Path::new(folder).join(program).exists());
    // Without rights to use it, it does nothing.
    there && (program != "sudo" || rustix::process::geteuid().is_root())
}

/// The first cell of a row.
fn cell(line: &str) -> String {
    let escaped = line.replace('|', "\\|").replace('\n', " ");
    match escaped.contains('`') {
        true => escaped,
        false => format!("`{escaped}`"),
    }
}

/// What each of these comes to, several at a time, in order.
fn all_of<T: Sync, R: Send>(cases: &[T], judge: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let share = cases.len().div_ceil(AT_ONCE);
    std::thread::scope(|scope| {
        let judge = &judge;
        let shares = cases.chunks(share);
        let threads: Vec<_> = shares
            .map(|share| scope.spawn(move || share.iter().map(judge).collect::<Vec<R>>()))
            .collect();
        let results = threads.into_iter().map(|thread| thread.join().unwrap());
        results.flatten().collect()
    })
}

#[test]
fn each_layer_stops_what_the_documents_say() {
    let mut table = String::from(
        "| | nothing | the check alone | bubblewrap alone | all but broker and check | all but the check | everything |\n\
         |---|---|---|---|---|---|---|\n",
    );
    let mut unknown = Vec::new();
    let mut open = String::new();
    let holes = all_of(HOLES, |hole| {
        let can_be_tried = !is_unknown(hole.what) && (hole.can_be_tried)();
        can_be_tried.then(|| ALL.map(|layers| (hole.is_open)(layers)))
    });
    for (hole, results) in HOLES.iter().zip(holes) {
        let Some(results) = results else {
            unknown.push(format!("| {} |", hole.what));
            continue;
        };
        assert!(
            results[0],
            "{}: it says nothing if nothing lets it through",
            hole.what
        );
        assert!(!results[4] && !results[5], "{} is open", hole.what);
        let words = results.map(|is_open| if is_open { "**open**" } else { "shut" });
        let _ = writeln!(open, "| {} | {} |", hole.what, words.join(" | "));
    }
    let mut lines = String::new();
    let mut losses: BTreeMap<Layers, usize> = BTreeMap::new();
    let fates = all_of(&LINES[..FROM_THE_LIST], |line| {
        ALL.map(|layers| (layers, destroyed(layers, line)))
    });
    for (line, fates) in LINES.iter().zip(fates) {
        for (layers, fate) in fates {
            let is_lost = fate == Fate::Lost;
            assert!(
                !is_lost || layers < Layers::Broker,
                "{line}: lost with {layers:?}"
            );
            *losses.entry(layers).or_default() += usize::from(is_lost);
        }
        let words = fates.map(|(_, fate)| match fate {
            Fate::Stayed => "stays",
            Fate::Kept => "kept",
            Fate::Lost => "**lost**",
        });
        let _ = writeln!(lines, "| {} | {} |", cell(line), words.join(" | "));
        if is_unknown(line) {
            unknown.push(format!("| {} |", cell(line)));
        }
    }
    let counts: Vec<String> = losses.values().map(ToString::to_string).collect();
    let total = format!("| **lines of {FROM_THE_LIST} that lose a file** |");
    let _ = writeln!(table, "{total} {} |", counts.join(" | "));
    if !unknown.is_empty() {
        // The sum is of all lines.
        unknown.push(total);
    }
    table.push_str(&open);
    table.push_str(&lines);
    if documents::are_here() {
        documents::agree("layers", &table, &unknown);
    }
}
