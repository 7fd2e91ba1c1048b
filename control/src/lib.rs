//! The control API: what `handsctl`, the daemon and the servers say to each other.
//!
//! **What it is.** The types of the API ([`types`]), a [`Client`], and the serving side ([`serve`]) that the daemon and
//! every server share. HTTP/1.1 with JSON over a Unix socket, versioned under `/v1`, so that
//! `curl --unix-socket run/handsd.sock http://hands/v1/status` is a client too. Streams are NDJSON, one object a line.
//!
//! **What it is not.** It carries no MCP, opens no port, and knows nothing of what its user does with a request: a
//! [`Handler`] gets method, path and body, and gives a [`Reply`].
//!
//! **Theory of operation.** A socket lies in the home's `run/`, which only the owner can enter, and is 0600 itself
//! ([`bind`]). Who connects is looked at before a byte is read: the peer must be of the same user, and a callback (the
//! sandbox's knowledge of ancestry) refuses processes that descend from a runner, for a command must not control what
//! confines it. Everything that comes from a peer is bounded: connections, time to send, size of a body. An error is
//! `{code, message, hint}` with the status that fits its code. The client asks one request a connection, checks that the
//! socket's owner is the same user, and bounds answer and time likewise.
#![forbid(unsafe_code)]

mod client;
mod clock;
mod error;
pub mod exit;
pub mod limits;
mod lines;
mod listener;
mod serve;
pub mod types;

pub use client::{Client, Lines};
pub use clock::{now, rfc3339};
pub use error::{ApiError, ControlError};
pub use listener::{bind, daemon_socket, server_socket, server_sockets};
pub use serve::{Guard, Handler, Reply, Request, StreamSender, serve};
