//! What every call goes through: a place, the trail, the work, the trail again.

use crate::front::Flight;
use crate::limits;
use crate::outcome::{Code, Outcome};
use crate::session::Session;
use crate::tools::{Tool, bash};
use hands_activity::{Dropped, Event, Record};
use hands_policy::redact::Redactor;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Tells the client how far a call has come: bytes so far, and the last line.
pub type ProgressSink = Box<dyn Fn(u64, &str) + Send + Sync>;

/// One call of a tool.
pub struct Call {
    /// The session it belongs to.
    pub session: Arc<Session>,
    /// Its name in the trail.
    pub turn_id: String,
    /// When its line was read.
    pub arrived: Instant,
    /// Fires when the client gives it up or is gone.
    pub cancel: CancellationToken,
    /// Where progress goes, if the client wants any.
    pub progress: Option<ProgressSink>,
}

/// A call's result, with what the trail and the client are told of it.
pub struct Answered {
    /// What it came to.
    pub outcome: Outcome,
    /// Its name in the trail.
    pub turn_id: String,
    /// Wall time from its arrival, milliseconds.
    pub duration_ms: u64,
}

impl Call {
    /// A call as it arrives.
    pub fn new(session: Arc<Session>, flight: &Flight, progress: Option<ProgressSink>) -> Self {
        Self {
            session,
            turn_id: format!("t-{}", uuid::Uuid::now_v7().simple()),
            arrived: flight.arrived,
            cancel: flight.cancel.clone(),
            progress,
        }
    }

    /// Passes progress on.
    pub fn report_progress(&self, bytes: u64, line: &str) {
        if let Some(progress) = &self.progress {
            progress(bytes, line);
        }
    }

