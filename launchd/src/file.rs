//! Writing and removing a definition.

use crate::error::ServiceError;
use crate::limits::{FILE_BYTES, MARKER};
use crate::manager::Overwrite;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use tempfile::Builder;

/// A definition holds no secret. launchd refuses one that others may write; systemd complains of one that others may not read.
const FILE_MODE: u32 = 0o644;

/// Whose file is in the place of the definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// There is none.
    Missing,
    /// It has our marker line.
    Ours,
    /// It has not.
    Foreign,
}

/// Whose file that is.
///
/// # Errors
/// It is a symlink or no plain file, or cannot be read.
pub(crate) fn presence(path: &Path) -> Result<Presence, ServiceError> {
    let Some(text) = read(path)? else {
        return Ok(Presence::Missing);
    };
    let marked = text.lines().any(|line| line.contains(MARKER));
    Ok(if marked {
        Presence::Ours
    } else {
        Presence::Foreign
    })
}

/// The file's text; none if there is no file.
fn read(path: &Path) -> Result<Option<String>, ServiceError> {
    // NONBLOCK: a FIFO in its place must not hold us.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(descriptor) => File::from(descriptor),
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err(symlink(path)),
        Err(error) => return Err(ServiceError::io("open", path)(error.into())),
    };
    let metadata = file.metadata().map_err(ServiceError::io("look at", path))?;
    if !metadata.is_file() {
        let error = ErrorKind::InvalidInput.into();
        return Err(ServiceError::io(
            "use as a service definition (no plain file)",
            path,
        )(error));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES)
        .read_to_end(&mut bytes)
        .map_err(ServiceError::io("read", path))?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

fn symlink(path: &Path) -> ServiceError {
    ServiceError::Symlink {
        path: path.to_path_buf(),
    }
}

/// Writes the definition; false if it was there already, letter for letter.
pub(crate) fn write(path: &Path, text: &str, overwrite: Overwrite) -> Result<bool, ServiceError> {
    let folder = folder_of(path)?;
    make_folder(folder)?;
    let old = presence(path)?;
    if old == Presence::Foreign && overwrite == Overwrite::OwnOnly {
        return Err(ServiceError::Foreign {
            path: path.to_path_buf(),
        });
    }
    if read(path)?.as_deref() == Some(text) {
        return Ok(false);
    }
    let mut file = Builder::new()
        .prefix(".handsd-")
        .permissions(fs::Permissions::from_mode(FILE_MODE))
        .tempfile_in(folder)
        .map_err(ServiceError::io("create a file in", folder))?;
    // Again, without the umask.
    let mode = fs::Permissions::from_mode(FILE_MODE);
    file.write_all(text.as_bytes())
        .and_then(|()| file.as_file().set_permissions(mode))
        .and_then(|()| file.as_file().sync_all())
        .map_err(ServiceError::io("write", file.path()))?;
    // A rename replaces a link itself, so one that appears now is not followed. A file that appears now where none was, is kept.
    let placed = match old {
        Presence::Missing => file.persist_noclobber(path),
        Presence::Ours | Presence::Foreign => file.persist(path),
    };
    placed.map_err(|error| ServiceError::io("put in place", path)(error.error))?;
    sync_folder(folder)?;
    Ok(true)
}

/// Removes the definition; false if there was none.
pub(crate) fn remove(path: &Path, overwrite: Overwrite) -> Result<bool, ServiceError> {
    match presence(path)? {
        Presence::Missing => return Ok(false),
        Presence::Foreign if overwrite == Overwrite::OwnOnly => {
            return Err(ServiceError::Foreign {
                path: path.to_path_buf(),
            });
        }
        Presence::Foreign | Presence::Ours => {}
    }
    fs::remove_file(path).map_err(ServiceError::io("remove", path))?;
    sync_folder(folder_of(path)?)?;
    Ok(true)
}

fn folder_of(path: &Path) -> Result<&Path, ServiceError> {
    path.parent().ok_or_else(|| ServiceError::Folder {
        path: path.to_path_buf(),
        reason: "it has no parent".to_owned(),
        hint: "give the path of a file",
    })
}

fn sync_folder(folder: &Path) -> Result<(), ServiceError> {
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(ServiceError::io("save", folder))
}

/// Makes a folder that only its owner may change, and checks one that is there. Links above it are the person's own affair.
pub(crate) fn make_folder(folder: &Path) -> Result<(), ServiceError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(ServiceError::io("make the folder", folder))?;
    let metadata =
        fs::symlink_metadata(folder).map_err(ServiceError::io("look at the folder", folder))?;
    let wrong = |reason: String, hint| {
        Err(ServiceError::Folder {
            path: folder.to_path_buf(),
            reason,
            hint,
        })
    };
    if !metadata.is_dir() {
        return wrong("it is a symlink".to_owned(), "make it a folder");
    }
    let me = rustix::process::geteuid().as_raw();
    if metadata.uid() != me {
        let reason = format!("it belongs to user {}, you are {me}", metadata.uid());
        return wrong(reason, "run handsctl as its owner, without sudo");
    }
    if metadata.mode() & 0o022 != 0 {
        let reason = format!(
            "others may write in it (mode {:o})",
            metadata.mode() & 0o777
        );
        return wrong(reason, "take that right away with `chmod go-w`");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
