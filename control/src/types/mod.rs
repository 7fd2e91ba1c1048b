//! What is said. Readers ignore fields they do not know, and take a missing list, map or option for empty, so that programs of
//! neighbouring versions understand each other.

pub mod daemon;
pub mod policy;
pub mod server;
