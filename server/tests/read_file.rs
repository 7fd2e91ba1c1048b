//! `read_file`: text of any encoding as it is, folders, and quick answers for all else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Place, SOON, is_root};
use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::time::Instant;

fn utf16(text: &str, bom: &[u8], bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    let units = text.encode_utf16().flat_map(bytes);
    bom.iter().copied().chain(units).collect()
}

#[test]
fn text_comes_as_it_is_with_its_facts() {
    let place = Place::new();
    let text = "one\ntwo ünï \u{1F642}\n\tthree\n";
    let path = place.write("a.txt", text);
    let mut server = place.open();
    for name in ["a.txt", "./a.txt", "~/Hands/a.txt", path.to_str().unwrap()] {
        let reply = server.call("read_file", json!({"path": name})).ok();
        assert_eq!(reply.text(), text, "{name}");
        assert_eq!(reply.path("path"), path);
    }
    let reply = server.call("read_file", json!({"path": "a.txt"})).ok();
    let data = reply.data();
    assert_eq!(data["kind"], "text");
    assert_eq!(data["size"], text.len());
    assert_eq!(data["total_lines"], 3);
    assert_eq!(
        (&data["start_line"], &data["end_line"]),
        (&json!(1), &json!(3))
    );
    assert_eq!(data["eol"], "lf");
    let (_, sums, _) = {
        let out = std::process::Command::new("sha256sum")
            .arg(&path)
            .output()
            .unwrap();
        (0, String::from_utf8(out.stdout).unwrap(), 0)
    };
    assert!(sums.starts_with(data["sha256"].as_str().unwrap()), "{sums}");
    server.end();
}

#[test]
fn pages_are_lines_from_one_or_from_the_end() {
    let place = Place::new();
    let text: String = (1..=20_000).map(|n| format!("line {n}\n")).collect();
    place.write("a.txt", text);
    place.write("no-end.txt", "a\nb\nc");
    let mut server = place.open();
    let mut page = |args: Value| server.call("read_file", args).ok();
    let middle = page(json!({"path": "a.txt", "offset": 10_000, "limit": 2}));
    assert_eq!(middle.string("text"), "line 10000\nline 10001\n");
    assert_eq!(middle.field("total_lines"), 20_000);
    assert_eq!(middle.field("truncated"), true);
    let last = page(json!({"path": "a.txt", "offset": -2}));
    assert_eq!(last.string("text"), "line 19999\nline 20000\n");
    assert_eq!(last.field("start_line"), 19_999);
    assert_eq!(
        page(json!({"path": "no-end.txt", "offset": -1})).string("text"),
        "c"
    );
    assert_eq!(
        page(json!({"path": "no-end.txt", "offset": 2, "limit": 1})).string("text"),
        "b\n"
    );
    assert_eq!(
        page(json!({"path": "no-end.txt", "offset": -99})).string("text"),
        "a\nb\nc"
    );
    let past = page(json!({"path": "no-end.txt", "offset": 9}));
    assert!(past.text().contains("3 lines"), "{}", past.text());
    let numbered = page(json!({"path": "no-end.txt", "line_numbers": true, "offset": 2}));
    assert!(
        numbered.text().contains("2\tb\n3\tc"),
        "{}",
        numbered.text()
    );
    // One page after the other is the whole.
    let mut all = String::new();
    let mut offset = 1;
    while offset <= 20_000 {
        let reply = page(json!({"path": "a.txt", "offset": offset, "limit": 3000}));
        all.push_str(reply.string("text"));
        offset = reply.field("end_line").as_u64().unwrap() + 1;
    }
    assert_eq!(all.lines().count(), 20_000);
    assert!(all.ends_with("line 20000\n"));
    server.end();
}

