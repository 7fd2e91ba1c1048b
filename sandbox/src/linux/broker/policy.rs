//! What the broker asks before every act: plain data made from the plan, and questions on it.

use super::No;
use super::caller::look_here;
use super::ledger::{Ledger, os};
use super::object::{Id, Kind, Stat};
use crate::plan::{Guard, Mode, Plan};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::{CStr, OsStr, OsString};
use std::path::{Path, PathBuf};

/// Names in a git directory that make git run something, or lead it to other settings.
const GIT_CONTROL: &[&str] = &["config", "config.worktree", "commondir", "hooks"];
/// Parts of a git directory in which any name is a branch's, a tag's or an object's.
const GIT_FREE: &[&str] = &["refs", "logs", "objects", "lfs"];

/// How the names begin that the broker itself gives to files for a moment: nobody else may have
/// one, so that what it looked at under such a name stays there.
pub(super) const ASIDE: &[u8] = b".hands-aside-";

/// The rules of one call.
pub(super) struct Policy {
    /// Whether anything may be removed or renamed in a workspace at all.
    pub(super) removes: bool,
    /// Protected entries and every folder above them, by identity.
    fixed: HashSet<Id>,
    /// The same by name: a file system may give a file another identity when it is changed.
    fixed_paths: HashSet<PathBuf>,
    /// Protected entries: nothing below them is changed either.
    protected: Vec<PathBuf>,
    /// Git directories that do not have the name: bare ones, and those apart from their tree.
    git_folders: Vec<PathBuf>,
    build_names: HashSet<OsString>,
    roots: Vec<PathBuf>,
    /// Roots of which only the entries directly in them are in reach.
    shallow: Vec<PathBuf>,
}

impl Policy {
    pub(super) fn new(plan: &Plan, guard: &Guard) -> Self {
        let roots: Vec<PathBuf> = plan.roots().cloned().collect();
        let inside = |path: &&PathBuf| roots.iter().any(|root| path.starts_with(root));
        let protected: Vec<PathBuf> = plan
            .sealed
            .iter()
            .chain(&plan.masks)
            .filter(inside)
            .cloned()
            .collect();
        let mut fixed_paths = HashSet::new();
        // Where nothing is mounted on them, nothing else holds these in their place.
        let places = plan.places().filter(|_| plan.is_reduced());
        for path in protected.iter().chain(places) {
            let above = path.ancestors();
            let above = above.take_while(|folder| roots.iter().any(|r| folder.starts_with(r)));
            fixed_paths.extend(above.map(Path::to_path_buf));
        }
        let fixed = fixed_paths.iter().filter_map(|path| look_here(path));
        Self {
            removes: plan.mode == Mode::Default,
            fixed: fixed.map(|seen| seen.id).collect(),
            fixed_paths,
            git_folders: git_folders(&protected),
            protected,
            build_names: guard.build_folders.iter().map(OsString::from).collect(),
            roots,
            shallow: plan.shallow.clone(),
        }
    }

    /// Whether this object may be changed, replaced, moved or linked.
    pub(super) fn may_change(&self, object: &Stat) -> Result<(), No> {
        if self.fixed.contains(&object.id) {
            return Err(No::protected());
        }
        Ok(())
    }

    /// Whether what stands at this name may be moved or removed at all.
    pub(super) fn may_move(
        &self,
        seen: &Stat,
        folder: &Path,
        name: &CStr,
        ledger: &Ledger,
    ) -> Result<(), No> {
        self.may_change(seen)?;
        self.may_name(folder, name, ledger)?;
        if seen.is(Kind::Folder) {
            self.may_take_folder(&folder.join(os(name)), seen, ledger)?;
        }
        if ledger.is_made(&seen.id) {
            return Ok(());
        }
        if name == c".git" {
            return Err(No::because("it holds the history of the work"));
        }
        // With another one in its place git would follow other settings.
        if seen.is(Kind::Folder) && holds_git_control(&folder.join(os(name)), &self.git_folders) {
            return Err(No::because(
                "it holds the settings of a submodule or of another working tree",
            ));
        }
        Ok(())
    }

    /// Whether an entry of this name may come to be, be replaced or go in this folder.
    pub(super) fn may_name(&self, folder: &Path, name: &CStr, ledger: &Ledger) -> Result<(), No> {
        if name.to_bytes().starts_with(ASIDE) {
            return Err(No::because("names of this kind are the sandbox's own"));
        }
        let path = folder.join(os(name));
        let covered = || self.protected.iter().any(|entry| path.starts_with(entry));
        if self.fixed_paths.contains(&path) || covered() {
            return Err(No::protected());
        }
        self.may_write_at(&path, ledger)
    }

