//! `handsctl status`: one screen with all that runs, and what to do next.

use super::sessions;
use crate::exit::{Exit, Failure};
use crate::output::{harmless, one_line, size};
use crate::{Context, daemon, when};
use hands_control::Client;
use hands_control::types::daemon::{Child, ChildState, Readiness, Status, Tunnel};
use hands_control::types::server::{RecoveryUse, Sessions};
use serde_json::json;
use time::OffsetDateTime;

pub(crate) fn run(context: &Context) -> Result<Exit, Failure> {
    daemon::block_on(async {
        let client = daemon::connect(context).await?;
        let found = daemon::status(&client).await?;
        show(context, &client, &found, None).await
    })
}

/// Whether all is well.
pub(crate) fn verdict(found: &Status) -> Exit {
    let unconfined = found
        .sandbox
        .as_ref()
        .is_some_and(|sandbox| sandbox.state != "full");
    match found.readiness.ready && found.daemon.http.is_some() && !unconfined {
        true => Exit::Ok,
        false => Exit::Degraded,
    }
}

/// Shows the status, after a line of its own where there is one; the exit code says whether all is well.
pub(crate) async fn show(
    context: &Context,
    client: &Client,
    found: &Status,
    head: Option<&str>,
) -> Result<Exit, Failure> {
    let exit = verdict(found);
    let sessions: Sessions = client
        .get("/v1/sessions")
        .await
        .map_err(|error| daemon::explain("asking for the sessions", error))?;
    if context.out.json {
        let mut object = serde_json::to_value(found)
            .map_err(|why| Failure::new("writing the status", why.to_string()))?;
        object["running"] = json!(true);
        object["ok"] = json!(exit == Exit::Ok);
        object["sessions"] = json!(sessions.sessions);
        object["next"] = json!(next(found));
        context.out.object(&object)?;
        return Ok(exit);
    }
    let mut lines: Vec<String> = head.map(str::to_owned).into_iter().collect();
    lines.extend(screen(found, &sessions));
    context.out.text(&harmless(&lines.join("\n")))?;
    Ok(exit)
}

fn screen(found: &Status, sessions: &Sessions) -> Vec<String> {
    let line = |name: &str, text: String| format!("{name:<9} {text}");
    let http = match &found.daemon.http {
        Some(address) => format!("http://{address}"),
        None => "no endpoints".to_owned(),
    };
    let daemon = &found.daemon;
    let mut lines = vec![
        line("ready", ready(found)),
        line(
            "daemon",
            format!(
                "pid {}, version {}, up for {}, {http}{}",
                daemon.pid,
                daemon.version,
                span(&daemon.started_at),
                if daemon.stopping { ", stopping" } else { "" }
            ),
        ),
        // Why one is not well is said once, in the first line.
        line("server", child(&found.server, &found.readiness)),
        line("tunnel", tunnel(&found.tunnel, &found.readiness)),
        line("sandbox", sandbox(found)),
        line("sessions", connected(sessions)),
    ];
    if let Some(server) = &found.server_status {
        let calls = &server.calls;
        let codes: Vec<String> = calls
            .by_code
            .iter()
            .map(|(code, count)| format!("{code} {count}"))
            .collect();
        lines.push(line(
            "calls",
            format!(
                "{} answered, {} at work  {}",
                calls.total,
                calls.in_flight,
                codes.join(", ")
            )
            .trim_end()
            .to_owned(),
        ));
    }
    let server = found.server_status.as_ref();
    if let Some(held) = server.and_then(|server| server.recovery.as_ref()) {
        lines.push(line("recovery", recovery(held)));
    }
    for call in &found.last_calls {
        let took = call
            .duration_ms
            .map(|ms| format!("{ms} ms"))
            .unwrap_or_default();
        lines.push(line(
            "",
            format!("{}  {:<12} {:<20} {took}", call.ts, call.tool, call.code)
                .trim_end()
                .to_owned(),
        ));
    }
    lines.extend(
        found
            .warnings
            .iter()
            .map(|warning| line("warning", warning.clone())),
    );
    lines.extend(next(found).into_iter().map(|step| line("next", step)));
    lines
}

fn ready(found: &Status) -> String {
    let readiness = &found.readiness;
    if readiness.ready {
        return match readiness.local_only {
            true => "yes, local only".to_owned(),
            false => "yes".to_owned(),
        };
    }
    let reasons: Vec<&str> = readiness
        .reasons
        .iter()
        .map(|reason| reason.message.as_str())
        .collect();
    format!("no: {}", reasons.join("; "))
}

fn child(child: &Child, readiness: &Readiness) -> String {
    let mut parts = vec![format!("{} for {}", state(child.state), span(&child.since))];
    parts.extend(child.pid.map(|pid| format!("pid {pid}")));
    match child.restarts {
        0 => {}
        1 => parts.push("restarted once".to_owned()),
        times => parts.push(format!("restarted {times} times")),
    }
    let said = |reason: &str| {
        let mut reasons = readiness.reasons.iter();
        reasons.any(|known| known.message.contains(reason))
    };
    if child.pid.is_none() {
        let exit = child.last_exit.as_ref();
        parts.extend(exit.map(|exit| format!("last ended with {exit}")));
    }
    let next = child.next_start.as_ref();
    parts.extend(next.map(|at| format!("next start in {}", span(at))));
    let reason = child.reason.as_deref().filter(|reason| !said(reason));
    parts.extend(reason.map(|reason| one_line(reason, 200)));
    parts.join(", ")
}

