//! Test doubles that stand for the outside world of the tunnel.
//!
//! What it is: a control plane ([`ControlPlane`]) that speaks the tunnel's wire protocol on
//! loopback, scriptable from a test; an MCP client's view over it ([`Planner`]); a check of
//! everything that went over the wire against the machine-readable contract ([`Contract`]); and
//! an MCP server of a few lines (the example `mcp-echo`, found by [`echo_program`]) that can be
//! told to misbehave; and a real store for secrets on a bus of its own ([`SecretService`]).
//!
//! What it is not: a mock that repeats what a client does. It holds the service's side of the
//! rules (a command is handed out once, answered once, a second answer is 404) and leaves it to
//! the test to say what should have happened.
//!
//! Theory of operation: one task accepts connections and serves each with hyper. Commands wait
//! in one queue; a poll takes a batch or waits for one. Every exchange is recorded whole before
//! its answer leaves, so a test that has seen an effect also finds its cause in the record.
//! Faults sit in front of each endpoint and are consumed by count or by time. A fault that
//! destroys a batch on its way puts the commands back, as a service with leases would.
//!
//! The crate is for tests: it panics with a message where a test could not go on anyway.

#![forbid(unsafe_code)]
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test double that cannot be set up has no caller to report to but the test"
)]

mod command;
mod contract;
mod fault;
mod folder;
mod http;
mod keyring;
mod plane;
mod planner;
mod processes;
mod programs;
mod record;

pub use command::Command;
pub use contract::Contract;
pub use fault::{Endpoint, Fault, RetryAfter, Span};
pub use folder::Folder;
pub use keyring::SecretService;
pub use plane::{ControlPlane, Script};
pub use planner::{Call, Planner};
pub use processes::{Found, running_in};
pub use programs::{build_program, echo_program, program};
pub use record::{Answers, Exchange, Post};