    /// Whether the content at this name may be changed.
    pub(super) fn may_write_at(&self, path: &Path, ledger: &Ledger) -> Result<(), No> {
        self.may_reach(path, ledger)?;
        self.may_control(path, ledger)
    }

    /// Whether a folder may be moved or removed: one directly in a shallow root is not the
    /// command's, unless this call made it.
    fn may_take_folder(&self, path: &Path, folder: &Stat, ledger: &Ledger) -> Result<(), No> {
        let is_outside = path.parent().is_some_and(|above| self.is_shallow(above));
        match is_outside && !ledger.is_made_now(&folder.id) {
            true => Err(not_granted()),
            false => Ok(()),
        }
    }

    /// Of a shallow root only what lies directly in it is in reach, and what this call made there.
    pub(super) fn may_reach(&self, path: &Path, ledger: &Ledger) -> Result<(), No> {
        if self.shallow.is_empty() {
            return Ok(());
        }
        let around = self.roots.iter().filter(|root| path.starts_with(root));
        let innermost = around.max_by_key(|root| root.components().count());
        let Some(root) = innermost.filter(|root| self.is_shallow(root)) else {
            return Ok(());
        };
        let mut below = path.strip_prefix(root).unwrap_or(path).components();
        let (Some(first), Some(_)) = (below.next(), below.next()) else {
            return Ok(());
        };
        let folder = look_here(&root.join(first));
        match folder.is_some_and(|seen| ledger.is_made_now(&seen.id)) {
            true => Ok(()),
            false => Err(not_granted()),
        }
    }

    /// Whether any root is in reach in part alone.
    pub(super) fn has_shallow(&self) -> bool {
        !self.shallow.is_empty()
    }

    fn is_shallow(&self, folder: &Path) -> bool {
        self.shallow.iter().any(|root| root == folder)
    }

    /// Git's own controls may not be changed, except in a repository that this call itself made.
    pub(super) fn may_control(&self, path: &Path, ledger: &Ledger) -> Result<(), No> {
        match git_control(path, &self.git_folders) {
            Some(folders) if !made_now(&folders, ledger) => Err(No {
                errno: Errno::ACCESS,
                why: Some("git runs what stands there".into()),
            }),
            _ => Ok(()),
        }
    }

    /// Whether this is the name of a folder of build products.
    pub(super) fn is_build_name(&self, name: &OsStr) -> bool {
        self.build_names.contains(name)
    }

    /// The folders on the way to this path, outermost first, that have the name of a build folder
    /// (the path's own name among them).
    pub(super) fn build_folders(&self, path: &Path) -> Vec<PathBuf> {
        let Some(root) = self.roots.iter().find(|root| path.starts_with(root)) else {
            return Vec::new();
        };
        let is_build = |folder: &&Path| {
            let name = folder.file_name();
            name.is_some_and(|name| self.is_build_name(name))
        };
        let mut found: Vec<PathBuf> = path
            .ancestors()
            .take_while(|folder| *folder != root.as_path())
            .filter(is_build)
            .map(Path::to_path_buf)
            .collect();
        found.reverse();
        found
    }
}

fn not_granted() -> No {
    No::because("its folder is not granted in this session")
}

/// The git directories among whose controls these are: each has a `commondir`, there or not.
fn git_folders(protected: &[PathBuf]) -> Vec<PathBuf> {
    let named = protected.iter().filter(|path| path.ends_with("commondir"));
    named
        .filter_map(|path| path.parent())
        .filter(|folder| !folder.ends_with(".git"))
        .map(Path::to_path_buf)
        .collect()
}

/// Whether a folder lies where git keeps the directories of submodules and of further working trees,
/// outside of what has no settings in it.
fn holds_git_control(path: &Path, git_folders: &[PathBuf]) -> bool {
    let Some(git) = git_depth(path, git_folders) else {
        return false;
    };
    let mut below = path.iter().skip(git);
    let is_kept = below
        .next()
        .is_some_and(|part| is_one(part, &["modules", "worktrees"]));
    // The first name is a submodule's or a working tree's, whatever it is.
    is_kept && !below.skip(1).any(|part| is_one(part, GIT_FREE))
}

/// Whether a name is one of these. Some file systems do not tell capitals from small letters.
fn is_one(part: &OsStr, names: &[&str]) -> bool {
    names.iter().any(|name| part.eq_ignore_ascii_case(name))
}

