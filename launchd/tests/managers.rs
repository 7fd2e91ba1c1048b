//! What holds for both managers, and the real one of this machine.
#![allow(clippy::unwrap_used, clippy::panic)]

mod played;

use hands_launchd::{Launchctl, Manager, Overwrite, ServiceError, Systemctl};
use played::{Place, launchctl, systemctl};
use std::fs;

#[test]
fn a_foreign_definition_stops_everything_before_the_manager_is_asked_to_act() {
    let place = Place::new();
    fs::create_dir(place.folder()).unwrap();
    for name in ["dev.hands.handsd.plist", "handsd.service"] {
        fs::write(place.folder().join(name), "mine\n").unwrap();
    }
    let mac = launchctl(true, 0);
    let linux = systemctl("active", "loaded");
    let managers: [Box<dyn Manager>; 2] = [
        Box::new(Launchctl::new(&mac, &place.folder(), 501)),
        Box::new(Systemctl::new(&linux, &place.folder())),
    ];
    for manager in &managers {
        for error in [
            manager
                .install(&place.service(), Overwrite::OwnOnly)
                .unwrap_err(),
            manager.uninstall(Overwrite::OwnOnly).unwrap_err(),
        ] {
            assert!(matches!(error, ServiceError::Foreign { .. }), "{error}");
        }
        assert_eq!(fs::read_to_string(manager.path()).unwrap(), "mine\n");
    }
    assert!(mac.calls().iter().all(|call| call.starts_with("print ")));
    assert!(
        linux
            .calls()
            .iter()
            .all(|call| call.starts_with("--user show "))
    );
    for manager in &managers {
        assert!(
            manager
                .install(&place.service(), Overwrite::Forced)
                .unwrap()
                .changed
        );
        assert!(manager.uninstall(Overwrite::OwnOnly).unwrap());
    }
}

/// On this machine, with no stand-in: it answers, or says why it cannot. It changes nothing.
#[test]
fn the_real_manager_answers_or_says_why_not() {
    match hands_launchd::native().and_then(|manager| manager.status()) {
        Ok(status) => eprintln!("the service here: {status:?}"),
        Err(error @ (ServiceError::Unreachable { .. } | ServiceError::NoManager { .. })) => {
            eprintln!("skipped: {error}");
        }
        Err(error) => panic!("{error}"),
    }
}
