//! `bash`: one command line, confined, within the reply budget.

#[path = "bash/check.rs"]
pub(crate) mod check;
#[path = "bash/guarded.rs"]
mod guarded;
#[path = "bash/shown.rs"]
mod shown;

use super::{input, output};
use crate::args::Args;
use crate::calls::Call;
use crate::confinement::{self, Order, RunError};
use crate::consent;
use crate::limits;
use crate::outcome::{Code, Outcome};
use crate::session::Session;
use hands_config::{Config, Mode, PermissionMode};
use hands_policy::paths::{Kind, Refusal, RefusalKind};
use hands_sandbox::{Done, Ending, Plan, Request, encode_bytes};
use serde_json::{Map, Value, json};
use shown::{Shown, signal_name, used_too_much};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const KNOWN: &[&str] = &["command", "cwd", "timeout_s", "stdin", "env", "network"];
/// Where a shell is on every system that has one.
const SHELLS: &[&str] = &[
    "/bin/bash",
    "/usr/bin/bash",
    "/run/current-system/sw/bin/bash",
];
/// Time of the reply budget that is left for starting a command and telling of it.
const REPLY_SLACK: Duration = Duration::from_millis(500);
/// What a program says that was refused something.
const REFUSALS: &[&str] = &[
    "Permission denied",
    "Read-only file system",
    "Operation not permitted",
];

pub(super) fn description(session: &Session) -> String {
    let budget = session.config.reply_budget.as_secs();
    let workspaces: Vec<String> = session
        .policy
        .workspaces()
        .iter()
        .map(|root| root.given.display().to_string())
        .collect();
    let workspaces = workspaces.join(", ");
    format!(
        "Runs a bash command line: find and inspect files and repositories, run programs and \
         tests. Runs in a sandbox: reads most of the machine (credentials are hidden), writes \
         only in {} and in a private /tmp. {} \
         Answers within {budget} s: a command still running then is ended with code `timeout`. \
         Processes left in the background end with the command. No terminal: prompts fail. Output \
         over {} bytes is cut; `recovery_path` holds all of it. A non-zero exit is code `process`.",
        match session.config.permissions.mode {
            PermissionMode::Nonce => format!("the workspaces ({workspaces})"),
            PermissionMode::Human => format!(
                "those top-level folders of the workspaces ({workspaces}) that your user granted \
                 to this session"
            ),
        },
        changes(&session.config),
        session.config.limits.output_bytes,
    )
}

/// What commands may change, in the planner's words.
pub(crate) fn changes(config: &Config) -> &'static str {
    match (config.sandbox.mode, confinement::brokered(config)) {
        (Mode::ReadOnly, _) => "Nothing in the workspaces can be changed.",
        (Mode::Default, true) => {
            "In the workspaces programs make and change files, rename them, and remove what this \
             session made; what was there before they cannot remove, and its content is \
             kept in a recovery file before it is changed or replaced. git works, except for its \
             hooks and configuration."
        }
        (Mode::Strict, true) => {
            "Files in the workspaces can be made and changed, with their old content kept in a \
             recovery file; they cannot be removed or renamed, so git add and commit do not work \
             here."
        }
        (_, false) => {
            "Files in the workspaces can be made and changed; they cannot be removed or renamed, \
             so git add and commit do not work here."
        }
    }
}

pub(super) fn input_schema(session: &Session) -> Map<String, Value> {
    let limits = &session.config.limits;
    input(
        json!({
            "command": {"type": "string", "description": "The command line, given to bash -c."},
            "cwd": {"type": ["string", "null"], "description": "Working folder; default: the first workspace that exists."},
            "timeout_s": {
                "type": ["integer", "null"], "minimum": 1, "maximum": limits.bash_timeout_max_s,
                "description": format!("Seconds after which the command is ended; default {}.", limits.bash_timeout_s),
            },
            "stdin": {"type": ["string", "null"], "description": "Text for its standard input; default: empty."},
            "env": {
                "type": ["object", "null"], "additionalProperties": {"type": "string"},
                "description": "Environment variables to set.",
            },
            "network": {
                "type": ["boolean", "null"],
                "description": format!("{}.", confinement::network_in_words(&session.config)),
            },
        }),
        &["command"],
    )
}

