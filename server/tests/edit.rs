//! `edit`: exact changes, bytes around them untouched, all or nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Place, Reply, Server, picture};
use serde_json::{Value, json};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

/// A place whose workspace is open for changes already.
fn opened() -> (Place, Server) {
    let place = Place::new();
    place.write("open", "old");
    let mut server = place.open();
    let args = json!({"path": "open", "content": "x", "overwrite": true});
    server.call_granted("write_file", args).ok();
    (place, server)
}

fn replace(server: &mut Server, path: &str, old: &str, new: &str) -> Reply {
    server.call("edit", json!({"path": path, "old": old, "new": new}))
}

/// Writes `before`, edits, and expects `after` to the byte.
fn check(place: &Place, server: &mut Server, before: &[u8], edits: Value, after: &[u8]) {
    place.write("f", before);
    let reply = server.call("edit", json!({"path": "f", "edits": edits.clone()}));
    let shown = reply.text().to_string();
    reply.ok();
    let found = place.read("f");
    assert_eq!(
        String::from_utf8_lossy(&found),
        String::from_utf8_lossy(after),
        "{edits}: {shown}"
    );
    assert_eq!(found, after, "{edits}");
}

#[test]
fn one_edit_changes_just_what_it_names() {
    let (place, mut server) = opened();
    place.write("a.txt", "one\ntwo\nthree\n");
    let reply = replace(&mut server, "a.txt", "two", "2").ok();
    assert_eq!(place.read("a.txt"), b"one\n2\nthree\n");
    assert_eq!(reply.field("applied"), 1);
    let diff = reply.string("diff");
    assert!(diff.contains("-two\n+2\n"), "{diff}");
    assert_eq!(
        std::fs::read(reply.path("previous_recovery_path")).unwrap(),
        b"one\ntwo\nthree\n"
    );
    let read = server.call("read_file", json!({"path": "a.txt"})).ok();
    assert_eq!(read.field("sha256"), reply.field("sha256"));
    server.end();
}

#[test]
fn line_ends_of_the_file_are_kept() {
    let (place, mut server) = opened();
    let mut ok = |before: &[u8], edits: Value, after: &[u8]| {
        check(&place, &mut server, before, edits, after);
    };
    // An LF needle in a CRLF file, a CRLF needle, a needle over two lines.
    ok(
        b"a\r\nb\r\nc\r\n",
        json!([{"old": "a\nb", "new": "x\ny"}]),
        b"x\r\ny\r\nc\r\n",
    );
    ok(
        b"a\r\nb\r\nc\r\n",
        json!([{"old": "a\r\nb", "new": "x\r\ny"}]),
        b"x\r\ny\r\nc\r\n",
    );
    ok(
        b"a\r\nb\r\n",
        json!([{"old": "b", "new": "b\nc"}]),
        b"a\r\nb\r\nc\r\n",
    );
    ok(
        b"a\r\nb\r\n",
        json!([{"start_line": 2, "end_line": 2, "new": "x\ny\n"}]),
        b"a\r\nx\r\ny\r\n",
    );
    ok(
        b"a\r\nb\r\n",
        json!([{"insert_at": 2, "new": "x\n"}]),
        b"a\r\nx\r\nb\r\n",
    );
    // A file of both kinds keeps each line's own.
    ok(
        b"a\r\nb\nc\r\n",
        json!([{"old": "b", "new": "B"}]),
        b"a\r\nB\nc\r\n",
    );
    // No end at the end.
    ok(b"a\nb", json!([{"old": "b", "new": "c"}]), b"a\nc");
    ok(b"a\nb", json!([{"old": "a", "new": "x"}]), b"x\nb");
    // Never CR CR LF.
    ok(
        b"a\r\n",
        json!([{"old": "a", "new": "b\r\n\r\nc"}]),
        b"b\r\n\r\nc\r\n",
    );
    server.end();
}

