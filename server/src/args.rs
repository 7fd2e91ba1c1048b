//! A call's arguments, read strictly: whatever is wrong is named.

use crate::outcome::Outcome;
use serde_json::{Map, Value};

/// The arguments of one call (or of one object inside them).
#[derive(Debug, Clone)]
pub struct Args {
    map: Map<String, Value>,
    /// What stands before a field's name in messages: empty, or `edits[2].`.
    prefix: String,
}

impl Args {
    /// Takes the arguments in. An optional one given as null or `""` counts as absent; `keep`
    /// names those for which `""` is a value.
    ///
    /// # Errors
    /// `validation` naming the first unknown field, with the nearest known one.
    pub fn new(
        map: Map<String, Value>,
        prefix: &str,
        known: &[&str],
        keep: &[&str],
    ) -> Result<Self, Outcome> {
        for name in map.keys() {
            if !known.contains(&name.as_str()) {
                return Err(unknown(prefix, name, known));
            }
        }
        let absent = |(name, value): &(String, Value)| {
            value.is_null() || (value == "" && !keep.contains(&name.as_str()))
        };
        let map = map.into_iter().filter(|entry| !absent(entry)).collect();
        Ok(Self {
            map,
            prefix: prefix.into(),
        })
    }

    fn wrong(&self, name: &str, expected: &str) -> Outcome {
        let got = match &self.map.get(name) {
            None => "nothing".to_string(),
            Some(Value::String(_)) => "a string".into(),
            Some(Value::Array(_)) => "an array".into(),
            Some(Value::Object(_)) => "an object".into(),
            Some(other) => format!("{other}"),
        };
        Outcome::validation(format!(
            "`{}{name}` must be {expected}, not {got}",
            self.prefix
        ))
    }

    /// Whether the field was given.
    pub fn has(&self, name: &str) -> bool {
        self.map.contains_key(name)
    }

    /// A string, if given.
    ///
    /// # Errors
    /// `validation` when it is something else.
    pub fn string(&self, name: &str) -> Result<Option<&str>, Outcome> {
        match self.map.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(name, "a string")),
        }
    }

    /// A string that must be given.
    ///
    /// # Errors
    /// `validation` when it is missing or something else.
    pub fn required(&self, name: &str) -> Result<&str, Outcome> {
        match self.string(name)? {
            Some(text) => Ok(text),
            None => Err(Outcome::validation(format!(
                "`{}{name}` is missing",
                self.prefix
            ))),
        }
    }

    /// One of these words, if given.
    ///
    /// # Errors
    /// `validation` naming them.
    pub fn word<'a>(&self, name: &str, words: &[&'a str]) -> Result<Option<&'a str>, Outcome> {
        let Some(text) = self.string(name)? else {
            return Ok(None);
        };
        match words.iter().find(|w| **w == text) {
            Some(word) => Ok(Some(word)),
            None => Err(Outcome::validation(format!(
                "`{}{name}` must be one of {}, not \"{text}\"",
                self.prefix,
                words.join(", ")
            ))),
        }
    }

    /// A truth value, false when not given.
    ///
    /// # Errors
    /// `validation` when it is something else.
    pub fn flag(&self, name: &str) -> Result<bool, Outcome> {
        Ok(self.boolean(name)?.unwrap_or(false))
    }

    /// A truth value, if given.
    ///
    /// # Errors
    /// `validation` when it is something else.
    pub fn boolean(&self, name: &str) -> Result<Option<bool>, Outcome> {
        match self.map.get(name) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(_) => Err(self.wrong(name, "true or false")),
        }
    }

    /// A whole number in a range, if given.
    ///
    /// # Errors
    /// `validation` when it is something else.
    pub fn whole(
        &self,
        name: &str,
        range: std::ops::RangeInclusive<i64>,
    ) -> Result<Option<i64>, Outcome> {
        let Some(value) = self.map.get(name) else {
            return Ok(None);
        };
        let expected = match (*range.start(), *range.end()) {
            (i64::MIN, i64::MAX) => "a whole number".to_string(),
            (low, i64::MAX) => format!("a whole number of at least {low}"),
            (low, high) => format!("a whole number from {low} to {high}"),
        };
        match whole_of(value).filter(|n| range.contains(n)) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(name, &expected)),
        }
    }

    /// An object whose values are strings, if given.
    ///
    /// # Errors
    /// `validation` naming the first that is not.
    pub fn strings(&self, name: &str) -> Result<Vec<(String, String)>, Outcome> {
        let Some(value) = self.map.get(name) else {
            return Ok(Vec::new());
        };
        let map = value
            .as_object()
            .ok_or_else(|| self.wrong(name, "an object of strings"))?;
        let pair = |(key, value): (&String, &Value)| match value {
            Value::String(text) => Ok((key.clone(), text.clone())),
            _ => Err(Outcome::validation(format!(
                "`{}{name}.{key}` must be a string",
                self.prefix
            ))),
        };
        map.iter().map(pair).collect()
    }

    /// An array of objects, if given.
    ///
    /// # Errors
    /// `validation` when it is something else, or empty.
    pub fn objects(&self, name: &str) -> Result<Option<Vec<Map<String, Value>>>, Outcome> {
        let Some(value) = self.map.get(name) else {
            return Ok(None);
        };
        let items = value
            .as_array()
            .filter(|items| !items.is_empty())
            .ok_or_else(|| self.wrong(name, "an array of at least one object"))?;
        let object = |(at, item): (usize, &Value)| match item {
            Value::Object(map) => Ok(map.clone()),
            _ => Err(Outcome::validation(format!(
                "`{}{name}[{at}]` must be an object",
                self.prefix
            ))),
        };
        items
            .iter()
            .enumerate()
            .map(object)
            .collect::<Result<_, _>>()
            .map(Some)
    }
}

