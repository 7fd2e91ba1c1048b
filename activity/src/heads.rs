//! Where the chains end (`heads/`) and where they begin (`floor.json`).

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::chain::{Key, Mac, Place, Previous, unseal};
use crate::fsx;
use crate::lines::Lines;

/// The last record of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) seq: u64,
    pub(crate) mac: Mac,
}

impl End {
    /// A chain without records.
    pub(crate) const EMPTY: Self = Self {
        seq: 0,
        mac: Mac::NONE,
    };

    /// What the next record is linked to.
    pub(crate) fn as_previous<'a>(&self, session: &'a str) -> Previous<'a> {
        match self.seq {
            0 => Previous::Session(session),
            _ => Previous::Record(self.mac),
        }
    }

    /// Always as many bytes, so that it is written in place and needs no space on the disk.
    fn to_bytes(self) -> Vec<u8> {
        format!("{:020} {}\n", self.seq, self.mac.as_str()).into_bytes()
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let line = bytes.strip_suffix(b"\n")?;
        let (seq, mac) = line.split_at_checked(20)?;
        Some(Self {
            seq: std::str::from_utf8(seq).ok()?.parse().ok()?,
            mac: Mac::parse(mac.strip_prefix(b" ")?)?,
        })
    }
}

/// A head that this process owns until it is dropped.
#[derive(Debug)]
pub(crate) struct Head {
    file: File,
    /// Whether the file was there before.
    pub(crate) resumed: bool,
    pub(crate) end: End,
}

impl Head {
    /// Opens a session's head for writing; nothing if another process has it.
    pub(crate) fn claim(path: &Path) -> io::Result<Option<Self>> {
        let file = fsx::open(path, OFlags::RDWR | OFlags::CREATE)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(e)) => return Err(e),
        }
        let mut bytes = Vec::new();
        (&file).take(256).read_to_end(&mut bytes)?;
        let end = End::parse(&bytes);
        let head = Self {
            file,
            resumed: !bytes.is_empty(),
            end: end.unwrap_or(End::EMPTY),
        };
        if end.is_none() {
            head.file.set_len(0)?;
            head.write(End::EMPTY)?;
        }
        Ok(Some(head))
    }

    pub(crate) fn advance(&mut self, end: End) -> io::Result<()> {
        self.end = end;
        self.write(end)
    }

    fn write(&self, end: End) -> io::Result<()> {
        self.file.write_all_at(&end.to_bytes(), 0)
    }
}

impl Drop for Head {
    fn drop(&mut self) {
        // Closing is not enough while a child that was just forked still has the descriptor.
        let _ = self.file.unlock();
    }
}

/// What a head file says to a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadState {
    At(End),
    Damaged,
}

/// All heads by session.
pub(crate) fn read_all(dir: &Path) -> io::Result<BTreeMap<String, HeadState>> {
    let mut heads = BTreeMap::new();
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(heads),
        Err(e) => return Err(e),
    };
    for entry in entries {
        let entry = entry?;
        let Some(id) = entry.file_name().to_str().map(str::to_owned) else {
            continue;
        };
        if !crate::chain::is_session_id(&id) {
            continue;
        }
        if let Some(state) = read(&entry.path())? {
            heads.insert(id, state);
        }
    }
    Ok(heads)
}

fn read(path: &Path) -> io::Result<Option<HeadState>> {
    let Some(file) = fsx::open_read(path)? else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    file.take(256).read_to_end(&mut bytes)?;
    Ok(Some(match End::parse(&bytes) {
        Some(end) => HeadState::At(end),
        // Made, but killed before its first content.
        None if bytes.is_empty() => HeadState::At(End::EMPTY),
        None => HeadState::Damaged,
    }))
}

/// The last records that were dropped by rotation: where a chain may begin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Floor {
    pub(crate) sessions: BTreeMap<String, End>,
}

#[derive(Serialize, Deserialize)]
struct FloorEntry {
    seq: u64,
    mac: String,
}

#[derive(Serialize, Deserialize)]
struct FloorFile {
    sessions: BTreeMap<String, FloorEntry>,
    mac: String,
}

/// What the floor file says to a reader.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FloorState {
    Good(Floor),
    /// It cannot be read, or its mac is wrong.
    Damaged,
}

impl Floor {
    pub(crate) fn load(path: &Path, key: &Key) -> io::Result<FloorState> {
        let Some(mut file) = fsx::open_read(path)? else {
            return Ok(FloorState::Good(Self::default()));
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Self::parse(&bytes, key).map_or(FloorState::Damaged, FloorState::Good))
    }

