//! What is protected, special files, hard links, and folders exchanged between check and use.

use std::time::{Duration, Instant};

use super::*;

fn make_fifo(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.unwrap().success());
}

#[test]
fn protected_with_an_empty_configuration() {
    let policy = PathPolicy::new(Settings::default());
    for text in [
        "/etc/passwd",
        "/../../etc/passwd",
        "/proc/1/environ",
        "/usr/bin/env",
        "/root/.ssh/id_x",
        "/home/other/.ssh/id_x",
        "/Users/other/.aws/credentials",
    ] {
        let refused = policy
            .resolve(text, None)
            .and_then(|t| policy.check_read(&t));
        assert_eq!(refused.unwrap_err().kind, RefusalKind::Protected, "{text}");
    }
    let outside = policy.resolve("/no-such-folder/x", None).unwrap();
    assert_eq!(
        policy.check_write(&outside).unwrap_err().kind,
        RefusalKind::Protected
    );
}

#[test]
fn roots_are_compared_by_component() {
    let w = World::with(|top, _| fs::create_dir(top.join("ws-evil")).unwrap());
    fs::write(w.at("ws-evil/s.txt"), "s").unwrap();
    assert_eq!(
        w.write(&w.text("ws-evil/s.txt")).unwrap(),
        WritePlace::OutsideExisting
    );
    assert_eq!(
        w.write_kind(&w.text("ws-evil/new.txt")),
        RefusalKind::Protected
    );
}

#[test]
fn both_spellings_of_a_root_work() {
    let w = World::with(|top, settings| {
        symlink(top.join("ws"), top.join("alias")).unwrap();
        settings.workspaces = vec![top.join("alias")];
    });
    let root = &w.policy.workspaces()[0];
    assert_eq!(
        (root.given.as_path(), root.real.as_path()),
        (w.at("alias").as_path(), w.at("ws").as_path())
    );
    for text in [
        w.text("alias/sub/b.txt"),
        w.text("ws/sub/b.txt"),
        "sub/b.txt".to_owned(),
    ] {
        assert_eq!(w.write(&text).unwrap(), w.workspace("ws/sub"), "{text}");
    }
}

#[test]
fn hands_own_files_are_closed_but_for_reading_recovery() {
    let w = World::new();
    fs::write(w.at("hands/work/recovery/r.txt"), "r").unwrap();
    for text in [
        w.text("hands/config.toml"),
        w.text("hands"),
        w.text("hands/work"),
        w.text("hands/work/recovery-x"),
        w.text("hands/logs/none"),
    ] {
        let refusal = w.read(&text).unwrap_err();
        assert_eq!(
            (refusal.kind, refusal.rule),
            (RefusalKind::Protected, Some("hands_home")),
            "{text}"
        );
    }
    assert_eq!(w.read(&w.text("hands/work/recovery/r.txt")).unwrap(), "r");
    assert_eq!(
        w.write_kind(&w.text("hands/work/recovery/r.txt")),
        RefusalKind::Protected
    );
    assert_eq!(
        w.write_kind(&w.text("hands/work/recovery/new.txt")),
        RefusalKind::Protected
    );
}

#[test]
fn origins_of_recovery_files_are_judged_by_path() {
    let w = World::new();
    w.policy.check_origin(&w.at("ws/gone.txt")).unwrap();
    let refused = [
        w.at("home/.ssh/gone"),
        w.at("hands/config.toml"),
        PathBuf::from("/etc/shadow"),
        w.at("ws/../home/.ssh/x"),
        PathBuf::from("relative"),
    ];
    for origin in refused {
        assert!(
            w.policy.check_origin(&origin).is_err(),
            "{}",
            origin.display()
        );
    }
}

