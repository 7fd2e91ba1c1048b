//! Redaction of JSON values.

use serde_json::{Map, Value};

use super::Redactor;
use super::names::{is_secret_name, is_suspect_name};
use super::value::{is_digest_or_uuid, is_random};
use crate::limits::MAX_REDACT_DEPTH;

/// What stands in for a value under a secret's name.
const HIDDEN: &str = "***";

pub(super) fn redact(redactor: &Redactor, value: &Value, depth: usize) -> Value {
    if depth >= MAX_REDACT_DEPTH {
        return Value::String(HIDDEN.to_owned());
    }
    match value {
        Value::String(text) => Value::String(redactor.text(text).into_owned()),
        Value::Array(items) => Value::Array(array(redactor, items, depth)),
        Value::Object(map) => Value::Object(object(redactor, map, depth)),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// An argument list: the item after a flag such as `--password` is its value.
fn array(redactor: &Redactor, items: &[Value], depth: usize) -> Vec<Value> {
    let mut after_flag = false;
    items
        .iter()
        .map(|item| {
            let hide = after_flag && item.as_str().is_some_and(|s| !s.starts_with('-'));
            after_flag = item.as_str().is_some_and(is_secret_flag);
            if hide {
                hidden(item)
            } else {
                redact(redactor, item, depth + 1)
            }
        })
        .collect()
}

fn is_secret_flag(text: &str) -> bool {
    text.starts_with("--") && !text.contains(['=', ' ']) && is_secret_name(text)
}

fn object(redactor: &Redactor, map: &Map<String, Value>, depth: usize) -> Map<String, Value> {
    let named = names_a_secret(map);
    map.iter()
        .map(|(key, value)| {
            let hide = is_secret_name(key)
                || (named && key == "value")
                || (is_suspect_name(key) && value.as_str().is_some_and(is_opaque));
            let value = if hide {
                hidden(value)
            } else {
                redact(redactor, value, depth + 1)
            };
            (redactor.text(key).into_owned(), value)
        })
        .collect()
}

/// Whether an object is a pair such as `{"name": "API_TOKEN", "value": …}`.
fn names_a_secret(map: &Map<String, Value>) -> bool {
    ["name", "key", "header"]
        .iter()
        .filter_map(|field| map.get(*field)?.as_str())
        .any(is_secret_name)
}

fn is_opaque(text: &str) -> bool {
    is_random(text) && !is_digest_or_uuid(text)
}

/// Hides a value. Absence is no secret and helps who reads the trail.
fn hidden(value: &Value) -> Value {
    match value {
        Value::Null | Value::Bool(_) => value.clone(),
        Value::String(text) if text.is_empty() => value.clone(),
        _ => Value::String(HIDDEN.to_owned()),
    }
}
