//! The home folder: where it is, what lies where in it, and making it private.

use crate::env::Env;
use crate::error::{ConfigError, Place};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, RawMode, Stat};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// Owner only.
const PRIVATE: Mode = Mode::RWXU;

/// Folders of a home, made in this order.
const FOLDERS: &[&str] = &[
    "logs",
    "trail",
    "work",
    "work/recovery",
    "work/jobs",
    "work/scratch",
    "work/tool_mcp",
    "run",
];

/// What marks a folder as a home of ours. Names that other folders have too (`run`, `logs`) are no proof.
const MARKS: &[&str] = &["config.toml", "trail"];

/// What [`Home::inspect`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// There is no home yet; the first start makes it.
    Missing,
    /// Only its owner reaches it.
    Private,
    /// Group or others have rights on it; the next start takes them away.
    OpenToOthers,
}

/// The folder that holds everything Hands keeps. Making a value touches no file; see [`Home::prepare`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
}

impl Home {
    /// The home: the flag, else `HANDS_HOME`, else the platform's folder for data.
    ///
    /// # Errors
    /// The path is relative, is `/` or is the person's own home folder, or no place is known.
    pub fn locate(env: &Env, flag: Option<&Path>) -> Result<Home, ConfigError> {
        let (path, place) = match (flag, env.get("HANDS_HOME")) {
            (Some(path), _) => (path.to_path_buf(), Place::Flag("--home".to_owned())),
            (None, Some(text)) => (PathBuf::from(text), Place::Env("HANDS_HOME".to_owned())),
            (None, None) => (platform_place()?, Place::Default),
        };
        let wrong = |reason: &str| {
            ConfigError::new(place.clone(), format!("{} {reason}", path.display()))
                .hint("give the absolute path of a folder of its own")
        };
        if !path.is_absolute() {
            return Err(wrong("is not absolute"));
        }
        let dotted = path
            .components()
            .any(|part| part == std::path::Component::ParentDir);
        if dotted {
            return Err(wrong("contains `..`"));
        }
        if path.parent().is_none() || env.user_home().is_some_and(|home| home == path) {
            return Err(wrong("cannot be the home of Hands"));
        }
        Ok(Home::at(path.components().collect::<PathBuf>()))
    }

