//! What a child must not see, and what in a workspace it must not write.

use super::sockets;
use crate::limits;
use hands_policy::protected::{Denies, existing_in_home, survey};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Sockets and folders of sockets through which a child could have somebody else act for it
/// (the sockets inside `/run`, not `/run` itself: name resolution and NixOS's
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
    "/run/k3s",
    "/run/buildkit",
    "/var/snap/lxd",
    "/var/lib/lxd",
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

/// The same in the person's home.
const SOCKETS_IN_HOME: &[&str] = &[
    ".docker/run",
    ".colima",
    ".orbstack/run",
    ".lima",
    ".rd",
    ".1password",
    ".gnupg",
    ".local/share/containers/podman",
];

/// Folders without which nothing runs: never masked, whatever leads to them.
const GROUND: &[&str] = &[
    "/bin", "/dev", "/etc", "/home", "/lib", "/lib64", "/opt", "/proc", "/run", "/sbin", "/sys",
    "/tmp", "/usr", "/var",
];

/// System files that even a shell has no business reading.
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

/// What a look at the disk found.
#[derive(Debug, Clone, Default)]
pub(super) struct Hidden {
    /// Existing paths that a child must not see, by their real names, none below another.
    pub(super) masks: Vec<PathBuf>,
    /// Paths inside the roots that a child must not write. Among them what makes each repository's
    /// git run something: its hooks and its configuration are run later, outside. Where commands
    /// cannot rename, every `.git` is sealed whole: git works by making lock files and renaming
    /// them; it must fail before it leaves a lock behind that stops the person's own git.
    pub(super) sealed: Vec<PathBuf>,
}

/// What in a git directory makes git run something, or leads it to other settings. Those that do
/// not exist must not come to be.
const GIT_CONTROL: &[&str] = &[
    "hooks",
    "config",
    "config.worktree",
    "commondir",
    "info/attributes",
];
/// The same for Mercurial.
const HG_CONTROL: &[&str] = &["hgrc", "hgrc-not-shared"];

/// What is sealed of a repository: its git directory, or the file that names one.
fn control_of(repository: &Path, whole: bool) -> Vec<PathBuf> {
    let Ok(real) = repository.canonicalize() else {
        return Vec::new();
    };
    if whole || !real.is_dir() {
        return vec![real];
    }
    let names = match real.ends_with(".hg") {
        true => HG_CONTROL,
        false => GIT_CONTROL,
    };
    names.iter().map(|name| real.join(name)).collect()
}

/// Where to look.
pub(super) struct Search<'a> {
    pub(super) user_home: &'a Path,
    pub(super) hands_home: &'a Path,
    pub(super) extra_protected: &'a [PathBuf],
    pub(super) env_files: bool,
    /// Whether repositories are sealed whole, and not only what git runs.
    pub(super) whole_repositories: bool,
    /// The writable roots, by their real paths.
    pub(super) roots: &'a [PathBuf],
    /// How long the look may take; zero: the roots are not looked through.
    pub(super) patience: Duration,
}

/// Why no command may run: what must be hidden is not known, or is too much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unknown {
    pub(super) message: String,
    pub(super) hint: &'static str,
}

