//! What is written is what is read: fields, filters, the last records.

use crate::common::{Home, call, small};
use hands_activity::{
    Event, Filter, Follower, Item, Record, Start, Stored, Text, Trail, TrailError, TrailLimits,
    read_last, verify,
};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn records(items: Vec<Item>) -> Vec<Stored> {
    let record = |item| match item {
        Item::Record(record) => *record,
        Item::Note(note) => panic!("unexpected note: {note}"),
    };
    items.into_iter().map(record).collect()
}

fn full() -> Record {
    Record {
        turn_id: "t1".into(),
        event: Event::Denied,
        tool: Some("write_file".into()),
        args: Some(json!({"path": "/tmp/x"})),
        status: Some("refused".into()),
        code: Some("protected_path".into()),
        message: Some("it is\nprotected".into()),
        duration_ms: Some(12),
        bytes_out: Some(345),
        truncated: Some(true),
        recovery: Some("/home/x/work/recovery/a".into()),
    }
}

#[test]
fn fields_stand_in_their_order_and_absent_ones_are_left_out() {
    let home = Home::new();
    let trail = Trail::open(&home.folders, TrailLimits::default()).unwrap();
    let session = trail.session("s-1");
    session.append(Record::new(Event::Note, "")).unwrap();
    session.set_client("claude", "1.2");
    assert_eq!(session.append(full()).unwrap(), 2);
    let text = fs::read_to_string(home.folders.activity()).unwrap();
    let keys = |line: &str| {
        let map: serde_json::Map<_, _> = serde_json::from_str(line).unwrap();
        map.keys().cloned().collect::<Vec<_>>().join(" ")
    };
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 2, "one line per record");
    assert_eq!(keys(lines[0]), "ts seq session_id event pid mac");
    assert_eq!(
        keys(lines[1]),
        "ts seq turn_id session_id event tool args status code message duration_ms bytes_out \
         truncated recovery client pid mac"
    );
}

#[test]
fn a_record_reads_back_with_every_field() {
    let home = Home::new();
    let trail = Trail::open(&home.folders, TrailLimits::default()).unwrap();
    let session = trail.session("s-1");
    session.set_client("claude", "1.2");
    session.append(full()).unwrap();
    let all = records(read_last(&home.folders, 10, &Filter::default()).unwrap());
    let stored = &all[0];
    assert!(stored.time().is_some() && stored.ts.as_ref().unwrap().len() == 24);
    assert_eq!(stored.seq, Some(1));
    assert_eq!(stored.session_id.as_deref(), Some("s-1"));
    assert_eq!(stored.event.as_deref(), Some("denied"));
    assert_eq!(stored.args, full().args);
    assert_eq!(stored.message, Some(Text::Whole("it is\nprotected".into())));
    assert_eq!(
        (stored.duration_ms, stored.bytes_out),
        (Some(12), Some(345))
    );
    assert_eq!(stored.truncated, Some(true));
    assert_eq!(stored.client.as_ref().unwrap().name, "claude");
    assert_eq!(stored.pid, Some(std::process::id()));
    assert_eq!(
        stored.line,
        fs::read_to_string(home.folders.activity())
            .unwrap()
            .trim_end()
    );
}

#[test]
fn unknown_fields_and_events_are_kept() {
    let home = Home::new();
    fs::create_dir_all(&home.folders.logs).unwrap();
    fs::write(
        home.folders.activity(),
        "{\"event\":\"later\",\"novel\":[1]}\n{}\n",
    )
    .unwrap();
    let all = records(read_last(&home.folders, 10, &Filter::default()).unwrap());
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].event.as_deref(), Some("later"));
    assert_eq!(all[0].extra["novel"], json!([1]));
}

#[test]
fn files_are_private() {
    let home = Home::new();
    let trail = Trail::open(&home.folders, TrailLimits::default()).unwrap();
    trail.session("s").append(call(1)).unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&home.folders.logs), 0o700);
    assert_eq!(mode(&home.folders.activity()), 0o600);
    assert_eq!(mode(&home.folders.trail), 0o700);
    for file in ["key", "heads/s"] {
        assert_eq!(mode(&home.folders.trail.join(file)), 0o600, "{file}");
    }
}

