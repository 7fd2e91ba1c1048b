//! When a living child that does not do its work is restarted: a pure decision over time.
//!
//! What only the operator or the other side can mend is never answered by a restart.

use crate::facts::{Facts, TroubleKind, TunnelFacts};
use crate::limits;
use std::time::Duration;
use tokio::time::Instant;

/// Remembers since when something is wrong.
#[derive(Debug, Default)]
pub(crate) struct Mender {
    server: Option<Wrong>,
    tunnel: Option<Wrong>,
}

/// The same thing has been wrong with the same process since then.
#[derive(Debug)]
struct Wrong {
    pid: u32,
    kind: Option<TroubleKind>,
    since: Instant,
}

/// The process of a child: its id and when it was first seen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Life {
    pub(crate) pid: u32,
    pub(crate) since: Instant,
    /// Whether it was ever well.
    pub(crate) was_well: bool,
}

impl Mender {
    /// Why the server is to be restarted now.
    pub(crate) fn server(
        &mut self,
        facts: &Facts,
        life: Option<Life>,
        now: Instant,
    ) -> Option<String> {
        let (Some(life), Err(why)) = (life, &facts.server.ping) else {
            self.server = None;
            return None;
        };
        let since = wrong_since(&mut self.server, life.pid, None, now);
        let patience = match life.was_well {
            true => limits::SERVER_PATIENCE,
            false => limits::START_PATIENCE,
        };
        (now - since >= patience).then(|| format!("it does not answer: {why}"))
    }

    /// Why the tunnel is to be restarted now.
    pub(crate) fn tunnel(
        &mut self,
        facts: &Facts,
        life: Option<Life>,
        poll_timeout: Duration,
        now: Instant,
    ) -> Option<String> {
        let trouble = facts.tunnel.as_ref().and_then(gravest);
        let (Some(life), Some((kind, message))) = (life, trouble) else {
            self.tunnel = None;
            return None;
        };
        let server_is_well = facts.server.ping.is_ok();
        let patience = match kind {
            TroubleKind::Operator | TroubleKind::OtherSide => None,
            // Without the server its calls cannot work; the server's own restart comes first.
            TroubleKind::CallsFail | TroubleKind::Link if !server_is_well => None,
            TroubleKind::NoPolls => Some(Duration::ZERO),
            TroubleKind::CallsFail => Some(limits::LOOK_EVERY),
            TroubleKind::Link => Some(limits::TUNNEL_PATIENCE),
            TroubleKind::Silent if life.was_well => Some(limits::SERVER_PATIENCE),
            TroubleKind::Silent => Some(limits::START_PATIENCE),
            TroubleKind::Starting => Some(poll_timeout + limits::START_PATIENCE),
        };
        let Some(patience) = patience else {
            self.tunnel = None;
            return None;
        };
        let since = wrong_since(&mut self.tunnel, life.pid, Some(kind), now);
        (now - since >= patience).then(|| message.to_owned())
    }
}

/// What decides: nothing of ours is done while the operator or the other side has to act.
fn gravest(facts: &TunnelFacts) -> Option<(TroubleKind, &str)> {
    let troubles = &facts.health.as_ref()?.troubles;
    let theirs = troubles
        .iter()
        .find(|trouble| matches!(trouble.kind, TroubleKind::Operator | TroubleKind::OtherSide));
    let found = theirs.or_else(|| troubles.first())?;
    Some((found.kind, &found.message))
}

fn wrong_since(
    slot: &mut Option<Wrong>,
    pid: u32,
    kind: Option<TroubleKind>,
    now: Instant,
) -> Instant {
    match slot {
        Some(wrong) if wrong.pid == pid && wrong.kind == kind => wrong.since,
        _ => {
            *slot = Some(Wrong {
                pid,
                kind,
                since: now,
            });
            now
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{ServerFacts, Trouble, TunnelHealth};
    use hands_control::types::daemon::ChildState;

    const POLL: Duration = Duration::from_secs(10);

    fn facts(ping: Result<(), String>, kinds: &[TroubleKind]) -> Facts {
        let trouble = |kind: &TroubleKind| Trouble {
            kind: *kind,
            message: "why".to_owned(),
        };
        Facts {
            server: ServerFacts {
                state: ChildState::Running,
                reason: None,
                ping,
            },
            tunnel: Some(TunnelFacts {
                state: ChildState::Running,
                reason: None,
                official: false,
                health: Some(TunnelHealth {
                    troubles: kinds.iter().map(trouble).collect(),
                    ..TunnelHealth::default()
                }),
                relayed: None,
            }),
        }
    }

    fn life(since: Instant, was_well: bool) -> Option<Life> {
        Some(Life {
            pid: 7,
            since,
            was_well,
        })
    }

    /// Seconds after which the tunnel is restarted, looking every second for ten minutes.
    fn restarted_after(ping: Result<(), String>, kinds: &[TroubleKind]) -> Option<u64> {
        let (start, mut mender) = (Instant::now(), Mender::default());
        let facts = facts(ping, kinds);
        (0..600).find(|second| {
            let now = start + Duration::from_secs(*second);
            mender
                .tunnel(&facts, life(start, true), POLL, now)
                .is_some()
        })
    }

    #[test]
    fn what_others_must_mend_is_never_restarted() {
        for kind in [TroubleKind::Operator, TroubleKind::OtherSide] {
            assert_eq!(restarted_after(Ok(()), &[kind]), None);
            // Nor what comes with it.
            assert_eq!(
                restarted_after(Ok(()), &[TroubleKind::CallsFail, kind]),
                None
            );
        }
        let down = Err("down".to_owned());
        assert_eq!(restarted_after(down, &[TroubleKind::CallsFail]), None);
    }

    #[test]
    fn what_a_restart_mends_is_restarted_soon() {
        for kind in [
            TroubleKind::NoPolls,
            TroubleKind::CallsFail,
            TroubleKind::Silent,
        ] {
            assert!(
                restarted_after(Ok(()), &[kind]).is_some_and(|after| after <= 15),
                "{kind:?}"
            );
        }
        assert!(restarted_after(Ok(()), &[TroubleKind::Link]).is_some_and(|after| after >= 10));
        assert!(
            restarted_after(Ok(()), &[TroubleKind::Starting])
                .is_some_and(|after| after > POLL.as_secs())
        );
        assert_eq!(restarted_after(Ok(()), &[]), None);
    }

    #[test]
    fn a_server_has_time_to_start_and_less_to_be_silent() {
        let (start, mut mender) = (Instant::now(), Mender::default());
        let silent = facts(Err("no answer".to_owned()), &[]);
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(mender.server(&silent, life(start, false), at(0)), None);
        assert_eq!(mender.server(&silent, life(start, false), at(15)), None);
        assert!(mender.server(&silent, life(start, false), at(21)).is_some());
        // One good ping begins a new count.
        assert_eq!(
            mender.server(&facts(Ok(()), &[]), life(start, true), at(22)),
            None
        );
        assert_eq!(mender.server(&silent, life(start, true), at(23)), None);
        assert!(mender.server(&silent, life(start, true), at(34)).is_some());
        // Another process has its own count.
        let other = Some(Life {
            pid: 8,
            since: at(35),
            was_well: true,
        });
        assert_eq!(mender.server(&silent, other, at(35)), None);
        assert_eq!(mender.server(&silent, None, at(80)), None);
    }
}