    /// The home at this absolute path.
    pub fn at(root: impl Into<PathBuf>) -> Home {
        Home { root: root.into() }
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// `config.toml`.
    pub fn config_file(&self) -> PathBuf {
        self.root.join("config.toml")
    }

    /// Folder of the logs.
    pub fn logs_dir(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// The activity log, one record a line.
    pub fn activity_log(&self) -> PathBuf {
        self.root.join("logs/agent_activity.jsonl")
    }

    /// Starts, stops and signals of processes.
    pub fn lifecycle_log(&self) -> PathBuf {
        self.root.join("logs/server_lifecycle.jsonl")
    }

    /// Panics and fatal faults.
    pub fn faults_log(&self) -> PathBuf {
        self.root.join("logs/server_faults.log")
    }

    /// The trail's key and the heads of its chains; beside the logs, not in them.
    pub fn trail_dir(&self) -> PathBuf {
        self.root.join("trail")
    }

    /// The tunnel's API key, where the configuration names no other file.
    pub fn tunnel_key_file(&self) -> PathBuf {
        self.root.join("tunnel.key")
    }

    /// Everything that tools produce.
    pub fn work_dir(&self) -> PathBuf {
        self.root.join("work")
    }

    /// Previous contents and whole outputs.
    pub fn recovery_dir(&self) -> PathBuf {
        self.root.join("work/recovery")
    }

    /// Jobs and their logs.
    pub fn jobs_dir(&self) -> PathBuf {
        self.root.join("work/jobs")
    }

    /// Private temporary folders of sessions.
    pub fn scratch_dir(&self) -> PathBuf {
        self.root.join("work/scratch")
    }

    /// Sockets and lock files.
    pub fn run_dir(&self) -> PathBuf {
        self.root.join("run")
    }

    /// Makes the home and its folders, mode 0700. Returns what was mended, in sentences for a person.
    ///
    /// # Errors
    /// The home is a file, belongs to another user, is a link to a place that others may write, is open to others and not
    /// recognisably a home of ours, or a folder of it is a link or cannot be made.
    pub fn prepare(&self) -> Result<Vec<String>, ConfigError> {
        self.check_link()?;
        self.create_root()?;
        let root = self.open_root()?;
        let mut notes = Vec::new();
        if self.tighten(&root)? {
            notes.push(format!(
                "home {}: others could reach it; its mode is 0700 now",
                self.root.display()
            ));
        }
        for folder in FOLDERS {
            self.make_folder(&root, folder)?;
        }
        Ok(notes)
    }

    /// Looks at the home without changing anything.
    ///
    /// # Errors
    /// The home cannot be used: it is a file, belongs to another user, or is a link to a place that others may write.
    pub fn inspect(&self) -> Result<Presence, ConfigError> {
        self.check_link()?;
        if !self.root.exists() {
            return Ok(Presence::Missing);
        }
        let root = self.open_root()?;
        if mode_bits(&self.stat(&root)?) & 0o077 == 0 {
            Ok(Presence::Private)
        } else {
            Ok(Presence::OpenToOthers)
        }
    }

    fn error(&self, reason: impl Into<String>) -> ConfigError {
        ConfigError::home(&self.root, reason)
    }

    fn stat(&self, folder: impl AsFd) -> Result<Stat, ConfigError> {
        rustix::fs::fstat(folder)
            .map_err(|errno| self.error(format!("cannot be looked at: {errno}")))
    }

    /// A home may be a link, but not to where others could put something else in its place.
    fn check_link(&self) -> Result<(), ConfigError> {
        let is_link = std::fs::symlink_metadata(&self.root).is_ok_and(|meta| meta.is_symlink());
        if !is_link {
            return Ok(());
        }
        let target = self.root.canonicalize().map_err(|cause| {
            self.error(format!("is a link whose target cannot be found: {cause}"))
                .hint("make the target folder, or remove the link")
        })?;
        for folder in target.ancestors() {
            let stat = rustix::fs::stat(folder).map_err(|errno| {
                self.error(format!("cannot look at {}: {errno}", folder.display()))
            })?;
            let bits = mode_bits(&stat);
            // In a folder with the sticky bit others cannot replace what is ours, so it is enough that the folder
            // right around the home is ours alone.
            let sticky = bits & 0o1000 != 0 && folder != target && Some(folder) != target.parent();
            if bits & 0o022 != 0 && !sticky {
                return Err(self
                    .error(format!(
                        "is a link to {}, and {} may be written by others",
                        target.display(),
                        folder.display()
                    ))
                    .hint("move it to a folder that only you may write"));
            }
        }
        Ok(())
    }

    fn create_root(&self) -> Result<(), ConfigError> {
        use std::os::unix::fs::DirBuilderExt;
        if self.root.exists() {
            return Ok(());
        }
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.root)
            .map_err(|cause| {
                self.error(format!("cannot be created: {cause}"))
                    .hint("set HANDS_HOME to a folder that you may write")
            })
    }

    fn open_root(&self) -> Result<OwnedFd, ConfigError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&self.root, flags, Mode::empty()).map_err(|errno| {
            self.error(match errno {
                Errno::NOTDIR => "is not a folder".to_owned(),
                errno => format!("cannot be opened: {errno}"),
            })
            .hint("set HANDS_HOME to a folder of your own")
        })?;
        let owner = self.stat(&root)?.st_uid;
        let me = rustix::process::geteuid().as_raw();
        if owner != me {
            return Err(self
                .error(format!(
                    "belongs to user {owner}, this process runs as user {me}"
                ))
                .hint("set HANDS_HOME to a folder of your own"));
        }
        Ok(root)
    }

    /// Takes the rights of group and others away. True if there were any.
    fn tighten(&self, root: &OwnedFd) -> Result<bool, ConfigError> {
        let bits = mode_bits(&self.stat(root)?);
        if bits & 0o077 == 0 {
            return Ok(false);
        }
        if !self.is_ours() {
            // Closing a folder that other things live in (`/tmp`, a shared disk) would break them.
            return Err(self
                .error(format!(
                    "is open to others (mode {bits:04o}) and holds other things"
                ))
                .hint("give Hands a folder of its own, or `chmod 700` this one"));
        }
        rustix::fs::fchmod(root, PRIVATE)
            .map_err(|errno| self.error(format!("its mode cannot be set to 0700: {errno}")))?;
        Ok(true)
    }

    /// Empty, or with something of ours in it.
    fn is_ours(&self) -> bool {
        let marked = MARKS
            .iter()
            .any(|mark| self.root.join(mark).symlink_metadata().is_ok());
        marked || std::fs::read_dir(&self.root).is_ok_and(|mut entries| entries.next().is_none())
    }

    fn make_folder(&self, root: &OwnedFd, name: &str) -> Result<(), ConfigError> {
        let error = |reason: String| self.error(format!("its folder {name} {reason}"));
        match rustix::fs::mkdirat(root, name, PRIVATE) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(error(format!("cannot be created: {errno}"))),
        }
        let stat = rustix::fs::statat(root, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| error(format!("cannot be looked at: {errno}")))?;
        if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::Directory {
            return Err(error("is not a folder (a link is not accepted)".to_owned())
                .hint("move it away; to keep the home elsewhere, set HANDS_HOME"));
        }
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(error(format!("belongs to user {}", stat.st_uid)));
        }
        if mode_bits(&stat) & 0o077 != 0 {
            rustix::fs::chmodat(root, name, PRIVATE, AtFlags::empty())
                .map_err(|errno| error(format!("cannot be set to mode 0700: {errno}")))?;
        }
        Ok(())
    }
}

/// The permission bits, with the sticky bit.
fn mode_bits(stat: &Stat) -> RawMode {
    Mode::from_raw_mode(stat.st_mode).bits() & 0o7777
}

fn platform_place() -> Result<PathBuf, ConfigError> {
    directories::ProjectDirs::from("", "", "hands")
        .map(|dirs| dirs.data_dir().to_path_buf())
        .ok_or_else(|| {
            ConfigError::new(
                Place::Default,
                "no place for the home is known: this user has no home folder",
            )
            .hint("set HANDS_HOME")
        })
}
