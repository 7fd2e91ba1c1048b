//! The chain: the key, the mac of a record, and how a line carries it.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use hmac::{Hmac, KeyInit, Mac as _};
use serde::Deserialize;
use sha2::Sha256;

use crate::error::{TrailError, io_at};
use crate::fsx::{self, Temp, hex};
use crate::limits::MAX_SESSION_ID;

const KEY_BYTES: usize = 32;

/// A mac in lower-case hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Mac([u8; 64]);

impl Mac {
    /// What a head holds before the first record.
    pub(crate) const NONE: Self = Self([b'0'; 64]);

    pub(crate) fn parse(hex: &[u8]) -> Option<Self> {
        let digits: [u8; 64] = hex.try_into().ok()?;
        let good = |b: &u8| b.is_ascii_digit() || (b'a'..=b'f').contains(b);
        digits.iter().all(good).then_some(Self(digits))
    }

    pub(crate) fn as_str(&self) -> &str {
        // Always ASCII by construction.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// What a record is linked to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Previous<'a> {
    /// The first record of a session is linked to the session's id.
    Session(&'a str),
    /// Every other one to the mac before it.
    Record(Mac),
}

/// The key of the trail.
#[derive(Clone)]
pub(crate) struct Key(Hmac<Sha256>);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(…)")
    }
}

impl Key {
    /// Reads the key; nothing if there is none.
    pub(crate) fn load(path: &Path) -> Result<Option<Self>, TrailError> {
        let opened = fsx::open_read(path).map_err(io_at("open the trail's key", path))?;
        let Some(file) = opened else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        file.take(KEY_BYTES as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(io_at("read the trail's key", path))?;
        if bytes.len() != KEY_BYTES {
            return Err(TrailError::Key {
                path: path.to_path_buf(),
                reason: format!("it holds {} bytes instead of {KEY_BYTES}", bytes.len()),
            });
        }
        let mac = Hmac::new_from_slice(&bytes).map_err(|e| TrailError::Key {
            path: path.to_path_buf(),
            reason: e.to_string(),
        })?;
        Ok(Some(Self(mac)))
    }

    /// Reads the key, or makes it; whether it was made here. Of several processes that start at
    /// once one makes it and all read the same: the file gets its name by a link, which fails if
    /// the name is taken.
    pub(crate) fn load_or_create(path: &Path) -> Result<(Self, bool), TrailError> {
        if let Some(key) = Self::load(path)? {
            tighten(path)?;
            return Ok((key, false));
        }
        let made = create(path)?;
        let key = Self::load(path)?.ok_or_else(|| TrailError::Key {
            path: path.to_path_buf(),
            reason: "it vanished while it was being created".into(),
        })?;
        Ok((key, made))
    }

    /// The mac of `body`, the line without its mac.
    pub(crate) fn link(&self, previous: Previous<'_>, body: &[u8]) -> Mac {
        let mut mac = self.0.clone();
        match previous {
            Previous::Session(id) => mac.update(id.as_bytes()),
            Previous::Record(before) => mac.update(&before.0),
        }
        // No JSON line and no session id holds a newline: it keeps the two apart.
        mac.update(b"\n");
        mac.update(body);
        let digits = hex(&mac.finalize().into_bytes());
        Mac::parse(digits.as_bytes()).unwrap_or(Mac::NONE)
    }
}

fn create(path: &Path) -> Result<bool, TrailError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut bytes = [0_u8; KEY_BYTES];
    getrandom::fill(&mut bytes).map_err(|e| TrailError::Random {
        what: "the trail's key",
        reason: e.to_string(),
    })?;
    let io = || io_at("create the trail's key", path);
    let mut temp = Temp::in_dir(dir).map_err(io())?;
    temp.file.write_all(&bytes).map_err(io())?;
    temp.file.sync_all().map_err(io())?;
    // Losing the race is as good as winning it.
    let made = temp.publish_new(path).map_err(io())?;
    fsx::sync_dir(dir).map_err(io())?;
    Ok(made)
}

/// A key that others may read proves nothing: take the permission back.
fn tighten(path: &Path) -> Result<(), TrailError> {
    let io = || io_at("make the trail's key private", path);
    let mode = fs::symlink_metadata(path).map_err(io())?.permissions();
    if mode.mode() & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(io())?;
    }
    Ok(())
}

