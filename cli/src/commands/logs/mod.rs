//! `handsctl logs`: the trail and the other logs of the home.

mod activity;
mod plain;
mod verify;

use crate::Context;
use crate::args::{LogsArgs, LogsWhat};
use crate::exit::{Exit, Failure};
use hands_activity::Folders;
use hands_config::Home;

pub(crate) fn run(context: &Context, args: LogsArgs) -> Result<Exit, Failure> {
    match args.what {
        None => activity::run(context, args.activity),
        Some(LogsWhat::Activity(activity)) => activity::run(context, activity),
        Some(LogsWhat::Verify) => verify::run(context),
        Some(LogsWhat::Lifecycle { last }) => plain::lifecycle(context, last),
        Some(LogsWhat::Daemon { last }) => plain::daemon(context, last),
        Some(LogsWhat::Faults { last }) => plain::faults(context, last),
    }
}

/// Where the trail of a home lies.
pub(crate) fn folders(home: &Home) -> Folders {
    Folders {
        logs: home.logs_dir(),
        trail: home.trail_dir(),
        recovery: home.recovery_dir(),
    }
}
