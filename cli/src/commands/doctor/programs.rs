//! Checks of our own programs: are they there, and are they one version.

use super::{Check, State};
use crate::programs::{MCP, Program, RUNNER, ask};
use crate::{Context, limits};
use std::path::{Path, PathBuf};

/// What other checks need.
pub(super) struct Found {
    pub(super) runner: Option<PathBuf>,
}

pub(super) fn checks(context: &Context, checks: &mut Vec<Check>) -> Found {
    check(context, MCP, checks);
    Found {
        runner: check(context, RUNNER, checks),
    }
}

fn check(context: &Context, program: Program, checks: &mut Vec<Check>) -> Option<PathBuf> {
    match program.find(&context.env) {
        Ok(path) => {
            checks.push(version(program.name, &path));
            Some(path)
        }
        Err(unusable) => {
            checks.push(Check::new(program.name, State::Fail, unusable.why).mend(unusable.mend));
            None
        }
    }
}

/// Compares the program's version with ours; they are built and installed together.
fn version(name: &str, path: &Path) -> Check {
    let expected = env!("CARGO_PKG_VERSION");
    let shown = path.display();
    match ask(path, &["--version"], limits::VERSION) {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            if text.split_whitespace().next_back() == Some(expected) {
                return Check::new(name, State::Ok, format!("{shown}, version {expected}"));
            }
            let said = if text.is_empty() { "nothing" } else { &text };
            let detail = format!("{shown} says its version is {said}, handsctl is {expected}");
            Check::new(name, State::Fail, detail).mend("build all programs from the same sources")
        }
        Err(why) => Check::new(name, State::Fail, why).mend("build it again"),
    }
}
