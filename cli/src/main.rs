//! `handsctl`: what a person at the keyboard asks of Hands.
//!
//! **What it is.** One file per verb in `commands/`: make a tool call (`call`, `tools`), read the trail (`logs`), get old
//! contents back (`recovery`), find out what is missing (`doctor`), what would be allowed (`policy`), see the settings
//! (`config`), connect a client (`clients`); and run the daemon: `up`, `down`, `restart`,
//! `status`, `sessions`, `tunnel`, `service`; and open folders for a planner, or close them: `permissions`.
//!
//! **What it is not.** It holds no state and decides nothing: a call goes through a real `hands-mcp` with all guardrails,
//! as any client's call does. What concerns the running daemon it asks on the daemon's socket only, permissions on the servers' own;
//! the rest needs none.
//!
//! **Theory of operation.** `main` parses the arguments, finds the home, and runs the verb. A verb writes
//! through [`output::Out`], which knows whether a person or a program reads, and ends with an [`exit::Exit`] or a
//! [`exit::Failure`] that says what failed, why, and what to do. Text that came from a planner or a tool is made
//! harmless before it reaches a terminal. Exit codes: 0 ok, 1 failed, 2 usage, 3 daemon not running, 4 degraded.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod daemon;
mod exit;
mod limits;
mod output;
mod programs;
mod session;
mod usage;
mod when;

use args::{Args, Command};
use clap::Parser;
use exit::{Exit, Failure};
use hands_config::{Env, Home};
use output::Out;
use std::process::ExitCode;

/// What every verb works with.
pub(crate) struct Context {
    /// The home that was asked for, or the default one.
    pub(crate) home: Home,
    /// The environment at the start.
    pub(crate) env: Env,
    /// Where results go.
    pub(crate) out: Out,
}

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return usage::report(&error),
    };
    let out = Out::new(args.json);
    let done = context(&args, out).and_then(|context| {
        run(args.command, &context).map_err(|failure| daemon::way_out(&context, failure))
    });
    match done {
        Ok(exit) => exit.into(),
        Err(failure) => failure.report(&Out::new(args.json)),
    }
}

fn context(args: &Args, out: Out) -> Result<Context, Failure> {
    let env = Env::from_process();
    // A relative path is refused, as in HANDS_HOME: the home must not depend on where a program was started.
    let home = Home::locate(&env, args.home.as_deref())
        .map_err(|error| Failure::new("finding the home", error.to_string()))?;
    Ok(Context { home, env, out })
}

fn run(command: Command, context: &Context) -> Result<Exit, Failure> {
    match command {
        Command::Up { foreground } => commands::up::run(context, foreground),
        Command::Down => commands::down::run(context),
        Command::Restart { what } => commands::restart::run(context, what),
        Command::Status => commands::status::run(context),
        Command::Sessions => commands::sessions::run(context),
        Command::Permissions { what } => commands::permissions::run(context, what),
        Command::Tunnel { what } => commands::tunnel::run(context, what),
        Command::Service { what } => commands::service::run(context, what),
        Command::Completions { shell } => commands::completions::run(shell),
        Command::Man { dir } => commands::man::run(context, dir.as_deref()),
        Command::Call(args) => commands::call::run(context, args),
        Command::Tools { standalone } => commands::tools::run(context, standalone),
        Command::Logs(args) => commands::logs::run(context, *args),
        Command::Recovery { what } => commands::recovery::run(context, what),
        Command::Policy { what } => commands::policy::run(context, what),
        Command::Doctor => commands::doctor::run(context),
        Command::Config { what } => commands::config::run(context, what),
        Command::Clients { client } => commands::clients::run(context, client),
    }
}
