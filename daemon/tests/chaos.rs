//! Faults in random order under load: processes killed, a control plane that misbehaves in every way it can.
//!
//! `HANDS_CHAOS_SEED` makes other choices, `HANDS_CHAOS_SECONDS` sets how long faults are made; `scripts/test --deep` does both. Only on Linux can a
//! process take every orphan in, so that none is missed.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests are not marked as tests.

mod common;
#[path = "chaos/load.rs"]
mod load;
#[path = "chaos/random.rs"]
mod random;
#[path = "chaos/watch.rs"]
mod watch;

use common::tunneled::{self, TunnelClient, relay_of};
use common::{Daemon, Place, alive, send};
use hands_testkit::{ControlPlane, Endpoint, Fault, RetryAfter, Script, Span};
use load::Load;
use random::Random;
use rustix::process::{Signal, WaitOptions};
use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use watch::Watch;

/// The choices made where the environment names none: a fault that only some choices find belongs to a long run.
const SEED: u64 = 516_301;
/// Time in which faults are made, where the environment names none.
const SECONDS: u64 = 60;
/// Time to be ready again once no delay is in force any more.
const RECOVERY: Duration = Duration::from_secs(2);
/// A call handed out this long before a death may not have arrived, or not been noted.
const ON_THE_WAY: Duration = Duration::from_millis(1500);
/// And one handed out so soon after it went to a connection whose end was not seen yet.
const UNSEEN: Duration = Duration::from_millis(500);
/// How long a poll may be without an answer: its time-out and what is added to it.
const POLL_DEADLINE: Duration = Duration::from_secs(7);

/// What is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Server,
    Tunnel,
    Relay,
    Daemon,
}

/// One thing that goes wrong.
#[derive(Debug, Clone)]
enum Mishap {
    Kill(Part),
    /// The control plane's fault.
    Plane(Endpoint, Fault, Span),
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_ends_once_whatever_dies() {
    let seed = number("HANDS_CHAOS_SEED").unwrap_or(SEED);
    let seconds = number("HANDS_CHAOS_SECONDS").unwrap_or(SECONDS);
    eprintln!("HANDS_CHAOS_SEED={seed} HANDS_CHAOS_SECONDS={seconds}");
    // What loses its parent becomes this process's child, so that none is missed.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    let plane = Arc::new(ControlPlane::start(Script::default()).await);
    let place = Place::new();
    let daemon = tunneled::start(&place, &plane, &TunnelClient::Builtin).await;
    daemon.ready().await;
    let mut chaos = Chaos {
        watch: Watch::new(place.run_dir()),
        load: Load::new(Arc::clone(&plane), place.workspace()),
        random: Random::new(seed),
        begun: Instant::now(),
        dead: BTreeSet::new(),
        deaths: Vec::new(),
        killed: [0; 4],
        daemon: Some(daemon),
        place,
        plane,
    };
    let watching = chaos.watch.start();
    let planners = chaos.load.start(seed);
    chaos.rounds(Duration::from_secs(seconds)).await;
    chaos.plane.heal();
    chaos.recovered().await;
    chaos.load.stop();
    for planner in planners {
        planner.await.unwrap();
    }
    watching.abort();
    chaos.judge().await;
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number")),
    )
}

struct Chaos {
    // Before the place: where a check fails, it ends while its home is there.
    daemon: Option<Daemon>,
    place: Place,
    plane: Arc<ControlPlane>,
    watch: Arc<Watch>,
    load: Arc<Load>,
    random: Random,
    begun: Instant,
    /// Servers that were killed.
    dead: BTreeSet<u32>,
    /// When a process on the way of a call died.
    deaths: Vec<Instant>,
    /// By part, in the order of its names.
    killed: [u64; 4],
}

impl Chaos {
    /// Every kind of mishap, in an order of its own each time; now and then two at once.
    async fn rounds(&mut self, time: Duration) {
        // Once: the delay after it is long.
        let refused = Mishap::Plane(Endpoint::Poll, Fault::Status(401), Span::Next(1));
        let mut mishaps = vec![refused];
        while self.begun.elapsed() < time {
            mishaps.extend(one_of_each(&mut self.random));
            self.random.shuffle(&mut mishaps);
            while let Some(mishap) = mishaps.pop() {
                self.make(mishap).await;
                if self.random.chance(25) {
                    continue;
                }
                self.recovered().await;
                if self.begun.elapsed() >= time {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(self.random.between(50, 500))).await;
            }
        }
    }

