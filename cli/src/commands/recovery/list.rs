//! `handsctl recovery list`.

use super::{Which, as_json, failed, look};
use crate::Context;
use crate::args::{KindName, ListArgs};
use crate::exit::{Exit, Failure};
use crate::limits;
use crate::output::{harmless, note, one_line, size};
use hands_activity::{Entry, Kind};

pub(super) fn run(context: &Context, args: &ListArgs) -> Result<Exit, Failure> {
    let which = Which::new(&args.which, args.path.as_deref())?;
    let Some(recovery) = look(context)? else {
        say_none(context);
        return Ok(Exit::Ok);
    };
    let (mut entries, strange) = recovery.survey().map_err(failed("listing"))?;
    let kind = args.kind.map(kind);
    entries.retain(|entry| which.wants(entry) && kind.is_none_or(|kind| kind == entry.kind));
    let last = args.last.unwrap_or(limits::ENTRIES);
    let older = entries.len().saturating_sub(last);
    entries.drain(..older);
    if context.out.json {
        for entry in &entries {
            context.out.json_line(&as_json(entry))?;
        }
    } else if entries.is_empty() && older == 0 {
        say_none(context);
    } else {
        let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
        let heads = ["id", "kept", "kind", "size", "why", "from"];
        context.out.table(&heads, &rows)?;
    }
    if older > 0 && args.last.is_none() {
        note(&format!(
            "note: {older} older entries are not shown; say -n"
        ));
    }
    if let Some(first) = strange.first() {
        note(&format!(
            "note: {} files in the recovery folder have no readable record and are no entries, \
             the first is {}",
            strange.len(),
            first.display()
        ));
    }
    Ok(Exit::Ok)
}

/// An empty list is an answer too. On stderr: stdout holds entries only.
fn say_none(context: &Context) {
    if !context.out.json {
        let home = context.home.root().display();
        note(&format!("no such recovery entries at {home}"));
    }
}

fn row(entry: &Entry) -> Vec<String> {
    let from = match &entry.origin {
        Some(origin) => origin.display().to_string(),
        None => format!("(output of turn {})", entry.turn_id),
    };
    vec![
        entry.id.clone(),
        entry.ts.clone(),
        entry.kind.as_str().to_owned(),
        size(entry.bytes),
        one_line(&harmless(&entry.reason), limits::REASON_CHARS),
        harmless(&from).replace('\n', "⏎"),
    ]
}

fn kind(name: KindName) -> Kind {
    match name {
        KindName::File => Kind::File,
        KindName::Symlink => Kind::Symlink,
        KindName::Folder => Kind::Folder,
        KindName::Output => Kind::Output,
    }
}
