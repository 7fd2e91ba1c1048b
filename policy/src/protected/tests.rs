use super::*;

fn folded(text: &str) -> Vec<String> {
    fold_path(Path::new(text))
}

fn covered(rule: &Compiled, text: &str) -> bool {
    let path = folded(text);
    let own = starts_with(&path, &folded("/data/me")).then_some(2);
    let homes: Vec<usize> = usual_homes(&path).chain(own).collect();
    rule.matches(&path, &homes)
}

/// The example in the owner's home, in another's, and in a Mac's.
fn in_homes(text: &str) -> Vec<String> {
    match text.strip_prefix("~/") {
        None => vec![text.to_owned()],
        Some(rest) => [
            "/data/me",
            "/home/other",
            "/Users/other",
            "/root",
            "/var/home/x",
        ]
        .iter()
        .map(|home| format!("{home}/{rest}"))
        .collect(),
    }
}

#[test]
fn every_entry_covers_its_example_and_not_the_other() {
    for rule in rules() {
        for text in in_homes(rule.entry.hit) {
            assert!(
                covered(rule, &text),
                "{} should cover {text}",
                rule.entry.pattern
            );
        }
        for text in in_homes(rule.entry.miss) {
            assert!(
                !covered(rule, &text),
                "{} should not cover {text}",
                rule.entry.pattern
            );
        }
    }
}

#[test]
fn every_entry_is_well_formed_and_listed_once() {
    let mut seen = std::collections::HashSet::new();
    for entry in entries() {
        assert!(seen.insert(entry.pattern), "{} twice", entry.pattern);
        let anchored = ["/", "~/", "**/"]
            .iter()
            .any(|a| entry.pattern.starts_with(a));
        assert!(anchored, "{}", entry.pattern);
        assert!(
            !entry.why.is_empty() && !entry.why.ends_with('.'),
            "{}",
            entry.pattern
        );
        let in_home = entry.pattern.starts_with("~/");
        assert_eq!(entry.hit.starts_with("~/"), in_home, "{}", entry.pattern);
    }
}

#[test]
fn names_are_compared_folded() {
    let ssh = rules()
        .iter()
        .find(|rule| rule.entry.pattern == "~/.ssh")
        .unwrap();
    assert!(covered(ssh, "/home/me/.SSH/id"));
    assert!(covered(ssh, "/home/me/.s\u{200d}sh/id"));
    assert!(covered(ssh, "/home/me/.ssh"));
    assert!(!covered(ssh, "/home/me"));
    assert!(!covered(ssh, "/home/me/project/.ssh"));
    assert_eq!(fold(OsStr::new("E\u{301}")), "\u{e9}");
    assert_eq!(fold(OsStr::new("\u{c9}")), "\u{e9}");
    assert_eq!(fold(OsStr::from_bytes(b"a\xff")), "a\u{fffd}");
}

#[test]
fn stars_match_within_a_component() {
    let parts = pattern::Parts::new("/a/x*y*z/c");
    for (text, matches) in [
        ("/a/xyz/c", true),
        ("/a/x1y2z/c/d", true),
        ("/a/xz/c", false),
        ("/a/xy/z/c", false),
        ("/a/xyzz/c", true),
        ("/a/xyz", false),
        ("/b/xyz/c", false),
        ("/a/yxyz/c", false),
    ] {
        assert_eq!(parts.covers(&folded(text)), matches, "{text}");
    }
    let one = pattern::Parts::new("/ab*ba");
    assert!(!one.covers(&folded("/aba")));
    assert!(one.covers(&folded("/abba")));
}
