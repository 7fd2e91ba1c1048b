//! `handsctl logs verify`: was a record of the trail removed, altered or cut.

use super::{folders, no_trail};
use crate::Context;
use crate::exit::{Exit, Failure};
use crate::output::{harmless, note};
use hands_activity::VerifyReport;
use serde_json::json;

pub(crate) fn run(context: &Context) -> Result<Exit, Failure> {
    let folders = folders(&context.home);
    if no_trail(&folders) {
        let text = format!("no trail yet at {}", context.home.root().display());
        if context.out.json {
            let object = json!({"ok": true, "records": 0, "sessions": 0, "first_bad": null,
                "message": text, "notes": []});
            context.out.object(&object)?;
        } else {
            context.out.text(&harmless(&text))?;
        }
        return Ok(Exit::Ok);
    }
    let report = hands_activity::verify(&folders)
        .map_err(|error| Failure::new("verifying the trail", error.to_string()))?;
    if context.out.json {
        context.out.object(&as_json(&report))?;
    } else {
        for text in &report.notes {
            note(&format!("note: {text}"));
        }
        match &report.first_bad {
            None => context.out.text(&format!(
                "intact: {} records of {} sessions",
                report.records, report.sessions
            ))?,
            Some(bad) => context.out.text(&harmless(&format!(
                "BROKEN: {bad}; checked {} records of {} sessions",
                report.records, report.sessions
            )))?,
        }
    }
    Ok(match report.first_bad {
        None => Exit::Ok,
        Some(_) => Exit::Failed,
    })
}

/// The report, with what is wrong also in words.
fn as_json(report: &VerifyReport) -> serde_json::Value {
    json!({
        "ok": report.first_bad.is_none(),
        "records": report.records,
        "sessions": report.sessions,
        "first_bad": report.first_bad,
        "message": report.first_bad.as_ref().map(ToString::to_string),
        "notes": report.notes,
    })
}
