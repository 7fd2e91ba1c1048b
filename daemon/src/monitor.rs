//! The loop that looks at the children, judges, tells, and has mended what a restart mends.

use crate::core::Core;
use crate::disk::Disk;
use crate::facts::{Facts, Figures, ServerFacts, TunnelFacts};
use crate::keeper::{Handle, Health};
use crate::limits;
use crate::mender::{Life, Mender};
use crate::notify;
use crate::plan;
use crate::probe::Probe;
use crate::readiness;
use crate::relayed::Watch;
use crate::servers;
use crate::tunnel_health::Asker;
use hands_control::types::daemon::Readiness;
use hands_metrics::{PollOutcome, PostOutcome, Process, Registry};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::{Instant, sleep};

/// Looks until the daemon stops.
pub(crate) struct Monitor {
    core: Arc<Core>,
    probe: Probe,
    disk: Disk,
    asker: Asker,
    mender: Mender,
    server: Lives,
    tunnel: Lives,
    relays: Watch,
    totals: Totals,
    tunnel_was_started: bool,
    /// The tunnel process whose polls are counted.
    polling: Option<u32>,
}

/// The processes of one child, one after the other.
#[derive(Debug, Default)]
struct Lives(Option<Life>);

impl Lives {
    fn see(&mut self, pid: Option<u32>, now: Instant) -> Option<Life> {
        self.0 = pid.map(|pid| match self.0 {
            Some(life) if life.pid == pid => life,
            _ => Life {
                pid,
                since: now,
                was_well: false,
            },
        });
        self.0
    }

    fn was_well(&mut self) {
        if let Some(life) = &mut self.0 {
            life.was_well = true;
        }
    }
}