#[test]
fn filters_choose() {
    let home = Home::new();
    let trail = Trail::open(&home.folders, TrailLimits::default()).unwrap();
    let (a, b) = (trail.session("a"), trail.session("b"));
    a.append(call(1)).unwrap();
    a.append(full()).unwrap();
    b.append(call(2)).unwrap();
    let find = |filter: Filter| records(read_last(&home.folders, 10, &filter).unwrap()).len();
    let text = |s: &str| Some(s.to_owned());
    assert_eq!(find(Filter::default()), 3);
    assert_eq!(
        find(Filter {
            tool: text("bash"),
            ..Filter::default()
        }),
        2
    );
    assert_eq!(
        find(Filter {
            code: text("protected_path"),
            ..Filter::default()
        }),
        1
    );
    assert_eq!(
        find(Filter {
            turn_id: text("turn-2"),
            ..Filter::default()
        }),
        1
    );
    assert_eq!(
        find(Filter {
            session: text("a"),
            ..Filter::default()
        }),
        2
    );
    assert_eq!(
        find(Filter {
            event: Some(Event::Denied),
            ..Filter::default()
        }),
        1
    );
    let all = records(read_last(&home.folders, 10, &Filter::default()).unwrap());
    let at = all[1].time();
    let span = |since, until| {
        find(Filter {
            since,
            until,
            ..Filter::default()
        })
    };
    assert_eq!(span(all[0].time(), all[2].time()), 3);
    let hour = time::Duration::hours(1);
    assert_eq!(span(at.map(|t| t + hour), None), 0);
    assert_eq!(span(None, at.map(|t| t - hour)), 0);
    assert_eq!(span(at.map(|t| t - hour), at.map(|t| t + hour)), 3);
}

#[test]
fn the_last_records_come_oldest_first_across_files() {
    let home = Home::new();
    let trail = Trail::open(&home.folders, small(2000, 20)).unwrap();
    let session = trail.session("s");
    for turn in 0..50 {
        session.append(call(turn)).unwrap();
    }
    let last = records(read_last(&home.folders, 20, &Filter::default()).unwrap());
    let seqs: Vec<_> = last.iter().filter_map(|r| r.seq).collect();
    assert_eq!(seqs, (31..=50).collect::<Vec<_>>());
    assert_eq!(
        read_last(&home.folders, 0, &Filter::default()).unwrap(),
        vec![]
    );
    assert_eq!(
        records(read_last(&home.folders, 999, &Filter::default()).unwrap()).len(),
        50
    );
}

#[test]
fn no_trail_is_no_error() {
    let home = Home::new();
    assert_eq!(
        read_last(&home.folders, 5, &Filter::default()).unwrap(),
        vec![]
    );
    let mut follower = Follower::open(&home.folders, Filter::default(), Start::Now).unwrap();
    assert_eq!(follower.poll(), vec![]);
    let trail = Trail::open(&home.folders, TrailLimits::default()).unwrap();
    trail.session("s").append(call(1)).unwrap();
    assert_eq!(records(follower.poll()).len(), 1);
}

#[test]
fn a_torn_record_is_skipped_with_a_note_and_the_next_one_is_whole() {
    let home = Home::new();
    let trail = Trail::open(&home.folders, TrailLimits::default()).unwrap();
    let session = trail.session("s");
    session.append(call(1)).unwrap();
    // Another process dies in the middle of its write while this one has the file open.
    let mut bytes = fs::read(home.folders.activity()).unwrap();
    bytes.extend_from_slice(b"{\"ts\":\"2026-01-01T00:00:00.000Z\",\"seq\":1,\"tur");
    fs::write(home.folders.activity(), bytes).unwrap();
    let mut follower = Follower::open(&home.folders, Filter::default(), Start::Oldest).unwrap();
    assert_eq!(
        records(follower.poll()).len(),
        1,
        "what may still be written is waited for"
    );
    assert_eq!(session.append(call(2)).unwrap(), 2);
    let items = read_last(&home.folders, 2, &Filter::default()).unwrap();
    assert!(matches!(&items[0], Item::Record(r) if r.seq == Some(1)));
    assert!(
        matches!(&items[1], Item::Note(n) if n.contains("line 2")),
        "{items:?}"
    );
    assert!(matches!(&items[2], Item::Record(r) if r.seq == Some(2)));
    assert_eq!(follower.poll(), items[1..]);
    assert_eq!(verify(&home.folders).unwrap().first_bad, None);
}

