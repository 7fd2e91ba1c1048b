//! A small world of a home, workspaces and an outside, and what the policy says of paths in it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;

mod grants;
mod guards;
mod links;
mod property;
#[cfg(target_os = "linux")]
mod spellings;
mod tmp;
mod writes;

/// A world below one temporary folder; its real path is what tests compare with.
pub(super) struct World {
    _dir: TempDir,
    pub(super) top: PathBuf,
    pub(super) policy: PathPolicy,
}

impl World {
    pub(super) fn new() -> World {
        World::with(|_, _| {})
    }

    /// Builds the folders, lets `change` alter the settings, and makes the policy.
    pub(super) fn with(change: impl FnOnce(&Path, &mut Settings)) -> World {
        let dir = TempDir::new().unwrap();
        let top = dir.path().canonicalize().unwrap();
        for folder in [
            "home/.ssh",
            "hands/work/recovery",
            "ws/sub/deep",
            "outside",
            "extra",
        ] {
            fs::create_dir_all(top.join(folder)).unwrap();
        }
        fs::write(top.join("home/.ssh/id_x"), "secret").unwrap();
        fs::write(top.join("hands/config.toml"), "x").unwrap();
        fs::write(top.join("ws/a.txt"), "a").unwrap();
        fs::write(top.join("ws/sub/b.txt"), "b").unwrap();
        fs::write(top.join("outside/o.txt"), "o").unwrap();
        let mut settings = Settings {
            user_home: top.join("home"),
            hands_home: top.join("hands"),
            workspaces: vec![top.join("ws")],
            extra_write: vec![top.join("extra")],
            ..Settings::default()
        };
        change(&top, &mut settings);
        World {
            _dir: dir,
            top,
            policy: PathPolicy::new(settings),
        }
    }

    pub(super) fn at(&self, below: &str) -> PathBuf {
        self.top.join(below)
    }

    pub(super) fn text(&self, below: &str) -> String {
        self.at(below).to_str().unwrap().to_owned()
    }

    pub(super) fn link(&self, to: impl AsRef<Path>, name: &str) {
        symlink(to, self.at(name)).unwrap();
    }

    /// Resolves, checks and reads a whole file.
    pub(super) fn read(&self, text: &str) -> Result<String, Refusal> {
        let target = self.policy.resolve(text, None)?;
        self.policy.check_read(&target)?;
        let file = target.open_read()?;
        Ok(std::io::read_to_string(file).unwrap())
    }

    /// Resolves and asks where a write goes.
    pub(super) fn write(&self, text: &str) -> Result<WritePlace, Refusal> {
        let target = self.policy.resolve(text, None)?;
        self.policy.check_write(&target)
    }

    pub(super) fn read_kind(&self, text: &str) -> RefusalKind {
        self.read(text).unwrap_err().kind
    }

    pub(super) fn write_kind(&self, text: &str) -> RefusalKind {
        self.write(text).unwrap_err().kind
    }

    pub(super) fn workspace(&self, folder: &str) -> WritePlace {
        WritePlace::Workspace {
            root: self.at("ws"),
            folder: self.at(folder),
        }
    }
}

#[test]
fn spellings_lead_to_the_same_file() {
    let w = World::new();
    let absolute = w.text("ws/sub/b.txt");
    let doubled = absolute.replace('/', "//");
    for text in [
        absolute.as_str(),
        doubled.as_str(),
        "sub/b.txt",
        "./sub/./b.txt",
        "sub/../sub/b.txt",
        "sub/deep/../b.txt",
    ] {
        assert_eq!(w.read(text).unwrap(), "b", "{text}");
        let target = w.policy.resolve(text, None).unwrap();
        assert_eq!(target.path(), w.at("ws/sub/b.txt"), "{text}");
    }
}

#[test]
fn tilde_is_the_home_and_only_alone_or_before_a_slash() {
    let w = World::new();
    fs::write(w.at("home/n.txt"), "n").unwrap();
    fs::write(w.at("ws/~$n.txt"), "lock").unwrap();
    assert_eq!(w.read("~/n.txt").unwrap(), "n");
    assert_eq!(w.read("~//n.txt").unwrap(), "n");
    assert_eq!(w.policy.resolve("~", None).unwrap().path(), w.at("home"));
    assert_eq!(
        w.policy.resolve("~/", None).unwrap().kind(),
        Some(Kind::Dir)
    );
    assert_eq!(w.read("~$n.txt").unwrap(), "lock");
}

#[test]
fn relative_paths_are_taken_from_the_base_that_is_given() {
    let w = World::new();
    let base = w.at("ws/sub");
    let target = w.policy.resolve("b.txt", Some(&base)).unwrap();
    assert_eq!(target.path(), w.at("ws/sub/b.txt"));
    let none = World::with(|_, settings| settings.workspaces.clear());
    assert_eq!(none.read_kind("b.txt"), RefusalKind::Validation);
    let relative = w.policy.resolve("b.txt", Some(Path::new("sub")));
    assert_eq!(relative.unwrap_err().kind, RefusalKind::Validation);
}

