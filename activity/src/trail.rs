//! Writing the trail: the process's handle, a session's chain, one record.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::chain::{Key, Mac, Place, is_session_id, seal, unseal};
use crate::clock;
use crate::error::{TrailError, io_at};
use crate::folders::Folders;
use crate::fsx::{self, clip};
use crate::heads::{self, ChainFiles, End, Floor, FloorState, Head};
use crate::limits::{MAX_FIELD, TrailLimits};
use crate::lines::Lines;
use crate::record::{Client, Frame, Prepared, Record, short};
use crate::rolling::{Held, Lock, Log, Retire, numbered};

/// The activity trail, opened for writing. Cheap to clone; one per process is enough.
#[derive(Debug, Clone)]
pub struct Trail(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    files: ChainFiles,
    key: Key,
    key_is_new: bool,
    writer: Mutex<Writer>,
    sessions: Mutex<HashMap<String, Weak<Session>>>,
}

#[derive(Debug)]
struct Writer {
    lock: Lock,
    log: Log,
}

/// One session's chain of records. Clones write the same chain.
#[derive(Debug, Clone)]
pub struct SessionTrail(Arc<Session>);

#[derive(Debug)]
struct Session {
    shared: Arc<Shared>,
    id: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    client: Option<Client>,
    /// Claimed with the first record, so that a session without records leaves no file.
    head: Option<Head>,
}

/// A panic elsewhere does not make the trail's state wrong: every step leaves it whole.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Trail {
    /// Opens the trail, making its folders (mode 0700) and its key (mode 0600) if they are
    /// missing. A line that a crash left torn is ended. If the key is gone, the heads it belonged to
    /// are set aside and a new trail begins; [`verify()`](crate::verify()) then calls the older
    /// records foreign.
    ///
    /// # Errors
    /// [`TrailError::Io`] if a folder or file cannot be made or opened, [`TrailError::Key`] if
    /// there is a key that is none, [`TrailError::Random`] if no key can be made.
    pub fn open(folders: &Folders, limits: TrailLimits) -> Result<Self, TrailError> {
        let files = ChainFiles::in_dir(&folders.trail);
        for dir in [&folders.logs, &folders.trail] {
            fsx::private_dir(dir).map_err(io_at("make the folder", dir))?;
        }
        let path = folders.activity();
        let mut lock = Lock::open(&path).map_err(io_at("open the lock of", &path))?;
        let mut log = Log::new(path.clone(), limits);
        let held = lock.exclusive().map_err(io_at("lock", &path))?;
        let (key, key_is_new) = Key::load_or_create(&files.key)?;
        if key_is_new {
            heads::set_aside(&files).map_err(io_at("set aside what lies in", &folders.trail))?;
        }
        fsx::private_dir(&files.heads).map_err(io_at("make the folder", &files.heads))?;
        fsx::clear_abandoned(&folders.trail);
        log.prepare(&held).map_err(io_at("open the log", &path))?;
        drop(held);
        Ok(Self(Arc::new(Shared {
            files,
            key,
            key_is_new,
            writer: Mutex::new(Writer { lock, log }),
            sessions: Mutex::default(),
        })))
    }

    /// The chain of a session: letters, digits, `-`, `_`, `.` and `:`, at most 128 bytes (an id
    /// that is not so is refused by the first [`SessionTrail::append`]). A session that has
    /// records already is continued.
    #[must_use]
    pub fn session(&self, session_id: &str) -> SessionTrail {
        let mut sessions = locked(&self.0.sessions);
        if let Some(session) = sessions.get(session_id).and_then(Weak::upgrade) {
            return SessionTrail(session);
        }
        sessions.retain(|_, session| session.strong_count() > 0);
        let session = Arc::new(Session {
            shared: Arc::clone(&self.0),
            id: session_id.to_owned(),
            state: Mutex::default(),
        });
        sessions.insert(session_id.to_owned(), Arc::downgrade(&session));
        SessionTrail(session)
    }

    /// Whether the key was made by this call of [`Trail::open`]. With records in the logs that
    /// means that the old key is gone and that they cannot be verified any more.
    #[must_use]
    pub fn key_is_new(&self) -> bool {
        self.0.key_is_new
    }

    /// Why the log could not be rotated last time, if so; records are written all the same.
    #[must_use]
    pub fn rotation_problem(&self) -> Option<String> {
        locked(&self.0.writer).log.problem.clone()
    }
}

impl SessionTrail {
    /// The session's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// Names the program at the other end; records from now on carry it.
    pub fn set_client(&self, name: &str, version: &str) {
        locked(&self.0.state).client = Some(Client {
            name: short(name),
            version: short(version),
        });
    }

