//! What would be allowed, said before anything is done: `hands-mcp --explain`, for `handsctl policy
//! explain`. The answer comes from the code that decides on calls, for a session that begins now.

use crate::confinement;
use crate::consent;
use crate::desk::sandbox;
use crate::files::target::Writable;
use crate::limits;
use crate::outcome::Outcome;
use crate::serve::{Ready, prepare};
use crate::session::Session;
use crate::stdio::Streams;
use crate::tools::bash;
use anyhow::{Context, anyhow};
use hands_config::{Env, Home, Mode};
use hands_control::types::policy::{CommandFacts, Explanation, Found, PathFacts, Question, Ruling};
use hands_policy::command::Verdict;
use hands_policy::paths::{Refusal, RefusalKind, Target};
use hands_sandbox::canary::Report;
use hands_sandbox::{Plan, Rulings};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Answers one question on standard input.
///
/// # Errors
/// When there is no question, the server could not start, or the question cannot be answered.
pub fn answer(home: Option<&Path>, streams: &Streams) -> anyhow::Result<()> {
    let (input, mut output) = streams.handles().context("taking the streams")?;
    let mut text = String::new();
    input
        .take(limits::QUESTION_BYTES)
        .read_to_string(&mut text)
        .context("reading the question")?;
    let question: Question = serde_json::from_str(&text).context("reading the question")?;
    let env = Env::from_process();
    let ready = prepare(Home::locate(&env, home)?, &env)?;
    let session = Session::open(&ready.hub)?;
    let explained = explain(&ready, &session, &question);
    session.close();
    session.live.flush(limits::FLUSH);
    let line = serde_json::to_string(&explained?)?;
    writeln!(output, "{line}").context("writing the answer")
}

fn explain(
    ready: &Ready,
    session: &Arc<Session>,
    question: &Question,
) -> anyhow::Result<Explanation> {
    let report = ready.runtime.block_on(session.confinement.report());
    let config = &session.config;
    let mut explanation = Explanation {
        mode: config.sandbox.mode.as_str().to_string(),
        broker: confinement::brokered(config),
        sandbox: sandbox(report),
        path: None,
        command: None,
    };
    match question {
        Question::Path { path } => {
            explanation.path = Some(path_facts(session, report, path)?);
        }
        Question::Command { command, cwd } => {
            let cwd = bash::folder(session, cwd.as_deref()).map_err(failed)?;
            explanation.command = Some(command_facts(session, report, command, &cwd));
        }
    }
    Ok(explanation)
}

fn failed(outcome: Outcome) -> anyhow::Error {
    anyhow!("{}", outcome.message.clone().unwrap_or_default())
}

fn ruling(allowed: bool, rule: &str, why: impl Into<String>) -> Ruling {
    Ruling {
        allowed,
        rule: rule.to_string(),
        why: why.into(),
    }
}

fn path_facts(session: &Arc<Session>, report: &Report, text: &str) -> anyhow::Result<PathFacts> {
    let target = session.policy.resolve(text, None);
    let real = match &target {
        Ok(target) => target.path().to_path_buf(),
        Err(refusal) if refusal.kind == RefusalKind::Validation => {
            return Err(anyhow!("{refusal}"));
        }
        // A protected place says no more than that it is one.
        Err(_) => entry_of(&expanded(session, text)),
    };
    let (read, write, remove) = commands(session, report, text, &real)?;
    Ok(PathFacts {
        asked: text.to_string(),
        exists: match &target {
            Ok(target) => target.exists(),
            Err(_) => real.symlink_metadata().is_ok(),
        },
        real: real.to_string_lossy().into_owned(),
        tools_read: tools_read(session, &target),
        tools_write: tools_write(session, text),
        commands_read: read,
        commands_write: write,
        commands_remove: remove,
    })
}

/// The path itself, without links on the way to it.
fn entry_of(path: &Path) -> PathBuf {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path.to_path_buf(),
    }
}

fn tools_read(session: &Session, target: &Result<Target, Refusal>) -> Ruling {
    let refused = |refusal: &Refusal| match refusal.kind {
        RefusalKind::NotFound => ruling(true, "not_there", "nothing is there to be read"),
        _ => ruling(false, refusal.rule.unwrap_or("refused"), &refusal.message),
    };
    match target {
        Err(refusal) => refused(refusal),
        Ok(target) => match session.policy.check_read(target) {
            Ok(()) => ruling(true, "readable", "it is not on the list of protected paths"),
            Err(refusal) => refused(&refusal),
        },
    }
}

