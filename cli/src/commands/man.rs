//! `handsctl man`: the manual pages.

use crate::Context;
use crate::args::Args;
use crate::exit::{Exit, Failure};
use clap::CommandFactory as _;
use clap_mangen::Man;
use std::io::Write as _;
use std::path::Path;

pub(crate) fn run(context: &Context, dir: Option<&Path>) -> Result<Exit, Failure> {
    let Some(dir) = dir else {
        let mut page = Vec::new();
        Man::new(Args::command()).render(&mut page)?;
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(&page)?;
        stdout.flush()?;
        return Ok(Exit::Ok);
    };
    let failed = |cause: std::io::Error| {
        Failure::new(
            format!("writing the pages into {}", dir.display()),
            cause.to_string(),
        )
    };
    std::fs::create_dir_all(dir).map_err(failed)?;
    clap_mangen::generate_to(Args::command(), dir).map_err(failed)?;
    if !context.out.json {
        context
            .out
            .text(&format!("the pages are in {}", dir.display()))?;
    }
    Ok(Exit::Ok)
}
