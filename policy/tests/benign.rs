//! No false alarm: the command check refuses no line that reads, creates or changes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use hands_policy::command::{Ground, Scene, Standing, Verdict, look, look_at};
use std::path::{Path, PathBuf};

const CORPUS: &str = include_str!("benign_commands.txt");

/// Everything is there, and nothing of it was made by a command.
struct AllOld;

impl Ground for AllOld {
    fn standing(&self, path: &Path) -> Standing {
        match path.extension() {
            Some(_) => Standing::File,
            None => Standing::Folder,
        }
    }
}

fn lines() -> Vec<String> {
    CORPUS
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("## "))
        .map(|line| line.replace('⏎', "\n"))
        .collect()
}

fn refused(line: &str, look: impl Fn(&str) -> Verdict) -> Option<String> {
    match look(line) {
        Verdict::Refused(refusal) => Some(format!("{line}: {}", refusal.message)),
        Verdict::Clean | Verdict::Unsure(_) => None,
    }
}

/// The check is one of two: where the broker is at work in `default` mode it knows what may go; in
/// `strict` and `read-only` mode, and without the broker, commands remove nothing.
#[test]
fn no_line_that_removes_nothing_is_refused_in_any_mode() {
    let all = lines();
    assert!(all.len() >= 300, "{}", all.len());
    let roots = [PathBuf::from("/home/ada/Hands")];
    let scene = |ground: Option<&'static dyn Ground>| Scene {
        folder: Path::new("/home/ada/Hands"),
        home: Path::new("/home/ada"),
        roots: &roots,
        ground,
    };
    let (strict, default) = (scene(None), scene(Some(&AllOld)));
    let mut wrong = Vec::new();
    for line in &all {
        wrong.extend(refused(line, look).map(|why| format!("anywhere: {why}")));
        let here = refused(line, |line| look_at(line, &strict));
        wrong.extend(here.map(|why| format!("strict, read-only: {why}")));
        let here = refused(line, |line| look_at(line, &default));
        wrong.extend(here.map(|why| format!("default: {why}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The test above would find a false alarm.
#[test]
fn what_removes_is_refused_among_the_same_words() {
    for line in [
        "ls && rm v",
        "cat <<EOF | sh\nrm v\nEOF",
        "for x in rm; do $x v; done",
    ] {
        assert!(refused(line, look).is_some(), "{line}");
    }
}
