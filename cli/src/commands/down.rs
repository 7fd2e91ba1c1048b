//! `handsctl down`: stop the daemon.

use crate::exit::{Exit, Failure};
use crate::{Context, daemon, limits};
use hands_control::Client;
use hands_control::types::daemon::Done;
use serde_json::json;
use std::time::Instant;

pub(crate) fn run(context: &Context) -> Result<Exit, Failure> {
    daemon::block_on(async {
        let Some(client) = daemon::connect_if_running(context).await? else {
            say(context, "handsd does not run")?;
            return Ok(Exit::Ok);
        };
        stop(context, &client).await?;
        say(context, "handsd is stopped")?;
        Ok(Exit::Ok)
    })
}

fn say(context: &Context, text: &str) -> Result<(), Failure> {
    match context.out.json {
        true => context.out.object(&json!({"ok": true, "message": text}))?,
        false => context.out.text(text)?,
    }
    Ok(())
}

/// Stops it and waits until another could start.
pub(crate) async fn stop(context: &Context, client: &Client) -> Result<(), Failure> {
    let asked: Result<Done, _> = client.post("/v1/stop", &json!({})).await;
    asked.map_err(|error| daemon::explain("stopping the daemon", error))?;
    until_gone(context).await
}

/// Waits until a daemon that is on its way down is gone.
pub(crate) async fn until_gone(context: &Context) -> Result<(), Failure> {
    let lock = context.home.run_dir().join("handsd.pid");
    let deadline = Instant::now() + limits::DAEMON_DOWN;
    while is_locked(&lock) {
        if Instant::now() >= deadline {
            let why = format!("it still runs after {} s", limits::DAEMON_DOWN.as_secs());
            return Err(Failure::new("stopping the daemon", why).hint("see `handsctl logs daemon`"));
        }
        tokio::time::sleep(limits::LOOK).await;
    }
    Ok(())
}

/// A daemon holds this lock to its very end.
pub(crate) fn is_locked(path: &std::path::Path) -> bool {
    match std::fs::File::open(path) {
        Ok(file) => matches!(
            file.try_lock_shared(),
            Err(std::fs::TryLockError::WouldBlock)
        ),
        Err(_) => false,
    }
}
