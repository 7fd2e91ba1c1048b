//! Other names of what a plan protects: a folder that is mounted a second time shows the same files
//! there, which neither a mount over the first name nor its path keeps from being reached.

use super::mountinfo::{Mount, parse};
use crate::plan::Plan;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Adds to what is hidden, sealed and closed the names that it has by other mounts of this process.
///
/// # Errors
/// When the machine's mounts cannot be read.
pub(crate) fn add(plan: &mut Plan) -> std::io::Result<()> {
    let text = std::fs::read("/proc/self/mountinfo")?;
    let mounts: Vec<Mount> = parse(&text).collect();
    let roots: Vec<PathBuf> = plan.roots().cloned().collect();
    let hidden = of(&mounts, &plan.masks);
    plan.masks.extend(hidden);
    for list in [&mut plan.sealed, &mut plan.closed] {
        // Elsewhere nothing is written anyway.
        let others = of(&mounts, list).into_iter();
        let inside = others.filter(|name| roots.iter().any(|root| name.starts_with(root)));
        list.extend(inside.collect::<Vec<_>>());
    }
    Ok(())
}

/// The other names of these paths.
fn of(mounts: &[Mount], paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut times: HashMap<&str, usize> = HashMap::new();
    for mount in mounts {
        *times.entry(&mount.device).or_default() += 1;
    }
    // Most file systems are mounted once, and then there is nothing to look for.
    let several = |mount: &&Mount| times.get(mount.device.as_str()).is_some_and(|n| *n > 1);
    let mut found = Vec::new();
    for path in paths {
        let Some(mount) = shown_by(mounts, path).filter(several) else {
            continue;
        };
        let Ok(below) = path.strip_prefix(&mount.at) else {
            continue;
        };
        let inside = joined(&mount.root, below);
        for other in mounts.iter().filter(|other| other.device == mount.device) {
            let name = match inside.strip_prefix(&other.root) {
                Ok(below) => joined(&other.at, below),
                // A part of it.
                Err(_) if other.root.starts_with(&inside) => other.at.clone(),
                Err(_) => continue,
            };
            let is_seen = shown_by(mounts, &name).is_some_and(|seen| seen.id == other.id);
            if is_seen && name != *path {
                found.push(name);
            }
        }
    }
    found
}

/// The mount that shows what stands at a path: the innermost, and of several at one place the last.
fn shown_by<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let around = mounts.iter().filter(|mount| path.starts_with(&mount.at));
    around.max_by_key(|mount| mount.at.components().count())
}

fn joined(above: &Path, below: &Path) -> PathBuf {
    above.components().chain(below.components()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
1 0 8:1 / / rw - ext4 /dev/a rw
2 1 8:2 / /home rw - ext4 /dev/b rw
3 1 8:2 /ada /srv/ada rw - ext4 /dev/b rw
4 1 8:2 /ada/w/secret/deep /mnt/deep rw - ext4 /dev/b rw
5 1 8:2 /bob /mnt/covered rw - ext4 /dev/b rw
6 1 8:3 / /mnt/covered rw - ext4 /dev/c rw
7 1 8:2 /ada/w /home/ada/w/again rw - ext4 /dev/b rw
";

    #[test]
    fn what_is_mounted_again_has_further_names() {
        let mounts: Vec<Mount> = parse(MOUNTS.as_bytes()).collect();
        let names = |path: &str| -> Vec<String> {
            let found = of(&mounts, &[PathBuf::from(path)]).into_iter();
            found.map(|name| name.display().to_string()).collect()
        };
        assert_eq!(
            names("/home/ada/w/secret"),
            ["/srv/ada/w/secret", "/mnt/deep", "/home/ada/w/again/secret"]
        );
        assert_eq!(names("/srv/ada/.ssh"), ["/home/ada/.ssh"]);
        assert_eq!(
            names("/home/bob/x"),
            [] as [&str; 0],
            "another mount covers it"
        );
        assert_eq!(names("/etc/shadow"), [] as [&str; 0], "mounted once");
        assert_eq!(names("/mnt/covered/x"), [] as [&str; 0]);
    }

    #[test]
    fn the_mounts_of_this_machine_are_read() {
        let text = std::fs::read("/proc/self/mountinfo").unwrap();
        let mounts: Vec<Mount> = parse(&text).collect();
        assert!(shown_by(&mounts, Path::new("/proc/self")).is_some());
    }
}