/// Whole numbers may come as `5` or `5.0`.
fn whole_of(value: &Value) -> Option<i64> {
    if let Some(number) = value.as_i64() {
        return Some(number);
    }
    let float = value.as_f64()?;
    let exact = float.fract() == 0.0 && float.abs() < 9.0e15;
    #[expect(clippy::cast_possible_truncation, reason = "checked to be exact")]
    exact.then_some(float as i64)
}

fn unknown(prefix: &str, name: &str, known: &[&str]) -> Outcome {
    let near = known
        .iter()
        .map(|k| (strsim::jaro_winkler(k, name), k))
        .filter(|(score, _)| *score > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let outcome = Outcome::validation(format!("`{prefix}{name}` is not a parameter here"));
    match near {
        Some((_, near)) => outcome.hint(format!("Did you mean `{prefix}{near}`?")),
        None => outcome.hint(format!("Parameters: {}.", known.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn args(value: Value) -> Result<Args, Outcome> {
        let Value::Object(map) = value else { panic!() };
        Args::new(
            map,
            "",
            &["path", "limit", "deep", "env", "content"],
            &["content"],
        )
    }

    fn message(outcome: Outcome) -> String {
        assert_eq!(outcome.code, crate::outcome::Code::Validation);
        outcome.shown()
    }

    #[test]
    fn null_and_empty_mean_absent_except_where_empty_is_a_value() {
        let args = args(json!({"path": "", "limit": null, "content": ""})).unwrap();
        assert_eq!(args.string("path").unwrap(), None);
        assert_eq!(args.whole("limit", 1..=9).unwrap(), None);
        assert_eq!(args.string("content").unwrap(), Some(""));
        assert_eq!(
            message(args.required("path").unwrap_err()),
            "[validation] `path` is missing"
        );
    }

    #[test]
    fn an_unknown_field_is_named_with_its_neighbour() {
        let text = message(args(json!({"limits": 1})).unwrap_err());
        assert_eq!(
            text,
            "[validation] `limits` is not a parameter here\nDid you mean `limit`?"
        );
        let text = message(args(json!({"view_range": 1})).unwrap_err());
        assert!(
            text.contains("`view_range`") && text.contains("Parameters:"),
            "{text}"
        );
    }

    #[test]
    fn wrong_types_name_the_field() {
        let args = args(json!({"path": 3, "limit": "9", "deep": "yes", "env": {"A": 1}})).unwrap();
        assert!(
            message(args.required("path").unwrap_err()).contains("`path` must be a string, not 3")
        );
        assert!(
            message(args.whole("limit", 1..=9).unwrap_err()).contains("from 1 to 9, not a string")
        );
        assert!(message(args.flag("deep").unwrap_err()).contains("`deep`"));
        assert!(message(args.strings("env").unwrap_err()).contains("`env.A`"));
    }

    #[test]
    fn numbers_may_be_written_as_floats_but_must_be_whole() {
        let args = args(json!({"limit": 5.0, "deep": true, "path": 1.5})).unwrap();
        assert_eq!(args.whole("limit", 1..=9).unwrap(), Some(5));
        assert!(args.whole("path", 1..=9).is_err());
        assert!(args.whole("limit", 6..=9).is_err());
    }
}
