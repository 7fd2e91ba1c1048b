//! A relay's connection to the server.

use crate::door::Hello;
use crate::front::{LineReader, Piece};
use crate::limits;
use std::collections::VecDeque;
use std::path::Path;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// An open connection, past the exchange of versions.
pub(super) struct Link {
    read: OwnedReadHalf,
    write: OwnedWriteHalf,
    lines: LineReader,
    ready: VecDeque<Vec<u8>>,
}

impl Link {
    /// Connects, and learns the server's version.
    pub(super) async fn open(path: &Path) -> std::io::Result<(Self, Hello)> {
        let mut stream = UnixStream::connect(path).await?;
        stream.write_all(&Hello::own("relay").line()).await?;
        let server = Hello::read(&mut stream).await?;
        let (read, write) = stream.into_split();
        let link = Self {
            read,
            write,
            // The server's answers are bounded by the server.
            lines: LineReader::new(usize::MAX),
            ready: VecDeque::new(),
        };
        Ok((link, server))
    }

    pub(super) async fn send(&mut self, line: &[u8]) -> std::io::Result<()> {
        self.write.write_all(line).await?;
        self.write.write_all(b"\n").await
    }

    /// Tells the server that nothing more will come.
    pub(super) async fn finish(&mut self) {
        let _ = self.write.shutdown().await;
    }

    /// The server's next line, `None` when it is gone; waits for ever where there is no link. May
    /// be dropped and called again.
    pub(super) async fn receive(link: &mut Option<Self>) -> Option<Vec<u8>> {
        match link {
            Some(link) => link.next().await,
            None => std::future::pending().await,
        }
    }

    async fn next(&mut self) -> Option<Vec<u8>> {
        let mut buffer = vec![0; limits::READ_BYTES];
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            let n = self.read.read(&mut buffer).await.ok().filter(|n| *n > 0)?;
            let ready = &mut self.ready;
            self.lines.push(&buffer[..n], |piece| {
                if let Piece::Line(line) = piece {
                    ready.push_back(line);
                }
            });
        }
    }
}
