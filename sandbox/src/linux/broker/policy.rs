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
        for path in &protected {
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
        if name == c".git" && !ledger.is_made(&seen.id) {
            return Err(No::because("it holds the history of the work"));
        }
        Ok(())
    }

    /// Whether an entry of this name may come to be, be replaced or go in this folder.
    pub(super) fn may_name(&self, folder: &Path, name: &CStr, ledger: &Ledger) -> Result<(), No> {
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

    /// The folders on the way to this path, outermost first, that have the name of a build folder
    /// (the path's own name among them).
    pub(super) fn build_folders(&self, path: &Path) -> Vec<PathBuf> {
        let Some(root) = self.roots.iter().find(|root| path.starts_with(root)) else {
            return Vec::new();
        };
        let is_build = |folder: &&Path| {
            let name = folder.file_name();
            name.is_some_and(|name| self.build_names.contains(name))
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

/// For a name by which git is controlled, the folders from the git directory down to it.
fn git_control(path: &Path, git_folders: &[PathBuf]) -> Option<Vec<PathBuf>> {
    let parts: Vec<&OsStr> = path.iter().collect();
    let by_name = parts
        .iter()
        .position(|part| *part == ".git" || *part == ".hg");
    let around = git_folders.iter().filter(|folder| path.starts_with(folder));
    let by_place = around.map(|folder| folder.iter().count() - 1).min();
    let git = by_name.into_iter().chain(by_place).min()?;
    let below = &parts[git + 1..];
    let is = |part: &OsStr, names: &[&str]| names.iter().any(|name| part == *name);
    let end = below
        .iter()
        .position(|part| is(part, GIT_FREE))
        .unwrap_or(below.len());
    let judged = &below[..end];
    let attributes = judged.ends_with(&[OsStr::new("info"), OsStr::new("attributes")]);
    let hook = judged.iter().any(|part| *part == "hooks");
    let last = judged.last().filter(|_| end == below.len());
    let named = last.is_some_and(|part| is(part, GIT_CONTROL) || is(part, &["hgrc"]));
    if !(attributes || hook || named) {
        return None;
    }
    let folder = |depth: usize| parts[..depth].iter().collect::<PathBuf>();
    Some((git + 1..parts.len()).map(folder).collect())
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
            "/w/.git/objects/info/attributes",
            "/w/.github/hooks",
            "/w/bare/refs/heads/config",
            "/w/barefoot/config",
        ] {
            assert!(git_control(Path::new(free), &apart).is_none(), "{free}");
        }
    }
}
