//! `handsctl logs`: the trail and the other logs of the home.

mod activity;
mod plain;
mod verify;

use crate::Context;
use crate::args::{ActivityArgs, LogsArgs, LogsWhat};
use crate::exit::{Exit, Failure};
use hands_activity::Folders;
use hands_config::Home;

pub(crate) fn run(context: &Context, args: LogsArgs) -> Result<Exit, Failure> {
    if args.what.is_some() && args.activity != ActivityArgs::default() {
        return Err(Failure::usage(
            "reading the command line",
            "an option of the records stands before the name of a log",
        )
        .hint("put it behind, as in `handsctl logs activity -n 5`"));
    }
    match args.what {
        None => activity::run(context, args.activity),
        Some(LogsWhat::Activity(activity)) => activity::run(context, activity),
        Some(LogsWhat::Verify) => verify::run(context),
        Some(LogsWhat::Lifecycle { last }) => plain::lifecycle(context, last),
        Some(LogsWhat::Daemon { last }) => plain::daemon(context, last),
        Some(LogsWhat::Faults { last }) => plain::faults(context, last),
    }
}

/// Whether nothing of a trail is there. What cannot be looked at counts as there: reading it will say why.
pub(crate) fn no_trail(folders: &Folders) -> bool {
    [&folders.trail, &folders.activity()].iter().all(|path| {
        let looked = path.symlink_metadata();
        looked.is_err_and(|cause| cause.kind() == std::io::ErrorKind::NotFound)
    })
}

/// Where the trail of a home lies.
pub(crate) fn folders(home: &Home) -> Folders {
    Folders {
        logs: home.logs_dir(),
        trail: home.trail_dir(),
        recovery: home.recovery_dir(),
    }
}
