//! The unit, read by systemd itself: `systemd-analyze verify`, and the manager's own test mode, which prints what it understood.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic)]

use hands_launchd::{Service, limits, unit};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// Runs a program; none, and a word on it, if it is not installed.
fn run(command: &mut Command) -> Option<Output> {
    match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: {:?} is not installed", command.get_program());
            None
        }
        output => Some(output.unwrap()),
    }
}

fn all_output(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A program in a folder of that name.
fn program_in(folder: &Path, name: &str) -> PathBuf {
    let folder = folder.join(name);
    fs::create_dir_all(&folder).unwrap();
    let program = folder.join("handsd");
    fs::write(&program, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

fn open_to_all(folder: &Path) {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
}

const FOLDERS: &[&str] = &[
    "plain",
    "with space",
    "100% $HOME %h é日😀",
    "o'brien \"x\" \\y",
];

#[test]
fn systemd_analyze_has_nothing_against_it() {
    for folder in FOLDERS {
        let root = TempDir::new().unwrap();
        let program = program_in(root.path(), folder);
        let service = Service::new(&program, &root.path().join(folder)).unwrap();
        let text = unit::definition(&service.with_home_in_environment()).unwrap();
        let path = root.path().join(limits::UNIT);
        fs::write(&path, &text).unwrap();
        let mut command = Command::new("systemd-analyze");
        command.args(["--user", "--man=no", "verify"]).arg(&path);
        let Some(output) = run(command.env("XDG_RUNTIME_DIR", root.path())) else {
            return;
        };
        let said = all_output(&output);
        assert!(
            output.status.success() && said.trim().is_empty(),
            "{said}\n{text}"
        );
    }
}

/// What systemd's own reader makes of a unit: the lines of the unit in the manager's test mode. It runs as a plain user.
fn understood(root: &Path, text: &str) -> Option<String> {
    let units = root.join("config/systemd/user");
    fs::create_dir_all(&units).unwrap();
    fs::write(units.join(limits::UNIT), text).unwrap();
    open_to_all(root);
    let systemd = ["/usr/lib/systemd/systemd", "/lib/systemd/systemd"];
    let Some(systemd) = systemd.into_iter().find(|path| Path::new(path).exists()) else {
        eprintln!("skipped: systemd is not installed");
        return None;
    };
    let mut command = Command::new("setpriv");
    if rustix::process::geteuid().is_root() {
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    }
    command.args([systemd, "--user", "--test", "--unit=handsd.service"]);
    command.env("XDG_CONFIG_HOME", root.join("config"));
    command.env("XDG_RUNTIME_DIR", root).env("HOME", root);
    let said = all_output(&run(&mut command)?);
    let Some((_, rest)) = said.split_once("-> Unit handsd.service:") else {
        eprintln!(
            "skipped: systemd's test mode does not work here: {}",
            said.lines().next().unwrap_or("")
        );
        return None;
    };
    Some(rest.split("-> Unit ").next().unwrap_or(rest).to_owned())
}

/// Takes a command line as systemd prints it apart, by a shell.
fn words(line: &str) -> Vec<String> {
    let script = format!("set -- {line}\nfor word; do printf '%s\\0' \"$word\"; done");
    let output = Command::new("bash").args(["-c", &script]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_terminator('\0').map(str::to_owned).collect()
}

#[test]
fn systemd_understands_program_arguments_and_home_as_they_are() {
    let arguments = [
        "--plain",
        "two words",
        "$HOME ${HOME} $$",
        "%h %% %",
        "\\n \\x41 \\",
        "\"quoted\" 'single'",
        ";",
        "\\;",
        "#no comment",
        "é日😀",
        "",
        " leading and trailing ",
        "-",
        "@x",
        "a=b",
    ];
    let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
    for folder in FOLDERS {
        let root = TempDir::new().unwrap();
        let program = program_in(root.path(), folder);
        let home = root.path().join(format!("{folder}/home"));
        let service = Service::new(&program, &home).unwrap();
        let service = service.with_arguments(arguments.clone()).unwrap();
        let text = unit::definition(&service.with_home_in_environment()).unwrap();
        let Some(found) = understood(root.path(), &text) else {
            return;
        };
        let value = |name: &str| {
            let start = format!("{name}: ");
            let line = found
                .lines()
                .find_map(|line| line.trim_start().strip_prefix(&start));
            line.unwrap_or_else(|| panic!("no {name} in {found}"))
        };
        assert_eq!(
            value("Environment"),
            format!("HANDS_HOME={}", home.display())
        );
        let mut expected = vec![program.to_str().unwrap().to_owned()];
        if folder.contains('"') {
            expected.insert(0, "/usr/bin/env".to_owned());
        }
        expected.extend_from_slice(&arguments);
        assert_eq!(words(value("Command Line")), expected);
    }
}

#[test]
fn no_setting_is_there_that_breaks_the_sandbox_or_adds_privileges() {
    let service = Service::new(Path::new("/b/handsd"), Path::new("/h")).unwrap();
    let text = unit::definition(&service).unwrap();
    let settings: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('=').map(|(name, _)| name))
        .collect();
    let allowed = [
        "Description",
        "StartLimitIntervalSec",
        "StartLimitBurst",
        "Type",
        "NotifyAccess",
        "ExecStart",
        "ExecReload",
        "WatchdogSec",
        "TimeoutStartSec",
        "TimeoutStopSec",
        "KillMode",
        "Restart",
        "RestartSec",
        "RestartPreventExitStatus",
        "OOMPolicy",
        "Delegate",
        "WantedBy",
    ];
    assert_eq!(settings, allowed);
    for line in [
        "Type=notify",
        "KillMode=process",
        "Restart=on-failure",
        "WatchdogSec=30",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}");
    }
}
