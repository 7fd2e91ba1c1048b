//! The static look at a shell line.
#![no_main]

use hands_policy::command::{Verdict, check, look};
use hands_policy::limits::MAX_QUOTED_CHARS;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let line = String::from_utf8_lossy(data);
    let verdict = look(&line);
    assert_eq!(
        verdict,
        look(&line),
        "the look depends on more than the line"
    );
    assert_eq!(
        check(&line).is_err(),
        matches!(verdict, Verdict::Refused(_))
    );
    if let Verdict::Refused(refusal) = verdict {
        assert!(refusal.part.chars().count() <= MAX_QUOTED_CHARS);
        assert!(!refusal.message.contains('\n') && !refusal.hint.is_empty());
    }
});
