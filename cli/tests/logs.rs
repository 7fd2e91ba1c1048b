//! `handsctl logs`.
#![allow(clippy::unwrap_used)] // Helpers of tests are not marked as tests.

mod common;

use common::Place;
use hands_activity::{Event, Record, SessionTrail};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

fn append(session: &SessionTrail, turn: &str, tool: &str, code: &str) {
    let mut record = Record::new(Event::Result, turn);
    record.tool = Some(tool.to_owned());
    record.code = Some(code.to_owned());
    record.duration_ms = Some(7);
    session.append(record).unwrap();
}

/// A trail of two sessions: t1 … t9.
fn filled() -> Place {
    let place = Place::new();
    let trail = place.trail();
    let (one, two) = (trail.session("one"), trail.session("two"));
    for number in 1..=9 {
        let (session, tool) = if number % 3 == 0 {
            (&two, "edit")
        } else {
            (&one, "bash")
        };
        let code = if number == 4 { "timeout" } else { "ok" };
        append(session, &format!("t{number}"), tool, code);
    }
    place
}

fn turns(place: &Place, args: &[&str]) -> Vec<String> {
    let ended = place.run(&[&["logs", "--json"], args].concat());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let records = ended.json_lines();
    records
        .iter()
        .map(|record| record["turn_id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_last_records_and_every_filter() {
    let place = filled();
    assert_eq!(turns(&place, &["-n", "2"]), ["t8", "t9"]);
    assert_eq!(turns(&place, &[]).len(), 9);
    assert_eq!(turns(&place, &["--tool", "edit", "-n", "2"]), ["t6", "t9"]);
    assert_eq!(turns(&place, &["--code", "timeout"]), ["t4"]);
    assert_eq!(turns(&place, &["--turn", "t5"]), ["t5"]);
    assert_eq!(turns(&place, &["--session", "two"]), ["t3", "t6", "t9"]);
    assert_eq!(turns(&place, &["--since", "1h"]).len(), 9);
    assert!(turns(&place, &["--until", "1h"]).is_empty());
    assert!(turns(&place, &["--since", "2999-01-01T00:00:00Z"]).is_empty());
}

#[test]
fn activity_is_the_default_and_has_the_same_options() {
    let place = filled();
    let short = place.run(&["logs", "-n", "3"]);
    let long = place.run(&["logs", "activity", "-n", "3"]);
    assert_eq!(short.out, long.out);
    assert_eq!(short.out.lines().count(), 3);
    assert!(
        short.out.contains("  result      bash          ok "),
        "{short:?}"
    );
    assert!(short.out.contains("7 ms  t8"), "{short:?}");
}

#[test]
fn a_wrong_time_is_a_usage_error() {
    let ended = filled().run(&["logs", "--since", "yesterday"]);
    assert_eq!(ended.code, Some(2));
    assert!(
        ended
            .err
            .starts_with("handsctl: the option --since failed: \"yesterday\" is not a time"),
        "{ended:?}"
    );
}

#[test]
fn a_home_that_is_not_there_has_no_records_and_says_so() {
    let place = Place::new();
    let root = place.home().root().display().to_string();
    for (args, err) in [
        (&["logs", "lifecycle"][..], "no starts or stops recorded at"),
        (&["logs", "faults"], "no faults recorded at"),
    ] {
        let ended = place.run(args);
        assert_eq!((ended.code, ended.out.as_str()), (Some(0), ""), "{ended:?}");
        assert_eq!(ended.err, format!("handsctl: {err} {root}\n"));
        let json = place.run(&[args, &["--json"]].concat());
        assert_eq!(
            (json.code, json.out.as_str(), json.err.as_str()),
            (Some(0), "", "")
        );
    }
    let ended = place.run(&["logs"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), ""));
    let ended = place.run(&["logs", "verify"]);
    assert_eq!(ended.code, Some(0));
    assert_eq!(ended.out, format!("no trail yet at {root}\n"));
    let json = place.run(&["logs", "verify", "--json"]);
    assert_eq!(json.code, Some(0));
    assert_eq!(json.json()["ok"], true);
    assert_eq!(json.json()["message"], format!("no trail yet at {root}"));
    assert!(!place.home().root().exists(), "reading makes nothing");
}

#[test]
fn global_options_may_stand_anywhere() {
    let place = filled();
    let root = place.home().root().display().to_string();
    let wanted = place.run(&["--json", "logs", "verify"]);
    assert_eq!(wanted.json()["ok"], true);
    for args in [
        &["logs", "--json", "verify"][..],
        &["logs", "verify", "--json"],
        &["logs", "--json", "--home", &root, "verify"],
    ] {
        let ended = place.run(args);
        assert_eq!(
            (ended.code, &ended.out),
            (Some(0), &wanted.out),
            "{args:?}: {ended:?}"
        );
    }
    // An option that would have no effect is refused.
    for args in [
        &["logs", "-n", "20", "verify"][..],
        &["logs", "--tool", "x", "faults"],
    ] {
        let ended = place.run(args);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.err.contains("put it behind"), "{ended:?}");
    }
}

