//! Faults: panics and fatal errors with their backtrace.

use std::backtrace::Backtrace;
use std::panic::PanicHookInfo;
use std::path::Path;
use std::time::Duration;

use crate::clock;
use crate::error::{TrailError, io_at};
use crate::folders::Folders;
use crate::fsx::clip;
use crate::limits::{FAULT_LOCK_TRIES, LIFECYCLE, MAX_FAULT};
use crate::read::last_lines;
use crate::redact;
use crate::rolling::{JustDrop, Lock, Log, snapshot};

/// How the first line of a fault begins; all others are indented.
const HEADER: &str = "=== fault ";

/// From now on a panic of any thread is appended to the fault log and shown on stderr: time,
/// thread, place, message, backtrace, redacted. Nothing is written to stdout.
///
/// Takes the place of the hook that was installed before.
pub fn install_panic_hook(faults: &Path, process: &str) {
    let (faults, process) = (faults.to_path_buf(), process.to_owned());
    std::panic::set_hook(Box::new(move |info| {
        let text = describe(info);
        let fault = render(&process, &text);
        let kept = append(&faults, &fault);
        show(fault.as_bytes());
        if let Err(e) = kept {
            show(format!("the fault could not be kept: {e}\n").as_bytes());
        }
    }));
}

/// Keeps a fatal error that is no panic, with a backtrace of where this is called.
///
/// # Errors
/// [`TrailError::Io`].
pub fn record_fault(faults: &Path, process: &str, message: &str) -> Result<(), TrailError> {
    let text = format!("{message}\n{}", Backtrace::force_capture());
    append(faults, &render(process, &text)).map_err(io_at("append a fault to", faults))
}

/// The last `count` faults, oldest first, each with its lines.
///
/// # Errors
/// [`TrailError::Io`] if a log is there and cannot be read.
pub fn read_faults(folders: &Folders, count: usize) -> Result<Vec<String>, TrailError> {
    let path = folders.faults();
    let (parts, ()) = snapshot(&path, || Ok(())).map_err(io_at("open the log", &path))?;
    let (mut faults, mut lines) = (Vec::new(), Vec::new());
    last_lines(&parts, &mut |line| {
        lines.push(String::from_utf8_lossy(line.bytes).into_owned());
        if line.bytes.starts_with(HEADER.as_bytes()) {
            lines.reverse();
            faults.push(lines.join("\n"));
            lines.clear();
        }
        faults.len() < count
    })?;
    faults.truncate(count);
    faults.reverse();
    Ok(faults)
}

fn describe(info: &PanicHookInfo<'_>) -> String {
    let place = info
        .location()
        .map_or_else(String::new, |l| format!(" at {l}"));
    let message = info.payload_as_str().unwrap_or("(no message)");
    format!(
        "panicked{place}: {message}\nbacktrace:\n{}",
        Backtrace::force_capture()
    )
}

/// A header and the text, indented so that no message can pass for a header.
fn render(process: &str, text: &str) -> String {
    let thread = std::thread::current();
    let mut fault = format!(
        "{HEADER}{} {process} pid {} thread {:?}\n",
        clock::now(),
        std::process::id(),
        thread.name().unwrap_or("unnamed"),
    );
    for line in redact::text(clip(text, MAX_FAULT)).lines() {
        fault.push_str("  ");
        fault.push_str(line.trim_end_matches('\r'));
        fault.push('\n');
    }
    fault
}

/// A panicking thread must not wait for ever: without the lock it writes all the same.
fn append(faults: &Path, fault: &str) -> std::io::Result<()> {
    let mut lock = Lock::open(faults)?;
    let mut log = Log::new(faults.to_path_buf(), LIFECYCLE);
    for _ in 0..FAULT_LOCK_TRIES {
        if let Some(held) = lock.try_exclusive() {
            log.prepare(&held)?;
            return log.append(&held, fault.as_bytes(), &mut JustDrop);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    log.append_without_lock(fault.as_bytes())
}

/// Straight to the descriptor: the panic may have come while stderr was locked.
fn show(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match rustix::io::write(rustix::stdio::stderr(), bytes) {
            Ok(count) if count > 0 => bytes = &bytes[count..],
            Err(rustix::io::Errno::INTR) => {}
            _ => return,
        }
    }
}
