//! `handsd`: the daemon. launchd, systemd or `handsctl up` start it.
#![forbid(unsafe_code)]

use clap::Parser;
use hands_config::{Env, Home};
use hands_control::exit;
use hands_daemon::{DaemonError, Options, Programs, log, run};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use tokio_util::sync::CancellationToken;

/// The Hands daemon. It holds the MCP server and the tunnel; `handsctl` talks to it.
#[derive(Debug, Parser)]
#[command(name = "handsd", version)]
struct Arguments {
    /// Home folder, instead of HANDS_HOME or the platform's place.
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// Log to standard error as well as to logs/handsd.log.
    #[arg(long)]
    foreground: bool,
}

fn main() -> ExitCode {
    match start(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // On a full disk this cannot be written; that must not change the exit code.
            let _ = writeln!(std::io::stderr(), "handsd: {error:#}");
            match error.downcast_ref::<DaemonError>() {
                Some(DaemonError::Config(_)) => ExitCode::from(exit::CONFIG),
                Some(DaemonError::Runs { .. }) => ExitCode::from(exit::RUNS_ALREADY),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn start(arguments: &Arguments) -> anyhow::Result<()> {
    let env = Env::from_process();
    let home = Home::locate(&env, arguments.home.as_deref()).map_err(DaemonError::from)?;
    // The log lies in the home, so that comes first.
    home.prepare().map_err(DaemonError::from)?;
    let _guard = log::start(&home.logs_dir(), arguments.foreground)?;
    let options = Options {
        programs: Programs::find(&env)?,
        environment: std::env::vars_os().collect(),
        home,
        env,
        stop: CancellationToken::new(),
        signals: true,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(16)
        .enable_all()
        .build()?;
    let result = runtime.block_on(run(options));
    if let Err(error) = &result {
        tracing::error!("{error}");
    }
    runtime.shutdown_background();
    Ok(result?)
}