#[test]
fn encodings_are_found_and_named() {
    let place = Place::new();
    let text = "Größe: 5 µm\nzweite Zeile äöü\n";
    let files: [(&str, Vec<u8>, &str); 7] = [
        (
            "utf16le-bom",
            utf16(text, b"\xff\xfe", u16::to_le_bytes),
            "utf-16le",
        ),
        (
            "utf16be-bom",
            utf16(text, b"\xfe\xff", u16::to_be_bytes),
            "utf-16be",
        ),
        (
            "utf8-bom",
            [b"\xef\xbb\xbf", text.as_bytes()].concat(),
            "utf-8",
        ),
        ("utf16le", utf16(text, b"", u16::to_le_bytes), "utf-16le"),
        ("latin1", text.chars().map(|c| c as u8).collect(), ""),
        ("utf8", text.as_bytes().to_vec(), "utf-8"),
        (
            "utf32le",
            [0xff, 0xfe, 0, 0]
                .into_iter()
                .chain(text.chars().flat_map(|c| (c as u32).to_le_bytes()))
                .collect(),
            "utf-32le",
        ),
    ];
    let mut server = place.open();
    for (name, bytes, encoding) in files {
        place.write(name, &bytes);
        let reply = server.call("read_file", json!({"path": name})).ok();
        assert_eq!(reply.text(), text, "{name}");
        let named = reply.string("encoding").to_lowercase();
        assert!(named.starts_with(encoding), "{name}: {named}");
        assert!(!reply.text().contains(['\0', '\u{feff}']), "{name}");
    }
    // What is asked for is used.
    place.write("cyrillic", b"\xcf\xf0\xe8\xe2\xe5\xf2\n");
    let args = json!({"path": "cyrillic", "encoding": "windows-1251"});
    assert_eq!(server.call("read_file", args).ok().text(), "Привет\n");
    let args = json!({"path": "cyrillic", "encoding": "klingon"});
    server.call("read_file", args).expect("validation");
    server.end();
}

#[test]
fn line_ends_are_told() {
    let place = Place::new();
    let mut server = place.open();
    for (name, text, eol) in [
        ("lf", "a\nb\n", "lf"),
        ("crlf", "a\r\nb\r\n", "crlf"),
        ("mixed", "a\r\nb\nc\n", "mixed"),
        ("none", "a", "none"),
    ] {
        place.write(name, text);
        let reply = server.call("read_file", json!({"path": name})).ok();
        assert_eq!(reply.string("eol"), eol, "{name}");
        assert_eq!(reply.string("text"), text);
    }
    place.write("empty", "");
    let empty = server.call("read_file", json!({"path": "empty"})).ok();
    assert_eq!(empty.field("total_lines"), 0);
    assert_eq!(empty.string("text"), "");
    assert!(!empty.text().is_empty());
    server.end();
}

#[test]
fn a_name_is_found_in_either_unicode_form() {
    let place = Place::new();
    place.write("caf\u{e9}.txt", "composed");
    place.write("re\u{301}sume\u{301}.txt", "decomposed");
    let mut server = place.open();
    for name in ["caf\u{e9}.txt", "cafe\u{301}.txt"] {
        let reply = server.call("read_file", json!({"path": name})).ok();
        assert_eq!(reply.text(), "composed");
    }
    for name in ["r\u{e9}sum\u{e9}.txt", "re\u{301}sume\u{301}.txt"] {
        let reply = server.call("read_file", json!({"path": name})).ok();
        assert_eq!(reply.text(), "decomposed");
    }
    // With both there, the exact one is meant.
    place.write("cafe\u{301}.txt", "other");
    for (name, text) in [("caf\u{e9}.txt", "composed"), ("cafe\u{301}.txt", "other")] {
        let reply = server.call("read_file", json!({"path": name})).ok();
        assert_eq!(reply.text(), text);
    }
    server.end();
}