impl Monitor {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self {
            probe: Probe::new(&core.home.run_dir()),
            disk: Disk::new(core.home.run_dir()),
            asker: Asker::new(plan::tunnel_socket(&core.home)),
            mender: Mender::default(),
            server: Lives::default(),
            tunnel: Lives::default(),
            relays: Watch::default(),
            totals: Totals::default(),
            tunnel_was_started: false,
            polling: None,
            core,
        }
    }

    pub(crate) async fn run(mut self) {
        let stop = self.core.stop.clone();
        let (mut server, mut tunnel) = (self.core.server.watch(), self.core.tunnel.watch());
        loop {
            tokio::select! {
                () = self.look() => {}
                () = stop.cancelled() => break,
            }
            let pause = match self.core.readiness.borrow().ready {
                true => limits::LOOK_EVERY,
                false => limits::LOOK_AGAIN,
            };
            tokio::select! {
                () = sleep(pause) => {}
                // A child's end is seen at once. What this loop itself brought about is no reason to look again.
                _ = server.wait_for(|status| status.pid.is_none()), if server.borrow().pid.is_some() => {}
                _ = tunnel.wait_for(|status| status.pid.is_none()), if tunnel.borrow().pid.is_some() => {}
                () = stop.cancelled() => break,
            }
        }
        self.probe.close();
    }

    async fn look(&mut self) {
        let disk = self.disk.trouble().await;
        let facts = self.gather().await;
        let mut readiness = readiness::judge(&facts);
        if let Some(reason) = disk {
            readiness.ready = false;
            // First: what does not run may not run because of it.
            readiness.reasons.insert(0, reason);
        }
        self.tell_keepers(&facts).await;
        self.publish(readiness, &facts);
        notify::watchdog();
        self.start_tunnel_once(&facts).await;
        self.mend(&facts).await;
    }

    async fn gather(&mut self) -> Facts {
        let now = Instant::now();
        let config = self.core.config();
        let (server, tunnel) = (self.core.server.status(), self.core.tunnel.status());
        self.server.see(server.pid, now);
        let life = self.tunnel.see(tunnel.pid, now);
        let official = plan::uses_official(&config);
        let asking = async {
            match life {
                Some(life) => {
                    let poll = config.tunnel.poll_timeout;
                    Some(self.asker.ask(life, now, official, poll).await)
                }
                None => None,
            }
        };
        let pinging = async {
            match server.pid {
                Some(_) => self.probe.ping().await,
                None => {
                    self.probe.close();
                    Err("it does not run".to_owned())
                }
            }
        };
        let run = self.core.home.run_dir();
        let listing = async {
            match (life, server.pid) {
                (Some(_), Some(pid)) => servers::of_one(&run, pid).await,
                _ => None,
            }
        };
        let (ping, mut health, sessions) = tokio::join!(pinging, asking, listing);
        let relayed = match (life, sessions) {
            (Some(life), Some(sessions)) => Some(self.relays.gather(life.pid, &sessions)),
            _ => None,
        };
        if let Some(health) = &mut health {
            let budget = config.reply_budget;
            let trouble = self.relays.judge(health, relayed.as_ref(), budget, now);
            health.troubles.extend(trouble);
        }
        let tunnel = config.tunnel.id.is_some().then_some(TunnelFacts {
            state: tunnel.state,
            reason: tunnel.reason,
            official,
            health,
            relayed,
        });
        Facts {
            server: ServerFacts {
                state: server.state,
                reason: server.reason,
                ping,
            },
            tunnel,
        }
    }

    async fn tell_keepers(&mut self, facts: &Facts) {
        if let Some(life) = self.server.0 {
            let health = match &facts.server.ping {
                Ok(()) => Health::Well,
                Err(why) => Health::Unwell(format!("it does not answer: {why}")),
            };
            tell(&self.core.server, life, health).await;
            if facts.server.ping.is_ok() {
                self.server.was_well();
            }
        }
        let health = facts
            .tunnel
            .as_ref()
            .and_then(|tunnel| tunnel.health.as_ref());
        if let (Some(life), Some(health)) = (self.tunnel.0, health) {
            let operator = health
                .troubles
                .iter()
                .find(|trouble| trouble.kind == crate::facts::TroubleKind::Operator);
            let found = match (operator, health.troubles.first()) {
                (Some(trouble), _) => Health::Operator(trouble.message.clone()),
                (None, Some(trouble)) => Health::Unwell(trouble.message.clone()),
                (None, None) => Health::Well,
            };
            if found == Health::Well {
                self.tunnel.was_well();
            }
            tell(&self.core.tunnel, life, found).await;
        }
    }

    fn publish(&mut self, readiness: Readiness, facts: &Facts) {
        let metrics = &self.core.metrics;
        metrics.set_ready(readiness.ready);
        metrics.set_local_only(readiness.local_only);
        metrics.watch(Process::Tunnel, self.tunnel.0.map(|life| life.pid));
        let polling = self.tunnel.0.map(|life| life.pid);
        match polling {
            None if facts.tunnel.is_none() => metrics.polling_stopped(),
            // Until its first good poll the age counts from its start.
            Some(_) if polling != self.polling => metrics.polling_started(),
            _ => {}
        }
        self.polling = polling;
        let health = facts
            .tunnel
            .as_ref()
            .and_then(|tunnel| tunnel.health.as_ref());
        match (self.tunnel.0, health) {
            (Some(life), Some(health)) => {
                self.totals.count(life.pid, &health.figures, metrics);
                if let Some(ago) = health.last_good_poll {
                    metrics.last_good_poll(ago);
                }
            }
            _ => metrics.set_commands(0, 0),
        }
        let before = self.core.readiness.borrow().clone();
        let changed = before.ready != readiness.ready || codes(&before) != codes(&readiness);
        if changed {
            notify::status(&summary(&readiness));
            let detail = json!({"ready": readiness.ready, "reasons": readiness.reasons});
            // A new process is on its way up each time; only what lasts belongs in the log of lifecycles.
            match before.ready != readiness.ready {
                true => self.core.recorder.note("readiness", detail),
                false => self.core.recorder.event("readiness", detail),
            }
        }
        self.core.readiness.send_replace(readiness);
        self.core.facts.send_replace(Some(facts.clone()));
    }

    /// The tunnel is started once there is a server to relay to: the first call would only wait for one.
    async fn start_tunnel_once(&mut self, facts: &Facts) {
        if !self.tunnel_was_started && facts.server.ping.is_ok() {
            self.tunnel_was_started = true;
            self.core.tunnel.start().await;
        }
    }

    async fn mend(&mut self, facts: &Facts) {
        let now = Instant::now();
        if let Some(why) = self.mender.server(facts, self.server.0, now) {
            self.core.server.mend(why).await;
            // The next look must see another process, or none.
            self.server.0 = None;
        }
        let poll_timeout = self.core.config().tunnel.poll_timeout;
        if let Some(why) = self.mender.tunnel(facts, self.tunnel.0, poll_timeout, now) {
            self.core.tunnel.mend(why).await;
            self.tunnel.0 = None;
        }
    }
}

