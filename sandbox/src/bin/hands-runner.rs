//! `hands-runner`: owns one confined command. Started by the server, never by hand, except
//! `hands-runner canary`, which tries the sandbox and says what it really stops.

use hands_sandbox::{canary, runner};

fn main() {
    std::process::exit(run());
}

fn run() -> i32 {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => runner::main(),
        #[cfg(target_os = "linux")]
        ["inner", socket] => match socket.parse() {
            Ok(socket) => hands_sandbox::linux::inner::main(socket),
            Err(_) => usage(),
        },
        #[cfg(target_os = "linux")]
        ["send-namespace"] => hands_sandbox::linux::send_own_namespace(),
        #[cfg(target_os = "macos")]
        ["session", folder, rest @ ..] => hands_sandbox::macos::exec_in_session(folder, rest),
        ["canary", rest @ ..] => match CanaryArgs::read(rest) {
            Some(args) => canary::main(args.scratch, args.broker, args.walls),
            None => usage(),
        },
        ["probe", rest @ ..] => canary::probe(rest),
        ["--version"] => say(concat!("hands-runner ", env!("CARGO_PKG_VERSION"))),
        _ => usage(),
    }
}

/// How the sandbox is to be tried.
struct CanaryArgs<'a> {
    scratch: Option<&'a std::path::Path>,
    broker: bool,
    walls: canary::Choice,
}

impl<'a> CanaryArgs<'a> {
    fn read(words: &[&'a str]) -> Option<Self> {
        let mut args = Self {
            scratch: None,
            broker: true,
            walls: canary::Choice::default(),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--no-broker" => args.broker = false,
                "--walls" => args.walls = words.next()?.parse().ok()?,
                "--scratch" => args.scratch = Some((*words.next()?).as_ref()),
                _ => return None,
            }
        }
        Some(args)
    }
}

fn say(text: &str) -> i32 {
    use std::io::Write;
    i32::from(writeln!(std::io::stdout(), "{text}").is_err())
}

fn usage() -> i32 {
    eprintln!(
        "hands-runner: started by the server with a request on standard input; by hand only: \
         hands-runner canary [--scratch DIR] [--no-broker] [--walls auto|whole|reduced] | --version"
    );
    2
}
