//! Growing, jittered delays.

use std::time::Duration;

/// Delays that double from `min` to `max`; each is between half of that and all of it, so that several who failed together
/// do not come back together.
#[derive(Debug)]
pub(crate) struct Backoff {
    min: Duration,
    max: Duration,
    times: u32,
}

impl Backoff {
    pub(crate) fn new(min: Duration, max: Duration) -> Self {
        Self { min, max, times: 0 }
    }

    /// The next delay.
    pub(crate) fn next(&mut self) -> Duration {
        let factor = 1_u32.checked_shl(self.times).unwrap_or(u32::MAX);
        self.times = self.times.saturating_add(1);
        let whole = self.min.saturating_mul(factor).min(self.max);
        whole / 2 + whole.mul_f64(fraction() / 2.0)
    }

    /// Begins anew.
    pub(crate) fn reset(&mut self) {
        self.times = 0;
    }
}

/// A random number from 0 to 1.
fn fraction() -> f64 {
    let mut bytes = [0; 4];
    // Without randomness the delays are just not spread.
    match getrandom::fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX),
        Err(_) => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_a_bound_and_begin_anew() {
        let (min, max) = (Duration::from_millis(100), Duration::from_secs(1));
        let mut backoff = Backoff::new(min, max);
        for round in 0..100_u32 {
            let whole = min.saturating_mul(1 << round.min(10)).min(max);
            let delay = backoff.next();
            assert!(delay >= whole / 2 && delay <= whole, "{round}: {delay:?}");
        }
        backoff.reset();
        assert!(backoff.next() <= min);
    }
}
