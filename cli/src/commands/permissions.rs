//! `handsctl permissions`: what sessions were allowed, opening folders for them, and closing them.
//!
//! It asks every server of the home on its own socket, so that it works with a daemon and without.

use crate::args::{GrantArgs, PermissionsWhat, RevokeArgs};
use crate::exit::{Exit, Failure};
use crate::{Context, daemon, limits, when};
use hands_control::types::server::{
    Grant, GrantRequest, Grants, Pending, RevokeRequest, Revoked, Session, SessionGrant, Sessions,
};
use hands_control::{Client, ControlError, server_sockets};
use std::path::{Path, PathBuf};

pub(crate) fn run(context: &Context, what: PermissionsWhat) -> Result<Exit, Failure> {
    daemon::block_on(async {
        match what {
            PermissionsWhat::List { session } => list(context, session.as_deref()).await,
            PermissionsWhat::Grant(args) => grant(context, &args).await,
            PermissionsWhat::Revoke(args) => revoke(context, &args).await,
        }
    })
}

/// A session that is open, and who has it.
struct Open {
    server: Client,
    session: Session,
}

impl Open {
    fn named(&self) -> String {
        format!(
            "{} ({}, server {})",
            self.session.id,
            super::sessions::client(&self.session),
            self.session.server_pid
        )
    }
}

/// Every session of the home's servers, without the daemon's own, which only pings. A server that
/// does not answer is told of, and holds up no other.
async fn sessions(context: &Context, doing: &str) -> Result<Vec<Open>, Failure> {
    let run = context.home.run_dir();
    let daemon = std::fs::read_to_string(run.join("handsd.pid")).unwrap_or_default();
    let daemon: Option<u32> = daemon.trim().parse().ok();
    let is_own = |session: &Session| {
        let client = session.client.as_ref();
        let pings = client.is_some_and(|client| client.name == "handsd");
        pings && daemon.is_some() && session.peer_pid == daemon
    };
    let mut found = Vec::new();
    let mut problems = Vec::new();
    let mut servers = 0;
    for (_, socket) in server_sockets(&run) {
        match sessions_of(&socket).await {
            Ok((server, sessions)) => {
                servers += 1;
                let others = sessions.sessions.into_iter().filter(|s| !is_own(s));
                let server = &server;
                found.extend(others.map(|session| Open {
                    server: server.clone(),
                    session,
                }));
            }
            // Left by a server that was killed.
            Err(error) if error.is_not_running() => {}
            Err(error) => problems.push(error),
        }
    }
    if servers > 0 {
        for problem in &problems {
            crate::output::note(&format!("warning: a server was left out: {problem}"));
        }
        return Ok(found);
    }
    if let Some(problem) = problems.first() {
        return Err(failed(doing, problem));
    }
    let why = format!(
        "no server runs for the home {}",
        context.home.root().display()
    );
    Err(Failure::not_running(doing, why).hint(
        "permissions belong to sessions that are open: connect a client, or start the daemon with `handsctl up`",
    ))
}

async fn sessions_of(socket: &Path) -> Result<(Client, Sessions), ControlError> {
    let server = Client::connect(socket).await?;
    let server = server.with_timeout(limits::ASK_DAEMON);
    let sessions = server.get("/v1/sessions").await?;
    Ok((server, sessions))
}

/// A server's refusal in this program's words.
fn failed(doing: &str, error: &ControlError) -> Failure {
    match error {
        ControlError::Api(error) => {
            let failure = Failure::new(doing, error.message.clone());
            match &error.hint {
                Some(hint) => failure.hint(hint.clone()),
                None => failure,
            }
        }
        error => Failure::new(doing, error.to_string()).hint("`handsctl doctor` may say why"),
    }
}

/// The sessions that are meant: those named, else all if `all`, else the only one.
fn meant(open: Vec<Open>, doing: &str, names: &[String], all: bool) -> Result<Vec<Open>, Failure> {
    if !names.is_empty() {
        return named(open, doing, names);
    }
    if open.is_empty() {
        return Err(Failure::new(doing, "no client is connected")
            .hint("permissions belong to sessions that are open, and end with them"));
    }
    if all || open.len() == 1 {
        return Ok(open);
    }
    let list: Vec<String> = open.iter().map(Open::named).collect();
    let why = format!("{} sessions are open: {}", open.len(), list.join(", "));
    Err(Failure::usage(doing, why).hint("name one with --session, or say --all-sessions"))
}

