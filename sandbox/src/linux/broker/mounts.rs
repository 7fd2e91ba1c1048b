//! The mounts on which a command's roots lie, as the command sees them.

use super::Ground;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A line of `/proc/PID/mountinfo`.
struct Mount {
    id: u64,
    at: PathBuf,
    writable: bool,
}

/// The mounts of these roots and of what the person has mounted below them. What is sealed or
/// hidden there is a mount as well, read-only, and is left out.
pub(super) fn of_roots(mountinfo: &str, roots: &[(PathBuf, Ground)]) -> Vec<(u64, Ground)> {
    let mut found: Vec<(u64, Ground)> = Vec::new();
    for mount in mountinfo.lines().filter_map(parse) {
        let ground = roots.iter().find_map(|(root, ground)| match ground {
            Ground::Workspace => mount.at.starts_with(root).then_some(*ground),
            // Below a folder of scratch lie the workspaces, each with a mount of its own.
            Ground::Scratch => (mount.at == *root).then_some(*ground),
        });
        if let Some(ground) = ground.filter(|_| mount.writable) {
            found.push((mount.id, ground));
        }
    }
    found
}

fn parse(line: &str) -> Option<Mount> {
    let mut words = line.split(' ');
    let id = words.next()?.parse().ok()?;
    let at = unescape(words.nth(3)?);
    let mut options = words.next()?.split(',');
    Some(Mount {
        id,
        at,
        writable: options.any(|option| option == "rw"),
    })
}

/// The kernel writes blanks, line ends and backslashes as three octal digits.
fn unescape(text: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
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
    Path::new(&OsString::from_vec(bytes)).to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "\
1 0 8:1 / / ro,relatime - ext4 /dev/x rw
2 1 8:1 /w /w rw,relatime - ext4 /dev/x rw
3 2 8:2 / /w/data rw - ext4 /dev/y rw
4 2 8:1 /w/.git/hooks /w/.git/hooks ro - ext4 /dev/x rw
5 2 0:9 / /w/secret ro,nosuid - tmpfs tmpfs rw
6 1 8:1 /w2 /w2 rw - ext4 /dev/x rw
7 1 8:1 /t /tmp rw shared:1 - ext4 /dev/x rw
8 7 8:1 /t/a\\040b /tmp/a\\040b rw - ext4 /dev/x rw
9 7 8:1 /t/free /tmp/free rw - ext4 /dev/x rw
";

    #[test]
    fn what_is_sealed_or_hidden_is_not_among_them() {
        let roots = [
            ("/w", Ground::Workspace),
            ("/tmp/a b", Ground::Workspace),
            ("/tmp", Ground::Scratch),
        ];
        let roots = roots.map(|(path, ground)| (PathBuf::from(path), ground));
        let found = of_roots(INFO, &roots);
        let expected = [
            (2, Ground::Workspace),
            (3, Ground::Workspace),
            (7, Ground::Scratch),
            (8, Ground::Workspace),
        ];
        assert_eq!(found, expected);
    }
}
