//! What a living tunnel client says of itself on its health socket, brought into one shape for both kinds.
//!
//! The built-in client tells its troubles with stable codes. The official one has a readiness that knows of no MCP exchange, so its
//! figures are read as well, and what changed since the last look decides.

use crate::facts::{Figures, Trouble, TroubleKind, TunnelHealth};
use crate::limits;
use crate::mender::Life;
use hands_control::Client;
use hands_tunnel::limits::{MESSAGE_MAX, SERVICE_TEXT_MAX};
use hands_tunnel::text::plain;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// Asks one tunnel client after the other; keeps what it must compare with.
#[derive(Debug)]
pub(crate) struct Asker {
    socket: PathBuf,
    seen: Option<Seen>,
}

/// What was seen of one process of the official client.
#[derive(Debug)]
struct Seen {
    pid: u32,
    since: Instant,
    errors: u64,
    errors_grew: Option<Instant>,
    refused: u64,
    /// The last failed poll was a refusal.
    is_refused: bool,
    good: u64,
    bad: u64,
    /// Bad answers since the last good one.
    bad_in_a_row: u64,
}

impl Asker {
    /// Asks on this socket.
    pub(crate) fn new(socket: PathBuf) -> Self {
        Self { socket, seen: None }
    }

    /// What this process says.
    pub(crate) async fn ask(
        &mut self,
        life: Life,
        now: Instant,
        official: bool,
        poll_timeout: Duration,
    ) -> TunnelHealth {
        let age = now - life.since;
        let asked = if official {
            self.official(life.pid, poll_timeout).await
        } else {
            self.builtin(age, poll_timeout).await
        };
        asked.unwrap_or_else(|why| TunnelHealth {
            troubles: vec![Trouble {
                // One that was well is not on its way up, however young it is.
                kind: match age < limits::START_PATIENCE && !life.was_well {
                    true => TroubleKind::Starting,
                    false => TroubleKind::Silent,
                },
                message: format!("the tunnel client's health socket does not answer: {why}"),
            }],
            ..TunnelHealth::default()
        })
    }

    async fn client(&self) -> Result<Client, String> {
        let client = Client::connect(&self.socket)
            .await
            .map_err(|why| why.to_string())?;
        Ok(client.with_timeout(limits::HEALTH_TIMEOUT))
    }

    async fn builtin(&self, age: Duration, poll_timeout: Duration) -> Result<TunnelHealth, String> {
        let page: Value = self
            .client()
            .await?
            .get("/api/status")
            .await
            .map_err(|why| why.to_string())?;
        Ok(read_page(&page, age, poll_timeout))
    }

    async fn official(&mut self, pid: u32, poll_timeout: Duration) -> Result<TunnelHealth, String> {
        // Its program leaves the mode to the umask, and asks nobody who it is.
        close_to_others(&self.socket);
        let client = self.client().await?;
        let fetch = async |path| client.fetch(path).await.map_err(|why| why.to_string());
        let (status, ready) = fetch("/readyz").await?;
        let (_, metrics) = fetch("/metrics").await?;
        let totals = Totals::read(&String::from_utf8_lossy(&metrics));
        let now = Instant::now();
        let seen = match &mut self.seen {
            Some(seen) if seen.pid == pid => seen,
            slot => slot.insert(Seen::new(pid, now)),
        };
        seen.update(&totals, now);
        let mut health = seen.health(&totals, poll_timeout, now);
        if status != 200 {
            let text = String::from_utf8_lossy(&ready);
            let text = plain(text.trim(), SERVICE_TEXT_MAX);
            health.troubles.push(Trouble {
                kind: TroubleKind::Starting,
                message: format!("the tunnel client is not ready: {text}"),
            });
        }
        Ok(health)
    }
}

/// The folder keeps others out as well, so a failure is no reason to do without the figures.
fn close_to_others(socket: &Path) {
    let is_open = |mode: u32| mode & 0o077 != 0;
    if std::fs::symlink_metadata(socket).is_ok_and(|meta| is_open(meta.mode())) {
        let _ = std::fs::set_permissions(socket, Permissions::from_mode(0o600));
    }
}

