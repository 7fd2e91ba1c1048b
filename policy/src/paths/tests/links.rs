//! Links at the end, in the middle, dangling, up, absolute, in a loop; and the magic ones of proc.

use super::*;

#[test]
fn a_link_at_the_end_is_judged_by_where_it_leads() {
    let w = World::new();
    w.link("/etc/passwd", "ws/x");
    w.link(w.at("home/.ssh/id_x"), "ws/y");
    w.link("a.txt", "ws/z");
    assert_eq!(w.read_kind("x"), RefusalKind::Protected);
    assert_eq!(w.read_kind("y"), RefusalKind::Protected);
    assert_eq!(w.read("z").unwrap(), "a");
    assert_eq!(
        w.policy.resolve("z", None).unwrap().path(),
        w.at("ws/a.txt")
    );
    assert_eq!(w.write("z").unwrap(), w.workspace("ws"));
}

#[test]
fn a_link_in_the_middle_is_judged_by_where_it_leads() {
    let w = World::new();
    w.link(w.at("outside"), "ws/way");
    w.link("../../home", "ws/sub/up");
    assert_eq!(w.read("way/o.txt").unwrap(), "o");
    assert_eq!(w.write("way/o.txt").unwrap(), WritePlace::OutsideExisting);
    let refusal = w.write("way/new.txt").unwrap_err();
    assert_eq!(
        (refusal.kind, refusal.rule),
        (RefusalKind::Protected, Some("outside_workspace"))
    );
    assert_eq!(w.write_kind("way/not/yet/new.txt"), RefusalKind::Protected);
    assert!(!w.at("outside/new.txt").exists());
    assert_eq!(w.read_kind("sub/up/.ssh/id_x"), RefusalKind::Protected);
    // `..` after a link goes up from where the link leads.
    let target = w.policy.resolve("way/../ws/a.txt", None).unwrap();
    assert_eq!(target.path(), w.at("ws/a.txt"));
}

#[test]
fn a_dangling_link_is_judged_by_its_missing_end() {
    let w = World::new();
    w.link(w.at("outside/none/yet.txt"), "ws/dangling");
    w.link("sub/yet.txt", "ws/inside");
    w.link(w.at("home/.ssh/new"), "ws/ssh");
    let target = w.policy.resolve("dangling", None).unwrap();
    assert!(!target.exists());
    assert_eq!(target.path(), w.at("outside/none/yet.txt"));
    assert_eq!(w.write_kind("dangling"), RefusalKind::Protected);
    assert_eq!(w.read_kind("ssh"), RefusalKind::Protected);
    assert_eq!(w.write("inside").unwrap(), w.workspace("ws/sub"));
}

#[test]
fn links_to_folders_above_stay_bounded() {
    let w = World::new();
    w.link("..", "ws/up");
    w.link(".", "ws/here");
    assert_eq!(w.read("here/here/here/a.txt").unwrap(), "a");
    assert_eq!(w.write_kind("up/new.txt"), RefusalKind::Protected);
    assert_eq!(w.write("up/ws/a.txt").unwrap(), w.workspace("ws"));
    assert_eq!(w.read_kind("up/home/.ssh/id_x"), RefusalKind::Protected);
}

#[test]
fn a_loop_ends() {
    let w = World::new();
    w.link("two", "ws/one");
    w.link("one", "ws/two");
    w.link("self/x", "ws/self");
    assert_eq!(w.read_kind("one"), RefusalKind::Loop);
    assert_eq!(w.read_kind("self"), RefusalKind::Loop);
    // A chain of links that doubles each step ends as well.
    w.link(".", "ws/l0");
    for i in 1..30 {
        w.link(format!("l{}/l{}", i - 1, i - 1), &format!("ws/l{i}"));
    }
    assert_eq!(w.read_kind("l29/a.txt"), RefusalKind::Loop);
}

