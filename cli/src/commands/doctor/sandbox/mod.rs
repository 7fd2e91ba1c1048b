//! Checks of the sandbox: what its self-test says, and what the system lacks for it.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod platform;
#[cfg(not(target_os = "linux"))]
#[path = "macos.rs"]
mod platform;

use super::{Check, State};
use crate::programs::{ask, quoted};
use crate::{Context, limits};
use serde::{Deserialize, Serialize};
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
    findings: Vec<Finding>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    hint: Option<String>,
}

/// What the self-test found of one promise.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Finding {
    /// Its number in the documents.
    pub(super) number: usize,
    /// The promise in a few words.
    pub(super) title: String,
    /// Whether it held; absent: not promised here, or not tried.
    #[serde(default)]
    pub(super) held: Option<bool>,
    /// What was tried.
    pub(super) tried: String,
    /// What was seen.
    pub(super) seen: String,
}

/// The outcome of the self-test, before it is known what mends it.
struct Outcome {
    state: State,
    detail: String,
    /// What the runner proposes.
    hint: Option<String>,
    findings: Vec<Finding>,
}

/// The checks, and what the self-test found of each promise.
pub(super) fn checks(context: &Context, runner: Option<&Path>) -> (Vec<Check>, Vec<Finding>) {
    let mut outcome = runner.map(|runner| canary(runner, &arguments(context)));
    let whole = outcome
        .as_ref()
        .is_some_and(|outcome| outcome.state == State::Ok);
    let mut parts = platform::checks(context, whole);
    let findings = outcome
        .as_mut()
        .map(|outcome| std::mem::take(&mut outcome.findings));
    let check = match (outcome, runner) {
        (Some(outcome), Some(runner)) => outcome.check(&parts, runner),
        _ => Check::new(
            "sandbox",
            State::Fail,
            "not tried: there is no hands-runner that can be run",
        )
        .mend("mend hands-runner first"),
    };
    if check.state == State::Warn {
        // What is missing is no failure where commands run without it.
        let missing = parts.iter_mut().filter(|part| part.state == State::Fail);
        missing.for_each(|part| part.state = State::Warn);
    }
    let checks = std::iter::once(check).chain(parts).collect();
    (checks, findings.unwrap_or_default())
}

impl Outcome {
    /// The mend, by what is known best: the part that fails, else the runner's proposal, else a closer look.
    fn check(self, parts: &[Check], runner: &Path) -> Check {
        let check = Check::new("sandbox", self.state, self.detail);
        if self.state == State::Ok {
            return check;
        }
        let part = parts.iter().find(|part| part.state == State::Fail);
        if let Some(mend) = part.and_then(|part| part.mend.clone()) {
            return check.mend(mend);
        }
        // A proposal that leads back to this very report helps nobody.
        let circular = |hint: &String| {
            hint.is_empty() || hint.contains("doctor") || hint.contains("hands-runner canary")
        };
        match self.hint.filter(|hint| !circular(hint)) {
            Some(hint) => check.mend(hint),
            None => check.mend(format!(
                "run `{} canary` by hand and report its line",
                quoted(runner)
            )),
        }
    }
}

/// What the server here would have tried. A configuration that cannot be read says nothing against
/// the usual.
fn arguments(context: &Context) -> Vec<&'static str> {
    let loaded = hands_config::load(&context.home, &context.env, &hands_config::Flags::default());
    let config = loaded.map(|loaded| loaded.config).unwrap_or_default();
    let mut args = vec!["canary", "--walls", config.sandbox.walls.as_str()];
    args.extend((!config.sandbox.broker).then_some("--no-broker"));
    args
}

fn canary(runner: &Path, args: &[&str]) -> Outcome {
    let failed = |detail: String| Outcome {
        state: State::Fail,
        detail,
        hint: None,
        findings: Vec::new(),
    };
    let output = match ask(runner, args, limits::CANARY) {
        Ok(output) => output,
        Err(why) => return failed(why),
    };
    let text = String::from_utf8_lossy(&output.stdout);
    // The last line: a library may have printed something before.
    let last = text.lines().next_back().unwrap_or_default();
    match serde_json::from_str(last) {
        Ok(canary) => judge(canary),
        Err(_) => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let said = match stderr.trim().lines().next_back() {
                Some(line) => format!("; it said: {line}"),
                None => String::new(),
            };
            failed(format!(
                "the self-test gave no result ({}){said}",
                output.status
            ))
        }
    }
}

fn judge(canary: Canary) -> Outcome {
    let mut broken: Vec<&str> = canary
        .promises
        .iter()
        .filter(|(_, kept)| !**kept)
        .map(|(name, _)| name.as_str())
        .collect();
    // A report is not believed over its own findings.
    let found = canary.findings.iter();
    let found = found.filter(|finding| finding.held == Some(false));
    if broken.is_empty() {
        broken = found.map(|finding| finding.title.as_str()).collect();
    }
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
    Outcome {
        state,
        detail,
        hint: canary.hint,
        findings: canary.findings,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(text: &str) -> Outcome {
        judge(serde_json::from_str(text).unwrap())
    }

    #[test]
    fn the_canary_decides() {
        let full = outcome(r#"{"backend":"bwrap","state":"full","promises":{"a":true}}"#);
        assert_eq!(
            (full.state, full.detail.as_str()),
            (State::Ok, "bwrap, full")
        );

        let lying = outcome(r#"{"backend":"bwrap","state":"full","promises":{"a":false}}"#);
        assert_eq!(lying.state, State::Warn, "a broken promise is never ok");

        let reduced = outcome(
            r#"{"backend":"landlock","state":"reduced","promises":{"a":true,"b":false},"reason":"no bwrap","hint":"install it"}"#,
        );
        assert_eq!(reduced.state, State::Warn);
        assert_eq!(reduced.detail, "landlock, reduced; not kept: b; no bwrap");
        assert_eq!(mend(reduced, &[]).as_deref(), Some("install it"));

        let none =
            outcome(r#"{"backend":"none","state":"none","promises":{},"reason":"x","hint":"y"}"#);
        assert_eq!(none.state, State::Fail);
        let unknown = outcome(r#"{"backend":"x","state":"splendid"}"#);
        assert_eq!(unknown.state, State::Fail);
    }

    fn mend(outcome: Outcome, parts: &[Check]) -> Option<String> {
        outcome.check(parts, Path::new("/opt/hands-runner")).mend
    }

    #[test]
    fn a_hint_never_leads_back_here() {
        for hint in [
            "run `handsctl doctor`",
            "a newer kernel; see `handsctl doctor`",
            "run `hands-runner canary` by hand",
            "",
        ] {
            let outcome = || Outcome {
                state: State::Fail,
                detail: String::new(),
                hint: Some(hint.to_owned()),
                findings: Vec::new(),
            };
            let by_hand = "run `'/opt/hands-runner' canary` by hand and report its line";
            assert_eq!(mend(outcome(), &[]).as_deref(), Some(by_hand));
            // The part that fails knows better.
            let parts = [
                Check::new("a", State::Warn, "").mend("no"),
                Check::new("b", State::Fail, "").mend("yes"),
            ];
            assert_eq!(mend(outcome(), &parts).as_deref(), Some("yes"));
        }
        let whole = Outcome {
            state: State::Ok,
            detail: String::new(),
            hint: Some("x".to_owned()),
            findings: Vec::new(),
        };
        assert_eq!(mend(whole, &[]), None);
    }
}
