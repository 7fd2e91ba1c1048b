//! Where Hands keeps its state and how it is configured.
//!
//! **What it is.** Two things every program of the workspace asks first: the *home* (one private folder with
//! the configuration, trail, recovery files and sockets) and the *configuration* (the file `config.toml`,
//! overridden by `HANDS_*` variables, overridden by flags).
//!
//! **What it is not.** It decides nothing about a tool call: which path may be read or written is `hands-policy`'s
//! work. It changes no setting, and it keeps no global: every function takes what it reads.
//!
//! **Theory of operation.** [`keys::KEYS`] is one table of all settings: name, type, range, unit, text, and where in
//! [`Config`] the value lives. Reading the file, reading the environment, `handsctl config show` and the reference page
//! `docs/configuration.md` are all driven by that table, so that they cannot drift apart. [`load`] starts from the
//! defaults, applies file, environment and flags in that order, remembers the [`Source`] of every value, and then checks what
//! involves more than one value (folders that may not be a workspace, limits that contradict each other). Whatever
//! is wrong ends the load with a [`ConfigError`] that says where: a broken configuration never falls back
//! to defaults, for they could be laxer than what the person wrote. The environment is read once into [`Env`], so that tests
//! never touch the environment of their own process.
#![forbid(unsafe_code)]

mod env;
mod error;
mod file;
mod folders;
mod home;
mod hosts;
pub mod keys;
pub mod limits;
mod load;
mod model;
mod near;
mod reference;
mod text;
mod value;

pub use env::Env;
pub use error::{ConfigError, Place};
pub use home::{Home, Presence};
pub use hosts::{HostPattern, HostRule};
pub use load::{Entry, Flags, Loaded, Source, load};
pub use model::{
    Config, EnvRules, Http, KeyStore, Limits, Mode, Network, PermissionMode, Permissions, Protect,
    Sandbox, TrailCfg, Tunnel, TunnelClient, Walls, Write,
};
pub use reference::reference_page;
