//! Which folders a command writes in, where only granted ones are open to it.

use crate::limits;
use crate::outcome::{Code, Outcome, system};
use std::path::{Path, PathBuf};

/// Where a command writes, and where not, in the terms of a plan.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Zones {
    pub(super) workspaces: Vec<PathBuf>,
    pub(super) extra_write: Vec<PathBuf>,
    pub(super) closed: Vec<PathBuf>,
    pub(super) shallow: Vec<PathBuf>,
}

impl Zones {
    /// All of the workspaces and further folders: no grant is asked for.
    pub(super) fn all(workspaces: Vec<PathBuf>, extra_write: Vec<PathBuf>) -> Self {
        Self {
            workspaces,
            extra_write,
            ..Self::default()
        }
    }

    /// What the keys in `open` open: a top-level folder with all below it; of a workspace the
    /// entries directly in it; a folder of `[write] extra` as a whole. Roots inside roots have keys
    /// of their own, so that all must be named, by their real paths.
    ///
    /// # Errors
    /// When a workspace cannot be looked into, or has more folders than can be closed: then no
    /// command runs.
    pub(super) fn granted(
        workspaces: &[PathBuf],
        extra_write: &[PathBuf],
        open: &[PathBuf],
    ) -> Result<Self, Outcome> {
        let mut zones = Self::default();
        let is_root = |path: &Path| workspaces.iter().chain(extra_write).any(|r| r == path);
        for key in open.iter().filter(|key| is_in_place(key)) {
            let is_top = key
                .parent()
                .is_some_and(|above| workspaces.iter().any(|root| root == above));
            if workspaces.contains(key) {
                zones.workspaces.push(key.clone());
                zones.shallow.push(key.clone());
            } else if extra_write.contains(key) {
                zones.extra_write.push(key.clone());
            } else if is_top {
                zones.workspaces.push(key.clone());
            }
        }
        let roots = workspaces.iter().chain(extra_write);
        zones.closed = roots.filter(|root| !open.contains(root)).cloned().collect();
        for workspace in &zones.shallow {
            let folders = folders_in(workspace)
                .map_err(|e| system(format!("looking into {}", workspace.display()), &e))?;
            let shut = folders
                .into_iter()
                .filter(|folder| !open.contains(folder) && !is_root(folder));
            zones.closed.extend(shut);
        }
        if zones.closed.len() > limits::CLOSED_FOLDERS {
            return Err(too_many(zones.closed.len()));
        }
        Ok(zones)
    }
}

/// Whether a folder is still where it was when it was granted, and no link.
fn is_in_place(key: &Path) -> bool {
    key.is_dir() && key.canonicalize().is_ok_and(|now| now == key)
}

/// The folders directly in one. A link is none: what it leads to has a key of its own.
fn folders_in(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn too_many(found: usize) -> Outcome {
    let message = format!(
        "no command runs: {found} folders in the workspaces are not granted, and the sandbox can \
         close {} at most beside what is granted",
        limits::CLOSED_FOLDERS
    );
    Outcome::fail(Code::Sandbox, message).hint(
        "Ask your user to revoke the grant of the workspace itself (the files directly in it), and \
         to grant the folder that is needed.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        _keep: tempfile::TempDir,
        top: PathBuf,
    }

    impl World {
        fn new(folders: &[&str]) -> World {
            let keep = tempfile::tempdir().unwrap();
            let top = keep.path().canonicalize().unwrap();
            for folder in folders {
                std::fs::create_dir_all(top.join(folder)).unwrap();
            }
            World { _keep: keep, top }
        }

        fn at(&self, names: &[&str]) -> Vec<PathBuf> {
            names.iter().map(|name| self.top.join(name)).collect()
        }

        fn granted(&self, roots: &[&str], extra: &[&str], open: &[&str]) -> Zones {
            let mut zones =
                Zones::granted(&self.at(roots), &self.at(extra), &self.at(open)).unwrap();
            zones.closed.sort();
            zones
        }
    }

    #[test]
    fn nothing_is_open_that_is_not_granted() {
        let w = World::new(&["ws/a", "ws/b", "extra"]);
        let zones = w.granted(&["ws"], &["extra"], &[]);
        assert_eq!((zones.workspaces, zones.extra_write), (vec![], vec![]));
        assert_eq!(zones.closed, w.at(&["extra", "ws"]));
    }

    #[test]
    fn a_folder_opens_alone() {
        let w = World::new(&["ws/a", "ws/b", "extra"]);
        let zones = w.granted(&["ws"], &["extra"], &["ws/a", "extra"]);
        assert_eq!(zones.workspaces, w.at(&["ws/a"]));
        assert_eq!(zones.extra_write, w.at(&["extra"]));
        assert_eq!(zones.closed, w.at(&["ws"]));
        assert!(zones.shallow.is_empty());
    }

    #[test]
    fn a_workspace_opens_without_its_folders() {
        let w = World::new(&["ws/a", "ws/b", "elsewhere"]);
        std::os::unix::fs::symlink("../elsewhere", w.top.join("ws/link")).unwrap();
        std::fs::write(w.top.join("ws/file"), "").unwrap();
        let zones = w.granted(&["ws"], &[], &["ws", "ws/b"]);
        assert_eq!(zones.workspaces, w.at(&["ws", "ws/b"]));
        assert_eq!(zones.shallow, w.at(&["ws"]));
        assert_eq!(zones.closed, w.at(&["ws/a"]));
    }

    #[test]
    fn roots_inside_roots_have_keys_of_their_own() {
        let w = World::new(&["ws/a/inner/deep", "ws/inner2/deep", "ws/a/extra"]);
        let roots = ["ws", "ws/a/inner", "ws/inner2"];
        let zones = w.granted(&roots, &["ws/a/extra"], &["ws/a", "ws"]);
        assert_eq!(zones.workspaces, w.at(&["ws/a", "ws"]));
        let closed = ["ws/a/extra", "ws/a/inner", "ws/inner2"];
        assert_eq!(zones.closed, w.at(&closed));
        let zones = w.granted(&roots, &[], &["ws/inner2", "ws/a/inner/deep"]);
        assert_eq!(zones.workspaces, w.at(&["ws/inner2", "ws/a/inner/deep"]));
        assert_eq!(zones.shallow, w.at(&["ws/inner2"]));
        assert_eq!(zones.closed, w.at(&["ws", "ws/a/inner", "ws/inner2/deep"]));
    }

    #[test]
    fn what_is_gone_moved_or_no_key_opens_nothing() {
        let w = World::new(&["ws/real", "other/x"]);
        std::os::unix::fs::symlink("real", w.top.join("ws/link")).unwrap();
        let open = ["ws/gone", "ws/link", "other", "other/x", "ws/real/deep"];
        let zones = w.granted(&["ws"], &[], &open);
        assert!(zones.workspaces.is_empty() && zones.extra_write.is_empty());
        assert_eq!(zones.closed, w.at(&["ws"]));
    }

    #[test]
    fn more_than_can_be_closed_is_refused() {
        let w = World::new(&["ws"]);
        for n in 0..=limits::CLOSED_FOLDERS {
            std::fs::create_dir(w.top.join(format!("ws/{n}"))).unwrap();
        }
        let refused = Zones::granted(&w.at(&["ws"]), &[], &w.at(&["ws"])).unwrap_err();
        assert_eq!(refused.code, Code::Sandbox);
        assert!(Zones::granted(&w.at(&["ws"]), &[], &w.at(&["ws/1"])).is_ok());
    }
}
