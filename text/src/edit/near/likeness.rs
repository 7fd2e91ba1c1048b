//! Ranking places by the pairs of neighbouring bytes their lines share with the needle's.

use crate::limits;

/// Slots of the table that counts pairs; collisions only blur the figure.
const SLOTS: usize = 4096;
/// Places that are compared as whole blocks after the ranking by one line.
const CANDIDATES: usize = 16;

/// The pairs of one line of the needle.
struct Pairs {
    counts: Vec<u16>,
    total: usize,
    /// Slots used by the comparison at hand, to be given back.
    used: Vec<usize>,
}

fn slot(pair: &[u8]) -> usize {
    (usize::from(pair[0]) * 31 + usize::from(pair[1]) * 257) % SLOTS
}

fn clip(line: &str) -> &[u8] {
    &line.as_bytes()[..line.len().min(limits::NEAR_LINE)]
}

impl Pairs {
    fn new(line: &str) -> Self {
        let mut counts = vec![0u16; SLOTS];
        let bytes = clip(line);
        for pair in bytes.windows(2) {
            counts[slot(pair)] += 1;
        }
        Self {
            counts,
            total: bytes.len().saturating_sub(1),
            used: Vec::new(),
        }
    }

    /// Dice's coefficient: shared pairs against all pairs, from 0 to 1.
    fn likeness(&mut self, line: &str) -> f32 {
        let bytes = clip(line);
        let total = self.total + bytes.len().saturating_sub(1);
        if total == 0 {
            return 0.0;
        }
        for pair in bytes.windows(2) {
            let slot = slot(pair);
            if self.counts[slot] > 0 {
                self.counts[slot] -= 1;
                self.used.push(slot);
            }
        }
        let shared = self.used.len();
        for slot in self.used.drain(..) {
            self.counts[slot] += 1;
        }
        (2 * shared) as f32 / total as f32
    }
}

/// The lines at which a block most like `wanted` begins, with their likeness, best first.
pub(super) fn rank(hay: &[&str], wanted: &[&str]) -> Vec<(usize, f32)> {
    let wanted = &wanted[..wanted.len().min(limits::NEAR_LINES)];
    let Some((anchor, line)) = wanted
        .iter()
        .enumerate()
        .max_by_key(|(_, l)| l.len().min(limits::NEAR_LINE))
    else {
        return Vec::new();
    };
    let mut starts: Vec<usize> = best_lines(hay, line)
        .into_iter()
        .map(|index| index.saturating_sub(anchor))
        .collect();
    starts.sort_unstable();
    starts.dedup();
    let mut pairs: Vec<Pairs> = wanted.iter().map(|l| Pairs::new(l)).collect();
    let mut ranked: Vec<(usize, f32)> = starts
        .into_iter()
        .map(|start| (start, block_likeness(&hay[start..], &mut pairs)))
        .collect();
    ranked.retain(|(_, likeness)| *likeness >= limits::NEAR_MIN);
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    ranked.truncate(limits::NEAR_PLACES);
    ranked
}

fn best_lines(hay: &[&str], line: &str) -> Vec<usize> {
    let mut pairs = Pairs::new(line);
    let mut best: Vec<(usize, f32)> = Vec::with_capacity(CANDIDATES + 1);
    let mut looked_at = 0;
    for (index, candidate) in hay.iter().enumerate() {
        let likeness = pairs.likeness(candidate);
        let worst = best.last().map_or(0.0, |b| b.1);
        if likeness > 0.0 && (best.len() < CANDIDATES || likeness > worst) {
            let at = best.partition_point(|b| b.1 >= likeness);
            best.insert(at, (index, likeness));
            best.truncate(CANDIDATES);
        }
        looked_at += candidate.len().min(limits::NEAR_LINE);
        if looked_at > limits::NEAR_LIKENESS_SCAN {
            break;
        }
    }
    best.into_iter().map(|(index, _)| index).collect()
}

/// The likeness of lines that follow each other, long lines counting for more.
fn block_likeness(hay: &[&str], wanted: &mut [Pairs]) -> f32 {
    let (mut sum, mut weights) = (0.0, 0.0);
    for (index, pairs) in wanted.iter_mut().enumerate() {
        let weight = (pairs.total + 1) as f32;
        weights += weight;
        sum += weight * hay.get(index).map_or(0.0, |line| pairs.likeness(line));
    }
    if weights > 0.0 { sum / weights } else { 0.0 }
}
