//! `hands-mcp`: the MCP server over standard input and output.

use clap::Parser;
use hands_server::stdio::Streams;
use std::path::PathBuf;
use std::process::ExitCode;

/// The Hands MCP server. Speaks MCP over standard input and output; clients start it.
#[derive(Debug, Parser)]
#[command(name = "hands-mcp", version)]
struct Arguments {
    /// Home folder, instead of HANDS_HOME or the platform's place.
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// Be the server itself even when a daemon runs.
    #[arg(long)]
    standalone: bool,
}

/// A configuration that cannot be used (`EX_CONFIG`).
const BAD_CONFIGURATION: u8 = 78;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let streams = match Streams::claim() {
        Ok(streams) => streams,
        Err(error) => {
            eprintln!("hands-mcp: taking standard input and output: {error}");
            return ExitCode::FAILURE;
        }
    };
    // The streams live until the process ends, the message below included.
    match hands_server::serve::stdio(arguments.home.as_deref(), &streams) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hands-mcp: {}", told(&error));
            match error.downcast_ref::<hands_config::ConfigError>() {
                Some(_) => ExitCode::from(BAD_CONFIGURATION),
                None => ExitCode::FAILURE,
            }
        }
    }
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
