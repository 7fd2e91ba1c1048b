//! The property list, read by others: Python's plistlib, the crate `plist`, and the crate `launchd`.
#![allow(clippy::unwrap_used)]

use hands_launchd::{Service, agent, limits};
use proptest::prelude::*;
use std::path::Path;
use std::process::Command;

fn service(program: &str, home: &str, arguments: &[String]) -> Service {
    let service = Service::new(Path::new(program), Path::new(home)).unwrap();
    service.with_arguments(arguments.to_vec()).unwrap()
}

/// What launchd is to read, as JSON.
fn expected(service: &Service, with_home: bool) -> serde_json::Value {
    let home = service.home().to_str().unwrap();
    let mut arguments = vec![service.program().to_owned()];
    arguments.extend_from_slice(service.arguments());
    let mut value = serde_json::json!({
        "AbandonProcessGroup": true,
        "ExitTimeOut": limits::STOP_TIMEOUT_S,
        "KeepAlive": {"SuccessfulExit": false},
        "Label": "dev.hands.handsd",
        "ProcessType": "Interactive",
        "Program": service.program(),
        "ProgramArguments": arguments,
        "RunAtLoad": true,
        "SoftResourceLimits": {"NumberOfFiles": limits::OPEN_FILES},
        "StandardErrorPath": format!("{home}/logs/launchd.err.log"),
        "StandardOutPath": format!("{home}/logs/launchd.out.log"),
        "ThrottleInterval": limits::THROTTLE_S,
        // A number is decimal in a property list: 63 is 077.
    });
    if with_home {
        value["EnvironmentVariables"] = serde_json::json!({"HANDS_HOME": home});
    }
    value
}

/// Reads property lists with Python; none if there is no Python.
fn by_python(folder: &Path) -> Option<serde_json::Value> {
    const SCRIPT: &str = "import json, pathlib, plistlib, sys\n\
        files = sorted(pathlib.Path(sys.argv[1]).iterdir())\n\
        json.dump([plistlib.loads(file.read_bytes()) for file in files], sys.stdout)";
    let output = Command::new("python3")
        .args(["-c", SCRIPT])
        .arg(folder)
        .output();
    let output = match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: there is no python3");
            return None;
        }
        output => output.unwrap(),
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

const NASTY: &[&str] = &[
    "/Applications/My Hands/handsd",
    "/Users/o'brien & \"sons\" <x>/handsd",
    "/Users/]]>/&amp;/&#10;/handsd",
    "/Users/<plist version=\"1.0\">/-->/handsd",
    "/Users/Łukasz/日本語/e\u{301}/😀/handsd",
    "/Users/  two  spaces /$HOME/%h/\\n/handsd ",
];

#[test]
fn python_reads_what_we_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let mut all = Vec::new();
    for (number, program) in NASTY.iter().enumerate() {
        let home = program.replace("handsd", "home");
        let with_home = number % 2 == 0;
        let arguments = [String::new(), "--foreground".to_owned(), home.clone()];
        let mut service = service(program, &home, &arguments[..number % 4]);
        all.push(expected(&service, with_home));
        if with_home {
            service = service.with_home_in_environment();
        }
        let text = agent::definition(&service).unwrap();
        std::fs::write(folder.path().join(format!("{number}.plist")), text).unwrap();
    }
    if let Some(found) = by_python(folder.path()) {
        assert_eq!(found, serde_json::Value::Array(all));
    }
}

#[test]
fn the_file_has_the_marker_and_is_the_same_every_time() {
    let service = service("/b/handsd", "/h", &[]).with_home_in_environment();
    let text = agent::definition(&service).unwrap();
    let marked = text
        .lines()
        .filter(|line| line.contains(limits::MARKER))
        .count();
    assert_eq!(marked, 1);
    assert!(
        text.starts_with("<?xml ") && text.ends_with("</plist>\n"),
        "{text}"
    );
    for _ in 0..20 {
        assert_eq!(agent::definition(&service).unwrap(), text);
    }
}

/// Path components with much of what XML and Unicode have that is special.
fn any_path() -> impl Strategy<Value = String> {
    let symbol = prop_oneof![
        Just('&'),
        Just('<'),
        Just('>'),
        Just('"'),
        Just('\''),
        Just(' '),
        Just(']'),
        Just('-'),
        Just('%'),
        Just('$'),
        Just('\\'),
        Just('/'),
        proptest::char::any(),
    ];
    proptest::collection::vec(symbol, 0..40).prop_map(|symbols| {
        let plain =
            |symbol: &char| !symbol.is_control() && !matches!(*symbol, '\u{FFFE}' | '\u{FFFF}');
        format!("/{}", symbols.into_iter().filter(plain).collect::<String>())
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(
            std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(96)
        )
    })]

    #[test]
    fn any_path_comes_back_unchanged(program in any_path(), home in any_path(), argument in any_path()) {
        let service = service(&program, &home, std::slice::from_ref(&argument)).with_home_in_environment();
        let text = agent::definition(&service).unwrap();
        let value = plist::Value::from_reader_xml(text.as_bytes()).unwrap();
        let dictionary = value.as_dictionary().unwrap();
        let arguments: Vec<_> = dictionary["ProgramArguments"].as_array().unwrap().iter().map(|it| it.as_string().unwrap()).collect();
        prop_assert_eq!(arguments, [program.as_str(), argument.as_str()]);
        let variables = dictionary["EnvironmentVariables"].as_dictionary().unwrap();
        prop_assert_eq!(variables["HANDS_HOME"].as_string(), Some(home.as_str()));
        // The crate refuses keys that it does not know.
        prop_assert!(launchd::Launchd::from_bytes(text.as_bytes()).is_ok());
    }
}
