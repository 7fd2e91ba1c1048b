//! `handsctl logs lifecycle|faults`: the logs that are no chain.

use super::folders;
use crate::Context;
use crate::exit::{Exit, Failure};
use crate::output::harmless;
use hands_activity::{LifecycleNote, read_faults, read_lifecycle};
use serde_json::{Value, json};

pub(crate) fn lifecycle(context: &Context, last: usize) -> Result<Exit, Failure> {
    let notes = read_lifecycle(&folders(&context.home), last)
        .map_err(|error| Failure::new("reading the lifecycle log", error.to_string()))?;
    say_if_none(context, notes.is_empty() && last > 0, "starts or stops");
    for note in &notes {
        if context.out.json {
            context.out.json_line(note)?;
        } else {
            context.out.text(&line(note))?;
        }
    }
    Ok(Exit::Ok)
}

/// An empty log is an answer too. On stderr: stdout holds entries only.
fn say_if_none(context: &Context, none: bool, what: &str) {
    if none && !context.out.json {
        let home = context.home.root().display();
        crate::output::note(&format!("no {what} recorded at {home}"));
    }
}

fn line(note: &LifecycleNote) -> String {
    let detail = match &note.detail {
        Value::Null => String::new(),
        detail => detail.to_string(),
    };
    let line = format!(
        "{}  {:<12}  {:<12}  pid {:<7}  {}  {detail}",
        note.ts, note.event, note.process, note.pid, note.version
    );
    harmless(line.trim_end()).replace('\n', "⏎")
}

pub(crate) fn faults(context: &Context, last: usize) -> Result<Exit, Failure> {
    let faults = read_faults(&folders(&context.home), last)
        .map_err(|error| Failure::new("reading the fault log", error.to_string()))?;
    say_if_none(context, faults.is_empty() && last > 0, "faults");
    for fault in &faults {
        if context.out.json {
            context.out.json_line(&json!({"fault": fault}))?;
        } else {
            context.out.text(&harmless(fault))?;
        }
    }
    Ok(Exit::Ok)
}