    fn duration_ms(&self) -> u64 {
        u64::try_from(self.arrived.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Serves one call from its first record to its last.
pub async fn serve(call: Call, tool: Tool, args: Map<String, Value>) -> Answered {
    let call = Arc::new(call);
    let received = size_of_arguments(&args);
    call.session.hub.call_begins();
    let outcome = match tool.is_command() {
        true => serve_command(&call, tool, args).await,
        false => serve_file_call(&call, tool, args).await,
    };
    let sent = outcome.shown().len() as u64;
    let hub = &call.session.hub;
    hub.call_ends(
        tool.name(),
        outcome.code,
        call.arrived.elapsed(),
        (received, sent),
    );
    call.session.call_ends();
    Answered {
        turn_id: call.turn_id.clone(),
        duration_ms: call.duration_ms(),
        outcome,
    }
}

/// Bytes of the texts in the arguments: about what they take on the wire, without writing them
/// down again.
fn size_of_arguments(args: &Map<String, Value>) -> u64 {
    fn of(value: &Value) -> u64 {
        match value {
            Value::String(text) => text.len() as u64,
            Value::Array(items) => items.iter().map(of).sum(),
            Value::Object(map) => map.iter().map(|(k, v)| k.len() as u64 + of(v)).sum(),
            _ => 8,
        }
    }
    args.iter().map(|(k, v)| k.len() as u64 + of(v)).sum()
}

/// Waits for a place; `None` when the call was given up first.
async fn place(call: &Call, slots: &Arc<Semaphore>) -> Option<tokio::sync::OwnedSemaphorePermit> {
    tokio::select! {
        biased;
        () = call.cancel.cancelled() => None,
        permit = Arc::clone(slots).acquire_owned() => permit.ok(),
    }
}

fn given_up() -> Outcome {
    Outcome::fail(
        Code::Cancelled,
        "the call was cancelled before it began; nothing was done",
    )
}

async fn serve_command(call: &Arc<Call>, tool: Tool, args: Map<String, Value>) -> Outcome {
    let slot = place(call, &call.session.command_slots).await;
    let (recorder, shown) = (Arc::clone(call), args.clone());
    if let Err(outcome) = blocking(move || begin(&recorder, tool, &shown)).await {
        return outcome;
    }
    let outcome = match slot {
        None => given_up(),
        Some(_held) => {
            let call = Arc::clone(call);
            let work = tokio::spawn(async move { bash::run(&call, args).await });
            work.await.unwrap_or_else(|e| broken(&e))
        }
    };
    let recorder = Arc::clone(call);
    let finished = blocking(move || Ok(end(&recorder, tool, outcome))).await;
    finished.unwrap_or_else(|outcome| outcome)
}

async fn serve_file_call(call: &Arc<Call>, tool: Tool, args: Map<String, Value>) -> Outcome {
    let slot = place(call, &call.session.file_slots).await;
    let call = Arc::clone(call);
    let served = blocking(move || {
        begin(&call, tool, &args)?;
        let work = std::panic::AssertUnwindSafe(|| match slot {
            None => given_up(),
            Some(_held) => tool.run_blocking(&call, args),
        });
        let outcome = std::panic::catch_unwind(work).unwrap_or_else(|_| panicked());
        Ok(end(&call, tool, outcome))
    });
    served.await.unwrap_or_else(|outcome| outcome)
}

/// Runs blocking work off the async threads.
async fn blocking(
    work: impl FnOnce() -> Result<Outcome, Outcome> + Send + 'static,
) -> Result<Outcome, Outcome> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|e| Err(broken(&e)))
}

fn broken(error: &tokio::task::JoinError) -> Outcome {
    match error.is_panic() {
        true => panicked(),
        false => Outcome::fail(Code::Internal, "the server is stopping"),
    }
}

fn panicked() -> Outcome {
    Outcome::fail(
        Code::Internal,
        "the server failed at this call and goes on; nothing is known of its effect",
    )
    .hint("The fault is in logs/server_faults.log. Check what was done before repeating it.")
}

/// The first record. Without it the call is not made: every call leaves a trail.
fn begin(call: &Call, tool: Tool, args: &Map<String, Value>) -> Result<Outcome, Outcome> {
    let args = Value::Object(args.clone());
    let mut left = limits::STDERR_REDACT_BYTES;
    let redacted = Redactor::shared().value(&beginning(&args, &mut left));
    let mut shown = redacted.to_string();
    if shown.len() > limits::STDERR_ARGS_BYTES {
        let cut = hands_text::lines::truncate_at_char(&shown, limits::STDERR_ARGS_BYTES);
        shown = format!("{cut}…");
    }
    let live = &call.session.live;
    live.line(&format!("call   {} {} {shown}", call.turn_id, tool.name()));
    let record = Record {
        tool: Some(tool.name().into()),
        args: Some(args),
        ..Record::new(Event::Call, &call.turn_id)
    };
    match call.session.trail.append(record) {
        Ok(_) => Ok(Outcome::ok("")),
        Err(e) => {
            live.line(&format!(
                "FAULT  {} the trail cannot be written: {e}",
                call.turn_id
            ));
            Err(
                Outcome::fail(Code::Internal, format!("the trail cannot be written: {e}"))
                    .hint("Nothing was done. Your user has to mend it: handsctl doctor."),
            )
        }
    }
}

/// The first `left` bytes of the arguments: looking for secrets in all of a long call would take
/// longer than the call.
fn beginning(value: &Value, left: &mut usize) -> Value {
    *left = left.saturating_sub(1);
    match value {
        Value::String(text) => {
            let head = hands_text::lines::truncate_at_char(text, *left);
            *left -= head.len();
            head.into()
        }
        Value::Array(items) => {
            let mut kept = Vec::new();
            for item in items.iter().take(*left) {
                kept.push(beginning(item, left));
            }
            kept.into()
        }
        Value::Object(fields) => {
            let mut kept = Map::new();
            for (name, value) in fields.iter().take(*left) {
                let name = hands_text::lines::truncate_at_char(name, *left);
                *left -= name.len();
                kept.insert(name.into(), beginning(value, left));
            }
            kept.into()
        }
        other => other.clone(),
    }
}

/// Says in the trail that old recovery entries made room for what this call kept.
pub(crate) fn note_dropped(call: &Call, dropped: &[Dropped]) {
    for one in dropped {
        let message = dropped_line(one);
        call.session
            .live
            .line(&format!("warning {} {message}", call.turn_id));
        let record = Record {
            message: Some(message),
            ..Record::new(Event::Note, &call.turn_id)
        };
        if let Err(e) = call.session.trail.append(record) {
            // The recovery folder's own list has it too.
            let live = &call.session.live;
            live.line(&format!(
                "FAULT  {} the trail cannot be written: {e}",
                call.turn_id
            ));
        }
    }
}

/// The same in words.
pub(crate) fn dropped_line(dropped: &Dropped) -> String {
    format!(
        "{} recovery entries ({} bytes) kept until {} were dropped to make room",
        dropped.entries, dropped.bytes, dropped.until
    )
}

/// The last record.
fn end(call: &Call, tool: Tool, mut outcome: Outcome) -> Outcome {
    let most = call.session.config.limits.result_bytes;
    outcome.limit(usize::try_from(most).unwrap_or(usize::MAX));
    note_dropped(call, &call.session.recovery.take_dropped());
    let duration_ms = call.duration_ms();
    let bytes_out = outcome.shown().len() as u64;
    let code = outcome.code.as_str();
    let status = match outcome.code {
        Code::Ok => "ok",
        code if code.is_denial() => "refused",
        _ => "failed",
    };
    call.session.live.line(&format!(
        "result {} {} {status} {code} {duration_ms} ms {bytes_out} bytes",
        call.turn_id,
        tool.name()
    ));
    let record = Record {
        tool: Some(tool.name().into()),
        status: Some(status.into()),
        code: Some(code.into()),
        message: outcome.message.clone(),
        duration_ms: Some(duration_ms),
        bytes_out: Some(bytes_out),
        truncated: outcome.truncated.then_some(true),
        recovery: outcome.recovery.clone(),
        ..Record::new(
            match outcome.code.is_denial() {
                true => Event::Denied,
                false => Event::Result,
            },
            &call.turn_id,
        )
    };
    if let Err(e) = call.session.trail.append(record) {
        // The work is done and its answer is owed; that the trail lacks it is said where it can be.
        let live = &call.session.live;
        live.line(&format!(
            "FAULT  {} the trail cannot be written: {e}",
            call.turn_id
        ));
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_beginning_of_arguments_is_bounded_and_short_ones_are_whole() {
        let short = json!({"path": "é", "edits": [{"old": "a", "n": 1.5, "x": null}]});
        assert_eq!(beginning(&short, &mut 1000), short);
        let long = json!({"a": "é".repeat(1000), "b": vec!["x"; 1000], "c": {"d": "e"}});
        for most in 0..200 {
            let kept = beginning(&long, &mut most.clone()).to_string();
            assert!(kept.len() <= 6 * most + 64, "{most}: {kept}");
        }
    }
}
