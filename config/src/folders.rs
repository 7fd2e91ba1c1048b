//! Which folders may not be opened for writing as a workspace.

use std::path::{Component, Path, PathBuf};

/// Folders that may not be a workspace, nor anything inside them.
const SYSTEM: &[&str] = &[
    "/etc",
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/boot",
    "/dev",
    "/proc",
    "/sys",
    "/run",
    "/snap",
    "/var/lib",
    "/var/log",
    "/var/spool",
    "/var/cache",
    "/var/db",
    "/var/root",
    "/var/mail",
    "/var/backups",
    "/var/run",
    "/System",
    "/Library",
    "/Applications",
    "/cores",
    "/private/etc",
    "/private/var/db",
    "/private/var/root",
    "/private/var/log",
    "/private/var/run",
];

/// Inside [`SYSTEM`], yet the place where removable disks are mounted.
const REMOVABLE: &str = "/run/media";

/// Folders that may not be a workspace themselves; folders inside them may.
const TOO_WIDE: &[&str] = &[
    "/",
    "/home",
    "/Users",
    "/root",
    "/var",
    "/var/home",
    "/var/tmp",
    "/var/folders",
    "/opt",
    "/srv",
    "/mnt",
    "/media",
    "/Volumes",
    "/tmp",
    "/private",
    "/private/var",
    "/private/tmp",
    "/private/var/tmp",
    "/private/var/folders",
];

/// Folders of the person's home that hold credentials or settings; nothing inside them either.
const SECRET: &[&str] = &[".ssh", ".gnupg", ".aws", ".config", ".local/bin"];

/// Folders of the person's home that are too wide themselves.
const HOME_TOO_WIDE: &[&str] = &["Library", ".local", ".local/share", ".cache"];

/// Whose machine the folder is judged for. All paths are real ones where they exist.
#[derive(Debug)]
pub(crate) struct Surroundings {
    user_home: Option<PathBuf>,
    hands_home: PathBuf,
}

impl Surroundings {
    pub(crate) fn new(user_home: Option<&Path>, hands_home: &Path) -> Surroundings {
        Surroundings {
            user_home: user_home.map(real),
            hands_home: real(hands_home),
        }
    }

    /// Why this folder cannot be written as a whole, if so. Judges the path as written and its real path.
    pub(crate) fn objection(&self, path: &Path) -> Option<String> {
        let real = real(path);
        self.judge(path).or_else(|| {
            let why = self.judge(&real)?;
            Some(format!("its real path {}: {why}", real.display()))
        })
    }

    fn judge(&self, path: &Path) -> Option<String> {
        if TOO_WIDE.iter().any(|wide| path == Path::new(wide)) {
            return Some("the folder is too wide to be handed over".to_owned());
        }
        self.judge_home(path)
            .or_else(|| judge_system(path))
            .or_else(|| self.judge_state(path))
    }

    fn judge_home(&self, path: &Path) -> Option<String> {
        let home = self.user_home.as_deref()?;
        if home.starts_with(path) {
            return Some("it contains your whole home folder".to_owned());
        }
        let inside = path.strip_prefix(home).ok()?;
        if SECRET.iter().any(|secret| inside.starts_with(secret)) {
            return Some("the folder holds credentials, settings or programs".to_owned());
        }
        HOME_TOO_WIDE
            .iter()
            .any(|wide| inside == Path::new(wide))
            .then(|| "the folder is too wide to be handed over".to_owned())
    }

    fn judge_state(&self, path: &Path) -> Option<String> {
        if path.starts_with(&self.hands_home) || self.hands_home.starts_with(path) {
            return Some(format!(
                "it overlaps the home of Hands, {}",
                self.hands_home.display()
            ));
        }
        None
    }
}

fn judge_system(path: &Path) -> Option<String> {
    let mounted = path
        .strip_prefix(REMOVABLE)
        .is_ok_and(|rest| rest.components().count() >= 2);
    let system = SYSTEM.iter().find(|system| path.starts_with(system))?;
    (!mounted).then(|| format!("it is the system folder {system} or lies in it"))
}

/// The real path. Of a path that does not exist, the real path of what does, with the rest appended.
pub(crate) fn real(path: &Path) -> PathBuf {
    let mut base = path;
    let mut rest: Vec<Component<'_>> = Vec::new();
    loop {
        if let Ok(found) = base.canonicalize() {
            return rest
                .iter()
                .rev()
                .fold(found, |whole, part| whole.join(part));
        }
        let (Some(parent), Some(last)) = (base.parent(), base.components().next_back()) else {
            return path.to_path_buf();
        };
        rest.push(last);
        base = parent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(path: &str) -> Option<String> {
        let around = Surroundings {
            user_home: Some(PathBuf::from("/home/ann")),
            hands_home: PathBuf::from("/home/ann/.local/share/hands"),
        };
        around.judge(Path::new(path))
    }

    #[test]
    fn refuses_what_is_too_wide_or_dangerous() {
        for path in [
            "/",
            "/home",
            "/home/ann",
            "/home/ann/.ssh",
            "/home/ann/.ssh/keys",
            "/home/ann/.local/share",
            "/home/ann/.local/share/hands",
            "/home/ann/.local/share/hands/work",
            "/etc",
            "/usr/local/src",
            "/run/media",
            "/run/media/ann",
            "/tmp",
            "/System/Volumes",
        ] {
            assert!(judge(path).is_some(), "{path} must be refused");
        }
    }

    #[test]
    fn allows_ordinary_folders() {
        for path in [
            "/home/ann/Hands",
            "/home/ann/.sshx",
            "/home/ann/.local/share/handsome",
            "/home/anna",
            "/etcetera",
            "/run/media/ann/disk",
            "/tmp/project",
            "/var/www",
            "/Volumes/disk",
            "/home/ann/Library/Mobile Documents/x",
        ] {
            assert_eq!(judge(path), None, "{path} must be allowed");
        }
    }

    #[test]
    fn a_link_to_a_system_folder_is_seen_through_even_if_the_end_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/usr", dir.path().join("link")).unwrap();
        let around = Surroundings::new(None, Path::new("/nowhere/home"));
        let path = dir.path().join("link/not-there/x");
        let why = around.objection(&path).unwrap();
        assert!(
            why.contains("real path /usr/not-there/x: it is the system folder /usr"),
            "{why}"
        );
    }
}
