//! What the file tools share.
//!
//! A change to a file goes through these steps, in this order: the path is resolved and judged
//! (policy), the file is locked against other calls ([`locks`]), its content is read and its state
//! remembered ([`existing`]), the new content is made (the tool's part), the permission gate is
//! passed ([`gate`]), the old content is kept as a recovery file, and the new one put in its place
//! at once ([`replace`]). The gate comes late so that nobody is asked for what cannot be done. What is
//! new is noted as the session's own ([`made`]).

pub mod analysis;
pub mod existing;
pub mod gate;
pub mod locks;
pub mod made;
pub mod replace;
pub mod target;

use sha2::{Digest, Sha256};

/// SHA-256 as 64 hex digits.
pub fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|b| format!("{b:02x}")).collect()
}
