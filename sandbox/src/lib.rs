//! Turning a [`Plan`] into a confined child process, and owning that child until it ends.
//!
//! **What it is.** One command runs under one `hands-runner` process. The runner reads a
//! [`Request`] on its standard input, starts the platform's sandbox around the command, keeps its
//! output in bounded memory (and, when there is more, byte for byte in a file), enforces the time
//! limit, and answers with [`Frame`]s, one JSON object a line.
//!
//! **What it is not.** It decides nothing: which folders may be written, what is hidden, which
//! variables pass, all of that stands in the plan, made by the server from the policy. It knows
//! nothing of MCP.
//!
//! **Theory of operation.** [`Backend`] is the one trait; Linux answers it with bubblewrap around
//! our own binary, which then applies Landlock and seccomp to itself before it starts the command
//! as process 1 of a fresh pid namespace; macOS answers it with a generated Seatbelt profile and
//! `sandbox-exec`. Whoever holds the other end of the runner's standard input owns the command:
//! when that end closes, the command is ended. A runner that is killed takes its children with
//! it (`--die-with-parent` on Linux). What the sandbox really stops on this machine is found out
//! by trying, see [`canary`]; nothing is reported as enforced that was not seen to be.
//!
//! `unsafe` is allowed in this crate only, each block with its reason.

pub mod ancestry;
mod backend;
pub mod canary;
mod capture;
mod explain;
mod hosts;
pub mod limits;
#[cfg(target_os = "linux")]
pub mod linux;
mod look;
pub mod macos;
mod path_bytes;
mod plan;
pub mod promise;
mod report;
// The broker asks more of it than macOS does.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
mod repository;
pub mod runner;

pub use backend::{Backend, Launch, Unavailable, backend_of, platform_backend};
pub use capture::Capture;
pub use explain::{Made, Ruling, Rulings};
pub use hosts::{Host, HostRule};
pub use plan::{Guard, Mode, Network, Plan, Request, Resources, Walls};
pub use report::{
    Done, Ending, Excerpt, Frame, Guarded, Kept, Order, Overuse, Progress, Resource, decode_bytes,
    encode_bytes,
};
