//! Every kind of tampering, and what is none.

use super::*;
use crate::limits::TrailLimits;
use crate::record::{Event, Record};
use crate::trail::Trail;
use std::fs;

struct Home {
    dir: tempfile::TempDir,
    folders: Folders,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let folders = Folders {
            logs: dir.path().join("logs"),
            trail: dir.path().join("trail"),
            recovery: dir.path().join("recovery"),
        };
        Self { dir, folders }
    }

    /// Five records of `a` and five of `b`, taking turns: `a` has the odd lines.
    fn with_two_sessions() -> Self {
        let home = Self::new();
        let trail = Trail::open(&home.folders, TrailLimits::default()).unwrap();
        let sessions = [trail.session("a"), trail.session("b")];
        for turn in 0..5 {
            for session in &sessions {
                session.append(record(turn)).unwrap();
            }
        }
        home
    }

    fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folders.activity()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn edit(&self, change: impl FnOnce(&mut Vec<String>)) {
        let mut lines = self.lines();
        change(&mut lines);
        lines.push(String::new());
        fs::write(self.folders.activity(), lines.join("\n")).unwrap();
    }

    fn verify(&self) -> VerifyReport {
        verify(&self.folders).unwrap()
    }

    /// Line, session, number and reason of the first bad record.
    fn bad(&self) -> (Option<u64>, String, Option<u64>, Reason) {
        let bad = self.verify().first_bad.expect("something is wrong");
        let session = bad.session_id.clone().unwrap_or_default();
        assert!(!bad.to_string().is_empty());
        (bad.line, session, bad.seq, bad.reason)
    }

    fn head(&self, session: &str) -> std::path::PathBuf {
        self.folders.trail.join("heads").join(session)
    }

    fn assert_intact(&self) -> VerifyReport {
        let report = self.verify();
        assert_eq!(report.first_bad, None, "{:?}", report.notes);
        report
    }
}

fn record(turn: u32) -> Record {
    Record {
        tool: Some("bash".into()),
        args: Some(serde_json::json!({ "command": format!("echo {turn}") })),
        ..Record::new(Event::Call, format!("t{turn}"))
    }
}

fn bad_at(
    line: u64,
    session: &str,
    seq: u64,
    reason: Reason,
) -> (Option<u64>, String, Option<u64>, Reason) {
    (Some(line), session.into(), Some(seq), reason)
}

#[test]
fn an_untouched_trail_is_intact() {
    let home = Home::with_two_sessions();
    let report = home.assert_intact();
    assert_eq!((report.records, report.sessions), (10, 2));
    assert_eq!(report.notes, Vec::<String>::new());
}

#[test]
fn no_trail_yet_is_intact() {
    let report = Home::new().assert_intact();
    assert_eq!((report.records, report.sessions), (0, 0));
}

#[test]
fn one_altered_byte_anywhere_is_found_in_its_line() {
    let home = Home::with_two_sessions();
    let before = fs::read(home.folders.activity()).unwrap();
    let start = before.iter().position(|b| *b == b'\n').unwrap() + 1;
    let length = before[start..].iter().position(|b| *b == b'\n').unwrap();
    for at in (start..start + length).step_by(3) {
        let mut bytes = before.clone();
        bytes[at] ^= 1;
        fs::write(home.folders.activity(), &bytes).unwrap();
        let bad = home.verify().first_bad;
        let line = bad.as_ref().and_then(|b| b.line);
        assert_eq!(line, Some(2), "byte {}: {bad:?}", at - start);
    }
}

#[test]
fn an_altered_value_is_called_altered() {
    for (seq, line) in [(1, 1), (3, 5), (5, 9)] {
        let home = Home::with_two_sessions();
        home.edit(|lines| {
            let at = line as usize - 1;
            lines[at] = lines[at].replace("echo", "ECHO");
        });
        assert_eq!(home.bad(), bad_at(line, "a", seq, Reason::Altered));
    }
}