/// Those whose id is a name or begins with one.
fn named(open: Vec<Open>, doing: &str, names: &[String]) -> Result<Vec<Open>, Failure> {
    for name in names {
        let alike: Vec<&Open> = open.iter().filter(|o| begins(o, name)).collect();
        match alike.as_slice() {
            [_] => {}
            [] => {
                let list: Vec<String> = open.iter().map(Open::named).collect();
                let hint = match list.is_empty() {
                    true => "no session is open".to_owned(),
                    false => format!("open are {}", list.join(", ")),
                };
                return Err(Failure::new(doing, format!("no session {name} is open")).hint(hint));
            }
            several => {
                let list: Vec<String> = several.iter().map(|o| o.named()).collect();
                let why = format!("{name} may be any of {}", list.join(", "));
                return Err(Failure::usage(doing, why).hint("give more of its id"));
            }
        }
    }
    let is_meant = |o: &Open| names.iter().any(|name| begins(o, name));
    Ok(open.into_iter().filter(is_meant).collect())
}

fn begins(open: &Open, name: &str) -> bool {
    !name.is_empty() && open.session.id.starts_with(name)
}

async fn list(context: &Context, session: Option<&str>) -> Result<Exit, Failure> {
    const DOING: &str = "listing the permissions";
    let open = sessions(context, DOING).await?;
    let open = match session {
        Some(name) => named(open, DOING, &[name.to_owned()])?,
        None => open,
    };
    let sessions: Vec<Session> = open.into_iter().map(|open| open.session).collect();
    if context.out.json {
        context.out.object(&Sessions { sessions })?;
        return Ok(Exit::Ok);
    }
    if sessions.is_empty() {
        context.out.text("no client is connected")?;
        return Ok(Exit::Ok);
    }
    let rows: Vec<Vec<String>> = sessions.iter().flat_map(rows).collect();
    let heads = ["SESSION", "CLIENT", "FOLDER", "WHAT", "STATE"];
    context.out.table(&heads, &rows)?;
    Ok(Exit::Ok)
}

fn rows(session: &Session) -> Vec<Vec<String>> {
    let row = |folder: &str, what: &str, state: String| {
        let client = super::sessions::client(session);
        vec![
            session.id.clone(),
            client,
            folder.to_owned(),
            what.to_owned(),
            state,
        ]
    };
    let grants = session.grants.iter().map(|grant| {
        let state = format!("open until {}, by {}", grant.expires_at, opener(grant));
        row(&shown(grant), &grant.purpose, state)
    });
    let pending = session
        .pending
        .iter()
        .map(|asked| row(&asked.folder, &asked.act, awaited(asked)));
    let mut rows: Vec<Vec<String>> = grants.chain(pending).collect();
    if rows.is_empty() {
        rows.push(row("-", "-", "nothing is open".to_owned()));
    }
    rows
}

fn shown(grant: &Grant) -> String {
    match grant.direct_only {
        true => format!("{} (files directly in it)", grant.folder),
        false => grant.folder.clone(),
    }
}

fn opener(grant: &Grant) -> &str {
    match grant.by.as_str() {
        "nonce" => "the planner's nonce",
        "person" => "handsctl",
        other => other,
    }
}

fn awaited(asked: &Pending) -> String {
    match &asked.expires_at {
        Some(until) => format!("asked at {}, nonce good until {until}", asked.asked_at),
        None => format!("asked at {}, waits for `permissions grant`", asked.asked_at),
    }
}

async fn grant(context: &Context, args: &GrantArgs) -> Result<Exit, Failure> {
    const DOING: &str = "granting";
    let for_s = args.term.as_deref().map(seconds).transpose()?;
    let folders = absolute(DOING, &args.folders)?;
    let open = sessions(context, DOING).await?;
    let open = meant(open, DOING, &args.which.session, args.which.all_sessions)?;
    let mut granted: Vec<SessionGrant> = Vec::new();
    for one in open {
        let request = GrantRequest {
            session: one.session.id.clone(),
            folders: folders.clone(),
            for_s,
        };
        match one.server.post::<Grants>("/v1/grants", &request).await {
            Ok(answer) => granted.extend(answer.grants),
            Err(error) => {
                let done: Vec<&str> = granted.iter().map(|g| g.session.as_str()).collect();
                let what = match done.is_empty() {
                    true => DOING.to_owned(),
                    false => format!("{DOING} in {} (done in {})", one.named(), done.join(", ")),
                };
                return Err(failed(&what, &error));
            }
        }
    }
    if context.out.json {
        context.out.object(&Grants { grants: granted })?;
        return Ok(Exit::Ok);
    }
    for SessionGrant { session, grant } in &granted {
        let line = format!(
            "{} is open in session {session} until {}",
            shown(grant),
            grant.expires_at
        );
        context.out.text(&line)?;
    }
    Ok(Exit::Ok)
}

