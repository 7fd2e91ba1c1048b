//! Keeping the newest figures of other processes.

use crate::error::MetricsError;
use crate::labels::Process;
use crate::limits::{MAX_SOURCES, SNAPSHOT_FORMAT};
use crate::snapshot::{Families, Snapshot, Value};
use crate::table::SNAPSHOT_AGE;
use std::collections::BTreeMap;
use std::time::Instant;

/// What became of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MergeReport {
    /// Samples left out: not in this program's table, not of that process, or without a sound value.
    pub ignored: usize,
    /// The snapshot is older than one already merged, so nothing changed.
    pub stale: bool,
    /// The source was restarted since its last snapshot.
    pub restarted: bool,
}

/// The figures of all other processes.
#[derive(Debug, Default)]
pub(crate) struct Merged {
    sources: BTreeMap<String, Source>,
    /// What instances that are gone had counted.
    gone: Families,
}

#[derive(Debug)]
struct Source {
    process: Process,
    instance: String,
    sequence: u64,
    taken: Instant,
    families: Families,
}

impl Merged {
    pub(crate) fn put(
        &mut self,
        from: &str,
        snapshot: &Snapshot,
        now: Instant,
    ) -> Result<MergeReport, MetricsError> {
        if snapshot.format != SNAPSHOT_FORMAT {
            return Err(MetricsError::Format {
                from: from.to_owned(),
                found: snapshot.format,
                known: SNAPSHOT_FORMAT,
            });
        }
        let old = self.sources.get(from);
        if old.is_none() && self.sources.len() >= MAX_SOURCES {
            return Err(MetricsError::TooManySources {
                from: from.to_owned(),
                limit: MAX_SOURCES,
            });
        }
        let same = old.filter(|old| old.instance == snapshot.instance);
        let stale = same.is_some_and(|old| snapshot.sequence <= old.sequence);
        let restarted = old.is_some() && same.is_none();
        let (families, ignored) = Families::accept(snapshot);
        if !stale {
            if restarted {
                self.forget(from);
            }
            let source = Source {
                process: snapshot.process,
                instance: snapshot.instance.clone(),
                sequence: snapshot.sequence,
                taken: now,
                families,
            };
            self.sources.insert(from.to_owned(), source);
        }
        Ok(MergeReport {
            ignored,
            stale,
            restarted,
        })
    }

    /// Drops a source; what it counted stays in the sums.
    pub(crate) fn forget(&mut self, from: &str) {
        if let Some(source) = self.sources.remove(from) {
            self.gone.join_counted(&source.families);
        }
    }

    /// Joins everything to `page`.
    pub(crate) fn add_to(&self, page: &mut Families, now: Instant) {
        page.join_counted(&self.gone);
        for source in self.sources.values() {
            let age = now.saturating_duration_since(source.taken).as_secs_f64();
            page.join_all(&source.families, age);
            let key = vec![source.process.as_str().to_owned()];
            page.join(&SNAPSHOT_AGE, key, &Value::Number(age));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{COMMANDS_QUEUED, POLL_AGE};
    use crate::{PollOutcome, Registry};
    use std::time::Duration;

    #[test]
    fn an_age_goes_on_while_its_source_is_silent_and_other_gauges_stay() {
        let tunnel = Registry::new(Process::Tunnel, "1").unwrap();
        tunnel.record_poll(PollOutcome::Empty);
        tunnel.set_commands(0, 3);
        let mut merged = Merged::default();
        let taken = Instant::now();
        merged.put("tunnel", &tunnel.snapshot(), taken).unwrap();

        let mut page = Families::default();
        merged.add_to(&mut page, taken + Duration::from_secs(500));
        let number = |spec| match page.of(spec).next() {
            Some((_, Value::Number(number))) => *number,
            other => panic!("{other:?}"),
        };
        assert!((500.0..560.0).contains(&number(&POLL_AGE)));
        assert_eq!(number(&SNAPSHOT_AGE), 500.0);
        assert_eq!(number(&COMMANDS_QUEUED), 3.0);
    }
}
