//! `handsctl completions SHELL`.

use crate::args::Args;
use crate::exit::{Exit, Failure};
use clap::CommandFactory as _;
use std::io::Write as _;

pub(crate) fn run(shell: clap_complete::Shell) -> Result<Exit, Failure> {
    // Made whole first: the generator panics where its writer fails.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "handsctl", &mut script);
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&script)?;
    stdout.flush()?;
    Ok(Exit::Ok)
}
