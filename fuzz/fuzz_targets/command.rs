//! The static look at a shell line, by itself and where the disk is asked.
#![no_main]

use hands_policy::command::{Ground, Scene, Standing, Verdict, check, look, look_at};
use hands_policy::limits::MAX_QUOTED_CHARS;
use libfuzzer_sys::fuzz_target;
use std::path::{Path, PathBuf};

/// Everywhere stands the same.
struct Everywhere(Standing);

impl Ground for Everywhere {
    fn standing(&self, path: &Path) -> Standing {
        assert!(path.is_absolute(), "{path:?} is asked about");
        self.0
    }
}

fn look_on(line: &str, ground: Option<&dyn Ground>) -> Verdict {
    let roots = [PathBuf::from("/home/ada/Hands")];
    let scene = Scene {
        folder: &roots[0],
        home: Path::new("/home/ada"),
        roots: &roots,
        ground,
    };
    look_at(line, &scene)
}

fn is_refused(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Refused(_))
}

fuzz_target!(|data: &[u8]| {
    let line = String::from_utf8_lossy(data);
    let verdict = look(&line);
    assert_eq!(
        verdict,
        look(&line),
        "the look depends on more than the line"
    );
    assert_eq!(check(&line).is_err(), is_refused(&verdict));
    let strict = look_on(&line, None);
    let old = look_on(&line, Some(&Everywhere(Standing::File)));
    let open = look_on(&line, Some(&Everywhere(Standing::Open)));
    assert!(
        !is_refused(&open),
        "{line:?} is refused where nothing is known to stay"
    );
    for verdict in [verdict, strict, old] {
        if let Verdict::Refused(refusal) = verdict {
            assert!(refusal.part.chars().count() <= MAX_QUOTED_CHARS);
            assert!(!refusal.message.contains('\n') && !refusal.hint.is_empty());
        }
    }
});