#[test]
fn an_altered_number_is_called_altered() {
    let home = Home::with_two_sessions();
    home.edit(|lines| lines[4] = lines[4].replace("\"seq\":3", "\"seq\":7"));
    assert_eq!(home.bad(), bad_at(5, "a", 7, Reason::Altered));
}

#[test]
fn a_line_made_unreadable_is_called_altered() {
    for cut in [30, 120] {
        let home = Home::with_two_sessions();
        home.edit(|lines| lines[4].truncate(cut));
        assert_eq!(home.bad(), bad_at(5, "a", 3, Reason::Altered), "{cut}");
    }
    let home = Home::with_two_sessions();
    home.edit(|lines| lines[9].truncate(120));
    assert_eq!(
        home.bad(),
        bad_at(10, "b", 5, Reason::Altered),
        "the last one"
    );
}

#[test]
fn a_removed_line_is_found() {
    let home = Home::with_two_sessions();
    home.edit(|lines| drop(lines.remove(4)));
    assert_eq!(home.bad(), bad_at(6, "a", 3, Reason::Removed));
    let home = Home::with_two_sessions();
    home.edit(|lines| drop(lines.remove(0)));
    assert_eq!(home.bad(), bad_at(2, "a", 1, Reason::Removed));
}

#[test]
fn swapped_lines_of_a_session_are_found() {
    let home = Home::with_two_sessions();
    home.edit(|lines| lines.swap(4, 6));
    assert_eq!(home.bad(), bad_at(5, "a", 3, Reason::Reordered));
}

#[test]
fn a_line_put_in_twice_is_found() {
    let home = Home::with_two_sessions();
    home.edit(|lines| lines.insert(7, lines[2].clone()));
    assert_eq!(home.bad(), bad_at(8, "a", 2, Reason::Duplicated));
}

#[test]
fn a_cut_tail_is_found() {
    let home = Home::with_two_sessions();
    home.edit(|lines| lines.truncate(7));
    assert_eq!(home.bad(), bad_at(6, "b", 3, Reason::Cut));
}

#[test]
fn a_whole_session_removed_is_found() {
    let home = Home::with_two_sessions();
    home.edit(|lines| lines.retain(|l| l.contains("\"session_id\":\"a\"")));
    let (line, session, seq, reason) = home.bad();
    assert_eq!((line, session.as_str(), seq), (None, "b", Some(5)));
    assert_eq!(reason, Reason::SessionRemoved);
    fs::remove_file(home.folders.activity()).unwrap();
    assert_eq!(home.bad().3, Reason::SessionRemoved, "the log is gone");
}

#[test]
fn a_lost_key_is_named() {
    let home = Home::with_two_sessions();
    let key = home.folders.trail.join("key");
    fs::remove_file(&key).unwrap();
    let bad = home.verify().first_bad.unwrap();
    assert_eq!((bad.reason, bad.file), (Reason::Key, Some(key.clone())));
    fs::write(&key, b"short").unwrap();
    assert_eq!(home.bad().3, Reason::Key);
}

#[test]
fn a_replaced_key_makes_the_old_records_foreign() {
    let home = Home::with_two_sessions();
    fs::remove_file(home.folders.trail.join("key")).unwrap();
    let trail = Trail::open(&home.folders, TrailLimits::default()).unwrap();
    assert!(trail.key_is_new());
    assert_eq!(home.bad(), bad_at(1, "a", 1, Reason::Foreign));
}

#[test]
fn a_lost_key_is_forgotten_once_its_records_are_rotated_away() {
    let home = Home::with_two_sessions();
    fs::remove_file(home.folders.trail.join("key")).unwrap();
    let limits = TrailLimits {
        max_bytes: 4096,
        keep: 1,
    };
    let trail = Trail::open(&home.folders, limits).unwrap();
    let session = trail.session("new");
    for turn in 0..100 {
        session.append(record(turn)).unwrap();
    }
    home.assert_intact();
}

