//! `handsctl restart [server|tunnel]`.

use super::status::show;
use super::{down, service, up};
use crate::args::Part;
use crate::exit::{Exit, Failure};
use crate::programs::DAEMON;
use crate::{Context, daemon, limits};
use hands_control::Client;
use hands_control::types::daemon::{Done, Restart, Status, What};

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
    let before = pid(&daemon::status(client).await?, part);
    let what = match part {
        Part::Server => What::Server,
        Part::Tunnel => What::Tunnel,
    };
    let asked: Result<Done, _> = client.post("/v1/restart", &Restart { what }).await;
    asked.map_err(|error| daemon::explain("the restart", error))?;
    let time = limits::DAEMON_DOWN + limits::DAEMON_READY;
    let (found, _) = daemon::wait_for(client, time, |found| {
        pid(found, part) != before && found.readiness.ready
    })
    .await?;
    show(context, client, &found, None).await
}

fn pid(status: &Status, part: Part) -> Option<u32> {
    match part {
        Part::Server => status.server.pid,
        Part::Tunnel => status.tunnel.child.pid,
    }
}

async fn restart_all(context: &Context, client: &Client) -> Result<Exit, Failure> {
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
