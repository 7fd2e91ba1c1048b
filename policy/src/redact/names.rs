//! Names that tell a secret.

/// Ends of names whose values are secret, without separators and in lower case.
const SECRET_ENDS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "secrets",
    "token",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "signingkey",
    "encryptionkey",
    "masterkey",
    "accountkey",
    "authkey",
    "servicekey",
    "credential",
    "credentials",
    "authorization",
    "cookie",
    "cookies",
];

/// Whole names, and last words of names, that are too short to be looked for as an end.
const SECRET_WORDS: &[&str] = &["pass", "pwd", "auth", "bearer", "headers"];

/// Parts that make a name secret wherever they stand.
const SECRET_PARTS: &[&str] = &["password", "passphrase", "privatekey"];

/// Whether a field of this name holds a secret: `password`, `dbPassword`, `X-Api-Key`, `headers`, …
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    if name.len() > 128 {
        return false;
    }
    let words = words(name);
    let joined = words.concat();
    let joined = joined.trim_end_matches(|c: char| c.is_ascii_digit());
    SECRET_ENDS.iter().any(|end| joined.ends_with(end))
        || SECRET_PARTS.iter().any(|part| joined.contains(part))
        || words
            .last()
            .is_some_and(|last| SECRET_WORDS.contains(&last.as_str()))
}

/// Whether a field of this name may hold a secret: it does if the value looks random.
pub(super) fn is_suspect_name(name: &str) -> bool {
    const WORDS: &[&str] = &["key", "sig", "signature", "session", "sid", "jwt", "otp"];
    name.len() <= 128
        && words(name)
            .last()
            .is_some_and(|last| WORDS.contains(&last.as_str()))
}

/// Whether a variable of an environment with this name holds a secret: `SECRET_KEY_BASE`, `DBPASS`, …
pub(super) fn is_secret_variable(name: &str) -> bool {
    const WORDS: &[&str] = &[
        "password",
        "passwd",
        "pass",
        "pw",
        "secret",
        "token",
        "apikey",
        "credential",
        "credentials",
    ];
    const NO_PASSWORDS: &[&str] = &["askpass", "bypass", "compass"];
    if name.len() > 128 {
        return false;
    }
    let words = words(name);
    words.iter().any(|word| WORDS.contains(&word.as_str()))
        || words
            .last()
            .is_some_and(|last| last.ends_with("pass") && !NO_PASSWORDS.contains(&last.as_str()))
}

/// Whether a variable of an environment with this name holds a secret if its value looks random.
pub(super) fn is_suspect_variable(name: &str) -> bool {
    name.len() <= 128
        && words(name)
            .iter()
            .any(|word| word == "key" || word == "keys")
}

/// The words of `snake_case`, `kebab-case`, `camelCase` and `HTTPHeader` names in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for c in name.trim_start_matches('-').chars() {
        let breaks = !c.is_alphanumeric();
        if (breaks || (after_lower && c.is_uppercase()))
            && words.last().is_some_and(|w| !w.is_empty())
        {
            words.push(String::new());
        }
        if !breaks && let Some(word) = words.last_mut() {
            word.extend(c.to_lowercase());
        }
        after_lower = c.is_lowercase() || c.is_ascii_digit();
    }
    words.retain(|w| !w.is_empty());
    words
}
