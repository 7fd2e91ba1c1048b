//! Where a change goes: resolved, judged, gated, and set aside where the file itself must stay.

use super::existing::Existing;
use super::gate;
use super::locks::Guard;
use super::replace;
use crate::calls::Call;
use crate::limits;
use crate::outcome::{Code, Outcome};
use crate::session::Session;
use hands_policy::paths::{Kind, Target, WritePlace};
use hands_policy::permission::{Act, Use};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A place that may be written.
#[derive(Debug)]
pub struct Writable {
    /// The file to write; for a working copy, the copy.
    pub target: Target,
    /// The existing file whose content the change starts from.
    pub source: Option<Target>,
    /// Where the change was asked for, when it goes elsewhere.
    pub redirected_from: Option<PathBuf>,
    /// Whether it is in the session's private `/tmp`, which only its path does not tell.
    pub in_private_tmp: bool,
    /// The folder whose permission a change of the existing file needs.
    gated: Option<PathBuf>,
}

impl Writable {
    /// Resolves and judges every one of `paths` and keeps other calls from changing them.
    ///
    /// # Errors
    /// The policy's refusal; `conflict` when other calls change them again and again.
    pub fn hold(session: &Session, paths: &[&str]) -> Result<(Vec<Self>, Guard), Outcome> {
        let find = || -> Result<(Vec<Self>, Vec<PathBuf>), Outcome> {
            let found = paths.iter().map(|path| Self::find(session, path));
            let found = found.collect::<Result<Vec<_>, _>>()?;
            let mut names: Vec<PathBuf> = found.iter().flat_map(Self::lock_names).collect();
            names.sort();
            Ok((found, names))
        };
        for _ in 0..limits::HOLD_TRIES {
            let (_, names) = find()?;
            let guard = session.locks.hold(names.clone());
            // While this call waited another one may have replaced a file or made a working copy.
            let (found, now) = find()?;
            if now == names {
                return Ok((found, guard));
            }
        }
        Err(
            Outcome::fail(Code::Conflict, "other calls keep changing the same files")
                .hint("Nothing was changed. Try again when they are done."),
        )
    }

    /// Resolves and judges `path`.
    ///
    /// # Errors
    /// The policy's refusal.
    pub fn find(session: &Session, path: &str) -> Result<Self, Outcome> {
        if session.config.sandbox.mode == hands_config::Mode::ReadOnly {
            return Err(Outcome::fail(
                Code::ProtectedPath,
                "this server is in read-only mode (`sandbox.mode`): nothing is written",
            ));
        }
        let resolved = session.policy.resolve(path, None)?;
        let place = session.policy.check_write(&resolved)?;
        let target = resolved.write_side();
        if target.kind().is_some_and(|kind| kind != Kind::File) {
            return Err(Outcome::fail(
                Code::Unsupported,
                format!("{} is not a regular file", target.path().display()),
            ));
        }
        let source = target.exists().then(|| target.clone());
        match place {
            WritePlace::OutsideExisting => Self::beside(session, target),
            WritePlace::Workspace { folder, .. } => Ok(Self::gated(target, source, folder)),
            WritePlace::Extra { root } => Ok(Self::gated(target, source, root)),
            WritePlace::Tmp => Ok(Self {
                target,
                source,
                redirected_from: None,
                in_private_tmp: true,
                gated: None,
            }),
        }
    }

    fn gated(target: Target, source: Option<Target>, folder: PathBuf) -> Self {
        Self {
            gated: source.is_some().then_some(folder),
            target,
            source,
            redirected_from: None,
            in_private_tmp: false,
        }
    }

    /// H19: an existing file outside every workspace stays as it is; the change goes to a new file
    /// beside it.
    fn beside(session: &Session, original: Target) -> Result<Self, Outcome> {
        let path = original.path().to_path_buf();
        for n in 1..=limits::WORKING_COPIES {
            let copy = original.sibling(&working_copy_name(&path, n))?;
            if copy.exists() {
                continue;
            }
            session.policy.check_working_copy(&copy)?;
            return Ok(Self {
                target: copy,
                source: Some(original),
                redirected_from: Some(path),
                in_private_tmp: false,
                gated: None,
            });
        }
        Err(Outcome::fail(
            Code::Conflict,
            format!("{} has too many working copies", path.display()),
        )
        .hint("Ask your user to move some of them away."))
    }

    /// Passes the permission gate, where the change needs it.
    ///
    /// # Errors
    /// `permission_required`.
    pub fn pass_gate(
        &self,
        call: &Call,
        tool: &str,
        act: Act,
        nonce: Option<&str>,
    ) -> Result<(), Outcome> {
        match &self.gated {
            None => Ok(()),
            Some(folder) => gate::pass(call, tool, folder, act, nonce),
        }
    }

    /// The folder whose permission is needed, if one is.
    pub fn gated_folder(&self) -> Option<&Path> {
        self.gated.as_deref()
    }

    /// Whether no consent is needed any more.
    pub fn is_open(&self, session: &Session) -> bool {
        let grants = session.grants();
        let open = |folder| grants.is_open(folder, Use::Write);
        self.gated.as_deref().is_none_or(open)
    }

    /// Whether this user may replace the existing file. Asked before consent is: nobody should be
    /// asked for what then cannot be done.
    ///
    /// # Errors
    /// The system's refusal.
    pub fn check_writable(&self, old: &Existing) -> Result<(), Outcome> {
        if !self.replaces() {
            return Ok(());
        }
        let (folder, name) = self.target.parent()?;
        replace::check_writable(&folder, &name, self.target.path(), old)
    }

    /// The path that is written, with a word where it alone would mislead.
    pub fn shown(&self) -> String {
        let path = self.target.path().display();
        match self.in_private_tmp {
            true => format!("{path} in this session's private /tmp"),
            false => path.to_string(),
        }
    }

    /// Whether an existing file is changed in place.
    pub fn replaces(&self) -> bool {
        self.source.is_some() && self.redirected_from.is_none()
    }

    /// The existing file, or the one to be made.
    pub fn source_path(&self) -> &Path {
        self.source.as_ref().unwrap_or(&self.target).path()
    }

    /// The files that must not be changed by another call meanwhile.
    fn lock_names(&self) -> Vec<PathBuf> {
        let mut names = vec![self.target.path().to_path_buf()];
        names.extend(self.redirected_from.clone());
        names
    }
}

/// `report.md` → `report.edited.md`, then `report.edited-2.md`.
fn working_copy_name(original: &Path, n: u32) -> OsString {
    let mark = match n {
        1 => ".edited".to_string(),
        n => format!(".edited-{n}"),
    };
    let mut name = OsString::from(original.file_stem().unwrap_or_default());
    name.push(mark);
    if let Some(extension) = original.extension() {
        name.push(".");
        name.push(extension);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn working_copies_keep_the_extension() {
        let name = |path: &str, n| working_copy_name(Path::new(path), n).into_string().unwrap();
        assert_eq!(name("/x/report.md", 1), "report.edited.md");
        assert_eq!(name("/x/report.md", 2), "report.edited-2.md");
        assert_eq!(name("/x/a.tar.gz", 1), "a.tar.edited.gz");
        assert_eq!(name("/x/Makefile", 1), "Makefile.edited");
        assert_eq!(name("/x/.profile", 1), ".profile.edited");
    }
}
