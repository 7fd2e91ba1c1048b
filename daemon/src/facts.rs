//! What was found out about the children at one moment.

use hands_control::types::daemon::ChildState;
use std::time::{Duration, SystemTime};

/// All of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Facts {
    pub(crate) server: ServerFacts,
    /// None where no tunnel is configured.
    pub(crate) tunnel: Option<TunnelFacts>,
}

/// The MCP server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ServerFacts {
    pub(crate) state: ChildState,
    pub(crate) reason: Option<String>,
    /// What came of a ping over its socket.
    pub(crate) ping: Result<(), String>,
}

/// The tunnel's client.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TunnelFacts {
    pub(crate) state: ChildState,
    pub(crate) reason: Option<String>,
    pub(crate) official: bool,
    /// What its health address says; none where no process lives.
    pub(crate) health: Option<TunnelHealth>,
    /// What the server knows of the requests that came through it; none where it does not say.
    pub(crate) relayed: Option<Relayed>,
}

/// What the server knows of the sessions that the tunnel's relays opened, pings left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Relayed {
    /// How long ago it was last asked.
    pub(crate) asked: Option<Duration>,
    /// How long ago it last answered.
    pub(crate) answered: Option<Duration>,
    /// How long its oldest request has been at work.
    pub(crate) at_work: Option<Duration>,
}

/// What a tunnel client says of itself, the same for both kinds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TunnelHealth {
    /// What is wrong, the gravest first; empty when a call would work.
    pub(crate) troubles: Vec<Trouble>,
    /// How long ago the last good poll was.
    pub(crate) last_good_poll: Option<Duration>,
    /// When it tries again what failed, where it waits for that.
    pub(crate) next_try: Option<SystemTime>,
    /// Figures for the metrics.
    pub(crate) figures: Figures,
}

/// Totals since the client's start.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Figures {
    /// Polls by outcome, in the client's words.
    pub(crate) polls: Vec<(String, u64)>,
    /// Posts by outcome, in the client's words.
    pub(crate) posts: Vec<(String, u64)>,
    pub(crate) in_flight: u64,
    /// Calls that got no answer of the server since the last that did.
    pub(crate) failing: u64,
}

/// What is wrong with a living tunnel client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) kind: TroubleKind,
    pub(crate) message: String,
}

/// What kind of trouble, for it decides what is done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TroubleKind {
    /// The key or the id is refused.
    Operator,
    /// The other side answers 5xx or is unreachable.
    OtherSide,
    /// Its health address does not answer.
    Silent,
    /// No good poll for too long, and no failed one either.
    NoPolls,
    /// Polls are fine, and yet its calls get no answer of the server.
    CallsFail,
    /// Its own connection to the server is broken.
    Link,
    /// It is on its way up.
    Starting,
}

impl TroubleKind {
    /// The code in a reason of readiness.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Operator => "tunnel_needs_operator",
            Self::OtherSide => "tunnel_unreachable",
            Self::Silent => "tunnel_silent",
            Self::NoPolls => "tunnel_no_polls",
            Self::CallsFail => "tunnel_calls_fail",
            Self::Link => "tunnel_link",
            Self::Starting => "tunnel_starting",
        }
    }
}
