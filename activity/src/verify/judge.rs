//! From what was read to what is wrong.

use std::ops::Range;

use super::damage::{Damage, Kind};
use super::{At, Bad, Link, Reason, Scan, Step};
use crate::heads::{End, HeadState};

/// Something wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fault {
    at: At,
    /// The line to name; the fault may lie after it.
    named: Option<At>,
    seq: Option<u64>,
    session: Option<String>,
    reason: Reason,
}

/// A session's records with what is known of its ends.
struct Chain<'a> {
    id: &'a str,
    steps: &'a [Step],
    head: Option<HeadState>,
    floor: Option<End>,
}

impl Scan {
    /// The first thing that is wrong. Without a key nothing about links can be said.
    pub(super) fn judge(&self, has_key: bool, notes: &mut Vec<String>) -> Option<Bad> {
        let mut faults: Vec<Fault> = self.damages.iter().filter_map(altered_line).collect();
        let mut suspects = Vec::new();
        if has_key {
            for (id, steps) in &self.chains {
                let chain = Chain {
                    id,
                    steps,
                    head: self.heads.get(id).copied(),
                    floor: self.floor.sessions.get(id).copied(),
                };
                if chain.is_last_of_a_pruned_one() {
                    suspects.push(chain.fault(0, Reason::Foreign));
                    continue;
                }
                faults.extend(self.judge_chain(&chain, notes));
            }
            faults.extend(self.heads.keys().filter_map(|id| self.judge_head_alone(id)));
        }
        // A lone record whose beginning was rotated away is what a killed process may leave; in a
        // trail that is broken anyway it is more likely a record whose session was altered.
        if faults.is_empty() {
            notes.extend(suspects.iter().map(lone_note));
        } else {
            faults.extend(suspects);
        }
        let first = faults.into_iter().min_by_key(|fault| fault.at)?;
        Some(self.name(first))
    }

    fn name(&self, fault: Fault) -> Bad {
        Bad {
            file: fault.named.and_then(|at| self.names.get(at.part).cloned()),
            line: fault.named.map(|at| at.line),
            seq: fault.seq,
            session_id: fault.session,
            reason: fault.reason,
        }
    }

    fn judge_chain(&self, chain: &Chain<'_>, notes: &mut Vec<String>) -> Option<Fault> {
        let mut expected = chain.begin();
        for (at, step) in chain.steps.iter().enumerate() {
            if !chain.follows(at, expected) {
                return Some(self.explain(chain, at, expected));
            }
            expected = step.seq + 1;
        }
        self.judge_end(chain, notes)
    }

    /// Why the record at `at` is not the one expected.
    fn explain(&self, chain: &Chain<'_>, at: usize, expected: u64) -> Fault {
        let step = &chain.steps[at];
        let is_in_place = chain
            .steps
            .get(at + 1)
            .is_some_and(|next| next.link == Link::Good && next.seq == expected + 1);
        if step.seq > expected && !is_in_place {
            if let Some(damage) = self.remains(chain.id, expected, chain.place_before(at)) {
                return altered_record(damage, chain.id, expected);
            }
            let comes_later = chain.steps[at..].iter().any(|s| s.seq == expected);
            let reason = if comes_later {
                Reason::Reordered
            } else {
                Reason::Removed
            };
            return Fault {
                seq: Some(expected),
                ..chain.fault(at, reason)
            };
        }
        let earlier = &chain.steps[..at];
        let reason = if is_in_place {
            Reason::Altered
        } else if earlier
            .iter()
            .any(|s| s.seq == step.seq && s.mac == step.mac)
        {
            Reason::Duplicated
        } else if step.seq < expected || chain.has_another(at) || self.is_foreign(chain) {
            Reason::Foreign
        } else {
            Reason::Altered
        };
        chain.fault(at, reason)
    }

    /// Whether nothing in a session speaks for this trail's key.
    fn is_foreign(&self, chain: &Chain<'_>) -> bool {
        let chain_is_good = chain.steps.iter().any(|s| s.link == Link::Good);
        !chain_is_good && (chain.head.is_none() || !self.any_good)
    }

    /// A line that may be what is left of a record: by its number, or, where that is lost too, by
    /// its place.
    fn remains(&self, session: &str, seq: u64, place: Range<At>) -> Option<&Damage> {
        let fits = |d: &&Damage| match d.seq {
            Some(_) => d.may_be(session, seq),
            None => place.contains(&d.at),
        };
        self.damages.iter().find(fits)
    }

