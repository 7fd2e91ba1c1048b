//! `bash`: one command line, confined, within the reply budget.

use super::{input, output};
use crate::args::Args;
use crate::calls::Call;
use crate::confinement::{self, Order, RunError};
use crate::limits;
use crate::outcome::{Code, Outcome, system};
use crate::session::Session;
use hands_policy::command;
use hands_policy::paths::Kind;
use hands_sandbox::{Done, Ending, Excerpt, Plan, Request, decode_bytes, encode_bytes};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const KNOWN: &[&str] = &["command", "cwd", "timeout_s", "stdin", "env", "network"];
/// Where a shell is on every system that has one.
const SHELLS: &[&str] = &[
    "/bin/bash",
    "/usr/bin/bash",
    "/run/current-system/sw/bin/bash",
];

pub(super) fn description(session: &Session) -> String {
    let budget = session.config.reply_budget.as_secs();
    let workspaces: Vec<String> = session
        .policy
        .workspaces()
        .iter()
        .map(|root| root.given.display().to_string())
        .collect();
    format!(
        "Runs a bash command line: find and inspect files and repositories, run programs and \
         tests. Runs in a sandbox: reads most of the machine (credentials are hidden), writes \
         only in the workspaces ({}) and in a private /tmp. Files in the workspaces can be made \
         and changed; they cannot be removed or renamed, so git add and commit do not work here. \
         Answers within {budget} s: a command still running then is ended with code `timeout`. \
         Processes left in the background end with the command. No terminal: prompts fail. Output \
         over {} bytes is cut; `recovery_path` holds all of it. A non-zero exit is code `process`.",
        workspaces.join(", "),
        session.config.limits.output_bytes,
    )
}

pub(super) fn input_schema(session: &Session) -> Map<String, Value> {
    let limits = &session.config.limits;
    input(
        json!({
            "command": {"type": "string", "description": "The command line, given to bash -c."},
            "cwd": {"type": ["string", "null"], "description": "Working folder; default: the first workspace."},
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
                "description": format!("Whether it reaches the network; default {}.", session.config.sandbox.network),
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
    }))
}

/// What the planner asked for.
struct Wish {
    command: String,
    cwd: Option<String>,
    timeout: Duration,
    stdin: Option<String>,
    env: Vec<(String, String)>,
    network: bool,
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
            network: args
                .boolean("network")?
                .unwrap_or(session.config.sandbox.network),
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
    if session.config.sandbox.command_check {
        check_command(&wish.command)?;
    }
    let cwd = folder(session, wish.cwd.as_deref())?;
    let ready = session.confinement.ready().await;
    ready.map_err(|(reason, hint)| Outcome::fail(Code::Sandbox, reason).hint(hint))?;
    let budget = session
        .config
        .reply_budget
        .saturating_sub(call.arrived.elapsed());
    let timeout = wish.timeout.min(budget);
    if timeout.is_zero() {
        return Err(Outcome::fail(
            Code::Timeout,
            "no place for a command became free within the reply budget",
        )
        .hint("Nothing was run. Try again when other commands have ended."));
    }
    let argv = vec![shell()?, "-c".into(), wish.command.clone()];
    let plan = plan(call, argv, cwd, &wish).await?;
    let spill = session.spill_path(&call.turn_id);
    let keep = usize::try_from(session.config.limits.output_bytes).unwrap_or(usize::MAX);
    let request = Request {
        plan,
        stdin: wish
            .stdin
            .as_deref()
            .map(|text| encode_bytes(text.as_bytes())),
        timeout_ms: millis(timeout),
        grace_ms: session.config.limits.kill_grace_ms,
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
        Ok(finished) => Ok(Answer::new(call, &wish, timeout).make(finished.done)),
        Err(RunError::Refused { message, hint }) => {
            Err(Outcome::fail(Code::Sandbox, message).hint(hint))
        }
        Err(RunError::Broken(message)) => Err(Outcome::fail(Code::Internal, message)),
    }
}

