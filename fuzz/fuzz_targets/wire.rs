//! The tunnel's wire protocol: the body of a poll, and what is made of the messages in it.
#![no_main]

use hands_tunnel::jsonrpc::{
    RawObject, id_of_cut_line, progress_token, raw, set_progress_token, shape,
};
use hands_tunnel::wire::{Address, Failure, Source, Work, parse_poll, too_large};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use std::time::Instant;

fuzz_target!(|data: &[u8]| {
    let (head, tail) = data.split_at(data.len() / 2);
    let _ = id_of_cut_line(head, tail);
    let received = Instant::now();
    let Ok(commands) = parse_poll(data, received) else {
        return;
    };
    for command in commands.into_iter().flatten() {
        assert!(command.deadline.is_none_or(|at| at >= received));
        assert!(!command.address.channel.is_empty());
        if let Work::JsonRpc(message) = &command.work {
            passes(message);
            is_answered(message, &command.address);
        }
    }
});

/// On one line, and only the members that a tunnel must change are changed.
fn passes(message: &RawObject) {
    let mut sent = message.clone();
    sent.set("id", raw(&7));
    if progress_token(message).is_some() {
        set_progress_token(&mut sent, raw(&9));
        assert_eq!(
            progress_token(&sent)
                .map(|token| token.get().to_owned())
                .as_deref(),
            Some("9")
        );
    }
    let line = sent.to_line();
    let (end, message_line) = line.split_last().expect("a line has an end");
    assert!(
        *end == b'\n' && !message_line.iter().any(|byte| b"\n\r".contains(byte)),
        "not one line"
    );
    let read = RawObject::parse(&line).expect("what was an object is one");
    assert_eq!(read.get("id").map(|id| id.get()), Some("7"));
    assert_eq!(shape(&read), shape(&sent));
    let without = |bytes: &[u8]| {
        let mut value: Value = serde_json::from_slice(bytes).ok()?;
        let members = value.as_object_mut()?;
        members.remove("id");
        members.remove("params");
        Some(value)
    };
    // Numbers beyond what a Value holds are no Value; they pass all the same.
    if let (Some(before), Some(after)) = (without(&message.to_bytes()), without(&line)) {
        assert_eq!(before, after, "a member was changed");
    }
}

fn is_answered(message: &RawObject, address: &Address) {
    let Some(id) = message.get("id") else { return };
    let failure = Failure::new(Source::Timeout, None, "it took too long");
    for answer in [failure.answer(id), too_large(id, 1 << 30, Some(1 << 20))] {
        let body: Value = serde_json::from_slice(&answer.to_body(address)).expect("a body is JSON");
        assert_eq!(body["request_id"], address.request_id.as_str());
        assert!(body["resp_json"]["error"]["code"].is_i64());
    }
}
