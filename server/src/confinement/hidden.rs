//! What a child must not see, and what in a workspace it must not write.

use crate::limits;
use hands_policy::protected::{Denies, existing_in_home, survey};
use std::path::{Path, PathBuf};

/// Sockets and folders of sockets through which a child could have somebody else act for it
/// (`sandbox.md`: mask the sockets inside `/run`, not `/run` itself: name resolution and NixOS's
/// programs live there).
const SOCKETS: &[&str] = &[
    "/run/docker.sock",            // root on the machine
    "/run/podman",                 // the same
    "/run/containerd",             // the same
    "/run/crio",                   // the same
    "/run/dbus/system_bus_socket", // system services
    "/run/systemd/private",        // starts units
    "/run/systemd/notify",
    "/run/systemd/userdb",
    "/run/snapd.socket", // installs and starts programs
    "/run/snapd-snap.socket",
    "/run/libvirt", // virtual machines with any disk
    "/run/lxd.socket",
    "/run/incus",
    "/run/user",   // session bus, keyring, display, agents
    "/run/WSL",    // starts Windows programs
    "/run/screen", // other terminals
    "/run/tmux",
    "/var/run/docker.sock",
    "/var/run/screen",
    "/var/lib/docker",
];

/// System files that even a shell has no business reading (`sandbox.md`, promise 7).
const SYSTEM_SECRETS: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/security/opasswd",
    "/etc/NetworkManager/system-connections", // stored connections
    "/etc/wireguard",
    "/etc/openvpn",
    "/etc/ppp",
    "/etc/krb5.keytab",
    "/etc/ssl/private",
    "/etc/letsencrypt",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
];

/// Git's own files that are run, or decide what is run, later and outside.
const GIT_SEALED: &[&str] = &["hooks", "config", "config.worktree", "info/attributes"];

/// What a look at the disk found.
#[derive(Debug, Clone, Default)]
pub(super) struct Hidden {
    /// Existing paths that a child must not see, by their real names, none below another.
    pub(super) masks: Vec<PathBuf>,
    /// Existing paths inside the roots that a child must not write.
    pub(super) sealed: Vec<PathBuf>,
}

/// Where to look.
pub(super) struct Search<'a> {
    pub(super) user_home: &'a Path,
    pub(super) hands_home: &'a Path,
    pub(super) extra_protected: &'a [PathBuf],
    pub(super) env_files: bool,
    /// The writable roots, by their real paths.
    pub(super) roots: &'a [PathBuf],
}

impl Search<'_> {
    /// Looks at the disk. Takes milliseconds in a large workspace, so that the caller remembers
    /// what was found for a while.
    pub(super) fn look(&self) -> Hidden {
        let mut masks: Vec<PathBuf> = vec![self.hands_home.to_path_buf()];
        let mut sealed = own_programs();
        for (path, denies) in existing_in_home(self.user_home) {
            match denies {
                Denies::ReadWrite => masks.push(path),
                Denies::Write => sealed.push(path),
            }
        }
        masks.extend(self.extra_protected.iter().cloned());
        masks.extend(SOCKETS.iter().chain(SYSTEM_SECRETS).map(PathBuf::from));
        masks.extend(std::env::var_os("SSH_AUTH_SOCK").map(PathBuf::from));
        let path = std::env::var_os("PATH").unwrap_or_default();
        sealed.extend(std::env::split_paths(&path).filter(|folder| folder.is_absolute()));
        for root in self.roots {
            let found = survey(root, self.env_files);
            masks.extend(found.secrets.into_iter().take(limits::MASKED_SECRETS));
            sealed.extend(found.git.iter().flat_map(|git| git_sealed(git)));
        }
        let mut sealed = real(&sealed);
        sealed.retain(|path| self.in_roots(path));
        Hidden {
            masks: outermost(real(&masks)),
            sealed,
        }
    }

    fn in_roots(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
    }
}