/// Reads the built-in client's page.
fn read_page(page: &Value, age: Duration, poll_timeout: Duration) -> TunnelHealth {
    let trouble_holds = !page["poll"]["trouble"].is_null();
    let known_there = !page["tunnel"]["name"].is_null();
    let reasons = page["reasons"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let mut troubles = Vec::new();
    for reason in reasons {
        let code = reason["code"].as_str().unwrap_or_default();
        let kind = match code {
            "needs_operator" => TroubleKind::Operator,
            "polls_fail" | "polls_slow" | "posts_refused" => TroubleKind::OtherSide,
            "no_poll" | "polls_stale" if trouble_holds => TroubleKind::OtherSide,
            // The first poll waits for commands. Key, id and network are known to work once the tunnel's record came.
            "no_poll" if known_there && age < poll_timeout + limits::POLL_STALE_AFTER => continue,
            "no_poll" => TroubleKind::Starting,
            "polls_stale" => TroubleKind::NoPolls,
            "calls_fail" => TroubleKind::CallsFail,
            "server_down" | "server_silent" => TroubleKind::Link,
            _ => TroubleKind::Starting,
        };
        let text = reason["message"].as_str().unwrap_or(code);
        troubles.push(Trouble {
            kind,
            message: plain(text, MESSAGE_MAX),
        });
    }
    let totals = |value: &Value| {
        let entries = value.as_object().into_iter().flatten();
        entries
            .filter_map(|(name, count)| Some((name.clone(), count.as_u64()?)))
            .collect()
    };
    TunnelHealth {
        troubles,
        last_good_poll: page["poll"]["last_good_age_ms"]
            .as_u64()
            .map(Duration::from_millis),
        next_try: next_try(page),
        figures: Figures {
            polls: totals(&page["poll"]["by_outcome"]),
            posts: totals(&page["commands"]["posts_by_outcome"]),
            in_flight: page["commands"]["in_flight"].as_u64().unwrap_or_default(),
            failing: page["commands"]["failures_in_a_row"]
                .as_u64()
                .unwrap_or_default(),
        },
    }
}

/// When the last of what failed is tried again: polls, or the start of the relay.
fn next_try(page: &Value) -> Option<SystemTime> {
    let waits = [
        &page["poll"]["trouble"]["retry_in_ms"],
        &page["server"]["restart_in_ms"],
    ];
    let left = waits.into_iter().filter_map(Value::as_u64).max()?;
    SystemTime::now().checked_add(Duration::from_millis(left))
}

/// What matters of the official client's figures.
#[derive(Debug, Default, PartialEq)]
struct Totals {
    last_good: Option<f64>,
    cycles: u64,
    errors: u64,
    /// Polls by the status of their answer; empty where there was none. Not every version has them.
    polls: BTreeMap<String, u64>,
    /// Answers by the status that the service gave for them.
    answers: BTreeMap<String, u64>,
    in_flight: u64,
}

impl Totals {
    fn read(text: &str) -> Self {
        let mut totals = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((series, value)) = line.rsplit_once(' ') else {
                continue;
            };
            let Ok(value) = value.parse::<f64>() else {
                continue;
            };
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            // The figures are whole numbers below 2^53.
            let count = value.max(0.0) as u64;
            match name {
                "commands_poll_last_successful_timestamp_seconds" if value > 0.0 => {
                    totals.last_good = Some(value);
                }
                "commands_poll_cycles" | "commands_poll_cycles_total" => totals.cycles += count,
                "commands_poll_errors" | "commands_poll_errors_total" => totals.errors += count,
                "command_end_to_end_latency_milliseconds_count" => {
                    let status = label(labels, "tunnel_service_status").unwrap_or("unknown");
                    *totals.answers.entry(status.to_owned()).or_default() += count;
                }
                "http_client_request_duration_seconds_count"
                    if label(labels, "http_route")
                        .is_some_and(|route| route.ends_with("/poll")) =>
                {
                    let status = label(labels, "http_response_status_code").unwrap_or_default();
                    *totals.polls.entry(status.to_owned()).or_default() += count;
                }
                "dispatcher_worker_pool_occupancy" => totals.in_flight += count,
                _ => {}
            }
        }
        totals
    }

    /// Polls that were refused: the key or the id is wrong.
    fn refused(&self) -> u64 {
        let count = |status: &str| self.polls.get(status).copied().unwrap_or_default();
        count("401") + count("403")
    }

    /// Polls by outcome, as well as this version tells them.
    fn poll_outcomes(&self) -> Vec<(String, u64)> {
        if self.polls.is_empty() {
            let good = self.cycles.saturating_sub(self.errors);
            return vec![
                ("empty".to_owned(), good),
                ("network".to_owned(), self.errors),
            ];
        }
        let polls = self.polls.iter();
        polls
            .map(|(status, count)| (status.clone(), *count))
            .collect()
    }

    fn good_answers(&self) -> u64 {
        let good = self
            .answers
            .iter()
            .filter(|(status, _)| status.starts_with('2'));
        good.map(|(_, count)| count).sum()
    }
}

fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = labels.split_once(&format!("{name}=\""))?;
    rest.split('"').next()
}

impl Seen {
    /// Of a process first seen now.
    fn new(pid: u32, now: Instant) -> Self {
        Self {
            pid,
            since: now,
            errors: 0,
            errors_grew: None,
            refused: 0,
            is_refused: false,
            good: 0,
            bad: 0,
            bad_in_a_row: 0,
        }
    }

    fn update(&mut self, totals: &Totals, now: Instant) {
        if totals.errors > self.errors {
            self.errors_grew = Some(now);
            self.is_refused = totals.refused() > self.refused;
        }
        self.refused = totals.refused();
        self.errors = totals.errors;
        let good = totals.good_answers();
        let bad = totals.answers.values().sum::<u64>() - good;
        if good > self.good {
            self.bad_in_a_row = 0;
        } else {
            self.bad_in_a_row += bad.saturating_sub(self.bad);
        }
        (self.good, self.bad) = (good, bad);
    }

    fn health(&self, totals: &Totals, poll_timeout: Duration, now: Instant) -> TunnelHealth {
        let stale_after = poll_timeout + limits::POLL_STALE_AFTER;
        let last_good_poll = totals.last_good.map(age_of);
        let recent = last_good_poll.is_some_and(|age| age <= stale_after);
        let errors_hold = self.errors_grew.is_some_and(|at| now - at <= stale_after);
        let mut troubles = Vec::new();
        let mut add = |kind, message: String| troubles.push(Trouble { kind, message });
        if !recent {
            let text = match last_good_poll {
                Some(age) => format!("the last good poll was {} s ago", age.as_secs()),
                None => "no poll was answered well yet".to_owned(),
            };
            if errors_hold && self.is_refused {
                let advice = "the service refuses the key or the id";
                add(TroubleKind::Operator, advice.to_owned());
            } else if errors_hold {
                add(TroubleKind::OtherSide, format!("{text}, and polls fail"));
            } else if now - self.since > stale_after {
                add(TroubleKind::NoPolls, text);
            } else if last_good_poll.is_none() {
                add(TroubleKind::Starting, text);
            }
        }
        if self.bad_in_a_row >= limits::BAD_ANSWERS {
            let text = format!(
                "the last {} calls ended in an error of the client",
                self.bad_in_a_row
            );
            add(TroubleKind::CallsFail, text);
        }
        TunnelHealth {
            troubles,
            last_good_poll,
            next_try: None,
            figures: Figures {
                polls: totals.poll_outcomes(),
                posts: totals
                    .answers
                    .iter()
                    .map(|(status, count)| (status.clone(), *count))
                    .collect(),
                in_flight: totals.in_flight,
                failing: self.bad_in_a_row,
            },
        }
    }
}

fn age_of(unix: f64) -> Duration {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Duration::try_from_secs_f64(now.as_secs_f64() - unix).unwrap_or_default()
}

#[cfg(test)]
#[path = "tunnel_health_tests.rs"]
mod tests;
