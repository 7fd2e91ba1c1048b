//! Faults that a test puts in front of an endpoint.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

/// The three endpoints of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// `GET /v1/tunnels/{id}`
    Metadata,
    /// `GET /v1/tunnels/{id}/poll`
    Poll,
    /// `POST /v1/tunnels/{id}/response`
    Response,
}

/// The two forms of a `Retry-After` header, and a broken one.
#[derive(Debug, Clone)]
pub enum RetryAfter {
    /// Delta seconds.
    Seconds(u64),
    /// An HTTP date this far from now.
    DateIn(Duration),
    /// Sent as it is.
    Raw(String),
}

impl RetryAfter {
    pub(crate) fn header(&self) -> String {
        match self {
            Self::Seconds(seconds) => seconds.to_string(),
            Self::DateIn(wait) => httpdate::fmt_http_date(SystemTime::now() + *wait),
            Self::Raw(text) => text.clone(),
        }
    }
}

/// What goes wrong with a request.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Answered with this status and the API's error body; nothing else happens.
    Status(u16),
    /// The same with a `Retry-After` header.
    StatusRetryAfter(u16, RetryAfter),
    /// The connection ends before a byte of the answer; the request had no effect.
    Drop,
    /// The request takes effect, and then the connection ends before a byte of the answer.
    AcceptThenDrop,
    /// The status line and headers arrive, a part of the body, and then the connection ends.
    DropInBody,
    /// The connection stays open and nothing is ever answered.
    HalfOpen,
    /// The answer is right, its body arrives in pieces with this pause before each.
    SlowBody(Duration),
    /// A complete answer whose body is the first half of the JSON.
    TruncatedJson,
}

/// How long a fault stays.
#[derive(Debug, Clone, Copy)]
pub enum Span {
    /// For the next so many requests.
    Next(usize),
    /// For this time from now.
    For(Duration),
    /// Until [`ControlPlane::heal`](crate::ControlPlane::heal).
    UntilHealed,
}

#[derive(Debug)]
enum Left {
    Count(usize),
    Until(Instant),
    Forever,
}

impl Left {
    fn is_any(&self) -> bool {
        match self {
            Self::Count(count) => *count > 0,
            Self::Until(end) => Instant::now() < *end,
            Self::Forever => true,
        }
    }
}

/// Faults waiting, in order, for each endpoint.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    waiting: HashMap<Endpoint, Vec<(Fault, Left)>>,
}

impl Faults {
    pub(crate) fn inject(&mut self, endpoint: Endpoint, fault: Fault, span: Span) {
        let left = match span {
            Span::Next(count) => Left::Count(count),
            Span::For(time) => Left::Until(Instant::now() + time),
            Span::UntilHealed => Left::Forever,
        };
        self.waiting
            .entry(endpoint)
            .or_default()
            .push((fault, left));
    }

    pub(crate) fn heal(&mut self) {
        self.waiting.clear();
    }

    /// How many still wait for requests.
    pub(crate) fn left(&self) -> usize {
        let lists = self.waiting.values().flatten();
        lists.filter(|(_, left)| left.is_any()).count()
    }

    /// The fault for a request that arrives now.
    pub(crate) fn take(&mut self, endpoint: Endpoint) -> Option<Fault> {
        let list = self.waiting.get_mut(&endpoint)?;
        list.retain(|(_, left)| left.is_any());
        let (fault, left) = list.first_mut()?;
        if let Left::Count(count) = left {
            *count -= 1;
        }
        Some(fault.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_consumed_by_count_and_in_order() {
        let mut faults = Faults::default();
        faults.inject(Endpoint::Poll, Fault::Status(503), Span::Next(2));
        faults.inject(Endpoint::Poll, Fault::Drop, Span::Next(1));
        let seen: Vec<_> = (0..4).map(|_| faults.take(Endpoint::Poll)).collect();
        assert!(matches!(seen[0], Some(Fault::Status(503))));
        assert!(matches!(seen[1], Some(Fault::Status(503))));
        assert!(matches!(seen[2], Some(Fault::Drop)));
        assert!(seen[3].is_none());
        assert!(faults.take(Endpoint::Response).is_none());
        assert_eq!(faults.left(), 0);
        faults.inject(Endpoint::Response, Fault::Drop, Span::UntilHealed);
        assert_eq!(faults.left(), 1);
    }
}
