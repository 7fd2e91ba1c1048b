//! The permission gate: which folders a session may change, and the nonces that open them.
//!
//! The first touch of a folder answers [`Decision::Required`] with a [`Nonce`]. The planner asks its
//! user and repeats the call with the nonce; from then on that folder is open for the rest of the
//! session, and for [`crate::limits::MAX_GRANT_TTL`] at the latest.
//!
//! A nonce is friction and an audit trail for consent. It proves no human: whoever reads the answer
//! can send it back.

use std::collections::{HashMap, VecDeque};
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::limits::{
    DEFAULT_NONCE_TTL, MAX_GRANT_TTL, MAX_NONCE_LEN, MAX_OUTSTANDING_NONCES, MAX_REMEMBERED_NONCES,
};

/// What a grant allows in its folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Use {
    /// Changing existing files (`edit`, and `write_file` over or onto an existing file).
    Write,
    /// Registering another MCP server that is started in the folder.
    AddServer,
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Write => "change files",
            Self::AddServer => "add a server",
        })
    }
}

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
    fn is_over(self, now: Self, term: Duration) -> bool {
        let monotonic = now.monotonic.saturating_duration_since(self.monotonic);
        let wall = now.wall.duration_since(self.wall).unwrap_or(Duration::ZERO);
        monotonic.max(wall) >= term
    }

    /// The wall clock `term` after this moment.
    fn wall_after(self, term: Duration) -> SystemTime {
        self.wall.checked_add(term).unwrap_or(self.wall)
    }
}

/// The source of time of a [`Grants`]; tests inject their own.
pub type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// How long nonces and grants live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrantLimits {
    /// Life of an unused nonce.
    pub nonce_ttl: Duration,
    /// Life of a grant; more than [`MAX_GRANT_TTL`] counts as that.
    pub grant_ttl: Duration,
}

impl Default for GrantLimits {
    fn default() -> Self {
        Self {
            nonce_ttl: DEFAULT_NONCE_TTL,
            grant_ttl: MAX_GRANT_TTL,
        }
    }
}

/// Answer of the gate to one touch of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The folder is open: go ahead.
    Open,
    /// The user must be asked; the call may be repeated with this nonce.
    Required(Nonce),
}

/// A word that opens one folder for one use in one session, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nonce {
    /// 128 random bits as 32 hexadecimal digits.
    pub value: String,
    /// The folder that it opens.
    pub folder: PathBuf,
    /// When it stops working.
    pub expires_at: SystemTime,
}

/// Why a nonce does not open the folder. What to do next depends on whether the folder is open
/// already, so the caller says it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NonceError {
    /// This server process did not issue it, or issued it so long ago that it forgot.
    #[error("the nonce does not open this folder: this server did not issue it")]
    Unknown,
    /// It has opened its folder already.
    #[error("the nonce does not open this folder: it was used before and works only once")]
    Used,
    /// It belongs to another session, folder or use.
    #[error(
        "the nonce does not open this folder: it was issued for another session, folder or use"
    )]
    Foreign,
    /// Its time is over, or newer nonces or a revocation have retired it.
    #[error("the nonce does not open this folder: it has expired")]
    Expired,
    /// The operating system gave no random bytes, so that no nonce can be made.
    #[error("no nonce could be made: the operating system gave no random bytes ({0}); try again")]
    NoRandom(String),
}

/// An open folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The folder key that is open.
    pub folder: PathBuf,
    /// What for.
    pub purpose: Use,
    /// When the user's consent came.
    pub granted_at: SystemTime,
    /// When it ends at the latest.
    pub expires_at: SystemTime,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Outstanding,
    Used,
    Retired,
}

#[derive(Debug)]
struct Record {
    session: String,
    folder: PathBuf,
    purpose: Use,
    issued: Moment,
    ttl: Duration,
    state: State,
}

impl Record {
    fn is_live(&self, now: Moment) -> bool {
        self.state == State::Outstanding && !self.issued.is_over(now, self.ttl)
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

    fn issue(&self, record: Record) -> Result<Nonce, NonceError> {
        let value = random_value()?;
        let nonce = Nonce {
            value: value.clone(),
            folder: record.folder.clone(),
            expires_at: record.issued.wall_after(record.ttl),
        };
        let mut book = self.lock();
        book.make_room(&record.session, record.issued);
        book.order.push_back(value.clone());
        book.by_value.insert(value, record);
        Ok(nonce)
    }

    /// Uses a nonce up. A refused nonce is left as it was.
    fn redeem(
        &self,
        value: &str,
        session: &str,
        folder: &Path,
        purpose: Use,
        now: Moment,
    ) -> Result<(), NonceError> {
        let mut book = self.lock();
        let record = book.by_value.get_mut(value).ok_or(NonceError::Unknown)?;
        // Ownership comes first: a stranger learns nothing about the nonce's state.
        if record.session != session || record.folder != folder || record.purpose != purpose {
            return Err(NonceError::Foreign);
        }
        match record.state {
            State::Used => Err(NonceError::Used),
            State::Retired => Err(NonceError::Expired),
            State::Outstanding if record.issued.is_over(now, record.ttl) => {
                Err(NonceError::Expired)
            }
            State::Outstanding => {
                record.state = State::Used;
                Ok(())
            }
        }
    }

    /// Retires the outstanding nonces of `session` for `folder`, or for every folder.
    fn retire(&self, session: &str, folder: Option<&Path>) {
        for record in self.lock().by_value.values_mut() {
            let affected =
                record.session == session && folder.is_none_or(|f| record.folder.as_path() == f);
            if affected && record.state == State::Outstanding {
                record.state = State::Retired;
            }
        }
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

struct Held {
    folder: PathBuf,
    purpose: Use,
    since: Moment,
}

/// The grants of one session. The caller keeps it behind a lock and drops it with the session.
///
/// Folder keys are compared exactly: a grant for a workspace's root (the key of the files directly
/// in it) opens none of its subfolders. Make keys with [`folder_key`] from resolved paths.
pub struct Grants {
    session: String,
    limits: GrantLimits,
    registry: NonceRegistry,
    clock: Clock,
    held: Vec<Held>,
}

impl fmt::Debug for Grants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grants")
            .field("session", &self.session)
            .field("limits", &self.limits)
            .field("open", &self.held.len())
            .finish_non_exhaustive()
    }
}

impl Grants {
    /// The empty grants of a new session, on this machine's clocks.
    #[must_use]
    pub fn new(
        session_id: impl Into<String>,
        limits: GrantLimits,
        registry: NonceRegistry,
    ) -> Self {
        Self::with_clock(session_id, limits, registry, Arc::new(Moment::now))
    }

