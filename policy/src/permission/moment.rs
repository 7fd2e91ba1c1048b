//! Time as the gate reads it.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// One reading of both clocks.
///
/// The monotonic clock cannot be set back, and the wall clock goes on while the machine sleeps:
/// a term is over as soon as either says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Monotonic clock.
    pub monotonic: Instant,
    /// Wall clock.
    pub wall: SystemTime,
}

impl Moment {
    /// Reads the clocks of this machine.
    #[must_use]
    pub fn now() -> Self {
        Self {
            monotonic: Instant::now(),
            wall: SystemTime::now(),
        }
    }

    /// Whether at least `term` has passed between `self` and `now` on either clock.
    pub(super) fn is_over(self, now: Self, term: Duration) -> bool {
        let monotonic = now.monotonic.saturating_duration_since(self.monotonic);
        let wall = now.wall.duration_since(self.wall).unwrap_or(Duration::ZERO);
        monotonic.max(wall) >= term
    }

    /// The wall clock `term` after this moment.
    pub(super) fn wall_after(self, term: Duration) -> SystemTime {
        self.wall.checked_add(term).unwrap_or(self.wall)
    }
}

/// The source of time of a [`Grants`](super::Grants); tests inject their own.
pub type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;
