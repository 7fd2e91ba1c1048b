//! Which folder a person means when they grant or revoke one.

use super::{Intent, Kind, PathPolicy, Refusal, RefusalKind};
use std::path::{Component, Path, PathBuf};

impl PathPolicy {
    /// The folder key that a person names: a workspace (the files directly in it), a top-level
    /// folder of one, or a folder of `[write] extra`. It must be there.
    ///
    /// The path must be the folder's own: one that leads there by a link is refused, for it may
    /// have been the planner who made the link and named it. The spelling that the configuration
    /// gives a workspace counts as its own.
    ///
    /// # Errors
    /// `Validation` with the path to name instead; `NotFound`; `Protected` where nothing is changed
    /// in place at all.
    pub fn grant_folder(&self, text: &str) -> Result<PathBuf, Refusal> {
        if !text.starts_with('/') {
            return Err(wrong(format!(
                "cannot grant {text}: the path is not absolute"
            )));
        }
        let target = self.resolve(text, None)?;
        let place = target.write_place();
        self.judged(&target, place, Intent::Write)?;
        let found = self.root_of(&place.real).filter(|_| !place.private);
        let Some(found) = found else {
            return Err(Refusal::new(
                RefusalKind::Protected,
                format!(
                    "cannot grant {}: it is in no workspace and no folder of write.extra, and an existing file \
                     elsewhere is never changed",
                    target.name()
                ),
            )
            .rule("outside_workspace"));
        };
        let root = &found.root.real;
        let below = place.real.strip_prefix(root).unwrap_or(Path::new(""));
        let key = match below.components().next().filter(|_| found.workspace) {
            Some(first) => root.join(first),
            None => root.clone(),
        };
        let Some(meta) = place.meta else {
            return Err(self.not_found(&target));
        };
        let instead = |why: &str| {
            wrong(format!("cannot grant {}: {why}", target.name())).hint(format!(
                "name {} itself",
                shown(&key, &place.real, meta.kind)
            ))
        };
        if key != place.real || meta.kind != Kind::Dir {
            return Err(instead(
                "a grant is for a whole top-level folder of a workspace, or for the files directly in one",
            ));
        }
        let spelt = Path::new(text);
        let own = is_spelt(spelt, root, below) || is_spelt(spelt, &found.root.given, below);
        match own {
            true => Ok(key),
            false => Err(instead("that path leads there by a link or by `..`")),
        }
    }
}

/// The folder to name: of a file directly in a workspace that is the workspace.
fn shown(key: &Path, real: &Path, kind: Kind) -> String {
    let of_file = key == real && kind != Kind::Dir;
    let folder = key.parent().filter(|_| of_file);
    folder.unwrap_or(key).display().to_string()
}

/// Whether a path is spelt as `root`, then `below`; slashes may repeat and end it.
fn is_spelt(path: &Path, root: &Path, below: &Path) -> bool {
    let up = path.components().any(|part| part == Component::ParentDir);
    !up && path.components().eq(root.join(below).components())
}

fn wrong(message: String) -> Refusal {
    Refusal::new(RefusalKind::Validation, message).rule("grant_folder")
}
