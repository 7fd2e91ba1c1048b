//! Redaction and shortening of what a record carries.
//!
//! A long string is cut to a window first and only the window is redacted, so that a call with
//! tens of megabytes costs a hash and not a scan for secrets; the head that is kept is cut from
//! the redacted window.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::fsx::{clip, hex};
use crate::limits::{MAX_ARGS, MAX_DEPTH, MAX_STRING, REDACT_WINDOW, STRING_HEAD};
use crate::record::Text;
use crate::redact;

/// A text as it is kept.
pub(crate) fn text(whole: &str) -> Text {
    let window = clip(whole, REDACT_WINDOW);
    finish(whole, window, &redact::text(window))
}

/// Arguments as they are kept.
pub(crate) fn args(whole: &Value) -> Value {
    let windowed = window(whole, 0);
    let redacted = redact::value(&windowed);
    let kept = keep(&windowed, &redacted, whole);
    let json = kept.to_string();
    if json.len() <= MAX_ARGS {
        return kept;
    }
    // Many small strings can be as large as one: then the JSON itself is the long string.
    to_value(cut(&json, clip(&json, STRING_HEAD), true))
}

/// `whole` with long strings cut to what redaction looks at and deep values turned into text.
fn window(whole: &Value, depth: usize) -> Value {
    match whole {
        Value::String(s) => Value::String(clip(s, REDACT_WINDOW).to_owned()),
        Value::Array(_) | Value::Object(_) if depth >= MAX_DEPTH => {
            Value::String(clip(&whole.to_string(), REDACT_WINDOW).to_owned())
        }
        Value::Array(items) => items.iter().map(|v| window(v, depth + 1)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(k, v)| (k.clone(), window(v, depth + 1)))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

/// Walks the windowed, the redacted and the whole value side by side and cuts long strings.
fn keep(windowed: &Value, redacted: &Value, whole: &Value) -> Value {
    match (windowed, redacted, whole) {
        (Value::String(w), Value::String(r), Value::String(s)) => to_value(finish(s, w, r)),
        // A value too deep for a reader became text.
        (Value::String(w), Value::String(r), deep) => to_value(finish(&deep.to_string(), w, r)),
        (Value::Array(w), Value::Array(r), Value::Array(s)) if w.len() == r.len() => w
            .iter()
            .zip(r)
            .zip(s)
            .map(|((w, r), s)| keep(w, r, s))
            .collect(),
        (Value::Object(w), Value::Object(r), Value::Object(s)) => r
            .iter()
            .map(|(key, r)| match (w.get(key), s.get(key)) {
                (Some(w), Some(s)) => (key.clone(), keep(w, r, s)),
                _ => (key.clone(), r.clone()),
            })
            .collect::<Map<_, _>>()
            .into(),
        // The redactor replaced the whole value.
        (_, replaced, _) => replaced.clone(),
    }
}

/// The kept form of `whole`, of which redaction turned `window` into `redacted`.
fn finish(whole: &str, window: &str, redacted: &str) -> Text {
    if whole.len() <= MAX_STRING && redacted.len() <= MAX_STRING {
        return Text::Whole(redacted.to_owned());
    }
    // The hash of a text with a secret in it could serve to guess the secret.
    cut(whole, clip(redacted, STRING_HEAD), window == redacted)
}

fn cut(whole: &str, head: &str, with_hash: bool) -> Text {
    Text::Cut {
        head: head.to_owned(),
        length: u64::try_from(whole.len()).unwrap_or(u64::MAX),
        sha256: with_hash.then(|| hex(&Sha256::digest(whole.as_bytes()))),
    }
}

fn to_value(text: Text) -> Value {
    match text {
        Text::Whole(s) => Value::String(s),
        Text::Cut {
            head,
            length,
            sha256,
        } => {
            let mut fields = Map::new();
            fields.insert("head".into(), head.into());
            fields.insert("length".into(), length.into());
            if let Some(sha256) = sha256 {
                fields.insert("sha256".into(), sha256.into());
            }
            Value::Object(fields)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// Looks like a token and is none.
    fn token() -> String {
        format!("ghp_{}", "a1B2c3D4e5F6".repeat(3))
    }

    #[test]
    fn small_arguments_stay_as_they_are() {
        let value = json!({"command": "ls -la", "n": 3, "list": [true, null, "ü"]});
        assert_eq!(args(&value), value);
        assert_eq!(text("short"), Text::Whole("short".into()));
    }

    #[test]
    fn a_string_over_two_kib_is_kept_as_head_length_and_hash() {
        let exact = "é".repeat(MAX_STRING / 2);
        assert_eq!(args(&json!(exact)), json!(exact));
        let long = "line of text\n".repeat(1000);
        let kept = args(&json!({"content": long}));
        let head = &kept["content"]["head"];
        assert_eq!(head.as_str().unwrap(), &long[..STRING_HEAD]);
        assert_eq!(kept["content"]["length"], 13_000);
        let hash = hex(&Sha256::digest(long.as_bytes()));
        assert_eq!(kept["content"]["sha256"], hash);
    }

    #[test]
    fn a_head_ends_between_two_characters() {
        let Text::Cut { head, length, .. } = text(&"€".repeat(1000)) else {
            panic!("it is cut");
        };
        assert_eq!((head.chars().count(), length), (STRING_HEAD / 3, 3000));
    }

    #[test]
    fn secrets_do_not_reach_the_trail() {
        let secret = token();
        let inside = format!("{} {secret} {}", "word ".repeat(10), "more ".repeat(1000));
        // The secret lies across the place where the head is cut.
        let across = format!("{} {secret} {}", "x ".repeat(508), "more ".repeat(1000));
        let value = json!({
            "command": format!("curl -H 'Authorization: Bearer {secret}' https://example.org"),
            "password": "correct horse",
            "inside": inside,
            "across": across,
        });
        let kept = args(&value).to_string();
        assert!(!kept.contains(&secret[..12]), "{kept}");
        assert!(!kept.contains("correct horse"), "{kept}");
        assert!(
            kept.contains("example.org") && kept.contains("more more"),
            "{kept}"
        );
        let hash = hex(&Sha256::digest(inside.as_bytes()));
        assert!(!kept.contains(&hash), "no hash of a text with a secret");
    }

    #[test]
    fn many_small_strings_are_kept_like_a_long_one() {
        let value = json!(vec!["twenty bytes of text"; 10_000]);
        let kept = args(&value);
        assert!(kept["length"].as_u64().unwrap() > 200_000, "{kept}");
        assert!(kept["head"].as_str().unwrap().starts_with("[\"twenty"));
    }

    #[test]
    fn deep_arguments_stay_readable() {
        let mut deep = json!("core");
        for _ in 0..120 {
            deep = json!([deep]);
        }
        let line = json!({"args": args(&deep)}).to_string();
        let back: Value = serde_json::from_str(&line).unwrap();
        assert!(back.to_string().contains("core"));
        let mut at = &back["args"];
        let mut depth = 0;
        while let Some(inner) = at.get(0) {
            (at, depth) = (inner, depth + 1);
        }
        assert_eq!(depth, MAX_DEPTH);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<i32>().prop_map(|n| json!(f64::from(n) / 8.0)),
            ".{0,40}".prop_map(Value::from),
            "[\\x00-\\x7f\u{2028}]{0,20}".prop_map(Value::from),
            (0..600_usize).prop_map(|n| Value::from("long ".repeat(n))),
        ];
        leaf.prop_recursive(6, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::vec((".{0,12}", inner), 0..8)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_arguments_make_one_line_that_reads_back(value in any_json()) {
            let kept = args(&value);
            let json = kept.to_string();
            prop_assert!(json.len() <= MAX_ARGS);
            prop_assert!(!json.contains('\n'));
            prop_assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), kept);
        }
    }
}
