//! `handsctl sessions`: who is connected.

use crate::exit::{Exit, Failure};
use crate::{Context, daemon};
use hands_control::types::server::{Session, Sessions};

pub(crate) fn run(context: &Context) -> Result<Exit, Failure> {
    let found: Sessions = daemon::block_on(async {
        let client = daemon::connect(context).await?;
        let found = client.get("/v1/sessions").await;
        found.map_err(|error| daemon::explain("asking for the sessions", error))
    })?;
    if context.out.json {
        context.out.object(&found)?;
        return Ok(Exit::Ok);
    }
    if found.sessions.is_empty() {
        context.out.text("no client is connected")?;
        return Ok(Exit::Ok);
    }
    let rows: Vec<Vec<String>> = found.sessions.iter().map(row).collect();
    let heads = ["SESSION", "CLIENT", "SINCE", "CALLS", "SERVER", "ALLOWED"];
    context.out.table(&heads, &rows)?;
    Ok(Exit::Ok)
}

fn row(session: &Session) -> Vec<String> {
    let grants = session.grants.iter();
    let grants: Vec<String> = grants
        .map(|grant| {
            format!(
                "{} in {} until {}",
                grant.purpose, grant.folder, grant.expires_at
            )
        })
        .collect();
    vec![
        session.id.clone(),
        client(session),
        session.opened_at.clone(),
        session.calls.to_string(),
        session.server_pid.to_string(),
        if grants.is_empty() {
            "-".to_owned()
        } else {
            grants.join("; ")
        },
    ]
}

/// Who is connected, in its own words.
pub(crate) fn client(session: &Session) -> String {
    match &session.client {
        Some(client) => format!("{} {}", client.name, client.version)
            .trim_end()
            .to_owned(),
        None if session.through_tunnel && session.calls == 0 => {
            "the tunnel (no planner has called yet)".to_owned()
        }
        None if session.through_tunnel => "a planner through the tunnel".to_owned(),
        None => "(has not said)".to_owned(),
    }
}
