//! The session's private `/tmp`.

use super::*;

/// A name below `/tmp` that no other test and no program uses.
fn unique() -> (TempDir, String) {
    let dir = tempfile::Builder::new()
        .prefix("hands-paths-")
        .tempdir_in("/tmp")
        .unwrap();
    let name = dir.path().file_name().unwrap().to_str().unwrap().to_owned();
    (dir, name)
}

fn world() -> World {
    World::with(|top, settings| {
        let tmp = top.join("hands/work/scratch/s1/tmp");
        fs::create_dir_all(&tmp).unwrap();
        settings.session_tmp = Some(tmp);
    })
}

#[test]
fn the_private_file_comes_first_and_is_shown_below_tmp() {
    let w = world();
    let private = w.at("hands/work/scratch/s1/tmp");
    fs::write(private.join("hands-x.txt"), "private").unwrap();
    assert_eq!(w.read("/tmp/hands-x.txt").unwrap(), "private");
    let target = w.policy.resolve("/tmp/hands-x.txt", None).unwrap();
    assert_eq!(target.path(), Path::new("/tmp/hands-x.txt"));
    assert_eq!(w.policy.check_write(&target).unwrap(), WritePlace::Tmp);
    // By its real path it is the same file.
    let real = private.join("hands-x.txt");
    assert_eq!(w.read(real.to_str().unwrap()).unwrap(), "private");
    assert_eq!(w.write(real.to_str().unwrap()).unwrap(), WritePlace::Tmp);
    let folder = w.policy.resolve("/tmp", None).unwrap();
    assert_eq!(
        (folder.path(), folder.kind()),
        (Path::new("/tmp"), Some(Kind::Dir))
    );
    w.policy.check_read(&folder).unwrap();
    // Another session's is Hands' own.
    assert_eq!(
        w.read_kind(&w.text("hands/work/scratch/s2/tmp/x")),
        RefusalKind::Protected
    );
}

#[test]
fn reading_falls_back_to_the_host_and_writing_never_does() {
    let w = world();
    let (host, name) = unique();
    fs::write(host.path().join("h.txt"), "host").unwrap();
    let text = format!("/tmp/{name}/h.txt");
    assert_eq!(w.read(&text).unwrap(), "host");
    let target = w.policy.resolve(&text, None).unwrap();
    assert_eq!(w.policy.check_write(&target).unwrap(), WritePlace::Tmp);
    assert!(target.exists() && !target.write_side().exists());
    let (fd, last) = target.create_parents(0o700).unwrap();
    let flags = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
    rustix::fs::openat(&fd, &last, flags, rustix::fs::Mode::RWXU).unwrap();
    assert_eq!(
        fs::read_to_string(host.path().join("h.txt")).unwrap(),
        "host"
    );
    assert!(
        w.at("hands/work/scratch/s1/tmp")
            .join(&name)
            .join("h.txt")
            .is_file()
    );
}

#[test]
fn new_files_below_tmp_are_private() {
    let w = world();
    let (host, name) = unique();
    let target = w
        .policy
        .resolve(&format!("/tmp/{name}/new/n.txt"), None)
        .unwrap();
    assert_eq!(w.policy.check_write(&target).unwrap(), WritePlace::Tmp);
    assert_eq!(
        target.path(),
        Path::new("/tmp").join(&name).join("new/n.txt")
    );
    target.create_parents(0o700).unwrap();
    assert!(!host.path().join("new").exists());
    let up = w.policy.resolve("/tmp/../tmp/x.txt", None).unwrap();
    assert_eq!(w.policy.check_write(&up).unwrap(), WritePlace::Tmp);
    assert_eq!(
        w.policy.resolve("/tmp/../etc", None).unwrap().path(),
        Path::new("/").join("etc").canonicalize().unwrap()
    );
}

