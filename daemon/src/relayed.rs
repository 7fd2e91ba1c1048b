//! What the server knows of the tunnel's requests, held against what the tunnel says of itself: whether calls get through, by the only
//! two who can tell.

use crate::facts::{Relayed, Trouble, TroubleKind, TunnelHealth};
use crate::limits;
use crate::process;
use hands_control::types::server::{Session, Sessions};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// The sessions of one tunnel process.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    tunnel: u32,
    /// Parents of the relays, which do not change while they live and may take a program to find out.
    parents: HashMap<u32, Option<u32>>,
    /// Since when the tunnel has held commands without a pause.
    held_since: Option<Instant>,
}

impl Watch {
    /// Brings together what the server's sessions tell of the tunnel's relays: those that the process `tunnel` started.
    pub(crate) fn gather(&mut self, tunnel: u32, sessions: &Sessions) -> Relayed {
        if self.tunnel != tunnel {
            *self = Self {
                tunnel,
                ..Self::default()
            };
        }
        let peers: Vec<u32> = sessions
            .sessions
            .iter()
            .filter_map(|s| s.peer_pid)
            .collect();
        self.parents.retain(|pid, _| peers.contains(pid));
        for pid in peers {
            self.parents
                .entry(pid)
                .or_insert_with(|| process::parent(pid));
        }
        let is_ours = |session: &&Session| {
            let parent = session.peer_pid.and_then(|pid| self.parents.get(&pid));
            parent == Some(&Some(tunnel))
        };
        let ours: Vec<&Session> = sessions.sessions.iter().filter(is_ours).collect();
        let shortest = |age: fn(&Session) -> Option<u64>| {
            let ages = ours.iter().filter_map(|session| age(session));
            ages.min().map(Duration::from_millis)
        };
        Relayed {
            asked: shortest(|session| session.asked_ms_ago),
            answered: shortest(|session| session.answered_ms_ago),
            at_work: ours
                .iter()
                .filter_map(|session| session.at_work_ms)
                .max()
                .map(Duration::from_millis),
        }
    }

    /// What is wrong between the two; `budget` is the longest that the server takes for a reply.
    pub(crate) fn judge(
        &mut self,
        health: &TunnelHealth,
        relayed: Option<&Relayed>,
        budget: Duration,
        now: Instant,
    ) -> Option<Trouble> {
        let figures = &health.figures;
        let Some(relayed) = relayed.filter(|_| figures.in_flight > 0) else {
            self.held_since = None;
            return None;
        };
        let held = now - *self.held_since.get_or_insert(now);
        // It was taken by the tunnel, and may have been passed on, up to one look before it was seen here.
        let reached = relayed
            .asked
            .is_some_and(|age| age <= held + limits::LOOK_EVERY + limits::HEALTH_TIMEOUT);
        let message = match relayed.at_work {
            None if !reached && held >= limits::RELAY_PATIENCE => format!(
                "the tunnel's client has held {} commands for {} s, and none of them reached the server",
                figures.in_flight,
                held.as_secs()
            ),
            Some(age) if age > budget + limits::REPLY_SLACK && figures.failing > 0 => format!(
                "a call of the tunnel has been at work for {} s, longer than the server takes, and the last {} calls failed",
                age.as_secs(),
                figures.failing
            ),
            _ => return None,
        };
        Some(Trouble {
            kind: TroubleKind::CallsFail,
            message,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Figures;

    const BUDGET: Duration = Duration::from_secs(45);

    fn health(in_flight: u64, failing: u64) -> TunnelHealth {
        TunnelHealth {
            figures: Figures {
                in_flight,
                failing,
                ..Figures::default()
            },
            ..TunnelHealth::default()
        }
    }

    fn relayed(asked: Option<u64>, at_work: Option<u64>) -> Relayed {
        Relayed {
            asked: asked.map(Duration::from_secs),
            answered: None,
            at_work: at_work.map(Duration::from_secs),
        }
    }

    /// The second of the first trouble, looking every second for five minutes; what the server says may change with time.
    fn first_trouble(
        tunnel: &TunnelHealth,
        server: impl Fn(u64) -> Option<Relayed>,
    ) -> Option<u64> {
        let (start, mut watch) = (Instant::now(), Watch::default());
        (0..300).find(|second| {
            let now = start + Duration::from_secs(*second);
            let found = watch.judge(tunnel, server(*second).as_ref(), BUDGET, now);
            found.is_some_and(|trouble| trouble.kind == TroubleKind::CallsFail)
        })
    }

    #[test]
    fn commands_that_never_reach_the_server_are_trouble() {
        let patience = limits::RELAY_PATIENCE.as_secs();
        let (held, idle) = (health(2, 0), health(0, 0));
        assert_eq!(
            first_trouble(&held, |_| Some(relayed(None, None))),
            Some(patience)
        );
        // Asked long before.
        assert_eq!(
            first_trouble(&held, |second| Some(relayed(Some(60 + second), None))),
            Some(patience)
        );
        // It was passed on and answered; the answer is still being delivered.
        assert_eq!(
            first_trouble(&held, |second| Some(relayed(Some(second), None))),
            None
        );
        // At work, asked again and again, idle, and where nobody knows.
        for server in [
            Some(relayed(Some(200), Some(30))),
            Some(relayed(Some(0), None)),
            None,
        ] {
            assert_eq!(first_trouble(&held, |_| server), None, "{server:?}");
        }
        assert_eq!(first_trouble(&idle, |_| Some(relayed(None, None))), None);
    }

    #[test]
    fn a_server_that_was_away_does_not_count_against_the_tunnel() {
        let server = |second| (second >= 60).then(|| relayed(None, None));
        let found = first_trouble(&health(1, 0), server);
        assert_eq!(found, Some(60 + limits::RELAY_PATIENCE.as_secs()));
    }

    #[test]
    fn a_call_that_takes_too_long_is_trouble_only_where_calls_fail() {
        let longest = (BUDGET + limits::REPLY_SLACK).as_secs();
        let server = |second| Some(relayed(Some(second), Some(second)));
        assert_eq!(first_trouble(&health(1, 1), server), Some(longest + 1));
        assert_eq!(first_trouble(&health(1, 0), server), None);
    }

    #[test]
    fn only_sessions_of_the_tunnels_own_relays_count() {
        let child = std::process::Command::new("sleep").arg("60").spawn();
        let mut child = child.unwrap();
        let session = |peer: Option<u32>, ago: u64| Session {
            id: "s".to_owned(),
            server_pid: 1,
            client: None,
            opened_at: String::new(),
            calls: 0,
            peer_pid: peer,
            through_tunnel: false,
            asked_ms_ago: Some(ago),
            answered_ms_ago: Some(ago),
            at_work_ms: Some(ago),
            grants: Vec::new(),
            pending: Vec::new(),
            permissions: String::new(),
        };
        let me = std::process::id();
        let sessions = Sessions {
            sessions: vec![
                session(Some(child.id()), 700),
                session(Some(child.id()), 900),
                session(Some(me), 5),
                session(None, 5),
                session(Some(u32::MAX), 5),
            ],
        };
        let mut watch = Watch::default();
        let ms = |ms| Some(Duration::from_millis(ms));
        let found = watch.gather(me, &sessions);
        assert_eq!(
            (found.asked, found.answered, found.at_work),
            (ms(700), ms(700), ms(900))
        );
        assert_eq!(watch.gather(me + 1, &sessions), Relayed::default());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
