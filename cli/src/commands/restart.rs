//! `handsctl restart [server|tunnel]`.

use super::status::show;
use super::{down, service, up};
use crate::args::Part;
use crate::exit::{Exit, Failure};
use crate::programs::DAEMON;
use crate::{Context, daemon, limits};
use hands_config::{Flags, load};
use hands_control::Client;
use hands_control::types::daemon::{Child, Done, Restart, Status, What};
use std::collections::BTreeSet;

pub(crate) fn run(context: &Context, what: Option<Part>) -> Result<Exit, Failure> {
    daemon::block_on(async {
        let client = daemon::connect(context).await?;
        match what {
            Some(part) => restart_part(context, &client, part).await,
            None => restart_all(context, &client).await,
        }
    })
}

async fn restart_part(context: &Context, client: &Client, part: Part) -> Result<Exit, Failure> {
    let before = daemon::status(client).await?;
    let what = match part {
        Part::Server => What::Server,
        Part::Tunnel => What::Tunnel,
    };
    let asked: Result<Done, _> = client.post("/v1/restart", &Restart { what }).await;
    asked.map_err(|error| daemon::explain("the restart", error))?;
    let time = limits::DAEMON_DOWN + limits::DAEMON_READY;
    let mut looks = BTreeSet::new();
    let (found, _) = daemon::wait_for(client, time, |found| {
        if !is_another(child(&before, part), child(found, part)) {
            return false;
        }
        looks.insert(found.readiness.checked_at.clone());
        // The first looks may have begun before the restart, and tell of the process before.
        found.readiness.ready || looks.len() >= limits::LOOKS && is_settled(found, part)
    })
    .await?;
    show(context, client, &found, None).await
}

fn child(status: &Status, part: Part) -> &Child {
    match part {
        Part::Server => &status.server,
        Part::Tunnel => &status.tunnel.child,
    }
}

/// Whether this is a later process, or the later end of one.
fn is_another(before: &Child, now: &Child) -> bool {
    match now.pid {
        Some(_) => now.pid != before.pid,
        None => now.since != before.since,
    }
}

/// Whether nothing more comes by waiting: what is not well of this part only the operator can mend.
fn is_settled(found: &Status, part: Part) -> bool {
    let prefix = match part {
        Part::Server => "server_",
        Part::Tunnel => "tunnel_",
    };
    let mut own = found.readiness.reasons.iter();
    let own_is_settled = own
        .all(|reason| !reason.code.starts_with(prefix) || reason.code.ends_with("needs_operator"));
    up::is_settled(found) && own_is_settled
}

/// A daemon that works is not stopped for one that could not start.
pub(crate) fn refuse_unusable_settings(context: &Context) -> Result<(), Failure> {
    match load(&context.home, &context.env, &Flags::default()) {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::new("the restart", error.to_string()).hint(
            "nothing was changed, and what ran runs on; `handsctl config check` tells when the configuration is good",
        )),
    }
}

async fn restart_all(context: &Context, client: &Client) -> Result<Exit, Failure> {
    refuse_unusable_settings(context)?;
    // One that a service manager holds must come back under it.
    if daemon::status(client).await?.daemon.manager.is_some() {
        return service::restart(context);
    }
    let program = DAEMON
        .find(&context.env)
        .map_err(|why| why.failure("finding handsd"))?;
    down::stop(context, client).await?;
    up::start(context, &program).await
}
