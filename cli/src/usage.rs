//! A command line that cannot be understood, told to a person and to a program.

use crate::exit::Exit;
use crate::output::Out;
use clap::error::ErrorKind;
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

/// Prints what clap has to say: help and version on stdout, else an error on stderr and, if JSON was asked for, on stdout.
pub(crate) fn report(error: &clap::Error) -> ExitCode {
    // A stdout or stderr that is closed is no reason to stop.
    let _ = error.print();
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        return Exit::Ok.into();
    }
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if asks_for_json(&words) {
        let failure = json!({
            "ok": false, "code": "usage", "message": message(error), "hint": "see handsctl --help",
        });
        let _ = Out::new(true).object(&failure);
    }
    Exit::Usage.into()
}

/// Whether `--json` stands among the words. They were not understood, so this looks at nothing else.
fn asks_for_json(words: &[OsString]) -> bool {
    words
        .iter()
        .take_while(|word| word.as_os_str() != OsStr::new("--"))
        .any(|word| {
            let word = word.to_string_lossy();
            word == "--json" || word.starts_with("--json=")
        })
}

/// The first paragraph of the error, on one line.
fn message(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "the command line is not complete".to_owned();
    }
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    first.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Args;
    use clap::Parser;

    #[test]
    fn json_is_asked_for_before_the_double_dash_only() {
        let asks = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            asks_for_json(&words)
        };
        assert!(asks(&["call", "--json"]));
        assert!(asks(&["--json=yes"]));
        assert!(!asks(&["call", "--", "--json"]));
        assert!(!asks(&["--jsonx"]));
    }

    #[test]
    fn the_message_is_one_line() {
        let of = |words: &[&str]| {
            let words = std::iter::once("handsctl").chain(words.iter().copied());
            message(&Args::try_parse_from(words).unwrap_err())
        };
        assert_eq!(of(&["frob"]), "unrecognized subcommand 'frob'");
        assert_eq!(
            of(&["call"]),
            "the following required arguments were not provided: <TOOL>"
        );
        assert_eq!(of(&["config"]), "the command line is not complete");
    }
}
