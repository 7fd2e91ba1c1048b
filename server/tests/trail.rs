//! The trail and the configuration: every call is on record, no secret is, and no damage goes
//! unseen.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{END, Place, SOON, put, until};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Looks like a token and is none.
fn token(prefix: &str) -> String {
    format!("{prefix}{}", "a1B2c3D4e5F6".repeat(3))
}

fn log(place: &Place) -> std::path::PathBuf {
    place.home().join("logs/agent_activity.jsonl")
}

/// A finished session with a few calls.
fn with_calls() -> Place {
    let place = Place::new();
    place.write("a.txt", "old");
    let mut server = place.open();
    server.bash("echo one").ok();
    server.call("read_file", json!({"path": "a.txt"})).ok();
    server
        .call("write_file", json!({"path": "b.txt", "content": "x"}))
        .ok();
    server.bash("exit 4").expect("process");
    server.end();
    assert_eq!(place.trail().len(), 8);
    assert_eq!(place.verify()["ok"], true);
    place
}

#[test]
fn every_call_leaves_a_call_and_a_result() {
    let place = Place::new();
    place.write("a.txt", "old");
    let mut server = place.open();
    let mut turns = BTreeMap::new();
    let calls = [
        ("bash", json!({"command": "echo hi"})),
        ("bash", json!({"command": "exit 3"})),
        ("bash", json!({"command": "rm a.txt"})),
        ("bash", json!({"command": "sleep 60", "timeout_s": 1})),
        ("bash", json!({})),
        ("bash", json!({"command": "true", "no_such": 1})),
        ("read_file", json!({"path": "a.txt"})),
        ("read_file", json!({"path": "gone"})),
        ("read_file", json!({"path": "/etc/shadow"})),
        (
            "write_file",
            json!({"path": "a.txt", "content": "x", "overwrite": true}),
        ),
        ("write_file", json!({"path": "new", "content": "x"})),
        ("edit", json!({"path": "a.txt", "old": "zzz", "new": "y"})),
    ];
    for (tool, args) in calls {
        let reply = server.call(tool, args);
        let turn = reply.string("turn_id").to_string();
        turns.insert(
            turn,
            (
                tool,
                reply.code().to_string(),
                reply.field("duration_ms").clone(),
            ),
        );
    }
    // A cancelled one too.
    let id = server.start_call("bash", json!({"command": "touch begun; sleep 60"}));
    until("it began", SOON, || place.at("begun").exists());
    server.notify("notifications/cancelled", json!({"requestId": id}));
    let reply = server.reply(&id).expect("cancelled");
    turns.insert(
        reply.string("turn_id").to_string(),
        (
            "bash",
            "cancelled".into(),
            reply.field("duration_ms").clone(),
        ),
    );
    server.end();

    let trail = place.trail();
    for (turn, (tool, code, _)) in &turns {
        let of: Vec<&Value> = trail
            .iter()
            .filter(|r| r["turn_id"] == turn.as_str())
            .collect();
        let calls = of.iter().filter(|r| r["event"] == "call").count();
        let ends: Vec<_> = of
            .iter()
            .filter(|r| r["event"] == "result" || r["event"] == "denied")
            .collect();
        assert_eq!((calls, ends.len()), (1, 1), "{tool} {code}: {of:#?}");
        assert_eq!(of[0]["event"], "call");
        assert_eq!(of.last(), Some(ends[0]), "the end comes last");
        assert_eq!(ends[0]["code"], code.as_str());
        assert_eq!(ends[0]["tool"], *tool);
        assert!(ends[0]["duration_ms"].is_u64() && ends[0]["bytes_out"].is_u64());
        let denied = ["protected_path", "delete_blocked", "permission_required"];
        let event = if denied.contains(&code.as_str()) {
            "denied"
        } else {
            "result"
        };
        assert_eq!(ends[0]["event"], event, "{code}");
    }
    for (n, record) in trail.iter().enumerate() {
        assert_eq!(record["seq"], n + 1);
        assert_eq!(record["session_id"], trail[0]["session_id"]);
        assert_eq!(
            record["client"],
            json!({"name": "test-client", "version": "1.2.3"})
        );
        assert!(record["ts"].as_str().unwrap().ends_with('Z'));
        assert!(record["mac"].is_string() && record["pid"].is_u64());
    }
    let report = place.verify();
    assert_eq!(report["ok"], true, "{report}");
    assert_eq!(report["records"], trail.len());
}

