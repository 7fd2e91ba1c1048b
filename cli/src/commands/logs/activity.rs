//! `handsctl logs [activity]`: tool calls and their results.

use super::folders;
use crate::args::ActivityArgs;
use crate::exit::{Exit, Failure};
use crate::output::{harmless, note, one_line};
use crate::{Context, limits, when};
use hands_activity::{Filter, Follower, Item, Start, Stored, read_last};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use time::OffsetDateTime;

pub(crate) fn run(context: &Context, args: ActivityArgs) -> Result<Exit, Failure> {
    let follow = args.follow;
    let last = args.last.unwrap_or(limits::LAST);
    let filter = filter(args)?;
    let folders = folders(&context.home);
    if follow {
        let follower = Follower::open(&folders, filter, Start::Last(last))
            .map_err(|error| Failure::new("following the trail", error.to_string()))?;
        return watch(context, follower);
    }
    let items = read_last(&folders, last, &filter)
        .map_err(|error| Failure::new("reading the trail", error.to_string()))?;
    if items.is_empty() && !context.out.json {
        note(&format!(
            "no such records in {}",
            folders.activity().display()
        ));
    }
    show(context, &items)?;
    Ok(Exit::Ok)
}

fn filter(args: ActivityArgs) -> Result<Filter, Failure> {
    let now = OffsetDateTime::now_utc();
    let time = |option: &str, text: Option<String>| match text {
        Some(text) => when::parse(&text, now)
            .map(Some)
            .map_err(|why| Failure::usage(format!("the option --{option}"), why)),
        None => Ok(None),
    };
    Ok(Filter {
        tool: args.tool,
        code: args.code,
        turn_id: args.turn,
        session: args.session,
        event: None,
        since: time("since", args.since)?,
        until: time("until", args.until)?,
    })
}

/// Shows what comes, until the reader of our output is gone or the person interrupts.
fn watch(context: &Context, mut follower: Follower) -> Result<Exit, Failure> {
    loop {
        let items = follower.poll();
        let quiet = items.is_empty();
        show(context, &items)?;
        if quiet && reader_is_gone()? {
            return Ok(Exit::Ok);
        }
    }
}

/// Waits a moment, less if the other end of our stdout is closed: a quiet log writes nothing that would tell.
fn reader_is_gone() -> Result<bool, Failure> {
    let pause = Timespec::try_from(limits::FOLLOW_PAUSE)
        .map_err(|error| Failure::new("waiting", error.to_string()))?;
    let stdout = std::io::stdout();
    let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
    match poll(&mut watched, Some(&pause)) {
        Ok(_) => Ok(watched[0]
            .revents()
            .intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL)),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(errno) => Err(Failure::new("waiting for new records", errno.to_string())),
    }
}

fn show(context: &Context, items: &[Item]) -> Result<(), Failure> {
    for item in items {
        match item {
            Item::Record(record) if context.out.json => context.out.json_line(record)?,
            Item::Record(record) => context.out.text(&line(record))?,
            // Notes are no records: stdout stays what a program expects.
            Item::Note(text) => note(&format!("note: {text}")),
        }
    }
    Ok(())
}

/// A record on one line: time, event, tool, code, duration, turn, and what matters of the rest.
fn line(record: &Stored) -> String {
    let text = |field: &Option<String>| field.clone().unwrap_or_else(|| "-".to_owned());
    let took = match record.duration_ms {
        Some(ms) => format!("{ms} ms"),
        None => "-".to_owned(),
    };
    let code = record.code.as_ref().or(record.status.as_ref());
    let line = format!(
        "{}  {:<10}  {:<12}  {:<19}  {:>9}  {}  {}",
        text(&record.ts),
        text(&record.event),
        text(&record.tool),
        code.map_or("-", String::as_str),
        took,
        text(&record.turn_id),
        detail(record)
    );
    harmless(line.trim_end()).replace('\n', "⏎")
}

fn detail(record: &Stored) -> String {
    let mut parts = Vec::new();
    if let Some(args) = &record.args {
        parts.push(one_line(&args.to_string(), limits::ARGS_CHARS));
    }
    if let Some(message) = &record.message {
        parts.push(one_line(message.as_str(), limits::ARGS_CHARS));
    }
    if let Some(bytes) = record.bytes_out {
        parts.push(format!("{bytes} B"));
    }
    if record.truncated == Some(true) {
        parts.push("cut".to_owned());
    }
    if let Some(recovery) = &record.recovery {
        parts.push(format!("recovery {recovery}"));
    }
    parts.join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_harmless_line() {
        let record: Stored = serde_json::from_value(serde_json::json!({
            "ts": "2026-11-30T12:00:00.000Z", "seq": 1, "turn_id": "t1", "event": "call", "tool": "bash",
            "args": {"command": "printf '\u{1b}[2J'\nls"},
        }))
        .unwrap();
        let line = line(&record);
        assert!(!line.contains(['\n', '\u{1b}']), "{line:?}");
        assert!(
            line.starts_with("2026-11-30T12:00:00.000Z  call        bash "),
            "{line}"
        );
        assert!(line.contains("t1  {\"command\":"), "{line}");
    }
}
