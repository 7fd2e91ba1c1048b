//! The one place where this crate meets the redactor.

use hands_policy::redact::Redactor;
use serde_json::Value;

/// `text` without what looks like a secret.
pub(crate) fn text(text: &str) -> String {
    Redactor::shared().text(text).into_owned()
}

/// `value` without what looks like a secret or stands under a name of one.
pub(crate) fn value(value: &Value) -> Value {
    Redactor::shared().value(value)
}