#[test]
fn secrets_in_arguments_reach_no_log() {
    let place = Place::new();
    let secrets = [
        token("ghp_"),
        token("sk-proj-"),
        token("glpat-"),
        format!("AKIA{}", "Q7Z2".repeat(4)),
    ];
    let password = "hunter2-correct-horse";
    let mut server = place.open();
    for secret in &secrets {
        server.bash(&format!("echo {secret} > /dev/null")).ok();
        let args = json!({"command": "true", "env": {"MY_TOKEN": secret, "X": secret}});
        server.call("bash", args).ok();
        let path = format!("f-{}", secrets.iter().position(|s| s == secret).unwrap());
        server
            .call(
                "write_file",
                json!({"path": path, "content": format!("key: {secret}\n")}),
            )
            .ok();
        server
            .call(
                "bash",
                json!({"command": "cat > /dev/null", "stdin": secret}),
            )
            .ok();
        // Where a long string is cut.
        let long = format!("{}{secret}{}", "x ".repeat(500), " y".repeat(2000));
        server.bash(&format!("true {long}")).ok();
    }
    server
        .bash(&format!(
            "true --password={password}; export DB_PASSWORD='{password}'"
        ))
        .ok();
    let with_header = "true curl -H 'Authorization: Bearer abcdef0123456789abcdef0123456789'";
    server.bash(with_header).ok();
    server
        .bash(&format!("true postgres://ann:{password}@db.example/x"))
        .ok();
    let ended = server.end();
    let mut logs = ended.stderr;
    for entry in std::fs::read_dir(place.home().join("logs")).unwrap() {
        logs.push_str(&std::fs::read_to_string(entry.unwrap().path()).unwrap());
    }
    for secret in secrets
        .iter()
        .map(String::as_str)
        .chain([password, "abcdef0123456789abcdef"])
    {
        let at = logs
            .find(secret)
            .map(|at| &logs[at.saturating_sub(200)..at]);
        assert_eq!(at, None, "{secret} is in a log, after this");
    }
    assert!(
        logs.contains("true --password="),
        "the rest of the command is there"
    );
}

#[test]
fn long_arguments_are_kept_as_head_length_and_hash() {
    let place = Place::new();
    let mut server = place.open();
    let content = "line of text\n".repeat(100_000);
    server
        .call("write_file", json!({"path": "a", "content": content}))
        .ok();
    server.end();
    let record = &place.trail()[0];
    let kept = &record["args"]["content"];
    assert_eq!(kept["length"], content.len());
    assert!(kept["sha256"].is_string());
    assert!(record.to_string().len() < 8000);
}

#[test]
fn damage_is_found_and_the_first_bad_record_named() {
    type Damage = fn(&mut Vec<String>);
    let damages: [(&str, Damage, Option<u64>, &str); 7] = [
        (
            "a changed word",
            |l| l[2] = l[2].replace("read_file", "read_fi1e"),
            Some(3),
            "altered",
        ),
        (
            "a changed time",
            |l| l[4] = l[4].replacen("\"ts\":\"20", "\"ts\":\"19", 1),
            Some(5),
            "altered",
        ),
        ("a removed line", |l| drop(l.remove(3)), Some(4), "removed"),
        (
            "a removed first line",
            |l| drop(l.remove(0)),
            Some(1),
            "removed",
        ),
        ("a removed end", |l| l.truncate(6), Some(6), "cut"),
        ("two lines exchanged", |l| l.swap(3, 4), None, ""),
        (
            "a line twice",
            |l| l.insert(2, l[1].clone()),
            Some(3),
            "duplicated",
        ),
    ];
    let place = with_calls();
    let whole = place.trail_lines();
    for (what, damage, line, reason) in damages {
        let mut lines = whole.clone();
        damage(&mut lines);
        std::fs::write(log(&place), lines.join("\n") + "\n").unwrap();
        let report = place.verify();
        assert_eq!(report["ok"], false, "{what}");
        let bad = &report["first_bad"];
        if let Some(line) = line {
            assert_eq!(bad["line"], line, "{what}: {report}");
            assert_eq!(bad["reason"], reason, "{what}: {report}");
        }
        let (code, out, _) = place.handsctl(&["logs", "verify"]);
        assert_eq!(code, Some(1), "{what}");
        assert!(
            out.contains("BROKEN") && out.contains("agent_activity.jsonl"),
            "{what}: {out}"
        );
    }
    std::fs::write(log(&place), whole.join("\n") + "\n").unwrap();
    assert_eq!(place.verify()["ok"], true, "put back");
}

