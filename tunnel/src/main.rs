//! The program `hands-tunnel`. Exit codes: 0 ended by a signal, or all is well; 1 configuration
//! or start failed; 2 `doctor` or `health` found something wrong.

#![forbid(unsafe_code)]

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;
use hands_tunnel::config::{Config, process_env};
use hands_tunnel::flags::{Action, Cli, DoctorFlags, Flags, HealthFlags, KeyAction};
use hands_tunnel::secret::{ApiKey, SecretError};
use hands_tunnel::{app, ask, doctor, keychain, limits, logging};
use tokio_util::sync::CancellationToken;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::from(error.use_stderr()));
        }
    };
    // One thread: the work is waiting, and messages keep their order.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return failed(1, &format!("starting: {error}")),
    };
    let code = runtime.block_on(async {
        match cli.command {
            Action::Run(flags) => run(&flags).await,
            Action::Doctor(flags) => check(&flags).await,
            Action::Health(flags) => health(&flags).await,
            Action::Key(action) => key(&action),
        }
    });
    // A name being resolved must not hold the end up.
    runtime.shutdown_background();
    code
}

fn failed(code: u8, message: &str) -> ExitCode {
    // It may be a file on a full disk: the exit code is to stay what it is.
    let _ = writeln!(std::io::stderr(), "hands-tunnel: {message}");
    ExitCode::from(code)
}

/// Writes to standard output; a reader that has gone is no failure.
fn say(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "{text}");
}

async fn run(flags: &Flags) -> ExitCode {
    let config = match Config::load(flags, &process_env) {
        Ok(config) => config,
        Err(error) => return failed(1, &error.to_string()),
    };
    if let Err(error) = logging::start(&config.log) {
        return failed(1, &error);
    }
    match app::run(config, CancellationToken::new()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "the start failed");
            failed(1, &error.to_string())
        }
    }
}

async fn check(flags: &DoctorFlags) -> ExitCode {
    let checks = doctor::checks(Config::load(&flags.flags, &process_env)).await;
    if flags.json {
        say(&serde_json::json!({ "checks": checks }).to_string());
    } else {
        for check in &checks {
            let word = if check.ok { "ok" } else { "FAILED" };
            say(&format!("{word:>6}  {}: {}", check.name, check.found));
        }
    }
    let all = checks.iter().all(|check| check.ok);
    ExitCode::from(if all { 0 } else { 2 })
}

async fn health(flags: &HealthFlags) -> ExitCode {
    let place = match ask::Place::of(flags) {
        Ok(place) => place,
        Err(error) => return failed(2, &error),
    };
    let report = ask::report(&place).await;
    if flags.json {
        say(&serde_json::json!(report).to_string());
    } else {
        say(&format!(
            "live: {}\nready: {}\n{}",
            report.live, report.ready, report.said
        ));
    }
    ExitCode::from(if report.live && report.ready { 0 } else { 2 })
}

fn key(action: &KeyAction) -> ExitCode {
    let done = match action {
        KeyAction::Store { account } => {
            typed().and_then(|key| keychain::store(account, &ApiKey::new(&key)?))
        }
        KeyAction::Check { account } => keychain::fetch(account).map(drop),
        KeyAction::Forget { account } => keychain::forget(account),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(1, &error.to_string()),
    }
}

/// What standard input holds.
fn typed() -> Result<String, SecretError> {
    use std::io::Read;
    let mut text = String::new();
    let read = std::io::stdin()
        .take(limits::SECRET_MAX)
        .read_to_string(&mut text);
    match read {
        Ok(_) => Ok(text),
        Err(error) => Err(SecretError::Io {
            path: "standard input".into(),
            error,
        }),
    }
}
