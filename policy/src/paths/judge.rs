//! Judging a real path by its components: by the lists, by Hands' own folder, by the settings.

use std::path::{Path, PathBuf};

use super::policy::{Root, Settings};
use super::roots::real;
use super::walk::TmpView;
use crate::protected::{self, Class, Compiled, Denies, Entry, fold_path, plain_path, starts_with};

/// What a refusal of a protected path advises.
pub(super) const HINT: &str =
    "this path is never open to the tools; ask your user for what is needed from it";

/// What the path is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intent {
    Read,
    Write,
}

/// The answer where a protected place could not be looked at.
pub(super) const UNSURE: Hit = Hit {
    why: "it could not be compared with the protected files",
    rule: "guard_failed",
};

/// A rule that refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hit {
    /// What is protected, in words.
    pub(crate) why: &'static str,
    /// The rule's name for the trail.
    pub(crate) rule: &'static str,
}

const HANDS: Hit = Hit {
    why: "Hands' own files",
    rule: "hands_home",
};
const EXTRA: Hit = Hit {
    why: "protected by the configuration",
    rule: "extra_protected",
};
const PATH_FOLDER: Hit = Hit {
    why: "a folder on PATH, whose programs run outside the sandbox",
    rule: "path_folder",
};

/// Which rule an identity belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Guarded {
    Hands,
    Extra,
    PathFolder,
    Entry(&'static Compiled),
    /// A file below a credential folder, found by its hard link.
    Secret,
}

/// The components of a path, once as configured paths are compared and once as patterns are.
#[derive(Debug)]
pub(super) struct Parts {
    plain: Vec<String>,
    folded: Vec<String>,
}

impl Parts {
    pub(super) fn new(path: &Path) -> Parts {
        Parts {
            plain: plain_path(path),
            folded: fold_path(path),
        }
    }

    fn below(&self, root: &Parts) -> bool {
        starts_with(&self.plain, &root.plain)
    }

    fn below_any(&self, roots: &[Parts]) -> bool {
        roots.iter().any(|root| self.below(root))
    }
}

/// The rules of one policy.
#[derive(Debug)]
pub(crate) struct Judge {
    /// The person's home, as given and as it really is.
    homes: Vec<Parts>,
    home: PathBuf,
    hands: Vec<Parts>,
    hands_home: PathBuf,
    recovery: Vec<Parts>,
    tmp: Option<Parts>,
    extra: Vec<Parts>,
    extra_paths: Vec<PathBuf>,
    path_folders: Vec<Parts>,
    path_folder_paths: Vec<PathBuf>,
    /// Workspaces and further write folders: one below a folder of programs or state opens it.
    roots: Vec<Parts>,
    env_files: bool,
}

