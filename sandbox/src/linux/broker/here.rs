//! What lies in a command's folders: told by its mount, or, where nothing is mounted for the
//! command, by its path.

use super::object::{Stat, path_of};
use super::{Broker, Ground, mounts};
use crate::plan::{Mode, Plan, SHM};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Where a command's own ground is.
pub(super) enum Here {
    /// On the mounts of these folders: what is bound read-only or hidden in one is another mount.
    Mounts(Vec<(PathBuf, Ground)>),
    /// In these folders, and not in those without a ground; the innermost decides.
    Paths(Vec<(PathBuf, Option<Ground>)>),
}

impl Here {
    pub(super) fn of(plan: &Plan) -> Self {
        match plan.is_reduced() {
            true => Self::Paths(places(plan)),
            false => Self::Mounts(roots(plan)),
        }
    }

    /// The mounts that tell, of those that a caller sees.
    pub(super) fn mounts(&self, mountinfo: &[u8]) -> Vec<(u64, Ground)> {
        match self {
            Self::Mounts(roots) => mounts::of_roots(mountinfo, roots),
            Self::Paths(_) => Vec::new(),
        }
    }
}

fn roots(plan: &Plan) -> Vec<(PathBuf, Ground)> {
    let roots = plan.roots();
    let mut roots: Vec<_> = roots
        .map(|root| (root.clone(), Ground::Workspace))
        .collect();
    if plan.workspace_in_tmp() {
        roots.push(("/tmp".into(), Ground::Scratch));
    }
    if plan.workspace_in_shm() {
        roots.push((SHM.into(), Ground::Scratch));
    }
    roots
}

/// The folders of a plan, and what is closed, sealed and hidden in them.
fn places(plan: &Plan) -> Vec<(PathBuf, Option<Ground>)> {
    let mut places = vec![(plan.tmp.clone(), Some(Ground::Scratch))];
    if plan.mode != Mode::ReadOnly {
        places.extend(
            plan.roots()
                .map(|root| (root.clone(), Some(Ground::Workspace))),
        );
    }
    let shut = plan.closed.iter().chain(&plan.sealed).chain(&plan.masks);
    places.extend(shut.map(|place| (place.clone(), None)));
    places
}

/// On which ground a path lies. Of two places at one path the one without counts.
fn ground_at(places: &[(PathBuf, Option<Ground>)], path: &Path) -> Option<Ground> {
    let around = places.iter().filter(|(place, _)| path.starts_with(place));
    let innermost =
        around.max_by_key(|(place, ground)| (place.components().count(), ground.is_none()));
    innermost.and_then(|(_, ground)| *ground)
}

impl Broker {
    /// On which ground an object lies.
    pub(super) fn ground(&self, object: impl AsFd, seen: &Stat) -> Option<Ground> {
        match &self.here {
            Here::Mounts(_) => {
                let mounts = &self.view.get()?.mounts;
                let found = mounts.iter().find(|(mount, _)| *mount == seen.mount);
                found.map(|(_, ground)| *ground)
            }
            Here::Paths(places) => {
                let path = path_of(object).ok()?;
                ground_at(places, &path)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_place_decides() {
        let (own, free) = (Some(Ground::Workspace), Some(Ground::Scratch));
        let places = [
            ("/w", own),
            ("/w/.git/hooks", None),
            ("/w/closed", None),
            ("/w/closed/open", own),
            ("/w/both", own),
            ("/w/both", None),
            ("/h", None),
            ("/h/tmp", free),
        ];
        let places = places.map(|(path, ground)| (PathBuf::from(path), ground));
        for (path, ground) in [
            ("/w", own),
            ("/w/a/b", own),
            ("/w/.git", own),
            ("/w/.git/hooks", None),
            ("/w/.git/hooks/x", None),
            ("/w/closed/x", None),
            ("/w/closed/open/x", own),
            ("/w/both/x", None),
            ("/h/x", None),
            ("/h/tmp/x", free),
            ("/wx", None),
            ("/", None),
            ("pipe:[7]", None),
        ] {
            assert_eq!(ground_at(&places, Path::new(path)), ground, "{path}");
        }
    }
}