    /// Redacts, shortens and appends a record by one write, and advances the head of the chain.
    /// Returns the record's number within the session, from 1.
    ///
    /// The write is not made durable: a record survives the death of the process at any moment,
    /// not that of the machine within the next seconds.
    ///
    /// # Errors
    /// [`TrailError::SessionId`], [`TrailError::SessionBusy`] if another process records this
    /// session, [`TrailError::Encode`], or [`TrailError::Io`]; nothing was recorded then, except
    /// where the message says that only the head could not be written.
    pub fn append(&self, record: Record) -> Result<u64, TrailError> {
        let session = &*self.0;
        if !is_session_id(&session.id) {
            return Err(TrailError::SessionId {
                id: clip(&session.id, MAX_FIELD).to_owned(),
            });
        }
        let prepared = Prepared::from(record);
        let mut state = locked(&session.state);
        let mut writer = locked(&session.shared.writer);
        session.append_locked(&prepared, &mut state, &mut writer)
    }
}

impl Session {
    fn append_locked(
        &self,
        prepared: &Prepared,
        state: &mut State,
        writer: &mut Writer,
    ) -> Result<u64, TrailError> {
        let Writer { lock, log } = writer;
        let path = log.path().to_path_buf();
        let held = lock.exclusive().map_err(io_at("lock", &path))?;
        log.prepare(&held).map_err(io_at("open the log", &path))?;
        let State { client, head } = state;
        let head = match head {
            Some(head) => head,
            None => head.insert(self.claim_head(log, &held)?),
        };
        let seq = head.end.seq + 1;
        let ts = clock::now();
        let body = prepared.encode(Frame {
            ts: &ts,
            seq,
            session_id: &self.id,
            client: client.as_ref(),
        })?;
        let mac = self.shared.key.link(head.end.as_previous(&self.id), &body);
        let line = seal(body, &mac);
        log.append(&held, &line, &mut self.shared.retire())
            .map_err(io_at("append a record to", &path))?;
        head.advance(End { seq, mac }).map_err(io_at(
            "record the head of the chain (the record itself is written) in",
            &self.head_path(),
        ))?;
        Ok(seq)
    }

    fn head_path(&self) -> PathBuf {
        self.shared.files.heads.join(&self.id)
    }

    /// Takes the session's head; a chain that goes on begins after its last whole record.
    fn claim_head(&self, log: &Log, _held: &Held<'_>) -> Result<Head, TrailError> {
        let path = self.head_path();
        let claimed = Head::claim(&path).map_err(io_at("open the head of the chain", &path))?;
        let Some(mut head) = claimed else {
            return Err(TrailError::SessionBusy {
                id: self.id.clone(),
            });
        };
        if head.resumed {
            let io = || io_at("read the last record of the session in", log.path());
            // A process killed between the record and its head leaves the head one behind.
            if let Some(mac) = self.record_after(log, head.end).map_err(io())? {
                let seq = head.end.seq + 1;
                head.advance(End { seq, mac }).map_err(io())?;
            }
        }
        Ok(head)
    }

    /// The mac of the valid record that follows `end`, if it was written.
    fn record_after(&self, log: &Log, end: End) -> io::Result<Option<Mac>> {
        let current = std::iter::once(log.path().to_path_buf());
        let older = (1..).map(|n| numbered(log.path(), n));
        for path in current.chain(older) {
            let Some(file) = fsx::open_read(&path)? else {
                break;
            };
            let size = file.metadata()?.len();
            let mut lines = Lines::new(file, 0, size);
            let mut seen = false;
            while let Some(line) = lines.next_line()? {
                let Some(place) = Place::of(line.bytes).filter(|p| p.session_id == self.id) else {
                    continue;
                };
                seen = true;
                let Some((body, mac)) = unseal(line.bytes).filter(|_| place.seq == end.seq + 1)
                else {
                    continue;
                };
                if self.shared.key.link(end.as_previous(&self.id), &body) == mac {
                    return Ok(Some(mac));
                }
            }
            if seen {
                break;
            }
        }
        Ok(None)
    }
}

impl Shared {
    fn retire(&self) -> RaiseFloor<'_> {
        RaiseFloor {
            files: &self.files,
            key: &self.key,
        }
    }
}

/// Keeps where the chains begin when their oldest records are dropped.
struct RaiseFloor<'a> {
    files: &'a ChainFiles,
    key: &'a Key,
}

impl RaiseFloor<'_> {
    fn load(&self) -> io::Result<Floor> {
        Ok(match Floor::load(&self.files.floor, self.key)? {
            FloorState::Good(floor) => floor,
            // What cannot be trusted is not carried on; `verify` has told of it.
            FloorState::Damaged => Floor::default(),
        })
    }
}

impl Retire for RaiseFloor<'_> {
    fn before(&mut self, dropped: &[PathBuf]) -> io::Result<()> {
        let mut floor = self.load()?;
        for path in dropped {
            floor.raise(path, self.key)?;
        }
        floor.store(&self.files.floor, self.key)
    }

    fn after(&mut self) -> io::Result<()> {
        let mut floor = self.load()?;
        floor.prune(&self.files.heads)?;
        floor.store(&self.files.floor, self.key)
    }
}