#[test]
fn verify_is_silent_about_a_whole_trail_and_names_the_first_bad_record() {
    let place = filled();
    let ended = place.run(&["logs", "verify"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.out, "intact: 9 records of 2 sessions\n");

    let log = place.home().activity_log();
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::write(&log, text.replacen("\"timeout\"", "\"ok\"", 1)).unwrap();
    let ended = place.run(&["logs", "verify"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.out.starts_with("BROKEN: "), "{ended:?}");
    let json = place.run(&["logs", "verify", "--json"]);
    assert_eq!(json.code, Some(1));
    let bad = &json.json()["first_bad"];
    assert!(
        bad["file"]
            .as_str()
            .unwrap()
            .ends_with("agent_activity.jsonl"),
        "{bad}"
    );
    assert_eq!(bad["line"], 4);
    assert_eq!(bad["session_id"], "one");
    assert_eq!(bad["seq"], 3);
}

#[test]
fn a_torn_line_is_skipped_with_a_note() {
    let place = filled();
    let log = place.home().activity_log();
    let mut text = std::fs::read_to_string(&log).unwrap();
    text.push_str("{\"ts\":\"2026-");
    std::fs::write(&log, text).unwrap();
    let ended = place.run(&["logs", "--json"]);
    assert_eq!(ended.code, Some(0));
    assert_eq!(ended.json_lines().len(), 9);
    assert!(ended.err.starts_with("handsctl: note: "), "{ended:?}");
}

#[test]
fn follow_shows_what_comes_and_ends_with_its_reader() {
    let place = filled();
    let session = place.trail().session("three");
    let mut child = place
        .command(&["logs", "--follow", "--json", "-n", "1"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("\"t9\""));
    append(&session, "t10", "bash", "ok");
    assert!(lines.next().unwrap().unwrap().contains("\"t10\""));
    // Closing the pipe ends it, though nothing more is written to the log.
    drop(lines);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let place = Place::new();
    let session = place.trail().session("many");
    for number in 0..3000 {
        append(&session, &format!("turn-{number}"), "bash", "ok");
    }
    let mut child = place
        .command(&["logs", "-n", "3000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap();
    assert!(first.contains("turn-0"));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn lifecycle_and_faults_are_shown() {
    let place = Place::new();
    place.prepare();
    let folders = place.folders();
    let log = hands_activity::Lifecycle::open(&folders, "hands-mcp", "1.2.3").unwrap();
    log.note("start", serde_json::json!({"mode": "standalone"}))
        .unwrap();
    hands_activity::record_fault(&folders.faults(), "hands-mcp", "it broke").unwrap();
    let text = place.run(&["logs", "lifecycle"]);
    assert!(
        text.out.contains("  start         hands-mcp     pid "),
        "{text:?}"
    );
    assert!(
        text.out.contains("1.2.3  {\"mode\":\"standalone\"}"),
        "{text:?}"
    );
    let json = place.run(&["logs", "lifecycle", "--json"]).json_lines();
    assert_eq!(json[0]["event"], "start");
    let faults = place.run(&["logs", "faults"]);
    assert!(faults.out.contains("it broke"), "{faults:?}");
}
