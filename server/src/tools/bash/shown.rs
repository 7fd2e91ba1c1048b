//! A command's streams and signals in the planner's words.

use crate::outcome::{Code, Outcome};
use hands_sandbox::{Excerpt, Overuse, Resource, decode_bytes};

/// A stream as the planner reads it.
pub(super) struct Shown {
    pub(super) text: String,
    pub(super) cut: bool,
    pub(super) lossy: bool,
}

impl Shown {
    pub(super) fn of(excerpt: &Excerpt, whole: Option<&str>) -> Self {
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

/// Up to the last line end; without one in its later half (a long line must not cost most of what
/// is kept), to the last whole character.
fn up_to_line(bytes: &[u8]) -> &[u8] {
    if let Some(end) = memchr::memrchr(b'\n', bytes).filter(|end| *end >= bytes.len() / 2) {
        return &bytes[..=end];
    }
    match std::str::from_utf8(bytes) {
        Err(e) if e.error_len().is_none() => &bytes[..e.valid_up_to()],
        _ => bytes,
    }
}

/// From behind the first line end; without one in its earlier half, from the first whole
/// character.
fn from_line(bytes: &[u8]) -> &[u8] {
    match memchr::memchr(b'\n', bytes) {
        Some(end) if end <= bytes.len() / 2 => &bytes[end + 1..],
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
pub(super) fn signal_name(number: i32) -> String {
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

/// A command that was ended for what it used of the machine.
pub(super) fn used_too_much(overuse: &Overuse) -> Outcome {
    let mib = |bytes: u64| bytes.div_ceil(1024 * 1024);
    let (message, setting) = match overuse.what {
        Resource::Memory => (
            format!(
                "the command was ended: its processes used {} MiB of memory, and {} MiB are the \
                 most",
                mib(overuse.used),
                mib(overuse.limit)
            ),
            "sandbox.memory_mb",
        ),
        Resource::Processes => (
            format!(
                "the command was ended: it had {} processes and threads, and {} are the most",
                overuse.used, overuse.limit
            ),
            "sandbox.processes",
        ),
    };
    Outcome::fail(Code::Process, message).hint(format!(
        "Do the work in smaller parts, or ask your user to raise `{setting}`."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hands_sandbox::encode_bytes;

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
    fn a_long_line_does_not_cost_what_is_kept() {
        let tail = [b"x".repeat(90), b"\n".to_vec(), b"end".to_vec()].concat();
        let shown = Shown::of(&excerpt(b"a\n", &tail, 1000), None);
        assert!(shown.text.ends_with("xxx\nend"), "{}", shown.text);
        assert!(shown.text.contains(&"x".repeat(90)));
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
