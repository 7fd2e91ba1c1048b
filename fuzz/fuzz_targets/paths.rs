//! The resolver of paths: any text, in a small world of folders, links and secrets.
//!
//! In the text `@` stands for the workspace, `%` for the folder around it, and `!` for the number of
//! an open descriptor of a folder in it. Nothing is written.
#![no_main]

use hands_policy::paths::{
    FileId, Kind, PathPolicy, Refusal, RefusalKind, Settings, Target, WritePlace,
};
use libfuzzer_sys::fuzz_target;
use std::fs::{self, File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

const SECRET: &str = "secret";

struct World {
    top: PathBuf,
    policy: PathPolicy,
    open: File,
}

static WORLD: LazyLock<World> = LazyLock::new(|| World::make().expect("the world is made"));

impl World {
    fn make() -> std::io::Result<World> {
        let top = std::env::temp_dir().join(format!("hands-fuzz-paths-{}", std::process::id()));
        if top.exists() {
            fs::remove_dir_all(&top)?;
        }
        for folder in ["home/.ssh", "hands", "ws/sub/deep", "ws/kept", "outside"] {
            fs::create_dir_all(top.join(folder))?;
        }
        let top = top.canonicalize()?;
        for (name, content) in [
            ("home/.ssh/id_x", SECRET),
            ("hands/config.toml", SECRET),
            ("ws/kept/s", SECRET),
            ("ws/a", "a"),
            ("ws/sub/b", "b"),
            ("ws/sub/caf\u{e9}", "c"),
            ("ws/sub/deep/cafe\u{301}", "d"),
            ("outside/o", "o"),
        ] {
            fs::write(top.join(name), content)?;
        }
        for (to, name) in [
            ("..", "ws/u"),
            (".", "ws/h"),
            ("sub/deep", "ws/d"),
            ("d/../b", "ws/l"),
            ("loop", "ws/loop"),
            ("none/x", "ws/g"),
            ("../outside", "ws/o"),
            ("../home/.ssh", "ws/s"),
            ("kept", "ws/k"),
            ("/proc/self/root", "ws/r"),
        ] {
            symlink(to, top.join(name))?;
        }
        fs::hard_link(top.join("home/.ssh/id_x"), top.join("ws/hard"))?;
        let policy = PathPolicy::new(Settings {
            user_home: top.join("home"),
            hands_home: top.join("hands"),
            workspaces: vec![top.join("ws")],
            extra_protected: vec![top.join("ws/kept")],
            protect_env_files: true,
            ..Settings::default()
        });
        let open = File::open(top.join("ws/sub"))?;
        Ok(World { top, policy, open })
    }

    fn text(&self, data: &[u8]) -> String {
        let text = String::from_utf8_lossy(data);
        let top = self.top.to_string_lossy();
        text.replace('@', &format!("{top}/ws"))
            .replace('%', &top)
            .replace('!', &self.open.as_raw_fd().to_string())
    }

    /// The same place for the operating system.
    fn for_system(&self, text: &str) -> PathBuf {
        match text.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                self.top.join("home").join(rest.trim_start_matches('/'))
            }
            _ => self.top.join("ws").join(text),
        }
    }
}

fn id(meta: &Metadata) -> FileId {
    FileId {
        dev: meta.dev(),
        ino: meta.ino(),
    }
}

/// What changes by itself: nothing is compared there.
fn is_the_kernels(path: &Path) -> bool {
    ["/proc", "/sys", "/dev", "/run"]
        .iter()
        .any(|top| path.starts_with(top))
}

fuzz_target!(|data: &[u8]| {
    let world = &*WORLD;
    let text = world.text(data);
    let found = fs::metadata(world.for_system(&text)).ok();
    match world.policy.resolve(&text, None) {
        Ok(target) if is_the_kernels(target.path()) => {
            let _ = world.policy.check_read(&target);
        }
        Ok(target) => {
            let checked = target.id();
            let there = fs::symlink_metadata(target.path()).ok();
            assert_eq!(
                checked,
                there.as_ref().map(id),
                "{text:?}: not what was checked"
            );
            if let (Some(found), Some(checked)) = (&found, checked) {
                assert_eq!(
                    checked,
                    id(found),
                    "{text:?}: the system finds another object"
                );
            }
            read(world, &text, &target);
            write(world, &text, &target);
        }
        Err(refusal) => refused(&text, &refusal),
    }
});

fn refused(text: &str, refusal: &Refusal) {
    assert!(!refusal.message.is_empty(), "{text:?}");
    assert_ne!(
        refusal.kind,
        RefusalKind::NotFound,
        "{text:?}: what is missing is no error"
    );
}

fn read(world: &World, text: &str, target: &Target) {
    if world.policy.check_read(target).is_err() || target.kind() != Some(Kind::File) {
        return;
    }
    let Ok(file) = target.open_read() else {
        return;
    };
    let meta = file.metadata().expect("an open file can be looked at");
    assert_eq!(
        target.id(),
        Some(id(&meta)),
        "{text:?}: another file was opened"
    );
    if target.path().starts_with(&world.top) {
        let content = std::io::read_to_string(file).expect("a small file is read");
        assert_ne!(content, SECRET, "{text:?}: a secret was read");
    }
}

fn write(world: &World, text: &str, target: &Target) {
    if let Ok(WritePlace::Workspace { root, folder }) = world.policy.check_write(target) {
        let path = target.path();
        assert_eq!(root, world.top.join("ws"), "{text:?}");
        assert!(
            path.starts_with(&root) && path.starts_with(&folder),
            "{text:?}"
        );
        assert!(!path.starts_with(root.join("kept")), "{text:?}");
    }
}
