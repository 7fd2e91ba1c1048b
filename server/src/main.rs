//! `hands-mcp`: the MCP server. Over standard input and output for one client, which it relays to
//! the home's server where one runs; or, with `--serve`, that server itself.

use clap::Parser;
use hands_config::{Env, Flags, Home};
use hands_server::relay;
use hands_server::stdio::Streams;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// The Hands MCP server. Speaks MCP over standard input and output; clients start it.
#[derive(Debug, Parser)]
#[command(name = "hands-mcp", version)]
struct Arguments {
    /// Home folder, instead of HANDS_HOME or the platform's place.
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// Be the server itself even when the home's server runs.
    #[arg(long)]
    standalone: bool,
    /// Be the home's server: listen on its socket. The daemon starts this.
    #[arg(long, conflicts_with = "standalone")]
    serve: bool,
    /// Never be the server: wait for the home's server when it is not there. The daemon gives this
    /// to the tunnel.
    #[arg(long, conflicts_with_all = ["standalone", "serve"])]
    relay: bool,
    /// Answer one question about the policy, a JSON object on standard input. `handsctl policy
    /// explain` asks.
    #[arg(long, hide = true, conflicts_with_all = ["standalone", "serve", "relay"])]
    explain: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let streams = match Streams::claim() {
        Ok(streams) => streams,
        Err(error) => {
            say(&format!("taking standard input and output: {error}"));
            return ExitCode::FAILURE;
        }
    };
    // The streams live until the process ends, the message below included.
    match run(&arguments, &streams) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&told(&error));
            match error.downcast_ref::<hands_config::ConfigError>() {
                Some(_) => ExitCode::from(hands_control::exit::CONFIG),
                None => ExitCode::FAILURE,
            }
        }
    }
}

fn run(arguments: &Arguments, streams: &Streams) -> anyhow::Result<()> {
    let home = arguments.home.as_deref();
    if arguments.explain {
        return hands_server::explain::answer(home, streams);
    }
    if arguments.serve {
        return hands_server::serve::socket(home);
    }
    if !arguments.standalone {
        let env = Env::from_process();
        let home = Home::locate(&env, home)?;
        if arguments.relay || relay::is_wanted(&home) {
            let loaded = hands_config::load(&home, &env, &Flags::default())?;
            let line_bytes = loaded.config.limits.line_bytes;
            let line_bytes = usize::try_from(line_bytes).unwrap_or(usize::MAX);
            return relay::stdio(&home, line_bytes, streams);
        }
    }
    hands_server::serve::stdio(home, streams)
}

/// Standard error may be a file on a full disk: the exit code is to stay what it is.
fn say(message: &str) {
    let _ = writeln!(std::io::stderr(), "hands-mcp: {message}");
}

/// The error with its causes, each said once: some tell their cause in their own words already.
fn told(error: &anyhow::Error) -> String {
    let mut all = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        if all.contains(&text) {
            continue;
        }
        if !all.is_empty() {
            all.push_str(": ");
        }
        all.push_str(&text);
    }
    all
}
