//! Finding where the configured folders really are.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::policy::{Root, WritePlace};
use super::refusal::{Refusal, RefusalKind};
use super::target::{Place, Target};
use super::walk::{self, TmpView, View};

/// The real path of a configured folder. What does not exist keeps its name below the deepest folder that does, so a
/// disk that is plugged in later is found there; a path that cannot be walked keeps its spelling.
pub(super) fn real(given: &Path) -> PathBuf {
    if !given.is_absolute() {
        return given.to_owned();
    }
    match walk::walk(given, None, View::Host, &given.to_string_lossy()) {
        Ok(walked) => Place::new(walked, None).real,
        Err(_) => given.to_owned(),
    }
}

/// The configured folders with their real paths.
pub(super) fn roots(given: &[PathBuf]) -> Vec<Root> {
    given
        .iter()
        .map(|given| Root {
            given: given.clone(),
            real: real(given),
        })
        .collect()
}

/// The private `/tmp` at `folder`; `pinned` are real paths that are themselves even below the host's.
pub(super) fn tmp_view(folder: &Path, pinned: Vec<PathBuf>) -> TmpView {
    let own = std::env::var_os("TMPDIR").and_then(usable);
    let mut mounts = vec![real(Path::new("/tmp"))];
    mounts.extend(own.map(|own| real(&own)));
    mounts.dedup();
    TmpView {
        real: real(folder),
        mounts,
        pinned,
    }
}

/// `TMPDIR` as a path, unless it is nothing that could be a folder for temporary files.
fn usable(text: OsString) -> Option<PathBuf> {
    let path = PathBuf::from(text);
    (path.is_absolute() && path.parent().is_some()).then_some(path)
}

/// The root that holds a path.
pub(super) struct Found<'p> {
    pub(super) root: &'p Root,
    pub(super) workspace: bool,
}

impl Found<'_> {
    pub(super) fn write_place(
        &self,
        target: &Target,
        place: &Place,
    ) -> Result<WritePlace, Refusal> {
        let root = &self.root.real;
        if !place.base_path.starts_with(root) {
            return Err(Refusal::new(
                RefusalKind::NotFound,
                format!(
                    "cannot write {}: the folder it is to be in is not there (a disk that is not mounted?)",
                    target.name()
                ),
            )
            .hint("ask your user to connect it"));
        }
        if !self.workspace {
            return Ok(WritePlace::Extra { root: root.clone() });
        }
        let below = place.real.strip_prefix(root).unwrap_or(Path::new(""));
        let mut parts = below.components();
        let folder = match (parts.next(), parts.next()) {
            (Some(first), Some(_)) => root.join(first),
            _ => root.clone(),
        };
        Ok(WritePlace::Workspace {
            root: root.clone(),
            folder,
        })
    }
}