impl Search<'_> {
    /// Looks at the disk. Takes a while in a large workspace, so that the caller remembers what
    /// was found.
    ///
    /// # Errors
    /// When not all could be seen, or more was found than a sandbox can hide: a guard that does
    /// not know refuses.
    pub(super) fn look(&self) -> Result<Hidden, Unknown> {
        let mut masks = Vec::new();
        let mut sealed = own_programs();
        for (path, denies) in existing_in_home(self.user_home) {
            match denies {
                Denies::ReadWrite => {
                    masks.extend(linked_from(&path));
                    masks.push(path);
                }
                Denies::Write => sealed.push(path),
            }
        }
        let in_home = SOCKETS_IN_HOME.iter().map(|name| self.user_home.join(name));
        masks.extend(in_home);
        masks.retain(|path| self.may_be_masked(path));
        masks.push(self.hands_home.to_path_buf());
        masks.extend(self.extra_protected.iter().cloned());
        masks.extend(SOCKETS.iter().chain(SYSTEM_SECRETS).map(PathBuf::from));
        let named = sockets::named_in(|name| std::env::var_os(name)).into_iter();
        masks.extend(named.filter(|path| self.may_be_masked(path)));
        let path = std::env::var_os("PATH").unwrap_or_default();
        sealed.extend(std::env::split_paths(&path).filter(|folder| folder.is_absolute()));
        let mut repositories = Vec::new();
        if !self.patience.is_zero() {
            self.look_through_roots(&mut masks, &mut repositories)?;
        }
        let mut sealed = real(&sealed);
        for repository in repositories {
            sealed.extend(control_of(&repository, self.whole_repositories));
        }
        sealed.sort();
        sealed.dedup();
        sealed.retain(|path| self.in_roots(path));
        let hidden = Hidden {
            masks: outermost(real(&masks)),
            sealed,
        };
        hidden.check_number()?;
        Ok(hidden)
    }

    fn look_through_roots(
        &self,
        masks: &mut Vec<PathBuf>,
        repositories: &mut Vec<PathBuf>,
    ) -> Result<(), Unknown> {
        let deadline = Instant::now() + self.patience;
        for root in self.roots {
            let found = survey(root, self.env_files, deadline);
            if !found.complete {
                return Err(Unknown {
                    message: format!(
                        "no command runs: {} could not be looked through for secrets within {} s \
                         ({} entries were seen)",
                        root.display(),
                        self.patience.as_secs(),
                        found.entries
                    ),
                    hint: "Ask your user to name smaller workspaces or to raise \
                           `protect.search_s` (0 turns the look off).",
                });
            }
            let secrets = found.secrets.into_iter();
            masks.extend(secrets.filter(|path| self.may_be_masked(path)));
            repositories.extend(found.repositories);
        }
        Ok(())
    }

    /// Whether hiding what this name leads to hides a secret, and not the ground that commands
    /// stand on: a link may lead anywhere, and a planner can make one.
    fn may_be_masked(&self, path: &Path) -> bool {
        let Ok(real) = path.canonicalize() else {
            return false;
        };
        let is_link = path.is_symlink();
        let holds = |inner: &Path| inner.starts_with(&real);
        let ground = self.roots.iter().any(|root| holds(root))
            || holds(self.user_home)
            || holds(self.hands_home)
            || GROUND.iter().any(|folder| holds(Path::new(folder)));
        let in_home = path.parent().is_some_and(|p| !self.in_roots(p));
        !ground && (!is_link || real.is_file() || in_home)
    }

    fn in_roots(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
    }
}

/// Files outside a folder of credentials to which links in it lead.
fn linked_from(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let links = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_symlink());
    links.filter(|path| path.is_file()).collect()
}

impl Hidden {
    fn check_number(&self) -> Result<(), Unknown> {
        let sealed = self.sealed.iter().filter(|path| path.exists()).count();
        let number = self.masks.len() + sealed;
        if number <= limits::HIDDEN_MOUNTS {
            return Ok(());
        }
        Err(Unknown {
            message: format!(
                "no command runs: {number} secrets and repositories lie in the workspaces, and the \
                 sandbox can hide {} at most",
                limits::HIDDEN_MOUNTS
            ),
            hint: "Ask your user to name smaller workspaces.",
        })
    }