const MAC_FIELD: &[u8] = b",\"mac\":\"";
const MAC_END: &[u8] = b"\"}";

/// Puts the mac into a line: `{…}` becomes `{…,"mac":"…"}` and a newline.
pub(crate) fn seal(mut body: Vec<u8>, mac: &Mac) -> Vec<u8> {
    body.pop();
    body.extend_from_slice(MAC_FIELD);
    body.extend_from_slice(&mac.0);
    body.extend_from_slice(MAC_END);
    body.push(b'\n');
    body
}

/// Takes the mac out of a line without its newline: the body that was linked, and the mac.
pub(crate) fn unseal(line: &[u8]) -> Option<(Vec<u8>, Mac)> {
    let rest = line.strip_suffix(MAC_END)?;
    let (rest, digits) = rest.split_at_checked(rest.len().checked_sub(64)?)?;
    let mut body = rest.strip_suffix(MAC_FIELD)?.to_vec();
    body.push(b'}');
    Some((body, Mac::parse(digits)?))
}

/// The fields by which a record is found in its chain.
#[derive(Debug, Deserialize)]
pub(crate) struct Place {
    pub(crate) seq: u64,
    pub(crate) session_id: String,
}

impl Place {
    pub(crate) fn of(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }
}

/// Whether `id` can name a chain, and a file.
pub(crate) fn is_session_id(id: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':');
    (1..=MAX_SESSION_ID).contains(&id.len()) && !id.starts_with('.') && id.bytes().all(good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_line_gives_back_its_body() {
        let dir = tempfile::tempdir().unwrap();
        let (key, made) = Key::load_or_create(&dir.path().join("key")).unwrap();
        assert!(made);
        let body = br#"{"seq":1,"session_id":"s"}"#.to_vec();
        let mac = key.link(Previous::Session("s"), &body);
        let line = seal(body.clone(), &mac);
        assert_eq!(line.last(), Some(&b'\n'));
        let (again, same) = unseal(&line[..line.len() - 1]).unwrap();
        assert_eq!((again, same), (body, mac));
        let place = Place::of(&line).unwrap();
        assert_eq!((place.seq, place.session_id.as_str()), (1, "s"));
    }

    #[test]
    fn the_mac_is_the_hmac_of_the_standard() {
        // Computed with another implementation: HMAC-SHA256(32 bytes of 'k', "s\n{}").
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        fs::write(&path, [b'k'; 32]).unwrap();
        let key = Key::load(&path).unwrap().unwrap();
        let mac = key.link(Previous::Session("s"), b"{}");
        assert_eq!(mac.as_str(), EXPECTED);
    }

    const EXPECTED: &str = "06788a43d23281767e82cf4dce1b248f4dae5096fb2b8ab713a6a1aaf8200973";

    #[test]
    fn no_part_of_a_line_passes_for_a_sealed_one() {
        let line = seal(b"{\"a\":1}".to_vec(), &Mac::NONE);
        for end in 0..line.len() - 1 {
            assert!(unseal(&line[..end]).is_none(), "{end}");
        }
    }

    #[test]
    fn the_key_is_private_and_stays_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        Key::load_or_create(&path).unwrap();
        let first = fs::read(&path).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        Key::load_or_create(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), first);
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            1,
            "no temporary file stays"
        );
    }

    #[test]
    fn all_that_start_at_once_get_one_key() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let barrier = std::sync::Barrier::new(8);
        let macs: Vec<_> = std::thread::scope(|scope| {
            let start = || {
                barrier.wait();
                let (key, made) = Key::load_or_create(&path).unwrap();
                (key.link(Previous::Session("s"), b"{}"), made)
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(macs.iter().all(|(mac, _)| *mac == macs[0].0));
        assert_eq!(macs.iter().filter(|(_, made)| *made).count(), 1);
    }

    #[test]
    fn a_key_of_the_wrong_size_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        fs::write(&path, [0_u8; 31]).unwrap();
        let error = Key::load_or_create(&path).unwrap_err().to_string();
        assert!(error.contains("31 bytes"), "{error}");
    }

    #[test]
    fn session_ids_are_file_names() {
        assert!(is_session_id("0192f-ab_c.d:1"));
        for bad in ["", ".", "..", "a/b", "a b", "é", "a\n", &"x".repeat(129)] {
            assert!(!is_session_id(bad), "{bad:?}");
        }
    }
}
