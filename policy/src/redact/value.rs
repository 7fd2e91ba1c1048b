//! What a value looks like: random, a reference to something else, or a path.

use crate::limits::MAX_VALUE_LOOK;

/// The head of `value`, cut on a character boundary.
fn head(value: &str) -> &str {
    let end = value.floor_char_boundary(MAX_VALUE_LOOK);
    value.get(..end).unwrap_or(value)
}

/// Whether `value` looks drawn at random: long, mixed, and rich in different characters.
pub(super) fn is_random(value: &str) -> bool {
    let value = head(value);
    value.len() >= 20
        && value.bytes().any(|b| b.is_ascii_digit())
        && value.bytes().any(|b| b.is_ascii_alphabetic())
        && !value.bytes().any(|b| b.is_ascii_whitespace())
        && entropy(value) >= 3.5
}

/// Shannon entropy in bits per byte.
#[allow(clippy::cast_precision_loss)] // Counts are at most MAX_VALUE_LOOK.
fn entropy(value: &str) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in value.bytes() {
        if let Some(count) = counts.get_mut(usize::from(byte)) {
            *count += 1;
        }
    }
    let total = value.len() as f64;
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| {
            let share = f64::from(*count) / total;
            -share * share.log2()
        })
        .sum()
}

/// Whether `value` is a hash or a UUID: random, yet a name rather than a secret.
pub(super) fn is_digest_or_uuid(value: &str) -> bool {
    let value = value.split_once(':').map_or(value, |(algorithm, digest)| {
        if algorithm.starts_with("sha") || algorithm == "md5" {
            digest
        } else {
            value
        }
    });
    !value.is_empty() && value.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
}

/// Whether `value` stands for something that is kept elsewhere, or for nothing: a variable, a
/// template field, a placeholder, a literal of a programming language.
pub(super) fn is_placeholder(value: &str) -> bool {
    if value.len() > MAX_VALUE_LOOK {
        return false;
    }
    is_variable(value)
        || is_framed(value, "<", ">")
        || is_framed(value, "{{", "}}")
        || is_framed(value, "%", "%")
        || is_framed(value, "%(", ")s")
        || value == "%s"
        || value == "{}"
        || is_one_char(value)
        || is_empty_literal(value)
}

fn is_variable(value: &str) -> bool {
    let Some(rest) = value.strip_prefix('$') else {
        return value.starts_with('`');
    };
    let is_shouted = |name: &str| {
        let mut bytes = name.bytes();
        bytes
            .next()
            .is_some_and(|b| b.is_ascii_uppercase() || b == b'_')
            && bytes.all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
    };
    rest.starts_with('(')
        || rest.starts_with("{{")
        || is_framed(rest, "{", "}")
        || is_shouted(rest)
        || (rest.len() == 1 && rest.bytes().all(|b| b.is_ascii_digit() || b == b'@'))
}

fn is_framed(value: &str, open: &str, close: &str) -> bool {
    value.len() > open.len() + close.len() && value.starts_with(open) && value.ends_with(close)
}

/// `***`, `xxxx`, `....`, and the empty value.
fn is_one_char(value: &str) -> bool {
    let mut chars = value.chars();
    let Some(first) = chars.next() else {
        return true;
    };
    chars.all(|c| c == first) && (first == 'x' || first == 'X' || !first.is_alphanumeric())
}

fn is_empty_literal(value: &str) -> bool {
    const LITERALS: &[&str] = &[
        "null",
        "nil",
        "none",
        "true",
        "false",
        "yes",
        "no",
        "undefined",
        "required",
        "optional",
    ];
    LITERALS.iter().any(|l| value.eq_ignore_ascii_case(l))
}

/// Whether `value` is the name of a type, as in the declaration of a field.
pub(super) fn is_type_word(value: &str) -> bool {
    const TYPES: &[&str] = &[
        "any", "bool", "boolean", "bytes", "char", "int", "integer", "number", "object", "option",
        "str", "string", "text", "unknown", "varchar", "void",
    ];
    let value = value.trim_end_matches([',', ';', '?']);
    TYPES.iter().any(|t| value.eq_ignore_ascii_case(t))
}

/// Whether `value` is a path to a file, which may hold a secret but is none.
pub(super) fn is_path(value: &str) -> bool {
    const STARTS: &[&str] = &["/", "./", "../", "~/", "$HOME/", "${HOME}/", "file:"];
    if !STARTS.iter().any(|s| value.starts_with(s)) || value.len() > 4 * MAX_VALUE_LOOK {
        return false;
    }
    // A random key in base64 may start with a slash too; the parts of a path are words.
    !value.contains(['+', '='])
        && !value
            .split('/')
            .any(|part| is_random(part) && !is_digest_or_uuid(part))
}

/// Whether `value` is a dotted name of a programming language, such as `self.token`.
pub(super) fn is_dotted_name(value: &str) -> bool {
    value.len() <= MAX_VALUE_LOOK
        && value.contains('.')
        && value.split('.').all(|part| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_')
        })
}

/// Whether `value` has both a letter and a digit.
pub(super) fn has_letter_and_digit(value: &str) -> bool {
    value.bytes().any(|b| b.is_ascii_digit()) && value.bytes().any(|b| b.is_ascii_alphabetic())
}
