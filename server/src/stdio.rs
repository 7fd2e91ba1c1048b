//! Standard output is the protocol's alone (H11).

use rustix::fd::OwnedFd;
use std::fs::File;

/// The client's two ends, taken away from everybody else.
#[derive(Debug)]
pub struct Streams {
    input: File,
    output: File,
}

impl Streams {
    /// Takes both. Keep them until the process ends: a client takes the end of this process's
    /// output for its death, and may kill it before it has said why it could not start.
    ///
    /// # Errors
    /// When the descriptors cannot be duplicated.
    pub fn claim() -> std::io::Result<Self> {
        Ok(Self {
            output: claim_stdout()?,
            input: claim_stdin()?,
        })
    }

    /// Handles of their own for input and output.
    ///
    /// # Errors
    /// When the descriptors cannot be duplicated.
    pub fn handles(&self) -> std::io::Result<(File, File)> {
        Ok((self.input.try_clone()?, self.output.try_clone()?))
    }
}

/// Takes the real standard output away from everybody else: what this process, a library or a
/// panic prints from now on goes to standard error. The file it returns is closed in children.
///
/// # Errors
/// When the descriptors cannot be duplicated.
fn claim_stdout() -> std::io::Result<File> {
    let own: OwnedFd = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    make_blocking(&own)?;
    Ok(File::from(own))
}

/// Takes standard input away from everybody else: a child, or a library, that reads it finds it
/// empty instead of reading the client's messages.
///
/// # Errors
/// When the descriptors cannot be duplicated or `/dev/null` not be opened.
fn claim_stdin() -> std::io::Result<File> {
    let own: OwnedFd = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    make_blocking(&own)?;
    Ok(File::from(own))
}

/// The other side may have left its end non-blocking, and the flag is shared; the threads that
/// read and write here rely on waiting.
fn make_blocking(fd: &OwnedFd) -> std::io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd)?;
    let blocking = flags - rustix::fs::OFlags::NONBLOCK;
    Ok(rustix::fs::fcntl_setfl(fd, blocking)?)
}
