//! One daemon a home: a locked file with its process id.

use crate::error::DaemonError;
use crate::limits;
use hands_config::Home;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Instant;

/// The lock; whoever has it is the home's daemon. The file stays when it ends, without a number in it.
#[derive(Debug)]
pub(crate) struct Instance {
    file: File,
}

impl Instance {
    /// Takes the lock and writes this process's id into its file.
    pub(crate) fn claim(home: &Home) -> Result<Self, DaemonError> {
        let path = home.run_dir().join("handsd.pid");
        let mut options = File::options();
        options
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600);
        let file = options
            .open(&path)
            .map_err(DaemonError::io("open", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(DaemonError::Runs {
                    home: home.root().to_path_buf(),
                    pid: number_soon(file),
                });
            }
            Err(std::fs::TryLockError::Error(source)) => {
                return Err(DaemonError::io("lock", &path)(source));
            }
        }
        let mut claimed = Self { file };
        claimed.write(&path)?;
        Ok(claimed)
    }

    fn write(&mut self, path: &Path) -> Result<(), DaemonError> {
        let failed = DaemonError::io("write", path);
        let write = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "{}", std::process::id())
        };
        write(&mut self.file).map_err(failed)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // A number without a lock would only mislead.
        let _ = self.file.set_len(0);
    }
}

/// The number in the file; whoever has just taken the lock has yet to write it.
fn number_soon(mut file: File) -> Option<u32> {
    let deadline = Instant::now() + limits::PID_PATIENCE;
    loop {
        let found = number(&mut file);
        if found.is_some() || Instant::now() >= deadline {
            return found;
        }
        std::thread::sleep(limits::PROCESS_LOOK);
    }
}

fn number(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(32).read_to_string(&mut text).ok()?;
    // Without its end it may be half written.
    text.strip_suffix('\n')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_one_is_told_who_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("home"));
        home.prepare().unwrap();
        let first = Instance::claim(&home).unwrap();
        let error = Instance::claim(&home).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains(&format!("pid {}", std::process::id())),
            "{text}"
        );
        drop(first);
        // A process that another test is just starting has the descriptor, and so the lock, until its exec.
        let again = || Instance::claim(&home).ok();
        let mut first = std::iter::repeat_with(again)
            .take(1000)
            .inspect(|claimed| {
                if claimed.is_none() {
                    std::thread::sleep(limits::PROCESS_LOOK);
                }
            })
            .flatten()
            .next()
            .unwrap();

        // The first has the lock, and its number not yet written.
        first.file.set_len(0).unwrap();
        let second = std::thread::spawn({
            let home = home.clone();
            move || Instance::claim(&home).unwrap_err().to_string()
        });
        std::thread::sleep(limits::PROCESS_LOOK * 2);
        first.write(&home.run_dir().join("handsd.pid")).unwrap();
        let text = second.join().unwrap();
        assert!(text.contains("pid "), "{text}");
    }
}