#[test]
fn a_session_goes_on_in_another_process_but_not_in_two() {
    let home = Home::new();
    let one = Trail::open(&home.folders, TrailLimits::default()).unwrap();
    let two = Trail::open(&home.folders, TrailLimits::default()).unwrap();
    let session = one.session("s");
    assert_eq!(session.append(call(1)).unwrap(), 1);
    assert_eq!(
        one.session("s").append(call(2)).unwrap(),
        2,
        "the same chain"
    );
    let busy = two.session("s").append(call(3)).unwrap_err();
    assert!(matches!(busy, TrailError::SessionBusy { .. }), "{busy}");
    drop(session);
    assert_eq!(two.session("s").append(call(3)).unwrap(), 3);
    assert_eq!(verify(&home.folders).unwrap().first_bad, None);
}

#[test]
fn a_session_id_is_never_a_path() {
    let home = Home::new();
    let trail = Trail::open(&home.folders, TrailLimits::default()).unwrap();
    let error = trail.session("../key").append(call(1)).unwrap_err();
    assert!(matches!(error, TrailError::SessionId { .. }), "{error}");
}

#[test]
fn removed_folders_are_made_again() {
    let home = Home::new();
    let trail = Trail::open(&home.folders, TrailLimits::default()).unwrap();
    let session = trail.session("s");
    session.append(call(1)).unwrap();
    fs::remove_dir_all(&home.folders.logs).unwrap();
    session.append(call(2)).unwrap();
    let all = records(read_last(&home.folders, 9, &Filter::default()).unwrap());
    assert_eq!(all[0].seq, Some(2));
}

#[test]
fn a_follower_begins_where_it_is_told() {
    let home = Home::new();
    let trail = Trail::open(&home.folders, small(1500, 20)).unwrap();
    let session = trail.session("s");
    for turn in 0..10 {
        session.append(call(turn)).unwrap();
    }
    let open = |start| Follower::open(&home.folders, Filter::default(), start).unwrap();
    let mut followers = [open(Start::Oldest), open(Start::Last(3)), open(Start::Now)];
    for turn in 10..20 {
        session.append(call(turn)).unwrap();
    }
    let first = followers.each_mut().map(|follower| {
        let all = records(follower.poll());
        assert_eq!(all.last().unwrap().seq, Some(20));
        assert_eq!(follower.poll(), vec![]);
        all[0].seq
    });
    assert_eq!(first, [Some(1), Some(8), Some(11)]);
}

#[test]
fn a_follower_that_is_too_slow_says_so_and_repeats_nothing() {
    let home = Home::new();
    let trail = Trail::open(&home.folders, small(1500, 2)).unwrap();
    let session = trail.session("s");
    session.append(call(0)).unwrap();
    let mut follower = Follower::open(&home.folders, Filter::default(), Start::Oldest).unwrap();
    assert_eq!(records(follower.poll()).len(), 1);
    for turn in 1..60 {
        session.append(call(turn)).unwrap();
    }
    let mut items = follower.poll();
    let note = items
        .iter()
        .position(|i| matches!(i, Item::Note(_)))
        .unwrap();
    items.remove(note);
    let seqs: Vec<_> = records(items).iter().filter_map(|r| r.seq).collect();
    assert!(seqs.windows(2).all(|w| w[0] < w[1]), "{seqs:?}");
    assert_eq!(seqs.last(), Some(&60));
}

#[test]
fn handles_can_be_shared_between_threads() {
    fn check<T: Send + Sync + Clone>(_: &T) {}
    let home = Home::new();
    let trail = Trail::open(&home.folders, TrailLimits::default()).unwrap();
    check(&trail);
    check(&trail.session("s"));
}

#[test]
fn a_file_replaced_by_an_editor_is_not_shown_again() {
    let home = Home::new();
    let trail = Trail::open(&home.folders, TrailLimits::default()).unwrap();
    let session = trail.session("s");
    for turn in 0..5 {
        session.append(call(turn)).unwrap();
    }
    // The clock must have moved on for a record to count as older than the follower.
    let begun = std::time::Instant::now();
    while begun.elapsed().as_millis() < 2 {
        std::thread::yield_now();
    }
    let open = |start| Follower::open(&home.folders, Filter::default(), start).unwrap();
    let mut followers = [open(Start::Oldest), open(Start::Now)];
    let counts = followers.each_mut().map(|f| records(f.poll()).len());
    assert_eq!(counts, [5, 0]);
    let copy = home.folders.logs.join("copy");
    fs::copy(home.folders.activity(), &copy).unwrap();
    fs::rename(copy, home.folders.activity()).unwrap();
    session.append(call(5)).unwrap();
    for mut follower in followers {
        let mut items = follower.poll();
        assert!(matches!(items.remove(0), Item::Note(_)));
        let all = records(items);
        assert_eq!(all.iter().filter_map(|r| r.seq).collect::<Vec<_>>(), [6]);
    }
}
