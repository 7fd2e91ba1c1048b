//! `handsctl policy explain PATH|COMMAND`: what would be allowed, and by which rule.
//!
//! Nothing is decided here: `hands-mcp --explain` answers by the code that decides on calls.

use crate::args::{ExplainArgs, PolicyWhat};
use crate::exit::{Exit, Failure};
use crate::programs::{MCP, tell};
use crate::{Context, limits};
use hands_control::types::policy::{CommandFacts, Explanation, Found, PathFacts, Question, Ruling};
use std::path::Path;

pub(crate) fn run(context: &Context, what: PolicyWhat) -> Result<Exit, Failure> {
    let PolicyWhat::Explain(args) = what;
    let question = question(args)?;
    let explanation = ask(context, &question)?;
    if context.out.json {
        context.out.object(&explanation)?;
        return Ok(Exit::Ok);
    }
    if let Some(path) = &explanation.path {
        show_path(context, path)?;
    }
    if let Some(command) = &explanation.command {
        context.out.text(&told(command))?;
    }
    context.out.text(&ground(&explanation))?;
    Ok(Exit::Ok)
}

fn question(args: ExplainArgs) -> Result<Question, Failure> {
    let ExplainArgs {
        subject,
        path,
        command,
        cwd,
    } = args;
    let as_path = path || (!command && cwd.is_none() && is_path(&subject));
    if !as_path {
        return Ok(Question::Command {
            command: subject,
            cwd: cwd.map(|cwd| absolute(&cwd)).transpose()?,
        });
    }
    Ok(Question::Path {
        path: absolute(&subject)?,
    })
}

/// Whether a person means a path by this.
fn is_path(subject: &str) -> bool {
    const STARTS: [&str; 4] = ["/", "~", "./", "../"];
    let is_plain = !subject.contains(|c: char| c.is_whitespace() || "|&;<>()$`'\"*?".contains(c));
    let begins = STARTS.iter().any(|start| subject.starts_with(start));
    Path::new(subject).symlink_metadata().is_ok() || is_plain && (begins || is_file_name(subject))
}

/// Whether one word looks more like a file's name than like a program's.
fn is_file_name(word: &str) -> bool {
    word.contains(['/', '.'])
}

/// A person's relative path is one from where he is, and not from the first workspace.
fn absolute(text: &str) -> Result<String, Failure> {
    if text.starts_with('~') {
        return Ok(text.to_owned());
    }
    let path = std::path::absolute(text)
        .map_err(|cause| Failure::usage("reading the path", cause.to_string()))?;
    path.into_os_string()
        .into_string()
        .map_err(|_| Failure::usage("reading the path", "it is no UTF-8 text"))
}

fn ask(context: &Context, question: &Question) -> Result<Explanation, Failure> {
    let program = MCP
        .find(&context.env)
        .map_err(|unusable| unusable.failure("finding hands-mcp"))?;
    let what = "asking hands-mcp";
    let wrong = |cause: serde_json::Error| Failure::new(what, cause.to_string());
    let question = serde_json::to_string(question).map_err(wrong)?;
    let home = context.home.root().to_string_lossy();
    let args = ["--explain", "--home", &home];
    let output =
        tell(&program, &args, &question, limits::EXPLAIN).map_err(|why| Failure::new(what, why))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().next_back().unwrap_or("it said nothing");
        let why = last.strip_prefix("hands-mcp: ").unwrap_or(last);
        return Err(Failure::new(what, why));
    }
    serde_json::from_slice(&output.stdout).map_err(|cause| {
        Failure::new(what, format!("its answer cannot be read: {cause}"))
            .hint("are handsctl and hands-mcp of one version? `handsctl doctor` says")
    })
}

fn show_path(context: &Context, path: &PathFacts) -> Result<(), Failure> {
    let there = match path.exists {
        true => "",
        false => " (nothing is there)",
    };
    context.out.text(&format!("{}{there}", path.real))?;
    let row = |who: &str, does: &str, ruling: &Ruling| {
        let allowed = if ruling.allowed { "yes" } else { "no" };
        [who, does, allowed, &ruling.rule, &ruling.why]
            .map(str::to_owned)
            .to_vec()
    };
    let rows = [
        row("read_file", "read", &path.tools_read),
        row("write_file, edit", "write", &path.tools_write),
        row("commands", "read", &path.commands_read),
        row("commands", "write", &path.commands_write),
        row("commands", "remove", &path.commands_remove),
    ];
    let heads = ["WHO", "DOES", "ALLOWED", "RULE", "WHY"];
    context.out.table(&heads, &rows)?;
    Ok(())
}

/// A command's part of the answer.
fn told(command: &CommandFacts) -> String {
    let mut lines = vec![match command.runs {
        true => format!("would run in {}: {}", command.cwd, command.command),
        false => format!("would not run: {}", command.command),
    }];
    let rule = command.rule.as_deref().unwrap_or_default();
    let message = command.message.as_deref().unwrap_or_default();
    lines.push(match (command.found, command.check_is_on) {
        (Found::Clean, _) => "check: nothing in it deletes, as far as its text tells".to_owned(),
        (Found::Unsure, _) => format!("check: nothing found, but {message}"),
        (Found::Refused, true) => format!("check: [{rule}] {message}"),
        (Found::Refused, false) => {
            format!("check (off: `sandbox.command_check`): [{rule}] {message}")
        }
    });
    lines.extend(command.hint.clone());
    lines.push(format!("held by {}", command.held_by));
    lines.join("\n")
}

/// On what ground the answer stands.
fn ground(explanation: &Explanation) -> String {
    let broker = match explanation.broker {
        true => "removal broker on",
        false => "no removal broker",
    };
    let sandbox = &explanation.sandbox;
    let reason = sandbox.reason.as_ref().map(|why| format!(" ({why})"));
    format!(
        "mode {}, {broker}, sandbox {}: {}{}",
        explanation.mode,
        sandbox.backend,
        sandbox.state,
        reason.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_told_from_a_command() {
        for path in [
            "/etc/passwd",
            "~/x",
            "./a",
            "../b",
            "notes.md",
            "src/main.rs",
            "/no/such place",
        ] {
            assert_eq!(is_path(path), !path.contains(' '), "{path}");
        }
        for command in [
            "ls",
            "make",
            "rm -rf build",
            "echo a>b.txt",
            "./run.sh --all",
            "cat $x",
        ] {
            assert!(!is_path(command), "{command}");
        }
    }
}
