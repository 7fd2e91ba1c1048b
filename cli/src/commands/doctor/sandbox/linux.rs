//! What the sandbox needs of a Linux system.

use super::{Check, State};
use crate::commands::doctor::system;
use crate::programs::{Obstacle, ask, obstacle, on_path, quoted};
use crate::{Context, limits};
use hands_sandbox::linux::{BUBBLEWRAP_PLACES, obstacle as forbidden};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The oldest kernel whose Landlock can do all that is needed.
const KERNEL: (u32, u32) = (5, 19);

/// Where the sandbox works as a whole, a setting against it is only information.
pub(super) fn checks(context: &Context, whole: bool) -> Vec<Check> {
    let places: Vec<PathBuf> = BUBBLEWRAP_PLACES.iter().map(PathBuf::from).collect();
    let elsewhere = on_path(&context.env, "bwrap");
    let (check, usable) = bubblewrap(&places, elsewhere.as_deref(), limits::BWRAP);
    let attempt = match usable {
        Some(bwrap) if !whole => Some(try_namespaces(&bwrap)),
        _ => None,
    };
    let contained = context.env.get("container").is_some() || forbidden::is_container();
    let modules = std::fs::read_to_string("/sys/kernel/security/lsm").ok();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    vec![
        check,
        namespaces(whole, attempt, &forbidden::setting, contained),
        landlock(whole, modules.as_deref(), release.trim()),
    ]
}

/// The first bubblewrap that hands-runner would take, and whether it runs at all.
fn bubblewrap(
    places: &[PathBuf],
    elsewhere: Option<&Path>,
    limit: Duration,
) -> (Check, Option<PathBuf>) {
    let check = |state, detail: String| Check::new("bubblewrap", state, detail);
    let Some(path) = places.iter().find(|path| path.is_file()) else {
        let detail = match elsewhere {
            Some(path) => format!(
                "{} is not where hands-runner looks for it ({})",
                path.display(),
                BUBBLEWRAP_PLACES.join(", ")
            ),
            None => "bwrap is not installed".to_owned(),
        };
        let mend = system::install_command("bubblewrap");
        return (check(State::Fail, detail).mend(mend), None);
    };
    let broken = |why: String, mend: String| (check(State::Fail, why).mend(mend), None);
    if let Some(obstacle) = obstacle(path) {
        let mend = match obstacle {
            Obstacle::Mode => format!("sudo chmod 755 {}", quoted(path)),
            Obstacle::Empty | Obstacle::NoExec => system::reinstall_command("bubblewrap"),
        };
        return broken(format!("{} {}", path.display(), obstacle.text()), mend);
    }
    let again = || system::reinstall_command("bubblewrap");
    match ask(path, &["--version"], limit) {
        Err(why) => broken(why, again()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            if output.status.success() && said.starts_with("bubblewrap ") {
                let detail = format!("{}, {said}", path.display());
                return (check(State::Ok, detail), Some(path.clone()));
            }
            let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            let words = [said, words].concat();
            let why = format!(
                "{} --version is no bubblewrap's answer ({}): {}",
                path.display(),
                output.status,
                words.lines().next().unwrap_or("it said nothing")
            );
            broken(why, again())
        }
    }
}

/// Makes a sandbox around nothing, as hands-runner does, to hear why it cannot be made.
fn try_namespaces(bwrap: &Path) -> Result<(), String> {
    let me = std::env::current_exe().map_err(|cause| cause.to_string())?;
    let me = me.to_string_lossy();
    let words = [
        "--unshare-user",
        "--cap-drop",
        "ALL",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--die-with-parent",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--",
        &me,
        "--version",
    ];
    let output = ask(bwrap, &words, limits::BWRAP)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(match said.lines().next_back() {
        Some(line) => line.to_owned(),
        None => format!("bwrap ended with {}", output.status),
    })
}

/// `attempt`: what came of making a sandbox, if that was tried. What happened counts for more than a setting.
fn namespaces(
    whole: bool,
    attempt: Option<Result<(), String>>,
    setting: &dyn Fn(&str) -> Option<String>,
    contained: bool,
) -> Check {
    let check = |state, detail: String| Check::new("user namespaces", state, detail);
    let obstacle = forbidden::Obstacle::of_namespaces(setting, contained);
    let works = whole || attempt == Some(Ok(()));
    let why = match (&attempt, &obstacle.setting) {
        (_, None) if works => return check(State::Ok, "allowed".to_owned()),
        (_, Some(setting)) if works => {
            return check(State::Info, format!("{setting}, yet they work"));
        }
        (Some(Err(why)), Some(setting)) => format!("{why}; {setting}"),
        (Some(Err(why)), None) => why.clone(),
        (_, Some(setting)) => setting.clone(),
        (_, None) => {
            return check(State::Info, "not tried; no setting forbids them".to_owned());
        }
    };
    check(State::Fail, why).mend(obstacle.cure)
}

/// `modules`: the security modules that the kernel started with, where the system shows them.
fn landlock(whole: bool, modules: Option<&str>, release: &str) -> Check {
    let check = |state, detail: String| Check::new("landlock", state, detail);
    if whole {
        return check(State::Ok, "enforced".to_owned());
    }
    if version(release).is_some_and(|version| version < KERNEL) {
        let (major, minor) = KERNEL;
        return check(State::Fail, format!("kernel {release} is too old"))
            .mend(format!("boot a kernel {major}.{minor} or newer"));
    }
    match modules.map(str::trim) {
        None => check(
            State::Info,
            "not known: /sys/kernel/security/lsm cannot be read".to_owned(),
        ),
        Some(names) if names.split(',').any(|name| name == "landlock") => {
            check(State::Ok, "switched on".to_owned())
        }
        Some(names) => check(
            State::Fail,
            format!("the kernel did not start it (it started {names})"),
        )
        .mend(format!(
            "add lsm=landlock,{names} to the kernel's boot parameters (GRUB_CMDLINE_LINUX in /etc/default/grub, then \
             sudo update-grub) and reboot"
        )),
    }
}

/// The first two numbers of a kernel's release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(['.', '-', '+']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
#[path = "linux_tests.rs"]
mod tests;
