//! A lock that outlives a panic.

use std::sync::{Mutex, MutexGuard};

/// Locks; what a panicking holder left behind is used as it is, since every holder here writes
/// single values.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
