//! A control plane on loopback for trying things by hand.
//!
//! Prints the variables that a daemon needs and the key, then does what its standard input says, one order a line:
//! `poll STATUS SECONDS` (polls are answered so), `call TOOL JSON` (a planner's call), `quit` or the end of input.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a tool for whoever works on this"
)]

use hands_testkit::{ControlPlane, Endpoint, Fault, Planner, Script, Span};
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let listen = std::env::args().nth(1);
    let mut script = Script {
        record: false,
        max_wait: Duration::from_secs(20),
        ..Script::default()
    };
    if let Some(listen) = listen {
        script.listen = listen.parse().expect("the argument is host:port");
    }
    let plane = ControlPlane::start(script).await;
    println!("export HANDS_TUNNEL_ID={}", plane.tunnel_id());
    println!("export HANDS_TUNNEL_BASE_URL={}", plane.base_url());
    println!("# the key is {}", plane.api_key());
    let planner = Planner::new(&plane);
    let (sender, mut lines) = tokio::sync::mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    while let Some(line) = lines.recv().await {
        let mut words = line.splitn(3, ' ');
        let order = (words.next(), words.next(), words.next());
        match order {
            (Some("poll"), Some(status), Some(seconds)) => {
                let status = status.parse().expect("STATUS is a number");
                let seconds = Duration::from_secs(seconds.parse().expect("SECONDS is a number"));
                plane.inject(Endpoint::Poll, Fault::Status(status), Span::For(seconds));
            }
            (Some("call"), Some(tool), Some(arguments)) => {
                let arguments = serde_json::from_str(arguments).expect("JSON is JSON");
                println!("{}", planner.call(tool, arguments).text().await);
            }
            (Some("quit"), ..) => return,
            _ => println!("poll STATUS SECONDS | call TOOL JSON | quit"),
        }
    }
}
