//! The mounts on which a command's roots lie, as the command sees them.

use super::Ground;
use crate::linux::mountinfo::parse;
use std::path::PathBuf;

/// The mounts of these roots and of what the person has mounted below them. What is sealed or
/// hidden there is a mount as well, read-only, and is left out.
pub(super) fn of_roots(mountinfo: &[u8], roots: &[(PathBuf, Ground)]) -> Vec<(u64, Ground)> {
    let mut found: Vec<(u64, Ground)> = Vec::new();
    for mount in parse(mountinfo) {
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
        let found = of_roots(INFO.as_bytes(), &roots);
        let expected = [
            (2, Ground::Workspace),
            (3, Ground::Workspace),
            (7, Ground::Scratch),
            (8, Ground::Workspace),
        ];
        assert_eq!(found, expected);
    }
}
