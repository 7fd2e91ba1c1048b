//! The unit's manager, with a systemctl that records how it was called.
#![allow(clippy::unwrap_used, clippy::panic)]

mod played;

use hands_launchd::{Manager, Overwrite, Presence, ServiceError, State, Systemctl};
use played::{Place, acts, played, systemctl};
use std::fs;

#[test]
fn a_unit_is_installed_controlled_and_removed() {
    let place = Place::new();
    let program = systemctl("inactive", "not-found");
    let manager = Systemctl::new(&program, &place.folder());
    assert!(
        manager
            .start()
            .unwrap_err()
            .to_string()
            .contains("handsctl service install")
    );
    assert!(!manager.uninstall(Overwrite::OwnOnly).unwrap());
    assert_eq!(acts(program.calls()), Vec::<String>::new());

    let reset = "reset-failed handsd.service";
    let installed = manager
        .install(&place.service(), Overwrite::OwnOnly)
        .unwrap();
    assert!(installed.changed && installed.notes[0].contains("enable-linger"));
    assert_eq!(
        acts(program.calls()),
        [
            "daemon-reload",
            "enable handsd.service",
            reset,
            "restart handsd.service"
        ]
    );
    assert!(
        !manager
            .install(&place.service(), Overwrite::OwnOnly)
            .unwrap()
            .changed
    );
    assert_eq!(
        acts(program.calls()),
        [
            "daemon-reload",
            "enable handsd.service",
            reset,
            "start handsd.service"
        ]
    );
    let text = fs::read_to_string(place.folder().join("handsd.service")).unwrap();
    assert_eq!(text, manager.print(&place.service()).unwrap());

    manager.start().unwrap();
    assert_eq!(acts(program.calls()), [reset, "start handsd.service"]);
    manager.restart().unwrap();
    assert_eq!(
        acts(program.calls()),
        ["daemon-reload", reset, "restart handsd.service"]
    );
    assert!(manager.uninstall(Overwrite::OwnOnly).unwrap());
    assert_eq!(
        acts(program.calls()),
        ["disable --now handsd.service", "daemon-reload", reset]
    );
    assert_eq!(fs::read_dir(place.folder()).unwrap().count(), 0);
}

#[test]
fn a_unit_whose_file_was_removed_is_stopped_all_the_same() {
    let place = Place::new();
    let program = systemctl("active", "not-found");
    let manager = Systemctl::new(&program, &place.folder());
    manager.stop().unwrap();
    assert!(!manager.uninstall(Overwrite::OwnOnly).unwrap());
    assert_eq!(
        acts(program.calls()),
        ["stop handsd.service", "stop handsd.service"]
    );
}

#[test]
fn the_status_of_a_unit() {
    let place = Place::new();
    let program = systemctl("failed", "loaded");
    let status = Systemctl::new(&program, &place.folder()).status().unwrap();
    assert_eq!(status.state, State::Failed);
    assert_eq!(
        (status.pid, status.starts, status.at_login),
        (Some(815), Some(2), Some(true))
    );
    assert_eq!(status.last_exit.as_deref(), Some("signal 6 (watchdog)"));
    assert!(status.needs_reload && status.loaded);
    assert_eq!(status.file, Presence::Missing);
}

#[test]
fn failures_of_systemctl_say_what_to_do() {
    let place = Place::new();
    for (code, said, expected) in [
        (
            1,
            "Job for handsd.service failed because a timeout was exceeded.\nSee \"systemctl status\".",
            "journalctl --user -u",
        ),
        (
            5,
            "Failed to start handsd.service: Unit handsd.service not found.",
            "handsctl service install",
        ),
        (
            1,
            "Failed to start handsd.service: Unit handsd.service is masked.",
            "unmask",
        ),
        (
            1,
            "Failed to start handsd.service: Unit handsd.service has a bad unit file setting.",
            "systemd-analyze",
        ),
    ] {
        let program = played("systemctl", |call| match call.split(' ').nth(1) {
            Some("start" | "restart") => (code, said.to_owned()),
            _ => (0, String::new()),
        });
        let manager = Systemctl::new(&program, &place.folder());
        let error = manager
            .install(&place.service(), Overwrite::OwnOnly)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(expected) && error.contains(&format!("exit status {code}")),
            "{error}"
        );
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn without_a_user_manager_nothing_is_written() {
    let place = Place::new();
    for said in [
        "Failed to connect to bus: No medium found",
        "Failed to connect to bus: $DBUS_SESSION_BUS_ADDRESS and $XDG_RUNTIME_DIR not defined",
        "System has not been booted with systemd as init system (PID 1). Can't operate.",
    ] {
        let program = played("systemctl", |_| (1, said.to_owned()));
        let manager = Systemctl::new(&program, &place.folder());
        let error = manager
            .install(&place.service(), Overwrite::OwnOnly)
            .unwrap_err();
        assert!(matches!(error, ServiceError::Unreachable { .. }), "{error}");
        assert!(error.to_string().contains("enable-linger"), "{error}");
        assert!(manager.status().is_err());
        assert!(!place.folder().exists());
    }
}