    fn parse(bytes: &[u8], key: &Key) -> Option<Self> {
        let file: FloorFile = serde_json::from_slice(bytes).ok()?;
        let mut sessions = BTreeMap::new();
        for (id, entry) in &file.sessions {
            let mac = Mac::parse(entry.mac.as_bytes())?;
            let seq = entry.seq;
            sessions.insert(id.clone(), End { seq, mac });
        }
        let floor = Self { sessions };
        (floor.seal(key).as_str() == file.mac).then_some(floor)
    }

    pub(crate) fn store(&self, path: &Path, key: &Key) -> io::Result<()> {
        let file = FloorFile {
            sessions: self.entries(),
            mac: self.seal(key).as_str().to_owned(),
        };
        fsx::replace(path, &serde_json::to_vec(&file)?)
    }

    fn entries(&self) -> BTreeMap<String, FloorEntry> {
        let entry = |end: &End| FloorEntry {
            seq: end.seq,
            mac: end.mac.as_str().to_owned(),
        };
        let all = self.sessions.iter();
        all.map(|(id, end)| (id.clone(), entry(end))).collect()
    }

    fn seal(&self, key: &Key) -> Mac {
        let mut body = Vec::new();
        for (id, end) in &self.sessions {
            let line = format!("{id} {} {}\n", end.seq, end.mac.as_str());
            body.extend_from_slice(line.as_bytes());
        }
        // No session can be called so: a record never passes for a floor.
        key.link(Previous::Session("/floor"), &body)
    }

    /// Raises the floor to the last records in a file that is about to be dropped. Only records
    /// that follow validly count: one put in by hand must not hide that others were removed.
    pub(crate) fn raise(&mut self, dropped: &Path, key: &Key) -> io::Result<()> {
        let Some(file) = fsx::open_read(dropped)? else {
            return Ok(());
        };
        let size = file.metadata()?.len();
        let mut lines = Lines::new(file, 0, size);
        while let Some(line) = lines.next_line()? {
            let Some((place, (body, mac))) = Place::of(line.bytes).zip(unseal(line.bytes)) else {
                continue;
            };
            let id = place.session_id;
            let end = self.sessions.get(&id).copied().unwrap_or(End::EMPTY);
            if place.seq == end.seq + 1 && key.link(end.as_previous(&id), &body) == mac {
                let seq = place.seq;
                self.sessions.insert(id, End { seq, mac });
            }
        }
        Ok(())
    }

    /// Forgets the sessions that lie wholly below the floor and that nobody writes any more:
    /// their heads and their entries go together.
    pub(crate) fn prune(&mut self, heads: &Path) -> io::Result<()> {
        let mut gone = Vec::new();
        for (id, floor) in &self.sessions {
            if !crate::chain::is_session_id(id) || is_finished(&heads.join(id), *floor)? {
                gone.push(id.clone());
            }
        }
        for id in gone {
            self.sessions.remove(&id);
        }
        Ok(())
    }
}

/// Removes the head of a finished session; whether it is gone.
fn is_finished(path: &Path, floor: End) -> io::Result<bool> {
    match read(path)? {
        None => return Ok(true),
        Some(HeadState::At(end)) if end.seq > floor.seq => return Ok(false),
        Some(_) => {}
    }
    // Nobody can claim it now that the log is locked, but somebody may have it.
    let Some(_claimed) = Head::claim(path)? else {
        return Ok(false);
    };
    fs::remove_file(path)?;
    Ok(true)
}

/// Sets aside the heads and the floor of a trail whose key is lost: nothing can be verified
/// against them any more, and the sessions of the new key must not be mixed with them.
pub(crate) fn set_aside(files: &ChainFiles) -> io::Result<()> {
    let stamp = crate::clock::now().replace(':', "-");
    for path in [&files.heads, &files.floor] {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let aside = path.with_file_name(format!("{name}.without-key.{stamp}"));
        match fs::rename(path, aside) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

/// The files beside the logs.
#[derive(Debug, Clone)]
pub(crate) struct ChainFiles {
    pub(crate) key: PathBuf,
    pub(crate) heads: PathBuf,
    pub(crate) floor: PathBuf,
}

impl ChainFiles {
    pub(crate) fn in_dir(trail: &Path) -> Self {
        Self {
            key: trail.join("key"),
            heads: trail.join("heads"),
            floor: trail.join("floor.json"),
        }
    }
}