impl Judge {
    pub(super) fn new<'r>(
        settings: &Settings,
        tmp: Option<&TmpView>,
        roots: impl Iterator<Item = &'r Root>,
    ) -> Judge {
        let recovery = settings.hands_home.join("work/recovery");
        let extra = settings.extra_protected.iter();
        Judge {
            homes: spellings(&settings.user_home),
            home: real(&settings.user_home),
            hands: spellings(&settings.hands_home),
            hands_home: real(&settings.hands_home),
            recovery: spellings(&recovery),
            tmp: tmp.map(|tmp| Parts::new(&tmp.real)),
            extra: extra.flat_map(|path| spellings(path)).collect(),
            extra_paths: settings.extra_protected.clone(),
            path_folders: Vec::new(),
            path_folder_paths: Vec::new(),
            roots: roots.map(|root| Parts::new(&root.real)).collect(),
            env_files: settings.protect_env_files,
        }
    }

    pub(super) fn add_path_folders(&mut self, folders: impl IntoIterator<Item = PathBuf>) {
        for folder in folders.into_iter().filter(|f| f.is_absolute()) {
            self.path_folders.extend(spellings(&folder));
            self.path_folder_paths.push(folder);
        }
    }

    /// Whether `path` lies in the person's home or in Hands' own.
    pub(super) fn is_home(&self, path: &Path) -> bool {
        let path = Parts::new(path);
        path.below_any(&self.homes) || path.below_any(&self.hands)
    }

    /// Judges a real path by its components.
    pub(super) fn path(&self, path: &Path, intent: Intent) -> Option<Hit> {
        self.parts(&Parts::new(path), intent, true)
    }

    /// Judges the places of links that were followed. Links of the system (`/bin`, `/proc/self`) may be
    /// followed; where they lead is judged.
    pub(super) fn links(&self, links: &[PathBuf], intent: Intent) -> Option<Hit> {
        let mut links = links.iter();
        links.find_map(|link| self.parts(&Parts::new(link), intent, false))
    }

    /// Judges a path; `system` says whether system paths count.
    pub(super) fn parts(&self, path: &Parts, intent: Intent, system: bool) -> Option<Hit> {
        if path.below_any(&self.hands) && !self.hands_open(path, intent) {
            return Some(HANDS);
        }
        if path.below_any(&self.extra) {
            return Some(EXTRA);
        }
        let own = self.homes.iter().filter(|home| path.below(home));
        let own = own.map(|home| home.plain.len());
        let homes: Vec<usize> = own.chain(protected::usual_homes(&path.folded)).collect();
        protected::rules()
            .iter()
            .filter(|rule| self.applies(rule.entry, intent, system))
            .find(|rule| rule.matches(&path.folded, &homes) && !self.lifted(rule, path))
            .map(|rule| hit(rule.entry))
            .or_else(|| self.path_folder(path, intent))
    }

    /// Asked last: what the lists say of a system folder on `PATH` tells more.
    fn path_folder(&self, path: &Parts, intent: Intent) -> Option<Hit> {
        (intent == Intent::Write && path.below_any(&self.path_folders)).then_some(PATH_FOLDER)
    }

    /// Judges an identity that was met on the way to `path`.
    pub(super) fn guarded(&self, guarded: Guarded, path: &Parts, intent: Intent) -> Option<Hit> {
        match guarded {
            Guarded::Hands => (!self.hands_open(path, intent)).then_some(HANDS),
            Guarded::Extra => Some(EXTRA),
            Guarded::PathFolder => (intent == Intent::Write).then_some(PATH_FOLDER),
            Guarded::Entry(rule) => (self.applies(rule.entry, intent, true)
                && !self.lifted(rule, path))
            .then(|| hit(rule.entry)),
            Guarded::Secret => Some(Hit {
                why: "a hard link to a credential file",
                rule: "credentials",
            }),
        }
    }

    fn applies(&self, entry: &Entry, intent: Intent, system: bool) -> bool {
        let denied = intent == Intent::Write || entry.denies == Denies::ReadWrite;
        let class = match entry.class {
            Class::System | Class::SystemState => system,
            Class::Env => self.env_files,
            _ => true,
        };
        denied && class
    }

    /// Parts of Hands' home that are open: the session's private tmp, and recovery files for reading.
    fn hands_open(&self, path: &Parts, intent: Intent) -> bool {
        self.tmp.as_ref().is_some_and(|tmp| path.below(tmp))
            || (intent == Intent::Read && path.below_any(&self.recovery))
    }

    /// Whether a system rule does not hold for `path`: a listed exception, the person's own home, or a root that
    /// the person configured below a folder of programs or state (`/usr/src/app`, `/var/lib/x/work`).
    fn lifted(&self, rule: &Compiled, path: &Parts) -> bool {
        match rule.entry.class {
            Class::Env => protected::env_example(&path.folded),
            Class::System => protected::excepted(&path.folded),
            Class::SystemState => {
                protected::excepted(&path.folded)
                    || opens(rule, path, &self.roots, false)
                    || opens(rule, path, &self.homes, rule.is_root_home())
            }
            _ => false,
        }
    }

    /// Paths whose objects are known by identity, with the rule of each.
    pub(super) fn known(&self) -> Vec<(PathBuf, Guarded)> {
        let mut known = vec![(self.hands_home.clone(), Guarded::Hands)];
        known.extend(self.extra_paths.iter().map(|p| (p.clone(), Guarded::Extra)));
        let folders = self.path_folder_paths.iter();
        known.extend(folders.map(|p| (p.clone(), Guarded::PathFolder)));
        let rules = protected::rules().iter();
        known.extend(
            rules.filter_map(|rule| Some((rule.literal(&self.home)?, Guarded::Entry(rule)))),
        );
        known
    }

    /// Folders whose files are known by identity: credentials, and Hands' own.
    pub(super) fn secret_folders(&self) -> Vec<PathBuf> {
        let rules = protected::rules().iter();
        let mut folders: Vec<PathBuf> = rules
            .filter(|rule| rule.entry.class == Class::Credentials)
            .filter_map(|rule| rule.literal(&self.home))
            .collect();
        folders.push(self.hands_home.clone());
        folders
    }

    /// Whether `path` is the part of Hands' home that holds results, which may be large, and no keys.
    pub(super) fn is_hands_work(&self, path: &Path) -> bool {
        path == self.hands_home.join("work")
    }
}

fn hit(entry: &'static Entry) -> Hit {
    Hit {
        why: entry.why,
        rule: entry.class.rule(),
    }
}

/// Whether `path` lies in a root strictly below what a system rule names; or, for `equal`, in what it names.
fn opens(rule: &Compiled, path: &Parts, roots: &[Parts], equal: bool) -> bool {
    let strictly = |root: &Parts| match root.folded.split_last() {
        Some((_, above)) => rule.matches(above, &[]),
        None => false,
    };
    roots
        .iter()
        .filter(|root| path.below(root))
        .any(|root| strictly(root) || (equal && rule.matches(&root.folded, &[])))
}

/// Both spellings of a configured path; one that is not absolute matches nothing.
fn spellings(path: &Path) -> Vec<Parts> {
    if !path.is_absolute() {
        return Vec::new();
    }
    let (given, real) = (Parts::new(path), Parts::new(&real(path)));
    match given.plain == real.plain {
        true => vec![given],
        false => vec![given, real],
    }
}
