//! The policy: which real paths may be read, and where a write may go.

mod grant;

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use super::identity::Identities;
use super::judge::{Intent, Judge};
use super::look::Kind;
use super::names;
use super::refusal::{Refusal, RefusalKind};
use super::target::{Place, Target, named};
use super::walk::{self, TmpView, View, WalkError, Walked};
use super::{git_dir, roots};
use crate::limits;

/// What the policy is made from. Paths are absolute; `~` has been expanded.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The person's home folder.
    pub user_home: PathBuf,
    /// Hands' own folder; protected but for its recovery files.
    pub hands_home: PathBuf,
    /// Approved workspaces, in order; relative paths are taken from the first.
    pub workspaces: Vec<PathBuf>,
    /// Further folders that may be written (`[write] extra`).
    pub extra_write: Vec<PathBuf>,
    /// Further paths that are never read nor written.
    pub extra_protected: Vec<PathBuf>,
    /// Whether `.env` and its kin are protected.
    pub protect_env_files: bool,
    /// The session's private `/tmp`, a real folder.
    pub session_tmp: Option<PathBuf>,
}

/// A folder that a setting names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// The spelling the person gave.
    pub given: PathBuf,
    /// Where it really is.
    pub real: PathBuf,
}

/// Where a write goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WritePlace {
    /// In a workspace.
    Workspace {
        /// The workspace's real path.
        root: PathBuf,
        /// The top-level folder below it that holds the file; the root itself for a file directly in it.
        folder: PathBuf,
    },
    /// In a folder of `[write] extra`.
    Extra {
        /// The folder's real path.
        root: PathBuf,
    },
    /// In the session's private `/tmp`.
    Tmp,
    /// An existing file outside: it stays, and a working copy goes beside it.
    OutsideExisting,
}

/// The path policy of one session. Cheap to share behind an `Arc`; all calls take `&self`.
#[derive(Debug)]
pub struct PathPolicy {
    user_home: PathBuf,
    workspaces: Vec<Root>,
    extra_write: Vec<Root>,
    tmp: Option<TmpView>,
    judge: Judge,
    identities: Identities,
}

impl PathPolicy {
    /// Finds where the roots really are, once. A workspace that is missing (an unplugged disk) is kept and serves
    /// when it appears. `TMPDIR` of the environment is taken as a further spelling of the private `/tmp`.
    pub fn new(settings: Settings) -> PathPolicy {
        let workspaces = roots::roots(&settings.workspaces);
        let extra_write = roots::roots(&settings.extra_write);
        let homes = [&settings.user_home, &settings.hands_home].map(|home| roots::real(home));
        let named = workspaces.iter().chain(&extra_write);
        let pinned = named.map(|root| root.real.clone()).chain(homes).collect();
        let tmp = settings.session_tmp.as_deref();
        let tmp = tmp.map(|folder| roots::tmp_view(folder, pinned));
        let judge = Judge::new(
            &settings,
            tmp.as_ref(),
            workspaces.iter().chain(&extra_write),
        );
        let identities = Identities::new(&judge);
        PathPolicy {
            user_home: settings.user_home,
            workspaces,
            extra_write,
            tmp,
            judge,
            identities,
        }
    }

    /// Adds folders of the login `PATH`: neither they nor what lies below them is ever written, wherever they are.
    /// This wins over every grant: a workspace that is on `PATH`, or below such a folder, can only be read. Relative
    /// entries are ignored.
    #[must_use]
    pub fn with_path_folders(mut self, folders: impl IntoIterator<Item = PathBuf>) -> PathPolicy {
        self.judge.add_path_folders(folders);
        self.identities = Identities::new(&self.judge);
        self
    }

    /// The approved workspaces: real paths, with the spelling the person gave.
    pub fn workspaces(&self) -> &[Root] {
        &self.workspaces
    }

