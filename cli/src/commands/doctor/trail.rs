//! Check of the trail: whether it can be read, and is whole.

use super::{Check, State};
use crate::Context;
use crate::commands::logs::{folders, no_trail};
use crate::programs::quoted;
use hands_activity::TrailError;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub(super) fn check(context: &Context) -> Check {
    let folders = folders(&context.home);
    if no_trail(&folders) {
        return Check::new("trail", State::Ok, "no call was recorded yet");
    }
    match hands_activity::verify(&folders) {
        Ok(report) => match &report.first_bad {
            Some(bad) => {
                Check::new("trail", State::Fail, bad.to_string()).mend("handsctl logs verify")
            }
            None => Check::new(
                "trail",
                State::Ok,
                format!("{} records, none altered or removed", report.records),
            ),
        },
        Err(error) => unreadable(
            context.home.root(),
            &[&folders.logs, &folders.trail],
            &error,
        ),
    }
}

/// Nothing is known about a trail that cannot be read; verifying it again would not tell more.
fn unreadable(root: &Path, parts: &[&Path], error: &TrailError) -> Check {
    let TrailError::Io {
        what, path, source, ..
    } = error
    else {
        return Check::new("trail", State::Fail, error.to_string());
    };
    let detail = format!("could not {what} {}: {source}", path.display());
    let check = Check::new("trail", State::Fail, detail);
    if source.kind() != ErrorKind::PermissionDenied {
        return check.mend(format!("check the disk of {}", root.display()));
    }
    let me = rustix::process::geteuid().as_raw();
    let is_foreign = |path: &Path| path.symlink_metadata().is_ok_and(|meta| meta.uid() != me);
    let words: Vec<String> = parts.iter().copied().map(quoted).collect();
    let words = words.join(" ");
    if std::iter::once(path.as_path())
        .chain(parts.iter().copied())
        .any(is_foreign)
    {
        return check.mend(format!("sudo chown -R {me} {words}"));
    }
    check.mend(format!("chmod -R u+rwX {words}"))
}
