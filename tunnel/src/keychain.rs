//! The API key in the system's own store for secrets: Keychain on macOS, the Secret Service (GNOME Keyring, KWallet) elsewhere.
//!
//! Whoever stores a key there is the one whom macOS lets read it without asking, so both are done by `hands-tunnel`.

use std::sync::{Arc, mpsc};

use keyring_core::api::CredentialStore;
use keyring_core::{Entry, Error};

use crate::limits;
use crate::secret::{ApiKey, SecretError};

#[cfg(target_os = "macos")]
#[path = "keychain/macos.rs"]
mod platform;
#[cfg(not(target_os = "macos"))]
#[path = "keychain/linux.rs"]
mod platform;

pub use platform::NAME;

/// The service under which all keys lie; the account is what tells them apart.
pub const SERVICE: &str = "Hands tunnel";

/// Puts the key there, in the place of an earlier one.
///
/// # Errors
/// The store cannot be reached, is locked, or does not answer.
pub fn store(account: &str, key: &ApiKey) -> Result<(), SecretError> {
    let key = key.expose().to_owned();
    with_entry(account, move |entry| entry.set_password(&key))
}

/// Takes the key from there.
///
/// # Errors
/// As [`store`]; also when there is none, or what is there is no key.
pub fn fetch(account: &str) -> Result<ApiKey, SecretError> {
    ApiKey::new(&with_entry(account, Entry::get_password)?)
}

/// Removes the key from there.
///
/// # Errors
/// As [`fetch`].
pub fn forget(account: &str) -> Result<(), SecretError> {
    with_entry(account, Entry::delete_credential)
}

/// On a thread of its own: the stores' clients run a runtime of theirs, and wait without end for a person who does not answer
/// the question to unlock.
fn with_entry<T: Send + 'static>(
    account: &str,
    work: impl FnOnce(&Entry) -> Result<T, Error> + Send + 'static,
) -> Result<T, SecretError> {
    let (sender, answer) = mpsc::channel();
    let user = account.to_owned();
    std::thread::spawn(move || {
        let done = platform::open().and_then(|store: Arc<CredentialStore>| {
            work(&Entry::new_in_store(&store, SERVICE, &user)?)
        });
        // Nobody waits any more when it was too late.
        let _ = sender.send(done);
    });
    let failed = |reason: String| SecretError::Keychain {
        name: NAME,
        reason,
        advice: platform::ADVICE,
    };
    match answer.recv_timeout(limits::KEYCHAIN_TIMEOUT) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(Error::NoEntry)) => Err(SecretError::NotThere {
            name: NAME,
            account: account.to_owned(),
        }),
        // Some errors carry what they found; only their kind is told.
        Ok(Err(Error::BadEncoding(_) | Error::BadDataFormat(..))) => Err(SecretError::Unprintable),
        Ok(Err(Error::Ambiguous(found))) => Err(failed(format!(
            "it holds {} keys for {account}: remove all of them",
            found.len()
        ))),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed(format!(
            "no answer within {} s (is it locked, and waits for somebody to unlock it?)",
            limits::KEYCHAIN_TIMEOUT.as_secs()
        ))),
    }
}
