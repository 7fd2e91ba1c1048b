//! The permission gate: which folders a session may change, and what opens them.
//!
//! The first touch of a folder answers [`Decision::Required`] with a [`Nonce`]. The planner asks its
//! user and repeats the call with the nonce; from then on that folder is open for the rest of the
//! session, and for [`crate::limits::MAX_GRANT_TTL`] at the latest.
//!
//! A nonce is friction and an audit trail for consent. It proves no human: whoever reads the answer
//! can send it back. Where that is not enough, [`Consent::Person`] leaves no nonce to be sent: a
//! folder is opened by [`Grants::allow`] alone, which no tool leads to.

mod moment;
mod nonces;

pub use moment::{Clock, Moment};
pub use nonces::NonceRegistry;

use nonces::Record;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::limits::{DEFAULT_NONCE_TTL, MAX_GRANT_TTL, MAX_NONCE_LEN, MAX_OUTSTANDING_NONCES};

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

/// What one call is about to do. A nonce that was asked for one of them is good for no other; the
/// grant that it opens is for the whole [`Use`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Act {
    /// Replacing an existing file as a whole.
    Overwrite,
    /// Adding to the end of an existing file.
    Append,
    /// Changing parts of existing files.
    Edit,
    /// Registering another MCP server.
    AddServer,
}

impl Act {
    /// The use that it is a case of.
    #[must_use]
    pub fn purpose(self) -> Use {
        match self {
            Self::Overwrite | Self::Append | Self::Edit => Use::Write,
            Self::AddServer => Use::AddServer,
        }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Overwrite => "overwrite",
            Self::Append => "append",
            Self::Edit => "edit",
            Self::AddServer => "add a server",
        })
    }
}

/// Whose word opens a folder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Consent {
    /// A nonce that the planner sends back, or the person.
    #[default]
    Nonce,
    /// The person alone: no nonce is made, and none is taken.
    Person,
}

/// What opened a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Giver {
    /// The planner sent a nonce back.
    Nonce,
    /// Somebody out of the planner's reach.
    Person,
}

impl Giver {
    /// Its name: `nonce`, `person`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nonce => "nonce",
            Self::Person => "person",
        }
    }
}

/// Whose word counts, and how long nonces and grants live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrantLimits {
    /// Whose word opens a folder.
    pub consent: Consent,
    /// Life of an unused nonce.
    pub nonce_ttl: Duration,
    /// Life of a grant at most; more than [`MAX_GRANT_TTL`] counts as that.
    pub grant_ttl: Duration,
}

impl Default for GrantLimits {
    fn default() -> Self {
        Self {
            consent: Consent::default(),
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
    /// Only the person can open the folder ([`Consent::Person`]).
    PersonRequired,
}

/// A word that opens one folder for one use in one session, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nonce {
    /// 128 random bits as 32 hexadecimal digits.
    pub value: String,
    /// The folder that it opens.
    pub folder: PathBuf,
    /// The act that it was asked for.
    pub act: Act,
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
    /// It belongs to another session or folder.
    #[error("the nonce does not open this folder: it was issued for another session or folder")]
    Foreign,
    /// It was asked for something else that was to be done in this folder.
    #[error(
        "the nonce does not open this folder for this call: it was issued for another use ({0})"
    )]
    OtherUse(Act),
    /// Its time is over, or newer nonces have retired it.
    #[error("the nonce does not open this folder: it has expired")]
    Expired,
    /// The person took it back, or its session has ended.
    #[error("the nonce does not open this folder: it was revoked")]
    Revoked,
    /// No nonce opens anything here.
    #[error("the nonce opens nothing: on this server only its user grants a folder")]
    NotTaken,
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
    /// What opened it.
    pub giver: Giver,
    /// When the user's consent came.
    pub granted_at: SystemTime,
    /// When it ends at the latest.
    pub expires_at: SystemTime,
}

/// A folder that was asked for and is not open for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// The folder key that was asked for.
    pub folder: PathBuf,
    /// What was to be done.
    pub act: Act,
    /// When it was asked for.
    pub asked_at: SystemTime,
    /// When its nonce stops working; none where no nonce was made.
    pub expires_at: Option<SystemTime>,
}

/// What was ended, by a revocation, by time, or with the session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ended {
    /// Grants that were open.
    pub grants: Vec<Grant>,
    /// Nonces that were not used.
    pub nonces: Vec<Pending>,
}

impl Ended {
    /// Whether there was nothing to end.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.grants.is_empty() && self.nonces.is_empty()
    }
}

struct Held {
    folder: PathBuf,
    purpose: Use,
    giver: Giver,
    since: Moment,
    ttl: Duration,
}

impl Held {
    fn is_over(&self, now: Moment) -> bool {
        self.since.is_over(now, self.ttl)
    }

    fn is_for(&self, folder: &Path, purpose: Use) -> bool {
        self.folder == folder && self.purpose == purpose
    }

