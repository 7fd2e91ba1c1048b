//! The JSON-RPC front: one client's lines in, one line out per answer.
//!
//! rmcp speaks the protocol; this transport stands between it and the pipe and gives what the
//! outside world needs and rmcp leaves out:
//! - every request gets exactly one answer: cancelled ones, malformed ones and those still at
//!   work when the client hangs up too;
//! - ids are the client's own affair (0, strings, reused ones): inside, each request has a number
//!   of its own, and an id that comes again while its first request is still at work retires the
//!   first, whose late answer could only be mistaken for the second's;
//! - lines up to the limit of the settings; a longer one is answered, not swallowed;
//! - JSON-RPC batches, which protocol 2025-03-26 has;
//! - what comes before `initialize`, or without it, is served.

mod batch;
mod flights;
mod lines;
mod message;
mod output;
mod transport;

pub use flights::{Flight, Flights, Pulse};
pub use lines::{LineReader, Piece};
pub use message::{Inbound, Rejection, classify, code, id_in_prefix, parse};
pub use output::{LineSink, Output};
pub use transport::{Front, Shutdown};
