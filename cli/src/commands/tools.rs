//! `handsctl tools`: what the server offers.

use crate::exit::{Exit, Failure};
use crate::session::Server;
use crate::{Context, output, session};

pub(crate) fn run(context: &Context, standalone: bool) -> Result<Exit, Failure> {
    let tools = session::tools(context, Server::wanted(standalone))?;
    if context.out.json {
        context.out.object(&tools)?;
        return Ok(Exit::Ok);
    }
    let rows: Vec<Vec<String>> = tools
        .iter()
        .map(|tool| {
            let about = tool.description.as_deref().unwrap_or_default();
            let first = about.lines().next().unwrap_or_default();
            vec![tool.name.to_string(), output::one_line(first, 100)]
        })
        .collect();
    context.out.table(&["TOOL", "WHAT IT DOES"], &rows)?;
    Ok(Exit::Ok)
}
