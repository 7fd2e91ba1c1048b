//! Keeping the tunnel's key: in a file, or in the system's store for secrets.

use super::key_file;
use crate::Context;
use crate::exit::Failure;
use crate::limits;
use crate::programs::{TUNNEL, tell};
use hands_config::{Config, KeyStore};
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// What the system's store for secrets is called.
const KEYCHAIN: &str = if cfg!(target_os = "macos") {
    "Keychain"
} else {
    "Secret Service"
};

/// Keeps the key where `store` says, and nowhere else that is known; tells where, one line each.
pub(super) fn keep(
    context: &Context,
    config: &Config,
    store: KeyStore,
    id: &str,
    key: &str,
) -> Result<Vec<String>, Failure> {
    match store {
        KeyStore::File => {
            let file = key_file(context, config);
            write_private(&file, format!("{key}\n").as_bytes())
                .map_err(|cause| failed("writing the key to", &file, &cause))?;
            let mut said = vec![format!("the key is in {} (mode 0600)", file.display())];
            if config.tunnel.key_store == KeyStore::Keychain {
                said.push(forgotten(
                    context,
                    config.tunnel.id.as_deref().unwrap_or(id),
                ));
            }
            Ok(said)
        }
        KeyStore::Keychain => {
            if is_official(config) {
                return Err(Failure::usage(
                    "the key",
                    "the official client takes it from a file only: leave out `--store keychain`, or set tunnel.client to `builtin`",
                ));
            }
            asked(context, &["key", "store", id], key)?;
            let mut said = vec![format!("the key is in the {KEYCHAIN}, under {id}")];
            said.extend(left_in_file(&key_file(context, config), context));
            Ok(said)
        }
    }
}

fn is_official(config: &Config) -> bool {
    use hands_config::TunnelClient::{Auto, Official};
    let tunnel = &config.tunnel;
    tunnel.client == Official || tunnel.client == Auto && tunnel.client_path.is_some()
}

/// Has `hands-tunnel` do it: macOS lets the program that stored a key read it without asking.
fn asked(context: &Context, words: &[&str], input: &str) -> Result<(), Failure> {
    let what = format!("using the {KEYCHAIN}");
    let program = TUNNEL
        .find(&context.env)
        .map_err(|why| why.failure("finding hands-tunnel"))?;
    let output =
        tell(&program, words, input, limits::KEY_STORE).map_err(|why| Failure::new(&what, why))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let said = said.strip_prefix("hands-tunnel: ").unwrap_or(&said);
    Err(Failure::new(what, said))
}

fn forgotten(context: &Context, id: &str) -> String {
    match asked(context, &["key", "forget", id], "") {
        Ok(()) => format!("the one in the {KEYCHAIN} was removed"),
        Err(_) => format!(
            "the one in the {KEYCHAIN}, if there is any, could not be removed: remove it there, under {id}"
        ),
    }
}

/// The key of an earlier setup. Where we put it we take it away; a file that the person named is the person's.
fn left_in_file(file: &Path, context: &Context) -> Option<String> {
    if !file.exists() {
        return None;
    }
    let ours = file == context.home.tunnel_key_file();
    Some(match ours.then(|| std::fs::remove_file(file)) {
        Some(Ok(())) => format!("the one in {} was removed", file.display()),
        Some(Err(cause)) => format!("remove the one in {}: {cause}", file.display()),
        None => format!("the one in {} is still there", file.display()),
    })
}

fn failed(what: &str, path: &Path, cause: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("{what} {}", path.display()), cause.to_string())
}

/// Writes a file of mode 0600, whole or not at all.
pub(super) fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let draft = path.with_file_name(name);
    let mut options = File::options();
    options.create_new(true).write(true).mode(0o600);
    let mut file = options.open(&draft)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    let moved = written.and_then(|()| std::fs::rename(&draft, path));
    if moved.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    moved
}
