//! Running the managers' programs.

use crate::error::ServiceError;
use crate::limits::{LOOK_INTERVAL, OUTPUT_BYTES, RUN_TIMEOUT};
use std::ffi::OsString;
use std::io::{ErrorKind, Read};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// What a program answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Its exit status; none if a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it printed as errors.
    pub stderr: String,
}

impl Answer {
    /// Whether it says that it succeeded.
    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }

    /// How it ended, in words.
    pub(crate) fn exit(&self) -> String {
        match (self.code, self.signal) {
            (Some(code), _) => format!("exit status {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "no exit status".to_owned(),
        }
    }
}

/// Runs one program, launchctl or systemctl, with given arguments.
pub trait Runner {
    /// The program's name, for messages.
    fn name(&self) -> String;

    /// Runs it to its end.
    ///
    /// # Errors
    /// It cannot be started, or takes too long. A failure that it reports itself is an [`Answer`].
    fn run(&self, arguments: &[&str]) -> Result<Answer, ServiceError>;

    /// Lets some time pass between two looks at something.
    fn pause(&self, time: Duration) {
        thread::sleep(time);
    }
}

/// A [`Runner`] that starts a real program, found by its path and never through `PATH`.
#[derive(Debug, Clone)]
pub struct ProgramRunner {
    program: PathBuf,
    leading: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    timeout: Duration,
}

impl ProgramRunner {
    /// Runs `program`, with the arguments `leading` before those of each run.
    pub fn new(program: &Path, leading: &[&str]) -> ProgramRunner {
        ProgramRunner {
            program: program.to_path_buf(),
            leading: leading.iter().map(OsString::from).collect(),
            // Messages are matched against English texts.
            environment: vec![("LC_ALL".into(), "C".into())],
            timeout: RUN_TIMEOUT,
        }
    }

    /// With a variable in the program's environment, besides those of this process.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: &Path) -> ProgramRunner {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// With another time for one run.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> ProgramRunner {
        self.timeout = timeout;
        self
    }

    fn words(&self, arguments: &[&str]) -> String {
        format!("{} {}", self.name(), arguments.join(" "))
    }

    fn spawn(&self, arguments: &[&str]) -> Result<Child, ServiceError> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.leading)
            .args(arguments)
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().map_err(|source| match source.kind() {
            ErrorKind::NotFound => ServiceError::NoManager {
                reason: format!("there is no {}", self.program.display()),
            },
            _ => ServiceError::Run {
                command: self.words(arguments),
                source,
            },
        })
    }
}

impl Runner for ProgramRunner {
    fn name(&self) -> String {
        let name = self.program.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    fn run(&self, arguments: &[&str]) -> Result<Answer, ServiceError> {
        let mut child = self.spawn(arguments)?;
        let stdout = collect(child.stdout.take());
        let stderr = collect(child.stderr.take());
        let deadline = Instant::now() + self.timeout;
        let failed = |source| ServiceError::Run {
            command: self.words(arguments),
            source,
        };
        let Some(status) = wait(&mut child, deadline).map_err(failed)? else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(ServiceError::Timeout {
                command: self.words(arguments),
                seconds: self.timeout.as_secs(),
            });
        };
        Ok(Answer {
            code: status.code(),
            signal: status.signal(),
            stdout: text(&stdout, deadline),
            stderr: text(&stderr, deadline),
        })
    }
}

fn wait(child: &mut Child, deadline: Instant) -> std::io::Result<Option<ExitStatus>> {
    // A short program ends within the first few looks; a start or stop takes seconds.
    let mut interval = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        thread::sleep(interval);
        interval = (interval * 2).min(LOOK_INTERVAL);
    }
}

/// Reads a stream on a thread of its own, so that a full pipe stops nobody.
fn collect(stream: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let Some(mut stream) = stream else { return };
        let mut kept = Vec::new();
        let _ = (&mut stream)
            .take(OUTPUT_BYTES as u64)
            .read_to_end(&mut kept);
        // The rest is read and dropped: the program must not fail for lack of a reader.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
        let _ = sender.send(kept);
    });
    receiver
}

/// What was read. A process that the program left behind may hold the stream open: then nothing, at the deadline.
fn text(stream: &Receiver<Vec<u8>>, deadline: Instant) -> String {
    let left = deadline.saturating_duration_since(Instant::now());
    let bytes = stream.recv_timeout(left).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests;
