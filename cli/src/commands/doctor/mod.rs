//! `handsctl doctor`: what is missing on this machine, and the command that mends it.

mod home;
mod probe;
mod programs;
mod sandbox;
mod system;
mod trail;

use crate::Context;
use crate::exit::{Exit, Failure};
use serde::Serialize;
use serde_json::json;

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// Good to know; never counts against the machine.
    Info,
    /// As it should be.
    Ok,
    /// Works, with less than is promised.
    Warn,
    /// Does not work.
    Fail,
}

/// One check.
#[derive(Debug, Serialize)]
pub(crate) struct Check {
    name: String,
    state: State,
    detail: String,
    /// The command that mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<String>,
}

impl Check {
    fn new(name: impl Into<String>, state: State, detail: impl Into<String>) -> Check {
        Check {
            name: name.into(),
            state,
            detail: detail.into(),
            mend: None,
        }
    }

    fn mend(mut self, command: impl Into<String>) -> Check {
        self.mend = Some(command.into());
        self
    }
}

pub(crate) fn run(context: &Context) -> Result<Exit, Failure> {
    let mut checks = home::checks(context);
    let found = programs::checks(context, &mut checks);
    let (tried, promises) = sandbox::checks(context, found.runner.as_deref());
    checks.extend(tried);
    checks.push(trail::check(context));
    checks.extend(system::checks(context));
    let worst = checks.iter().map(|check| check.state).max();
    let (word, exit) = match worst {
        Some(State::Fail) => ("failed", Exit::Failed),
        Some(State::Warn) => ("degraded", Exit::Degraded),
        _ => ("ok", Exit::Ok),
    };
    if context.out.json {
        context
            .out
            .object(&json!({"state": word, "checks": checks, "promises": promises}))?;
        return Ok(exit);
    }
    let rows: Vec<Vec<String>> = checks.iter().map(row).collect();
    context
        .out
        .table(&["STATE", "CHECK", "DETAIL", "MEND WITH"], &rows)?;
    if !promises.is_empty() {
        context
            .out
            .text("\nThe sandbox's self-test tried to break each promise:")?;
        promises
            .iter()
            .try_for_each(|found| context.out.text(&lines(found)))?;
    }
    context.out.text(&format!("\n{word}"))?;
    Ok(exit)
}

/// A promise: whether it held, what was tried and what was seen.
fn lines(found: &sandbox::Finding) -> String {
    let state = match found.held {
        Some(true) => "held    ",
        Some(false) => "NOT HELD",
        None => "-       ",
    };
    let (number, title) = (found.number, &found.title);
    let (tried, seen) = (&found.tried, &found.seen);
    match found.held {
        Some(_) => format!("{state} {number:>2}. {title}\n    tried: {tried}\n    seen: {seen}"),
        None => format!("{state} {number:>2}. {title}\n    {seen}"),
    }
}

fn row(check: &Check) -> Vec<String> {
    let state = match check.state {
        State::Info => "info",
        State::Ok => "ok",
        State::Warn => "WARN",
        State::Fail => "FAIL",
    };
    vec![
        state.to_owned(),
        check.name.clone(),
        check.detail.clone(),
        check.mend.clone().unwrap_or_default(),
    ]
}