    /// Seals the repositories around a working folder too, also where the roots were not looked
    /// through.
    pub(super) fn seal_around(&mut self, cwd: &Path, roots: &[PathBuf], whole: bool) {
        let around = cwd.ancestors().map(|folder| folder.join(".git"));
        let inside = around.filter(|git| roots.iter().any(|root| git.starts_with(root)));
        for repository in inside {
            self.sealed.extend(control_of(&repository, whole));
        }
        self.sealed.sort();
        self.sealed.dedup();
    }
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
        look_for(home, roots, extra, true)
    }

    fn look_for(home: &Path, roots: &[PathBuf], extra: &[PathBuf], whole: bool) -> Hidden {
        Search {
            whole_repositories: whole,
            user_home: home,
            hands_home: &home.join("hands"),
            extra_protected: extra,
            env_files: true,
            roots,
            patience: Duration::from_secs(60),
        }
        .look()
        .unwrap()
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
        let found = look(&home, std::slice::from_ref(&root), &[]);
        assert!(found.masks.contains(&root.join("a/.env")));
        assert_eq!(found.sealed, [root.join("a/.git")]);
        std::fs::write(root.join("a/b"), "").unwrap();
        std::fs::create_dir_all(root.join("a/sub")).unwrap();
        std::fs::write(root.join("a/sub/.git"), "gitdir: ../.git/modules/sub").unwrap();
        let sealed = look_for(&home, std::slice::from_ref(&root), &[], false).sealed;
        for name in ["hooks", "config", "config.worktree", "info/attributes"] {
            assert!(sealed.contains(&root.join("a/.git").join(name)), "{name}");
        }
        assert!(sealed.contains(&root.join("a/sub/.git")));
        assert!(!sealed.contains(&root.join("a/.git")));
    }

    #[test]
    fn a_link_hides_a_secret_but_not_the_ground() {
        let (_keep, root) = folder();
        let (_keep, home) = folder();
        std::fs::write(root.join("plain"), "secret").unwrap();
        for (name, to) in [
            (".env", root.join("plain")),
            (".env.a", "/".into()),
            (".env.b", "/usr".into()),
            (".env.c", "/tmp".into()),
            (".env.d", root.clone()),
            (".env.e", "/usr/bin".into()),
        ] {
            std::os::unix::fs::symlink(to, root.join(name)).unwrap();
        }
        let masks = look(&home, std::slice::from_ref(&root), &[]).masks;
        assert!(masks.contains(&root.join("plain")), "{masks:?}");
        for ground in ["/", "/usr", "/tmp", "/usr/bin"] {
            assert!(!masks.contains(&PathBuf::from(ground)), "{masks:?}");
        }
        assert!(!masks.contains(&root));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let (_keep, root) = folder();
        let (_keep, home) = folder();
        let roots = [root.clone()];
        let mut search = Search {
            whole_repositories: true,
            user_home: &home,
            hands_home: &home.join("hands"),
            extra_protected: &[],
            env_files: true,
            roots: &roots,
            patience: Duration::from_nanos(1),
        };
        let refused = search.look().unwrap_err();
        assert!(refused.message.contains("could not be looked through"));
        search.patience = Duration::ZERO;
        assert!(search.look().is_ok());
        search.patience = Duration::from_secs(60);
        for n in 0..=limits::HIDDEN_MOUNTS {
            std::fs::write(root.join(format!(".env.{n}")), "").unwrap();
        }
        let refused = search.look().unwrap_err();
        assert!(refused.message.contains("at most"), "{}", refused.message);
    }

    #[test]
    fn a_link_out_of_a_folder_of_credentials_is_followed() {
        let (_keep, home) = folder();
        std::fs::create_dir_all(home.join(".aws")).unwrap();
        std::fs::create_dir_all(home.join("dot")).unwrap();
        std::fs::write(home.join("dot/awscred"), "secret").unwrap();
        std::os::unix::fs::symlink(home.join("dot/awscred"), home.join(".aws/credentials"))
            .unwrap();
        let masks = look(&home, &[], &[]).masks;
        assert!(masks.contains(&home.join("dot/awscred")), "{masks:?}");
    }

    #[test]
    fn the_repository_around_a_folder_is_sealed_without_a_look() {
        let (_keep, root) = folder();
        let deep = root.join("1/2");
        std::fs::create_dir_all(deep.join(".git/hooks")).unwrap();
        let mut hidden = Hidden::default();
        hidden.seal_around(&deep, &[root], true);
        assert_eq!(hidden.sealed, [deep.join(".git")]);
    }
}
