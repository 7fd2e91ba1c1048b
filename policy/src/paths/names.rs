//! Names in a folder: the same name in another normal form, and names that look alike.

use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{self, Dir, Mode, OFlags};
use rustix::io::Errno;
use unicode_normalization::UnicodeNormalization;

use crate::limits;

/// Opens a walking descriptor's folder for listing. The descriptor itself may be `O_PATH`.
pub(crate) fn list(dir: BorrowedFd<'_>) -> Result<Dir, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = fs::openat(dir, ".", flags, Mode::empty())?;
    Dir::new(fd)
}

/// The one entry of `dir` that equals `name` in NFC, if there is exactly one.
///
/// Two such entries are told apart only by their exact bytes, so neither is taken.
pub(crate) fn same_in_nfc(dir: BorrowedFd<'_>, name: &OsStr) -> Option<OsString> {
    let name = name.to_str()?;
    let wanted: String = name.nfc().collect();
    let mut found = None;
    for entry in list(dir).ok()?.take(limits::FOLDER_SCAN_ENTRIES) {
        let entry = entry.ok()?;
        let bytes = entry.file_name().to_bytes();
        let Ok(text) = std::str::from_utf8(bytes) else {
            continue;
        };
        if text.is_ascii() != wanted.is_ascii() || !text.nfc().eq(wanted.chars()) {
            continue;
        }
        if found.is_some() {
            return None;
        }
        found = Some(OsStr::from_bytes(bytes).to_owned());
    }
    found
}

/// Entries of `dir` whose names resemble `name`, best first; those that `allowed` rejects are left out.
pub(crate) fn near(
    dir: BorrowedFd<'_>,
    name: &OsStr,
    allowed: impl Fn(&OsStr) -> bool,
) -> Vec<String> {
    let wanted = name.to_string_lossy().to_lowercase();
    let Ok(entries) = list(dir) else {
        return Vec::new();
    };
    let mut scored: Vec<(f64, String)> = Vec::new();
    for entry in entries.take(limits::NEAR_NAME_ENTRIES) {
        let Ok(entry) = entry else { break };
        let bytes = entry.file_name().to_bytes();
        let (Ok(text), false) = (std::str::from_utf8(bytes), matches!(bytes, b"." | b"..")) else {
            continue;
        };
        let score = strsim::normalized_damerau_levenshtein(&wanted, &text.to_lowercase());
        let contained = wanted.chars().count() >= 3 && text.to_lowercase().contains(&wanted);
        if (score >= 0.6 || contained) && allowed(OsStr::from_bytes(bytes)) {
            scored.push((score, text.to_owned()));
        }
    }
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    scored.truncate(limits::NEAR_NAMES);
    scored.into_iter().map(|(_, name)| name).collect()
}
