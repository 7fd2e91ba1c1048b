//! Several processes and threads at once, across rotations; processes killed at any moment.

use crate::common::{Home, call, folders_in, small};
use hands_activity::{Filter, Follower, Item, Start, Stored, Trail, TrailLimits, verify};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

const CHILD_HOME: &str = "HANDS_ACTIVITY_TEST_HOME";
const CHILD_JOB: &str = "HANDS_ACTIVITY_TEST_JOB";

/// Not a test by itself: what the child processes of the tests below run.
#[test]
fn child() {
    let (Ok(home), Ok(job)) = (std::env::var(CHILD_HOME), std::env::var(CHILD_JOB)) else {
        return;
    };
    let (session, count) = job.split_once(' ').unwrap();
    let trail = Trail::open(&folders_in(Path::new(&home)), small(40_000, 50)).unwrap();
    let session = trail.session(session);
    let count: u32 = count.parse().unwrap();
    for turn in 0..count {
        session.append(call(turn)).unwrap();
    }
}

fn start(home: &Path, session: &str, count: u32) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["many_writers::child", "--exact"])
        .env(CHILD_HOME, home)
        .env(CHILD_JOB, format!("{session} {count}"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Records by session; a note is a failure.
fn collect(items: Vec<Item>, into: &mut BTreeMap<String, Vec<u64>>) -> usize {
    let count = items.len();
    for item in items {
        match item {
            Item::Record(record) => {
                let Stored {
                    session_id, seq, ..
                } = *record;
                into.entry(session_id.unwrap())
                    .or_default()
                    .push(seq.unwrap());
            }
            Item::Note(note) => panic!("unexpected note: {note}"),
        }
    }
    count
}

#[test]
fn a_follower_sees_each_record_once_while_many_write() {
    const WRITERS: usize = 4;
    const EACH: usize = 500;
    let home = Home::new();
    let mut follower = Follower::open(&home.folders, Filter::default(), Start::Oldest).unwrap();
    let done = AtomicUsize::new(0);
    let mut seen = BTreeMap::new();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (folders, done) = (&home.folders, &done);
            scope.spawn(move || {
                let trail = Trail::open(folders, small(30_000, 50)).unwrap();
                let session = trail.session(&format!("s{writer}"));
                for turn in 0..EACH {
                    session.append(call(turn)).unwrap();
                }
                assert_eq!(trail.rotation_problem(), None);
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        for pass in 0.. {
            // Asked before reading, so that the last pass sees everything.
            let finished = done.load(Ordering::SeqCst) == WRITERS;
            if collect(follower.poll(), &mut seen) == 0 && finished {
                break;
            }
            if pass % 50 == 0 {
                let report = verify(&home.folders).unwrap();
                assert_eq!(report.first_bad, None, "while it is written");
            }
            std::thread::yield_now();
        }
    });
    assert_eq!(seen.len(), WRITERS);
    for (session, seqs) in &seen {
        assert!(
            seqs.iter().copied().eq(1..=EACH as u64),
            "{session}: {seqs:?}"
        );
    }
    assert!(
        home.folders.logs.join("agent_activity.5.jsonl").exists(),
        "it rotated"
    );
    let report = verify(&home.folders).unwrap();
    assert_eq!(
        (report.first_bad, report.records),
        (None, (WRITERS * EACH) as u64)
    );
}

#[test]
fn processes_share_one_trail() {
    let dir = tempfile::tempdir().unwrap();
    let folders = folders_in(dir.path());
    let children: Vec<_> = (0..3)
        .map(|n| start(dir.path(), &format!("p{n}"), 300))
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let mut seen = BTreeMap::new();
    let mut follower = Follower::open(&folders, Filter::default(), Start::Oldest).unwrap();
    while collect(follower.poll(), &mut seen) > 0 {}
    assert_eq!(seen.len(), 3);
    assert!(seen.values().all(|seqs| seqs.iter().copied().eq(1..=300)));
    assert_eq!(verify(&folders).unwrap().first_bad, None);
}

#[test]
fn killed_processes_leave_an_intact_trail_and_their_session_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let folders = folders_in(dir.path());
    let log = folders.activity();
    let size = || std::fs::metadata(&log).map_or(0, |m| m.len());
    for _ in 0..8 {
        let before = size();
        let mut child = start(dir.path(), "k", u32::MAX);
        // Killed as soon as it writes, at whatever point it then is.
        while size() == before {
            assert!(
                child.try_wait().unwrap().is_none(),
                "it runs until it is killed"
            );
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let report = verify(&folders).unwrap();
        assert_eq!(report.first_bad, None, "{:?}", report.notes);
    }
    let trail = Trail::open(&folders, TrailLimits::default()).unwrap();
    let last = trail.session("k").append(call("last")).unwrap();
    let report = verify(&folders).unwrap();
    assert_eq!((report.first_bad, report.sessions), (None, 1));
    assert!(report.records >= 9 && last >= report.records);
}