    /// Like [`Grants::new`], with the caller's source of time.
    #[must_use]
    pub fn with_clock(
        session_id: impl Into<String>,
        limits: GrantLimits,
        registry: NonceRegistry,
        clock: Clock,
    ) -> Self {
        let limits = GrantLimits {
            nonce_ttl: limits.nonce_ttl.min(MAX_GRANT_TTL),
            grant_ttl: limits.grant_ttl.min(MAX_GRANT_TTL),
        };
        Self {
            session: session_id.into(),
            limits,
            registry,
            clock,
            held: Vec::new(),
        }
    }

    /// Asks to use `folder` for `purpose`, with the nonce that the planner sent, if it sent one.
    ///
    /// Without a nonce the answer is [`Decision::Open`] or a new nonce; older unused ones stay good.
    /// A nonce that is sent must be good even where the folder is open already: it works once.
    ///
    /// # Errors
    /// [`NonceError`] tells why the nonce was refused, or that none could be made. The state of the
    /// folder is then unchanged; touch it again without a nonce to offer a new one.
    pub fn touch(
        &mut self,
        folder: &Path,
        purpose: Use,
        nonce: Option<&str>,
    ) -> Result<Decision, NonceError> {
        if let Some(value) = nonce {
            self.redeem(folder, purpose, value.trim())?;
            self.allow(folder, purpose);
            return Ok(Decision::Open);
        }
        if self.is_open(folder, purpose) {
            return Ok(Decision::Open);
        }
        let record = Record {
            session: self.session.clone(),
            folder: folder.to_path_buf(),
            purpose,
            issued: (self.clock)(),
            ttl: self.limits.nonce_ttl,
            state: State::Outstanding,
        };
        self.registry.issue(record).map(Decision::Required)
    }

    fn redeem(&self, folder: &Path, purpose: Use, value: &str) -> Result<(), NonceError> {
        if value.len() > MAX_NONCE_LEN {
            return Err(NonceError::Unknown);
        }
        let now = (self.clock)();
        self.registry
            .redeem(value, &self.session, folder, purpose, now)
    }

    /// Whether `folder` is open for `purpose` now.
    #[must_use]
    pub fn is_open(&self, folder: &Path, purpose: Use) -> bool {
        let now = (self.clock)();
        self.held
            .iter()
            .any(|h| h.folder == folder && h.purpose == purpose && self.is_valid(h, now))
    }

    fn is_valid(&self, held: &Held, now: Moment) -> bool {
        !held.since.is_over(now, self.limits.grant_ttl)
    }

    /// Opens `folder` for `purpose` without a nonce: for consent that comes from outside the
    /// planner's reach. The grant's time starts anew.
    pub fn allow(&mut self, folder: &Path, purpose: Use) {
        let now = (self.clock)();
        let ttl = self.limits.grant_ttl;
        self.held.retain(|h| {
            let same = h.folder == folder && h.purpose == purpose;
            !same && !h.since.is_over(now, ttl)
        });
        self.held.push(Held {
            folder: folder.to_path_buf(),
            purpose,
            since: now,
        });
    }

    /// The folders that are open now, in the order in which they were opened.
    #[must_use]
    pub fn list(&self) -> Vec<Grant> {
        let now = (self.clock)();
        self.held
            .iter()
            .filter(|h| self.is_valid(h, now))
            .map(|h| Grant {
                folder: h.folder.clone(),
                purpose: h.purpose,
                granted_at: h.since.wall,
                expires_at: h.since.wall_after(self.limits.grant_ttl),
            })
            .collect()
    }

    /// Closes `folder` for every use and retires the nonces that would open it again.
    /// Tells how many open grants it ended.
    pub fn revoke(&mut self, folder: &Path) -> usize {
        let before = self.list().len();
        self.held.retain(|h| h.folder != folder);
        self.registry.retire(&self.session, Some(folder));
        before.saturating_sub(self.list().len())
    }
}

impl Drop for Grants {
    /// A session's end ends its nonces too.
    fn drop(&mut self) {
        self.registry.retire(&self.session, None);
    }
}

/// The folder key of `file`: the top-level folder under the innermost workspace that holds it, or
/// the workspace itself for a file directly in it. `None` if no workspace holds it.
///
/// All paths must be resolved already: this compares components and looks at no disk.
#[must_use]
pub fn folder_key<P: AsRef<Path>>(workspaces: &[P], file: &Path) -> Option<PathBuf> {
    let root = workspaces
        .iter()
        .map(AsRef::as_ref)
        .filter(|root| file.starts_with(root) && file != *root)
        .max_by_key(|root| root.components().count())?;
    let mut below = file.strip_prefix(root).ok()?.components();
    let first = below.next()?;
    match below.next() {
        Some(_) => Some(root.join(first)),
        None => Some(root.to_path_buf()),
    }
}

#[cfg(test)]
mod tests;
