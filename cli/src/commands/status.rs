//! `handsctl status`: one screen with all that runs, and what to do next.

use super::sessions;
use crate::exit::{Exit, Failure};
use crate::output::{harmless, one_line};
use crate::{Context, daemon};
use hands_control::Client;
use hands_control::types::daemon::{Child, ChildState, Status, Tunnel};
use hands_control::types::server::Sessions;
use serde_json::json;

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
                "pid {}, version {}, since {}, {http}",
                daemon.pid, daemon.version, daemon.started_at
            ),
        ),
        line("server", child(&found.server)),
        line("tunnel", tunnel(&found.tunnel)),
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

fn child(child: &Child) -> String {
    let mut parts = vec![child.state.as_str().replace('_', " ")];
    parts.extend(child.pid.map(|pid| format!("pid {pid}")));
    parts.push(format!("since {}", child.since));
    if child.restarts > 0 {
        parts.push(format!("restarted {} times", child.restarts));
    }
    if child.state != ChildState::Running {
        parts.extend(
            child
                .last_exit
                .as_ref()
                .map(|exit| format!("last ended with {exit}")),
        );
        parts.extend(
            child
                .next_start
                .as_ref()
                .map(|at| format!("next start {at}")),
        );
        parts.extend(child.reason.as_ref().map(|reason| one_line(reason, 200)));
    }
    parts.join(", ")
}

/// The tunnel in one line.
pub(crate) fn tunnel(tunnel: &Tunnel) -> String {
    if !tunnel.configured {
        return "not configured (local only)".to_owned();
    }
    let mut text = child(&tunnel.child);
    for part in [&tunnel.client, &tunnel.id].into_iter().flatten() {
        text.push_str(&format!(", {part}"));
    }
    if let Some(age) = tunnel.last_good_poll_s {
        text.push_str(&format!(", last good poll {age} s ago"));
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
