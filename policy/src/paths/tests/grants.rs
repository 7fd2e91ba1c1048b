//! Which folder a person means when they grant one.

use super::*;

fn world() -> World {
    let w = World::new();
    fs::create_dir_all(w.at("ws/other")).unwrap();
    fs::create_dir_all(w.at("extra/deep")).unwrap();
    w
}

fn key(w: &World, below: &str) -> Result<PathBuf, Refusal> {
    w.policy.grant_folder(&w.text(below))
}

#[test]
fn a_grant_is_for_a_key_of_the_gate() {
    let w = world();
    for below in ["ws", "ws/sub", "extra"] {
        assert_eq!(key(&w, below).unwrap(), w.at(below), "{below}");
        assert_eq!(key(&w, &format!("{below}//")).unwrap(), w.at(below));
    }
}

#[test]
fn what_is_no_key_is_refused_and_the_key_is_named() {
    let w = world();
    for (below, instead) in [
        ("ws/sub/deep", "ws/sub"),
        ("ws/sub/b.txt", "ws/sub"),
        ("ws/a.txt", "ws"),
        ("extra/deep", "extra"),
        ("ws/sub/../other", "ws/other"),
    ] {
        let refusal = key(&w, below).unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::Validation, "{below}");
        let hint = format!("name {} itself", w.text(instead));
        assert_eq!(refusal.hint.as_deref(), Some(hint.as_str()), "{below}");
    }
    for (below, kind) in [
        ("outside", RefusalKind::Protected),
        ("home", RefusalKind::Protected),
        ("hands", RefusalKind::Protected),
        ("ws/none", RefusalKind::NotFound),
    ] {
        assert_eq!(key(&w, below).unwrap_err().kind, kind, "{below}");
    }
    for text in ["", "ws", "~/x", "sub"] {
        let refusal = w.policy.grant_folder(text).unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::Validation, "{text}");
    }
}

#[test]
fn a_link_grants_nothing() {
    let w = world();
    w.link("sub", "ws/harmless");
    w.link(w.at("ws"), "home/way");
    for (below, instead) in [("ws/harmless", "ws/sub"), ("home/way/sub", "ws/sub")] {
        let refusal = key(&w, below).unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::Validation, "{below}");
        let hint = format!("name {} itself", w.text(instead));
        assert_eq!(refusal.hint.as_deref(), Some(hint.as_str()), "{below}");
    }
}

#[test]
fn the_configurations_own_spelling_of_a_workspace_counts() {
    let w = World::with(|top, settings| {
        symlink(top.join("ws"), top.join("spelt")).unwrap();
        settings.workspaces = vec![top.join("spelt")];
    });
    assert_eq!(key(&w, "spelt/sub").unwrap(), w.at("ws/sub"));
    assert_eq!(key(&w, "ws/sub").unwrap(), w.at("ws/sub"));
}

#[test]
fn of_nested_roots_the_innermost_decides() {
    let w = World::with(|top, settings| settings.workspaces.push(top.join("ws/sub")));
    assert_eq!(key(&w, "ws/sub").unwrap(), w.at("ws/sub"));
    assert_eq!(key(&w, "ws/sub/deep").unwrap(), w.at("ws/sub/deep"));
}