pub(super) fn output_schema() -> Map<String, Value> {
    output(json!({
        "exit_code": {"type": "integer"},
        "signal": {"type": "string"},
        "stdout": {"type": "string"},
        "stderr": {"type": "string"},
        "timed_out": {"type": "boolean"},
        "kept": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "recovery_path": {"type": "string"},
                    "why": {"type": "string"},
                },
            },
        },
        "put_back": {"type": "array", "items": {"type": "string"}},
        "refused": {"type": "array", "items": {"type": "string"}},
    }))
}

/// What the planner asked for.
struct Wish {
    command: String,
    cwd: Option<String>,
    timeout: Duration,
    stdin: Option<String>,
    env: Vec<(String, String)>,
    network: Option<bool>,
}

impl Wish {
    fn read(session: &Session, args: Map<String, Value>) -> Result<Self, Outcome> {
        let args = Args::new(args, "", KNOWN, &[])?;
        let limits = &session.config.limits;
        let most = i64::try_from(limits.bash_timeout_max_s).unwrap_or(i64::MAX);
        let timeout = args.whole("timeout_s", 1..=most)?;
        let timeout = timeout.and_then(|s| u64::try_from(s).ok());
        let wish = Self {
            command: args.required("command")?.to_string(),
            cwd: args.string("cwd")?.map(str::to_string),
            timeout: Duration::from_secs(timeout.unwrap_or(limits.bash_timeout_s)),
            stdin: args.string("stdin")?.map(str::to_string),
            env: args.strings("env")?,
            network: args.boolean("network")?,
        };
        wish.check()?;
        Ok(wish)
    }

    fn check(&self) -> Result<(), Outcome> {
        if self.command.contains('\0') {
            return Err(Outcome::validation("`command` holds a NUL character"));
        }
        if self.command.len() > hands_sandbox::limits::MAX_ARG_BYTES {
            let message = format!(
                "`command` has {} bytes; the system takes {} in one argument",
                self.command.len(),
                hands_sandbox::limits::MAX_ARG_BYTES
            );
            return Err(Outcome::fail(Code::TooLarge, message).hint(
                "Write it to a file with write_file and run that, or pass data as `stdin`.",
            ));
        }
        for (name, value) in &self.env {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                return Err(Outcome::validation(format!(
                    "`env.{name}` is no environment variable"
                )));
            }
        }
        Ok(())
    }
}

/// Runs one command.
pub(crate) async fn run(call: &Call, args: Map<String, Value>) -> Outcome {
    let result = try_run(call, args).await;
    result.unwrap_or_else(|outcome| outcome)
}

async fn try_run(call: &Call, args: Map<String, Value>) -> Result<Outcome, Outcome> {
    let session = &call.session;
    let wish = Wish::read(session, args)?;
    let cwd = folder(session, wish.cwd.as_deref())?;
    if session.config.sandbox.command_check {
        check::pass(session, &wish.command, &cwd).await?;
    }
    let ready = session.confinement.ready().await;
    ready.map_err(|(reason, hint)| Outcome::fail(Code::Sandbox, reason).hint(hint))?;
    let budget = session
        .config
        .reply_budget
        .saturating_sub(call.arrived.elapsed());
    let grace = Duration::from_millis(session.config.limits.kill_grace_ms);
    let (timeout, grace) = times(wish.timeout, grace, budget);
    if budget.is_zero() {
        return Err(Outcome::fail(
            Code::Timeout,
            "no place for a command became free within the reply budget",
        )
        .hint("Nothing was run. Try again when other commands have ended."));
    }
    let argv = vec![shell()?, "-c".into(), wish.command.clone()];
    let plan = plan(call, argv, cwd.clone(), &wish).await?;
    let spill = session.spill_path(&call.turn_id);
    let keep = usize::try_from(session.config.limits.output_bytes).unwrap_or(usize::MAX);
    let request = Request {
        plan,
        stdin: wish
            .stdin
            .as_deref()
            .map(|text| encode_bytes(text.as_bytes())),
        timeout_ms: millis(timeout),
        grace_ms: millis(grace),
        // The end of an output says more than its beginning.
        head_bytes: keep / 3,
        tail_bytes: keep - keep / 3,
        spill: Some(spill),
        spill_max_bytes: session.config.limits.spill_bytes,
        progress: call.progress.is_some(),
    };
    let order = Order {
        request,
        cancel: call.cancel.clone(),
        cancel_grace: limits::CLIENT_GONE_GRACE,
    };
    let finished = confinement::run(order, |now| {
        call.report_progress(now.bytes, &now.line);
    })
    .await;
    match finished {
        Ok(finished) => {
            let answer = Answer {
                call,
                wish: &wish,
                timeout,
                cwd: &cwd,
            };
            Ok(answer.make(finished.done))
        }
        Err(RunError::Refused { message, hint }) => {
            Err(Outcome::fail(Code::Sandbox, message).hint(hint))
        }
        Err(RunError::Broken(message)) => {
            let message = format!("{message}{}", put_right(call).await);
            Err(Outcome::fail(Code::Internal, message))
        }
    }
}