#[test]
fn what_was_altered_stays_bad_after_its_file_is_dropped() {
    let home = Home::with_two_sessions();
    home.edit(|lines| drop(lines.remove(4)));
    let limits = TrailLimits {
        max_bytes: 4096,
        keep: 1,
    };
    let trail = Trail::open(&home.folders, limits).unwrap();
    for turn in 0..100 {
        trail.session("new").append(record(turn)).unwrap();
    }
    assert_eq!(home.bad().1, "a");
}

#[test]
fn records_of_another_trail_are_foreign() {
    let other = Home::new();
    let trail = Trail::open(&other.folders, TrailLimits::default()).unwrap();
    trail.session("c").append(record(1)).unwrap();
    let another = trail.session("a");
    for turn in 0..3 {
        another.append(record(turn)).unwrap();
    }
    let lines = other.lines();
    let home = Home::with_two_sessions();
    home.edit(|all| all.insert(3, lines[0].clone()));
    assert_eq!(
        home.bad(),
        bad_at(4, "c", 1, Reason::Foreign),
        "a session of its own"
    );
    let home = Home::with_two_sessions();
    home.edit(|all| all.insert(4, lines[3].clone()));
    assert_eq!(
        home.bad(),
        bad_at(5, "a", 3, Reason::Foreign),
        "inside a session"
    );
}

#[test]
fn a_record_moved_to_another_session_is_found() {
    for session in ["b", "z"] {
        let home = Home::with_two_sessions();
        let to = format!("\"session_id\":\"{session}\"");
        home.edit(|lines| lines[4] = lines[4].replace("\"session_id\":\"a\"", &to));
        assert_eq!(home.bad().0, Some(5), "{session}");
    }
}

#[test]
fn an_inserted_line_is_found() {
    for line in ["rubbish", "{\"ts\":\"2026-01-01T00:00:00.000Z\",\"seq\":6}"] {
        let home = Home::with_two_sessions();
        home.edit(|lines| lines.insert(3, line.into()));
        let bad = home.verify().first_bad.unwrap();
        assert_eq!((bad.line, bad.reason), (Some(4), Reason::Altered));
    }
}

#[test]
fn a_torn_last_line_is_a_note() {
    let home = Home::with_two_sessions();
    let mut bytes = fs::read(home.folders.activity()).unwrap();
    let next = home.lines()[8].replace("\"seq\":5", "\"seq\":6");
    bytes.extend_from_slice(&next.as_bytes()[..150]);
    fs::write(home.folders.activity(), &bytes).unwrap();
    let report = home.assert_intact();
    assert_eq!(report.notes.len(), 1);
    assert!(report.notes[0].contains("line 11"), "{:?}", report.notes);
    // The next process ends the torn line and goes on with the chain.
    let trail = Trail::open(&home.folders, TrailLimits::default()).unwrap();
    assert_eq!(trail.session("a").append(record(9)).unwrap(), 6);
    let report = home.assert_intact();
    assert_eq!((report.records, report.notes.len()), (11, 1));
}

#[test]
fn killed_between_the_record_and_its_head() {
    let home = Home::new();
    let trail = Trail::open(&home.folders, TrailLimits::default()).unwrap();
    let session = trail.session("a");
    for seq in 1..=4 {
        let before = fs::read(home.head("a")).unwrap_or_default();
        session.append(record(seq)).unwrap();
        if seq == 4 || seq == 1 {
            let after = fs::read(home.head("a")).unwrap();
            fs::write(home.head("a"), before).unwrap();
            home.assert_intact();
            if seq == 1 {
                fs::write(home.head("a"), after).unwrap();
            }
        }
    }
    drop((session, trail));
    let trail = Trail::open(&home.folders, TrailLimits::default()).unwrap();
    assert_eq!(trail.session("a").append(record(5)).unwrap(), 5);
    assert_eq!(home.assert_intact().records, 5);
}

