//! Whether a folder can really be written, and what mends it if not.
//!
//! Permission bits tell half of it: a disk may be mounted read-only, full, or frozen. So a file is made and taken away.

use crate::programs::quoted;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatVfsMountFlags};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// What is wrong with a folder, and what mends it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    /// Follows "it cannot be …: ".
    pub(super) why: String,
    pub(super) mend: String,
}

impl Trouble {
    fn new(why: impl Into<String>, mend: impl Into<String>) -> Trouble {
        Trouble {
            why: why.into(),
            mend: mend.into(),
        }
    }
}

/// Makes a file in the folder and removes it again. `elsewhere` says how to use another folder instead.
pub(super) fn writable(folder: &Path, elsewhere: &str) -> Result<(), Trouble> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let there = rustix::fs::open(folder, flags, Mode::empty())
        .map_err(|errno| explain(folder, errno, elsewhere))?;
    let name = format!(".handsctl-doctor-{}", std::process::id());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(&there, &name, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|errno| explain(folder, errno, elsewhere))?;
    rustix::fs::unlinkat(&there, &name, AtFlags::empty()).map_err(|errno| {
        Trouble::new(
            format!("a file can be made in it, not removed: {errno}"),
            format!("rm {}", quoted(&folder.join(&name))),
        )
    })
}

/// Whether a folder that is not there can be made, together with what is missing above it.
pub(super) fn can_be_made(path: &Path, elsewhere: &str) -> Result<(), Trouble> {
    for place in path.ancestors() {
        match place.symlink_metadata() {
            Ok(_) if place.is_dir() => return writable(place, elsewhere),
            Ok(meta) if meta.is_symlink() => return Err(leads_nowhere(place)),
            Ok(_) => {
                return Err(Trouble::new(
                    format!("{} is not a folder", place.display()),
                    elsewhere,
                ));
            }
            // A file on the way; the next turn finds it.
            Err(cause) if cause.kind() == std::io::ErrorKind::NotADirectory => {}
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {}
            Err(cause) => {
                let errno = Errno::from_io_error(&cause).unwrap_or(Errno::IO);
                let above = place.parent().unwrap_or(place);
                return Err(explain(above, errno, elsewhere));
            }
        }
    }
    Err(Trouble::new("nothing is above it", elsewhere))
}

/// The trouble with a link whose target is missing.
pub(super) fn leads_nowhere(link: &Path) -> Trouble {
    let target = std::fs::read_link(link).unwrap_or_default();
    Trouble::new(
        format!(
            "{} is a link to {}, which is not there",
            link.display(),
            target.display()
        ),
        format!("make its target, or rm {}", quoted(link)),
    )
}

/// What an error of opening or writing a folder means for a person.
pub(super) fn explain(folder: &Path, errno: Errno, elsewhere: &str) -> Trouble {
    let shown = folder.display();
    if errno == Errno::ROFS || is_read_only(folder) {
        return Trouble::new(
            format!("the disk of {shown} is mounted read-only"),
            format!("mount it writable (its permissions are not the cause), or {elsewhere}"),
        );
    }
    match errno {
        Errno::NOSPC | Errno::DQUOT => Trouble::new(
            format!("no space is left on the disk of {shown}: {errno}"),
            "free some space there",
        ),
        Errno::ACCESS | Errno::PERM => denied(folder, errno, elsewhere),
        errno => Trouble::new(format!("{shown}: {errno}"), elsewhere),
    }
}

fn is_read_only(folder: &Path) -> bool {
    rustix::fs::statvfs(folder).is_ok_and(|stat| stat.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// A refusal: the first folder from the top whose owner or mode explains it, else something stronger than a mode.
fn denied(folder: &Path, errno: Errno, elsewhere: &str) -> Trouble {
    let me = rustix::process::geteuid().as_raw();
    let mut ways: Vec<PathBuf> = folder.ancestors().map(Path::to_path_buf).collect();
    ways.reverse();
    for place in ways {
        let Ok(stat) = rustix::fs::stat(&place) else {
            break;
        };
        let wanted = if place == folder { 0o700 } else { 0o100 };
        let bits = stat.st_mode & 0o700;
        let shown = place.display();
        let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if stat.st_uid == me && is_folder && bits & wanted != wanted {
            return Trouble::new(
                format!("{shown} may not be written by its owner, you: {errno}"),
                format!("chmod u+rwx {}", quoted(&place)),
            );
        }
        if stat.st_uid != me && place == folder {
            return Trouble::new(
                format!(
                    "{shown} belongs to user {}, you are user {me}: {errno}",
                    stat.st_uid
                ),
                format!("sudo chown {me} {}, or {elsewhere}", quoted(&place)),
            );
        }
    }
    Trouble::new(
        format!("{}: {errno}", folder.display()),
        format!(
            "take away what forbids it (`lsattr -d` shows a frozen folder, or a security policy does), or {elsewhere}"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const ELSEWHERE: &str = "set X";

    #[test]
    fn what_can_be_written_is_left_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(writable(dir.path(), ELSEWHERE), Ok(()));
        assert_eq!(can_be_made(&dir.path().join("a/b/c"), ELSEWHERE), Ok(()));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_or_a_link_to_nowhere_on_the_way_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "x").unwrap();
        for path in [file.clone(), file.join("a"), file.join("a/b")] {
            let trouble = can_be_made(&path, ELSEWHERE).unwrap_err();
            assert_eq!(trouble.why, format!("{} is not a folder", file.display()));
        }
        let link = dir.path().join("link");
        symlink("/nowhere/x", &link).unwrap();
        let trouble = can_be_made(&link.join("home"), ELSEWHERE).unwrap_err();
        assert!(
            trouble
                .why
                .ends_with("link is a link to /nowhere/x, which is not there"),
            "{trouble:?}"
        );
        assert!(
            trouble.mend.starts_with("make its target, or rm '"),
            "{trouble:?}"
        );
    }

    #[test]
    fn each_error_has_a_mend_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let mend = |errno| explain(dir.path(), errno, ELSEWHERE).mend;
        assert!(mend(Errno::ROFS).starts_with("mount it writable"));
        assert_eq!(mend(Errno::NOSPC), "free some space there");
        assert_eq!(mend(Errno::DQUOT), "free some space there");
        assert!(mend(Errno::PERM).starts_with("take away what forbids it"));
        assert_eq!(mend(Errno::IO), ELSEWHERE);
    }
}