#[test]
fn a_folder_lists_its_entries() {
    let place = Place::new();
    place.write("d/a.txt", "12345");
    place.write("d/.hidden", "");
    place.write("d/ignored.log", "");
    place.write("d/.gitignore", "*.log\n");
    place.write("d/two\nlines", "");
    std::fs::create_dir(place.at("d/sub")).unwrap();
    symlink("a.txt", place.at("d/link")).unwrap();
    let mut server = place.open();
    let reply = server.call("read_file", json!({"path": "d"})).ok();
    assert_eq!(reply.string("kind"), "folder");
    let entries = reply.field("entries").as_array().unwrap();
    let find = |name: &str| entries.iter().find(|e| e["name"] == name).unwrap();
    assert_eq!(entries.len(), 7);
    assert_eq!(find("a.txt")["size"], 5);
    assert_eq!(find("sub")["type"], "folder");
    assert_eq!(find("link")["type"], "link");
    find(".hidden");
    find("ignored.log");
    find("two\nlines");
    assert!(find("a.txt")["mtime"].as_str().unwrap().ends_with('Z'));
    assert_eq!(reply.text().lines().count(), 8, "{}", reply.text());
    for n in 0..2100 {
        place.write(&format!("many/{n}"), "");
    }
    let many = server.call("read_file", json!({"path": "many"})).ok();
    assert_eq!(many.field("truncated"), true);
    assert_eq!(many.field("total_entries"), 2100);
    assert!(many.field("size").is_null());
    let last = many.text().lines().last().unwrap();
    assert_eq!(last, "[entries 1–2000 of 2100; go on with offset 2001]");
    // One page after the other is the whole folder.
    let mut names = Vec::new();
    for offset in [1, 1001, 2001] {
        let args = json!({"path": "many", "offset": offset, "limit": 1000});
        let page = server.call("read_file", args).ok();
        assert_eq!(page.field("truncated") == true, offset < 2001, "{offset}");
        let entries = page.field("entries").as_array().unwrap();
        names.extend(
            entries
                .iter()
                .map(|e| e["name"].as_str().unwrap().to_string()),
        );
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 2100);
    let mut ends = |offset: i64, limit: u64| {
        let args = json!({"path": "many", "offset": offset, "limit": limit});
        server.call("read_file", args).ok()
    };
    let end = ends(-2, 1);
    assert_eq!(end.field("entries")[0]["name"], "998");
    assert!(
        end.text()
            .ends_with("[entries 2099–2099 of 2100; go on with offset 2100]")
    );
    let past = ends(2101, 1);
    assert_eq!(past.field("entries"), &json!([]));
    assert!(past.text().contains("no such entry"), "{}", past.text());
    assert!(past.field("truncated").is_null());
    server.end();
}

#[test]
fn missing_and_denied_are_told_apart() {
    let place = Place::new();
    place.write("report.txt", "x");
    place.write("locked/in.txt", "x");
    place.write("unreadable.txt", "x");
    let mut server = place.open();
    let near = server
        .call("read_file", json!({"path": "repotr.txt"}))
        .expect("not_found");
    assert!(near.text().contains("report.txt"), "{}", near.text());
    server
        .call("read_file", json!({"path": "no/such/dir/x"}))
        .expect("not_found");
    server
        .call("read_file", json!({"path": "report.txt/x"}))
        .expect("validation");
    server
        .call("read_file", json!({"path": "/etc/passwd"}))
        .expect("protected_path");
    if !is_root() {
        let mode = |name: &str, mode| {
            std::fs::set_permissions(place.at(name), PermissionsExt::from_mode(mode)).unwrap();
        };
        mode("unreadable.txt", 0o000);
        mode("locked", 0o000);
        for name in ["unreadable.txt", "locked/in.txt"] {
            let denied = server
                .call("read_file", json!({"path": name}))
                .expect("sandbox");
            assert!(
                denied.text().to_lowercase().contains("permission"),
                "{}",
                denied.text()
            );
        }
        mode("locked", 0o700);
    }
    server.end();
}

#[test]
fn long_lines_and_many_bytes_are_cut() {
    let place = Place::new();
    let line = "é".repeat(20_000);
    place.write("long.txt", format!("{line}\n").repeat(50));
    place.write("one.txt", "x".repeat(5_000_000));
    let mut server = place.open();
    let reply = server.call("read_file", json!({"path": "long.txt"})).ok();
    assert!(reply.text().len() < 400_000, "{}", reply.text().len());
    assert_eq!(reply.field("truncated"), true);
    let reply = server.call("read_file", json!({"path": "one.txt"})).ok();
    assert!(reply.text().len() < 10_000);
    assert_eq!(reply.field("size"), 5_000_000);
    let text: String = (0..100_000).map(|n| format!("{n:0100}\n")).collect();
    place.write("big.txt", text);
    let reply = server
        .call("read_file", json!({"path": "big.txt", "limit": 100_000}))
        .ok();
    assert!(reply.text().len() <= 1024 * 1024);
    let end = reply.field("end_line").as_u64().unwrap();
    assert!(reply.text().contains(&format!("offset {}", end + 1)));
    server.end();
}

