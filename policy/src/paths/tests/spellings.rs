//! However a path is spelt: what is used is what was checked, it is what the operating system finds,
//! and it is nothing protected.

use proptest::prelude::*;
use std::collections::HashSet;
use std::os::fd::{AsFd, AsRawFd};

use super::*;

/// Spellings tried in each case: `scripts/test --deep` asks for 10,000 cases.
const SPELLINGS: usize = 10;
const SECRET: &str = "secret";

const NFC: &str = "caf\u{e9}";
const NFD: &str = "cafe\u{301}";

/// A world with links of every kind, names in both normal forms, and open folders.
struct Tangle {
    world: World,
    /// A folder in the workspace, and one that is protected.
    open: [fs::File; 2],
    /// Folders that were made and taken away again.
    cleared: std::cell::Cell<usize>,
}

impl Tangle {
    fn new() -> Tangle {
        let world = World::with(|top, settings| {
            settings.extra_protected = vec![top.join("ws/kept")];
            fs::create_dir_all(top.join("ws/kept/in")).unwrap();
            fs::write(top.join("ws/kept/in/s.txt"), SECRET).unwrap();
            fs::write(top.join("ws/kept/s.txt"), SECRET).unwrap();
        });
        world.link("..", "ws/sub/up");
        world.link(".", "ws/here");
        world.link(world.at("ws/sub"), "ws/abs");
        world.link("abs/deep", "ws/chain");
        world.link("chain/", "ws/slash");
        world.link("chain/../b.txt", "ws/toB");
        world.link("loop", "ws/loop");
        world.link("none/x", "ws/gone");
        world.link("../outside", "ws/out");
        world.link(world.at("home/.ssh"), "ws/ssh");
        world.link("kept", "ws/k");
        world.link("k/in/../s.txt", "ws/ks");
        world.link("/proc/self/root", "ws/root");
        world.link(NFD, "ws/link");
        fs::create_dir(world.at("ws").join(NFD)).unwrap();
        fs::write(world.at("ws").join(NFD).join("a.txt"), "nfd").unwrap();
        fs::write(world.at("ws/sub").join(NFC), "nfc").unwrap();
        // Both forms at once, where the file system tells them apart.
        for (name, content) in [(NFC, "both c"), (NFD, "both d")] {
            fs::write(world.at("ws/sub/deep").join(name), content).unwrap();
        }
        fs::hard_link(world.at("home/.ssh/id_x"), world.at("ws/hard")).unwrap();
        let open = ["ws/sub", "ws/kept"].map(|name| fs::File::open(world.at(name)).unwrap());
        fs::create_dir(world.at("cleared")).unwrap();
        Tangle {
            world,
            open,
            cleared: std::cell::Cell::new(0),
        }
    }

    /// Takes a folder out of the workspace. It goes with the world: some file systems make a folder
    /// the more slowly the more were removed just before.
    fn clear_away(&self, made: &Path) -> std::io::Result<()> {
        let number = self.cleared.replace(self.cleared.get() + 1);
        fs::rename(made, self.world.at(&format!("cleared/{number}")))
    }

    /// The text of a spelling that begins at one of several places.
    fn text(&self, start: usize, rest: &str) -> String {
        let ws = self.world.text("ws");
        let fd = |n: usize| self.open[n].as_raw_fd();
        match start {
            0 | 1 => rest.to_owned(),
            2 => format!("{ws}/{rest}"),
            3 => format!("/{ws}//{rest}"),
            4 => format!("~/../ws/{rest}"),
            5 => format!("/proc/self/root{ws}/{rest}"),
            6 => format!("/proc/thread-self/root/proc/self/root{ws}/{rest}"),
            7 => format!("/dev/fd/{}/{rest}", fd(0)),
            8 => format!("/proc/self/fd/{}/../{rest}", fd(0)),
            9 => format!("/dev/fd/{}/{rest}", fd(1)),
            _ => format!("{ws}/../home/.ssh/{rest}"),
        }
    }

    /// What the operating system makes of it, `~` and the workspace filled in.
    fn for_system(&self, text: &str) -> PathBuf {
        match text.strip_prefix("~/") {
            Some(rest) => self.world.at("home").join(rest),
            None => self.world.at("ws").join(text),
        }
    }
}

fn part() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        ".", "..", "", "sub", "SUB", "deep", "a.txt", "A.txt", "b.txt", "up", "here", "abs",
        "chain", "slash", "toB", "loop", "gone", "none", "new.txt", "out", "o.txt", "ssh", "id_x",
        "kept", "Kept", "k", "in", "ks", "s.txt", "hard", "root", "link", NFC, NFD, "ws", ".git",
        "config",
    ])
}

