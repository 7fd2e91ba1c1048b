//! Standard output is the protocol's alone (H11).

use rustix::fd::OwnedFd;
use std::fs::File;

/// Takes the real standard output away from everybody else: what this process, a library or a
/// panic prints from now on goes to standard error. The file it returns is closed in children.
///
/// # Errors
/// When the descriptors cannot be duplicated.
pub fn claim_stdout() -> std::io::Result<File> {
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
pub fn claim_stdin() -> std::io::Result<File> {
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
