//! The diagnostics log, `logs/handsd.log`: what the daemon does, and what its children print.

use crate::error::DaemonError;
use crate::limits;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::fmt::writer::{BoxMakeWriter, MakeWriterExt as _};

/// Starts logging to the file, and to standard error too where `also_stderr`. Keep the guard: what it holds is written
/// when it is dropped.
///
/// # Errors
/// The file cannot be opened, or something else logs in this process already.
pub fn start(logs: &Path, also_stderr: bool) -> Result<WorkerGuard, DaemonError> {
    let path = logs.join("handsd.log");
    let file = Rotating::open(path.clone()).map_err(DaemonError::io("open", &path))?;
    // Not lossy: a line that is lost is the one that would have explained it.
    let (writer, guard) = NonBlockingBuilder::default().lossy(false).finish(file);
    let writer = match also_stderr {
        true => BoxMakeWriter::new(writer.and(io::stderr)),
        false => BoxMakeWriter::new(writer),
    };
    tracing_subscriber::fmt()
        .with_writer(writer)
        .with_ansi(false)
        .with_target(false)
        .try_init()
        .map_err(|why| DaemonError::Log {
            path,
            reason: why.to_string(),
        })?;
    Ok(guard)
}

/// A file that is moved aside when it is full; the appender's own files rotate by time alone, which bounds nothing.
struct Rotating {
    path: PathBuf,
    file: File,
    size: u64,
}

impl Rotating {
    fn open(path: PathBuf) -> io::Result<Self> {
        let file = File::options()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&path)?;
        let size = file.metadata()?.len();
        Ok(Self { path, file, size })
    }

    fn rotate(&mut self) -> io::Result<()> {
        let numbered = |number: u32| PathBuf::from(format!("{}.{number}", self.path.display()));
        for number in (1..limits::LOG_KEEP).rev() {
            // One that is not there yet cannot be moved.
            let _ = std::fs::rename(numbered(number), numbered(number + 1));
        }
        std::fs::rename(&self.path, numbered(1))?;
        *self = Self::open(self.path.clone())?;
        Ok(())
    }
}

impl Write for Rotating {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.size >= limits::LOG_BYTES {
            self.rotate()?;
        }
        let count = self.file.write(bytes)?;
        self.size += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Logs every line of a child's output until it ends.
pub(crate) fn log_lines(
    name: &'static str,
    output: Option<impl AsyncRead + Unpin + Send + 'static>,
) {
    let Some(output) = output else { return };
    tokio::spawn(async move {
        let mut reader = BufReader::new(output);
        let mut line = Vec::new();
        while let Ok(Some(cut)) = next_line(&mut reader, &mut line).await {
            let text = String::from_utf8_lossy(&line);
            let text: String = text
                .trim_end()
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect();
            let mark = if cut { " […]" } else { "" };
            tracing::info!("{name}: {text}{mark}");
            line.clear();
        }
    });
}

/// Reads one line and keeps its first part; whether more was dropped, or none at the end.
async fn next_line(
    reader: &mut (impl tokio::io::AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
) -> io::Result<Option<bool>> {
    let mut cut = false;
    let mut any = false;
    loop {
        let part = reader.fill_buf().await?;
        if part.is_empty() {
            return Ok(any.then_some(cut));
        }
        any = true;
        let end = part.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(part.len());
        let room = limits::LOG_LINE_BYTES.saturating_sub(line.len());
        line.extend_from_slice(&part[..taken.min(room)]);
        cut |= taken > room;
        let consumed = end.map_or(taken, |end| end + 1);
        reader.consume(consumed);
        if end.is_some() {
            return Ok(Some(cut));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn long_lines_are_cut_and_the_next_is_whole() {
        let mut text = vec![b'x'; limits::LOG_LINE_BYTES * 3];
        text.extend_from_slice(b"\nshort\nlast");
        let mut reader = BufReader::with_capacity(1000, text.as_slice());
        let mut found = Vec::new();
        let mut line = Vec::new();
        while let Some(cut) = next_line(&mut reader, &mut line).await.unwrap() {
            found.push((line.len(), cut));
            line.clear();
        }
        assert_eq!(
            found,
            [(limits::LOG_LINE_BYTES, true), (5, false), (4, false)]
        );
    }

    #[test]
    fn a_full_log_is_moved_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("handsd.log");
        let mut log = Rotating::open(path.clone()).unwrap();
        for round in 0..limits::LOG_KEEP + 3 {
            log.size = limits::LOG_BYTES;
            writeln!(log, "round {round}").unwrap();
        }
        assert!(std::fs::read_to_string(&path).unwrap().contains("round 5"));
        let files = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(files, 1 + limits::LOG_KEEP as usize);
    }
}
