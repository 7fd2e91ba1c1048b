//! Prints the reference page of all settings: `cargo run -p hands-config --example reference > docs/configuration.md`.

use std::io::Write;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(hands_config::reference_page().as_bytes())
}