#[test]
fn a_head_that_lies_is_found() {
    let home = Home::with_two_sessions();
    let whole = fs::read_to_string(home.head("a")).unwrap();
    let zeros = whole[..21].to_owned() + &"0".repeat(64) + "\n";
    fs::write(home.head("a"), zeros).unwrap();
    assert_eq!(home.bad(), bad_at(9, "a", 5, Reason::HeadDiffers));
    fs::write(home.head("a"), "nonsense").unwrap();
    assert_eq!(home.bad(), bad_at(9, "a", 5, Reason::HeadMissing));
    fs::remove_file(home.head("a")).unwrap();
    assert_eq!(home.bad(), bad_at(9, "a", 5, Reason::HeadMissing));
}

/// Enough records of two sessions that files were dropped.
fn rotated() -> Home {
    let home = Home::new();
    let limits = TrailLimits {
        max_bytes: 4096,
        keep: 3,
    };
    let trail = Trail::open(&home.folders, limits).unwrap();
    trail.session("early").append(record(0)).unwrap();
    let (a, b) = (trail.session("a"), trail.session("b"));
    let idle = trail.session("idle");
    idle.append(record(0)).unwrap();
    for turn in 0..100 {
        a.append(record(turn)).unwrap();
        b.append(record(turn)).unwrap();
    }
    assert_eq!(trail.rotation_problem(), None);
    idle.append(record(1)).unwrap();
    home
}

#[test]
fn a_chain_may_begin_where_rotation_dropped_its_start() {
    let home = rotated();
    let report = home.assert_intact();
    assert!(
        report.records > 20 && report.records < 100,
        "{}",
        report.records
    );
    assert_eq!(report.notes, Vec::<String>::new());
    assert!(!home.head("early").exists(), "finished and wholly dropped");
    assert!(home.head("idle").exists(), "still being written");
    let files = fs::read_dir(&home.folders.logs).unwrap().count();
    assert_eq!(files, 5, "the current file, three rotated ones, the lock");
}

#[test]
fn removing_the_oldest_file_by_hand_is_found() {
    let home = rotated();
    fs::remove_file(home.folders.logs.join("agent_activity.3.jsonl")).unwrap();
    assert_eq!(home.bad().3, Reason::Removed);
}

#[test]
fn an_edited_or_removed_floor_is_found() {
    let home = rotated();
    let path = home.folders.trail.join("floor.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\"seq\":", "\"seq\":1", 1)).unwrap();
    let bad = home.verify().first_bad.unwrap();
    assert_eq!((bad.reason, bad.file), (Reason::Floor, Some(path.clone())));
    fs::remove_file(&path).unwrap();
    assert_eq!(home.bad().3, Reason::Removed);
}

#[test]
fn a_rotation_cut_short_is_intact() {
    // Killed after the floor was raised and before the oldest file was removed.
    let home = rotated();
    let oldest = home.folders.logs.join("agent_activity.3.jsonl");
    let key = Key::load(&home.folders.trail.join("key")).unwrap().unwrap();
    let floor_path = home.folders.trail.join("floor.json");
    let FloorState::Good(mut floor) = Floor::load(&floor_path, &key).unwrap() else {
        panic!("the floor is good");
    };
    floor.raise(&oldest, &key).unwrap();
    floor.store(&floor_path, &key).unwrap();
    home.assert_intact();
    // Killed after it was removed: the gap is filled by the next rotation.
    fs::remove_file(&oldest).unwrap();
    home.assert_intact();
    let limits = TrailLimits {
        max_bytes: 4096,
        keep: 3,
    };
    let trail = Trail::open(&home.folders, limits).unwrap();
    for turn in 0..200 {
        trail.session("c").append(record(turn)).unwrap();
    }
    home.assert_intact();
    assert!(home.dir.path().exists());
}

#[test]
fn a_lone_record_of_a_pruned_session_is_a_note() {
    let home = Home::with_two_sessions();
    home.edit(|lines| lines.retain(|l| l.contains("\"a\"") || l.contains("\"seq\":5")));
    assert_eq!(home.bad().3, Reason::Removed);
    fs::remove_file(home.head("b")).unwrap();
    let report = home.assert_intact();
    assert!(
        report.notes[0].contains("session b: record 5"),
        "{:?}",
        report.notes
    );
}
