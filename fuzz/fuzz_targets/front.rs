//! The JSON-RPC front: bytes to lines, lines to messages.
#![no_main]

use hands_server::front::{Inbound, LineReader, Piece, id_in_prefix, parse};
use libfuzzer_sys::fuzz_target;

/// Small, so that inputs of the fuzzer's size reach it.
const MAX: usize = LineReader::PREFIX;

fuzz_target!(|data: &[u8]| {
    let whole = cut(data, data.len().max(1));
    let step = usize::from(data.first().copied().unwrap_or(0)) + 1;
    assert_eq!(cut(data, step), whole, "lines depend on how they arrive");
    for piece in &whole {
        match piece {
            Piece::Line(line) => judge(line),
            Piece::Oversized { prefix, length } => {
                assert!(*length > MAX as u64 && prefix.len() == LineReader::PREFIX);
                let id = id_in_prefix(prefix);
                assert!(id.is_null() || id.is_string() || id.is_number());
            }
        }
    }
});

fn cut(data: &[u8], step: usize) -> Vec<Piece> {
    let mut reader = LineReader::new(MAX);
    let mut pieces = Vec::new();
    for chunk in data.chunks(step) {
        reader.push(chunk, |piece| pieces.push(piece));
    }
    pieces.extend(reader.end());
    pieces
}

fn judge(line: &[u8]) {
    match parse(line) {
        None => assert!(
            String::from_utf8_lossy(line)
                .trim_matches('\u{feff}')
                .trim()
                .is_empty()
        ),
        Some(Inbound::Request { id, message }) => {
            assert!(id.is_string() || id.is_number());
            assert_eq!(message.get("id"), Some(&id));
        }
        Some(Inbound::Rejected(rejection)) => {
            let answer = rejection.to_value().to_string();
            assert!(!answer.contains('\n'), "an answer is one line");
        }
        Some(_) => {}
    }
    // What a whole line's id is, its beginning must not contradict.
    let _ = id_in_prefix(line);
}
