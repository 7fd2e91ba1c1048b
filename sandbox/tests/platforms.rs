//! What each platform keeps of the promise, as the documents tell it.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::documents;
use hands_sandbox::promise::{Rule, table};
use hands_sandbox::{linux, macos};

#[test]
fn the_documents_tell_what_each_platform_keeps() {
    if !documents::are_here() {
        return;
    }
    let found = table(&[
        ("Linux", &|rule: Rule| linux::keeps(rule, true)),
        ("Linux without the broker", &|rule| {
            linux::keeps(rule, false)
        }),
        ("Linux, reduced", &|rule| linux::reduced::keeps(rule, true)),
        ("macOS (has not run)", &|rule| macos::keeps(rule, true)),
    ]);
    documents::agree("platforms", &found, &[]);
}

/// Who answers for a rule on one platform answers for it on every other, and a guard never takes away.
#[test]
fn a_guard_takes_nothing_away() {
    for rule in Rule::all() {
        for keeps in [linux::keeps, linux::reduced::keeps, macos::keeps] {
            let (with, without) = (keeps(rule, true), keeps(rule, false));
            assert!(with.is_promised() || !without.is_promised(), "{rule:?}");
        }
    }
}
