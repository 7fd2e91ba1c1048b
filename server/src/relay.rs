//! The relay: standard input and output for one client, the server on the home's socket.
//!
//! It alone owns standard output and keeps the pipe open whatever happens to the server: when the
//! server goes, each request at work is answered with an error, once; what comes meanwhile waits
//! for the next server, to which the client's handshake is replayed. A client therefore never sees
//! its connection close because the server was restarted or upgraded. A relay never becomes a
//! server itself.

mod link;
pub mod state;

use crate::door::socket_path;
use crate::front::{LineReader, Output, Piece};
use crate::limits;
use crate::serve::StopSignals;
use crate::stdio::Streams;
use anyhow::Context;
use hands_config::Home;
use link::Link;
use state::{Relayed, State};
use std::io::Read;
use std::path::PathBuf;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// Whether a client is to be relayed: the home's server listens, or its daemon runs, which will
/// have one soon.
pub fn is_wanted(home: &Home) -> bool {
    let listens = |path: PathBuf| std::os::unix::net::UnixStream::connect(path).is_ok();
    listens(socket_path(home)) || listens(hands_control::daemon_socket(&home.run_dir()))
}

/// Relays until the client hangs up or a signal comes.
///
/// # Errors
/// When standard input and output cannot be taken, or the runtime not be started.
pub fn stdio(home: &Home, line_bytes: usize, streams: &Streams) -> anyhow::Result<()> {
    let (input, output) = streams.handles().context("taking the client's streams")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    let path = socket_path(home);
    runtime.block_on(async {
        let mut signals = StopSignals::listen();
        let (pieces, from_client) = mpsc::channel(limits::INPUT_QUEUE);
        std::thread::spawn(move || read_pieces(input, line_bytes, &pieces));
        let output = Output::start(output);
        let relay = Relay {
            path,
            from_client,
            output: output.clone(),
            state: State::default(),
            link: None,
            retry_at: Instant::now(),
            retry_after: limits::RELAY_RETRY.0,
        };
        tokio::select! {
            () = relay.run() => {}
            _ = signals.next() => {}
        }
        output.flush(limits::FLUSH).await;
    });
    runtime.shutdown_background();
    Ok(())
}

fn read_pieces(mut source: impl Read, line_bytes: usize, pieces: &mpsc::Sender<Piece>) {
    let mut reader = LineReader::new(line_bytes);
    let mut buffer = vec![0; limits::READ_BYTES];
    loop {
        match source.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => reader.push(&buffer[..n], |piece| drop(pieces.blocking_send(piece))),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
        if pieces.is_closed() {
            return;
        }
    }
    if let Some(piece) = reader.end() {
        let _ = pieces.blocking_send(piece);
    }
}

struct Relay {
    path: PathBuf,
    from_client: mpsc::Receiver<Piece>,
    output: Output,
    state: State,
    link: Option<Link>,
    retry_at: Instant,
    retry_after: std::time::Duration,
}

/// What happened next.
enum Next {
    Client(Option<Piece>),
    Server(Option<Vec<u8>>),
    Retry,
    Expired,
    Gone,
}

impl Relay {
    async fn run(mut self) {
        loop {
            match self.next().await {
                Next::Client(Some(piece)) => self.take_from_client(piece).await,
                Next::Client(None) => return self.drain().await,
                Next::Server(Some(line)) => self.take_from_server(line).await,
                Next::Server(None) => self.server_is_gone().await,
                Next::Retry => self.connect().await,
                Next::Expired => self.give_up_waiting().await,
                Next::Gone => return,
            }
        }
    }

    async fn next(&mut self) -> Next {
        let expiry = self
            .state
            .oldest_waiting()
            .map(|at| at + limits::RELAY_PATIENCE);
        let expired = async {
            match expiry {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        // While the server is gone only so much is kept; the client's pipe holds the rest.
        let room = self.link.is_some() || self.state.waiting() < limits::RELAY_QUEUE;
        tokio::select! {
            () = self.output.gone().cancelled() => Next::Gone,
            piece = self.from_client.recv(), if room => Next::Client(piece),
            line = Link::receive(&mut self.link) => Next::Server(line),
            () = sleep_until(self.retry_at), if self.link.is_none() => Next::Retry,
            () = expired => Next::Expired,
        }
    }

    async fn take_from_client(&mut self, piece: Piece) {
        match self.state.take(piece) {
            Relayed::Forward(line) => self.forward(line).await,
            Relayed::Answer(answer) => self.say(answer).await,
            Relayed::Nothing => {}
        }
    }

    async fn forward(&mut self, line: Vec<u8>) {
        let sent = match &mut self.link {
            Some(link) => link.send(&line).await.is_ok(),
            None => false,
        };
        match sent {
            true => self.state.sent(&line),
            // The link's end is seen by the reading side, which then answers what went before.
            false => self.state.wait(line),
        }
    }

    async fn take_from_server(&mut self, line: Vec<u8>) {
        if let Some(line) = self.state.answered(line) {
            self.say(line).await;
        }
    }

    async fn say(&mut self, line: Vec<u8>) {
        // A client that is gone is seen at the next turn of the loop.
        let _ = self.output.line(line).await;
    }

    async fn server_is_gone(&mut self) {
        self.link = None;
        self.retry_after = limits::RELAY_RETRY.0;
        self.retry_at = Instant::now();
        eprintln!("hands-mcp: the server is gone; waiting for it");
        for answer in self.state.server_is_gone() {
            self.say(answer).await;
        }
    }

    async fn give_up_waiting(&mut self) {
        for answer in self.state.expire(limits::RELAY_PATIENCE) {
            self.say(answer).await;
        }
    }

    async fn connect(&mut self) {
        match Link::open(&self.path).await {
            Ok((mut link, server)) => {
                let own = env!("CARGO_PKG_VERSION");
                if server.version != own {
                    eprintln!("hands-mcp: relay {own} speaks to server {}", server.version);
                }
                for line in self.state.replay() {
                    if link.send(&line).await.is_err() {
                        return self.later();
                    }
                    self.state.sent(&line);
                }
                self.link = Some(link);
                self.retry_after = limits::RELAY_RETRY.0;
            }
            Err(_) => self.later(),
        }
    }

    fn later(&mut self) {
        self.retry_at = Instant::now() + self.retry_after;
        self.retry_after = (self.retry_after * 2).min(limits::RELAY_RETRY.1);
    }

    /// The client has said all it will: what is at work may finish, in the time that a server
    /// gives it.
    async fn drain(&mut self) {
        if let Some(link) = &mut self.link {
            link.finish().await;
            self.take_last_answers().await;
        }
        // Each request gets its one answer, even now.
        let mut left = self.state.server_is_gone();
        left.extend(self.state.expire(std::time::Duration::ZERO));
        for answer in left {
            self.say(answer).await;
        }
    }

    async fn take_last_answers(&mut self) {
        let answers = async {
            while let Some(line) = Link::receive(&mut self.link).await {
                if let Some(line) = self.state.answered(line) {
                    let _ = self.output.line(line).await;
                }
            }
        };
        let _ = tokio::time::timeout(limits::EOF_DEADLINE, answers).await;
    }
}