#[test]
fn workspaces_and_homes_below_tmp_are_what_they_are() {
    let (host, name) = unique();
    let top = host.path();
    for folder in ["ws", "home/.ssh", "hands/tmp"] {
        fs::create_dir_all(top.join(folder)).unwrap();
    }
    let policy = PathPolicy::new(Settings {
        user_home: top.join("home"),
        hands_home: top.join("hands"),
        workspaces: vec![top.join("ws")],
        session_tmp: Some(top.join("hands/tmp")),
        ..Settings::default()
    });
    let write = |below: &str| {
        let target = policy
            .resolve(&format!("/tmp/{name}/{below}"), None)
            .unwrap();
        policy.check_write(&target)
    };
    let ws = top.join("ws").canonicalize().unwrap();
    assert_eq!(
        write("ws/x").unwrap(),
        WritePlace::Workspace {
            root: ws.clone(),
            folder: ws
        }
    );
    assert_eq!(write("home/.ssh/x").unwrap_err().rule, Some("credentials"));
    assert_eq!(
        write("hands/config.toml").unwrap_err().rule,
        Some("hands_home")
    );
    assert_eq!(write("elsewhere/x").unwrap(), WritePlace::Tmp);
}

#[test]
fn links_in_the_private_tmp_are_judged_by_where_they_lead() {
    let w = world();
    let private = w.at("hands/work/scratch/s1/tmp");
    symlink(w.at("home/.ssh"), private.join("hands-k")).unwrap();
    let outside = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::write(outside.path().join("o.txt"), "o").unwrap();
    symlink(outside.path(), private.join("hands-o")).unwrap();
    symlink("../../../..", private.join("hands-up")).unwrap();
    symlink("/tmp/hands-real", private.join("hands-own")).unwrap();
    symlink("/etc/passwd", private.join("hands-p")).unwrap();
    fs::write(private.join("hands-real"), "real").unwrap();
    assert_eq!(w.read_kind("/tmp/hands-k/id_x"), RefusalKind::Protected);
    assert_eq!(w.read_kind("/tmp/hands-p"), RefusalKind::Protected);
    assert_eq!(w.write_kind("/tmp/hands-o/new"), RefusalKind::Protected);
    assert_eq!(
        w.write("/tmp/hands-o/o.txt").unwrap(),
        WritePlace::OutsideExisting
    );
    // Above the private tmp is what is above `/tmp`, not Hands' home.
    let up = w.policy.resolve("/tmp/hands-up/etc/passwd", None);
    let read = up.and_then(|t| w.policy.check_read(&t));
    assert_eq!(read.unwrap_err().rule, Some("system_path"));
    // An absolute link to `/tmp` means the private one, as it does for the command that made it.
    assert_eq!(w.read("/tmp/hands-own").unwrap(), "real");
}

#[test]
fn a_link_from_a_workspace_to_tmp_means_the_private_one() {
    let w = world();
    fs::write(w.at("hands/work/scratch/s1/tmp/hands-w.txt"), "private").unwrap();
    w.link("/tmp/hands-w.txt", "ws/out");
    assert_eq!(w.read("out").unwrap(), "private");
    assert_eq!(w.write("out").unwrap(), WritePlace::Tmp);
}

#[test]
fn without_a_private_tmp_the_hosts_is_an_outside_like_any() {
    let w = World::new();
    let (host, name) = unique();
    fs::write(host.path().join("h.txt"), "host").unwrap();
    assert_eq!(
        w.write(&format!("/tmp/{name}/h.txt")).unwrap(),
        WritePlace::OutsideExisting
    );
    assert_eq!(
        w.write_kind(&format!("/tmp/{name}/new.txt")),
        RefusalKind::Protected
    );
}

#[test]
fn a_file_of_the_private_tmp_is_no_folder_whatever_the_host_has() {
    let w = world();
    let (host, name) = unique();
    fs::write(host.path().join("x"), "host").unwrap();
    fs::write(w.at("hands/work/scratch/s1/tmp").join(&name), "file").unwrap();
    assert_eq!(
        w.read_kind(&format!("/tmp/{name}/x")),
        RefusalKind::NotADirectory
    );
    // `..` through a folder that only the host has.
    let (other, name) = unique();
    fs::write(w.at("hands/work/scratch/s1/tmp/hands-z.txt"), "z").unwrap();
    assert_eq!(w.read(&format!("/tmp/{name}/../hands-z.txt")).unwrap(), "z");
    drop(other);
}
