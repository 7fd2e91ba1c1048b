//! Lines that are no records: torn by a crash, or altered by a hand.

use memchr::memmem;

use super::At;
use crate::chain::unseal;

/// How every record begins.
const BEGIN: &[u8] = b"{\"ts\":\"";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The beginning of a record and no more: what a write leaves that was cut short.
    Torn,
    /// Anything else.
    Altered,
}

/// A line that is no record.
#[derive(Debug)]
pub(super) struct Damage {
    pub(super) at: At,
    pub(super) kind: Kind,
    /// The number and the session of the record it was, if they can still be made out.
    pub(super) seq: Option<u64>,
    pub(super) session: Option<String>,
}

impl Damage {
    /// Looks at a line that is no record; nothing for an empty one.
    pub(super) fn of(line: &[u8], at: At) -> Option<Self> {
        if line.is_empty() {
            return None;
        }
        Some(Self {
            at,
            kind: kind(line),
            seq: after(line, b"\"seq\":", b',').and_then(|digits| digits.parse().ok()),
            session: after(line, b"\"session_id\":\"", b'"').map(str::to_owned),
        })
    }

    /// Whether this may be what is left of record `seq` of `session`.
    pub(super) fn may_be(&self, session: &str, seq: u64) -> bool {
        self.seq == Some(seq) && self.session.as_deref().is_none_or(|s| s == session)
    }
}

fn kind(line: &[u8]) -> Kind {
    let begins = line.starts_with(BEGIN) || BEGIN.starts_with(line);
    // After a power cut a file system may show a block that was never written.
    let never_written = line.iter().all(|b| *b == 0);
    // A whole object, with its mac or without, is not what a crash leaves.
    let is_whole =
        unseal(line).is_some() || serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok();
    if never_written || (begins && !is_whole) {
        Kind::Torn
    } else {
        Kind::Altered
    }
}

/// The text between `key` and the next `end`.
fn after<'a>(line: &'a [u8], key: &[u8], end: u8) -> Option<&'a str> {
    let from = memmem::find(line, key)? + key.len();
    let rest = line.get(from..)?;
    let length = memchr::memchr(end, rest)?;
    std::str::from_utf8(&rest[..length]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::{Mac, seal};

    fn whole() -> Vec<u8> {
        let body =
            br#"{"ts":"2026","seq":7,"turn_id":"t","session_id":"s","event":"note","pid":1}"#;
        let mut line = seal(body.to_vec(), &Mac::NONE);
        line.pop();
        line
    }

    #[test]
    fn every_beginning_of_a_record_is_torn() {
        let line = whole();
        for end in 1..line.len() {
            let damage = Damage::of(&line[..end], At::END).unwrap();
            assert_eq!(damage.kind, Kind::Torn, "{end}");
        }
        assert!(Damage::of(b"", At::END).is_none());
        assert_eq!(kind(&[0; 64]), Kind::Torn);
    }

    #[test]
    fn what_a_hand_leaves_is_altered() {
        let line = String::from_utf8(whole()).unwrap();
        for altered in [
            "hello".to_owned(),
            line.replace(":7,", ":,"),
            line.replace("\"ts\"", "ts"),
            line.split(",\"mac\"").next().unwrap().to_owned() + "}",
            line.replace(&"0".repeat(64), "0"),
        ] {
            assert_eq!(kind(altered.as_bytes()), Kind::Altered, "{altered}");
        }
    }

    #[test]
    fn what_it_was_is_made_out() {
        let line = whole();
        let damage = Damage::of(&line[..line.len() - 5], At::END).unwrap();
        assert_eq!(
            (damage.seq, damage.session.as_deref()),
            (Some(7), Some("s"))
        );
        assert!(damage.may_be("s", 7) && !damage.may_be("s", 8) && !damage.may_be("t", 7));
        let early = Damage::of(&line[..25], At::END).unwrap();
        assert!(early.may_be("anyone", 7));
    }
}
