//! One file per verb.

pub(crate) mod call;
pub(crate) mod clients;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod down;
pub(crate) mod logs;
pub(crate) mod man;
pub(crate) mod permissions;
pub(crate) mod policy;
pub(crate) mod recovery;
pub(crate) mod restart;
pub(crate) mod service;
pub(crate) mod sessions;
pub(crate) mod status;
pub(crate) mod tools;
pub(crate) mod tunnel;
pub(crate) mod up;
