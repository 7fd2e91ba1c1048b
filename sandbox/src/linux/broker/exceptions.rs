//! What of the person's may go all the same, because nothing is lost by it.

use super::caller::Caller;
use super::entries::Entry;
use super::keeper::lock;
use super::ledger::Ledger;
use super::object::{Stat, stat};
use super::{Broker, No};
use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::path::Path;

impl Broker {
    /// Removes a name that the call did not make, if one of the exceptions covers it.
    pub(super) fn remove_old(
        &self,
        _caller: &Caller,
        _entry: &Entry,
        _seen: &Stat,
    ) -> Result<(), No> {
        Err(No::because("it was there before"))
    }

    /// Whether an old folder, if it is empty, may go.
    pub(super) fn may_remove_old_folder(
        &self,
        _caller: &Caller,
        _entry: &Entry,
        _seen: &Stat,
        _ledger: &Ledger,
    ) -> Result<(), No> {
        Err(No::because("it was there before"))
    }

    /// Whether an old object may get this name: not into a build folder, where it would lose its
    /// protection.
    pub(super) fn may_move_old(&self, from: &Path, to: &Path) -> Result<(), No> {
        let before = self.policy.build_folders(from);
        let into = self.policy.build_folders(to);
        if into.iter().all(|folder| before.contains(folder)) {
            return Ok(());
        }
        Err(No::because("it would come into a folder of build products"))
    }

    /// Whether an old file may take the place of another one.
    pub(super) fn may_put_old_over(&self, _from: &Entry, _to: &Entry, _ledger: &Ledger) -> bool {
        false
    }

    /// Whether an old file at this entry may go without a copy.
    pub(super) fn is_free_to_remove(&self, _entry: &Entry, _seen: &Stat) -> bool {
        false
    }

    /// Whether this is the name of a file that was set aside in this call: what takes it is the
    /// old file's successor, and stays.
    pub(super) fn takes_an_old_name(&self, dir: &OwnedFd, name: &CStr) -> bool {
        let asides = lock(&self.asides);
        if asides.is_empty() {
            return false;
        }
        let id = stat(dir).map(|seen| seen.id);
        let mut asides = asides.iter();
        asides.any(|aside| id == Ok(aside.dir_id) && aside.name.as_c_str() == name)
    }
}
