//! One call at a time per file.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The files that calls are changing now. Cloning shares it.
#[derive(Debug, Clone, Default)]
pub struct Locks(Arc<Table>);

#[derive(Debug, Default)]
struct Table {
    held: Mutex<HashSet<PathBuf>>,
    freed: Condvar,
}

/// Holds its files until dropped.
#[derive(Debug)]
pub struct Guard {
    table: Arc<Table>,
    paths: Vec<PathBuf>,
}

impl Locks {
    /// Waits until none of these files is held, then holds all of them. All at once, so that two
    /// calls can never wait for each other. Blocks: not for async threads.
    pub fn hold(&self, paths: Vec<PathBuf>) -> Guard {
        let held = self.0.held.lock().unwrap_or_else(PoisonError::into_inner);
        let busy = |held: &mut HashSet<PathBuf>| paths.iter().any(|p| held.contains(p));
        let mut held = self
            .0
            .freed
            .wait_while(held, busy)
            .unwrap_or_else(PoisonError::into_inner);
        held.extend(paths.iter().cloned());
        drop(held);
        Guard {
            table: Arc::clone(&self.0),
            paths,
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut held = self
            .table
            .held
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for path in &self.paths {
            held.remove(path);
        }
        drop(held);
        self.table.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_file_is_held_by_one_at_a_time() {
        let locks = Locks::default();
        let inside = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for turn in 0..8 {
                let (locks, inside) = (locks.clone(), &inside);
                scope.spawn(move || {
                    for _ in 0..200 {
                        let mut paths = vec![PathBuf::from("/a"), PathBuf::from("/b")];
                        paths.rotate_left(turn % 2);
                        let guard = locks.hold(paths);
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(guard);
                    }
                });
            }
        });
    }

    #[test]
    fn different_files_do_not_wait() {
        let locks = Locks::default();
        let _a = locks.hold(vec!["/a".into()]);
        let _b = locks.hold(vec!["/b".into()]);
    }
}
