//! `handsctl recovery show`: what an entry holds.

use super::{as_json, failed, find, look};
use crate::Context;
use crate::exit::{Exit, Failure};
use crate::limits;
use crate::output::{harmless, note, size};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hands_activity::{Entry, Kind, Recovery, RecoveryError};
use serde_json::json;
use std::io::{BufRead, BufReader, Read};

pub(super) fn run(context: &Context, id: &str) -> Result<Exit, Failure> {
    let recovery = look(context)?;
    let entry = find(recovery.as_ref(), id)?;
    let Some(recovery) = recovery else {
        return Ok(Exit::Failed);
    };
    let whole = match recovery.check(&entry) {
        Ok(()) => true,
        Err(RecoveryError::Damaged { .. }) => {
            note("warning: the content is not what was kept: it is damaged");
            false
        }
        Err(error) => return Err(failed("reading")(error)),
    };
    if context.out.json {
        as_object(context, &recovery, &entry, whole)?;
    } else if entry.kind == Kind::Folder {
        note("it is a folder, and has no content of its own");
    } else if context.out.is_terminal() {
        on_terminal(context, &recovery, &entry)?;
    } else {
        raw(context, &recovery, &entry)?;
    }
    Ok(match whole {
        true => Exit::Ok,
        false => Exit::Failed,
    })
}

fn reading(entry: &Entry) -> impl Fn(std::io::Error) -> Failure + '_ {
    move |why| Failure::new(format!("reading {}", entry.path.display()), why.to_string())
}

fn raw(context: &Context, recovery: &Recovery, entry: &Entry) -> Result<(), Failure> {
    let mut content = recovery.read(entry).map_err(failed("reading"))?;
    let mut block = vec![0; 64 << 10];
    loop {
        match content.read(&mut block).map_err(reading(entry))? {
            0 => return Ok(()),
            count => context.out.bytes(&block[..count])?,
        }
    }
}

/// Text, with what could drive the terminal made visible; of anything else that it is no text.
fn on_terminal(context: &Context, recovery: &Recovery, entry: &Entry) -> Result<(), Failure> {
    let content = || recovery.read(entry).map_err(failed("reading"));
    let mut head = Vec::new();
    let read = content()?.take(limits::PEEK).read_to_end(&mut head);
    read.map_err(reading(entry))?;
    if !is_text(&head) {
        let id = &entry.id;
        note(&format!(
            "binary, {}: handsctl recovery show {id} > FILE",
            size(entry.bytes)
        ));
        return Ok(());
    }
    let mut lines = BufReader::new(content()?);
    loop {
        let mut line = Vec::new();
        let mut part = lines.by_ref().take(limits::SHOWN_LINE);
        let count = part.read_until(b'\n', &mut line);
        if count.map_err(reading(entry))? == 0 {
            return Ok(());
        }
        let text = harmless(&String::from_utf8_lossy(&line));
        context.out.bytes(text.as_bytes())?;
    }
}

/// Whether the beginning of a content is UTF-8 without NUL; its last character may be cut.
pub(super) fn is_text(head: &[u8]) -> bool {
    let valid = match std::str::from_utf8(head) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none() && head.len() as u64 == limits::PEEK,
    };
    valid && !head.contains(&0)
}

fn as_object(
    context: &Context,
    recovery: &Recovery,
    entry: &Entry,
    whole: bool,
) -> Result<(), Failure> {
    if entry.bytes > limits::CONTENT {
        let why = format!(
            "it has {} bytes, and JSON holds at most {}",
            entry.bytes,
            limits::CONTENT
        );
        return Err(Failure::new("printing the content as JSON", why).hint("leave out --json"));
    }
    let mut bytes = Vec::new();
    let mut content = recovery.read(entry).map_err(failed("reading"))?;
    content.read_to_end(&mut bytes).map_err(reading(entry))?;
    let mut object = as_json(entry);
    object["whole"] = json!(whole);
    match String::from_utf8(bytes) {
        Ok(text) => object["text"] = json!(text),
        Err(other) => object["base64"] = json!(STANDARD.encode(other.as_bytes())),
    }
    context.out.object(&object)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_told_from_the_rest() {
        assert!(is_text(b"") && is_text("é\n".as_bytes()));
        assert!(!is_text(b"a\0b") && !is_text(b"\xff"));
        assert!(!is_text("é".as_bytes().split_at(1).0));
        let mut cut = vec![b'a'; 64 << 10];
        cut[(64 << 10) - 1] = 0xc3;
        assert!(is_text(&cut), "the last character is cut");
    }
}