    /// Holds an unbroken chain against its head.
    fn judge_end(&self, chain: &Chain<'_>, notes: &mut Vec<String>) -> Option<Fault> {
        let last = chain.steps.last()?;
        let at = chain.steps.len() - 1;
        let head = match chain.head {
            Some(HeadState::At(end)) => end,
            Some(HeadState::Damaged) | None => {
                return Some(chain.fault(at, Reason::HeadMissing));
            }
        };
        if head.seq > last.seq {
            let next = last.seq + 1;
            if let Some(damage) = self.remains(chain.id, next, last.at..At::END) {
                return Some(altered_record(damage, chain.id, next));
            }
            return Some(chain.fault(at, Reason::Cut));
        }
        let named = chain.steps.iter().rev().find(|s| s.seq == head.seq);
        if named.is_some_and(|s| s.mac != head.mac) {
            return Some(chain.fault(at, Reason::HeadDiffers));
        }
        // One ahead is what a process leaves that was killed between a record and its head.
        if last.seq > head.seq + 1 {
            notes.push(format!(
                "session {}: the head names record {}, the log goes on validly to {} (a power cut, \
                 or an old copy of the head)",
                chain.id, head.seq, last.seq
            ));
        }
        None
    }

    /// A head whose session has no record left.
    fn judge_head_alone(&self, id: &str) -> Option<Fault> {
        let Some(HeadState::At(end)) = self.heads.get(id) else {
            return None;
        };
        let floor = self.floor.sessions.get(id).map_or(0, |end| end.seq);
        if self.chains.contains_key(id) || end.seq <= floor {
            return None;
        }
        if let Some(damage) = self.remains(id, floor + 1, At::START..At::END) {
            return Some(altered_record(damage, id, floor + 1));
        }
        Some(Fault {
            at: At::END,
            named: None,
            seq: Some(end.seq),
            session: Some(id.to_owned()),
            reason: Reason::SessionRemoved,
        })
    }
}

impl Chain<'_> {
    /// The number the first record must have.
    fn begin(&self) -> u64 {
        let first = self.steps.first().map_or(1, |s| s.seq);
        match self.floor {
            // A rotation that was cut short leaves records that are below the floor already.
            Some(floor) if first <= floor.seq => first,
            Some(floor) => floor.seq + 1,
            None => 1,
        }
    }

    fn follows(&self, at: usize, expected: u64) -> bool {
        let step = &self.steps[at];
        let below = |floor: End| at == 0 && step.seq <= floor.seq && step.link == Link::Unknown;
        let linked = step.link == Link::Good || self.floor.is_some_and(below);
        let meets_floor = |floor: End| step.seq != floor.seq || step.mac == floor.mac;
        step.seq == expected && linked && self.floor.is_none_or(meets_floor)
    }

    /// Where a record before this one would stand.
    fn place_before(&self, at: usize) -> Range<At> {
        let earlier = at.checked_sub(1).map(|i| self.steps[i].at);
        earlier.unwrap_or(At::START)..self.steps[at].at
    }

    /// Whether the record's number is taken by another record too.
    fn has_another(&self, at: usize) -> bool {
        let seq = self.steps[at].seq;
        let same = self.steps.iter().enumerate();
        same.filter(|(i, s)| *i != at && s.seq == seq).count() > 0
    }

    /// A process killed between a record and its head, whose session was then rotated away but
    /// for that record: neither head nor floor is left.
    fn is_last_of_a_pruned_one(&self) -> bool {
        let known = self.head.is_some() || self.floor.is_some();
        !known && matches!(self.steps, [only] if only.link == Link::Unknown)
    }

    fn fault(&self, at: usize, reason: Reason) -> Fault {
        let step = &self.steps[at];
        Fault {
            at: step.at,
            named: Some(step.at),
            seq: Some(step.seq),
            session: Some(self.id.to_owned()),
            reason,
        }
    }
}

fn altered_line(damage: &Damage) -> Option<Fault> {
    (damage.kind == Kind::Altered).then(|| Fault {
        at: damage.at,
        named: Some(damage.at),
        seq: damage.seq,
        session: damage.session.clone(),
        reason: Reason::Altered,
    })
}

fn altered_record(damage: &Damage, session: &str, seq: u64) -> Fault {
    Fault {
        at: damage.at,
        named: Some(damage.at),
        seq: Some(seq),
        session: Some(session.to_owned()),
        reason: Reason::Altered,
    }
}

fn lone_note(fault: &Fault) -> String {
    format!(
        "session {}: record {} is the last one of a session that was rotated away; it cannot be \
         verified",
        fault.session.as_deref().unwrap_or("?"),
        fault.seq.unwrap_or(0)
    )
}