#[test]
fn a_whole_log_or_key_that_is_gone_is_found() {
    let place = with_calls();
    let kept = place.root().join("kept");
    for gone in ["logs/agent_activity.jsonl", "trail"] {
        let path = place.home().join(gone);
        std::fs::rename(&path, &kept).unwrap();
        assert_eq!(place.verify()["ok"], false, "{gone}");
        std::fs::rename(&kept, &path).unwrap();
    }
    // A line that was never written by us.
    let mut lines = place.trail_lines();
    let forged = lines[7].replace("\"seq\":8", "\"seq\":9");
    lines.push(forged);
    std::fs::write(log(&place), lines.join("\n") + "\n").unwrap();
    assert_eq!(place.verify()["ok"], false);
}

#[test]
fn the_trail_goes_on_over_sessions_and_rotations() {
    let place = Place::new();
    for _ in 0..2 {
        let mut server = place
            .start()
            .env("HANDS_TRAIL_MAX_BYTES", "65536")
            .env("HANDS_TRAIL_KEEP", "9")
            .open();
        let filler = "x".repeat(1900);
        let ids: Vec<Value> = (0..60)
            .map(|n| {
                let content = format!("{n} {filler}");
                let args = json!({"path": format!("f/{n}"), "content": content, "append": true});
                server.start_call("write_file", args)
            })
            .collect();
        ids.iter().for_each(|id| drop(server.answer(id)));
        server.end();
    }
    let rotated = std::fs::read_dir(place.home().join("logs"))
        .unwrap()
        .filter(|e| {
            let name = e.as_ref().unwrap().file_name();
            name.to_str().unwrap().starts_with("agent_activity.")
        })
        .count();
    assert!(rotated > 2, "{rotated} files");
    let report = place.verify();
    assert_eq!(report["ok"], true, "{report}");
    assert_eq!(report["sessions"], 2);
    assert!(report["records"].as_u64().unwrap() >= 240, "{report}");
}

#[test]
fn starts_and_stops_are_on_record() {
    let place = Place::new();
    let mut server = place.open();
    server.bash("true").ok();
    server.end();
    let mut server = place.open();
    server.request("ping", json!({}));
    server.signal(rustix::process::Signal::TERM);
    server.ended();
    let text = std::fs::read_to_string(place.home().join("logs/server_lifecycle.jsonl")).unwrap();
    let records: Vec<Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let count = |word: &str| records.iter().filter(|r| r["event"] == word).count();
    assert_eq!((count("start"), count("stop")), (2, 2), "{text}");
    assert!(
        text.contains("end of input") && text.contains("SIGTERM"),
        "{text}"
    );
}

#[test]
fn the_trail_is_the_owners_alone() {
    use std::os::unix::fs::MetadataExt;
    let place = with_calls();
    let mode = |path: &std::path::Path| path.metadata().unwrap().mode() & 0o777;
    assert_eq!(mode(&place.home()), 0o700);
    assert_eq!(mode(&log(&place)) & 0o077, 0);
    for entry in std::fs::read_dir(place.home().join("trail")).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
    }
}

