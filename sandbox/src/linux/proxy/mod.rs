//! The one way out of a filtered network: a proxy in the runner, outside the sandbox.
//!
//! Its socket was made in the command's network namespace, where nothing else leads out, and was
//! sent here. It reads one request of a connection (`CONNECT`, or plain HTTP), judges the host by
//! the rules, looks its addresses up itself, judges these too, and connects to what it judged. Then
//! it passes bytes both ways. It does not look into what is encrypted: a host that is allowed may
//! pass on to others.

mod request;

use crate::hosts::{HostRule, is_private};
use crate::limits;
use request::{Bad, Request};
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// A proxy at work. It ends with the runner.
pub(crate) struct Running {
    shared: Arc<Proxy>,
}

struct Proxy {
    rules: Vec<HostRule>,
    refused: Mutex<Vec<String>>,
    connections: AtomicUsize,
}

/// Why a request got no connection: the status of the answer, and its text.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    status: &'static str,
    message: String,
}

impl Running {
    /// Serves what connects to `listener`.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn start(listener: OwnedFd, rules: &[HostRule]) -> std::io::Result<Self> {
        let shared = Arc::new(Proxy {
            rules: rules.to_vec(),
            refused: Mutex::default(),
            connections: AtomicUsize::new(0),
        });
        let proxy = Arc::clone(&shared);
        let listener = TcpListener::from(listener);
        std::thread::Builder::new().spawn(move || proxy.accept(&listener))?;
        Ok(Self { shared })
    }

    /// What was refused and why, the first of it.
    pub(crate) fn refused(&self) -> Vec<String> {
        std::mem::take(&mut *self.shared.notes())
    }
}

impl Proxy {
    fn accept(self: Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming() {
            let Ok(client) = client else {
                // Out of descriptors, say: others end meanwhile.
                std::thread::sleep(limits::PROXY_TICK);
                continue;
            };
            let proxy = Arc::clone(&self);
            if self.connections.fetch_add(1, Ordering::Relaxed) >= limits::PROXY_CONNECTIONS {
                self.connections.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let begun = std::thread::Builder::new().spawn(move || {
                proxy.serve(client);
                proxy.connections.fetch_sub(1, Ordering::Relaxed);
            });
            if begun.is_err() {
                self.connections.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    fn serve(&self, mut client: TcpStream) {
        let Some((head, rest)) = read_head(&mut client) else {
            return;
        };
        match self.open(&head) {
            Ok((request, mut server)) => {
                let begun = match request.forwarded {
                    None => client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n"),
                    Some(head) => server.write_all(&head),
                };
                if begun.and_then(|()| server.write_all(&rest)).is_ok() {
                    pass_on(&client, &server);
                }
            }
            Err(Refusal { status, message }) => {
                let body = format!("{message}\n");
                // A client that is gone needs no answer.
                let _ = write!(
                    client,
                    "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\
                     Connection: close\r\n\r\n{body}",
                    body.len()
                );
            }
        }
    }

    /// The request, and a connection to what it asks for.
    fn open(&self, head: &[u8]) -> Result<(Request, TcpStream), Refusal> {
        let request = Request::parse(head).map_err(|Bad(why)| Refusal {
            status: "400 Bad Request",
            message: format!("hands: {why}"),
        })?;
        let addresses = self.addresses(&request.host, request.port)?;
        let server = self.connect(&request, &addresses)?;
        Ok((request, server))
    }

    /// The addresses of a host that may be connected to.
    fn addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, Refusal> {
        if !self.rules.iter().any(|rule| rule.allows(host, port)) {
            return Err(self.refuse(host, port, "it is not in `sandbox.hosts`"));
        }
        let found = (host, port).to_socket_addrs();
        let found: Vec<SocketAddr> = found.map_err(|e| unreachable(host, port, &e))?.collect();
        let open: Vec<SocketAddr> = found
            .iter()
            .filter(|address| self.is_open(address.ip()))
            .copied()
            .collect();
        match (open.is_empty(), found.first()) {
            (false, _) => Ok(open),
            (true, None) => Err(unreachable(host, port, &"it has no address")),
            (true, Some(first)) => Err(self.refuse_address(host, port, first.ip())),
        }
    }

    fn is_open(&self, address: IpAddr) -> bool {
        !is_private(address) || self.is_named(address)
    }

    fn is_named(&self, address: IpAddr) -> bool {
        self.rules.iter().any(|rule| rule.names(address))
    }

    fn connect(&self, request: &Request, addresses: &[SocketAddr]) -> Result<TcpStream, Refusal> {
        let (host, port) = (request.host.as_str(), request.port);
        let mut last = None;
        for address in addresses {
            match TcpStream::connect_timeout(address, limits::PROXY_CONNECT_TIME) {
                Ok(server) => {
                    // What comes back to where it came from is this machine, by whatever address.
                    let own = server.local_addr().map(|own| own.ip());
                    if !own.is_ok_and(|own| own != address.ip()) && !self.is_named(address.ip()) {
                        return Err(self.refuse_address(host, port, address.ip()));
                    }
                    let _ = server.set_nodelay(true);
                    return Ok(server);
                }
                Err(e) => last = Some(e),
            }
        }
        let why = last.map(|e| e.to_string()).unwrap_or_default();
        Err(unreachable(host, port, &why))
    }

    fn refuse_address(&self, host: &str, port: u16, address: IpAddr) -> Refusal {
        let why = format!(
            "it leads to {address}, a private address or one of this machine's, which \
             `sandbox.hosts` does not name"
        );
        self.refuse(host, port, &why)
    }

    fn refuse(&self, host: &str, port: u16, why: &str) -> Refusal {
        let message = format!(
            "connecting to {}: {why}; your user can add it there",
            shown(host, port)
        );
        let mut notes = self.notes();
        if notes.len() < limits::BROKER_NOTES && !notes.contains(&message) {
            notes.push(message.clone());
        }
        Refusal {
            status: "403 Forbidden",
            message: format!("hands refused {message}"),
        }
    }

    fn notes(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unreachable(host: &str, port: u16, why: &dyn std::fmt::Display) -> Refusal {
    Refusal {
        status: "502 Bad Gateway",
        message: format!("hands: connecting to {}: {why}", shown(host, port)),
    }
}

fn shown(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

/// Reads up to the empty line: what comes before and with it, and what came behind it already.
fn read_head(client: &mut TcpStream) -> Option<(Vec<u8>, Vec<u8>)> {
    let by = Instant::now() + limits::PROXY_HEAD_TIME;
    let mut got = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let left = by.checked_duration_since(Instant::now())?;
        // A time of zero would mean none.
        client
            .set_read_timeout(Some(left.max(limits::PROXY_TICK)))
            .ok()?;
        let n = client.read(&mut piece).ok().filter(|n| *n > 0)?;
        let seen = got.len().saturating_sub(3);
        got.extend_from_slice(&piece[..n]);
        if let Some(at) = got[seen..].windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = got.split_off(seen + at + 4);
            client.set_read_timeout(None).ok()?;
            return Some((got, rest));
        }
        if got.len() > limits::PROXY_HEAD_BYTES {
            return None;
        }
    }
}

/// Passes bytes both ways until both ends have said all.
fn pass_on(client: &TcpStream, server: &TcpStream) {
    std::thread::scope(|both| {
        let back = std::thread::Builder::new().spawn_scoped(both, || pump(server, client));
        if back.is_ok() {
            pump(client, server);
        }
    });
}

fn pump(mut from: &TcpStream, mut to: &TcpStream) {
    // However it ended, nothing more comes this way.
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests;
