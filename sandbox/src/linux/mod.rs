//! Linux: bubblewrap outside, Landlock and seccomp inside.
//!
//! The order matters and is the only one that works: bubblewrap needs mounts and namespaces, which
//! Landlock and seccomp then forbid. So bubblewrap starts this same binary again ([`inner`]), which
//! restricts itself and starts the command as process 1 of the new pid namespace. Where no
//! namespaces can be had, what is left of it stands by itself ([`reduced`]).

pub(crate) mod aliases;
mod bound;
pub(crate) mod broker;
mod bwrap;
pub mod inner;
mod mountinfo;
pub(crate) mod netns;
pub mod obstacle;
mod promise;
pub(crate) mod proxy;
pub mod reduced;
mod ruleset;
mod seccomp;
pub(crate) mod tree;

pub(crate) use bound::CHANGED;
pub use bwrap::{Bubblewrap, CANDIDATES as BUBBLEWRAP_PLACES};
pub use netns::{SessionNetwork, send_own as send_own_namespace};
pub use promise::keeps;
pub use ruleset::landlock_abi;
