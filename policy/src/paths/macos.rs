//! What only macOS has.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::protected::fold_path;

/// There is no proc; `/dev` is refused by its path.
pub(super) fn is_kernel_file_system(_fd: &OwnedFd) -> bool {
    false
}

/// The folder's name as the disk has it: asked for in another case it is the same folder, and results and
/// grants should name it one way. Anything but another spelling of the same path is ignored.
pub(super) fn true_spelling(folder: &OwnedFd, path: PathBuf) -> PathBuf {
    match rustix::fs::getpath(folder) {
        Ok(text) => {
            let told = PathBuf::from(OsString::from_vec(text.into_bytes()));
            match fold_path(&told) == fold_path(&path) {
                true => told,
                false => path,
            }
        }
        Err(_) => path,
    }
}
