//! Redaction of JSON values.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Map, Value};

use super::Redactor;
use super::names::{is_secret_name, is_secret_variable, is_suspect_name, is_suspect_variable};
use super::programs::Watch;
use super::value::{is_digest_or_uuid, is_path, is_placeholder, is_random};
use crate::limits::{MAX_REDACT_BASE64, MAX_REDACT_DEPTH, MAX_REDACT_PASSES};

/// What stands in for a value under a secret's name.
const HIDDEN: &str = "***";
/// What stands in for encoded bytes that hold a secret.
const ENCODED: &str = "[redacted:base64]";

/// Takes what a cut has left of a padded text.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

pub(super) fn redact(redactor: &Redactor, value: &Value, depth: usize) -> Value {
    if depth >= MAX_REDACT_DEPTH {
        return Value::String(HIDDEN.to_owned());
    }
    match value {
        Value::String(text) => Value::String(redactor.text(text).into_owned()),
        Value::Array(items) => Value::Array(array(redactor, items, Watch::default(), depth)),
        Value::Object(map) => Value::Object(object(redactor, map, is_secret_field, depth)),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// An argument list: the item after a flag such as `--password` is its value, and `watch` knows
/// the options of some programs.
fn array(redactor: &Redactor, items: &[Value], mut watch: Watch, depth: usize) -> Vec<Value> {
    let mut after_flag = false;
    items
        .iter()
        .map(|item| {
            let hide = after_flag && item.as_str().is_some_and(|s| !s.starts_with('-'));
            after_flag = item.as_str().is_some_and(is_secret_flag);
            match item {
                _ if hide => {
                    watch.word(HIDDEN, false);
                    hidden(item)
                }
                Value::String(word) if depth + 1 < MAX_REDACT_DEPTH => {
                    Value::String(argument(redactor, &mut watch, word))
                }
                _ => redact(redactor, item, depth + 1),
            }
        })
        .collect()
}

/// An argument without its secrets. A replacement may change what `watch` sees in the word, so the
/// word is read again until nothing more is found.
fn argument(redactor: &Redactor, watch: &mut Watch, word: &str) -> String {
    let before = watch.clone();
    let mut word = word.to_owned();
    for _ in 0..MAX_REDACT_PASSES {
        *watch = before.clone();
        let hit = watch.word(&word, false);
        let seen = hit.and_then(|(range, rule)| redactor.replace_at(&word, range, rule));
        let redacted = redactor.text(seen.as_deref().unwrap_or(&word)).into_owned();
        if redacted == word {
            break;
        }
        word = redacted;
    }
    word
}

fn is_secret_flag(text: &str) -> bool {
    text.starts_with("--") && !text.contains(['=', ' ', '[']) && is_secret_name(text)
}

fn object(
    redactor: &Redactor,
    map: &Map<String, Value>,
    is_secret: fn(&str, &Value) -> bool,
    depth: usize,
) -> Map<String, Value> {
    let named = names_a_secret(map);
    map.iter()
        .map(|(key, value)| {
            let value = if is_secret(key, value) || (named && key == "value") {
                hidden(value)
            } else {
                field(redactor, map, key, value, depth)
            };
            (redactor.text(key).into_owned(), value)
        })
        .collect()
}

/// A field whose name tells no secret, but may tell what its value is.
fn field(
    redactor: &Redactor,
    map: &Map<String, Value>,
    key: &str,
    value: &Value,
    depth: usize,
) -> Value {
    match (key, value) {
        ("content_base64", Value::String(text)) if hides_secret(redactor, text) => {
            Value::String(ENCODED.to_owned())
        }
        ("args" | "arguments", Value::Array(items)) if depth + 1 < MAX_REDACT_DEPTH => {
            Value::Array(array(redactor, items, watch_of(map), depth + 1))
        }
        (_, Value::Object(variables)) if is_environment(key) && depth + 1 < MAX_REDACT_DEPTH => {
            Value::Object(object(redactor, variables, is_secret_entry, depth + 1))
        }
        _ => redact(redactor, value, depth + 1),
    }
}

/// A watch that knows the program which an object names beside its arguments.
fn watch_of(map: &Map<String, Value>) -> Watch {
    let mut watch = Watch::default();
    let named = ["command", "program", "cmd"].iter();
    for program in named.filter_map(|field| map.get(*field)?.as_str()) {
        watch.word(program, false);
    }
    watch
}

fn is_environment(key: &str) -> bool {
    ["env", "environ", "environment"]
        .iter()
        .any(|name| key.eq_ignore_ascii_case(name))
}

fn is_secret_field(key: &str, value: &Value) -> bool {
    is_secret_name(key) || (is_suspect_name(key) && value.as_str().is_some_and(is_opaque))
}

/// Whether a variable of an environment is secret. Its names are freer than those of fields.
fn is_secret_entry(key: &str, value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    if matches!(key, "PWD" | "OLDPWD") && is_path(text) {
        return false;
    }
    is_secret_field(key, value)
        || (is_secret_variable(key) && !is_path(text) && !is_setting(text))
        || (is_suspect_variable(key) && is_key(text) && !is_path(text))
}

/// Whether a value is a count or a switch.
fn is_setting(text: &str) -> bool {
    is_placeholder(text) || (text.len() < 6 && text.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether a value is what a key may be. Unlike in a field of any kind, a key in hexadecimal counts.
fn is_key(text: &str) -> bool {
    is_random(text) || (text.len() >= 32 && is_digest_or_uuid(text))
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

/// Whether the text that `encoded` stands for holds a secret.
fn hides_secret(redactor: &Redactor, encoded: &str) -> bool {
    let mut digits: Vec<u8> = encoded
        .bytes()
        .filter(|b| !b.is_ascii_whitespace())
        .map(|b| match b {
            b'-' => b'+',
            b'_' => b'/',
            b => b,
        })
        .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
        .take(MAX_REDACT_BASE64.div_ceil(3) * 4)
        .collect();
    if digits.len() % 4 == 1 {
        digits.pop();
    }
    LENIENT
        .decode(&digits)
        .is_ok_and(|bytes| redactor.pass(&String::from_utf8_lossy(&bytes)).is_some())
}

/// Hides a value. Absence is no secret and helps who reads the trail.
fn hidden(value: &Value) -> Value {
    match value {
        Value::Null | Value::Bool(_) => value.clone(),
        Value::String(text) if text.is_empty() => value.clone(),
        _ => Value::String(HIDDEN.to_owned()),
    }
}
