//! Asking the running daemon, and only it, about what runs.

use crate::Context;
use crate::exit::Failure;
use crate::limits;
use hands_control::types::daemon::Status;
use hands_control::{Client, ControlError, daemon_socket};
use std::time::{Duration, Instant};

/// Runs `work` on a runtime of its own.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|cause| Failure::new("asking the daemon", cause.to_string()))?
        .block_on(work)
}

/// A client of this home's daemon.
pub(crate) async fn connect(context: &Context) -> Result<Client, Failure> {
    let socket = daemon_socket(&context.home.run_dir());
    let client = Client::connect(&socket)
        .await
        .map_err(|error| explain("asking the daemon", error))?;
    Ok(client.with_timeout(limits::ASK_DAEMON))
}

/// A client, or none where no daemon runs.
pub(crate) async fn connect_if_running(context: &Context) -> Result<Option<Client>, Failure> {
    let socket = daemon_socket(&context.home.run_dir());
    match Client::connect(&socket).await {
        Ok(client) => Ok(Some(client.with_timeout(limits::ASK_DAEMON))),
        Err(error) if error.is_not_running() => Ok(None),
        Err(error) => Err(explain("asking the daemon", error)),
    }
}

/// Everything the daemon knows.
pub(crate) async fn status(client: &Client) -> Result<Status, Failure> {
    let status = client.get("/v1/status").await;
    status.map_err(|error| explain("asking the daemon for its status", error))
}

/// Waits until the status is as wanted, at most `time`; the last one seen, and whether it is.
pub(crate) async fn wait_for(
    client: &Client,
    time: Duration,
    mut wanted: impl FnMut(&Status) -> bool,
) -> Result<(Status, bool), Failure> {
    let deadline = Instant::now() + time;
    loop {
        let status = status(client).await?;
        let done = wanted(&status);
        if done || Instant::now() >= deadline {
            return Ok((status, done));
        }
        tokio::time::sleep(limits::LOOK).await;
    }
}

/// How a daemon that does not run is started: where it is a service, by its manager.
fn start_hint() -> &'static str {
    let installed = hands_launchd::native().is_ok_and(|manager| manager.path().exists());
    match installed {
        true => {
            "start it with `handsctl service start`; `handsctl logs daemon` may say why it ended"
        }
        false => "start it with `handsctl up`; `handsctl logs daemon` may say why it ended",
    }
}

/// Names the process of a daemon that does not answer, and the way out.
pub(crate) fn way_out(context: &Context, failure: Failure) -> Failure {
    if !failure.is_hung() {
        return failure;
    }
    let path = context.home.run_dir().join("handsd.pid");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    match text.trim().parse::<u32>() {
        Ok(pid) => failure.hint(format!(
            "handsd (pid {pid}) hangs or is stopped: `kill -9 {pid}` ends it, then `handsctl up`"
        )),
        Err(_) => failure,
    }
}

/// A control error in this program's words and exit codes.
pub(crate) fn explain(what: &str, error: ControlError) -> Failure {
    match error {
        error if error.is_not_running() => {
            Failure::not_running(what, "handsd does not run").hint(start_hint())
        }
        ControlError::Ended { .. } => {
            Failure::not_running(what, "handsd ended while it was asked").hint(start_hint())
        }
        ControlError::Api(error) => {
            let failure = Failure::new(what, error.message);
            match error.hint {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
        }
        error @ ControlError::Timeout { .. } => {
            Failure::hung(what, error.to_string()).hint("see `handsctl logs daemon`")
        }
        error => Failure::new(what, error.to_string()).hint("see `handsctl logs daemon`"),
    }
}