    fn grant(&self) -> Grant {
        Grant {
            folder: self.folder.clone(),
            purpose: self.purpose,
            giver: self.giver,
            granted_at: self.since.wall,
            expires_at: self.since.wall_after(self.ttl),
        }
    }
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
    /// What was asked for where no nonce is made, oldest first.
    asked: Vec<Pending>,
    ended: bool,
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
            ..limits
        };
        Self {
            session: session_id.into(),
            limits,
            registry,
            clock,
            held: Vec::new(),
            asked: Vec::new(),
            ended: false,
        }
    }

    /// The limits in force.
    #[must_use]
    pub fn limits(&self) -> GrantLimits {
        self.limits
    }

    /// Asks to do `act` in `folder`, with the nonce that the planner sent, if it sent one.
    ///
    /// Without a nonce the answer is [`Decision::Open`], or what has to be done first; older unused
    /// nonces stay good. A nonce that is sent must be good even where the folder is open already:
    /// it works once. Under [`Consent::Person`] none is ever good.
    ///
    /// # Errors
    /// [`NonceError`] tells why the nonce was refused, or that none could be made. The state of the
    /// folder is then unchanged; touch it again without a nonce to learn what opens it.
    pub fn touch(
        &mut self,
        folder: &Path,
        act: Act,
        nonce: Option<&str>,
    ) -> Result<Decision, NonceError> {
        if let Some(value) = nonce {
            self.redeem(folder, act, value.trim())?;
            self.hold(folder, act.purpose(), Giver::Nonce, self.limits.grant_ttl);
            return Ok(Decision::Open);
        }
        if self.is_open(folder, act.purpose()) {
            return Ok(Decision::Open);
        }
        let now = (self.clock)();
        if self.limits.consent == Consent::Person {
            self.note_asked(folder, act, now);
            return Ok(Decision::PersonRequired);
        }
        let record = Record::new(&self.session, folder, act, now, self.limits.nonce_ttl);
        self.registry.issue(record).map(Decision::Required)
    }

    fn redeem(&self, folder: &Path, act: Act, value: &str) -> Result<(), NonceError> {
        if self.limits.consent == Consent::Person {
            return Err(NonceError::NotTaken);
        }
        if value.len() > MAX_NONCE_LEN {
            return Err(NonceError::Unknown);
        }
        let now = (self.clock)();
        self.registry.redeem(value, &self.session, folder, act, now)
    }

    fn note_asked(&mut self, folder: &Path, act: Act, now: Moment) {
        self.asked
            .retain(|asked| asked.folder != folder || asked.act != act);
        let surplus = (self.asked.len() + 1).saturating_sub(MAX_OUTSTANDING_NONCES);
        self.asked.drain(..surplus);
        self.asked.push(Pending {
            folder: folder.to_path_buf(),
            act,
            asked_at: now.wall,
            expires_at: None,
        });
    }

    /// Whether `folder` is open for `purpose` now.
    #[must_use]
    pub fn is_open(&self, folder: &Path, purpose: Use) -> bool {
        let now = (self.clock)();
        let mut held = self.held.iter();
        held.any(|held| held.is_for(folder, purpose) && !held.is_over(now))
    }

    /// Opens `folder` for `purpose` without a nonce, for `ttl` at most: for consent that comes from
    /// outside the planner's reach. The grant's time starts anew, also where it would have been
    /// longer. A session that has ended opens nothing.
    pub fn allow(&mut self, folder: &Path, purpose: Use, ttl: Duration) {
        self.hold(folder, purpose, Giver::Person, ttl);
    }

    fn hold(&mut self, folder: &Path, purpose: Use, giver: Giver, ttl: Duration) {
        if self.ended {
            return;
        }
        self.held.retain(|held| !held.is_for(folder, purpose));
        self.asked
            .retain(|asked| asked.folder != folder || asked.act.purpose() != purpose);
        self.held.push(Held {
            folder: folder.to_path_buf(),
            purpose,
            giver,
            since: (self.clock)(),
            ttl: ttl.min(self.limits.grant_ttl),
        });
    }

    /// The folders that are open now, in the order in which they were opened.
    #[must_use]
    pub fn list(&self) -> Vec<Grant> {
        let now = (self.clock)();
        let valid = self.held.iter().filter(|held| !held.is_over(now));
        valid.map(Held::grant).collect()
    }

    /// What was asked for and can still be given, oldest first: by its nonce, or, where none is
    /// made, by the person.
    #[must_use]
    pub fn pending(&self) -> Vec<Pending> {
        let now = (self.clock)();
        let mut pending = self.registry.outstanding(&self.session, now);
        pending.extend(self.asked.iter().cloned());
        pending
    }

    /// Closes `folder` for every use and takes back the nonces that would open it again, from the
    /// next touch on. Tells what that ended.
    pub fn revoke(&mut self, folder: &Path) -> Ended {
        let now = (self.clock)();
        let ended = Ended {
            grants: self.take(now, |held| held.folder == folder),
            nonces: self.registry.revoke(&self.session, Some(folder), now),
        };
        self.asked.retain(|asked| asked.folder != folder);
        ended
    }

    /// Ends the session: every grant, every nonce, and whatever would open a folder later.
    /// Tells what that ended.
    pub fn end(&mut self) -> Ended {
        let now = (self.clock)();
        self.ended = true;
        self.asked.clear();
        Ended {
            grants: self.take(now, |_| true),
            nonces: self.registry.revoke(&self.session, None, now),
        }
    }

    /// Whether the session has ended, so that nothing can be opened any more.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Takes the matching grants away; those that were still in force are returned.
    fn take(&mut self, now: Moment, is_meant: impl Fn(&Held) -> bool) -> Vec<Grant> {
        let (gone, kept) = std::mem::take(&mut self.held)
            .into_iter()
            .partition::<Vec<_>, _>(is_meant);
        self.held = kept;
        let in_force = gone.iter().filter(|held| !held.is_over(now));
        in_force.map(Held::grant).collect()
    }

    /// Forgets the grants and nonces whose time is over and tells which, each once. Whether
    /// something is open does not depend on this.
    pub fn lapse(&mut self) -> Ended {
        let now = (self.clock)();
        let (over, kept) = std::mem::take(&mut self.held)
            .into_iter()
            .partition::<Vec<_>, _>(|held| held.is_over(now));
        self.held = kept;
        Ended {
            grants: over.iter().map(Held::grant).collect(),
            nonces: self.registry.lapse(&self.session, now),
        }
    }
}

impl Drop for Grants {
    /// A session's end ends its nonces too.
    fn drop(&mut self) {
        self.end();
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
