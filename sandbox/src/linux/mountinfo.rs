//! Reading `/proc/PID/mountinfo`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// What the kernel puts behind the path of a root that has lost its name since.
const DELETED: &[u8] = b"//deleted";

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) id: u64,
    /// Major and minor number of its file system.
    pub(super) device: String,
    /// What of its file system is mounted, by its path in there.
    pub(super) root: PathBuf,
    pub(super) at: PathBuf,
    pub(super) writable: bool,
}

/// The mounts in the order of the file: a later one at the same place covers an earlier one. Names
/// need not be UTF-8.
pub(super) fn parse(text: &[u8]) -> impl Iterator<Item = Mount> + '_ {
    text.split(|byte| *byte == b'\n').filter_map(mount)
}

fn mount(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|byte| *byte == b' ');
    let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse().ok();
    let id = number(words.next()?)?;
    let device = String::from_utf8(words.nth(1)?.to_vec()).ok()?;
    let mut root = unescape(words.next()?);
    if root.ends_with(DELETED) {
        root.truncate(root.len() - DELETED.len());
    }
    let at = unescape(words.next()?);
    let mut options = words.next()?.split(|byte| *byte == b',');
    Some(Mount {
        id,
        device,
        root: path(root),
        at: path(at),
        writable: options.any(|option| option == b"rw"),
    })
}

fn path(bytes: Vec<u8>) -> PathBuf {
    Path::new(&OsString::from_vec(bytes)).to_path_buf()
}

/// The kernel writes blanks, line ends and backslashes as three octal digits.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|d| std::str::from_utf8(d).ok());
        let escaped = digits.and_then(|d| u8::from_str_radix(d, 8).ok());
        match escaped.filter(|_| *first == b'\\') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_is_read() {
        let text = b"7 1 8:1 /r\\134\xff//deleted /a\\040b\\012\xfe\xff rw,nosuid shared:1 - ext4 /dev/x rw\n\nnot a mount\n";
        let found: Vec<Mount> = parse(text).collect();
        let expected = Mount {
            id: 7,
            device: "8:1".into(),
            root: path(b"/r\\\xff".to_vec()),
            at: path(b"/a b\n\xfe\xff".to_vec()),
            writable: true,
        };
        assert_eq!(found, [expected]);
    }
}