#[test]
fn text_that_is_no_path_is_refused() {
    let w = World::new();
    let long = format!("/{}", "a/".repeat(3000));
    let name = "n".repeat(300);
    for text in ["", "a\0b", long.as_str(), name.as_str(), "nowhere/../a.txt"] {
        assert_eq!(w.read_kind(text), RefusalKind::Validation, "{text:.40}");
    }
}

#[test]
fn a_file_is_no_folder() {
    let w = World::new();
    for text in ["a.txt/x", "a.txt/", "a.txt/.", "a.txt/.."] {
        assert_eq!(w.read_kind(text), RefusalKind::NotADirectory, "{text}");
    }
    let file = w.policy.resolve("a.txt", None).unwrap();
    assert_eq!(
        file.open_dir().unwrap_err().kind,
        RefusalKind::NotADirectory
    );
    let folder = w.policy.resolve("sub/", None).unwrap();
    assert_eq!(
        folder.open_read().unwrap_err().kind,
        RefusalKind::Unsupported
    );
    folder.open_dir().unwrap();
}

#[test]
fn not_found_names_similar_names_of_folders_that_may_be_read() {
    let w = World::new();
    fs::write(w.at("ws/report.txt"), "").unwrap();
    fs::write(w.at("ws/reports.txt"), "").unwrap();
    let refusal = w.read("reprot.txt").unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::NotFound);
    let hint = refusal.hint.unwrap();
    assert!(
        hint.contains("report.txt") && hint.contains("reports.txt"),
        "{hint}"
    );
    let folder = w.read("sbu/b.txt").unwrap_err();
    assert!(folder.message.contains("sbu does not exist"), "{folder}");
    assert!(folder.hint.unwrap().contains("sub"));
    // The folder may be read, the similar name may not be named.
    let hidden = w.read("~/.shh/x").unwrap_err();
    assert_eq!((hidden.kind, hidden.hint), (RefusalKind::NotFound, None));
    // Inside a protected folder presence and absence look the same.
    let inside = w.read("~/.ssh/none").unwrap_err();
    assert_eq!(
        (inside.kind, inside.rule),
        (RefusalKind::Protected, Some("credentials"))
    );
    assert_eq!(w.read_kind("~/.ssh/id_x/x"), RefusalKind::Protected);
}

#[test]
fn permission_is_told_apart_from_absence() {
    use std::os::unix::fs::PermissionsExt;
    if rustix::process::geteuid().is_root() {
        return; // nothing is denied to root
    }
    let w = World::new();
    let shut = w.at("ws/sub");
    fs::set_permissions(&shut, fs::Permissions::from_mode(0o000)).unwrap();
    let kind = w.read_kind("sub/b.txt");
    fs::set_permissions(&shut, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(
        kind,
        RefusalKind::System(std::io::ErrorKind::PermissionDenied)
    );
}

#[test]
fn names_are_found_in_either_normal_form() {
    let (nfc, nfd) = ("caf\u{e9}.txt", "cafe\u{301}.txt");
    let w = World::new();
    fs::write(w.at("ws/sub").join(nfd), "d").unwrap();
    assert_eq!(w.read(&format!("sub/{nfc}")).unwrap(), "d");
    fs::write(w.at("ws/sub/deep").join(nfc), "c").unwrap();
    assert_eq!(w.read(&format!("sub/deep/{nfd}")).unwrap(), "c");
    // A write goes to the file that is there.
    let target = w.policy.resolve(&format!("sub/{nfc}"), None).unwrap();
    assert_eq!(target.path(), w.at("ws/sub").join(nfd));
    assert!(target.exists());
    // Exact bytes win when both are there, where the file system can hold both.
    fs::write(w.at("ws/sub").join(nfc), "exact").unwrap();
    assert_eq!(w.read(&format!("sub/{nfc}")).unwrap(), "exact");
}

#[test]
fn a_folder_name_in_another_normal_form_is_walked_and_judged() {
    let w = World::with(|top, settings| {
        fs::create_dir(top.join("ws/geheim\u{e9}")).unwrap();
        fs::write(top.join("ws/geheim\u{e9}/x"), "x").unwrap();
        settings.extra_protected = vec![top.join("ws/geheim\u{e9}")];
    });
    assert_eq!(w.read_kind("geheime\u{301}/x"), RefusalKind::Protected);
    assert_eq!(w.write_kind("geheime\u{301}/new"), RefusalKind::Protected);
}

#[test]
fn messages_name_what_was_asked_and_where_it_leads_and_no_root() {
    let w = World::with(|top, settings| settings.workspaces.push(top.join("another-root")));
    w.link("../outside", "ws/way");
    let refusal = w.write("way/new.txt").unwrap_err();
    let leads = w.text("outside/new.txt");
    assert!(refusal.message.contains("way/new.txt") && refusal.message.contains(&leads));
    let all = format!("{refusal} {}", refusal.hint.clone().unwrap());
    assert!(
        !all.contains("another-root") && !all.contains(&w.text("extra")),
        "{all}"
    );
    assert!(!all.contains(&w.text("ws")), "{all}");
}
