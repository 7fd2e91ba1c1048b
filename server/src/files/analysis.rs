//! What is known of files that were read before, so that paging through one does not hash it anew for each page.

use super::existing::State;
use crate::limits;
use hands_text::lines::Eol;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// The facts about a whole file that cost a pass over it.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// SHA-256, 64 hex digits.
    pub sha256: String,
    /// Its line ends.
    pub eol: Eol,
}

/// The analyses of the files read last.
#[derive(Debug, Default)]
pub struct Analyses(Mutex<VecDeque<(Key, Arc<Analysis>)>>);

/// A state of a file, and the encoding it was read in.
pub type Key = (State, i64, i64, String);

impl Analyses {
    /// What is known of the file in this very state.
    pub fn get(&self, key: &Key) -> Option<Arc<Analysis>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = known.iter().position(|(k, _)| k == key)?;
        let entry = known.remove(at)?;
        let analysis = Arc::clone(&entry.1);
        known.push_front(entry);
        Some(analysis)
    }

    /// Remembers an analysis, unless the file changed so recently that it could change again
    /// within the same tick of its clock.
    pub fn put(&self, key: Key, analysis: Arc<Analysis>) {
        if !settled(key.0.modified.0.max(key.1)) {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.push_front((key, analysis));
        known.truncate(limits::ANALYSIS_CACHE);
    }
}

fn settled(changed_s: i64) -> bool {
    let changed = Duration::from_secs(u64::try_from(changed_s).unwrap_or(u64::MAX));
    let since = SystemTime::UNIX_EPOCH
        .checked_add(changed)
        .and_then(|changed| SystemTime::now().duration_since(changed).ok());
    since.is_some_and(|since| since > limits::ANALYSIS_SETTLED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(ino: u64, modified: i64) -> Key {
        let state = State {
            id: (1, ino),
            size: 3,
            modified: (modified, 0),
        };
        (state, modified, 0, "utf-8".into())
    }

    fn analysis() -> Arc<Analysis> {
        Arc::new(Analysis {
            sha256: "0".repeat(64),
            eol: Eol::Lf,
        })
    }

    #[test]
    fn only_settled_files_are_remembered() {
        let analyses = Analyses::default();
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap();
        let now = i64::try_from(now.as_secs()).unwrap();
        analyses.put(key(1, now), analysis());
        assert!(analyses.get(&key(1, now)).is_none());
        analyses.put(key(1, now - 60), analysis());
        assert!(analyses.get(&key(1, now - 60)).is_some());
        assert!(analyses.get(&key(1, now - 61)).is_none());
    }

    #[test]
    fn the_oldest_go_first() {
        let analyses = Analyses::default();
        for ino in 0..=limits::ANALYSIS_CACHE as u64 {
            analyses.put(key(ino, 1000), analysis());
        }
        assert!(analyses.get(&key(0, 1000)).is_none());
        assert!(analyses.get(&key(1, 1000)).is_some());
    }
}
