//! The person's login keychain.

use keyring_core::Error;
use keyring_core::api::CredentialStore;
use std::sync::Arc;

/// What the store is called.
pub const NAME: &str = "Keychain";

/// What mends a store that does not work.
pub(super) const ADVICE: &str = "it needs the person's login keychain, unlocked (`security unlock-keychain`); \
     `handsctl tunnel setup --store file` keeps the key in a file instead";

pub(super) fn open() -> Result<Arc<CredentialStore>, Error> {
    let store = apple_native_keyring_store::keychain::Store::new()?;
    Ok(store)
}
