//! `handsctl recovery rotate`: compresses what is old and drops what is beyond the limits.

use super::{as_json, failed, limits, note_in_log};
use crate::Context;
use crate::args::RotateArgs;
use crate::exit::{Exit, Failure};
use crate::output::{harmless, note, size};
use crate::when;
use hands_activity::{Recovery, Rotated, Rotation};
use hands_config::{Flags, load};
use serde_json::json;
use std::time::Duration;

pub(super) fn run(context: &Context, args: &RotateArgs) -> Result<Exit, Failure> {
    let wish = wish(context, args)?;
    let folder = context.home.recovery_dir();
    let opened = match args.dry_run {
        true => Recovery::look(&folder, limits(context)),
        // One that is not there need not be made.
        false if !folder.exists() => Ok(None),
        false => Recovery::open(&folder, limits(context)).map(Some),
    };
    let rotated = match opened.map_err(failed("opening"))? {
        None => Rotated::default(),
        Some(recovery) => recovery.rotate(&wish).map_err(failed("rotating"))?,
    };
    if let Some(dropped) = &rotated.noted {
        let detail = json!({"entries": dropped.entries, "bytes": dropped.bytes,
            "until": dropped.until});
        note_in_log(context, "recovery_rotate", detail);
    }
    if context.out.json {
        context.out.object(&as_object(&rotated, &wish))?;
    } else {
        context
            .out
            .text(&harmless(&lines(&rotated, &wish).join("\n")))?;
    }
    for path in &rotated.put_back {
        note(&format!(
            "note: put back: {}, which a killed command had set aside",
            path.display()
        ));
    }
    for path in &rotated.found {
        note(&format!(
            "note: left alone: {} was left by a killed command; look at it and remove it",
            path.display()
        ));
    }
    for why in &rotated.failed {
        note(&format!("note: left uncompressed: {why}"));
    }
    for path in &rotated.strange {
        note(&format!("note: left alone: {} is no entry", path.display()));
    }
    Ok(Exit::Ok)
}

fn wish(context: &Context, args: &RotateArgs) -> Result<Rotation, Failure> {
    let loaded = load(&context.home, &context.env, &Flags::default())
        .map_err(|error| Failure::new("reading the configuration", error.to_string()))?;
    let config = loaded.config.limits;
    let age = |option: &str, text: &Option<String>, otherwise: Duration| match text {
        None => Ok(otherwise),
        Some(text) => {
            when::age(text).map_err(|why| Failure::usage(format!("the option {option}"), why))
        }
    };
    let max_bytes = match &args.max_bytes {
        None => config.recovery_bytes,
        Some(text) => {
            when::size(text).map_err(|why| Failure::usage("the option --max-bytes", why))?
        }
    };
    Ok(Rotation {
        max_age: Some(age("--max-age", &args.max_age, config.recovery_max_age())?),
        max_entries: args.max_entries.unwrap_or(config.recovery_max_entries),
        max_bytes,
        min_age: age("--min-age", &args.min_age, config.recovery_min_age())?,
        compress: !args.no_compress,
        dry_run: args.dry_run,
    })
}

/// Whether what is left is more than was wished for.
fn is_over(rotated: &Rotated, wish: &Rotation) -> bool {
    rotated.entries > wish.max_entries || rotated.bytes > wish.max_bytes
}

fn lines(rotated: &Rotated, wish: &Rotation) -> Vec<String> {
    let would = if wish.dry_run { "would have " } else { "" };
    let mut lines = Vec::new();
    if rotated.settled > 0 {
        lines.push(format!(
            "kept {} files that a killed command had left",
            rotated.settled
        ));
    }
    if rotated.cleared > 0 {
        lines.push(format!("cleared {} leftovers", rotated.cleared));
    }
    let count = rotated.compressed.len();
    if count > 0 {
        let sum =
            |of: fn(&hands_activity::Shrunk) -> u64| size(rotated.compressed.iter().map(of).sum());
        let after = match wish.dry_run {
            true => String::new(),
            false => format!(", now {}", sum(|one| one.after)),
        };
        let before = sum(|one| one.before);
        lines.push(format!(
            "{would}compressed {count} entries: {before}{after}"
        ));
    }
    let bytes = rotated.dropped.iter().map(|entry| entry.stored_bytes).sum();
    let count = rotated.dropped.len();
    lines.push(match rotated.dropped.last() {
        None => format!("{would}dropped nothing"),
        Some(youngest) => format!(
            "{would}dropped {count} entries kept until {}: {}",
            youngest.ts,
            size(bytes)
        ),
    });
    if wish.dry_run {
        lines.extend(rotated.dropped.iter().map(|entry| {
            let from = entry.origin.as_ref();
            let from = from.map_or("(output)".into(), |path| path.display().to_string());
            format!("  {}  {}  {from}", entry.id, entry.ts)
        }));
    }
    lines.push(format!(
        "{} entries, {} of {}",
        rotated.entries,
        size(rotated.bytes),
        size(wish.max_bytes)
    ));
    if is_over(rotated, wish) {
        lines.push(
            "still over the limits: the rest is younger than the least age (--min-age)".to_owned(),
        );
    }
    lines
}

fn as_object(rotated: &Rotated, wish: &Rotation) -> serde_json::Value {
    let compressed = rotated
        .compressed
        .iter()
        .map(|one| json!({"id": one.id, "before": one.before, "after": one.after}));
    json!({
        "ok": true,
        "dry_run": wish.dry_run,
        "settled": rotated.settled,
        "put_back": rotated.put_back,
        "found": rotated.found,
        "cleared": rotated.cleared,
        "compressed": compressed.collect::<Vec<_>>(),
        "dropped": rotated.dropped.iter().map(as_json).collect::<Vec<_>>(),
        "failed": rotated.failed,
        "left_alone": rotated.strange,
        "entries": rotated.entries,
        "bytes": rotated.bytes,
        "over": is_over(rotated, wish),
    })
}
