//! Whether the home can be written: without the trail no call is carried out.

use crate::limits;
use hands_control::types::daemon::Reason;
use std::path::{Path, PathBuf};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

/// Looks at the home's disk, one look at a time: a disk that hangs must not take more than one thread.
#[derive(Debug)]
pub(crate) struct Disk {
    folder: PathBuf,
    looking: Option<JoinHandle<Option<Reason>>>,
    /// When it was last found well: a disk at rest is not woken for every look.
    well_at: Option<Instant>,
}

impl Disk {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            looking: None,
            well_at: None,
        }
    }

    /// What keeps the home from being written.
    pub(crate) async fn trouble(&mut self) -> Option<Reason> {
        let lately = |at: Instant| at.elapsed() < limits::HOME_LOOK_EVERY;
        if self.looking.is_none() && self.well_at.is_some_and(lately) {
            return None;
        }
        let folder = self.folder.clone();
        let looking = self
            .looking
            .get_or_insert_with(|| tokio::task::spawn_blocking(move || look(&folder)));
        match timeout(limits::HOME_TIMEOUT, looking).await {
            Ok(found) => {
                self.looking = None;
                let found =
                    found.unwrap_or_else(|why| Some(reason("home_unwritable", why.to_string())));
                self.well_at = found.is_none().then(Instant::now);
                found
            }
            Err(_) => Some(reason(
                "home_unwritable",
                format!(
                    "the home's disk does not answer within {} s",
                    limits::HOME_TIMEOUT.as_secs()
                ),
            )),
        }
    }
}

fn look(folder: &Path) -> Option<Reason> {
    let free = rustix::fs::statvfs(folder)
        .ok()
        .map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    judge(free, &tried(folder))
}

/// A quota or a read-only disk shows only when something is written.
fn tried(folder: &Path) -> std::io::Result<()> {
    let path = folder.join("handsd.try");
    let written = std::fs::write(&path, [0; limits::HOME_TRY_BYTES]);
    let removed = std::fs::remove_file(&path);
    written.and(removed)
}

fn judge(free: Option<u64>, tried: &std::io::Result<()>) -> Option<Reason> {
    let space = free.map(|free| format!("{} KiB free", free >> 10));
    match (tried, free, space) {
        (Err(why), _, space) => {
            let space = space.map(|space| format!(" ({space})"));
            let text = format!(
                "the home cannot be written: {why}{}",
                space.unwrap_or_default()
            );
            let full = matches!(
                why.kind(),
                std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
            );
            let code = if full { "home_full" } else { "home_unwritable" };
            Some(reason(code, text))
        }
        (Ok(()), Some(free), Some(space)) if free < limits::HOME_FREE_MIN => Some(reason(
            "home_full",
            format!("the home's disk is full ({space})"),
        )),
        _ => None,
    }
}

fn reason(code: &str, message: String) -> Reason {
    let hint = match code {
        "home_full" => "free disk space: without it no call can be recorded, and so none is done",
        _ => "`handsctl doctor` says what is wrong with the home",
    };
    Reason {
        code: code.to_owned(),
        message,
        hint: Some(hint.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error, ErrorKind};

    fn code(free: Option<u64>, tried: std::io::Result<()>) -> Option<String> {
        judge(free, &tried).map(|reason| reason.code)
    }

    #[test]
    fn a_home_is_full_before_the_last_byte_and_unwritable_for_other_reasons() {
        assert_eq!(code(Some(limits::HOME_FREE_MIN), Ok(())), None);
        assert_eq!(code(None, Ok(())), None);
        let full = Some("home_full".to_owned());
        assert_eq!(code(Some(limits::HOME_FREE_MIN - 1), Ok(())), full);
        for kind in [ErrorKind::StorageFull, ErrorKind::QuotaExceeded] {
            assert_eq!(code(Some(1 << 40), Err(Error::from(kind))), full);
        }
        let read_only = Err(Error::from(ErrorKind::ReadOnlyFilesystem));
        assert_eq!(code(None, read_only).as_deref(), Some("home_unwritable"));
    }

    #[tokio::test]
    async fn a_real_folder_is_written_and_left_empty() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Disk::new(dir.path().to_path_buf()).trouble().await, None);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let gone = dir.path().join("gone");
        let found = Disk::new(gone).trouble().await.unwrap();
        assert_eq!(found.code, "home_unwritable");
    }
}
