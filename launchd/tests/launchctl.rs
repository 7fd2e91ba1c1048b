//! The agent's manager, with a launchctl that records how it was called.
#![allow(clippy::unwrap_used, clippy::panic)]

mod played;

use hands_launchd::{Launchctl, Manager, Overwrite, Presence, ProgramRunner, ServiceError, State};
use played::{NOT_LOADED, Place, T, launchctl, played};
use std::fs;
use std::path::Path;

#[test]
fn an_agent_is_written_enabled_and_bootstrapped() {
    let place = Place::new();
    let program = launchctl(false, 0);
    let manager = Launchctl::new(&program, &place.folder(), 501);
    let installed = manager
        .install(&place.service(), Overwrite::OwnOnly)
        .unwrap();
    assert!(installed.changed);
    assert_eq!(installed.path.display().to_string(), place.plist());
    let bootstrap = format!("bootstrap gui/501 {}", place.plist());
    assert_eq!(
        program.calls(),
        [format!("print {T}"), format!("enable {T}"), bootstrap]
    );
    let text = fs::read_to_string(place.plist()).unwrap();
    assert_eq!(text, manager.print(&place.service()).unwrap());
    assert!(place.service().logs().is_dir(), "launchd does not make it");
}

#[test]
fn the_same_agent_again_is_only_started() {
    let place = Place::new();
    let program = launchctl(false, 0);
    let manager = Launchctl::new(&program, &place.folder(), 501);
    manager
        .install(&place.service(), Overwrite::OwnOnly)
        .unwrap();
    program.calls();
    assert!(
        !manager
            .install(&place.service(), Overwrite::OwnOnly)
            .unwrap()
            .changed
    );
    assert_eq!(
        program.calls(),
        [format!("print {T}"), format!("kickstart {T}")]
    );
}

#[test]
fn a_changed_agent_is_unloaded_first_and_loaded_only_when_launchd_let_go() {
    let place = Place::new();
    let program = launchctl(true, 2);
    let manager = Launchctl::new(&program, &place.folder(), 501);
    manager
        .install(&place.service(), Overwrite::OwnOnly)
        .unwrap();
    let print = format!("print {T}");
    let calls = program.calls();
    assert_eq!(calls[..2], [print.clone(), format!("bootout {T}")]);
    assert_eq!(
        calls[2..7],
        [
            print.clone(),
            "pause".to_owned(),
            print.clone(),
            "pause".to_owned(),
            print
        ]
    );
    assert_eq!(
        calls[7..],
        [
            format!("enable {T}"),
            format!("bootstrap gui/501 {}", place.plist())
        ]
    );
}

#[test]
fn an_agent_that_never_goes_is_an_error_in_time() {
    let place = Place::new();
    let program = launchctl(true, u32::MAX);
    let error = Launchctl::new(&program, &place.folder(), 501)
        .stop()
        .unwrap_err();
    assert!(matches!(error, ServiceError::Timeout { .. }), "{error}");
}

#[test]
fn start_stop_restart_and_uninstall_of_an_agent() {
    let place = Place::new();
    let program = launchctl(false, 0);
    let manager = Launchctl::new(&program, &place.folder(), 501);
    let error = manager.start().unwrap_err().to_string();
    assert!(error.contains("handsctl service install"), "{error}");
    assert!(manager.restart().is_err());
    manager.stop().unwrap();
    assert!(!manager.uninstall(Overwrite::OwnOnly).unwrap());

    manager
        .install(&place.service(), Overwrite::OwnOnly)
        .unwrap();
    program.calls();
    let print = format!("print {T}");
    let (enable, bootout) = (format!("enable {T}"), format!("bootout {T}"));
    let bootstrap = format!("bootstrap gui/501 {}", place.plist());
    manager.start().unwrap();
    assert_eq!(program.calls(), [print.clone(), format!("kickstart {T}")]);
    manager.restart().unwrap();
    assert_eq!(
        program.calls(),
        [&print, &bootout, &print, &enable, &bootstrap].map(String::clone)
    );
    manager.stop().unwrap();
    assert_eq!(
        program.calls(),
        [&print, &bootout, &print].map(String::clone)
    );
    manager.start().unwrap();
    assert_eq!(
        program.calls(),
        [&print, &enable, &bootstrap].map(String::clone)
    );
    assert!(manager.uninstall(Overwrite::OwnOnly).unwrap());
    assert_eq!(
        program.calls(),
        [&print, &bootout, &print].map(String::clone)
    );
    assert!(!Path::new(&place.plist()).exists());
}

