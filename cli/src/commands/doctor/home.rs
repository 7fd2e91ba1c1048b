//! Checks of the home: the folder, the configuration, the workspaces, the disk.

use super::probe::{self, Trouble};
use super::{Check, State};
use crate::output::size;
use crate::programs::quoted;
use crate::{Context, limits};
use hands_activity::{Recovery, RecoveryLimits};
use hands_config::{ConfigError, Flags, Loaded, Presence, Source, load};
use rustix::io::Errno;
use std::path::Path;

/// How to use another home.
const OTHER_HOME: &str = "set HANDS_HOME to a folder that you may write";
/// How to use another workspace.
const OTHER_WORKSPACE: &str = "name another workspace in config.toml";

pub(super) fn checks(context: &Context) -> Vec<Check> {
    let mut checks = vec![folder(context)];
    match load(&context.home, &context.env, &Flags::default()) {
        Ok(loaded) => {
            checks.push(configuration(context, &loaded));
            let unset = loaded.sources.get("workspaces") == Some(&Source::Default);
            let paths = loaded.config.workspaces.iter();
            checks.extend(paths.map(|path| workspace(path, unset)));
            checks.extend(recovery(context, &loaded));
        }
        Err(error) => checks.push(broken(&error)),
    }
    checks.push(disk(context.home.root()));
    checks
}

fn failed(name: &str, path: &Path, what: &str, trouble: Trouble) -> Check {
    let detail = format!("{} {what}: {}", path.display(), trouble.why);
    Check::new(name, State::Fail, detail).mend(trouble.mend)
}

fn folder(context: &Context) -> Check {
    let root = context.home.root();
    let path = root.display();
    let presence = match context.home.inspect() {
        Ok(presence) => presence,
        Err(error) => return unusable(context, &error),
    };
    if presence == Presence::Missing {
        return match probe::can_be_made(root, OTHER_HOME) {
            Ok(()) => Check::new(
                "home",
                State::Ok,
                format!("{path} is made at the first start"),
            ),
            Err(trouble) => failed("home", root, "cannot be made", trouble),
        };
    }
    if let Err(trouble) = writable_inside(context) {
        return failed("home", root, "cannot be written", trouble);
    }
    if presence == Presence::OpenToOthers {
        return Check::new("home", State::Warn, format!("{path}: others can reach it"))
            .mend(format!("chmod 700 {}", quoted(root)));
    }
    Check::new("home", State::Ok, path.to_string())
}

/// A home that cannot even be looked at: its permissions, if they are the cause, else what the error says.
fn unusable(context: &Context, error: &ConfigError) -> Check {
    let root = context.home.root();
    let denied = rustix::fs::access(root, rustix::fs::Access::READ_OK) == Err(Errno::ACCESS);
    if denied {
        let trouble = probe::explain(root, Errno::ACCESS, OTHER_HOME);
        return failed("home", root, "cannot be opened", trouble);
    }
    let reason = format!("{} {}", root.display(), error.reason());
    let hint = error.hint_text().unwrap_or(OTHER_HOME);
    Check::new("home", State::Fail, reason).mend(hint)
}

/// The home itself, and what is there of the folders that a server writes to.
fn writable_inside(context: &Context) -> Result<(), Trouble> {
    let home = &context.home;
    probe::writable(home.root(), OTHER_HOME)?;
    let inside = [
        home.logs_dir(),
        home.trail_dir(),
        home.work_dir(),
        home.recovery_dir(),
        home.jobs_dir(),
        home.scratch_dir(),
        home.run_dir(),
    ];
    let mut there = inside.iter().filter(|folder| folder.is_dir());
    there.try_for_each(|folder| probe::writable(folder, OTHER_HOME))
}

