//! What a child must not see, and what in a workspace it must not write.

use hands_policy::protected::Denies;
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

/// Every existing path that is hidden from a child, by its real name.
pub(super) fn masks(user_home: &Path, hands_home: &Path, extra: &[PathBuf]) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = vec![hands_home.to_path_buf()];
    all.extend(secrets(user_home));
    all.extend(extra.iter().cloned());
    all.extend(SOCKETS.iter().chain(SYSTEM_SECRETS).map(PathBuf::from));
    all.extend(std::env::var_os("SSH_AUTH_SOCK").map(PathBuf::from));
    let mut real: Vec<PathBuf> = all.iter().filter_map(|p| p.canonicalize().ok()).collect();
    real.sort();
    real.dedup();
    // A mask below another is hidden already, and its mount point is gone.
    let mut outermost: Vec<PathBuf> = Vec::new();
    for path in real {
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

/// What of the person's home is protected for reading.
fn secrets(user_home: &Path) -> impl Iterator<Item = PathBuf> {
    let listed = hands_policy::protected::literal_in_home(user_home).into_iter();
    listed.filter_map(|(path, denies)| (denies == Denies::ReadWrite).then_some(path))
}

/// What stays read-only inside the roots: our own programs, and git's sealed files in the
/// repositories that the command is most likely to meet, those at the roots and the one that
/// holds its working folder.
pub(super) fn sealed(roots: &[&PathBuf], cwd: &Path) -> Vec<PathBuf> {
    let mut repositories: Vec<PathBuf> = roots.iter().map(|r| r.to_path_buf()).collect();
    repositories.extend(cwd.ancestors().map(Path::to_path_buf));
    let in_roots = |path: &PathBuf| roots.iter().any(|root| path.starts_with(root));
    let mut sealed: Vec<PathBuf> = own_programs().into_iter().filter(in_roots).collect();
    for repository in repositories {
        let git = repository.join(".git");
        if !git.is_dir() || !in_roots(&git) {
            continue;
        }
        let present = GIT_SEALED
            .iter()
            .map(|name| git.join(name))
            .filter(|p| p.exists());
        sealed.extend(present.filter_map(|p| p.canonicalize().ok()));
    }
    sealed.sort();
    sealed.dedup();
    sealed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_exist_and_do_not_nest() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        std::fs::create_dir_all(home.join(".ssh/keys")).unwrap();
        std::fs::create_dir_all(home.join("hands")).unwrap();
        let extra = [home.join(".ssh/keys"), home.join("gone")];
        let masks = masks(&home, &home.join("hands"), &extra);
        assert!(masks.contains(&home.join(".ssh")));
        assert!(masks.contains(&home.join("hands")));
        assert!(!masks.contains(&home.join(".ssh/keys")));
        assert!(!masks.contains(&home.join("gone")));
    }

    #[test]
    fn git_files_of_the_repository_around_are_sealed() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let deep = root.join("a/b");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::create_dir_all(root.join("a/.git/hooks")).unwrap();
        std::fs::write(root.join("a/.git/config"), "").unwrap();
        let sealed = sealed(&[&root], &deep);
        assert_eq!(
            sealed,
            [root.join("a/.git/config"), root.join("a/.git/hooks")]
        );
    }
}