#[test]
fn the_status_of_an_agent_is_read_from_its_own_lines() {
    let place = Place::new();
    let program = launchctl(true, 0);
    let status = Launchctl::new(&program, &place.folder(), 501)
        .status()
        .unwrap();
    assert_eq!(status.state, State::Running);
    assert_eq!((status.pid, status.starts), (Some(4711), Some(3)));
    assert_eq!(
        status.last_exit.as_deref(),
        Some("exit status 78: EX_CONFIG")
    );
    assert_eq!(status.file, Presence::Missing);
    assert_eq!(status.at_login, Some(false));
    assert!(status.loaded_from.unwrap().starts_with("/Users/x"));

    let program = launchctl(false, 0);
    let status = Launchctl::new(&program, &place.folder(), 501)
        .status()
        .unwrap();
    assert_eq!(
        (status.loaded, status.state, status.pid),
        (false, State::Stopped, None)
    );

    for (text, expected) in [
        (
            "\tstate = not running\n\tlast exit code = 0\n",
            State::Stopped,
        ),
        (
            "\tstate = not running\n\tlast exit code = (never exited)\n",
            State::Stopped,
        ),
        (
            "\tstate = not running\n\tlast exit code = 1\n",
            State::Failed,
        ),
        ("\tstate = spawn scheduled\n", State::Starting),
        ("\tstate = novel\n", State::Other("novel".to_owned())),
    ] {
        let program = played("launchctl", |_| (0, text.to_owned()));
        let status = Launchctl::new(&program, &place.folder(), 501)
            .status()
            .unwrap();
        assert_eq!(status.state, expected, "{text}");
    }
}

#[test]
fn a_switched_off_agent_says_so() {
    let place = Place::new();
    fs::create_dir(place.folder()).unwrap();
    fs::write(place.plist(), "foreign").unwrap();
    for (listed, expected) in [
        ("\t\t\"dev.hands.handsd\" => disabled", false),
        ("\t\t\"dev.hands.handsd\" => true", false),
        ("\t\t\"dev.hands.handsd\" => enabled", true),
        ("\t\t\"dev.hands.other\" => disabled", true),
    ] {
        let program = played("launchctl", |call| {
            match call.starts_with("print-disabled") {
                true => (0, format!("disabled services = {{\n{listed}\n}}\n")),
                false => (113, NOT_LOADED.to_owned()),
            }
        });
        let status = Launchctl::new(&program, &place.folder(), 501)
            .status()
            .unwrap();
        assert_eq!(status.at_login, Some(expected), "{listed}");
        assert_eq!(status.file, Presence::Foreign);
    }
}

#[test]
fn failures_of_launchctl_say_what_to_do() {
    let place = Place::new();
    for (code, said, expected) in [
        (5, "Bootstrap failed: 5: Input/output error", "plutil -lint"),
        (
            119,
            "Bootstrap failed: 119: Service is disabled",
            "launchctl enable gui/501/",
        ),
        (
            122,
            "Bootstrap failed: 122: Path had bad ownership/permissions",
            "must belong to you",
        ),
        (42, "Bootstrap failed: 42: ?", "launchctl error 42"),
    ] {
        let program = played("launchctl", |call| match call.split(' ').next() {
            Some("bootstrap") => (code, said.to_owned()),
            Some("print") => (113, NOT_LOADED.to_owned()),
            _ => (0, String::new()),
        });
        let manager = Launchctl::new(&program, &place.folder(), 501);
        let error = manager
            .install(&place.service(), Overwrite::OwnOnly)
            .unwrap_err()
            .to_string();
        for part in [
            expected,
            said,
            "launchctl bootstrap gui/501",
            &format!("exit status {code}"),
        ] {
            assert!(error.contains(part), "{part:?} is not in {error}");
        }
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn without_a_session_at_the_screen_nothing_is_written() {
    let place = Place::new();
    for (code, said) in [
        (
            125,
            "Bootstrap failed: 125: Domain does not support specified action",
        ),
        (112, "Could not find domain for user gui: 501"),
    ] {
        let program = played("launchctl", |_| (code, said.to_owned()));
        let manager = Launchctl::new(&program, &place.folder(), 501);
        let error = manager
            .install(&place.service(), Overwrite::OwnOnly)
            .unwrap_err();
        assert!(matches!(error, ServiceError::Unreachable { .. }), "{error}");
        assert!(!place.folder().exists());
    }
}

/// A real program in launchctl's place: a script that records its arguments and keeps its state in files.
#[test]
fn a_stand_in_program_sees_the_words_as_they_are() {
    let place = Place::new();
    let root = place.root.path();
    let script = root.join("launchctl.sh");
    fs::write(
        &script,
        r#"cd "$(dirname "$0")" || exit 9
{ printf '[%s]' "$@"; echo; } >>calls
case $1 in
print) [ -e loaded ] && { printf '\tstate = running\n\tpid = 12\n'; exit 0; }; echo 'Could not find service' >&2; exit 113 ;;
bootstrap) : >loaded ;;
bootout) rm loaded ;;
esac
"#,
    )
    .unwrap();
    let runner = ProgramRunner::new(Path::new("/bin/sh"), &[script.to_str().unwrap()]);
    let folder = root.join("Library & Co/Launch 'Agents'");
    let manager = Launchctl::new(runner, &folder, 501);
    manager
        .install(&place.service(), Overwrite::OwnOnly)
        .unwrap();
    let status = manager.status().unwrap();
    assert_eq!(
        (status.file, status.pid, status.state),
        (Presence::Ours, Some(12), State::Running)
    );
    assert!(manager.uninstall(Overwrite::OwnOnly).unwrap());
    let calls = fs::read_to_string(root.join("calls")).unwrap();
    let expected = format!(
        "[bootstrap][gui/501][{}]",
        folder.join("dev.hands.handsd.plist").display()
    );
    assert!(calls.lines().any(|line| line == expected), "{calls}");
    assert!(calls.contains(&format!("[bootout][{T}]")), "{calls}");
}
