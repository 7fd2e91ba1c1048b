//! Checks of the home: the folder, the configuration, the workspaces, the trail, the disk.

use super::{Check, State};
use crate::commands::logs::folders;
use crate::{Context, limits};
use hands_config::{Flags, Loaded, Presence, Source, load};
use rustix::fs::Access;
use std::path::Path;

pub(super) fn checks(context: &Context) -> Vec<Check> {
    let mut checks = vec![folder(context)];
    match load(&context.home, &context.env, &Flags::default()) {
        Ok(loaded) => {
            checks.push(configuration(context, &loaded));
            let unset = loaded.sources.get("workspaces") == Some(&Source::Default);
            let paths = loaded.config.workspaces.iter();
            checks.extend(paths.map(|path| workspace(path, unset)));
        }
        Err(error) => checks.push(
            Check::new("configuration", State::Fail, error.to_string())
                .mend("correct it, then: handsctl config check"),
        ),
    }
    checks.push(disk(context.home.root()));
    checks
}

fn folder(context: &Context) -> Check {
    let path = context.home.root().display();
    match context.home.inspect() {
        Ok(Presence::Private) => Check::new("home", State::Ok, path.to_string()),
        Ok(Presence::Missing) => Check::new(
            "home",
            State::Ok,
            format!("{path} is made at the first start"),
        ),
        Ok(Presence::OpenToOthers) => {
            Check::new("home", State::Warn, format!("{path}: others can reach it"))
                .mend(format!("chmod 700 '{path}'"))
        }
        Err(error) => {
            let reason = format!("{path} {}", error.reason());
            Check::new("home", State::Fail, reason).mend(
                error
                    .hint_text()
                    .unwrap_or("set HANDS_HOME to a folder of your own"),
            )
        }
    }
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

fn workspace(path: &Path, unset: bool) -> Check {
    let name = "workspace";
    let shown = path.display();
    let writable = Access::WRITE_OK | Access::EXEC_OK;
    if path.is_dir() {
        return match rustix::fs::access(path, writable) {
            Ok(()) => Check::new(name, State::Ok, shown.to_string()),
            Err(errno) => Check::new(
                name,
                State::Fail,
                format!("{shown} cannot be written: {errno}"),
            )
            .mend(format!("chmod u+rwx '{shown}'")),
        };
    }
    if unset {
        let detail = format!("{shown} is made at the first start");
        return Check::new(name, State::Ok, detail);
    }
    Check::new(name, State::Warn, format!("{shown} is not there"))
        .mend(format!("mkdir -p '{shown}', or connect its disk"))
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

/// Whether the trail is whole.
pub(super) fn trail(context: &Context) -> Option<Check> {
    let folders = folders(&context.home);
    if !folders.trail.exists() && !folders.activity().exists() {
        return Some(Check::new("trail", State::Ok, "no call was recorded yet"));
    }
    let mend = "handsctl logs verify";
    Some(match hands_activity::verify(&folders) {
        Ok(report) => match &report.first_bad {
            Some(bad) => Check::new("trail", State::Fail, bad.to_string()).mend(mend),
            None => Check::new(
                "trail",
                State::Ok,
                format!("{} records, none altered or removed", report.records),
            ),
        },
        Err(error) => Check::new("trail", State::Fail, error.to_string()).mend(mend),
    })
}
