//! A command's output: both ends in memory, all of it in a file when it is long or not text.

use crate::capture::Capture;
use crate::limits;
use crate::plan::Request;
use crate::report::Excerpt;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// Collects what the command prints.
pub(super) struct Output {
    stdout: Capture,
    stderr: Capture,
    both: Capture,
    utf8: Utf8Watch,
    spill: Spill,
}

/// What there is at the end.
pub(super) struct Collected {
    pub(super) stdout: Excerpt,
    pub(super) stderr: Excerpt,
    pub(super) both: Excerpt,
    pub(super) spill: Option<PathBuf>,
    pub(super) spilled_bytes: u64,
    pub(super) spill_error: Option<String>,
}

impl Output {
    pub(super) fn new(request: &Request) -> Self {
        let head = request.head_bytes.min(limits::MAX_KEEP_BYTES);
        let tail = request.tail_bytes.min(limits::MAX_KEEP_BYTES);
        Self {
            stdout: Capture::new(head, tail),
            stderr: Capture::new(head, tail),
            both: Capture::new(head, tail),
            utf8: Utf8Watch::default(),
            spill: Spill::new(request.spill.clone(), request.spill_max_bytes),
        }
    }

    pub(super) fn push_stdout(&mut self, bytes: &[u8]) {
        self.stdout.push(bytes);
        self.push_both(bytes);
    }

    pub(super) fn push_stderr(&mut self, bytes: &[u8]) {
        self.stderr.push(bytes);
        self.push_both(bytes);
    }

    /// As long as the capture is whole nothing is written: most commands say little. The first
    /// bytes that would be lost make the file, with everything so far in it.
    fn push_both(&mut self, bytes: &[u8]) {
        let was_whole = self.both.is_whole();
        if !self.both.has_room_for(bytes.len()) {
            if was_whole {
                self.spill.write(&self.both.kept());
            }
            self.spill.write(bytes);
        }
        self.both.push(bytes);
        self.utf8.push(bytes);
    }

    pub(super) fn total(&self) -> u64 {
        self.both.total()
    }

    pub(super) fn last_line(&self) -> String {
        self.both.last_line(limits::PROGRESS_LINE_BYTES)
    }

    /// What a sandbox program said when it failed: the end of standard error.
    pub(super) fn complaint(&self) -> String {
        let kept = self.stderr.kept();
        let start = kept.len().saturating_sub(limits::COMPLAINT_BYTES);
        String::from_utf8_lossy(&kept[start..]).trim().to_string()
    }

    pub(super) fn finish(&mut self) -> Collected {
        if !self.utf8.is_text() && self.both.is_whole() {
            self.spill.write(&self.both.kept());
        }
        Collected {
            stdout: self.stdout.excerpt(),
            stderr: self.stderr.excerpt(),
            both: self.both.excerpt(),
            spill: self
                .spill
                .file
                .is_some()
                .then(|| self.spill.path.clone())
                .flatten(),
            spilled_bytes: self.spill.written,
            spill_error: self.spill.error.take(),
        }
    }
}

/// The file that holds everything.
struct Spill {
    path: Option<PathBuf>,
    file: Option<File>,
    max: u64,
    written: u64,
    error: Option<String>,
}

impl Spill {
    fn new(path: Option<PathBuf>, max: u64) -> Self {
        Self {
            path,
            file: None,
            max,
            written: 0,
            error: None,
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.error.is_some() {
            return;
        }
        if let Err(e) = self.try_write(bytes) {
            self.error = Some(e);
        }
    }

    fn try_write(&mut self, bytes: &[u8]) -> Result<(), String> {
        let Some(path) = &self.path else {
            return Err("no file was asked for".into());
        };
        let room = self.max.saturating_sub(self.written);
        let fits = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(
                OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .mode(0o600)
                    .open(path)
                    .map_err(|e| format!("creating {}: {e}", path.display()))?,
            ),
        };
        file.write_all(&bytes[..fits])
            .map_err(|e| format!("writing {}: {e}", path.display()))?;
        self.written += fits as u64;
        if fits < bytes.len() {
            return Err(format!("the limit of {} bytes is reached", self.max));
        }
        Ok(())
    }
}

/// Follows a byte stream and knows whether all of it is UTF-8.
#[derive(Default)]
struct Utf8Watch {
    broken: bool,
    /// The beginning of a character whose end has not come yet.
    open: Vec<u8>,
}

impl Utf8Watch {
    fn push(&mut self, bytes: &[u8]) {
        if self.broken || bytes.is_empty() {
            return;
        }
        let joined;
        let bytes = if self.open.is_empty() {
            bytes
        } else {
            self.open.extend_from_slice(bytes);
            joined = std::mem::take(&mut self.open);
            &joined[..]
        };
        if let Err(e) = std::str::from_utf8(bytes) {
            self.broken = e.error_len().is_some();
            self.open = bytes[e.valid_up_to()..].to_vec();
        }
    }

    fn is_text(&self) -> bool {
        !self.broken && self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(pieces: &[&[u8]]) -> bool {
        let mut watch = Utf8Watch::default();
        pieces.iter().for_each(|p| watch.push(p));
        watch.is_text()
    }

    #[test]
    fn characters_may_be_split_over_reads() {
        assert!(watch(&["é".as_bytes()]));
        assert!(watch(&[b"\xc3", b"\xa9"]));
        assert!(watch(&[b"\xf0", b"\x9f", b"\x99", b"\x82ok"]));
        assert!(!watch(&[b"a\xff", b"b"]));
        assert!(!watch(&[b"a\xc3"]), "a character cut off at the end");
        assert!(!watch(&[b"\xc3", b"x"]));
    }

    fn output(spill: Option<PathBuf>, max: u64) -> Output {
        Output {
            stdout: Capture::new(4, 4),
            stderr: Capture::new(4, 4),
            both: Capture::new(4, 4),
            utf8: Utf8Watch::default(),
            spill: Spill::new(spill, max),
        }
    }

    #[test]
    fn short_text_writes_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut output = output(Some(path.clone()), 100);
        output.push_stdout(b"abc");
        assert_eq!(output.finish().spill, None);
        assert!(!path.exists());
    }

    #[test]
    fn long_output_is_whole_in_the_file_in_order_of_arrival() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut output = output(Some(path.clone()), 100);
        for _ in 0..5 {
            output.push_stdout(b"out,");
            output.push_stderr(b"err,");
        }
        let collected = output.finish();
        assert_eq!(collected.spill.as_deref(), Some(path.as_path()));
        assert_eq!(std::fs::read(&path).unwrap(), b"out,err,".repeat(5));
        assert_eq!(collected.spilled_bytes, 40);
        assert_eq!(collected.spill_error, None);
    }

    #[test]
    fn bytes_that_are_no_text_are_kept_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut output = output(Some(path.clone()), 100);
        output.push_stdout(b"a\xffb");
        output.finish();
        assert_eq!(std::fs::read(&path).unwrap(), b"a\xffb");
    }

    #[test]
    fn the_files_limit_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut output = output(Some(path.clone()), 10);
        output.push_stdout(b"0123456789abc");
        let collected = output.finish();
        assert_eq!(std::fs::read(&path).unwrap(), b"0123456789");
        assert!(collected.spill_error.unwrap().contains("10 bytes"));
    }
}