impl Hidden {
    /// Seals git's files of the repositories around a working folder too, however deep it lies.
    pub(super) fn seal_around(&mut self, cwd: &Path, roots: &[PathBuf]) {
        let around = cwd.ancestors().map(|folder| folder.join(".git"));
        let inside = around.filter(|git| roots.iter().any(|root| git.starts_with(root)));
        let files: Vec<PathBuf> = inside.flat_map(|git| git_sealed(&git)).collect();
        self.sealed.extend(real(&files));
        self.sealed.sort();
        self.sealed.dedup();
    }
}

/// Git's sealed files below this `.git`, and the link itself where it is a file.
fn git_sealed(git: &Path) -> Vec<PathBuf> {
    if git.is_file() {
        return vec![git.to_path_buf()];
    }
    GIT_SEALED.iter().map(|name| git.join(name)).collect()
}

/// Those that exist, by their real names, each once.
fn real(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut real: Vec<PathBuf> = paths.iter().filter_map(|p| p.canonicalize().ok()).collect();
    real.sort();
    real.dedup();
    real
}

/// A mask below another is hidden already, and its mount point is gone.
fn outermost(sorted: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut outermost: Vec<PathBuf> = Vec::new();
    for path in sorted {
        if !outermost.last().is_some_and(|last| path.starts_with(last)) {
            outermost.push(path);
        }
    }
    outermost
}

/// Our own programs, where they are installed: they run unconfined, so that a workspace around
/// them must not let a child put others in their place.
pub fn own_programs() -> Vec<PathBuf> {
    const NAMES: &[&str] = &[
        "hands-mcp",
        "hands-runner",
        "handsctl",
        "handsd",
        "hands-tunnel",
    ];
    let Ok(own) = std::env::current_exe() else {
        return Vec::new();
    };
    let beside = NAMES.iter().map(|name| own.with_file_name(name));
    beside.filter_map(|path| path.canonicalize().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(home: &Path, roots: &[PathBuf], extra: &[PathBuf]) -> Hidden {
        Search {
            user_home: home,
            hands_home: &home.join("hands"),
            extra_protected: extra,
            env_files: true,
            roots,
        }
        .look()
    }

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        (folder, path)
    }

    #[test]
    fn masks_exist_and_do_not_nest() {
        let (_keep, home) = folder();
        std::fs::create_dir_all(home.join(".ssh/keys")).unwrap();
        std::fs::create_dir_all(home.join("hands")).unwrap();
        std::fs::write(home.join(".bash_history"), "secret").unwrap();
        let extra = [home.join(".ssh/keys"), home.join("gone")];
        let masks = look(&home, &[], &extra).masks;
        for name in [".ssh", "hands", ".bash_history"] {
            assert!(masks.contains(&home.join(name)), "{name}: {masks:?}");
        }
        assert!(!masks.contains(&home.join(".ssh/keys")));
        assert!(!masks.contains(&home.join("gone")));
    }

    #[test]
    fn secrets_in_a_workspace_are_masked_and_git_files_sealed() {
        let (_keep, root) = folder();
        std::fs::create_dir_all(root.join("a/.git/hooks")).unwrap();
        std::fs::write(root.join("a/.git/config"), "").unwrap();
        std::fs::write(root.join("a/.env"), "").unwrap();
        let (_keep, home) = folder();
        let found = look(&home, &[root.clone()], &[]);
        assert!(found.masks.contains(&root.join("a/.env")));
        assert_eq!(
            found.sealed,
            [root.join("a/.git/config"), root.join("a/.git/hooks")]
        );
    }

    #[test]
    fn the_repository_around_a_deep_folder_is_sealed_too() {
        let (_keep, root) = folder();
        let deep = root.join("1/2/3/4/5/6/7/8/9/10");
        std::fs::create_dir_all(deep.join(".git/hooks")).unwrap();
        let (_keep, home) = folder();
        let mut found = look(&home, &[root.clone()], &[]);
        assert!(found.sealed.is_empty());
        found.seal_around(&deep, &[root]);
        assert_eq!(found.sealed, [deep.join(".git/hooks")]);
    }
}