#[test]
fn bare_dots_and_many_ups_are_resolved() {
    let w = World::new();
    assert_eq!(w.policy.resolve("..", None).unwrap().path(), w.top);
    assert_eq!(w.write_kind(".."), RefusalKind::Unsupported);
    assert_eq!(w.write_kind("../x"), RefusalKind::Protected);
    assert_eq!(w.policy.resolve(".", None).unwrap().path(), w.at("ws"));
    let up = format!("{}etc/passwd", "../".repeat(40));
    assert_eq!(w.read_kind(&up), RefusalKind::Protected);
    assert_eq!(
        w.policy.resolve("/../..", None).unwrap().path(),
        Path::new("/")
    );
}

#[test]
fn a_protected_place_that_is_a_link_is_protected_both_ways() {
    let w = World::with(|top, _| {
        fs::create_dir_all(top.join("store/aws")).unwrap();
        fs::write(top.join("store/aws/credentials"), "k").unwrap();
        symlink(top.join("store/aws"), top.join("home/.aws")).unwrap();
        fs::create_dir(top.join("ws/dotfiles")).unwrap();
        fs::write(top.join("ws/dotfiles/zshrc"), "").unwrap();
        symlink(top.join("ws/dotfiles/zshrc"), top.join("home/.zshrc")).unwrap();
    });
    assert_eq!(w.read_kind("~/.aws/credentials"), RefusalKind::Protected);
    assert_eq!(
        w.read_kind(&w.text("store/aws/credentials")),
        RefusalKind::Protected
    );
    assert_eq!(w.read_kind(&w.text("store/aws")), RefusalKind::Protected);
    // A start file kept in a workspace runs in the person's shell all the same.
    assert_eq!(w.write_kind("~/.zshrc"), RefusalKind::Protected);
    assert_eq!(w.write_kind("dotfiles/zshrc"), RefusalKind::Protected);
    assert_eq!(w.read("dotfiles/zshrc").unwrap(), "");
    assert_eq!(
        w.write("dotfiles/other").unwrap(),
        w.workspace("ws/dotfiles")
    );
}

#[test]
fn a_link_that_lies_in_a_protected_place_is_protected() {
    let w = World::new();
    w.link(w.at("ws/a.txt"), "home/.ssh/config");
    w.link(w.at("ws/sub"), "home/.docker");
    assert_eq!(w.read_kind("~/.ssh/config"), RefusalKind::Protected);
    assert_eq!(w.write_kind("~/.ssh/config"), RefusalKind::Protected);
    // The way in by a link of one's own makes no difference.
    w.link(w.at("home/.ssh/config"), "ws/c");
    assert_eq!(w.read_kind("c"), RefusalKind::Protected);
    assert_eq!(w.read("a.txt").unwrap(), "a");
}

#[cfg(target_os = "linux")]
mod linux {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn magic_links_of_proc_are_only_their_text() {
        let w = World::new();
        for text in [
            "/proc/self/root/etc/passwd",
            "/proc/self/environ",
            "/proc/self/fd/0",
            "/dev/stdin",
            "/proc/self/maps",
        ] {
            assert_eq!(w.read_kind(text), RefusalKind::Protected, "{text}");
        }
        let around = format!("/proc/self/root{}", w.text("home/.ssh/id_x"));
        assert_eq!(w.read_kind(&around), RefusalKind::Protected);
        let new = format!("/proc/self/root{}", w.text("outside/new"));
        assert_eq!(w.write_kind(&new), RefusalKind::Protected);
        let current = w.policy.resolve("/proc/self/cwd", None).unwrap();
        assert_eq!(
            current.path(),
            std::env::current_dir().unwrap().canonicalize().unwrap()
        );
    }

    #[test]
    fn an_open_descriptor_is_no_way_round() {
        let w = World::new();
        let secret = fs::File::open(w.at("home/.ssh/id_x")).unwrap();
        for folder in ["/dev/fd", "/proc/self/fd", "/proc/thread-self/fd"] {
            let text = format!("{folder}/{}", secret.as_raw_fd());
            assert_eq!(w.read_kind(&text), RefusalKind::Protected, "{text}");
        }
        let folder = fs::File::open(w.at("home/.ssh")).unwrap();
        let text = format!("/proc/self/fd/{}/id_x", folder.as_raw_fd());
        assert_eq!(w.read_kind(&text), RefusalKind::Protected);
    }
}