async fn plan(call: &Call, argv: Vec<String>, cwd: PathBuf, wish: &Wish) -> Result<Plan, Outcome> {
    let session = Arc::clone(&call.session);
    let (env, network) = (wish.env.clone(), wish.network);
    let look = move || session.confinement.plan(argv, cwd, &env, network);
    match tokio::task::spawn_blocking(look).await {
        Ok(plan) => plan.map_err(|e| system("preparing the private tmp", &e)),
        Err(e) => Err(Outcome::fail(
            Code::Internal,
            format!("making the plan: {e}"),
        )),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A good message early. The boundary is the sandbox, whatever this says.
fn check_command(line: &str) -> Result<(), Outcome> {
    command::check(line)
        .map_err(|refusal| Outcome::fail(Code::DeleteBlocked, refusal.message).hint(refusal.hint))
}

fn folder(session: &Session, cwd: Option<&str>) -> Result<PathBuf, Outcome> {
    let target = session.policy.resolve(cwd.unwrap_or("."), None)?;
    session.policy.check_read(&target)?;
    match target.kind() {
        Some(Kind::Dir) => Ok(target.path().to_path_buf()),
        _ => Err(Outcome::validation(format!(
            "`cwd` must be a folder; {} is not",
            target.path().display()
        ))),
    }
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
}

impl<'a> Answer<'a> {
    fn new(call: &'a Call, wish: &'a Wish, timeout: Duration) -> Self {
        Self {
            call,
            wish,
            timeout,
        }
    }

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
        outcome.text = both.text;
        if outcome.text.is_empty() && notes.is_empty() && outcome.message.is_none() {
            outcome.text = "(no output)".into();
        }
        for note in notes {
            if !outcome.text.is_empty() && !outcome.text.ends_with('\n') {
                outcome.text.push('\n');
            }
            outcome.text.push_str(&format!("[{note}]"));
        }
        outcome.truncated = both.cut;
        outcome.total_bytes = both.cut.then_some(done.both.total);
        outcome.recovery = whole.cloned();
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
            .field(
                "stderr",
                Shown::of(&done.stderr, shown_path.as_deref()).text,
            )
            .field("timed_out", done.timed_out)
    }

    fn verdict(&self, done: &Done) -> Outcome {
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
            Ending::Signal(number) => Outcome::fail(
                Code::Process,
                format!("the command was ended by signal {}", signal_name(number)),
            ),
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

/// A stream as the planner reads it.
struct Shown {
    text: String,
    cut: bool,
    lossy: bool,
}

impl Shown {
    fn of(excerpt: &Excerpt, whole: Option<&str>) -> Self {
        let head = decode_bytes(&excerpt.head).unwrap_or_default();
        let tail = decode_bytes(&excerpt.tail).unwrap_or_default();
        let kept = (head.len() + tail.len()) as u64;
        if kept == excerpt.total {
            let all = [head, tail].concat();
            let text = String::from_utf8_lossy(&all);
            return Self {
                lossy: std::str::from_utf8(&all).is_err(),
                text: text.into_owned(),
                cut: false,
            };
        }
        let head = up_to_line(&head);
        let tail = from_line(&tail);
        let cut = excerpt.total - (head.len() + tail.len()) as u64;
        let lossy = std::str::from_utf8(head).is_err() || std::str::from_utf8(tail).is_err();
        Self {
            text: hands_text::lines::join_head_tail(
                &String::from_utf8_lossy(head),
                &String::from_utf8_lossy(tail),
                usize::try_from(cut).unwrap_or(usize::MAX),
                usize::try_from(excerpt.total).unwrap_or(usize::MAX),
                whole,
            ),
            cut: true,
            lossy,
        }
    }
}

/// Up to the last line end; without one, to the last whole character.
fn up_to_line(bytes: &[u8]) -> &[u8] {
    if let Some(end) = memchr::memrchr(b'\n', bytes) {
        return &bytes[..=end];
    }
    match std::str::from_utf8(bytes) {
        Err(e) if e.error_len().is_none() => &bytes[..e.valid_up_to()],
        _ => bytes,
    }
}

/// From behind the first line end; without one, from the first whole character.
fn from_line(bytes: &[u8]) -> &[u8] {
    let last = bytes.len().saturating_sub(1);
    match memchr::memchr(b'\n', bytes) {
        Some(end) if end < last => &bytes[end + 1..],
        _ => {
            let partial = bytes
                .iter()
                .take(3)
                .take_while(|b| **b & 0xC0 == 0x80)
                .count();
            &bytes[partial..]
        }
    }
}

/// `SIGKILL` for 9; the number itself where there is no common name.
fn signal_name(number: i32) -> String {
    use rustix::process::Signal;
    const NAMES: &[(Signal, &str)] = &[
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::USR2, "SIGUSR2"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::SYS, "SIGSYS"),
    ];
    let named = NAMES.iter().find(|(signal, _)| signal.as_raw() == number);
    named.map_or_else(|| number.to_string(), |(_, name)| (*name).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt(head: &[u8], tail: &[u8], total: u64) -> Excerpt {
        Excerpt {
            total,
            head: encode_bytes(head),
            tail: encode_bytes(tail),
        }
    }

    #[test]
    fn a_whole_stream_is_shown_as_it_is() {
        let shown = Shown::of(&excerpt(b"a\xff", b"b", 3), None);
        assert_eq!(shown.text, "a\u{fffd}b");
        assert!(shown.lossy && !shown.cut);
    }

    #[test]
    fn a_cut_stream_is_cut_at_lines_and_says_where_the_rest_is() {
        let shown = Shown::of(&excerpt(b"one\ntw", b"hree\nfour\n", 100), Some("/r"));
        assert!(shown.cut && !shown.lossy);
        assert_eq!(
            shown.text,
            "one\n[\u{2026} 91 of 100 bytes cut; whole output: /r]\nfour\n"
        );
    }

    #[test]
    fn one_long_line_is_cut_at_characters() {
        let text = "é".repeat(10);
        let bytes = text.as_bytes();
        let shown = Shown::of(&excerpt(&bytes[..5], &bytes[13..], 20), None);
        assert!(!shown.lossy, "{}", shown.text);
    }

    #[test]
    fn signals_have_names() {
        assert_eq!(signal_name(9), "SIGKILL");
        assert_eq!(signal_name(64), "64");
    }
}