#[test]
fn lines_are_counted_before_the_call() {
    let (place, mut server) = opened();
    let mut ok = |before: &[u8], edits: Value, after: &[u8]| {
        check(&place, &mut server, before, edits, after);
    };
    ok(
        b"1\n2\n3\n4\n",
        json!([{"start_line": 1, "end_line": 1, "new": "a\nb\nc\n"},
              {"start_line": 3, "end_line": 4, "new": "z\n"}]),
        b"a\nb\nc\n2\nz\n",
    );
    ok(
        b"1\n2\n",
        json!([{"insert_at": 1, "new": "0\n"}, {"insert_at": 3, "new": "3\n"}]),
        b"0\n1\n2\n3\n",
    );
    ok(
        b"1\n2\n3\n",
        json!([{"start_line": 2, "end_line": 2, "new": ""}]),
        b"1\n3\n",
    );
    ok(b"", json!([{"insert_at": 1, "new": "first\n"}]), b"first\n");
    place.write("f", "1\n2\n");
    for edits in [
        json!([{"start_line": 3, "end_line": 3, "new": "x"}]),
        json!([{"start_line": 2, "end_line": 1, "new": "x"}]),
        json!([{"insert_at": 4, "new": "x"}]),
        json!([{"start_line": 1, "end_line": 99, "new": "x"}]),
        json!([{"start_line": 0, "end_line": 1, "new": "x"}]),
    ] {
        let reply = server.call("edit", json!({"path": "f", "edits": edits}));
        reply.expect_one_of(&["validation", "conflict"]);
    }
    assert_eq!(place.read("f"), b"1\n2\n");
    server.end();
}

#[test]
fn what_is_replaced_is_taken_literally() {
    let (place, mut server) = opened();
    for new in [
        "$$ $& $1 $' $`",
        "\\1 \\n \\",
        "{0} %s",
        "(a+)+$",
        "\u{0}",
        "a\tb",
    ] {
        place.write("f", "keep OLD keep");
        replace(&mut server, "f", "OLD", new).ok();
        assert_eq!(place.read("f"), format!("keep {new} keep").as_bytes());
    }
    for old in ["$1.*[x]", "(a+)+$", "\\d", "^keep"] {
        place.write("f", format!("a {old} b"));
        replace(&mut server, "f", old, "N").ok();
        assert_eq!(place.read("f"), b"a N b");
    }
    server.end();
}

#[test]
fn bytes_of_other_encodings_stay() {
    let (place, mut server) = opened();
    let mut ok = |before: &[u8], edits: Value, after: &[u8]| {
        check(&place, &mut server, before, edits, after);
    };
    // Latin-1.
    ok(
        b"caf\xe9 \xfcber\nline two\nna\xefve\n",
        json!([{"old": "two", "new": "2"}]),
        b"caf\xe9 \xfcber\nline 2\nna\xefve\n",
    );
    // Shift_JIS.
    let sjis = b"\x93\xfa\x96\x7b\x8c\xea\x82\xcc\x83\x65\x83\x4c\x83\x58\x83\x67\nold\n\x8f\x49\x82\xed\x82\xe8\n";
    let after = [&sjis[..17], b"new\n".as_slice(), &sjis[21..]].concat();
    ok(sjis, json!([{"old": "old", "new": "new"}]), &after);
    // UTF-8 with a mark, UTF-16 with one.
    ok(
        b"\xef\xbb\xbfa\nb\n",
        json!([{"old": "a", "new": "c"}]),
        b"\xef\xbb\xbfc\nb\n",
    );
    ok(
        b"\xff\xfea\0\n\0b\0\n\0",
        json!([{"old": "b", "new": "é"}]),
        b"\xff\xfea\0\n\0\xe9\0\n\0",
    );
    // UTF-8 with a byte that is none.
    ok(
        b"good \xe2\x82\xac\nbad \xff byte\nold\n",
        json!([{"old": "old", "new": "new"}]),
        b"good \xe2\x82\xac\nbad \xff byte\nnew\n",
    );
    let cjk = "日本語のテキスト\n古い\n終わり\n";
    ok(
        cjk.as_bytes(),
        json!([{"old": "古い", "new": "新しい"}]),
        "日本語のテキスト\n新しい\n終わり\n".as_bytes(),
    );
    server.end();
}

