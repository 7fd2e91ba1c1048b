//! Checks of the sandbox: what its self-test says, and what the system lacks for it.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod platform;
#[cfg(not(target_os = "linux"))]
#[path = "macos.rs"]
mod platform;

use super::{Check, State};
use crate::programs::ask;
use crate::{Context, limits};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// What `hands-runner canary` prints.
#[derive(Debug, Deserialize)]
struct Canary {
    backend: String,
    state: String,
    #[serde(default)]
    promises: BTreeMap<String, bool>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    hint: Option<String>,
}

pub(super) fn checks(context: &Context, runner: Option<&Path>) -> Vec<Check> {
    let check = match runner {
        Some(runner) => canary(runner),
        None => Check::new("sandbox", State::Fail, "not tried: hands-runner is missing")
            .mend("install hands-runner first"),
    };
    let whole = check.state == State::Ok;
    let mut checks = vec![check];
    checks.extend(platform::checks(context, whole));
    checks
}

fn canary(runner: &Path) -> Check {
    let mend = format!("{} canary", runner.display());
    let output = match ask(runner, &["canary"], limits::CANARY) {
        Ok(output) => output,
        Err(why) => return Check::new("sandbox", State::Fail, why).mend(mend),
    };
    let text = String::from_utf8_lossy(&output.stdout);
    // The last line: a library may have printed something before.
    let last = text.lines().next_back().unwrap_or_default();
    match serde_json::from_str(last) {
        Ok(canary) => judge(&canary),
        Err(_) => Check::new(
            "sandbox",
            State::Fail,
            format!("the self-test gave no result ({})", output.status),
        )
        .mend(mend),
    }
}

fn judge(canary: &Canary) -> Check {
    let broken: Vec<&str> = canary
        .promises
        .iter()
        .filter(|(_, kept)| !**kept)
        .map(|(name, _)| name.as_str())
        .collect();
    let mut detail = format!("{}, {}", canary.backend, canary.state);
    if !broken.is_empty() {
        detail.push_str(&format!("; not kept: {}", broken.join(", ")));
    }
    if let Some(reason) = canary.reason.as_deref().filter(|text| !text.is_empty()) {
        detail.push_str(&format!("; {reason}"));
    }
    let state = match canary.state.as_str() {
        "full" if broken.is_empty() => State::Ok,
        "full" | "reduced" => State::Warn,
        _ => State::Fail,
    };
    let check = Check::new("sandbox", state, detail);
    match canary.hint.as_deref().filter(|text| !text.is_empty()) {
        Some(hint) if state != State::Ok => check.mend(hint),
        _ => check,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Check {
        judge(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn the_canary_decides() {
        let full = check(r#"{"backend":"bwrap","state":"full","promises":{"a":true}}"#);
        assert_eq!(
            (full.state, full.detail.as_str()),
            (State::Ok, "bwrap, full")
        );

        let lying = check(r#"{"backend":"bwrap","state":"full","promises":{"a":false}}"#);
        assert_eq!(lying.state, State::Warn, "a broken promise is never ok");

        let reduced = check(
            r#"{"backend":"landlock","state":"reduced","promises":{"a":true,"b":false},"reason":"no bwrap","hint":"install it"}"#,
        );
        assert_eq!(reduced.state, State::Warn);
        assert_eq!(reduced.detail, "landlock, reduced; not kept: b; no bwrap");
        assert_eq!(reduced.mend.as_deref(), Some("install it"));

        let none =
            check(r#"{"backend":"none","state":"none","promises":{},"reason":"x","hint":"y"}"#);
        assert_eq!(none.state, State::Fail);
        let unknown = check(r#"{"backend":"x","state":"splendid"}"#);
        assert_eq!(unknown.state, State::Fail);
    }
}
