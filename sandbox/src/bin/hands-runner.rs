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
        #[cfg(target_os = "macos")]
        ["session", folder, rest @ ..] => hands_sandbox::macos::exec_in_session(folder, rest),
        ["canary"] => canary::main(None),
        ["canary", "--scratch", folder] => canary::main(Some(folder.as_ref())),
        ["probe", rest @ ..] => canary::probe(rest),
        ["--version"] => say(concat!("hands-runner ", env!("CARGO_PKG_VERSION"))),
        _ => usage(),
    }
}

fn say(text: &str) -> i32 {
    use std::io::Write;
    i32::from(writeln!(std::io::stdout(), "{text}").is_err())
}

fn usage() -> i32 {
    eprintln!(
        "hands-runner: started by the server with a request on standard input; by hand only: \
         hands-runner canary [--scratch DIR] | --version"
    );
    2
}
