//! `handsctl recovery`: what was kept of files before they were changed.

mod diff;
mod list;
mod restore;
mod rotate;
mod show;

use crate::Context;
use crate::args::{RecoveryWhat, WhichArgs};
use crate::exit::{Exit, Failure};
use crate::{output, when};
use hands_activity::{Entry, Lifecycle, Recovery, RecoveryError, RecoveryLimits};
use hands_config::{Flags, load};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

pub(crate) fn run(context: &Context, what: RecoveryWhat) -> Result<Exit, Failure> {
    match what {
        RecoveryWhat::List(args) => list::run(context, &args),
        RecoveryWhat::Show { id } => show::run(context, &id),
        RecoveryWhat::Diff { id, with } => diff::run(context, &id, with.as_deref()),
        RecoveryWhat::Restore(args) => restore::run(context, &args),
        RecoveryWhat::Rotate(args) => rotate::run(context, &args),
    }
}

/// The recovery folder for looking at; none if nothing was ever kept.
fn look(context: &Context) -> Result<Option<Recovery>, Failure> {
    Recovery::look(&context.home.recovery_dir(), limits(context))
        .map_err(failed("reading the recovery folder"))
}

/// The limits of the configuration. One that is broken must not keep a person from their files.
fn limits(context: &Context) -> RecoveryLimits {
    let defaults = RecoveryLimits::default();
    match load(&context.home, &context.env, &Flags::default()) {
        Ok(loaded) => RecoveryLimits {
            max_file_bytes: loaded.config.limits.recovery_file_bytes,
            max_total_bytes: loaded.config.limits.recovery_bytes,
            min_age: loaded.config.limits.recovery_min_age(),
            ..defaults
        },
        Err(error) => {
            output::note(&format!("note: the default limits hold: {error}"));
            defaults
        }
    }
}

/// The entry that is meant by `id`.
fn find(recovery: Option<&Recovery>, id: &str) -> Result<Entry, Failure> {
    let found = match recovery {
        Some(recovery) => recovery.find(id),
        None => Err(RecoveryError::Unknown { wanted: id.into() }),
    };
    found.map_err(failed("finding the entry"))
}

fn failed(what: &'static str) -> impl FnOnce(RecoveryError) -> Failure {
    move |error| Failure::new(what, error.to_string())
}

/// An entry for programs.
fn as_json(entry: &Entry) -> Value {
    let modified = entry.modified.and_then(|stamp| {
        let nanos = i128::from(stamp.s) * 1_000_000_000 + i128::from(stamp.ns);
        let time = OffsetDateTime::from_unix_timestamp_nanos(nanos).ok()?;
        time.format(&Rfc3339).ok()
    });
    json!({
        "id": entry.id,
        "ts": entry.ts,
        "kind": entry.kind.as_str(),
        "origin": entry.origin.as_ref().map(|path| path.to_string_lossy()),
        "session_id": entry.session_id,
        "turn_id": entry.turn_id,
        "reason": entry.reason,
        "bytes": entry.bytes,
        "sha256": entry.sha256,
        "mode": entry.mode.map(|mode| format!("{mode:04o}")),
        "modified": modified,
        "path": entry.path.to_string_lossy(),
        "compressed": entry.packed,
        "stored_bytes": entry.stored_bytes,
    })
}

/// Which entries a person asks for.
struct Which<'a> {
    args: &'a WhichArgs,
    since: Option<OffsetDateTime>,
    until: Option<OffsetDateTime>,
    /// Where they came from, as it may be spelt.
    from: Vec<PathBuf>,
}

impl<'a> Which<'a> {
    fn new(args: &'a WhichArgs, from: Option<&Path>) -> Result<Self, Failure> {
        let now = OffsetDateTime::now_utc();
        let time = |option: &str, text: &Option<String>| {
            let text = text.as_deref();
            let read = text.map(|text| when::parse(text, now)).transpose();
            read.map_err(|why| Failure::usage(format!("the option {option}"), why))
        };
        Ok(Self {
            since: time("--since", &args.since)?,
            until: time("--until", &args.until)?,
            from: from.map(spellings).transpose()?.unwrap_or_default(),
            args,
        })
    }

    fn wants(&self, entry: &Entry) -> bool {
        let kept = OffsetDateTime::parse(&entry.ts, &Rfc3339).ok();
        let after = |since| kept.is_some_and(|kept| kept >= since);
        let before = |until| kept.is_some_and(|kept| kept <= until);
        let session = self.args.session.as_ref();
        let origin = entry.origin.as_ref();
        let from = |root: &PathBuf| origin.is_some_and(|origin| origin.starts_with(root));
        session.is_none_or(|wanted| entry.session_id.as_ref() == Some(wanted))
            && self
                .args
                .turn
                .as_ref()
                .is_none_or(|wanted| *wanted == entry.turn_id)
            && self.since.is_none_or(after)
            && self.until.is_none_or(before)
            && (self.from.is_empty() || self.from.iter().any(from))
    }
}

/// A path as it was given, and without the links on the way: origins have none.
fn spellings(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let given = absolute(path)?;
    let mut all = vec![given.clone()];
    for above in given.ancestors() {
        if let (Ok(real), Ok(rest)) = (above.canonicalize(), given.strip_prefix(above)) {
            let real = match rest.as_os_str().is_empty() {
                true => real,
                false => real.join(rest),
            };
            all.push(real);
            break;
        }
    }
    Ok(all)
}

/// A path from the root on; links in it stay.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path)
        .map_err(|why| Failure::new(format!("finding {}", path.display()), why.to_string()))
}

/// Writes into the log of starts and stops what a person did. Their files are as they wished by
/// now, so a log that cannot be written is no failure.
fn note_in_log(context: &Context, event: &str, detail: Value) {
    let folders = super::logs::folders(&context.home);
    let log = Lifecycle::open(&folders, "handsctl", env!("CARGO_PKG_VERSION"));
    if let Err(error) = log.and_then(|log| log.note(event, detail)) {
        output::note(&format!("note: {error}"));
    }
}
