//! What the session's own file tools make counts as made by the session, so that its commands may
//! remove it again.
//!
//! The ledger names objects, not paths: a file that the person saves under the name of one that a
//! tool made is another object and stays. Where the ledger cannot be written nothing is lost
//! either: the file then counts as old, and commands do not remove it.

use crate::session::Session;
use hands_sandbox::Made;
use std::fs::File;
use std::os::fd::AsFd;

/// Notes files and folders that a call has made where nothing was.
pub fn created<T: AsFd>(session: &Session, objects: &[T]) {
    if let Some(ledger) = session.confinement.ledger().filter(|_| !objects.is_empty()) {
        let _ = Made::note(ledger, objects);
    }
}

/// Notes the files that took the place of others, where those were the session's own. A file in an
/// old one's place is as old as that.
pub fn replaced(session: &Session, pairs: &[(&File, File)]) {
    let Some(ledger) = session.confinement.ledger().filter(|_| !pairs.is_empty()) else {
        return;
    };
    let made = Made::load(ledger);
    let heirs = pairs.iter().filter(|(old, _)| made.has(old));
    let heirs: Vec<&File> = heirs.map(|(_, new)| new).collect();
    created(session, &heirs);
}