/// How many names lead down to the outermost git directory that a path lies in, itself included.
fn git_depth(path: &Path, git_folders: &[PathBuf]) -> Option<usize> {
    let by_name = path.iter().position(|part| is_one(part, &[".git", ".hg"]));
    let around = git_folders.iter().filter(|folder| path.starts_with(folder));
    let by_place = around.map(|folder| folder.iter().count());
    by_name.map(|at| at + 1).into_iter().chain(by_place).min()
}

/// For a name by which git is controlled, the folders from the git directory down to it.
fn git_control(path: &Path, git_folders: &[PathBuf]) -> Option<Vec<PathBuf>> {
    let git = git_depth(path, git_folders)?;
    let parts: Vec<&OsStr> = path.iter().collect();
    let below = &parts[git..];
    let end = below.iter().position(|part| is_one(part, GIT_FREE));
    let end = end.unwrap_or(below.len());
    // A submodule or a working tree may have the name of such a part: what stands directly in it
    // counts as well.
    let inner = below[end..].iter().position(|part| !is_one(part, GIT_FREE));
    let (judged, inner) = (&below[..end], &below[end + inner.unwrap_or(0)..]);
    let is_last = |part: &OsStr| is_one(part, GIT_CONTROL) || is_one(part, &["hgrc"]);
    let hook = judged
        .iter()
        .chain(inner.first())
        .any(|part| is_one(part, &["hooks"]));
    let attributes = [OsStr::new("info"), OsStr::new("attributes")];
    let attributes = judged.ends_with(&attributes) || inner.starts_with(&attributes);
    let named = match inner {
        [] => judged.last().is_some_and(|part| is_last(part)),
        [only] => is_last(only),
        _ => false,
    };
    if !(attributes || hook || named) {
        return None;
    }
    let folder = |depth: usize| parts[..depth].iter().collect::<PathBuf>();
    Some((git..parts.len()).map(folder).collect())
}

/// Whether this call made one of the folders.
fn made_now(folders: &[PathBuf], ledger: &Ledger) -> bool {
    let seen = folders.iter().filter_map(|path| look_here(path));
    seen.into_iter().any(|seen| ledger.is_made_now(&seen.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_git_keeps_further_settings_is_known_by_its_name() {
        let apart = [PathBuf::from("/w/bare")];
        for (path, holds) in [
            ("/w/bare/worktrees/t", true),
            ("/w/bare/refs/worktrees/t", false),
            ("/w/.git/modules", true),
            ("/w/.git/modules/m", true),
            ("/w/.git/modules/objects", true),
            ("/w/.git/worktrees/t", true),
            ("/w/.git/modules/m/refs/heads", false),
            ("/w/.git/refs/heads/modules", false),
            ("/w/modules/m", false),
        ] {
            assert_eq!(holds_git_control(Path::new(path), &apart), holds, "{path}");
        }
    }

    #[test]
    fn what_controls_git_is_known_by_its_name() {
        let sealed = ["/w/bare/config", "/w/bare/commondir", "/w/.git/commondir"];
        let apart = git_folders(&sealed.map(PathBuf::from));
        assert_eq!(apart, [PathBuf::from("/w/bare")]);
        for control in [
            "/w/.git/config",
            "/w/a/.git/hooks",
            "/w/.git/hooks/pre-commit",
            "/w/.git/config.worktree",
            "/w/.git/commondir",
            "/w/.git/info/attributes",
            "/w/.git/modules/m/config",
            "/w/.git/modules/m/hooks/x",
            "/w/.git/worktrees/t/config.worktree",
            "/w/.git/modules/objects/config",
            "/w/.git/modules/lfs/hooks/x",
            "/w/.git/modules/lfs/objects/info/attributes",
            "/w/.git/worktrees/logs/commondir",
            "/w/.GIT/Hooks/x",
            "/w/.hg/hgrc",
            "/w/bare/hooks/post-receive",
            "/w/bare/worktrees/t/commondir",
            "/w/bare/modules/m/config",
        ] {
            assert!(
                git_control(Path::new(control), &apart).is_some(),
                "{control}"
            );
        }
        for free in [
            "/w/config",
            "/w/hooks/pre-commit",
            "/w/.git",
            "/w/.git/index",
            "/w/.git/config.lock",
            "/w/.git/info/exclude",
            "/w/.git/refs/heads/config",
            "/w/.git/logs/refs/heads/hooks/x",
            "/w/.git/objects/info/alternates",
            "/w/.git/modules/m/refs/heads/hooks",
            "/w/.github/hooks",
            "/w/bare/refs/heads/config",
            "/w/barefoot/config",
        ] {
            assert!(git_control(Path::new(free), &apart).is_none(), "{free}");
        }
    }
}
