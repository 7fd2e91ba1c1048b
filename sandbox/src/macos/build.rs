//! Which folders of build products a profile frees. No broker is there to judge each removal, so it
//! is judged before the command begins: what is found now is freed, and nothing else.

use crate::limits;
use crate::plan::{Guard, Mode, Plan};
use crate::repository::Repository;
use rustix::fs::OFlags;
use std::fs::{File, FileType};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The folders in which everything may go: of a name on the list, ignored by git's rules as of the
/// commit that is checked out, with nothing tracked inside, and real folders; or not there yet,
/// directly in a repository.
pub(crate) fn freed(plan: &Plan) -> Vec<PathBuf> {
    let Some(guard) = plan.guard.as_ref().filter(|_| plan.mode == Mode::Default) else {
        return Vec::new();
    };
    let mut look = Look {
        plan,
        names: &guard.build_folders,
        left: limits::BUILD_LOOKS,
        found: Vec::new(),
    };
    for root in plan.roots() {
        look.look_in(root, limits::BUILD_DEPTH);
    }
    let mut found = look.found;
    found.sort_by_key(|path| (path.components().count(), path.clone()));
    found.dedup();
    found.truncate(limits::BUILD_FOLDERS);
    found.retain(|folder| is_ignored(folder, guard));
    found
}

/// A look through the workspaces for folders that might be freed.
struct Look<'a> {
    plan: &'a Plan,
    names: &'a [String],
    left: usize,
    found: Vec<PathBuf>,
}

impl Look<'_> {
    fn look_in(&mut self, folder: &Path, depth: usize) {
        let Some(entries) = self.entries(folder) else {
            return;
        };
        if entries.iter().any(|(name, _)| name == ".git") {
            let rules = rules_in(folder);
            let is_absent = |name: &str| !entries.iter().any(|(there, _)| is_twin(there, name));
            for name in self.names {
                // Git is asked about those that it might ignore.
                if is_absent(name) && rules.contains(name.as_str()) {
                    self.add(folder.join(name));
                }
            }
        }
        for (name, kind) in &entries {
            let path = folder.join(name);
            if !kind.is_dir() || name == ".git" {
                continue;
            }
            if self.names.contains(name) {
                // Of two names that a rule may not tell apart none is freed.
                let twins = entries.iter().filter(|(other, _)| is_twin(other, name));
                if twins.count() == 1 {
                    self.add(path);
                }
            } else if depth > 0 {
                self.look_in(&path, depth - 1);
            }
        }
    }

    /// The names in a folder, in UTF-8 as rules are; nothing when there were too many folders.
    fn entries(&mut self, folder: &Path) -> Option<Vec<(String, FileType)>> {
        self.left = self.left.checked_sub(1)?;
        let entries = std::fs::read_dir(folder).ok()?.flatten();
        let named = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some((name, entry.file_type().ok()?))
        });
        Some(named.collect())
    }

    /// Takes a folder in whose innermost place commands write.
    fn add(&mut self, path: PathBuf) {
        let around = self.plan.places().filter(|place| path.starts_with(place));
        let innermost = around.max_by_key(|place| place.components().count());
        let is_closed = |place: &&PathBuf| self.plan.closed.contains(place);
        if innermost.filter(|place| !is_closed(place)).is_some() {
            self.found.push(path);
        }
    }
}

/// Whether a rule on one name may hold for the other as well: it is told that the kernel compares
/// without regard to case, whatever the file system does.
fn is_twin(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

/// The rules that stand in a folder now. What they say is not followed: git is asked by the commit.
fn rules_in(folder: &Path) -> String {
    let mut rules = Vec::new();
    // One that is a pipe is not waited for.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(folder.join(".gitignore"), flags, rustix::fs::Mode::empty());
    if let Ok(file) = file.map(File::from) {
        // What cannot be read names nothing.
        let _ = file.take(limits::IGNORE_FILE_BYTES).read_to_end(&mut rules);
    }
    String::from_utf8_lossy(&rules).into_owned()
}

fn is_ignored(folder: &Path, guard: &Guard) -> bool {
    Repository::around(folder).is_some_and(|repository| {
        let head = repository.head();
        head.is_some_and(|head| repository.ignores(folder, &head, &guard.recovery))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Network;
    use crate::repository::tests::git;

    fn plan(root: &Path, recovery: &Path) -> Plan {
        Plan {
            argv: vec!["true".into()],
            cwd: root.into(),
            env: vec![],
            workspaces: vec![root.into()],
            extra_write: vec![],
            closed: vec![],
            shallow: vec![],
            tmp: "/private/var/tmp/hands".into(),
            masks: vec![],
            sealed: vec![],
            mode: Mode::Default,
            walls: crate::plan::Walls::Whole,
            network: Network::On,
            resources: crate::plan::Resources::default(),
            guard: Some(Guard {
                recovery: recovery.into(),
                turn_id: "t".into(),
                session_id: "s".into(),
                file_bytes: 1,
                quota_bytes: 1,
                min_age_s: 1,
                ledger: None,
                build_folders: vec!["target".into(), "dist".into(), "build".into()],
            }),
        }
    }

    #[test]
    fn what_the_commit_ignores_is_free_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let write = |name: &str, content: &str| {
            std::fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            std::fs::write(at(name), content).unwrap();
        };
        write("ws/.gitignore", "target\ndist\n");
        git(&at("ws"), &["init", "-q", "."]);
        git(&at("ws"), &["add", ".gitignore"]);
        for name in [
            "target/x",
            "a/b/target/x",
            "a/dist/tracked",
            "shut/target/x",
            "twin/target/x",
            "twin/Target/x",
            "1/2/3/4/5/target/x",
            "build/x",
        ] {
            write(&format!("ws/{name}"), "");
        }
        git(&at("ws"), &["add", "-f", "a/dist/tracked"]);
        git(&at("ws"), &["commit", "-qm", "1"]);
        std::os::unix::fs::symlink("../a", at("ws/1/target")).unwrap();
        // An edit frees nothing.
        write("ws/.gitignore", "build\ndist\n");
        std::fs::create_dir(at("recovery")).unwrap();
        let mut plan = plan(&at("ws"), &at("recovery"));
        plan.closed = vec![at("ws/shut")];
        let names = |plan: &Plan| -> Vec<String> {
            let free = freed(plan);
            let inner = free.iter().map(|path| path.strip_prefix(at("ws")).unwrap());
            inner.map(|path| path.display().to_string()).collect()
        };
        // `dist` is not there yet.
        assert_eq!(names(&plan), ["dist", "target", "a/b/target"]);
        for mode in [Mode::Strict, Mode::ReadOnly] {
            assert!(
                freed(&Plan {
                    mode,
                    ..plan.clone()
                })
                .is_empty()
            );
        }
        plan.guard = None;
        assert!(freed(&plan).is_empty());
        assert_eq!(std::fs::read_dir(at("recovery")).unwrap().count(), 0);
    }
}
