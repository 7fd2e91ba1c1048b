//! What of the protected entries is really there: for a sandbox, which hides paths and knows no
//! patterns.

use std::fs::DirEntry;
use std::path::{Path, PathBuf};

use super::pattern::Compiled;
use super::{Class, Denies, env_example, fold, rules};
use crate::limits;

/// The existing paths in `home` that entries name, wildcards included, with what each denies.
/// Links are not followed; a folder that cannot be listed has nothing in it that this user's
/// programs could find.
pub fn existing_in_home(home: &Path) -> Vec<(PathBuf, Denies)> {
    let mut found = Vec::new();
    for rule in rules() {
        let Some(pattern) = rule.entry.pattern.strip_prefix("~/") else {
            continue;
        };
        let names: Vec<&str> = pattern.trim_end_matches('$').split('/').collect();
        let mut paths = Vec::new();
        expand(home, &names, &mut paths);
        found.extend(paths.into_iter().map(|path| (path, rule.entry.denies)));
    }
    found
}

/// Follows the names of a pattern down from `folder`.
fn expand(folder: &Path, names: &[&str], found: &mut Vec<PathBuf>) {
    let Some((name, below)) = names.split_first() else {
        found.push(folder.to_path_buf());
        return;
    };
    if !name.contains('*') {
        let path = folder.join(name);
        if path.symlink_metadata().is_ok() {
            expand(&path, below, found);
        }
        return;
    }
    let wanted = super::pattern::Parts::new(name);
    for entry in entries(folder).take(limits::HOME_ENTRIES) {
        if wanted.covers(&[fold(&entry.file_name())]) {
            expand(&entry.path(), below, found);
        }
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = DirEntry> {
    std::fs::read_dir(folder).into_iter().flatten().flatten()
}

/// What a look through a workspace found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// Files and folders that are protected for reading wherever they lie (private keys, password
    /// databases, environment files).
    pub secrets: Vec<PathBuf>,
    /// Every `.git`, file or folder.
    pub git: Vec<PathBuf>,
    /// Whether all of it was seen: a large or deep workspace is not looked through to its end.
    pub complete: bool,
}

/// Folders that are not looked through: large, made by programs, and made anew at will.
const PASSED_OVER: &[&str] = &["node_modules", "target", ".venv", "__pycache__", ".cache"];

/// Looks through `root` for what entries protect wherever it lies, within
/// [`limits::SURVEY_ENTRIES`] and [`limits::SURVEY_DEPTH`], folders near the root first.
pub fn survey(root: &Path, env_files: bool) -> Survey {
    let anywhere: Vec<&Compiled> = rules()
        .iter()
        .filter(|rule| rule.entry.pattern.starts_with("**/"))
        .filter(|rule| rule.entry.denies == Denies::ReadWrite)
        .filter(|rule| env_files || rule.entry.class != Class::Env)
        .collect();
    let mut survey = Survey {
        complete: true,
        ..Survey::default()
    };
    let mut left = limits::SURVEY_ENTRIES;
    let mut level = vec![root.to_path_buf()];
    for _ in 0..limits::SURVEY_DEPTH {
        let mut below = Vec::new();
        for folder in level {
            for entry in entries(&folder) {
                if left == 0 {
                    survey.complete = false;
                    return survey;
                }
                left -= 1;
                look(&entry, &anywhere, &mut survey, &mut below);
            }
        }
        level = below;
    }
    survey.complete = level.is_empty();
    survey
}

fn look(entry: &DirEntry, anywhere: &[&Compiled], survey: &mut Survey, below: &mut Vec<PathBuf>) {
    let name = entry.file_name();
    if name == ".git" {
        survey.git.push(entry.path());
        return;
    }
    let folded = [fold(&name)];
    let covered = |rule: &&Compiled| {
        rule.matches(&folded, &[]) && !(rule.entry.class == Class::Env && env_example(&folded))
    };
    if anywhere.iter().any(covered) {
        survey.secrets.push(entry.path());
        return;
    }
    let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
    if is_folder && !PASSED_OVER.iter().any(|passed| name == *passed) {
        below.push(entry.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(root: &Path, names: &[&str]) {
        for name in names {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
    }

    #[test]
    fn wildcards_are_expanded() {
        let home = tempfile::tempdir().unwrap();
        let hits = [
            ".bash_history",
            ".cargo/credentials.toml",
            ".ssh/id_ed25519",
            ".nuget/NuGet/NuGet.Config",
        ];
        make(home.path(), &hits);
        make(home.path(), &["notes.md", ".cargo/config.toml"]);
        let found = existing_in_home(home.path());
        let covers = |name: &str| {
            found.iter().any(|(path, denies)| {
                *denies == Denies::ReadWrite && home.path().join(name).starts_with(path)
            })
        };
        for name in hits {
            assert!(covers(name), "{name}: {found:?}");
        }
        assert!(!covers("notes.md"));
        assert!(!covers(".cargo/config.toml"));
    }

    #[test]
    fn secrets_and_repositories_are_found_where_they_lie() {
        let root = tempfile::tempdir().unwrap();
        make(
            root.path(),
            &[
                ".env",
                ".env.example",
                "a/b/id_ed25519",
                "a/b/id_ed25519.pub",
                "a/.git/config",
                "node_modules/x/.env",
                "src/main.rs",
            ],
        );
        let mut found = survey(root.path(), true);
        found.secrets.sort();
        let at = |name: &str| root.path().join(name);
        assert_eq!(found.secrets, [at(".env"), at("a/b/id_ed25519")]);
        assert_eq!(found.git, [at("a/.git")]);
        assert!(found.complete);
        assert_eq!(survey(root.path(), false).secrets, [at("a/b/id_ed25519")]);
    }

    #[test]
    fn what_is_too_deep_is_said_to_be_unseen() {
        let root = tempfile::tempdir().unwrap();
        let deep = "d/".repeat(limits::SURVEY_DEPTH) + "f";
        make(root.path(), &[&deep]);
        assert!(!survey(root.path(), true).complete);
    }
}