    async fn make(&mut self, mishap: Mishap) {
        self.say(&format!("{mishap:?}"));
        match mishap {
            Mishap::Kill(Part::Daemon) => self.kill_daemon().await,
            Mishap::Kill(part) => self.kill(part).await,
            Mishap::Plane(endpoint, fault, span) => {
                self.watch
                    .plane_until(Instant::now() + lasts(endpoint, &fault, span));
                self.plane.inject(endpoint, fault, span);
            }
        }
    }

    async fn kill(&mut self, part: Part) {
        let status = self.daemon.as_ref().unwrap().status().await;
        let pid = match part {
            Part::Server => status.server.pid,
            Part::Tunnel => status.tunnel.child.pid,
            _ => status.tunnel.child.pid.and_then(relay_of),
        };
        // It may be gone already, where one mishap follows the other at once.
        let Some(pid) = pid else { return };
        if part == Part::Server {
            self.dead.insert(pid);
        }
        send(pid, Signal::KILL);
        self.killed[part as usize] += 1;
        self.deaths.push(Instant::now());
    }

    /// As a service manager would: dead, and started again at once. Its children stay behind.
    async fn kill_daemon(&mut self) {
        let daemon = self.daemon.take().unwrap();
        self.deaths.push(Instant::now());
        daemon.kill();
        self.killed[Part::Daemon as usize] += 1;
        let plane = &self.plane;
        let configured = |command: &mut Command| {
            tunneled::configure(command, plane, &TunnelClient::Builtin);
        };
        if self.random.chance(40) {
            // One that dies young, wherever it was in its start.
            let mut command = self.place.command();
            configured(&mut command);
            let mut young = command.spawn().unwrap();
            let age = Duration::from_millis(self.random.between(0, 400));
            self.say(&format!("and its successor after {age:?}"));
            tokio::time::sleep(age).await;
            young.kill().unwrap();
            young.wait().unwrap();
        }
        self.watch.started();
        self.daemon = Some(self.place.start_with(configured).await);
        self.deaths.push(Instant::now());
    }

