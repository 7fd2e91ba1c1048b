//! Where writes go, and what is never written.

use super::*;

#[test]
fn places_are_told_apart() {
    let w = World::new();
    assert_eq!(w.write("a.txt").unwrap(), w.workspace("ws"));
    assert_eq!(w.write("new.txt").unwrap(), w.workspace("ws"));
    assert_eq!(w.write("sub/b.txt").unwrap(), w.workspace("ws/sub"));
    assert_eq!(w.write("sub/deep/x/y.txt").unwrap(), w.workspace("ws/sub"));
    assert_eq!(w.write("not/yet.txt").unwrap(), w.workspace("ws/not"));
    let extra = WritePlace::Extra {
        root: w.at("extra"),
    };
    assert_eq!(w.write(&w.text("extra/d/x")).unwrap(), extra);
    assert_eq!(
        w.write(&w.text("outside/o.txt")).unwrap(),
        WritePlace::OutsideExisting
    );
    assert_eq!(w.write("sub").unwrap_err().kind, RefusalKind::Unsupported);
}

#[test]
fn the_deepest_root_counts() {
    let w = World::with(|top, settings| {
        settings.workspaces.push(top.join("ws/sub"));
        settings.extra_write.push(top.join("ws"));
    });
    let inner = WritePlace::Workspace {
        root: w.at("ws/sub"),
        folder: w.at("ws/sub"),
    };
    assert_eq!(w.write("sub/b.txt").unwrap(), inner);
    assert_eq!(w.write("a.txt").unwrap(), w.workspace("ws"));
}

#[test]
fn a_missing_workspace_serves_when_it_appears_and_is_never_made() {
    let w = World::with(|top, settings| settings.workspaces.push(top.join("disk/work")));
    let text = w.text("disk/work/x.txt");
    assert_eq!(w.write_kind(&text), RefusalKind::NotFound);
    fs::create_dir_all(w.at("disk/work")).unwrap();
    let root = w.at("disk/work");
    let place = WritePlace::Workspace {
        folder: root.clone(),
        root,
    };
    assert_eq!(w.write(&text).unwrap(), place);
}

#[test]
fn parents_are_made_one_by_one() {
    let w = World::new();
    let target = w.policy.resolve("n\u{e9}w/deep/x.txt", None).unwrap();
    assert_eq!(target.parent().unwrap_err().kind, RefusalKind::NotFound);
    let (fd, name) = target.create_parents(0o755).unwrap();
    let flags = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::EXCL | rustix::fs::OFlags::WRONLY;
    rustix::fs::openat(&fd, &name, flags, rustix::fs::Mode::RUSR).unwrap();
    assert!(w.at("ws/n\u{e9}w/deep/x.txt").is_file());
    // Another call that resolved before finds the folders made.
    target.create_parents(0o755).unwrap();
    let there = w.policy.resolve("a.txt", None).unwrap();
    assert_eq!(there.create_parents(0o755).unwrap().1, "a.txt");
}

#[test]
fn the_parent_of_a_folder_is_the_folder_above() {
    let w = World::new();
    let target = w.policy.resolve("sub/deep/..", None).unwrap();
    let (fd, name) = target.parent().unwrap();
    assert_eq!(name, "sub");
    let stat = rustix::fs::statat(&fd, "a.txt", rustix::fs::AtFlags::empty());
    assert!(stat.is_ok());
    let root = w.policy.resolve("/", None).unwrap();
    assert_eq!(root.parent().unwrap_err().kind, RefusalKind::Validation);
}

#[test]
fn a_working_copy_lies_beside_the_file() {
    let w = World::new();
    let target = w.policy.resolve(&w.text("outside/o.txt"), None).unwrap();
    let copy = target.sibling("o.edited.txt".as_ref()).unwrap();
    assert_eq!(copy.path(), w.at("outside/o.edited.txt"));
    assert!(!copy.exists());
    w.policy.check_working_copy(&copy).unwrap();
    fs::write(w.at("outside/o.edited.txt"), "").unwrap();
    let taken = target.sibling("o.edited.txt".as_ref()).unwrap();
    assert_eq!(taken.kind(), Some(Kind::File));
    assert!(w.policy.check_working_copy(&taken).is_err());
    w.link("/etc/passwd", "outside/o.edited-2.txt");
    let link = target.sibling("o.edited-2.txt".as_ref()).unwrap();
    assert_eq!(link.kind(), Some(Kind::Symlink));
    for name in ["", ".", "..", "a/b", "/x", "a\0"] {
        assert!(target.sibling(name.as_ref()).is_err(), "{name:?}");
    }
}