/// By the way that every change of a file takes.
fn tools_write(session: &Session, text: &str) -> Ruling {
    let writable = match Writable::find(session, text) {
        Ok(writable) => writable,
        Err(outcome) => {
            // The rule is told by the policy itself, where it was the policy that refused.
            let judged = session.policy.resolve(text, None);
            let judged = judged.and_then(|target| session.policy.check_write(&target).map(drop));
            let rule = match judged {
                _ if session.config.sandbox.mode == Mode::ReadOnly => "read_only_mode",
                Err(refusal) => refusal.rule.unwrap_or("refused"),
                Ok(()) => "refused",
            };
            return ruling(false, rule, outcome.message.clone().unwrap_or_default());
        }
    };
    if let Some(from) = &writable.redirected_from {
        let why = format!(
            "{} stays; the change goes to {}",
            from.display(),
            writable.target.path().display()
        );
        return ruling(true, "working_copy", why);
    }
    match (writable.gated_folder(), writable.in_private_tmp) {
        (Some(folder), _) => ruling(
            true,
            "permission_gate",
            format!(
                "the first change of a file in {} asks the user; the old content is kept",
                folder.display()
            ),
        ),
        (None, true) => ruling(true, "private_tmp", "the session's private /tmp"),
        (None, false) => ruling(true, "new_file", "a new file may be made here"),
    }
}

fn commands(
    session: &Arc<Session>,
    report: &Report,
    text: &str,
    real: &Path,
) -> anyhow::Result<(Ruling, Ruling, Ruling)> {
    if !report.lets_run() {
        let why = report.reason.clone().unwrap_or_default();
        let none = ruling(false, "no_sandbox", format!("no command runs: {why}"));
        return Ok((none.clone(), none.clone(), none));
    }
    let plan = match plan(session, real) {
        Ok(plan) => plan,
        Err(outcome) => {
            let none = ruling(
                false,
                "no_sandbox",
                outcome.message.clone().unwrap_or_default(),
            );
            return Ok((none.clone(), none.clone(), none));
        }
    };
    let Rulings { read, write, .. } = plan.explain(real);
    // A link is removed itself, not what it leads to.
    let named = expanded(session, text);
    let is_link = named.is_symlink();
    let remove = match is_link {
        true => plan.explain(&entry_of(&named)).remove,
        false => plan.explain(real).remove,
    };
    let told = |said: hands_sandbox::Ruling| ruling(said.allowed, said.rule, said.why);
    Ok((told(read), told(write), told(remove)))
}

fn expanded(session: &Session, text: &str) -> PathBuf {
    match text.strip_prefix("~/") {
        Some(rest) => session.hub.user_home.join(rest),
        None => PathBuf::from(text),
    }
}

/// The plan that a command of this session would get in the folder of the path.
fn plan(session: &Session, real: &Path) -> Result<Plan, Outcome> {
    let folder = real.ancestors().skip(1).find(|folder| folder.is_dir());
    let folder = folder.unwrap_or(Path::new("/")).to_path_buf();
    // Nothing of it is shown, and less is made ready for it.
    let network = Some(false);
    let argv = vec!["true".to_string()];
    let open = consent::writable(session);
    session
        .confinement
        .plan("explain", argv, folder, &[], network, open.as_deref())
}

fn command_facts(session: &Session, report: &Report, line: &str, cwd: &Path) -> CommandFacts {
    let config = &session.config.sandbox;
    let verdict = bash::check::look(session, line, cwd);
    let refuses = config.command_check && matches!(verdict, Verdict::Refused(_));
    let mut facts = CommandFacts {
        command: line.to_string(),
        cwd: cwd.to_string_lossy().into_owned(),
        runs: !refuses && report.lets_run(),
        check_is_on: config.command_check,
        found: Found::Clean,
        rule: None,
        part: None,
        message: None,
        hint: None,
        held_by: held_by(session, report),
    };
    match verdict {
        Verdict::Clean => {}
        Verdict::Unsure(reason) => {
            facts.found = Found::Unsure;
            facts.message = Some(reason.to_string());
        }
        Verdict::Refused(refusal) => {
            facts.found = Found::Refused;
            facts.rule = Some(refusal.rule.to_string());
            facts.part = Some(refusal.part);
            facts.message = Some(refusal.message);
            facts.hint = Some(refusal.hint);
        }
    }
    facts
}

/// What holds whatever the check says.
fn held_by(session: &Session, report: &Report) -> String {
    let backend = &report.backend;
    if !report.lets_run() {
        return format!("no command runs: there is no sandbox ({backend})");
    }
    let changes = bash::changes(&session.config);
    format!("the sandbox ({backend}). {changes}")
}