#[test]
fn several_matches_are_refused_with_their_lines() {
    let (place, mut server) = opened();
    let before = "x\nsame\ny\nsame\nz same\n";
    place.write("f", before);
    let reply = replace(&mut server, "f", "same", "other").expect("conflict");
    for line in ["2", "4", "5", "3"] {
        assert!(reply.text().contains(line), "{line}: {}", reply.text());
    }
    assert_eq!(place.read("f"), before.as_bytes());
    let args = json!({"path": "f", "old": "same", "new": "other", "expected_count": 2});
    server.call("edit", args).expect("conflict");
    assert_eq!(place.read("f"), before.as_bytes());
    let args = json!({"path": "f", "old": "same", "new": "other", "expected_count": 3});
    assert_eq!(server.call("edit", args).ok().field("applied"), 3);
    assert_eq!(place.read("f"), b"x\nother\ny\nother\nz other\n");
    let args = json!({"path": "f", "old": "other", "new": "", "replace_all": true});
    server.call("edit", args).ok();
    assert_eq!(place.read("f"), b"x\n\ny\n\nz \n");
    server.end();
}

#[test]
fn what_is_not_found_is_shown_with_the_nearest_place() {
    let (place, mut server) = opened();
    let cases = [
        (
            "fn main() {\n    let a = 1;\n}\n",
            "fn main() {\n\tlet a = 1;\n}",
            "whitespace",
        ),
        (
            "say \u{201c}hello\u{201d} now\n",
            "say \"hello\" now",
            "quote",
        ),
        ("a\u{a0}b and more\n", "a b and more", ""),
        ("cafe\u{301} is open\n", "caf\u{e9} is open", ""),
        ("let total_count = 5;\n", "let total_cuont = 5;", ""),
    ];
    for (before, old, word) in cases {
        place.write("f", before);
        let reply = replace(&mut server, "f", old, "x").expect("conflict");
        assert!(
            reply.text().to_lowercase().contains(word),
            "{word}: {}",
            reply.text()
        );
        assert!(reply.text().contains('1'), "no line: {}", reply.text());
        assert_eq!(place.read("f"), before.as_bytes());
    }
    place.write("f", "nothing of the kind\n");
    replace(&mut server, "f", "zzzzzzzzzzzzzzz", "x").expect("conflict");
    server.end();
}

#[test]
fn edges_do_not_panic() {
    let (place, mut server) = opened();
    place.write("two", "a\nb\n");
    place.write("empty", "");
    let long = (0..41).map(|n| format!("line {n}\n")).collect::<String>();
    for (path, old) in [
        ("two", long.as_str()),
        ("two", "\n\n\n"),
        ("empty", "a"),
        ("empty", "\n"),
        ("two", "\u{1F642}"),
        ("two", "b\n\n"),
    ] {
        replace(&mut server, path, old, "x").expect("conflict");
    }
    replace(&mut server, "two", "", "x").expect_one_of(&["validation", "conflict"]);
    let same = replace(&mut server, "two", "a", "a");
    same.expect_one_of(&["ok", "validation", "conflict"]);
    assert_eq!(place.read("two"), b"a\nb\n");
    assert_eq!(place.read("empty"), b"");
    let ended = server.end();
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    let faults = place.home().join("logs/server_faults.log");
    assert_eq!(std::fs::read_to_string(faults).unwrap_or_default(), "");
}

#[test]
fn edits_of_one_call_apply_in_order_or_not_at_all() {
    let (place, mut server) = opened();
    let mut ok = |before: &[u8], edits: Value, after: &[u8]| {
        check(&place, &mut server, before, edits, after);
    };
    ok(
        b"a\n",
        json!([{"old": "a", "new": "b"}, {"old": "b", "new": "c"}]),
        b"c\n",
    );
    place.write("f", "one two\n");
    let edits = json!([{"old": "one", "new": "1"}, {"old": "gone", "new": "x"}]);
    let reply = server
        .call("edit", json!({"path": "f", "edits": edits}))
        .expect("conflict");
    assert!(
        reply.text().contains("edits[1]") || reply.text().contains('2'),
        "{}",
        reply.text()
    );
    assert_eq!(place.read("f"), b"one two\n");
    server.end();
}