#[test]
fn what_git_runs_is_not_written_even_in_a_workspace() {
    let w = World::new();
    for folder in [
        "ws/p/.git/hooks",
        "ws/p/.git/modules/a/b",
        "ws/p/.git/worktrees/t",
        "ws/p/.git/info",
    ] {
        fs::create_dir_all(w.at(folder)).unwrap();
    }
    fs::write(w.at("ws/p/.git/config"), "c").unwrap();
    let refused = [
        "p/.git/hooks/pre-commit",
        "p/.git/hooks/new/x",
        "p/.git/config",
        "p/.git/config.worktree",
        "p/.git/info/attributes",
        "p/.git/modules/a/b/hooks/x",
        "p/.git/modules/a/b/config",
        "p/.git/worktrees/t/config.worktree",
        "p/.GIT/Hooks/x",
        "fresh/.git/hooks/x",
        "fresh/.git",
        "bare.git/hooks/x",
        "p/.g\u{200c}it/config",
    ];
    for text in refused {
        assert_eq!(
            w.write(text).unwrap_err().rule,
            Some("git_control"),
            "{text}"
        );
    }
    for text in [
        "p/.git/info/exclude",
        "p/.gitignore",
        "p/hooks/x",
        "p/config",
        ".github/x",
    ] {
        w.write(text).unwrap();
    }
    assert_eq!(w.read("p/.git/config").unwrap(), "c");
}

#[test]
fn a_git_directory_is_known_by_what_it_holds() {
    let w = World::new();
    for folder in ["store/objects", "store/refs", "store/hooks", "store/info"] {
        fs::create_dir_all(w.at("ws").join(folder)).unwrap();
    }
    w.write("store/config").unwrap();
    fs::write(w.at("ws/store/HEAD"), "ref: refs/heads/main\n").unwrap();
    for text in [
        "store/config",
        "store/hooks/post-merge",
        "store/info/attributes",
        "store/commondir",
    ] {
        assert_eq!(
            w.write(text).unwrap_err().rule,
            Some("git_control"),
            "{text}"
        );
    }
    w.write("store/description").unwrap();
    w.write("store/info/exclude").unwrap();
}

#[test]
fn start_files_and_path_folders_are_not_written_in_a_home_that_is_a_workspace() {
    let w = World::with(|top, settings| settings.workspaces = vec![top.join("home")]);
    let World { policy, .. } = w;
    let w = World {
        policy: policy.with_path_folders([w.top.join("home/tools"), PathBuf::from("/usr/bin")]),
        ..w
    };
    let refused = [
        (".bashrc", "startup_file"),
        (".config/fish/conf.d/x.fish", "startup_file"),
        (".gitconfig", "startup_file"),
        (".config/autostart/x.desktop", "autostart"),
        (".config/systemd/user/x.service", "autostart"),
        ("Library/LaunchAgents/x.plist", "autostart"),
        ("bin/x", "path_folder"),
        (".local/bin/x", "path_folder"),
        (".cargo/bin/x", "path_folder"),
        ("tools/x", "path_folder"),
        (".ssh/authorized_keys", "credentials"),
    ];
    for (text, rule) in refused {
        assert_eq!(w.write(text).unwrap_err().rule, Some(rule), "{text}");
    }
    fs::write(w.at("home/.bashrc"), "x").unwrap();
    assert_eq!(w.read("~/.bashrc").unwrap(), "x");
    w.write("proj/bin/x").unwrap();
    w.write("toolsmith/x").unwrap();
}

#[test]
fn path_folders_outside_the_home_are_not_written_even_in_a_workspace() {
    let w = World::new();
    fs::create_dir_all(w.at("ws/tools/bin/inner")).unwrap();
    fs::create_dir_all(w.at("ws/src")).unwrap();
    fs::write(w.at("ws/tools/bin/run"), "x").unwrap();
    std::os::unix::fs::symlink(w.at("ws/tools/bin"), w.at("ws/link")).unwrap();
    let folders = [
        w.at("ws/link"),
        w.at("ws/later"),
        PathBuf::new(),
        PathBuf::from("src"),
        PathBuf::from("."),
    ];
    let World { policy, .. } = w;
    let w = World {
        policy: policy.with_path_folders(folders),
        ..w
    };
    for text in [
        "tools/bin/run",
        "tools/bin/new",
        "tools/bin/inner/new",
        "link/new",
        "later/new",
    ] {
        let refused = w.write(text).unwrap_err();
        assert_eq!(refused.rule, Some("path_folder"), "{text}");
    }
    assert_eq!(w.read("tools/bin/run").unwrap(), "x");
    for text in ["tools/x", "src/x", "tools/binary"] {
        w.write(text).unwrap();
    }
}

#[test]
fn a_workspace_that_is_on_the_path_is_only_read() {
    let w = World::new();
    fs::write(w.at("ws/run"), "x").unwrap();
    let folder = w.at("ws");
    let World { policy, .. } = w;
    let w = World {
        policy: policy.with_path_folders([folder]),
        ..w
    };
    assert_eq!(w.write("run").unwrap_err().rule, Some("path_folder"));
    assert_eq!(w.read("run").unwrap(), "x");
}