    /// Waits until all faults have been met and a call would work again.
    async fn recovered(&self) {
        let deadline = Instant::now() + Duration::from_secs(90);
        while self.plane.faults_left() > 0 {
            assert!(Instant::now() < deadline, "faults that nobody meets");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // A good poll, so that the next fault's delay is a first one again.
        let (looks, polls) = (self.watch.looks(), self.plane.good_polls());
        // A look that began before the mishap does not count.
        while self.plane.good_polls() < polls + 2
            || self.watch.looks() < looks + 2
            || !self.watch.is_ready()
        {
            assert!(
                Instant::now() < deadline,
                "never ready again: {:#?}\n{}",
                self.watch.open(),
                tail(&self.place.log(), 60)
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn say(&self, what: &str) {
        eprintln!("{:7.3} s  {what}", self.begun.elapsed().as_secs_f64());
    }

    async fn judge(mut self) {
        let lost = |at: Instant| {
            let near = |death: &Instant| at + ON_THE_WAY >= *death && at <= *death + UNSEEN;
            self.deaths.iter().any(near)
        };
        let tally = self.load.judge(lost);
        eprintln!("calls: {tally:?}; killed: {:?}", self.killed);
        assert!(tally.good > 100, "{tally:?}");
        // Lost with a process are a few of those under way at that moment.
        let deaths: u64 = self.killed.iter().sum();
        assert!(tally.expired as u64 <= 6 * deaths, "{tally:?}");

        assert!(tally.hopeless > 0, "{tally:?}");

        self.daemon.take().unwrap().stop().await;
        self.plane.check_contract();
        self.check_recovery();
        self.check_restarts();
        self.check_trail();
        no_orphans().await;
    }

    /// Ready again in time, each time.
    fn check_recovery(&self) {
        let gaps = self.watch.gaps();
        for gap in &gaps {
            let at = gap.from - self.begun;
            let took = gap.to - gap.from;
            eprintln!(
                "not ready at {at:.1?} for {took:.2?}, {:.2?} after the last delay: {:?}",
                gap.recovery(),
                gap.reasons
            );
        }
        let late: Vec<_> = gaps
            .iter()
            .filter(|gap| gap.recovery() > RECOVERY)
            .collect();
        assert!(
            late.is_empty(),
            "{late:#?}\n{}",
            tail(&self.place.log(), 80)
        );
        assert!(!gaps.is_empty());
    }

    /// Only what was killed was started again: nothing for the sake of the other side's trouble.
    fn check_restarts(&self) {
        let notes = self.place.lifecycle();
        let restarts = |child: &str| {
            let of_child = notes
                .iter()
                .filter(|(event, detail)| event == "child_restart" && detail["child"] == child);
            of_child.count() as u64
        };
        assert!(
            restarts("server") <= self.killed[Part::Server as usize],
            "{notes:#?}"
        );
        assert!(
            restarts("tunnel") <= self.killed[Part::Tunnel as usize],
            "{notes:#?}"
        );
        for (event, detail) in &notes {
            let why = detail["why"].as_str().unwrap_or_default();
            if event == "child_exit" {
                assert!(["by itself", "on request"].contains(&why), "{detail}");
            }
            if event == "orphan" {
                assert_eq!(detail["ended"], true, "{detail}");
            }
        }
    }

    /// Whole, and each call has its end, unless its server was killed.
    fn check_trail(&self) {
        let records = self.place.trail();
        let of = |event: &[&str]| {
            let found = records
                .iter()
                .filter(|record| event.contains(&record.event.as_deref().unwrap()));
            let turns = found.map(|record| (record.turn_id.clone().unwrap(), record.pid.unwrap()));
            turns.collect::<Vec<_>>()
        };
        let (calls, ends) = (of(&["call"]), of(&["result", "denied"]));
        assert!(calls.len() > 100);
        let ended: BTreeSet<_> = ends.iter().cloned().collect();
        assert_eq!(ended.len(), ends.len(), "a call has one end");
        for call in &calls {
            assert!(
                ended.contains(call) || self.dead.contains(&call.1),
                "{call:?} has no end"
            );
        }
        assert!(
            ended.iter().all(|end| calls.contains(end)),
            "an end without its call"
        );
    }
}

/// How long a fault lasts from now, at most.
fn lasts(endpoint: Endpoint, fault: &Fault, span: Span) -> Duration {
    let held = match (endpoint, fault) {
        (Endpoint::Poll, Fault::HalfOpen) => POLL_DEADLINE,
        (Endpoint::Poll, Fault::SlowBody(pause)) => *pause * 5,
        _ => Duration::ZERO,
    };
    match span {
        Span::For(time) => held + time,
        _ => held,
    }
}

/// One of each kind, with details that differ; each death twice.
fn one_of_each(random: &mut Random) -> Vec<Mishap> {
    use Endpoint::{Poll, Response};
    let parts = [Part::Server, Part::Tunnel, Part::Relay, Part::Daemon];
    let mut all: Vec<Mishap> = parts.repeat(2).into_iter().map(Mishap::Kill).collect();
    let seconds = Duration::from_secs;
    let after = match random.chance(50) {
        true => RetryAfter::Seconds(random.between(1, 4)),
        false => RetryAfter::DateIn(seconds(random.between(2, 4))),
    };
    let a_while = Span::For(seconds(random.between(1, 4)));
    let some = Span::Next(random.between(1, 4) as usize);
    let pause = Duration::from_millis(random.between(20, 200));
    let of_polls = [
        (Fault::StatusRetryAfter(429, after.clone()), Span::Next(1)),
        (Fault::StatusRetryAfter(503, after.clone()), Span::Next(1)),
        (Fault::Status(503), a_while),
        (Fault::Status(404), some),
        (Fault::Status(413), Span::Next(1)),
        (Fault::Drop, a_while),
        (Fault::AcceptThenDrop, some),
        (Fault::DropInBody, some),
        (Fault::TruncatedJson, some),
        (Fault::SlowBody(pause), some),
        (Fault::HalfOpen, Span::Next(1)),
    ];
    let of_answers = [
        (Fault::StatusRetryAfter(429, after), some),
        (Fault::Status(503), a_while),
        (Fault::Status(401), some),
        (Fault::Status(404), Span::Next(1)),
        (Fault::Status(413), Span::Next(1)),
        (Fault::Drop, some),
        (Fault::AcceptThenDrop, some),
        (Fault::DropInBody, some),
        (Fault::SlowBody(pause), some),
        (Fault::HalfOpen, Span::Next(1)),
    ];
    all.extend(of_polls.map(|(fault, span)| Mishap::Plane(Poll, fault, span)));
    all.extend(of_answers.map(|(fault, span)| Mishap::Plane(Response, fault, span)));
    all
}

/// Waits for those that are on their way out; there may be none that stays.
async fn no_orphans() {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        let left = children();
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "orphans: {left:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The living children of this process.
fn children() -> Vec<String> {
    let own = std::process::id();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let ours = pids.filter(|pid| tunneled::parent_of(*pid) == Some(own) && alive(*pid));
    let words = |pid| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    ours.map(|pid| format!("{pid}: {}", words(pid).replace('\0', " ")))
        .collect()
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
