//! `handsctl clients`.
#![allow(clippy::unwrap_used)] // Helpers of tests are not marked as tests.

mod common;

use common::{Ended, Place};

fn clients(place: &Place, args: &[&str]) -> Ended {
    let server = place.script("hands mcp", "exit 0\n");
    let mut command = place.command(&[&["clients"], args].concat());
    Ended::of(command.env("HANDS_MCP_BIN", server).output().unwrap())
}

#[test]
fn every_client_has_an_entry_with_the_absolute_path() {
    let place = Place::new();
    let ended = clients(&place, &["--json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let list = ended.json();
    let names: Vec<&str> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["client"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["claude-desktop", "claude-code", "codex", "inspector"]
    );
    let home = place.home();
    for entry in list.as_array().unwrap() {
        let text = entry["text"].as_str().unwrap();
        assert!(text.contains("/hands mcp"), "{text}");
        assert!(text.contains(home.root().to_str().unwrap()), "{text}");
    }
}

#[test]
fn one_client_alone_can_be_piped() {
    let place = Place::new();
    let ended = clients(&place, &["claude-desktop"]);
    let entry = &ended.json()["mcpServers"]["hands"];
    assert!(entry["command"].as_str().unwrap().ends_with("/hands mcp"));
    assert_eq!(
        entry["env"]["HANDS_HOME"],
        place.home().root().to_str().unwrap()
    );
    assert!(
        ended.err.contains("claude_desktop_config.json"),
        "{ended:?}"
    );

    let command = clients(&place, &["inspector"]).out;
    let words = std::process::Command::new("sh")
        .args(["-c", &format!("set -- {command}\nprintf '%s\\n' \"$@\"")])
        .output()
        .unwrap();
    let words = String::from_utf8(words.stdout).unwrap();
    assert!(words.trim_end().ends_with("/hands mcp"), "{words}");
}

#[test]
fn an_unknown_client_is_a_usage_error() {
    let ended = clients(&Place::new(), &["emacs"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("claude-desktop"), "{ended:?}");
}
