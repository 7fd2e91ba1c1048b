//! Random spellings lead to the object that the operating system finds, or are refused.

use proptest::prelude::*;

use super::*;
use crate::paths::look::{by_name, look};

/// Few components, so that links, ups and folders meet often.
fn spelling() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("."),
        Just(".."),
        Just(""),
        Just("sub"),
        Just("deep"),
        Just("a.txt"),
        Just("b.txt"),
        Just("up"),
        Just("here"),
        Just("abs"),
        Just("chain"),
        Just("loop"),
        Just("gone"),
        Just("none"),
        Just("n\u{e9}"),
    ];
    (prop::collection::vec(part, 1..10), any::<bool>())
        .prop_map(|(parts, slash)| parts.join("/") + if slash { "/" } else { "" })
}

fn tangled() -> World {
    let w = World::new();
    w.link("..", "ws/sub/up");
    w.link(".", "ws/here");
    w.link(w.at("ws/sub"), "ws/abs");
    w.link("abs/deep", "ws/chain");
    w.link("loop", "ws/loop");
    w.link("none/x", "ws/gone");
    fs::create_dir(w.at("ws/sub/n\u{e9}")).unwrap();
    w
}

#[test]
fn resolution_agrees_with_the_system() {
    let w = tangled();
    let ws = w.at("ws");
    proptest!(|(text in spelling())| {
        prop_assume!(!text.is_empty() && !text.starts_with('/'));
        let system = ws.join(&text).canonicalize();
        match (w.policy.resolve(&text, None), system) {
            (Ok(target), Ok(real)) => {
                prop_assert_eq!(target.path(), real.as_path());
                prop_assert!(target.exists());
            }
            // What does not exist is resolved as far as it goes.
            (Ok(target), Err(_)) => prop_assert!(!target.exists()),
            (Err(refusal), Ok(real)) => prop_assert!(false, "{} but {}", refusal, real.display()),
            (Err(_), Err(_)) => {}
        }
    });
}

#[test]
fn no_text_makes_it_panic_or_write_outside() {
    let w = tangled();
    let ws = w.at("ws");
    proptest!(|(text in prop_oneof![any::<String>(), "[~./a-c\u{e9}]{0,24}"])| {
        if let Ok(target) = w.policy.resolve(&text, None) {
            let _ = w.policy.check_read(&target);
            if let Ok(WritePlace::Workspace { root, folder }) = w.policy.check_write(&target) {
                prop_assert_eq!(&root, &ws);
                prop_assert!(target.path().starts_with(&root) && target.path().starts_with(&folder));
            }
        }
    });
}

#[test]
fn both_ways_of_looking_say_the_same() {
    let w = tangled();
    let dir = fs::File::open(w.at("ws")).unwrap();
    use std::os::fd::AsFd;
    for name in ["a.txt", "sub", "here", "abs", "loop", "gone", "none"] {
        let one = look(dir.as_fd(), name.as_ref()).unwrap();
        let two = by_name(dir.as_fd(), name.as_ref()).unwrap();
        let told = |looked: Looked| match looked {
            Looked::Dir(_, meta) => format!("dir {meta:?}"),
            Looked::Link(text) => format!("link {text:?}"),
            Looked::Node(meta) => format!("node {meta:?}"),
            Looked::Missing => "missing".to_owned(),
        };
        assert_eq!(told(one), told(two), "{name}");
    }
}

use crate::paths::look::Looked;