async fn tell(handle: &Handle, life: Life, health: Health) {
    handle.found(life.pid, health).await;
}

fn codes(readiness: &Readiness) -> Vec<&str> {
    let reasons = readiness.reasons.iter();
    reasons.map(|reason| reason.code.as_str()).collect()
}

/// One line for a service manager.
fn summary(readiness: &Readiness) -> String {
    match (readiness.ready, readiness.local_only) {
        (true, true) => "ready, local only".to_owned(),
        (true, false) => "ready".to_owned(),
        (false, _) => format!("not ready: {}", codes(readiness).join(", ")),
    }
}

/// The tunnel's totals as they were last seen: only what is new is counted.
#[derive(Debug, Default)]
struct Totals {
    pid: u32,
    polls: BTreeMap<String, u64>,
    posts: BTreeMap<String, u64>,
}

impl Totals {
    fn count(&mut self, pid: u32, figures: &Figures, metrics: &Registry) {
        if pid != self.pid {
            *self = Self {
                pid,
                ..Self::default()
            };
        }
        for (name, count) in &figures.polls {
            metrics.record_polls(poll_outcome(name), grown(&mut self.polls, name, *count));
        }
        for (name, count) in &figures.posts {
            if let Some(outcome) = post_outcome(name) {
                metrics.record_posts(outcome, grown(&mut self.posts, name, *count));
            }
        }
        metrics.set_commands(figures.in_flight, 0);
    }
}

fn grown(seen: &mut BTreeMap<String, u64>, name: &str, count: u64) -> u64 {
    let before = seen.insert(name.to_owned(), count).unwrap_or_default();
    count.saturating_sub(before)
}

fn poll_outcome(name: &str) -> PollOutcome {
    match name {
        "commands" | "200" => PollOutcome::Commands,
        "empty" | "204" => PollOutcome::Empty,
        "unauthorized" | "401" | "403" => PollOutcome::Unauthorized,
        "rate_limited" | "429" => PollOutcome::RateLimited,
        "server_error" => PollOutcome::ServerError,
        status if status.len() == 3 && status.starts_with('5') => PollOutcome::ServerError,
        "unreadable" => PollOutcome::Malformed,
        "" | "network" | "timeout" => PollOutcome::Network,
        _ => PollOutcome::ClientError,
    }
}

/// None for posts that are no answers, and for tries that were not the last.
fn post_outcome(name: &str) -> Option<PostOutcome> {
    Some(match name {
        "progress" | "progress_lost" | "retried" => return None,
        "delivered" | "ok" | "200" | "202" | "204" => PostOutcome::Ok,
        "already_fulfilled" | "fulfilled" | "not_found" | "404" => PostOutcome::AlreadyFulfilled,
        "expired" => PostOutcome::Expired,
        "unauthorized" | "401" | "403" => PostOutcome::Unauthorized,
        "too_large" | "413" => PostOutcome::TooLarge,
        "rate_limited" | "429" => PostOutcome::RateLimited,
        "failed" | "network" | "timeout" | "unreadable" | "unknown" => PostOutcome::Network,
        "server_error" => PostOutcome::ServerError,
        other if other.starts_with('5') => PostOutcome::ServerError,
        _ => PostOutcome::ClientError,
    })
}
