//! The nonces of one server process.

use super::moment::Moment;
use super::{Act, Nonce, NonceError, Pending};
use crate::limits::{MAX_OUTSTANDING_NONCES, MAX_REMEMBERED_NONCES};
use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Outstanding,
    Used,
    /// Its time is over, or newer ones took its place.
    Retired,
    /// The person took it back.
    Revoked,
}

/// What is known of one nonce.
#[derive(Debug)]
pub(super) struct Record {
    session: String,
    folder: PathBuf,
    act: Act,
    issued: Moment,
    ttl: Duration,
    state: State,
}

impl Record {
    /// A nonce that is not used yet.
    pub(super) fn new(
        session: &str,
        folder: &Path,
        act: Act,
        issued: Moment,
        ttl: Duration,
    ) -> Self {
        Self {
            session: session.to_string(),
            folder: folder.to_path_buf(),
            act,
            issued,
            ttl,
            state: State::Outstanding,
        }
    }

    fn is_live(&self, now: Moment) -> bool {
        self.state == State::Outstanding && !self.issued.is_over(now, self.ttl)
    }

    fn pending(&self) -> Pending {
        Pending {
            folder: self.folder.clone(),
            act: self.act,
            asked_at: self.issued.wall,
            expires_at: Some(self.issued.wall_after(self.ttl)),
        }
    }
}

#[derive(Debug, Default)]
struct Book {
    by_value: HashMap<String, Record>,
    /// Values in the order of issue, oldest first.
    order: VecDeque<String>,
}

impl Book {
    /// Retires the oldest live nonces of `session` until there is room for one more.
    fn make_room(&mut self, session: &str, now: Moment) {
        let live: Vec<&String> = self
            .order
            .iter()
            .filter(|v| {
                self.by_value
                    .get(*v)
                    .is_some_and(|r| r.session == session && r.is_live(now))
            })
            .collect();
        let surplus = (live.len() + 1).saturating_sub(MAX_OUTSTANDING_NONCES);
        let retired: Vec<String> = live.into_iter().take(surplus).cloned().collect();
        for value in retired {
            if let Some(record) = self.by_value.get_mut(&value) {
                record.state = State::Retired;
            }
        }
        self.forget_surplus(now);
    }

    /// Forgets the oldest spent nonces, and only if all are live the oldest of those.
    fn forget_surplus(&mut self, now: Moment) {
        while self.order.len() >= MAX_REMEMBERED_NONCES {
            let spent = self
                .order
                .iter()
                .position(|v| self.by_value.get(v).is_none_or(|r| !r.is_live(now)));
            let Some(value) = self.order.remove(spent.unwrap_or(0)) else {
                return;
            };
            self.by_value.remove(&value);
        }
    }
}

/// Every nonce of one server process, shared by its sessions so that one session recognises the
/// nonces of another as foreign.
#[derive(Debug, Clone, Default)]
pub struct NonceRegistry {
    book: Arc<Mutex<Book>>,
}

impl NonceRegistry {
    /// An empty registry; one per server process.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        // Each change of the book is complete before anything can fail, so that a poisoned lock
        // still guards a consistent book.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a nonce that `record` tells of.
    pub(super) fn issue(&self, record: Record) -> Result<Nonce, NonceError> {
        let value = random_value()?;
        let nonce = Nonce {
            value: value.clone(),
            folder: record.folder.clone(),
            act: record.act,
            expires_at: record.issued.wall_after(record.ttl),
        };
        let mut book = self.lock();
        book.make_room(&record.session, record.issued);
        book.order.push_back(value.clone());
        book.by_value.insert(value, record);
        Ok(nonce)
    }

    /// Uses a nonce up. A refused nonce is left as it was.
    pub(super) fn redeem(
        &self,
        value: &str,
        session: &str,
        folder: &Path,
        act: Act,
        now: Moment,
    ) -> Result<(), NonceError> {
        let mut book = self.lock();
        let record = book.by_value.get_mut(value).ok_or(NonceError::Unknown)?;
        // Ownership comes first: a stranger learns nothing about the nonce's state.
        if record.session != session || record.folder != folder {
            return Err(NonceError::Foreign);
        }
        if record.act != act {
            return Err(NonceError::OtherUse(record.act));
        }
        match record.state {
            State::Used => Err(NonceError::Used),
            State::Retired => Err(NonceError::Expired),
            State::Revoked => Err(NonceError::Revoked),
            State::Outstanding if record.issued.is_over(now, record.ttl) => {
                Err(NonceError::Expired)
            }
            State::Outstanding => {
                record.state = State::Used;
                Ok(())
            }
        }
    }

    /// The nonces of `session` that can still be used, oldest first.
    pub(super) fn outstanding(&self, session: &str, now: Moment) -> Vec<Pending> {
        let book = self.lock();
        let in_order = book.order.iter().filter_map(|v| book.by_value.get(v));
        in_order
            .filter(|record| record.session == session && record.is_live(now))
            .map(Record::pending)
            .collect()
    }

    /// Takes the nonces of `session` for `folder` back, or those for every folder. Tells which
    /// could still have been used.
    pub(super) fn revoke(&self, session: &str, folder: Option<&Path>, now: Moment) -> Vec<Pending> {
        let mut revoked = Vec::new();
        for record in self.lock().by_value.values_mut() {
            let affected =
                record.session == session && folder.is_none_or(|f| record.folder.as_path() == f);
            if !affected || record.state != State::Outstanding {
                continue;
            }
            if record.is_live(now) {
                revoked.push(record.pending());
            }
            record.state = State::Revoked;
        }
        revoked
    }

    /// Retires the nonces of `session` whose time is over; tells which.
    pub(super) fn lapse(&self, session: &str, now: Moment) -> Vec<Pending> {
        let mut lapsed = Vec::new();
        for record in self.lock().by_value.values_mut() {
            let is_outstanding = record.session == session && record.state == State::Outstanding;
            if is_outstanding && !record.is_live(now) {
                record.state = State::Retired;
                lapsed.push(record.pending());
            }
        }
        lapsed
    }

    /// How many values are remembered, by both lists.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> (usize, usize) {
        let book = self.lock();
        (book.order.len(), book.by_value.len())
    }
}

fn random_value() -> Result<String, NonceError> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|e| NonceError::NoRandom(e.to_string()))?;
    Ok(bytes.iter().fold(String::with_capacity(32), |mut hex, b| {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{b:02x}");
        hex
    }))
}
