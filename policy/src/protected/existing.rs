//! What of the protected entries is really there: for a sandbox, which hides paths and knows no
//! patterns.

use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::time::Instant;

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
    /// databases, environment files), links among them.
    pub secrets: Vec<PathBuf>,
    /// Every repository's own files: `.git` (file or folder), `.hg`, bare repositories.
    pub repositories: Vec<PathBuf>,
    /// Entries seen.
    pub entries: usize,
    /// Whether all of it was seen before the time was over.
    pub complete: bool,
}

/// Looks through all of `root` for what entries protect wherever it lies, until `deadline`. No
/// folder is passed over and no number of entries is too large: a planner can make both.
pub fn survey(root: &Path, env_files: bool, deadline: Instant) -> Survey {
    let anywhere: Vec<&Compiled> = rules()
        .iter()
        .filter(|rule| rule.entry.pattern.starts_with("**/"))
        .filter(|rule| rule.entry.denies == Denies::ReadWrite)
        .filter(|rule| env_files || rule.entry.class != Class::Env)
        .collect();
    let mut survey = Survey::default();
    let mut waiting = vec![root.to_path_buf()];
    while let Some(folder) = waiting.pop() {
        if Instant::now() >= deadline {
            return survey;
        }
        look(&folder, &anywhere, &mut survey, &mut waiting);
    }
    survey.complete = true;
    survey
}

fn look(folder: &Path, anywhere: &[&Compiled], survey: &mut Survey, waiting: &mut Vec<PathBuf>) {
    let entries: Vec<DirEntry> = entries(folder).collect();
    survey.entries += entries.len();
    let has = |wanted: &str| entries.iter().any(|entry| entry.file_name() == wanted);
    if has("HEAD") && has("objects") && has("refs") {
        // Looked through like any other: a planner can make these names around a secret.
        survey.repositories.push(folder.to_path_buf());
    }
    for entry in entries {
        let name = entry.file_name();
        if name == ".git" || name == ".hg" {
            survey.repositories.push(entry.path());
            continue;
        }
        let folded = [fold(&name)];
        let covered = |rule: &&Compiled| {
            rule.matches(&folded, &[]) && !(rule.entry.class == Class::Env && env_example(&folded))
        };
        if anywhere.iter().any(covered) {
            survey.secrets.push(entry.path());
        } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            waiting.push(entry.path());
        }
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
                "bare.git/HEAD",
                "bare.git/objects/x",
                "bare.git/refs/x",
                "bare.git/.env",
                "bare.git/objects/de/id_rsa",
                ".hg/hgrc",
                "src/main.rs",
            ],
        );
        let mut found = survey(root.path(), true, later());
        found.secrets.sort();
        found.repositories.sort();
        let at = |name: &str| root.path().join(name);
        assert_eq!(
            found.secrets,
            [
                at(".env"),
                at("a/b/id_ed25519"),
                at("bare.git/.env"),
                at("bare.git/objects/de/id_rsa"),
                at("node_modules/x/.env")
            ]
        );
        assert_eq!(
            found.repositories,
            [at(".hg"), at("a/.git"), at("bare.git")]
        );
        assert!(found.complete);
        assert_eq!(
            survey(root.path(), false, later()).secrets,
            [at("a/b/id_ed25519"), at("bare.git/objects/de/id_rsa")]
        );
    }

    #[test]
    fn what_looks_like_a_repository_hides_no_secret() {
        let root = tempfile::tempdir().unwrap();
        let names = ["p/HEAD", "p/objects/.env", "p/refs/x", "p/.env", "p/a/.env"];
        make(root.path(), &names);
        let mut found = survey(root.path(), true, later());
        found.secrets.sort();
        let at = |name: &str| root.path().join(name);
        assert_eq!(
            found.secrets,
            [at("p/.env"), at("p/a/.env"), at("p/objects/.env")]
        );
        assert_eq!(found.repositories, [at("p")]);
    }

    #[test]
    fn neither_depth_nor_number_hides_a_secret() {
        let root = tempfile::tempdir().unwrap();
        let deep = "d/".repeat(60) + ".env";
        make(root.path(), &[&deep]);
        for n in 0..12_000 {
            std::fs::write(root.path().join(format!("f{n}")), "").unwrap();
        }
        let found = survey(root.path(), true, later());
        assert_eq!(found.secrets, [root.path().join(deep)]);
        assert!(found.complete);
        assert!(found.entries > 12_000);
    }

    #[test]
    fn a_look_that_ran_out_of_time_says_so() {
        let root = tempfile::tempdir().unwrap();
        assert!(!survey(root.path(), true, Instant::now()).complete);
    }

    fn later() -> Instant {
        Instant::now() + std::time::Duration::from_secs(60)
    }
}
