//! `handsctl doctor`.
#![allow(clippy::unwrap_used)] // Helpers of tests are not marked as tests.

mod common;

use common::{Ended, Place, built};
use serde_json::Value;

/// The doctor with stand-ins for our programs.
fn doctor(place: &Place, canary: &str) -> Ended {
    let version = env!("CARGO_PKG_VERSION");
    let mcp = place.script("mcp", &format!("echo hands-mcp {version}\n"));
    let runner = place.script(
        "runner",
        &format!("case $1 in canary) echo '{canary}';; *) echo hands-runner {version};; esac\n"),
    );
    let mut command = place.command(&["doctor", "--json"]);
    command
        .env("HANDS_MCP_BIN", mcp)
        .env("HANDS_RUNNER_BIN", runner);
    Ended::of(command.output().unwrap())
}

const FULL: &str = r#"{"backend":"bwrap","state":"full","promises":{"a":true}}"#;

fn check<'a>(report: &'a Value, name: &str) -> &'a Value {
    let checks = report["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == name).unwrap()
}

#[test]
fn a_whole_machine_is_told_check_by_check() {
    let place = Place::new();
    place.prepare();
    let report = doctor(&place, FULL).json();
    for name in [
        "home",
        "configuration",
        "workspace",
        "hands-mcp",
        "hands-runner",
        "sandbox",
        "trail",
    ] {
        assert_eq!(check(&report, name)["state"], "ok", "{name}: {report}");
    }
    assert!(check(&report, "git").is_object());
}

#[test]
fn the_home_is_not_made_by_looking() {
    let place = Place::new();
    let report = doctor(&place, FULL).json();
    assert_eq!(check(&report, "home")["state"], "ok");
    assert!(!place.home().root().exists());
}

#[test]
fn warnings_degrade_and_failures_fail() {
    let place = Place::new();
    place.config("workspaces = [\"~/Hands\", \"~/unplugged\"]\n");
    let reduced = r#"{"backend":"landlock","state":"reduced","promises":{"b":false},"reason":"r","hint":"do h"}"#;
    let ended = doctor(&place, reduced);
    let report = ended.json();
    assert_eq!(check(&report, "sandbox")["state"], "warn");
    assert_eq!(check(&report, "sandbox")["mend"], "do h");
    let missing = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|check| check["name"] == "workspace" && check["state"] == "warn")
        .unwrap();
    assert!(
        missing["detail"]
            .as_str()
            .unwrap()
            .ends_with("/unplugged is not there")
    );
    // Other checks look at the machine itself and may fail on it.
    let failed = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .any(|check| check["state"] == "fail");
    assert_eq!(ended.code, Some(if failed { 1 } else { 4 }), "{report}");
    assert_eq!(report["state"], if failed { "failed" } else { "degraded" });

    place.config("workspaces = 3\n");
    let ended = doctor(&place, FULL);
    let report = ended.json();
    assert_eq!(ended.code, Some(1));
    let configuration = check(&report, "configuration");
    assert_eq!(configuration["state"], "fail");
    assert!(
        configuration["detail"]
            .as_str()
            .unwrap()
            .contains("config.toml:1: key `workspaces`")
    );
}

#[test]
fn missing_and_foreign_programs_are_failures() {
    let place = Place::new();
    let old = place.script("old", "echo hands-mcp 0.0.1\n");
    let mut command = place.command(&["doctor", "--json"]);
    command
        .env("HANDS_MCP_BIN", old)
        .env("HANDS_RUNNER_BIN", "/nowhere/hands-runner");
    let ended = Ended::of(command.output().unwrap());
    assert_eq!(ended.code, Some(1));
    let report = ended.json();
    let mcp = check(&report, "hands-mcp")["detail"].as_str().unwrap();
    assert!(mcp.contains("says its version is hands-mcp 0.0.1"), "{mcp}");
    let runner = check(&report, "hands-runner");
    assert_eq!(runner["state"], "fail");
    assert!(
        runner["mend"]
            .as_str()
            .unwrap()
            .contains("HANDS_RUNNER_BIN")
    );
    assert_eq!(check(&report, "sandbox")["state"], "fail");
}

#[test]
fn an_edited_trail_is_found() {
    let place = Place::new();
    let session = place.trail().session("s1");
    let record = hands_activity::Record::new(hands_activity::Event::Note, "t1");
    session.append(record.clone()).unwrap();
    session.append(record).unwrap();
    let log = place.home().activity_log();
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::write(&log, text.replacen("\"t1\"", "\"t2\"", 1)).unwrap();
    let report = doctor(&place, FULL).json();
    assert_eq!(check(&report, "trail")["state"], "fail", "{report}");
}

#[test]
fn the_text_form_is_a_table() {
    let place = Place::new();
    let ended = place.run(&["doctor"]);
    assert!(ended.out.starts_with("STATE"), "{ended:?}");
    assert!(ended.out.contains("configuration"), "{ended:?}");
}

#[test]
fn the_real_runner_is_found_and_its_sandbox_is_tried() {
    built("hands-runner");
    let report = Place::new().run(&["doctor", "--json"]).json();
    assert_eq!(check(&report, "hands-runner")["state"], "ok", "{report}");
    let detail = check(&report, "sandbox")["detail"].as_str().unwrap();
    assert!(!detail.contains("gave no result"), "{report}");
}

#[test]
fn the_real_server_is_found_and_is_our_version() {
    built("hands-mcp");
    let report = Place::new().run(&["doctor", "--json"]).json();
    assert_eq!(check(&report, "hands-mcp")["state"], "ok", "{report}");
}
