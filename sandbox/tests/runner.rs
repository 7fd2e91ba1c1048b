//! `hands-runner` driven as the server drives it: a request on standard input, frames on standard
//! output.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use hands_sandbox::{Done, Ending, Frame, Mode, Network, Order, Plan, Request, decode_bytes};
use hands_testkit::{Folder, running_in};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(10);

fn program() -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_hands-runner"));
    match std::env::var_os("HANDS_TEST_BIN_DIR") {
        Some(folder) => PathBuf::from(folder).join("hands-runner"),
        None => built.to_path_buf(),
    }
}

/// A workspace, a private tmp and a folder of secrets.
struct World {
    _dir: Folder,
    root: PathBuf,
}

impl World {
    fn new() -> World {
        let dir = Folder::new(Path::new("/var/tmp"), "hands-test-");
        let root = dir.path().to_owned();
        for folder in ["ws", "tmp", "secret", "outside"] {
            std::fs::create_dir(root.join(folder)).unwrap();
        }
        std::fs::write(root.join("ws/old"), "old").unwrap();
        std::fs::write(root.join("secret/key"), "key").unwrap();
        World { _dir: dir, root }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.join("ws").join(name)
    }

    fn request(&self, command: &str) -> Request {
        Request {
            plan: Plan {
                argv: vec!["/bin/bash".into(), "-c".into(), command.into()],
                cwd: self.root.join("ws"),
                env: vec![
                    ("PATH".into(), "/usr/bin:/bin".into()),
                    ("WORLD".into(), self.root.to_str().unwrap().into()),
                ],
                workspaces: vec![self.root.join("ws")],
                extra_write: vec![],
                closed: vec![],
                shallow: vec![],
                resources: hands_sandbox::Resources::default(),
                tmp: self.root.join("tmp"),
                masks: vec![self.root.join("secret")],
                sealed: vec![],
                mode: Mode::Default,
                walls: hands_sandbox::Walls::Whole,
                network: Network::Off,
                guard: None,
            },
            stdin: None,
            timeout_ms: 60_000,
            grace_ms: 300,
            head_bytes: 1000,
            tail_bytes: 1000,
            spill: Some(self.root.join("spill")),
            spill_max_bytes: 10_000_000,
            progress: false,
        }
    }

