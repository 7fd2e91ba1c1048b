//! The tunnel's wire protocol and a client of it, for one MCP server on stdio.
//!
//! What it is: the library and program `hands-tunnel`, which polls the tunnel's control plane
//! over HTTPS, passes each command to the MCP server it keeps running, and posts the answer;
//! with the official client's command line for the part used here. And [`driver`], which runs
//! either client the same way.
//!
//! What it is not: it understands no MCP beyond what a tunnel must (ids, progress tokens, the
//! handshake), listens nowhere but for health pages, and has no opinion on what is called.
//!
//! Theory of operation: one [`poller`] asks for batches; the [`dispatcher`] notes each command
//! in the [`journal`], hands it to a [`session`] and delivers the answer by the [`poster`]. A
//! command ends in exactly one final answer or in its deadline, counted from the poll's headers.
//! A session keeps a child alive ([`child`], [`link`]): requests go to it under internal ids
//! that never come again, so that reused ids cannot meet; a child that dies or hangs is
//! replaced, given the handshake again, and what it owed is answered with a failure. Messages
//! are passed as they came, byte for byte, but for the ids ([`jsonrpc`]). What could not be
//! answered before the process died is answered with a failure at the next start. [`status`]
//! says whether a planner's call would work, from real exchanges with both sides.

#![forbid(unsafe_code)]

pub mod app;
pub mod ask;
pub mod backoff;
pub mod child;
pub mod config;
pub mod control_plane;
pub mod dispatcher;
pub mod doctor;
pub mod driver;
pub mod durations;
mod file;
pub mod flags;
pub mod health;
pub mod journal;
pub mod jsonrpc;
pub mod keychain;
pub mod limits;
pub mod lines;
pub mod link;
pub mod logging;
pub mod metrics;
pub mod poller;
pub mod poster;
pub mod secret;
pub mod session;
pub mod sessions;
pub mod status;
mod sync;
pub mod text;
pub mod wire;
