//! One file per verb.

pub(crate) mod call;
pub(crate) mod clients;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod logs;
pub(crate) mod tools;
