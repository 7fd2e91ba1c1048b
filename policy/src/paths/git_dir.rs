//! Git directories under any name: a bare repository, or one that a `.git` file points to.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{self, AtFlags, FileType};

use super::judge::Hit;
use super::look;
use super::target::Place;
use crate::protected::fold;

/// Names directly in a git directory through which commands are run later.
const CONTROLS: &[&str] = &["hooks", "config", "config.worktree", "commondir"];

/// Whether writing to `place` would change what a git directory makes git run. Patterns know the directories called
/// `.git` or `x.git`; this looks at what the folder holds.
pub(super) fn controls(place: &Place) -> Option<Hit> {
    let base = place.base.as_fd();
    let inside = place.tail.first().map(|name| fold(name));
    let last = place.base_path.file_name().map(fold);
    let named = inside.as_deref().is_some_and(|name| {
        CONTROLS.contains(&name)
            || (name == "info" && place.tail.get(1).is_some_and(|n| fold(n) == "attributes"))
    });
    let in_folder = matches!(
        (last.as_deref(), inside.as_deref()),
        (Some("hooks"), Some(_)) | (Some("info"), Some("attributes"))
    );
    let hit = (named && is_git_dir(base))
        || (in_folder
            && look::open_folder(base, OsStr::new(".."))
                .map_or(true, |(above, _)| is_git_dir(above.as_fd())));
    hit.then_some(Hit {
        why: "what git runs",
        rule: "git_control",
    })
}

/// A git directory has a file `HEAD` and folders `objects` and `refs`.
fn is_git_dir(dir: BorrowedFd<'_>) -> bool {
    let has = |name: &str, kind: FileType| {
        fs::statat(dir, name, AtFlags::empty()).is_ok_and(|stat| look::file_type(&stat) == kind)
    };
    has("HEAD", FileType::RegularFile)
        && has("objects", FileType::Directory)
        && has("refs", FileType::Directory)
}