#[test]
fn special_files_are_refused_at_once() {
    let w = World::new();
    let fifo = w.at("ws/fifo");
    make_fifo(&fifo);
    let _socket = std::os::unix::net::UnixListener::bind(w.at("ws/sock")).unwrap();
    let start = Instant::now();
    for (name, kind) in [("fifo", Kind::Fifo), ("sock", Kind::Socket)] {
        let target = w.policy.resolve(name, None).unwrap();
        assert_eq!(target.kind(), Some(kind));
        assert_eq!(w.read_kind(name), RefusalKind::Unsupported);
        assert_eq!(w.write_kind(name), RefusalKind::Unsupported);
    }
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_fifo_put_in_place_of_a_file_does_not_block() {
    let w = World::new();
    let target = w.policy.resolve("a.txt", None).unwrap();
    w.policy.check_read(&target).unwrap();
    fs::remove_file(w.at("ws/a.txt")).unwrap();
    make_fifo(&w.at("ws/a.txt"));
    assert_eq!(target.open_read().unwrap_err().rule, Some("path_changed"));
}

#[test]
fn a_file_exchanged_after_the_check_is_refused() {
    let w = World::new();
    let target = w.policy.resolve("a.txt", None).unwrap();
    w.policy.check_read(&target).unwrap();
    fs::rename(w.at("ws/a.txt"), w.at("ws/old.txt")).unwrap();
    w.link(w.at("home/.ssh/id_x"), "ws/a.txt");
    assert_eq!(target.open_read().unwrap_err().rule, Some("path_changed"));
    fs::remove_file(w.at("ws/a.txt")).unwrap();
    fs::write(w.at("ws/a.txt"), "other").unwrap();
    assert_eq!(target.open_read().unwrap_err().rule, Some("path_changed"));
}

#[test]
fn a_folder_exchanged_for_a_link_after_the_check_is_refused() {
    let w = World::new();
    fs::write(w.at("outside/b.txt"), "outside").unwrap();
    let read = w.policy.resolve("sub/b.txt", None).unwrap();
    let create = w.policy.resolve("sub/new/deep/n.txt", None).unwrap();
    let folder = w.policy.resolve("sub", None).unwrap();
    fs::rename(w.at("ws/sub"), w.at("ws/was")).unwrap();
    w.link(w.at("outside"), "ws/sub");
    assert_eq!(read.open_read().unwrap_err().rule, Some("path_changed"));
    assert_eq!(read.parent().unwrap_err().rule, Some("path_changed"));
    assert_eq!(
        create.create_parents(0o755).unwrap_err().rule,
        Some("path_changed")
    );
    assert_eq!(folder.open_dir().unwrap_err().rule, Some("path_changed"));
    assert!(!w.at("outside/new").exists() && !w.at("ws/was/new").exists());
}

#[test]
fn a_link_put_where_a_missing_folder_was_is_not_followed() {
    let w = World::new();
    let target = w.policy.resolve("new/deep/n.txt", None).unwrap();
    w.link(w.at("outside"), "ws/new");
    assert_eq!(
        target.create_parents(0o755).unwrap_err().rule,
        Some("path_changed")
    );
    assert!(!w.at("outside/deep").exists());
}

#[test]
fn a_hard_link_to_a_credential_is_known() {
    let w = World::new();
    fs::hard_link(w.at("home/.ssh/id_x"), w.at("ws/notes.txt")).unwrap();
    fs::hard_link(w.at("ws/a.txt"), w.at("ws/a2.txt")).unwrap();
    fs::hard_link(w.at("hands/config.toml"), w.at("ws/c.txt")).unwrap();
    let refusal = w.read("notes.txt").unwrap_err();
    assert_eq!(
        (refusal.kind, refusal.rule),
        (RefusalKind::Protected, Some("credentials"))
    );
    assert_eq!(w.write_kind("notes.txt"), RefusalKind::Protected);
    assert_eq!(w.read_kind("c.txt"), RefusalKind::Protected);
    assert_eq!(w.read("a2.txt").unwrap(), "a");
}

#[test]
fn a_credential_that_is_a_single_file_is_known_by_its_hard_link() {
    let w = World::with(|top, _| fs::write(top.join("home/.netrc"), "p").unwrap());
    fs::hard_link(w.at("home/.netrc"), w.at("ws/n")).unwrap();
    assert_eq!(w.read_kind("n"), RefusalKind::Protected);
}

#[test]
fn environment_files_by_the_setting() {
    let open = World::new();
    fs::write(open.at("ws/.env"), "e").unwrap();
    assert_eq!(open.read(".env").unwrap(), "e");
    let shut = World::with(|_, settings| settings.protect_env_files = true);
    for name in [".env", ".env.local"] {
        fs::write(shut.at("ws").join(name), "e").unwrap();
        assert_eq!(
            shut.read(name).unwrap_err().rule,
            Some("env_file"),
            "{name}"
        );
    }
    fs::write(shut.at("ws/.env.example"), "e").unwrap();
    assert_eq!(shut.read(".env.example").unwrap(), "e");
}

#[test]
fn extra_protected_paths_are_closed_by_every_name() {
    let w = World::with(|top, settings| {
        fs::create_dir(top.join("ws/private")).unwrap();
        symlink(top.join("ws/private"), top.join("ws/way")).unwrap();
        settings.extra_protected = vec![top.join("ws/way")];
    });
    for text in ["private/x", "way/x", "private"] {
        assert_eq!(
            w.write(text).unwrap_err().rule,
            Some("extra_protected"),
            "{text}"
        );
        assert_eq!(
            w.read(text).unwrap_err().rule,
            Some("extra_protected"),
            "{text}"
        );
    }
}

#[test]
fn a_workspace_below_a_folder_of_programs_opens_that_part() {
    let settings = Settings {
        workspaces: vec![
            PathBuf::from("/usr/src/no-such-app"),
            PathBuf::from("/etc/no-such"),
        ],
        ..Settings::default()
    };
    let policy = PathPolicy::new(settings);
    let read = |text: &str| {
        let target = policy.resolve(text, None)?;
        policy.check_read(&target)
    };
    assert_eq!(
        read("/usr/src/no-such-app/x").unwrap_err().kind,
        RefusalKind::NotFound
    );
    assert_eq!(
        read("/usr/src/no-such-app2/x").unwrap_err().kind,
        RefusalKind::Protected
    );
    assert_eq!(
        read("/usr/bin/env").unwrap_err().kind,
        RefusalKind::Protected
    );
    assert_eq!(
        read("/etc/no-such/x").unwrap_err().kind,
        RefusalKind::Protected
    );
}

#[test]
fn a_home_in_a_system_folder_is_a_home() {
    let settings = Settings {
        user_home: PathBuf::from("/root"),
        ..Settings::default()
    };
    let policy = PathPolicy::new(settings);
    policy.check_origin(Path::new("/root/notes.txt")).unwrap();
    assert!(policy.check_origin(Path::new("/root/.ssh/x")).is_err());
    let other = PathPolicy::new(Settings::default());
    assert!(other.check_origin(Path::new("/root/notes.txt")).is_err());
}

#[cfg(target_os = "linux")]
#[test]
fn proc_is_known_by_its_file_system() {
    let fd = rustix::fs::open(
        "/proc/self/status",
        rustix::fs::OFlags::RDONLY,
        rustix::fs::Mode::empty(),
    )
    .unwrap();
    assert!(platform::is_kernel_file_system(&fd));
    let w = World::new();
    let file = fs::File::open(w.at("ws/a.txt")).unwrap();
    assert!(!platform::is_kernel_file_system(&file.into()));
}

#[cfg(target_os = "linux")]
#[test]
fn configured_paths_are_compared_with_their_case_where_the_system_does() {
    let w = World::with(|top, settings| {
        fs::create_dir(top.join("Hands")).unwrap();
        settings.workspaces = vec![top.join("Hands")];
    });
    assert!(matches!(w.write("x"), Ok(WritePlace::Workspace { .. })));
    assert_eq!(w.read_kind("x"), RefusalKind::NotFound);
}

#[test]
fn an_inode_number_that_is_used_again_is_not_held_against_the_new_file() {
    let w = World::new();
    fs::write(w.at("home/.netrc"), "p").unwrap();
    fs::rename(w.at("ws/a.txt"), w.at("ws/first")).unwrap();
    assert_eq!(w.read("first").unwrap(), "a");
    // The object that was the credential is a plain file of the workspace now.
    w.read("~/.netrc").unwrap_err();
    fs::rename(w.at("home/.netrc"), w.at("ws/n")).unwrap();
    assert_eq!(w.read("n").unwrap(), "p");
}
