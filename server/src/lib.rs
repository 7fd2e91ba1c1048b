//! The MCP server: sessions, tools, and the honest answer to each call.
//!
//! **What it is.** [`front`] is the pipe: lines in, lines out, one answer to each request.
//! [`handler`] is the protocol, on rmcp. [`calls`] is what every tool call goes through: bounds
//! first, then the trail's `call` record, the work, the `result` record, and the answer. [`tools`]
//! holds one module per tool; [`files`] what the file tools share (the permission gate, atomic
//! replacement, working copies); [`consent`] what the person grants and revokes; [`confinement`] the way from the policy to a confined child.
//!
//! **What it is not.** No model, no retrieval, no agent loop, no second opinion (H1): the planner
//! is the client. It listens on no port. It knows nothing of tunnels; of the daemon, only where its
//! socket lies.
//!
//! **Theory of operation.** A connection is a session: standard input and output of a process that
//! serves one client ([`stdio`]), or a connection to the home's socket ([`door`]), where a [`relay`]
//! speaks for a client. What sessions share is in the [`hub`]; [`desk`] answers daemon and `handsctl`. Requests
//! run concurrently, up to a limit, on tokio; whatever blocks (files, hashing, the trail) runs on
//! its blocking threads. Commands run in a `hands-runner` of their own, which holds the child; the
//! server only reads the runner's report. Every answer has the same shape, see [`outcome`]. What
//! stands on standard output is JSON-RPC and nothing else: at start the real descriptor is taken
//! away and standard error put in its place, so that not even a panic can write there.
#![forbid(unsafe_code)]

pub mod args;
pub mod calls;
pub mod confinement;
pub mod consent;
pub mod desk;
pub mod door;
pub mod explain;
pub mod files;
pub mod front;
pub mod handler;
pub mod hub;
pub mod limits;
pub mod live;
pub mod outcome;
pub mod relay;
pub mod serve;
pub mod session;
pub mod stdio;
pub mod tools;