    /// Resolves what a planner gave: absolute, `~`, `~/x`, or relative to `base` (default: the first workspace).
    /// Nothing is judged yet, and what does not exist is no error.
    ///
    /// # Errors
    /// `Validation` for text that is no path, `NotADirectory`, `Loop`, `System`; `Protected` where such an error
    /// would tell what is inside a protected place.
    pub fn resolve(&self, text: &str, base: Option<&Path>) -> Result<Target, Refusal> {
        let path = self.absolute(text, base)?;
        let host = self.walk(&path, View::Host, text);
        let met_tmp = match &host {
            Ok(walked) => walked.met_tmp,
            Err(error) => error.met_tmp,
        };
        let host = host.map(|walked| Place::new(walked, self.tmp.as_ref()));
        let private = met_tmp && self.has_private_tmp() && !self.is_pinned(host.as_ref().ok());
        if !private {
            return match host {
                Ok(place) => Ok(target(text, place, None)),
                Err(error) => Err(self.walk_refused(text, error)),
            };
        }
        let own = self.walk(&path, View::Private, text).or_else(|error| {
            // The host may have a folder that `..` passed and the private one has not.
            let real = host.as_ref().ok().map(|place| place.real.as_path());
            real.map_or(Err(error), |real| self.walk(real, View::Private, text))
        });
        let own = own.map_err(|error| self.walk_refused(text, error))?;
        let own = Place::new(own, self.tmp.as_ref());
        Ok(match host {
            Ok(host) if own.private && own.meta.is_none() && host.meta.is_some() => {
                target(text, host, Some(Box::new(own)))
            }
            _ => target(text, own, None),
        })
    }

    /// Whether `target` may be read or listed. Asked before any open.
    ///
    /// # Errors
    /// `Protected`; `NotFound`, with similar names, if nothing is there.
    pub fn check_read(&self, target: &Target) -> Result<(), Refusal> {
        self.judged(target, &target.place, Intent::Read)?;
        match target.exists() {
            true => Ok(()),
            false => Err(self.not_found(target)),
        }
    }

    /// Where a write to `target` may go. The write then uses [`Target::parent`] or [`Target::create_parents`].
    ///
    /// # Errors
    /// `Protected`; `Unsupported` if something other than a regular file is there; `NotFound` if the workspace
    /// itself is missing.
    pub fn check_write(&self, target: &Target) -> Result<WritePlace, Refusal> {
        let place = target.write_place();
        self.judged(target, place, Intent::Write)?;
        if let Some(what) = git_dir::controls(place) {
            return Err(protected(target, place, Intent::Write, &what));
        }
        if let Some(meta) = place.meta
            && meta.kind != Kind::File
        {
            return Err(target.not_a_file("write", meta.kind));
        }
        if place.private {
            return Ok(WritePlace::Tmp);
        }
        if let Some(found) = self.root_of(&place.real) {
            return found.write_place(target, place);
        }
        match place.meta {
            Some(_) => Ok(WritePlace::OutsideExisting),
            None => Err(Refusal::new(
                RefusalKind::Protected,
                format!(
                    "cannot create {}: new files may only be made in a workspace",
                    named(&target.asked, &place.shown)
                ),
            )
            .rule("outside_workspace")
            .hint("use a path in a workspace; a relative path is taken from the first one")),
        }
    }

    /// Whether `copy` may be made as the working copy beside an existing file outside every workspace.
    /// `copy` comes from [`Target::sibling`] of a target that [`PathPolicy::check_write`] called
    /// [`WritePlace::OutsideExisting`].
    ///
    /// # Errors
    /// `Protected`, also if something of that name is there.
    pub fn check_working_copy(&self, copy: &Target) -> Result<(), Refusal> {
        self.judged(copy, &copy.place, Intent::Write)?;
        match copy.exists() {
            false => Ok(()),
            true => Err(Refusal::new(
                RefusalKind::Protected,
                format!("cannot write {}: it exists already", copy.name()),
            )
            .rule("outside_workspace")),
        }
    }

    /// The read decision on a path alone, for a recovery file: `origin` is the real path of the file it came from.
    ///
    /// # Errors
    /// `Protected`; `Validation` if `origin` is not an absolute path without `..`.
    pub fn check_origin(&self, origin: &Path) -> Result<(), Refusal> {
        let plain = origin.is_absolute()
            && !origin
                .components()
                .any(|part| matches!(part, std::path::Component::ParentDir));
        if !plain {
            return Err(Refusal::new(
                RefusalKind::Validation,
                format!("the origin {} is not a real path", origin.display()),
            ));
        }
        match self.judge.path(origin, Intent::Read) {
            None => Ok(()),
            Some(hit) => Err(Refusal::new(
                RefusalKind::Protected,
                format!(
                    "this recovery file came from a protected path ({})",
                    hit.why
                ),
            )
            .rule(hit.rule)),
        }
    }

