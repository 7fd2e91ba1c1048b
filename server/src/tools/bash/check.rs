//! The command check: a good message early. The boundary is the sandbox, whatever this says.

use crate::outcome::{Code, Outcome};
use crate::session::Session;
use hands_policy::command::{self, Ground, Scene, Standing, Verdict};
use hands_policy::paths::RefusalKind;
use hands_sandbox::Made;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Refuses a line that plainly removes what commands cannot remove.
pub(super) async fn pass(session: &Arc<Session>, line: &str, cwd: &Path) -> Result<(), Outcome> {
    let (session, line, cwd) = (Arc::clone(session), line.to_string(), cwd.to_path_buf());
    let look = tokio::task::spawn_blocking(move || look(&session, &line, &cwd));
    match look.await {
        Ok(Verdict::Refused(refusal)) => {
            Err(Outcome::fail(Code::DeleteBlocked, refusal.message).hint(refusal.hint))
        }
        Ok(Verdict::Clean | Verdict::Unsure(_)) => Ok(()),
        Err(e) => Err(Outcome::fail(
            Code::Internal,
            format!("looking at the command: {e}"),
        )),
    }
}

/// What the check says of a line that would run in this folder. Looks at the disk where the line
/// removes something: not for async threads.
pub(crate) fn look(session: &Session, line: &str, cwd: &Path) -> Verdict {
    let roots = session.confinement.roots();
    let removable = session.confinement.ledger();
    let disk = removable.map(|ledger| Disk {
        session,
        roots: &roots,
        ledger,
        made: OnceLock::new(),
    });
    command::look_at(
        line,
        &Scene {
            folder: cwd,
            home: &session.hub.user_home,
            roots: &roots,
            ground: disk.as_ref().map(|disk| disk as &dyn Ground),
        },
    )
}

/// What commands of this session may remove, as far as that is known before they try.
struct Disk<'a> {
    session: &'a Session,
    roots: &'a [PathBuf],
    ledger: &'a Path,
    made: OnceLock<Made>,
}

impl Disk<'_> {
    /// Whether a name on the way is that of a folder of build products, in which old files may go:
    /// the broker finds out.
    fn is_in_build_folder(&self, path: &Path) -> bool {
        let names = &self.session.config.sandbox.build_folders;
        let above = path.parent().and_then(|folder| folder.canonicalize().ok());
        let real = above.map(|folder| match path.file_name() {
            Some(name) => folder.join(name),
            None => folder,
        });
        let real = real.unwrap_or_else(|| path.to_path_buf());
        let root = self.roots.iter().find(|root| real.starts_with(root));
        let below = root.and_then(|root| real.strip_prefix(root).ok());
        below.is_some_and(|below| {
            let mut parts = below.iter();
            parts.any(|part| names.iter().any(|name| part == name.as_str()))
        })
    }

    /// Whether the path is protected, so that not even its presence is told. Of the system's own
    /// everybody knows.
    fn is_secret(&self, path: &Path) -> bool {
        let policy = &self.session.policy;
        let Some(text) = path.to_str() else {
            return true;
        };
        let judged = policy
            .resolve(text, None)
            .and_then(|target| policy.check_read(&target));
        judged.is_err_and(|refusal| {
            refusal.kind == RefusalKind::Protected && refusal.rule != Some("system_path")
        })
    }
}

impl Ground for Disk<'_> {
    fn standing(&self, path: &Path) -> Standing {
        let Ok(there) = path.symlink_metadata() else {
            return Standing::Open;
        };
        // A socket that nobody listens on may go.
        let may_go = there.file_type().is_socket()
            || self
                .made
                .get_or_init(|| Made::load(self.ledger))
                .holds(path)
            || self.is_in_build_folder(path)
            || self.is_secret(path);
        match there.is_dir() {
            _ if may_go => Standing::Open,
            true => Standing::Folder,
            false => Standing::File,
        }
    }
}
