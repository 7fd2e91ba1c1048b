//! `handsctl config show|check|path`.

use super::tunnel::is_usual_id;
use crate::Context;
use crate::args::ConfigWhat;
use crate::exit::{Exit, Failure};
use crate::output::note;
use hands_config::{ConfigError, Flags, Loaded, Source, load};
use serde_json::{Value, json};

pub(crate) fn run(context: &Context, what: ConfigWhat) -> Result<Exit, Failure> {
    match what {
        ConfigWhat::Path => path(context),
        ConfigWhat::Show => show(context),
        ConfigWhat::Check => check(context),
    }
}

fn path(context: &Context) -> Result<Exit, Failure> {
    let file = context.home.config_file();
    if context.out.json {
        let object = json!({"home": context.home.root(), "file": file, "exists": file.exists()});
        context.out.object(&object)?;
    } else {
        context.out.text(&file.to_string_lossy())?;
    }
    Ok(Exit::Ok)
}

fn show(context: &Context) -> Result<Exit, Failure> {
    let loaded = load(&context.home, &context.env, &Flags::default())
        .map_err(|error| Failure::new("loading the configuration", error.to_string()))?;
    if context.out.json {
        context.out.object(&as_json(context, &loaded))?;
        return Ok(Exit::Ok);
    }
    let rows: Vec<Vec<String>> = loaded
        .entries()
        .into_iter()
        .map(|entry| {
            vec![
                entry.key.name.to_owned(),
                plain(&entry.value),
                entry.source.to_string(),
            ]
        })
        .collect();
    context.out.table(&["KEY", "VALUE", "SOURCE"], &rows)?;
    warn(&loaded);
    Ok(Exit::Ok)
}

/// A value as a person reads it: lists without brackets.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "-".to_owned(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

fn as_json(context: &Context, loaded: &Loaded) -> Value {
    let settings: Vec<Value> = loaded
        .entries()
        .into_iter()
        .map(|entry| {
            json!({
                "key": entry.key.name,
                "value": entry.value,
                "unit": entry.key.unit,
                "source": source(&entry.source),
                "env": entry.key.env_name(),
            })
        })
        .collect();
    json!({
        "home": context.home.root(),
        "file": context.home.config_file(),
        "settings": settings,
        "warnings": loaded.warnings,
    })
}

fn source(source: &Source) -> Value {
    match source {
        Source::Default => json!({"kind": "default"}),
        Source::File { line } => json!({"kind": "file", "line": line}),
        Source::Env { name } => json!({"kind": "env", "name": name}),
        Source::Flag => json!({"kind": "flag"}),
    }
}

fn check(context: &Context) -> Result<Exit, Failure> {
    let file = context.home.config_file();
    match load(&context.home, &context.env, &Flags::default()) {
        Ok(mut loaded) => {
            loaded.warnings.extend(doubt(&loaded));
            if context.out.json {
                context
                    .out
                    .object(&json!({"ok": true, "file": file, "warnings": loaded.warnings}))?;
            } else {
                let state = if file.exists() {
                    "valid"
                } else {
                    "not there, the defaults hold"
                };
                context.out.text(&format!("{}: {state}", file.display()))?;
                warn(&loaded);
            }
            Ok(Exit::Ok)
        }
        Err(error) if context.out.json => {
            context.out.object(&error_json(&error))?;
            Ok(Exit::Failed)
        }
        Err(error) => Err(Failure::new("the check", error.to_string())),
    }
}

/// An id that was copied in part is valid, and yet no tunnel's.
fn doubt(loaded: &Loaded) -> Option<String> {
    let id = loaded.config.tunnel.id.as_deref()?;
    (!is_usual_id(id)).then(|| {
        "tunnel.id does not look like `tunnel_` and 32 hexadecimal digits; is it copied whole?"
            .to_owned()
    })
}

fn error_json(error: &ConfigError) -> Value {
    json!({
        "ok": false,
        "message": error.to_string(),
        "line": error.line(),
        "key": error.key_name(),
        "reason": error.reason(),
        "hint": error.hint_text(),
    })
}

fn warn(loaded: &Loaded) {
    for warning in &loaded.warnings {
        note(&format!("warning: {warning}"));
    }
}