async fn revoke(context: &Context, args: &RevokeArgs) -> Result<Exit, Failure> {
    const DOING: &str = "revoking";
    let folders = match args.all {
        true => None,
        false => Some(absolute(DOING, &args.folders)?),
    };
    let open = sessions(context, DOING).await?;
    // Closing too much harms nobody: without a name it is meant everywhere.
    let open = meant(open, DOING, &args.session, true)?;
    let mut revoked: Vec<Revoked> = Vec::new();
    let mut failures = Vec::new();
    for one in open {
        let request = RevokeRequest {
            session: one.session.id.clone(),
            folders: folders.clone(),
        };
        match one.server.post("/v1/grants/revoke", &request).await {
            Ok(answer) => revoked.push(answer),
            // The others are to be closed all the same.
            Err(error) => failures.push(failed(&format!("{DOING} in {}", one.named()), &error)),
        }
    }
    if let Some(failure) = failures.into_iter().next() {
        return Err(failure);
    }
    report_revoked(context, &revoked)
}

fn report_revoked(context: &Context, revoked: &[Revoked]) -> Result<Exit, Failure> {
    let warnings: Vec<&String> = revoked.iter().flat_map(|r| &r.warnings).collect();
    let exit = match warnings.is_empty() {
        true => Exit::Ok,
        false => Exit::Degraded,
    };
    if context.out.json {
        context
            .out
            .object(&serde_json::json!({"revoked": revoked}))?;
        return Ok(exit);
    }
    let mut lines = Vec::new();
    for one in revoked {
        let session = &one.session;
        let closed = one.grants.iter();
        lines.extend(closed.map(|g| format!("{} is closed in session {session}", shown(g))));
        let nonces = one.nonces.iter();
        lines.extend(nonces.map(|asked| {
            let (folder, act) = (&asked.folder, &asked.act);
            format!("the unused nonce for {folder} ({act}) of session {session} is void")
        }));
    }
    if lines.is_empty() {
        lines.push("nothing was open".to_owned());
    }
    lines.extend(warnings.iter().map(|warning| format!("warning: {warning}")));
    context.out.text(&lines.join("\n"))?;
    Ok(exit)
}

/// Seconds of `30s`, `10m`, `2h`.
fn seconds(text: &str) -> Result<u64, Failure> {
    let span = when::length(text).and_then(|span| u64::try_from(span.whole_seconds()).ok());
    span.filter(|seconds| *seconds > 0).ok_or_else(|| {
        Failure::usage(
            "granting",
            format!("{text:?} is no length of time: write 30s, 10m or 2h"),
        )
    })
}

/// The folders as the servers take them: absolute, not resolved. What is a link is for them to say.
fn absolute(doing: &str, folders: &[PathBuf]) -> Result<Vec<String>, Failure> {
    let whole = |folder: &PathBuf| {
        let path = std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
        let unusable =
            |path: &Path| Failure::usage(doing, format!("{} is no UTF-8 text", path.display()));
        path.to_str()
            .map(str::to_owned)
            .ok_or_else(|| unusable(&path))
    };
    folders.iter().map(whole).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_and_nothing_else() {
        for (text, wanted) in [("30s", 30), ("10m", 600), ("2h", 7200), ("1d", 86_400)] {
            assert_eq!(seconds(text).unwrap(), wanted);
        }
        for text in [
            "",
            "0s",
            "-1h",
            "2",
            "h",
            "2w",
            "1.5h",
            "99999999999999999h",
        ] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn folders_are_made_absolute_and_links_stay() {
        let here = std::env::current_dir().unwrap();
        let given = ["a/./b/", "/x/../y"].map(PathBuf::from);
        let found = absolute("testing", &given).unwrap();
        assert_eq!(Path::new(&found[0]), here.join("a/b"));
        assert_eq!(found[1], "/x/../y");
    }
}