#[test]
fn a_broken_configuration_stops_the_start_with_file_line_and_key() {
    let place = Place::new();
    let config = place.home().join("config.toml");
    let broken: [(&[u8], usize, &str, &str); 8] = [
        (
            b"reply_budget_s = 45\n[sandbox]\nmod = \"strict\"\n",
            3,
            "sandbox.mod",
            "sandbox.mode",
        ),
        (b"\n\nreply_budget_s = \"long\"\n", 3, "reply_budget_s", ""),
        (b"[sandbox]\nnetwork = 1\n", 2, "sandbox.network", ""),
        (b"[limits]\nconcurrency = 0\n", 2, "limits.concurrency", ""),
        (b"workspaces = [\"relative/path\"]\n", 1, "workspaces", ""),
        (b"[sandbox]\nmode = \"str", 2, "", ""),
        (b"[sandbox\n", 1, "", ""),
        (b"# caf\xe9\nreply_budget_s = 45\n", 1, "", "UTF-8"),
    ];
    for (text, line, key, hint) in broken {
        put(&config, text);
        let mut server = place.start().without("HANDS_WORKSPACES").spawn();
        let ended = server.exited(END);
        let shown = String::from_utf8_lossy(text);
        assert_eq!(ended.status.code(), Some(78), "{shown}: {}", ended.stderr);
        assert_eq!(ended.messages, Vec::<Value>::new());
        let at = format!("{}:{line}", config.display());
        assert!(ended.stderr.contains(&at), "{shown}: {}", ended.stderr);
        for word in [key, hint] {
            assert!(
                ended.stderr.contains(word),
                "{shown}: {word}: {}",
                ended.stderr
            );
        }
    }
    // The trail is verified all the same, and with the file gone too.
    assert_eq!(place.verify()["ok"], true);
    std::fs::remove_file(&config).unwrap();
    assert_eq!(place.verify()["ok"], true);
    let mut server = place.open();
    server.bash("true").ok();
    server.end();
}

#[test]
fn a_broken_variable_stops_the_start_too() {
    let place = Place::new();
    for (name, value) in [
        ("HANDS_SANDBOX_MODE", "lax"),
        ("HANDS_LIMITS_CONCURRENCY", "many"),
        ("HANDS_PERMISSIONS_NONCE_TTL_S", "1"),
        ("HANDS_WORKSPACES", "relative"),
    ] {
        let mut server = place.start().env(name, value).spawn();
        let ended = server.exited(END);
        assert_eq!(ended.status.code(), Some(78), "{name}: {}", ended.stderr);
        assert!(ended.stderr.contains(name), "{}", ended.stderr);
    }
}

#[test]
fn a_trail_that_cannot_be_written_stops_the_start() {
    let place = Place::new();
    place.open().end();
    let path = log(&place);
    let _ = std::fs::remove_file(&path);
    std::fs::create_dir_all(&path).unwrap();
    let mut server = place.start().spawn();
    // It may notice at the start or at the first call; the call must not be made.
    let id = json!(1);
    server.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}));
    server.start_call_as(&id, "bash", json!({"command": "touch ran"}));
    server.close_input();
    let ended = server.exited(END + SOON);
    assert!(!place.at("ran").exists(), "{ended:?}");
    let named = ended.stderr.contains("agent_activity.jsonl");
    assert!(named, "{}", ended.stderr);
}

#[test]
fn kill_at_any_moment_leaves_whole_files_and_a_whole_trail() {
    let place = Place::new();
    let version = |n: usize| format!("{n}\n").repeat(60_000 + n);
    let is_whole = |text: &str| {
        let n = text
            .lines()
            .next()
            .unwrap_or("0")
            .parse::<usize>()
            .unwrap_or(usize::MAX);
        n < 1000 && text == version(n)
    };
    place.write("d/big.txt", version(0));
    for round in 0..8 {
        let mut server = place.open();
        let first = json!({"path": "d/big.txt", "content": version(1), "overwrite": true});
        server.call_granted("write_file", first).ok();
        for n in 0..30 {
            let write = json!({"path": "d/big.txt", "content": version(n), "overwrite": true});
            server.start_call("write_file", write);
            let new = json!({"path": format!("d/new-{round}-{n}"), "content": version(n)});
            server.start_call("write_file", new);
            server.start_call("bash", json!({"command": "echo hi"}));
        }
        // A different moment each time.
        std::thread::sleep(Duration::from_millis(15 * round));
        server.kill();
        for (path, text) in common::picture(&place.at("d")) {
            assert!(
                is_whole(&text),
                "{} holds {} bytes",
                path.display(),
                text.len()
            );
        }
        let text = std::fs::read_to_string(log(&place)).unwrap();
        assert!(
            text.ends_with('\n'),
            "a torn line: {}",
            text.lines().last().unwrap()
        );
        let report = place.verify();
        assert_eq!(report["ok"], true, "{report}");
    }
    // The next start is as any other, and clears up what the dead left.
    let mut server = place.open();
    server.bash("echo fine").ok();
    let scratch = place.home().join("work/scratch");
    until("only the living session's folder is there", SOON, || {
        std::fs::read_dir(&scratch).unwrap().count() == 1
    });
    server.end();
    assert_eq!(place.verify()["ok"], true);
}
