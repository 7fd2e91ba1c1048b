//! `handsctl recovery restore`: an entry, or all that was kept from below a folder, back in place.

use super::{Which, absolute, as_json, failed, find, limits, look, note_in_log, spellings};
use crate::Context;
use crate::args::{RestoreArgs, WhichArgs};
use crate::exit::{Exit, Failure};
use crate::output::harmless;
use hands_activity::{Entry, Kind, Now, Recovery, RecoveryError, Restored};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) fn run(context: &Context, args: &RestoreArgs) -> Result<Exit, Failure> {
    // An option that would have no effect is refused.
    if args.under.is_none() && (args.replace || args.which != WhichArgs::default()) {
        let why = "--replace, --session, --turn, --since and --until go with --under";
        return Err(Failure::usage("reading the command line", why));
    }
    let Some(looked) = look(context)? else {
        let id = args.id.as_deref().unwrap_or_default();
        return Err(find(None, id).err().unwrap_or_else(|| nothing(id)));
    };
    let folder = context.home.recovery_dir();
    match (&args.id, &args.under) {
        (Some(id), _) => {
            let entry = find(Some(&looked), id)?;
            let recovery = Recovery::open(&folder, limits(context)).map_err(failed("opening"))?;
            one(context, &recovery, &entry, args.to.as_deref())
        }
        (None, Some(under)) => {
            let recovery = Recovery::open(&folder, limits(context)).map_err(failed("opening"))?;
            tree(context, &recovery, args, under)
        }
        // Clap asks for one of the two.
        (None, None) => Err(nothing("")),
    }
}

fn nothing(id: &str) -> Failure {
    Failure::usage("restoring", format!("there is no entry {id:?}"))
}

/// What is replaced gets this turn's name.
fn turn_id() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let millis = since.unwrap_or_default().as_millis();
    format!("restore-{millis}-{}", std::process::id())
}

fn one(
    context: &Context,
    recovery: &Recovery,
    entry: &Entry,
    to: Option<&Path>,
) -> Result<Exit, Failure> {
    let to = destination(entry, to)?;
    let done = recovery.restore(entry, &to, &turn_id());
    let done = done.map_err(failed("restoring"))?;
    tell_log(context, entry, &to, &done);
    if context.out.json {
        context.out.object(&result(entry, &to, &done))?;
    } else {
        context.out.text(&harmless(&line(&to, &done)))?;
    }
    Ok(Exit::Ok)
}

/// Where an entry goes.
fn destination(entry: &Entry, to: Option<&Path>) -> Result<PathBuf, Failure> {
    let Some(to) = to else {
        return entry.origin.clone().ok_or_else(|| {
            Failure::usage("restoring", "the output of a tool came from no file")
                .hint("say --to PATH")
        });
    };
    let to = absolute(to)?;
    if entry.kind == Kind::Folder || !matches!(Now::at(&to), Ok(Now::Folder)) {
        return Ok(to);
    }
    let named = entry.origin.clone().unwrap_or_else(|| entry.first_path());
    Ok(to.join(named.file_name().unwrap_or_default()))
}

fn tree(
    context: &Context,
    recovery: &Recovery,
    args: &RestoreArgs,
    under: &Path,
) -> Result<Exit, Failure> {
    let which = Which::new(&args.which, Some(under))?;
    let roots = spellings(under)?;
    let to = args.to.as_deref().map(absolute).transpose()?;
    let mut entries = recovery.list().map_err(failed("listing"))?;
    entries.retain(|entry| which.wants(entry));
    // The first that was kept of a file is what it was before.
    let mut seen = HashSet::new();
    entries.retain(|entry| seen.insert(entry.origin.clone()));
    // A folder before what is in it.
    entries.sort_by(|a, b| a.origin.cmp(&b.origin));
    let turn = turn_id();
    let mut failures = 0;
    let mut count = 0;
    for entry in &entries {
        let Some(path) = place(entry, &roots, to.as_deref()) else {
            continue;
        };
        let done = match args.replace {
            true => recovery.restore(entry, &path, &turn).map(Some),
            false => if_free(recovery, entry, &path, &turn),
        };
        match done {
            Ok(None | Some(Restored::Unchanged)) => {}
            Ok(Some(done)) => {
                count += 1;
                tell_log(context, entry, &path, &done);
                tell(context, &result(entry, &path, &done), &line(&path, &done))?;
            }
            Err(error) => {
                failures += 1;
                let mut object = as_json(entry);
                object["ok"] = json!(false);
                object["to"] = json!(path.to_string_lossy());
                object["message"] = json!(error.to_string());
                tell(context, &object, &format!("FAILED: {error}"))?;
            }
        }
    }
    if !context.out.json {
        let rest = match failures {
            0 => String::new(),
            count => format!(", {count} could not be"),
        };
        context.out.text(&format!("{count} restored{rest}"))?;
    }
    Ok(match failures {
        0 => Exit::Ok,
        _ => Exit::Failed,
    })
}

fn tell(context: &Context, object: &Value, line: &str) -> Result<(), Failure> {
    match context.out.json {
        true => context.out.json_line(object)?,
        false => context.out.text(&harmless(line))?,
    }
    Ok(())
}

fn if_free(
    recovery: &Recovery,
    entry: &Entry,
    path: &Path,
    turn: &str,
) -> Result<Option<Restored>, RecoveryError> {
    match Now::at(path)? {
        Now::Nothing => recovery.restore(entry, path, turn).map(Some),
        _ => Ok(None),
    }
}

/// Where an entry from below one of `roots` goes.
fn place(entry: &Entry, roots: &[PathBuf], to: Option<&Path>) -> Option<PathBuf> {
    let origin = entry.origin.as_ref()?;
    let Some(to) = to else {
        return Some(origin.clone());
    };
    let mut rests = roots
        .iter()
        .filter_map(|root| origin.strip_prefix(root).ok());
    let rest = rests.next()?;
    Some(match rest.as_os_str().is_empty() {
        true => to.to_path_buf(),
        false => to.join(rest),
    })
}

fn tell_log(context: &Context, entry: &Entry, to: &Path, done: &Restored) {
    if *done != Restored::Unchanged {
        note_in_log(
            context,
            "recovery_restore",
            json!({"id": entry.id, "to": to.to_string_lossy()}),
        );
    }
}

fn result(entry: &Entry, to: &Path, done: &Restored) -> Value {
    let (what, kept) = match done {
        Restored::Created => ("created", None),
        Restored::Replaced(kept) => ("replaced", Some(as_json(kept))),
        Restored::Unchanged => ("unchanged", None),
    };
    json!({
        "ok": true,
        "id": entry.id,
        "to": to.to_string_lossy(),
        "result": what,
        "kept": kept,
    })
}

fn line(to: &Path, done: &Restored) -> String {
    let to = to.display();
    match done {
        Restored::Created => format!("restored {to}"),
        Restored::Replaced(kept) => {
            format!("restored {to}; what was there is kept as {}", kept.id)
        }
        Restored::Unchanged => format!("{to} is as it was kept already"),
    }
}
