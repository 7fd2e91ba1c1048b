//! Reproducible choices.

/// A small generator (xorshift64*): the same seed, the same choices.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        // Zero would stay zero; neighbouring seeds must not begin alike.
        let mut random = Random((seed ^ 0x9E37_79B9_7F4A_7C15).max(1));
        for _ in 0..8 {
            random.next();
        }
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number from `from` up to, not including, `to`.
    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + (self.next() >> 11) % (to - from)
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.between(0, 100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.between(0, from.len() as u64) as usize]
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.between(0, at as u64 + 1) as usize);
        }
    }
}