fn broken(error: &ConfigError) -> Check {
    let whole = error.to_string();
    let Some(hint) = error.hint_text() else {
        return Check::new("configuration", State::Fail, whole)
            .mend("correct it, then: handsctl config check");
    };
    let detail = whole.strip_suffix(&format!("; {hint}")).unwrap_or(&whole);
    Check::new("configuration", State::Fail, detail)
        .mend(format!("{hint}; then: handsctl config check"))
}

fn configuration(context: &Context, loaded: &Loaded) -> Check {
    // A workspace that is not there gets a check of its own.
    let warnings: Vec<&str> = loaded
        .warnings
        .iter()
        .map(String::as_str)
        .filter(|warning| !(warning.starts_with("workspace ") && warning.contains(" is not there")))
        .collect();
    let file = context.home.config_file();
    if !warnings.is_empty() {
        return Check::new("configuration", State::Warn, warnings.join("; "))
            .mend("handsctl config show");
    }
    let detail = if file.exists() {
        file.display().to_string()
    } else {
        format!("no {}: the defaults hold", file.display())
    };
    Check::new("configuration", State::Ok, detail)
}

/// A recovery folder that is nearly full: soon nothing is changed any more.
fn recovery(context: &Context, loaded: &Loaded) -> Option<Check> {
    let limits = RecoveryLimits {
        max_total_bytes: loaded.config.limits.recovery_bytes,
        ..RecoveryLimits::default()
    };
    let folder = Recovery::look(&context.home.recovery_dir(), limits).ok()??;
    let (held, most) = folder.usage();
    if held.bytes / 10 < most / 100 * 9 {
        return None;
    }
    let detail = format!(
        "the recovery folder holds {} of {}; full, it makes room only by entries over {} days old",
        size(held.bytes),
        size(most),
        loaded.config.limits.recovery_min_age_days
    );
    Some(Check::new("recovery", State::Warn, detail).mend("handsctl recovery rotate --dry-run"))
}

/// `unset`: nobody named a workspace, so the first start makes this one.
fn workspace(path: &Path, unset: bool) -> Check {
    let name = "workspace";
    let shown = path.display();
    if path.is_dir() {
        return match probe::writable(path, OTHER_WORKSPACE) {
            Ok(()) => Check::new(name, State::Ok, shown.to_string()),
            Err(trouble) => failed(name, path, "cannot be written", trouble),
        };
    }
    let leads_nowhere = path.symlink_metadata().is_ok();
    if !unset {
        let check = Check::new(name, State::Warn, format!("{shown} is not there"));
        return if leads_nowhere {
            check.mend("make the target of this link, or connect its disk")
        } else {
            check.mend(format!("mkdir -p {}, or connect its disk", quoted(path)))
        };
    }
    match default_can_be_made(path) {
        Ok(()) => {
            let detail = format!("{shown} is made at the first start");
            Check::new(name, State::Ok, detail)
        }
        Err(trouble) => failed(name, path, "cannot be made", trouble),
    }
}

/// The first start makes this one folder, and nothing above it.
fn default_can_be_made(path: &Path) -> Result<(), Trouble> {
    if let Some(above) = path.parent()
        && let Err(cause) = above.symlink_metadata()
        && cause.kind() == std::io::ErrorKind::NotFound
    {
        return Err(Trouble {
            why: format!("{} is not there", above.display()),
            mend: format!("set HOME to your home folder, or {OTHER_WORKSPACE}"),
        });
    }
    probe::can_be_made(path, OTHER_WORKSPACE)
}

fn disk(home: &Path) -> Check {
    let there = home.ancestors().find(|folder| folder.exists());
    let Some(Ok(stat)) = there.map(rustix::fs::statvfs) else {
        return Check::new("disk", State::Warn, "free space is not known");
    };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let detail = format!("{} MiB free for the home", free >> 20);
    let state = match free {
        free if free < limits::DISK_FAIL => State::Fail,
        free if free < limits::DISK_WARN => State::Warn,
        _ => return Check::new("disk", State::Ok, detail),
    };
    Check::new("disk", state, detail).mend("free some space, or move the home with HANDS_HOME")
}
