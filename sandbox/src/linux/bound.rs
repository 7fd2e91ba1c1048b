//! Whether each mount in a workspace shows what stands there on the machine.
//!
//! bubblewrap mounts by name, one after the other: it looks a name up to read from and looks it up
//! again to mount on. A command of the same session that still runs may change what the name leads
//! to in between, and what is not to be seen then appears under a name where nothing is hidden. So
//! the helper inside compares every mount below the plan's folders with the machine's own, before
//! it starts the command.

use super::mountinfo::{Mount, parse};
use crate::path_bytes;
use crate::plan::Plan;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// How a refusal says that a name leads elsewhere by now.
pub(crate) const CHANGED: &str = "was changed while the sandbox was set up";

/// What stands in the place of a hidden file.
const NULL: &str = "/dev/null";

/// A mount of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct HostMount {
    #[serde(with = "path_bytes::one")]
    at: PathBuf,
    #[serde(with = "path_bytes::one")]
    root: PathBuf,
    device: String,
}

/// The machine's mounts around and below the folders of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostView {
    #[serde(with = "path_bytes::many")]
    places: Vec<PathBuf>,
    mounts: Vec<HostMount>,
    /// Every file system that is mounted on the machine: a mask is none of them.
    devices: Vec<String>,
}

impl HostView {
    /// The view of this process, which must be outside the sandbox.
    ///
    /// # Errors
    /// When the machine's mounts cannot be read.
    pub(super) fn of(plan: &Plan) -> std::io::Result<Self> {
        let text = std::fs::read("/proc/self/mountinfo")?;
        Ok(Self::from(&text, plan.places().cloned().collect()))
    }

    fn from(text: &[u8], places: Vec<PathBuf>) -> Self {
        let mut view = Self {
            places,
            ..Self::default()
        };
        for mount in parse(text) {
            let around = |place: &PathBuf| place.starts_with(&mount.at);
            let concerns = view.is_below(&mount.at)
                || view.places.iter().any(around)
                || Path::new(NULL).starts_with(&mount.at);
            if !view.devices.contains(&mount.device) {
                view.devices.push(mount.device.clone());
            }
            if concerns {
                view.mounts.push(HostMount {
                    at: mount.at,
                    root: mount.root,
                    device: mount.device,
                });
            }
        }
        view
    }

    fn is_below(&self, path: &Path) -> bool {
        self.places.iter().any(|place| path.starts_with(place))
    }

    /// Compares the mounts that are seen inside.
    ///
    /// # Errors
    /// Names the first that shows something else than what stands there on the machine.
    pub(super) fn check(&self, inside: &[u8]) -> Result<(), String> {
        let wrong = |mount: &Mount| self.is_below(&mount.at) && !self.is_right(mount);
        match parse(inside).find(wrong) {
            None => Ok(()),
            Some(mount) => Err(format!("{} {CHANGED}; try again", mount.at.display())),
        }
    }

    fn is_right(&self, mount: &Mount) -> bool {
        // An empty file system of the sandbox's own hides what is below it.
        if !self.devices.contains(&mount.device) {
            return true;
        }
        let shows = |path: &Path| {
            let expected = self.expected(path);
            expected == Some((mount.device.as_str(), mount.root.clone()))
        };
        // One that another covers is copied along with it.
        let covered = |host: &HostMount| {
            (&host.at, &host.root, &host.device) == (&mount.at, &mount.root, &mount.device)
        };
        shows(&mount.at) || shows(Path::new(NULL)) || self.mounts.iter().any(covered)
    }

    /// The file system and the path in it that a name leads to on the machine.
    fn expected(&self, path: &Path) -> Option<(&str, PathBuf)> {
        let around = self.mounts.iter().filter(|m| path.starts_with(&m.at));
        // Of several at the same place the last one covers the others.
        let mount = around.max_by_key(|mount| mount.at.components().count())?;
        let below = path.strip_prefix(&mount.at).ok()?;
        let root = mount.root.components().chain(below.components()).collect();
        Some((mount.device.as_str(), root))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "\
1 0 8:1 / / rw - ext4 /dev/a rw
2 1 0:6 / /dev rw - devtmpfs udev rw
3 1 8:2 / /home rw - ext4 /dev/b rw
4 3 8:3 / /home/ada/w/disk rw - ext4 /dev/c rw
5 3 8:2 /ada/data /home/ada/w/data rw - ext4 /dev/b rw
6 1 0:40 / /run/user/1 rw - tmpfs tmpfs rw
7 4 0:41 / /home/ada/w/disk rw - tmpfs tmpfs rw
";

    fn view() -> HostView {
        HostView::from(HOST.as_bytes(), vec!["/home/ada/w".into(), "/tmp/w".into()])
    }

    fn check(line: &str) -> Result<(), String> {
        view().check(format!("90 1 8:1 / / ro - ext4 /dev/a rw\n{line}\n").as_bytes())
    }

    #[test]
    fn what_stands_there_on_the_machine_is_right() {
        for line in [
            "91 90 8:2 /ada/w /home/ada/w rw - ext4 /dev/b rw",
            "92 91 8:2 /ada/w/r/.git/hooks /home/ada/w/r/.git/hooks ro - ext4 /dev/b rw",
            "92 91 8:2 /ada/w/a\\040b//deleted /home/ada/w/a\\040b ro - ext4 /dev/b rw",
            "93 91 8:3 / /home/ada/w/disk ro - ext4 /dev/c rw",
            "93 91 0:41 / /home/ada/w/disk ro - tmpfs tmpfs rw",
            "93 91 0:41 /x /home/ada/w/disk/x ro - tmpfs tmpfs rw",
            "94 91 8:2 /ada/data /home/ada/w/data rw - ext4 /dev/b rw",
            "95 91 0:6 /null /home/ada/w/.env ro - devtmpfs udev rw",
            "96 91 0:99 / /home/ada/w/secret ro - tmpfs tmpfs rw",
            "97 90 8:1 /tmp/w /tmp/w rw - ext4 /dev/a rw",
            // Not below a folder of the plan.
            "98 90 8:2 /ada/scratch/tmp /tmp rw - ext4 /dev/b rw",
        ] {
            assert_eq!(check(line), Ok(()), "{line}");
        }
    }

    #[test]
    fn what_stands_elsewhere_is_not() {
        for line in [
            "91 90 8:2 /ada/.ssh /home/ada/w/r/.git/hooks ro - ext4 /dev/b rw",
            "91 90 8:1 /etc/shadow /home/ada/w/f ro - ext4 /dev/a rw",
            "91 90 8:1 /ada/w/f /home/ada/w/f ro - ext4 /dev/a rw",
            "91 90 8:2 /ada/w/g /home/ada/w/f ro - ext4 /dev/b rw",
            "91 90 8:2 /ada/w/disk /home/ada/w/disk ro - ext4 /dev/b rw",
            "91 90 0:40 / /home/ada/w/f ro - tmpfs tmpfs rw",
            "91 90 0:6 /sda /home/ada/w/f ro - devtmpfs udev rw",
            "91 90 8:2 /ada/.ssh /home/ada/w rw - ext4 /dev/b rw",
        ] {
            let told = check(line).unwrap_err();
            assert!(told.contains("was changed"), "{line}: {told}");
        }
    }

    #[test]
    fn the_plan_of_this_machine_is_read() {
        let text = std::fs::read("/proc/self/mountinfo").unwrap();
        let view = HostView::from(&text, vec!["/".into()]);
        assert_eq!(view.check(&text), Ok(()));
        assert!(view.expected(Path::new("/proc/self/x")).is_some());
    }
}
