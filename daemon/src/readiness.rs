//! Whether a planner's call would work, and why not: a pure judgement of the facts.

use crate::facts::{Facts, ServerFacts, TroubleKind, TunnelFacts};
use hands_control::types::daemon::{ChildState, Readiness, Reason};

/// The judgement of these facts.
pub(crate) fn judge(facts: &Facts) -> Readiness {
    let mut reasons = server(&facts.server);
    if let Some(facts) = &facts.tunnel {
        reasons.extend(tunnel(facts));
    }
    Readiness {
        ready: reasons.is_empty(),
        local_only: facts.tunnel.is_none(),
        reasons,
        checked_at: hands_control::now(),
    }
}

/// Before anything was looked at.
pub(crate) fn unknown(local_only: bool) -> Readiness {
    Readiness {
        ready: false,
        local_only,
        reasons: vec![reason("starting", "the daemon is starting", None)],
        checked_at: hands_control::now(),
    }
}

/// After the settings have changed, before anything was looked at again.
pub(crate) fn changing(local_only: bool) -> Readiness {
    let message = "the configuration has changed, and what it concerns is started anew";
    Readiness {
        ready: false,
        local_only,
        reasons: vec![reason("reloading", message, None)],
        checked_at: hands_control::now(),
    }
}

/// On the way down.
pub(crate) fn stopping(local_only: bool) -> Readiness {
    Readiness {
        ready: false,
        local_only,
        reasons: vec![reason("stopping", "the daemon is stopping", None)],
        checked_at: hands_control::now(),
    }
}

fn reason(code: &str, message: impl Into<String>, hint: Option<&str>) -> Reason {
    Reason {
        code: code.to_owned(),
        message: message.into(),
        hint: hint.map(str::to_owned),
    }
}

fn with(text: &str, why: &Option<String>) -> String {
    match why {
        Some(why) => format!("{text}: {why}"),
        None => text.to_owned(),
    }
}

fn server(facts: &ServerFacts) -> Vec<Reason> {
    let found = match facts.state {
        ChildState::Stopped | ChildState::Stopping => reason(
            "server_stopped",
            "the MCP server is stopped",
            Some("handsctl restart server"),
        ),
        ChildState::NeedsOperator => reason(
            "server_needs_operator",
            with("the MCP server cannot start", &facts.reason),
            Some(
                "see `handsctl logs daemon` and `handsctl config check`, then handsctl restart server",
            ),
        ),
        ChildState::Backoff => reason(
            "server_down",
            with("the MCP server ended and is started again", &facts.reason),
            None,
        ),
        ChildState::Starting | ChildState::Running | ChildState::Failed => match &facts.ping {
            Ok(()) => return Vec::new(),
            Err(_) if facts.state == ChildState::Starting => {
                reason("server_starting", "the MCP server is starting", None)
            }
            Err(why) => reason(
                "server_silent",
                format!("the MCP server does not answer: {why}"),
                None,
            ),
        },
    };
    vec![found]
}

fn tunnel(facts: &TunnelFacts) -> Vec<Reason> {
    let Some(health) = &facts.health else {
        let found = match facts.state {
            ChildState::Stopped | ChildState::Stopping => reason(
                "tunnel_stopped",
                with("the tunnel is stopped", &facts.reason),
                Some("handsctl restart tunnel"),
            ),
            ChildState::NeedsOperator => reason(
                "tunnel_needs_operator",
                with("the tunnel cannot start", &facts.reason),
                Some(
                    "see `handsctl logs daemon`; `handsctl tunnel setup` sets id and key, then handsctl restart tunnel",
                ),
            ),
            ChildState::Starting => reason("tunnel_starting", "the tunnel is starting", None),
            _ => reason(
                "tunnel_down",
                with(
                    "the tunnel's client ended and is started again",
                    &facts.reason,
                ),
                None,
            ),
        };
        return vec![found];
    };
    let hint = |kind| match kind {
        TroubleKind::Operator => Some("`handsctl tunnel setup` sets id and key"),
        TroubleKind::OtherSide => Some("`handsctl tunnel test` tries the connection"),
        _ => None,
    };
    let troubles = health.troubles.iter();
    troubles
        .map(|trouble| {
            reason(
                trouble.kind.code(),
                trouble.message.clone(),
                hint(trouble.kind),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Trouble, TunnelHealth};

    fn well() -> ServerFacts {
        ServerFacts {
            state: ChildState::Running,
            reason: None,
            ping: Ok(()),
        }
    }

    fn codes(facts: &Facts) -> Vec<String> {
        judge(facts)
            .reasons
            .into_iter()
            .map(|reason| reason.code)
            .collect()
    }

    #[test]
    fn local_only_is_ready_when_the_server_answers() {
        let mut facts = Facts {
            server: well(),
            tunnel: None,
        };
        let readiness = judge(&facts);
        assert!(readiness.ready && readiness.local_only);
        facts.server.ping = Err("no answer".to_owned());
        assert_eq!(codes(&facts), ["server_silent"]);
        facts.server.state = ChildState::NeedsOperator;
        assert_eq!(codes(&facts), ["server_needs_operator"]);
        facts.server.state = ChildState::Stopped;
        facts.server.ping = Ok(());
        assert_eq!(
            codes(&facts),
            ["server_stopped"],
            "whoever answers is not ours"
        );
    }

    #[test]
    fn a_tunnel_counts_once_it_is_configured() {
        let mut tunnel = TunnelFacts {
            state: ChildState::Running,
            reason: None,
            official: false,
            health: Some(TunnelHealth::default()),
            relayed: None,
        };
        let facts = |tunnel: &TunnelFacts| Facts {
            server: well(),
            tunnel: Some(tunnel.clone()),
        };
        assert!(judge(&facts(&tunnel)).ready);
        assert!(!judge(&facts(&tunnel)).local_only);
        tunnel.health = Some(TunnelHealth {
            troubles: vec![Trouble {
                kind: TroubleKind::CallsFail,
                message: "the last 3 calls failed".to_owned(),
            }],
            ..TunnelHealth::default()
        });
        assert_eq!(codes(&facts(&tunnel)), ["tunnel_calls_fail"]);
        tunnel.health = None;
        for (state, code) in [
            (ChildState::Backoff, "tunnel_down"),
            (ChildState::NeedsOperator, "tunnel_needs_operator"),
            (ChildState::Starting, "tunnel_starting"),
            (ChildState::Stopped, "tunnel_stopped"),
        ] {
            tunnel.state = state;
            assert_eq!(codes(&facts(&tunnel)), [code]);
        }
    }
}
