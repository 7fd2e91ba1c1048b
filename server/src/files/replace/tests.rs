use super::*;
use std::os::unix::fs::PermissionsExt;

struct World {
    notes: tempfile::TempDir,
    dir: tempfile::TempDir,
    folder: OwnedFd,
}

fn world() -> World {
    let dir = tempfile::tempdir().unwrap();
    let folder = std::fs::File::open(dir.path()).unwrap().into();
    World {
        notes: tempfile::tempdir().unwrap(),
        dir,
        folder,
    }
}

impl World {
    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }
    fn read(&self, name: &str) -> Existing {
        let file = File::open(self.path(name)).unwrap();
        let metadata = file.metadata().unwrap();
        Existing {
            bytes: std::fs::read(self.path(name)).unwrap(),
            state: State::of(&metadata),
            metadata,
            file,
        }
    }
    fn with<T>(&self, name: &str, act: impl FnOnce(&Spot) -> T) -> T {
        act(&Spot {
            folder: &self.folder,
            name: OsStr::new(name),
            shown: &self.path(name),
            notes: &Notes::in_folder(self.notes.path()),
        })
    }
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<_> = entries
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

#[test]
fn creating_is_exclusive_and_leaves_nothing_else() {
    let world = world();
    world.with("a", |spot| spot.create(b"one", false)).unwrap();
    let again = world
        .with("a", |spot| spot.create(b"two", false))
        .unwrap_err();
    assert_eq!(again.code, Code::Conflict);
    assert_eq!(std::fs::read(world.path("a")).unwrap(), b"one");
    assert_eq!(world.names(), ["a"]);
}

#[test]
fn replacing_keeps_the_mode_and_leaves_nothing_else() {
    let world = world();
    std::fs::write(world.path("a"), "old").unwrap();
    std::fs::set_permissions(world.path("a"), PermissionsExt::from_mode(0o640)).unwrap();
    let old = world.read("a");
    world
        .with("a", |spot| spot.replace(&old, b"new", false))
        .unwrap();
    assert_eq!(std::fs::read(world.path("a")).unwrap(), b"new");
    assert_eq!(world.read("a").metadata.mode() & 0o7777, 0o640);
    let old = world.read("a");
    world
        .with("a", |spot| spot.replace(&old, b"#!", true))
        .unwrap();
    assert_eq!(world.read("a").metadata.mode() & 0o7777, 0o750);
    assert_eq!(world.names(), ["a"]);
}

#[test]
fn what_was_saved_meanwhile_stays() {
    let world = world();
    std::fs::write(world.path("a"), "old").unwrap();
    let old = world.read("a");
    std::fs::write(world.path("a"), "saved meanwhile").unwrap();
    let refused = world
        .with("a", |spot| spot.replace(&old, b"new", false))
        .unwrap_err();
    assert_eq!(refused.code, Code::Conflict);
    assert_eq!(std::fs::read(world.path("a")).unwrap(), b"saved meanwhile");
    assert_eq!(world.names(), ["a"]);
}

#[test]
fn what_was_saved_by_rename_meanwhile_stays() {
    let world = world();
    std::fs::write(world.path("a"), "old").unwrap();
    let old = world.read("a");
    std::fs::write(world.path("b"), "mew").unwrap();
    std::fs::rename(world.path("b"), world.path("a")).unwrap();
    let refused = world
        .with("a", |spot| spot.replace(&old, b"new", false))
        .unwrap_err();
    assert_eq!(refused.code, Code::Conflict);
    assert_eq!(std::fs::read(world.path("a")).unwrap(), b"mew");
}

#[test]
fn a_file_that_went_away_is_not_brought_back() {
    let world = world();
    std::fs::write(world.path("a"), "old").unwrap();
    let old = world.read("a");
    std::fs::remove_file(world.path("a")).unwrap();
    assert!(
        world
            .with("a", |spot| spot.replace(&old, b"new", false))
            .is_err()
    );
    assert_eq!(world.names(), [""; 0]);
}

#[test]
fn what_was_committed_can_be_undone() {
    for links in [1, 2] {
        let world = world();
        std::fs::write(world.path("a"), "old content").unwrap();
        if links == 2 {
            std::fs::hard_link(world.path("a"), world.path("b")).unwrap();
        }
        let old = world.read("a");
        world.with("a", |spot| {
            let committed = spot.stage(&old, b"new", false).unwrap().commit().unwrap();
            assert_eq!(std::fs::read(world.path("a")).unwrap(), b"new");
            committed.undo().unwrap();
        });
        assert_eq!(std::fs::read(world.path("a")).unwrap(), b"old content");
        assert_eq!(world.names().len(), links);
    }
}

#[test]
fn what_was_only_staged_leaves_nothing() {
    let world = world();
    std::fs::write(world.path("a"), "old").unwrap();
    let old = world.read("a");
    world.with("a", |spot| drop(spot.stage(&old, b"new", false).unwrap()));
    assert_eq!(world.names(), ["a"]);
    assert_eq!(std::fs::read(world.path("a")).unwrap(), b"old");
}

#[test]
fn hard_links_stay_one_file() {
    let world = world();
    std::fs::write(world.path("a"), "old and long").unwrap();
    std::fs::hard_link(world.path("a"), world.path("b")).unwrap();
    let old = world.read("a");
    world
        .with("a", |spot| spot.replace(&old, b"new", false))
        .unwrap();
    assert_eq!(std::fs::read(world.path("b")).unwrap(), b"new");
    assert_eq!(world.names(), ["a", "b"]);
}