#[test]
fn kinds_are_told_by_content_and_not_by_name() {
    let place = Place::new();
    place.write("really-text.xlsx", "a,b\n1,2\n");
    place.write(
        "really-png.txt",
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0",
    );
    let noise: Vec<u8> = (0..100_000_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    place.write("noise.bin", noise);
    let mut server = place.open();
    let text = server
        .call("read_file", json!({"path": "really-text.xlsx"}))
        .ok();
    assert_eq!(text.text(), "a,b\n1,2\n");
    let png = server
        .call("read_file", json!({"path": "really-png.txt"}))
        .expect("unsupported");
    assert_eq!(png.string("mime"), "image/png");
    let bin = server
        .call("read_file", json!({"path": "noise.bin"}))
        .expect("unsupported");
    assert_eq!(bin.field("size"), 100_000);
    assert!(bin.text().len() < 1000, "{}", bin.text());
    let facts = server
        .call("read_file", json!({"path": "noise.bin", "as": "metadata"}))
        .ok();
    assert_eq!(facts.field("size"), 100_000);
    for how in ["image", "hex"] {
        server
            .call("read_file", json!({"path": "noise.bin", "as": how}))
            .expect("unsupported");
    }
    server
        .call("read_file", json!({"path": "noise.bin", "pages": "1-3"}))
        .expect("unsupported");
    server.end();
}

#[test]
fn fifos_sockets_and_devices_answer_at_once() {
    let place = Place::new();
    let fifo = place.at("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    let _socket = UnixListener::bind(place.at("s")).unwrap();
    symlink("/dev/zero", place.at("zero")).unwrap();
    symlink("fifo", place.at("to-fifo")).unwrap();
    let mut server = place.open();
    let began = Instant::now();
    for name in ["fifo", "s", "to-fifo"] {
        for args in [
            json!({"path": name}),
            json!({"path": name, "as": "metadata"}),
        ] {
            server.call("read_file", args).expect("unsupported");
        }
        let args = json!({"path": name, "content": "x", "overwrite": true});
        server.call("write_file", args).expect("unsupported");
        let args = json!({"path": name, "old": "a", "new": "b"});
        server.call("edit", args).expect("unsupported");
    }
    for name in [
        "zero",
        "/dev/zero",
        "/dev/tty",
        "/dev/stdin",
        "/proc/self/fd/0",
        "/proc/kmsg",
    ] {
        server
            .call("read_file", json!({"path": name}))
            .expect("protected_path");
    }
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    server.end();
}

#[test]
fn the_whole_of_a_cut_output_is_readable_under_its_origins_protection() {
    let place = Place::new();
    place.write("a.txt", "old content");
    let mut server = place.open();
    let args = json!({"path": "a.txt", "content": "new", "overwrite": true});
    let kept = server
        .call_granted("write_file", args)
        .ok()
        .path("previous_recovery_path");
    let read = server.call("read_file", json!({"path": kept})).ok();
    assert_eq!(read.text(), "old content");
    // Recovery files are read, never written.
    let args = json!({"path": kept, "content": "x", "overwrite": true});
    server.call("write_file", args).expect("protected_path");
    server
        .call("edit", json!({"path": kept, "old": "old", "new": "x"}))
        .expect("protected_path");
    let made = kept.parent().unwrap().join("made-up.txt");
    server
        .call("write_file", json!({"path": made, "content": "x"}))
        .expect("protected_path");
    assert_eq!(std::fs::read(&kept).unwrap(), b"old content");
    server.end();
}

/// What came to be protected since it was kept, or always was, is not read through its copy: by no
/// name that the copy, its compressed form or its record has.
#[test]
fn a_copy_of_a_protected_file_is_protected() {
    let place = Place::new();
    let file = place.write("later.txt", "secret content\n".repeat(1000));
    let mut server = place.open();
    let args = json!({"path": "later.txt", "content": "new", "overwrite": true});
    let kept = server.call_granted("write_file", args).ok();
    let kept = kept.path("previous_recovery_path");
    let other = json!({"path": "open.txt", "content": "x"});
    server.call("write_file", other).ok();
    let args = json!({"path": "open.txt", "content": "new", "overwrite": true});
    let open = server.call_granted("write_file", args).ok();
    let open = open.path("previous_recovery_path");
    server.end();

    let beside = |path: &std::path::Path, end: &str| {
        let name = path.file_name().unwrap().to_str().unwrap();
        path.with_file_name(format!("{name}{end}"))
    };
    let record = beside(&kept, ".meta.json");
    let text = std::fs::read_to_string(&record).unwrap();
    assert!(text.contains("\"session_id\":\"s-"), "{text}");
    let protect = format!("[protect]\npaths = [{:?}]\n", file.to_str().unwrap());
    std::fs::write(place.home().join("config.toml"), protect).unwrap();
    let mut server = place.open();
    for path in [&kept, &record] {
        for how in ["auto", "text", "metadata"] {
            let args = json!({"path": path, "as": how});
            let reply = server.call("read_file", args).expect("protected_path");
            assert!(!reply.text().contains("secret content"), "{}", reply.text());
        }
    }
    let read = server.call("read_file", json!({"path": open})).ok();
    assert_eq!(read.text(), "x");
    // A link in the workspace leads no further.
    std::os::unix::fs::symlink(&kept, place.at("link")).unwrap();
    let reply = server.call("read_file", json!({"path": "link"}));
    assert!(!reply.text().contains("secret content"), "{}", reply.text());
    // Compressed, under both names.
    let packed = [(&kept, "protected_path"), (&open, "unsupported")];
    for (path, code) in packed {
        std::fs::rename(path, beside(path, ".packed.gz")).unwrap();
        for path in [path.clone(), beside(path, ".packed.gz")] {
            let reply = server.call("read_file", json!({"path": path}));
            let reply = reply.expect(code);
            assert!(!reply.text().contains("secret content"), "{}", reply.text());
        }
    }
    // A content whose record is gone is nobody's.
    std::fs::remove_file(beside(&open, ".meta.json")).unwrap();
    server
        .call("read_file", json!({"path": beside(&open, ".packed.gz")}))
        .expect("protected_path");
    server.end();
}

#[test]
fn a_file_that_changes_is_read_as_it_is_now() {
    let place = Place::new();
    let mut server = place.open();
    for n in 0..20 {
        place.write("a.txt", format!("{n:04}\n"));
        let reply = server.call("read_file", json!({"path": "a.txt"})).ok();
        assert_eq!(reply.text(), format!("{n:04}\n"));
        let hash = reply.string("sha256").to_string();
        let edit = json!({"path": "a.txt", "old": "0", "new": "9", "replace_all": true,
                          "if_sha256": hash, "dry_run": true});
        server.call("edit", edit).ok();
    }
    server.end();
}

#[test]
fn a_commands_whole_output_is_paged_to_its_last_byte() {
    let place = Place::new();
    let mut server = place.open();
    // One line of three megabytes, all of it different, and what looks like another encoding.
    let print = "seq -s, 1 400000 | tr -d '\\n'; printf '\\n\\000\\377\\001 caf\\351\\n'";
    let reply = server.bash(print).ok();
    let kept = reply.path("recovery_path");
    let size = reply.field("total_bytes").as_u64().unwrap();
    let mut all = String::new();
    let (mut offset, mut total) = (1, 2);
    while offset <= total {
        let args = json!({"path": kept, "offset": offset, "limit": 40});
        let page = server.call("read_file", args).ok();
        assert_eq!(page.string("encoding"), "utf-8");
        assert!(page.text().contains("[lines over 4000 bytes are wrapped]"));
        total = page.field("total_lines").as_u64().unwrap();
        let end = page.field("end_line").as_u64().unwrap();
        assert_eq!(page.field("truncated") == true, end < total);
        all.push_str(page.string("text"));
        offset = end + 1;
    }
    let numbers: Vec<String> = (1..=400_000).map(|n| n.to_string()).collect();
    let line = numbers.join(",");
    assert_eq!(line.len() as u64 + 10, size);
    let (first, last) = all.split_at(all.len() - "\0\u{fffd}\u{1} caf\u{fffd}\n".len());
    assert!(
        first.replace('\n', "") == line,
        "the pages are not the whole"
    );
    assert_eq!(last, "\0\u{fffd}\u{1} caf\u{fffd}\n");
    let end = server.call("read_file", json!({"path": kept, "offset": -1}));
    assert_eq!(end.ok().string("text"), last);
    // What is asked for is used all the same.
    let args = json!({"path": kept, "offset": -1, "encoding": "latin1"});
    let latin = server.call("read_file", args).ok();
    assert!(latin.string("text").ends_with("caf\u{e9}\n"));
    server.end();
}

#[test]
fn an_output_too_large_to_be_read_at_once_is_paged_as_well() {
    let place = Place::new();
    let mut server = place.open();
    let print = "head -c 70000000 /dev/zero | tr '\\0' x; printf '\\nthe end\\377\\n'";
    let kept = server.bash(print).ok().path("recovery_path");
    let mut page = |offset: i64, limit: u64| {
        let args = json!({"path": kept, "offset": offset, "limit": limit});
        server.call("read_file", args).ok()
    };
    let middle = page(17_500, 9);
    let expected = format!("{}\nthe end\u{fffd}\n", "x".repeat(4000));
    assert_eq!(middle.string("text"), expected);
    assert!(middle.field("truncated").is_null());
    let begin = page(1, 2);
    assert_eq!(
        begin.string("text"),
        format!("{0}\n{0}\n", "x".repeat(4000))
    );
    assert!(begin.text().contains("go on with offset 3]"));
    assert!(begin.text().contains("wrapped"));
    let end = page(-1, 1);
    assert_eq!(end.string("text"), "the end\u{fffd}\n");
    server.end();
}

#[test]
fn bash_is_not_advised_for_what_it_cannot_see() {
    let place = Place::new();
    let long = format!("{}\n", "x".repeat(10_000));
    place.write("a.txt", &long);
    let mut server = place.open();
    let own = server.call("read_file", json!({"path": "a.txt"})).ok();
    assert!(own.text().contains("are cut; use bash"), "{}", own.text());
    let args = json!({"path": "a.txt", "content": "new", "overwrite": true});
    let reply = server.call_granted("write_file", args).ok();
    let kept = reply.path("previous_recovery_path");
    let read = server.call("read_file", json!({"path": kept})).ok();
    assert!(read.text().ends_with("bytes are cut]"), "{}", read.text());
    assert!(!read.text().contains("bash"), "{}", read.text());
    server.end();
}

#[test]
fn as_text_reads_what_looks_binary() {
    let place = Place::new();
    place.write("log", b"a line\0with a NUL\nand more text \xff here\n");
    place.write("latin", b"caf\xe9\0\x01\x02\n");
    place.write("noise", [0_u8, 1, 2, 3].repeat(100));
    let mut server = place.open();
    let refused = server.call("read_file", json!({"path": "log"}));
    let refused = refused.expect("unsupported");
    assert!(
        refused.string("hint").contains("as: text"),
        "{}",
        refused.text()
    );
    let text = server
        .call("read_file", json!({"path": "log", "as": "text"}))
        .ok();
    assert!(text.string("text").starts_with("a line\0with a NUL\n"));
    assert_eq!(text.field("total_lines"), 2);
    let args = json!({"path": "latin", "as": "text", "encoding": "latin1"});
    let text = server.call("read_file", args).ok();
    assert_eq!(text.string("text"), "caf\u{e9}\0\u{1}\u{2}\n");
    let noise = server.call("read_file", json!({"path": "noise"}));
    let noise = noise.expect("unsupported");
    assert!(!noise.string("hint").contains("as: text"));
    server.end();
}
