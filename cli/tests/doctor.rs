//! `handsctl doctor`.
#![allow(clippy::unwrap_used)] // Helpers of tests are not marked as tests.

mod common;

use common::{Ended, Place, built};
use serde_json::Value;

/// The doctor with stand-ins for our programs.
fn doctor(place: &Place, canary: &str) -> Ended {
    let mut command = place.command(&["doctor", "--json"]);
    Ended::of(with_programs(place, canary, &mut command).output().unwrap())
}

fn with_programs<'a>(
    place: &Place,
    canary: &str,
    command: &'a mut std::process::Command,
) -> &'a mut std::process::Command {
    let version = env!("CARGO_PKG_VERSION");
    let mcp = place.script("mcp", &format!("echo hands-mcp {version}\n"));
    let runner = place.script(
        "runner",
        &format!("case $1 in canary) echo '{canary}';; *) echo hands-runner {version};; esac\n"),
    );
    command
        .env("HANDS_MCP_BIN", mcp)
        .env("HANDS_RUNNER_BIN", runner)
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

/// Each promise has its line: what was tried and what was seen, a broken one among them.
#[test]
fn each_promise_is_told_and_a_broken_one_is_no_success() {
    let place = Place::new();
    let findings = r#"[{"number":1,"rule":"a","title":"it stays","held":true,"tried":"x","seen":"refused"},
        {"number":2,"rule":"b","title":"it is hidden","held":false,"tried":"reading","seen":"NOT HELD: reading worked"},
        {"number":3,"rule":"c","title":"it is quick","tried":"nothing","seen":"not promised here: why"}]"#;
    // A report that calls itself whole is not believed over what it says of a promise.
    let canary =
        format!(r#"{{"backend":"bwrap","state":"full","promises":{{}},"findings":{findings}}}"#);
    let canary = canary.replace('\n', " ");
    let ended = doctor(&place, &canary);
    let report = ended.json();
    assert_eq!(check(&report, "sandbox")["state"], "warn", "{report}");
    let detail = check(&report, "sandbox")["detail"].as_str().unwrap();
    assert!(detail.contains("not kept: it is hidden"), "{detail}");
    assert_eq!(report["promises"][1]["held"], false);
    let mut command = place.command(&["doctor"]);
    let text = Ended::of(
        with_programs(&place, &canary, &mut command)
            .output()
            .unwrap(),
    )
    .out;
    for line in [
        "held      1. it stays",
        "NOT HELD  2. it is hidden\n    tried: reading\n    seen: NOT HELD: reading worked",
        "-         3. it is quick\n    not promised here: why",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

/// The real self-test, in the real sandbox: a line for each promise, and each held.
#[cfg(target_os = "linux")]
#[test]
fn the_real_self_test_tells_each_promise() {
    built("hands-runner");
    let report = Place::new().run(&["doctor", "--json"]).json();
    let promises = report["promises"].as_array().unwrap();
    let numbers: Vec<_> = promises
        .iter()
        .map(|p| p["number"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, (1..=11).collect::<Vec<_>>(), "{report}");
    for promise in promises {
        assert_eq!(promise["held"], true, "{report}");
        let tried = promise["tried"].as_str().unwrap();
        assert!(!tried.is_empty() && tried != "nothing", "{report}");
    }
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

#[test]
fn a_runner_that_cannot_be_run_is_told_by_cause() {
    let place = Place::new();
    let runner = place.script("runner-of-ours", "exit 0\n");
    let report = || {
        let mut command = place.command(&["doctor", "--json"]);
        Ended::of(command.env("HANDS_RUNNER_BIN", &runner).output().unwrap()).json()
    };
    common::chmod(&runner, 0o644);
    let told = report();
    let runner_check = check(&told, "hands-runner");
    assert_eq!(
        runner_check["mend"],
        format!("chmod +x '{}'", runner.display())
    );
    assert_eq!(check(&told, "sandbox")["mend"], "mend hands-runner first");
    std::fs::write(&runner, "").unwrap();
    common::chmod(&runner, 0o755);
    assert_eq!(
        check(&report(), "hands-runner")["mend"],
        "build hands-runner again"
    );
}

#[test]
fn a_sandbox_that_fails_has_its_reason_and_a_mend_that_leads_on() {
    let place = Place::new();
    let none = r#"{"backend":"bwrap","state":"none","promises":{},"reason":"bwrap failed: no","hint":"run `handsctl doctor`"}"#;
    let report = doctor(&place, none).json();
    let sandbox = check(&report, "sandbox");
    assert_eq!(sandbox["state"], "fail");
    assert_eq!(sandbox["detail"], "bwrap, none; bwrap failed: no");
    // By the machine that runs this test it is the part that fails, or a closer look.
    let mend = sandbox["mend"].as_str().unwrap();
    assert!(!mend.contains("doctor"), "{mend}");
    assert!(!mend.is_empty());
}

#[test]
fn a_home_or_workspace_that_cannot_be_made_fails_now() {
    let place = Place::new();
    std::fs::write(place.ann().join("file"), "x").unwrap();
    let report = |home: &std::path::Path| {
        let mut command = place.command(&["doctor", "--json"]);
        with_programs(&place, FULL, &mut command).env("HANDS_HOME", home);
        Ended::of(command.output().unwrap()).json()
    };
    let told = report(&place.ann().join("file/home"));
    let home = check(&told, "home");
    assert_eq!(home["state"], "fail", "{told}");
    assert!(
        home["detail"]
            .as_str()
            .unwrap()
            .ends_with("file is not a folder"),
        "{home}"
    );

    std::os::unix::fs::symlink("/nowhere", place.ann().join("link")).unwrap();
    let told = report(&place.ann().join("link/home"));
    assert_eq!(check(&told, "home")["state"], "fail", "{told}");

    let told = report(&place.ann().join("new/home"));
    assert_eq!(check(&told, "home")["state"], "ok", "{told}");
    assert!(!place.ann().join("new").exists());

    std::fs::remove_dir(place.workspace()).unwrap();
    std::os::unix::fs::symlink("/nowhere", place.workspace()).unwrap();
    let told = doctor(&place, FULL).json();
    let workspace = check(&told, "workspace");
    assert_eq!(workspace["state"], "fail", "{told}");
    let mend = workspace["mend"].as_str().unwrap();
    assert!(mend.starts_with("make its target, or rm "), "{mend}");
}

#[test]
fn a_lost_configuration_is_told_with_its_mend() {
    let place = Place::new();
    place.config("");
    let ended = doctor(&place, FULL);
    assert_eq!(ended.code, Some(1));
    let report = ended.json();
    let configuration = check(&report, "configuration");
    assert_eq!(
        configuration["mend"],
        "remove it to use the defaults; then: handsctl config check"
    );
    assert!(
        configuration["detail"]
            .as_str()
            .unwrap()
            .ends_with("cut short leaves it"),
        "{configuration}"
    );
}

/// Permissions and mounts, without root's power to pass over them.
#[cfg(target_os = "linux")]
mod powerless {
    use super::*;
    use common::chmod;

    fn report(place: &Place, mounts: &[&str]) -> Value {
        let mut command = place.powerless(mounts, &["doctor", "--json"]);
        Ended::of(with_programs(place, FULL, &mut command).output().unwrap()).json()
    }

    fn failed(report: &Value, name: &str, detail: &str, mend: &str) {
        let check = check(report, name);
        assert_eq!(check["state"], "fail", "{name}: {report}");
        assert!(
            check["detail"].as_str().unwrap().contains(detail),
            "{check}"
        );
        assert!(check["mend"].as_str().unwrap().starts_with(mend), "{check}");
    }

    #[test]
    fn a_disk_that_is_mounted_read_only_is_no_matter_of_permissions() {
        let place = Place::new();
        place.prepare();
        let home = place.home().root().display().to_string();
        let workspace = place.workspace().display().to_string();
        let told = report(
            &place,
            &[
                "--ro-bind",
                &home,
                &home,
                "--ro-bind",
                &workspace,
                &workspace,
            ],
        );
        failed(&told, "home", "is mounted read-only", "mount it writable");
        failed(
            &told,
            "workspace",
            "is mounted read-only",
            "mount it writable",
        );
        // Before the first start too, when there is nothing yet to probe but what is above.
        let fresh = Place::new();
        std::fs::remove_dir(fresh.workspace()).unwrap();
        let above = fresh.ann().parent().unwrap().display().to_string();
        let told = report(&fresh, &["--ro-bind", &above, &above]);
        failed(
            &told,
            "home",
            "cannot be made: the disk of",
            "mount it writable",
        );
        failed(
            &told,
            "workspace",
            "cannot be made: the disk of",
            "mount it writable",
        );
    }

    #[test]
    fn permissions_are_mended_by_chmod() {
        let place = Place::new();
        place.prepare();
        let (home, workspace) = (place.home().root().to_path_buf(), place.workspace());
        chmod(&home, 0o500);
        chmod(&workspace, 0o500);
        let told = report(&place, &[]);
        chmod(&home, 0o700);
        chmod(&workspace, 0o700);
        failed(
            &told,
            "home",
            "cannot be written",
            &format!("chmod u+rwx '{}'", home.display()),
        );
        failed(
            &told,
            "workspace",
            "cannot be written",
            &format!("chmod u+rwx '{}'", workspace.display()),
        );
        let logs = place.home().logs_dir();
        chmod(&logs, 0o500);
        let told = report(&place, &[]);
        chmod(&logs, 0o700);
        failed(
            &told,
            "home",
            "cannot be written",
            &format!("chmod u+rwx '{}'", logs.display()),
        );
        chmod(&home, 0);
        let told = report(&place, &[]);
        chmod(&home, 0o700);
        failed(
            &told,
            "home",
            "cannot be opened",
            &format!("chmod u+rwx '{}'", home.display()),
        );
        assert_eq!(check(&told, "trail")["state"], "fail", "{told}");
    }

    #[test]
    fn a_trail_that_cannot_be_read_is_no_broken_trail() {
        let place = Place::new();
        let session = place.trail().session("s1");
        session
            .append(hands_activity::Record::new(
                hands_activity::Event::Note,
                "t1",
            ))
            .unwrap();
        for path in [place.home().activity_log(), place.home().trail_dir()] {
            let before = path.metadata().unwrap().permissions();
            chmod(&path, 0);
            let told = report(&place, &[]);
            std::fs::set_permissions(&path, before).unwrap();
            failed(&told, "trail", "Permission denied", "chmod -R u+rwX '");
        }
        assert_eq!(check(&report(&place, &[]), "trail")["state"], "ok");
    }

    #[test]
    fn an_empty_bubblewrap_is_named() {
        let place = Place::new();
        let empty = place.ann().join("empty");
        std::fs::write(&empty, "").unwrap();
        chmod(&empty, 0o755);
        let installed = ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"]
            .map(std::path::Path::new)
            .into_iter()
            .find(|path| path.is_file())
            .unwrap();
        let (empty, installed) = (empty.to_str().unwrap(), installed.to_str().unwrap());
        let mut command = place.powerless(&["--ro-bind", empty, installed], &["doctor", "--json"]);
        let none = r#"{"backend":"bwrap","state":"none","promises":{},"reason":"r","hint":"run `handsctl doctor`"}"#;
        let told = Ended::of(with_programs(&place, none, &mut command).output().unwrap()).json();
        let bubblewrap = check(&told, "bubblewrap");
        assert_eq!(
            bubblewrap["detail"],
            format!("{installed} is empty (0 bytes)")
        );
        assert_eq!(check(&told, "sandbox")["mend"], bubblewrap["mend"]);
        assert!(bubblewrap["mend"].as_str().unwrap().contains("install"));
    }
}
