//! What the sandbox needs of a Linux system.

use super::{Check, State};
use crate::Context;
use crate::commands::doctor::system;
use crate::programs::on_path;

/// Settings of the kernel that may forbid a plain user what bubblewrap needs: the setting, the value that forbids, and
/// one that allows.
const SWITCHES: &[(&str, &str, &str)] = &[
    ("user.max_user_namespaces", "0", "15000"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
];

/// Where the sandbox works as a whole, a setting against it is only information.
pub(super) fn checks(context: &Context, whole: bool) -> Vec<Check> {
    let bubblewrap = match on_path(&context.env, "bwrap") {
        Some(path) => Check::new("bubblewrap", State::Ok, path.display().to_string()),
        None => Check::new("bubblewrap", State::Fail, "bwrap is not on PATH")
            .mend(system::install_command("bubblewrap")),
    };
    vec![bubblewrap, user_namespaces(whole)]
}

fn user_namespaces(whole: bool) -> Check {
    let name = "user namespaces";
    // A setting that the kernel does not have forbids nothing.
    let forbidding = SWITCHES.iter().find(|(key, forbids, _)| {
        let file = format!("/proc/sys/{}", key.replace('.', "/"));
        std::fs::read_to_string(file).is_ok_and(|value| value.trim() == *forbids)
    });
    match forbidding {
        None => Check::new(name, State::Ok, "allowed"),
        Some((key, forbids, _)) if whole => Check::new(
            name,
            State::Info,
            format!("{key} is {forbids}, yet the sandbox works"),
        ),
        Some((key, forbids, allows)) => {
            Check::new(name, State::Fail, format!("{key} is {forbids}"))
                .mend(format!("sudo sysctl -w {key}={allows}"))
        }
    }
}
