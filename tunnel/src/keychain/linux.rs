//! The Secret Service, over the session's D-Bus.

use keyring_core::Error;
use keyring_core::api::CredentialStore;
use std::sync::Arc;

/// What the store is called.
pub const NAME: &str = "Secret Service";

/// What mends a store that does not work.
pub(super) const ADVICE: &str = "it needs the D-Bus session of a login with an unlocked keyring (GNOME Keyring, KWallet); \
     `handsctl tunnel setup --store file` keeps the key in a file instead";

pub(super) fn open() -> Result<Arc<CredentialStore>, Error> {
    let store = zbus_secret_service_keyring_store::Store::new()?;
    Ok(store)
}