/// A state in a person's words.
fn state(state: ChildState) -> &'static str {
    match state {
        ChildState::Stopped => "stopped",
        ChildState::Starting => "starting",
        ChildState::Running => "running",
        ChildState::Stopping => "stopping",
        ChildState::Backoff => "ended, waiting",
        ChildState::Failed => "not working",
        ChildState::NeedsOperator => "needs you",
    }
}

/// How long ago, or how far ahead, a time is.
fn span(time: &str) -> String {
    when::span(time, OffsetDateTime::now_utc())
}

/// The tunnel in one line.
pub(crate) fn tunnel(tunnel: &Tunnel, readiness: &Readiness) -> String {
    if !tunnel.configured {
        return "not configured (local only)".to_owned();
    }
    let mut text = child(&tunnel.child, readiness);
    for part in [&tunnel.client, &tunnel.id].into_iter().flatten() {
        text.push_str(&format!(", {part}"));
    }
    if let Some(age) = tunnel.last_good_poll_s {
        text.push_str(&format!(", last good poll {age} s ago"));
    }
    if let Some(at) = &tunnel.next_try {
        text.push_str(&format!(", next try in {}", span(at)));
    }
    if let Some(age) = tunnel.last_answered_s {
        text.push_str(&format!(", last answered {age} s ago"));
    }
    if let Some(age) = tunnel.at_work_s {
        text.push_str(&format!(", a request at work for {age} s"));
    }
    text
}

fn sandbox(found: &Status) -> String {
    let Some(sandbox) = &found.sandbox else {
        return "not known yet".to_owned();
    };
    let mut text = format!("{} ({})", sandbox.state, sandbox.backend);
    for part in [&sandbox.reason, &sandbox.hint].into_iter().flatten() {
        text.push_str(&format!("; {part}"));
    }
    text
}

/// What the recovery folder holds, and what was dropped from it by itself.
fn recovery(held: &RecoveryUse) -> String {
    let mut text = format!(
        "{} of {} in {} {}",
        size(held.bytes),
        size(held.max_bytes),
        held.entries,
        if held.entries == 1 {
            "entry"
        } else {
            "entries"
        }
    );
    if let Some(last) = &held.last_dropped
        && last.by == "room"
    {
        text.push_str(&format!(
            "; {} entries kept until {} were dropped {} ago to make room",
            last.entries,
            last.until,
            span(&last.ts)
        ));
    }
    if held.bytes / 10 >= held.max_bytes / 100 * 9 {
        text.push_str("; nearly full: handsctl recovery rotate");
    }
    text
}

fn connected(sessions: &Sessions) -> String {
    let names: Vec<String> = sessions.sessions.iter().map(sessions::client).collect();
    match names.len() {
        0 => "none".to_owned(),
        count => format!("{count}: {}", one_line(&names.join(", "), 100)),
    }
}

/// What a person does next, the most urgent first.
fn next(found: &Status) -> Vec<String> {
    let hints = found
        .readiness
        .reasons
        .iter()
        .filter_map(|reason| reason.hint.clone());
    let mut steps: Vec<String> = Vec::new();
    for hint in hints {
        if !steps.contains(&hint) {
            steps.push(hint);
        }
    }
    if steps.is_empty() && found.readiness.ready && !found.tunnel.configured {
        steps.push(
            "`handsctl clients` connects local clients, `handsctl tunnel setup` connects ChatGPT"
                .to_owned(),
        );
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use hands_control::types::server::Dropped;

    #[test]
    fn what_the_recovery_folder_holds_is_said() {
        let mut held = RecoveryUse {
            bytes: 3 << 20,
            max_bytes: 1 << 30,
            entries: 12,
            last_dropped: None,
        };
        assert_eq!(recovery(&held), "3.0 MiB of 1.0 GiB in 12 entries");
        let mut last = Dropped {
            ts: "2026-11-30T12:00:00.000Z".into(),
            by: "room".into(),
            entries: 7,
            bytes: 1,
            until: "2026-10-01T00:00:00.000Z".into(),
        };
        held.last_dropped = Some(last.clone());
        let said = recovery(&held);
        assert!(
            said.contains("7 entries kept until 2026-10-01T00:00:00.000Z were dropped"),
            "{said}"
        );
        // What a person asked for is no news to them.
        last.by = "rotation".into();
        held.last_dropped = Some(last);
        held.bytes = (1 << 30) - 1000;
        let said = recovery(&held);
        assert!(!said.contains("dropped"), "{said}");
        assert!(
            said.ends_with("nearly full: handsctl recovery rotate"),
            "{said}"
        );
    }
}
