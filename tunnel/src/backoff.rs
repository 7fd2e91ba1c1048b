//! Jittered exponential backoff, and `Retry-After`.

use std::time::{Duration, SystemTime};

use crate::limits;

/// Delays that double from a first to a longest one, each shortened by up to half at random so
/// that clients that failed together do not return together.
#[derive(Debug, Clone)]
pub struct Backoff {
    min: Duration,
    max: Duration,
    tries: u32,
}

impl Backoff {
    /// Starts at `min`, ends at `max`.
    pub fn new(min: Duration, max: Duration) -> Self {
        Self { min, max, tries: 0 }
    }

    /// The next delay.
    pub fn next_delay(&mut self) -> Duration {
        let full = self
            .min
            .saturating_mul(1 << self.tries.min(16))
            .min(self.max);
        self.tries = self.tries.saturating_add(1);
        full.mul_f64(0.5 + random_fraction() / 2.0)
            .max(self.min / 2)
    }

    /// The next delay is the first again.
    pub fn reset(&mut self) {
        self.tries = 0;
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new(limits::BACKOFF_MIN, limits::BACKOFF_MAX)
    }
}

/// A number from 0 up to 1; without randomness 1, the longest delay.
fn random_fraction() -> f64 {
    let mut bytes = [0_u8; 4];
    match getrandom::fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX),
        Err(_) => 1.0,
    }
}

/// Reads a `Retry-After` header, in seconds or as a date, capped; none where it is malformed,
/// negative or past.
pub fn retry_after(header: &str, now: SystemTime) -> Option<Duration> {
    let text = header.trim();
    let wait = if text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty() {
        // More digits than a number holds is still a very long time.
        Duration::from_secs(text.parse().unwrap_or(u64::MAX))
    } else {
        let date = httpdate::parse_http_date(text).ok()?;
        date.duration_since(now).ok()?
    };
    Some(wait.min(limits::RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_the_longest_and_start_again() {
        let mut backoff = Backoff::default();
        let delays: Vec<_> = (0..30).map(|_| backoff.next_delay()).collect();
        assert!(delays[0] >= Duration::from_millis(100) && delays[0] <= limits::BACKOFF_MIN);
        assert!(delays[29] >= limits::BACKOFF_MAX / 2 && delays[29] <= limits::BACKOFF_MAX);
        let tail = &delays[8..];
        assert!(
            tail.iter().any(|delay| *delay != tail[0]),
            "there is no jitter"
        );
        backoff.reset();
        assert!(backoff.next_delay() <= limits::BACKOFF_MIN);
    }

    #[test]
    fn retry_after_in_both_forms() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let date = |seconds| httpdate::fmt_http_date(now + Duration::from_secs(seconds));
        assert_eq!(retry_after("5", now), Some(Duration::from_secs(5)));
        assert_eq!(retry_after(" 0 ", now), Some(Duration::ZERO));
        assert_eq!(retry_after("86400", now), Some(limits::RETRY_AFTER_MAX));
        assert_eq!(
            retry_after("99999999999999999999999", now),
            Some(limits::RETRY_AFTER_MAX)
        );
        assert_eq!(retry_after(&date(7), now), Some(Duration::from_secs(7)));
        let past = httpdate::fmt_http_date(now - Duration::from_secs(7));
        for bad in ["", "-1", "1.5", "soon", past.as_str()] {
            assert_eq!(retry_after(bad, now), None, "{bad}");
        }
    }
}
