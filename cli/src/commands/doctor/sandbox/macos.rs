//! What the sandbox needs of macOS.

use super::{Check, State};
use crate::Context;
use crate::programs::on_path;

/// Seatbelt is part of the system; only its launcher can be out of reach.
pub(super) fn checks(context: &Context, _whole: bool) -> Vec<Check> {
    vec![match on_path(&context.env, "sandbox-exec") {
        Some(path) => Check::new("sandbox-exec", State::Ok, path.display().to_string()),
        None => Check::new("sandbox-exec", State::Fail, "sandbox-exec is not on PATH")
            .mend("add /usr/bin to PATH"),
    }]
}