/// Puts right what a runner that was killed left in the middle of a removal; what there is to say
/// about it.
async fn put_right(call: &Call) -> String {
    let session = Arc::clone(&call.session);
    let look = move || session.recovery.settle_asides();
    let settled = tokio::task::spawn_blocking(look).await.unwrap_or_default();
    let back = settled.put_back.iter().map(|path| {
        format!(
            "; {} was about to be removed and is back in its place",
            path.display()
        )
    });
    let found = settled.found.iter().map(|path| {
        format!(
            "; {} was left in the middle of a removal: tell your user",
            path.display()
        )
    });
    back.chain(found).collect()
}

/// The time a command gets and the time between its signals: together they fit in the reply
/// budget, with some left for the answer. A short budget shortens both.
fn times(wanted: Duration, grace: Duration, budget: Duration) -> (Duration, Duration) {
    let budget = budget.saturating_sub(REPLY_SLACK.min(budget / 8));
    let grace = grace.min(budget / 4);
    (wanted.min(budget - grace), grace)
}

async fn plan(call: &Call, argv: Vec<String>, cwd: PathBuf, wish: &Wish) -> Result<Plan, Outcome> {
    let session = Arc::clone(&call.session);
    let (env, network) = (wish.env.clone(), wish.network);
    let turn_id = call.turn_id.clone();
    let look = move || {
        let confinement = &session.confinement;
        let open = consent::writable(&session);
        confinement.plan(&turn_id, argv, cwd, &env, network, open.as_deref())
    };
    match tokio::task::spawn_blocking(look).await {
        Ok(plan) => plan,
        Err(e) => Err(Outcome::fail(
            Code::Internal,
            format!("making the plan: {e}"),
        )),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The working folder of a command.
pub(crate) fn folder(session: &Session, cwd: Option<&str>) -> Result<PathBuf, Outcome> {
    let missing = |refusal: Refusal| match refusal.kind {
        RefusalKind::NotFound => {
            let near = refusal.hint.as_ref().map(|hint| format!("; {hint}"));
            let near = near.unwrap_or_default();
            Outcome::from(refusal).hint(format!("Pass as `cwd` a folder that exists{near}."))
        }
        _ => refusal.into(),
    };
    let asked = match cwd {
        Some(cwd) => cwd.to_string(),
        None => home_folder(session)?,
    };
    let target = session.policy.resolve(&asked, None)?;
    session.policy.check_read(&target).map_err(missing)?;
    match target.kind() {
        Some(Kind::Dir) => Ok(target.path().to_path_buf()),
        _ => Err(Outcome::validation(format!(
            "`cwd` must be a folder; {} is not",
            target.path().display()
        ))),
    }
}

/// The first workspace that exists: one may lie on a disk that is not there now.
fn home_folder(session: &Session) -> Result<String, Outcome> {
    let workspaces = session.policy.workspaces();
    let there = workspaces.iter().find(|root| root.real.is_dir());
    // A path that is no text can still be named as the first one.
    if let Some(path) = there.map(|root| root.real.to_str().unwrap_or(".")) {
        return Ok(path.to_string());
    }
    let shown: Vec<String> = workspaces
        .iter()
        .map(|root| root.given.display().to_string())
        .collect();
    let message = format!(
        "no workspace exists ({}): nothing was run",
        shown.join(", ")
    );
    Err(Outcome::fail(Code::NotFound, message)
        .hint("Pass as `cwd` a folder that exists, or ask your user to bring a workspace back."))
}

fn shell() -> Result<String, Outcome> {
    let found = SHELLS.iter().find(|p| std::path::Path::new(p).is_file());
    found.map(ToString::to_string).ok_or_else(|| {
        Outcome::fail(
            Code::Unsupported,
            format!("no bash at {}", SHELLS.join(", ")),
        )
        .hint("Ask your user to install bash.")
    })
}

/// Puts a report into words.
struct Answer<'a> {
    call: &'a Call,
    wish: &'a Wish,
    timeout: Duration,
    cwd: &'a Path,
}

impl Answer<'_> {
    fn make(&self, done: Done) -> Outcome {
        let recovery = self.keep_whole(&done);
        let whole = recovery.as_ref().ok().and_then(Option::as_ref);
        let shown_path = whole.map(|p| p.display().to_string());
        let both = Shown::of(&done.both, shown_path.as_deref());
        let mut outcome = self.verdict(&done);
        let mut notes = Vec::new();
        if let Err(problem) = &recovery {
            notes.push(problem.clone());
        }
        if both.lossy {
            notes.push(match &shown_path {
                Some(path) => format!("the output is not UTF-8; its bytes are in {path}"),
                None => "the output is not UTF-8 and is shown with replacements".into(),
            });
        }
        if !done.left_behind.is_empty() {
            notes.push(format!(
                "ended with the command: background processes {}; a process cannot outlive its \
                 command here",
                done.left_behind.join(", ")
            ));
        }
        let stderr = Shown::of(&done.stderr, shown_path.as_deref()).text;
        crate::calls::note_dropped(self.call, &done.guarded.dropped);
        if done.guarded.kept_total > 0 {
            self.call.session.recovery.recount();
        }
        let told = guarded::Told::of(&done.guarded);
        notes.extend(told.notes());
        if !told.explains() || self.is_granted_by_person() {
            notes.extend(self.refusal_note(&done, &stderr));
        }
        notes.extend(self.call.session.confinement.news_of_reduced());
        outcome.text = both.text;
        if outcome.text.is_empty() && notes.is_empty() && outcome.message.is_none() {
            outcome.text = "(no output)".into();
        }
        for note in notes {
            if !outcome.text.is_empty() && !outcome.text.ends_with('\n') {
                outcome.text.push('\n');
            }
            outcome
                .text
                .push_str(&format!("[{}]", guarded::on_one_line(&note)));
        }
        outcome.truncated = both.cut;
        outcome.total_bytes = both.cut.then_some(done.both.total);
        outcome.recovery = whole.cloned().or_else(|| told.first_kept());
        told.add_fields(&mut outcome);
        let (exit_code, signal) = match done.ending {
            Ending::Exit(code) => (Some(code), None),
            Ending::Signal(number) => (None, Some(signal_name(number))),
        };
        outcome
            .maybe("exit_code", exit_code)
            .maybe("signal", signal)
            .field(
                "stdout",
                Shown::of(&done.stdout, shown_path.as_deref()).text,
            )
            .field("stderr", stderr)
            .field("timed_out", done.timed_out)
    }

    fn is_granted_by_person(&self) -> bool {
        self.call.session.config.permissions.mode == PermissionMode::Human
    }

    /// What the sandbox refuses, where a program failed because it was refused something.
    fn refusal_note(&self, done: &Done, stderr: &str) -> Option<String> {
        let failed = matches!(done.ending, Ending::Exit(code) if code != 0);
        if !failed || done.timed_out || done.stopped {
            return None;
        }
        if !REFUSALS.iter().any(|words| stderr.contains(words)) {
            return None;
        }
        let sandbox = &self.call.session.config.sandbox;
        if self.is_granted_by_person() && sandbox.mode != Mode::ReadOnly {
            return Some(consent::told_to_command(&self.call.session, self.cwd));
        }
        let refused = match sandbox.mode {
            hands_config::Mode::ReadOnly => {
                "this server is in read-only mode: the sandbox refuses \
                to write anywhere but in /tmp"
            }
            hands_config::Mode::Default if confinement::brokered(&self.call.session.config) => {
                "the sandbox refuses to remove what a command did not make, to write outside the \
                 workspaces and /tmp, and to change git's hooks and configuration"
            }
            _ => {
                "the sandbox refuses to remove or rename anything in the workspaces, to write \
                outside them and /tmp, and to change git's own files"
            }
        };
        Some(match self.call.session.confinement.has_own_tmp() {
            true => refused.into(),
            false => refused.replace("/tmp", "$TMPDIR"),
        })
    }

    fn verdict(&self, done: &Done) -> Outcome {
        if let Some(overuse) = &done.overuse {
            return used_too_much(overuse);
        }
        if done.timed_out {
            return self.timed_out();
        }
        if done.stopped {
            return Outcome::fail(
                Code::Cancelled,
                "the call was cancelled and the command ended",
            );
        }
        match done.ending {
            Ending::Exit(0) => Outcome::ok(""),
            Ending::Exit(code) => Outcome::fail(
                Code::Process,
                format!("the command exited with code {code}"),
            ),
            Ending::Signal(number) => {
                let name = signal_name(number);
                let message = format!("the command was ended by signal {name}");
                let outcome = Outcome::fail(Code::Process, message);
                match name == "SIGXFSZ" {
                    true => outcome.hint(format!(
                        "It wrote a file of more than {} MiB (`sandbox.file_mb`). Write less, or \
                         ask your user to raise the setting.",
                        self.call.session.config.sandbox.file_mb
                    )),
                    false => outcome,
                }
            }
        }
    }

    fn timed_out(&self) -> Outcome {
        let seconds = self.timeout.as_secs_f64();
        let message = format!("the command was ended after {seconds:.0} s");
        let outcome = Outcome::fail(Code::Timeout, message);
        match self.timeout < self.wish.timeout {
            true => outcome.hint(
                "It ran into the time within which this server answers. Do the work in smaller \
                 steps.",
            ),
            false => outcome.hint("That was its `timeout_s`. Raise it, or do less at once."),
        }
    }

    /// Moves the whole output to the recovery folder, where there is one.
    fn keep_whole(&self, done: &Done) -> Result<Option<PathBuf>, String> {
        let Some(spill) = &done.spill else {
            return match &done.spill_error {
                Some(why) if done.both.total > 0 => Err(format!("the whole output is lost: {why}")),
                _ => Ok(None),
            };
        };
        let session = &self.call.session;
        let reserved = session.recovery.reserve(
            done.spilled_bytes,
            &self.call.turn_id,
            "output.txt",
            "whole output of a command",
        );
        let kept = reserved.map_err(|e| e.to_string()).and_then(|path| {
            match std::fs::rename(spill, &path) {
                Ok(()) => Ok(path),
                Err(e) => Err(format!("moving it to {}: {e}", path.display())),
            }
        });
        let kept = kept.map_err(|why| format!("the whole output was not kept: {why}"))?;
        match &done.spill_error {
            None => Ok(Some(kept)),
            Some(why) => Err(format!(
                "{} holds only the first {} bytes of the output: {why}",
                kept.display(),
                done.spilled_bytes
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_and_its_grace_fit_in_the_budget() {
        let (s, ms) = (Duration::from_secs, Duration::from_millis);
        // Time enough: both are as they were asked for.
        assert_eq!(times(s(1), s(2), s(45)), (s(1), s(2)));
        assert_eq!(times(s(600), s(2), s(45)), (ms(42_500), s(2)));
        assert_eq!(times(s(44), s(2), s(45)), (ms(42_500), s(2)));
        for budget in [0, 1, 100, 1000, 5000, 45_000].map(ms) {
            for grace in [0, 200, 2000, 60_000].map(ms) {
                let (timeout, grace) = times(s(600), grace, budget);
                assert!(timeout + grace <= budget, "{budget:?}");
                assert!(timeout * 2 >= budget, "{budget:?}: {timeout:?}");
            }
        }
    }
}