fn spelling() -> impl Strategy<Value = (usize, String)> {
    let parts = prop::collection::vec(part(), 1..9);
    (0_usize..=10, parts, any::<bool>())
        .prop_map(|(start, parts, slash)| (start, parts.join("/") + if slash { "/" } else { "" }))
}

fn id(meta: &fs::Metadata) -> FileId {
    use std::os::unix::fs::MetadataExt;
    FileId {
        dev: meta.dev(),
        ino: meta.ino(),
    }
}

fn id_of(object: impl AsFd) -> FileId {
    let object = object.as_fd().try_clone_to_owned().unwrap();
    id(&fs::File::from(object).metadata().unwrap())
}

/// Where an open folder lies.
fn place_of(folder: &impl AsFd) -> PathBuf {
    fs::read_link(format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd())).unwrap()
}

/// Tries one spelling; what was found wrong.
fn try_spelling(tangle: &Tangle, text: &str) -> Result<(), String> {
    let policy = &tangle.world.policy;
    let system = fs::metadata(tangle.for_system(text)).ok();
    let target = match policy.resolve(text, None) {
        Ok(target) => target,
        Err(refusal) => {
            let may = system.is_none() || refusal.kind == RefusalKind::Protected;
            return may.then_some(()).ok_or(format!("refused: {refusal}"));
        }
    };
    let shown = fs::symlink_metadata(target.path()).ok();
    let checked = target.id();
    if checked != shown.as_ref().map(id) {
        return Err(format!(
            "{} is not what was checked",
            target.path().display()
        ));
    }
    // What the system does not find may be a name in the other normal form; never another object.
    if let Some(system) = &system
        && checked != Some(id(system))
    {
        return Err("the system finds another object".to_owned());
    }
    read_it(policy, &target, checked)?;
    write_it(tangle, &target)
}

fn read_it(policy: &PathPolicy, target: &Target, checked: Option<FileId>) -> Result<(), String> {
    if policy.check_read(target).is_err() {
        return Ok(());
    }
    let used = match target.kind() {
        Some(Kind::File) => {
            let file = target.open_read().map_err(|e| e.to_string())?;
            let used = id_of(&file);
            if std::io::read_to_string(file).is_ok_and(|content| content == SECRET) {
                return Err("a secret was read".to_owned());
            }
            used
        }
        Some(Kind::Dir) => id_of(target.open_dir().map_err(|e| e.to_string())?),
        _ => return Ok(()),
    };
    (Some(used) == checked)
        .then_some(())
        .ok_or("another object was opened".to_owned())
}

fn write_it(tangle: &Tangle, target: &Target) -> Result<(), String> {
    let policy = &tangle.world.policy;
    let Ok(WritePlace::Workspace { root, folder }) = policy.check_write(target) else {
        return Ok(());
    };
    let missing = target
        .path()
        .ancestors()
        .find(|path| path.parent().is_some_and(Path::is_dir));
    let made = missing.filter(|path| path.symlink_metadata().is_err());
    let (dir, name) = target.create_parents(0o755).map_err(|e| e.to_string())?;
    let place = place_of(&dir).join(&name);
    if let Some(made) = made.filter(|made| *made != target.path()) {
        tangle.clear_away(made).map_err(|e| e.to_string())?;
    }
    let inside = place.starts_with(&root) && place.starts_with(&folder);
    if place != target.path() || !inside {
        return Err(format!("written would be {}", place.display()));
    }
    Ok(())
}

#[test]
fn check_and_use_are_of_one_object_however_it_is_spelt() {
    let tangle = Tangle::new();
    let seen = std::cell::RefCell::new(HashSet::new());
    proptest!(|(spellings in prop::collection::vec(spelling(), SPELLINGS))| {
        for (start, rest) in spellings {
            let text = tangle.text(start, &rest);
            prop_assume!(!text.is_empty());
            let tried = try_spelling(&tangle, &text);
            prop_assert!(tried.is_ok(), "{}: {}", text, tried.unwrap_err());
            if let Ok(target) = tangle.world.policy.resolve(&text, None)
                && tangle.world.policy.check_read(&target).is_ok()
            {
                seen.borrow_mut().insert(target.id());
            }
        }
    });
    // It was not all refused.
    assert!(seen.borrow().len() >= 8, "{}", seen.borrow().len());
}
