//! `handsctl config`.

mod common;

use common::Place;

#[test]
fn path_is_the_homes_file() {
    let place = Place::new();
    let file = place.home().config_file();
    assert_eq!(
        place.run(&["config", "path"]).out.trim(),
        file.to_str().unwrap()
    );
    let other = place.run(&["--home", "/srv/other", "config", "path"]);
    assert_eq!(other.out, "/srv/other/config.toml\n");
    let json = place.run(&["config", "path", "--json"]).json();
    assert_eq!(json["exists"], false);
}

#[test]
fn show_names_value_and_source() {
    let place = Place::new();
    place.config("[sandbox]\nmode = \"strict\"\n");
    let mut command = place.command(&["config", "show"]);
    let ended = common::Ended::of(command.env("HANDS_TRAIL_KEEP", "3").output().unwrap());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let words: Vec<Vec<&str>> = ended
        .out
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert!(
        words.contains(&vec!["sandbox.mode", "strict", "config.toml:2"]),
        "{ended:?}"
    );
    assert!(
        words.contains(&vec!["trail.keep", "3", "HANDS_TRAIL_KEEP"]),
        "{ended:?}"
    );
    assert!(
        words.contains(&vec!["sandbox.network", "on", "default"]),
        "{ended:?}"
    );

    let json = place.run(&["config", "show", "--json"]).json();
    let settings = json["settings"].as_array().unwrap();
    let mode = settings
        .iter()
        .find(|item| item["key"] == "sandbox.mode")
        .unwrap();
    assert_eq!(mode["value"], "strict");
    assert_eq!(
        mode["source"],
        serde_json::json!({"kind": "file", "line": 2})
    );
    assert!(!place.home().logs_dir().join("x").exists());
}

#[test]
fn check_tells_file_line_key_and_reason() {
    let place = Place::new();
    assert_eq!(place.run(&["config", "check"]).code, Some(0));
    place.config("reply_budget_s = 20\n[sandbox]\nmoode = \"strict\"\n");
    let ended = place.run(&["config", "check"]);
    assert_eq!(ended.code, Some(1));
    let file = place.home().config_file();
    let place_text = format!(
        "{}:3: key `sandbox.moode`: is not known; did you mean `sandbox.mode`?",
        file.display()
    );
    assert_eq!(
        ended.err,
        format!("handsctl: the check failed: {place_text}\n")
    );
    assert_eq!(ended.out, "");
    let json = place.run(&["config", "check", "--json"]);
    assert_eq!(json.code, Some(1));
    assert_eq!(json.json()["line"], 3);
    assert_eq!(json.json()["key"], "sandbox.moode");
}

#[test]
fn a_file_of_no_bytes_and_a_link_to_nowhere_fail_the_check() {
    let place = Place::new();
    place.config("");
    let file = place.home().config_file();
    let failed = |why: &str| {
        let ended = place.run(&["config", "check"]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let shown = format!("{}: is {why}", file.display());
        assert!(ended.err.contains(&shown), "{ended:?}");
        assert!(
            ended.err.ends_with("remove it to use the defaults\n"),
            "{ended:?}"
        );
        let json = place.run(&["config", "check", "--json"]);
        assert_eq!(json.code, Some(1));
        assert_eq!(json.json()["ok"], false);
        assert_eq!(place.run(&["config", "show"]).code, Some(1));
    };
    failed("empty, as a write that was cut short leaves it");
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/nowhere/config.toml", &file).unwrap();
    failed("a link to /nowhere/config.toml, which is not there");

    std::fs::remove_file(&file).unwrap();
    place.config("# all defaults\n\n");
    let ended = place.run(&["config", "check"]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
}

#[test]
fn check_creates_nothing() {
    let place = Place::new();
    std::fs::remove_dir(place.workspace()).unwrap();
    place.run(&["config", "check"]);
    place.run(&["config", "show"]);
    assert!(!place.home().root().exists());
    assert!(!place.workspace().exists());
}

#[test]
fn version_and_a_wrong_home() {
    let place = Place::new();
    let version = place.run(&["--version"]);
    assert_eq!(
        version.out,
        format!("handsctl {}\n", env!("CARGO_PKG_VERSION"))
    );
    let ended = place.run(&["--home", "/", "config", "path"]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.err.starts_with(
            "handsctl: finding the home failed: flag --home: / cannot be the home of Hands"
        ),
        "{ended:?}"
    );
    // A relative path is refused, whichever way it comes.
    let flag = place.run(&["--home", "rel", "config", "path"]);
    let mut command = place.command(&["config", "path"]);
    let variable = common::Ended::of(command.env("HANDS_HOME", "rel").output().unwrap());
    for (ended, from) in [
        (flag, "flag --home"),
        (variable, "environment variable HANDS_HOME"),
    ] {
        assert_eq!(
            (ended.code, ended.err),
            (
                Some(1),
                format!(
                    "handsctl: finding the home failed: {from}: rel is not absolute; give the absolute path of a \
                     folder of its own\n"
                )
            )
        );
    }
}

#[test]
fn usage_errors_are_json_too() {
    let place = Place::new();
    for (args, message) in [
        (
            &["--json", "frobnicate"][..],
            "unrecognized subcommand 'frobnicate'",
        ),
        (
            &["call", "--json"],
            "the following required arguments were not provided: <TOOL>",
        ),
        (
            &["logs", "--json", "--nope"],
            "unexpected argument '--nope' found",
        ),
        (
            &["config", "--json"],
            "'handsctl config' requires a subcommand but one was not provided [subcommands: show, check, path, help]",
        ),
    ] {
        let ended = place.run(args);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        let json = ended.json();
        assert_eq!(json["ok"], false);
        assert_eq!(json["code"], "usage");
        assert_eq!(json["message"], message);
        assert_ne!(ended.err, "");
    }
    let plain = place.run(&["frobnicate"]);
    assert_eq!((plain.code, plain.out.as_str()), (Some(2), ""));
    let help = place.run(&["--json", "--help"]);
    assert_eq!((help.code, help.err.as_str()), (Some(0), ""));
}