    /// No process of this world is left.
    fn none_left(&self) {
        until("all processes are gone", || {
            running_in(&self.root).is_empty()
        });
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

struct Runner {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Runner {
    fn start(request: &Request) -> Runner {
        let mut child = Command::new(program())
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let line = serde_json::to_string(request).unwrap();
        writeln!(stdin, "{line}").unwrap();
        Runner {
            child,
            stdin: Some(stdin),
            stdout,
        }
    }

    fn order(&mut self, order: &Order) {
        let line = serde_json::to_string(order).unwrap();
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn frame(&mut self) -> Option<Frame> {
        let mut line = String::new();
        match self.stdout.read_line(&mut line).unwrap() {
            0 => None,
            _ => Some(serde_json::from_str(&line).unwrap()),
        }
    }

    fn done(mut self) -> Done {
        loop {
            match self.frame() {
                Some(Frame::Done(done)) => {
                    assert!(self.child.wait().unwrap().success());
                    return *done;
                }
                Some(Frame::Progress(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn stdout(done: &Done) -> String {
    let head = decode_bytes(&done.stdout.head).unwrap();
    let tail = decode_bytes(&done.stdout.tail).unwrap();
    String::from_utf8([head, tail].concat()).unwrap()
}

#[test]
fn a_command_runs_and_is_reported() {
    let world = World::new();
    let done = Runner::start(&world.request("echo hi; echo there >&2; exit 3")).done();
    assert_eq!(done.ending, Ending::Exit(3));
    assert_eq!(stdout(&done), "hi\n");
    assert_eq!(done.stderr.total, 6);
    assert!(!done.timed_out && !done.stopped && done.left_behind.is_empty());
    let done = Runner::start(&world.request("kill -9 $$")).done();
    assert_eq!(done.ending, Ending::Signal(9));
    world.none_left();
}

#[test]
fn a_stop_order_is_sigterm_first_and_sigkill_later() {
    let world = World::new();
    let command = "trap 'echo asked; exit 7' TERM; touch begun; while :; do sleep 0.05; done";
    let mut runner = Runner::start(&world.request(command));
    until("it began", || world.at("begun").exists());
    runner.order(&Order::Stop { grace_ms: 60_000 });
    let done = runner.done();
    assert_eq!((done.ending, done.stopped), (Ending::Exit(7), true));
    let command = "trap '' TERM; touch begun2; while :; do sleep 300; done";
    let mut runner = Runner::start(&world.request(command));
    until("it began", || world.at("begun2").exists());
    runner.order(&Order::Stop { grace_ms: 100 });
    let done = runner.done();
    assert_eq!((done.ending, done.stopped), (Ending::Signal(9), true));
    world.none_left();
}

#[test]
fn a_stop_order_at_once_is_a_stop_and_no_failure() {
    let world = World::new();
    for _ in 0..40 {
        let mut runner = Runner::start(&world.request("sleep 300"));
        runner.order(&Order::Stop { grace_ms: 60_000 });
        let done = runner.done();
        assert_eq!((done.ending, done.stopped), (Ending::Signal(15), true));
    }
    world.none_left();
}

#[test]
fn a_second_stop_order_only_shortens_the_wait() {
    let world = World::new();
    let command = "trap '' TERM; touch begun; while :; do sleep 300; done";
    let mut runner = Runner::start(&world.request(command));
    until("it began", || world.at("begun").exists());
    runner.order(&Order::Stop { grace_ms: 600_000 });
    runner.order(&Order::Stop { grace_ms: 50 });
    let began = Instant::now();
    assert_eq!(runner.done().ending, Ending::Signal(9));
    assert!(began.elapsed() < SOON);
}

#[test]
fn an_owner_that_is_gone_ends_the_command() {
    let world = World::new();
    let command =
        "trap '' TERM HUP; touch begun; (setsid sleep 301 &) ; while :; do sleep 300; done";
    let mut runner = Runner::start(&world.request(command));
    until("it began", || world.at("begun").exists());
    runner.stdin = None;
    let began = Instant::now();
    let done = runner.done();
    assert!(done.stopped);
    assert!(
        began.elapsed() < Duration::from_secs(3),
        "{:?}",
        began.elapsed()
    );
    world.none_left();
}

#[test]
fn a_killed_runner_leaves_nothing() {
    let world = World::new();
    let command =
        "trap '' TERM HUP; touch begun; (setsid sleep 301 &) ; while :; do sleep 300; done";
    let mut runner = Runner::start(&world.request(command));
    until("it began", || world.at("begun").exists());
    assert!(!running_in(&world.root).is_empty());
    runner.child.kill().unwrap();
    runner.child.wait().unwrap();
    world.none_left();
}

#[test]
fn the_time_limit_is_the_runners_own() {
    let world = World::new();
    let mut request = world.request("echo so far; trap '' TERM; while :; do sleep 300; done");
    request.timeout_ms = 300;
    let done = Runner::start(&request).done();
    assert!(done.timed_out && !done.stopped);
    assert_eq!(stdout(&done), "so far\n");
    assert!(done.wall_ms >= 300, "{}", done.wall_ms);
    world.none_left();
}

#[test]
fn what_is_left_behind_is_named_and_ended() {
    let world = World::new();
    let command = "sleep 300 & until grep -qx sleep /proc/[0-9]*/comm 2>/dev/null; do :; done";
    let done = Runner::start(&world.request(command)).done();
    assert_eq!(done.ending, Ending::Exit(0));
    assert_eq!(done.left_behind, ["sleep"]);
    world.none_left();
}

#[test]
fn long_output_is_spilled_whole_and_only_then() {
    let world = World::new();
    Runner::start(&world.request("echo short")).done();
    assert!(!world.root.join("spill").exists());
    let done = Runner::start(&world.request("seq 1 10000")).done();
    let whole: String = (1..=10_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(done.spill, Some(world.root.join("spill")));
    assert_eq!(
        std::fs::read_to_string(world.root.join("spill")).unwrap(),
        whole
    );
    assert_eq!(done.both.total, whole.len() as u64);
    // The file is made, never taken over.
    let again = Runner::start(&world.request("seq 1 10001")).done();
    assert!(again.spill_error.is_some() && again.spill.is_none());
    assert_eq!(
        std::fs::read_to_string(world.root.join("spill")).unwrap(),
        whole
    );
}

#[test]
fn progress_comes_only_where_it_is_wanted() {
    let world = World::new();
    let mut request = world.request("echo line; sleep 1.3");
    request.progress = true;
    let mut runner = Runner::start(&request);
    match runner.frame() {
        Some(Frame::Progress(now)) => assert_eq!((now.bytes, now.line.as_str()), (5, "line")),
        other => panic!("{other:?}"),
    }
    runner.done();
    let mut quiet = Runner::start(&world.request("echo line; sleep 1.3"));
    assert!(matches!(quiet.frame(), Some(Frame::Done(_))));
}

#[test]
fn the_walls_stand() {
    let world = World::new();
    let attack = "cd \"$WORLD\"; rm -f ws/old; mv ws/old /tmp/; echo x > outside/x; cat secret/key
        echo x > /tmp/free && rm /tmp/free && echo new > ws/new; echo done";
    let done = Runner::start(&world.request(attack)).done();
    assert_eq!(stdout(&done), "done\n");
    assert_eq!(std::fs::read_to_string(world.at("old")).unwrap(), "old");
    assert_eq!(std::fs::read_to_string(world.at("new")).unwrap(), "new\n");
    assert_eq!(
        std::fs::read_dir(world.root.join("outside"))
            .unwrap()
            .count(),
        0
    );
    assert_eq!(
        std::fs::read_to_string(world.root.join("secret/key")).unwrap(),
        "key"
    );
}

#[test]
fn a_request_that_cannot_be_read_is_refused() {
    for line in ["", "\n", "{}\n", "not json\n", "{\"plan\": 5}\n"] {
        let mut child = Command::new(program())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(line.as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        let frame: Frame = serde_json::from_slice(&output.stdout).unwrap();
        assert!(
            matches!(frame, Frame::Refused { .. }),
            "{line:?}: {frame:?}"
        );
    }
    let world = World::new();
    let mut request = world.request("true");
    request.plan.argv = vec!["/no/such/program".into()];
    assert!(matches!(
        Runner::start(&request).frame(),
        Some(Frame::Refused { .. })
    ));
    request.plan.argv = vec![];
    assert!(matches!(
        Runner::start(&request).frame(),
        Some(Frame::Refused { .. })
    ));
    let mut request = world.request("true");
    request.plan.cwd = world.root.join("ws/gone");
    assert!(matches!(
        Runner::start(&request).frame(),
        Some(Frame::Refused { .. })
    ));
    world.none_left();
}

#[test]
fn the_canary_finds_every_promise_kept_and_leaves_nothing() {
    let world = World::new();
    let scratch = world.root.join("scratch");
    let output = Command::new(program())
        .args(["canary", "--scratch"])
        .arg(&scratch)
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["state"], "full", "{report}");
    assert!(output.status.success());
    let promises = report["promises"].as_object().unwrap();
    assert!(
        promises.len() >= 5 && promises.values().all(|held| held == true),
        "{report}"
    );
    assert!(promises.contains_key("work_cleans_up"), "{report}");
    assert_eq!(std::fs::read_dir(&scratch).unwrap().count(), 0);
    let plain = Command::new(program())
        .args(["canary", "--no-broker", "--scratch"])
        .arg(&scratch)
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&plain.stdout).unwrap();
    assert_eq!(report["state"], "full", "{report}");
    assert!(report["promises"].get("work_cleans_up").is_none());
    world.none_left();
}