#[test]
fn several_files_change_together_or_not_at_all() {
    let (place, mut server) = opened();
    place.write("a", "old a\n");
    place.write("b", "old b\n");
    let before = picture(&place.workspace());
    let files = |second: &str| {
        json!({"files": [
            {"path": "a", "edits": [{"old": "old", "new": "new"}]},
            {"path": "b", "edits": [{"old": second, "new": "new"}]},
        ]})
    };
    server.call("edit", files("gone")).expect("conflict");
    assert_eq!(picture(&place.workspace()), before);
    let missing = json!({"files": [
        {"path": "a", "edits": [{"old": "old", "new": "new"}]},
        {"path": "c", "edits": [{"old": "old", "new": "new"}]},
    ]});
    server.call("edit", missing).expect("not_found");
    let twice = json!({"files": [
        {"path": "a", "edits": [{"old": "old", "new": "new"}]},
        {"path": "./a", "edits": [{"old": "a", "new": "b"}]},
    ]});
    server.call("edit", twice).expect("validation");
    assert_eq!(picture(&place.workspace()), before);
    let reply = server.call("edit", files("old")).ok();
    assert_eq!(
        (place.read("a"), place.read("b")),
        (b"new a\n".to_vec(), b"new b\n".to_vec())
    );
    assert_eq!(reply.field("files").as_array().unwrap().len(), 2);
    server.end();
}

#[test]
fn a_hash_that_differs_stops_it() {
    let (place, mut server) = opened();
    place.write("f", "one\n");
    let read = server.call("read_file", json!({"path": "f"})).ok();
    let hash = read.string("sha256").to_string();
    let args = json!({"path": "f", "old": "one", "new": "two", "if_sha256": hash.to_uppercase()});
    server.call("edit", args.clone()).ok();
    place.write("f", "one, saved by the person\n");
    server.call("edit", args).expect("conflict");
    assert_eq!(place.read("f"), b"one, saved by the person\n");
    server.end();
}

#[test]
fn a_dry_run_shows_and_writes_nothing_and_asks_nothing() {
    let place = Place::new();
    place.write("f", "one\n");
    let before = picture(&place.workspace());
    let mut server = place.open();
    let args = json!({"path": "f", "old": "one", "new": "two", "dry_run": true});
    let reply = server.call("edit", args).ok();
    assert!(reply.string("diff").contains("-one\n+two\n"));
    assert_eq!(picture(&place.workspace()), before);
    server.end();
}

#[test]
fn links_modes_and_missing_files() {
    let (place, mut server) = opened();
    place.write("real.txt", "old\n");
    symlink("real.txt", place.at("link.txt")).unwrap();
    replace(&mut server, "link.txt", "old", "new").ok();
    assert_eq!(
        place.at("link.txt").read_link().unwrap(),
        Path::new("real.txt")
    );
    assert_eq!(place.read("real.txt"), b"new\n");
    let script = place.write("run.sh", "old\n");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o754)).unwrap();
    replace(&mut server, "run.sh", "old", "new").ok();
    assert_eq!(script.metadata().unwrap().mode() & 0o7777, 0o754);
    replace(&mut server, "gone.txt", "a", "b").expect("not_found");
    std::fs::create_dir(place.at("d")).unwrap();
    replace(&mut server, "d", "a", "b").failed();
    place.write("big", vec![b'x'; 40 * 1024 * 1024]);
    let big = replace(&mut server, "big", "y", "z");
    big.expect_one_of(&["too_large", "conflict"]);
    server.end();
}

#[test]
fn edits_at_once_on_one_file_are_all_there() {
    let (place, mut server) = opened();
    let lines: String = (0..20).map(|n| format!("<{n}>\n")).collect();
    place.write("f", lines);
    let ids: Vec<Value> = (0..20)
        .map(|n| {
            let args = json!({"path": "f", "old": format!("<{n}>"), "new": format!("[{n}]")});
            server.start_call("edit", args)
        })
        .collect();
    ids.iter().for_each(|id| drop(server.reply(id).ok()));
    let expected: String = (0..20).map(|n| format!("[{n}]\n")).collect();
    assert_eq!(String::from_utf8(place.read("f")).unwrap(), expected);
    server.end();
}