    /// The answer that nothing is at `target`, with similar names from the folder if that may be read.
    pub fn not_found(&self, target: &Target) -> Refusal {
        let place = &target.place;
        let Some(wanted) = place.tail.first() else {
            return Refusal::system("find", &target.name(), rustix::io::Errno::NOENT);
        };
        let message = match place.tail.len() {
            1 => format!("cannot find {}: no such file or directory", target.name()),
            _ => format!(
                "cannot find {}: its folder {} does not exist",
                target.name(),
                wanted.display()
            ),
        };
        let refusal = Refusal::new(RefusalKind::NotFound, message);
        let readable = |path: &Path| self.judge.path(path, Intent::Read).is_none();
        if !readable(&place.base_path) {
            return refusal;
        }
        let near = names::near(place.base.as_fd(), wanted, |name| {
            readable(&place.base_path.join(name))
        });
        match near.is_empty() {
            true => refusal,
            false => refusal.hint(format!("similar names there: {}", near.join(", "))),
        }
    }

    fn absolute(&self, text: &str, base: Option<&Path>) -> Result<PathBuf, Refusal> {
        let invalid = |why: &str| Refusal::new(RefusalKind::Validation, why.to_owned());
        if text.is_empty() {
            return Err(invalid("the path is empty"));
        }
        if text.contains('\0') {
            return Err(invalid("the path contains a NUL character"));
        }
        if text.len() > limits::PATH_TEXT_BYTES {
            return Err(invalid(&format!(
                "the path is longer than {} bytes",
                limits::PATH_TEXT_BYTES
            )));
        }
        if text == "~" {
            return Ok(self.user_home.clone());
        }
        if let Some(rest) = text.strip_prefix("~/") {
            return Ok(self.user_home.join(rest.trim_start_matches('/')));
        }
        if text.starts_with('/') {
            return Ok(PathBuf::from(text));
        }
        let first = self.workspaces.first().map(|root| root.real.as_path());
        match base.or(first).filter(|base| base.is_absolute()) {
            Some(base) => Ok(base.join(text)),
            None => Err(invalid(&format!(
                "{text} is relative and there is no folder to take it from"
            ))
            .hint("give an absolute path")),
        }
    }

    fn walk(&self, path: &Path, view: View, text: &str) -> Result<Walked, WalkError> {
        walk::walk(path, self.tmp.as_ref(), view, text)
    }

    fn has_private_tmp(&self) -> bool {
        self.tmp.as_ref().is_some_and(|tmp| tmp.real.is_dir())
    }

    /// Whether `place` is in a root or a home, which are themselves even below `/tmp`.
    fn is_pinned(&self, place: Option<&Place>) -> bool {
        place.is_some_and(|place| {
            self.root_of(&place.real).is_some() || self.judge.is_home(&place.real)
        })
    }

    /// The deepest root that holds `real`; a workspace before a further folder.
    fn root_of(&self, real: &Path) -> Option<roots::Found<'_>> {
        let extra = self.extra_write.iter().map(|root| (root, false));
        let workspaces = self.workspaces.iter().map(|root| (root, true));
        extra
            .chain(workspaces)
            .filter(|(root, _)| root.real.is_absolute() && real.starts_with(&root.real))
            .max_by_key(|(root, workspace)| (root.real.components().count(), *workspace))
            .map(|(root, workspace)| roots::Found { root, workspace })
    }

    fn judged(&self, target: &Target, place: &Place, intent: Intent) -> Result<(), Refusal> {
        let hit = self
            .judge
            .path(&place.real, intent)
            .or_else(|| self.judge.links(&place.links, intent))
            .or_else(|| self.identities.judge(&self.judge, place, intent));
        match hit {
            None => Ok(()),
            Some(hit) => Err(protected(target, place, intent, &hit)),
        }
    }

    /// A failed walk, unless it failed in a protected place: then only that is told.
    fn walk_refused(&self, text: &str, error: WalkError) -> Refusal {
        match self.judge.path(&error.at, Intent::Read) {
            None => error.refusal,
            Some(hit) => Refusal::new(
                RefusalKind::Protected,
                format!("cannot use {text}: it is protected ({})", hit.why),
            )
            .rule(hit.rule)
            .hint(super::judge::HINT),
        }
    }
}

fn target(text: &str, place: Place, write: Option<Box<Place>>) -> Target {
    Target {
        asked: text.to_owned(),
        place,
        write,
    }
}

fn protected(target: &Target, place: &Place, intent: Intent, hit: &super::judge::Hit) -> Refusal {
    let doing = match intent {
        Intent::Read => "read",
        Intent::Write => "write",
    };
    Refusal::new(
        RefusalKind::Protected,
        format!(
            "cannot {doing} {}: it is protected ({})",
            named(&target.asked, &place.shown),
            hit.why
        ),
    )
    .rule(hit.rule)
    .hint(super::judge::HINT)
}
