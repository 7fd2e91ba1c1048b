//! `handsctl tunnel test`: tries id, key, network and server, and serves nothing.

use super::{key_file, settings};
use crate::exit::{Exit, Failure};
use crate::output::harmless;
use crate::programs::{MCP, TUNNEL, ask};
use crate::{Context, limits};
use hands_config::KeyStore;
use serde_json::{Value, json};

pub(crate) fn run(context: &Context) -> Result<Exit, Failure> {
    let config = settings(context)?;
    let Some(id) = &config.tunnel.id else {
        return Err(Failure::new("the trial", "no tunnel is configured")
            .hint("run `handsctl tunnel setup`"));
    };
    let find = |program: crate::programs::Program| {
        program
            .find(&context.env)
            .map_err(|why| why.failure("finding a program"))
    };
    let (tunnel, mcp) = (find(TUNNEL)?, find(MCP)?);
    let key = match config.tunnel.key_store {
        KeyStore::File => format!("file:{}", key_file(context, &config).display()),
        KeyStore::Keychain => format!("keychain:{id}"),
    };
    let server = [
        mcp.to_string_lossy(),
        "--home".into(),
        context.home.root().to_string_lossy(),
    ];
    let server: Vec<String> = server.iter().map(|word| quoted(word)).collect();
    let mut arguments = vec![
        "doctor".to_owned(),
        "--json".to_owned(),
        format!("--control-plane.tunnel-id={id}"),
        format!("--control-plane.api-key={key}"),
        format!("--mcp.command={}", server.join(" ")),
    ];
    if let Some(url) = &config.tunnel.base_url {
        arguments.push(format!("--control-plane.base-url={url}"));
    }
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output =
        ask(&tunnel, &words, limits::TUNNEL_TEST).map_err(|why| Failure::new("the trial", why))?;
    let passed = output.status.success();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let report = serde_json::from_str::<Value>(&text).unwrap_or(Value::Null);
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if context.out.json {
        context
            .out
            .object(&json!({"ok": passed, "report": report, "said": said}))?;
    } else {
        for line in lines(&report) {
            context.out.text(&harmless(&line))?;
        }
        if !said.is_empty() {
            context.out.text(&harmless(&said))?;
        }
        context.out.text(if passed {
            "the tunnel works"
        } else {
            "the tunnel does not work"
        })?;
    }
    match passed {
        true => Ok(Exit::Ok),
        false => Ok(Exit::Failed),
    }
}

/// One line for each check of the report.
fn lines(report: &Value) -> Vec<String> {
    let checks = report["checks"].as_array().or(report.as_array());
    let checks = checks.map(Vec::as_slice).unwrap_or_default();
    let text = |check: &Value, names: &[&str]| {
        let found = names.iter().find_map(|name| check[*name].as_str());
        found.unwrap_or_default().to_owned()
    };
    checks
        .iter()
        .map(|check| {
            let good = check["ok"].as_bool().unwrap_or(false);
            let mark = if good { "ok  " } else { "FAIL" };
            let name = text(check, &["name", "check"]);
            format!(
                "{mark}  {name:<16} {}",
                text(check, &["found", "detail", "message"])
            )
            .trim_end()
            .to_owned()
        })
        .collect()
}

/// A word for a splitter with a shell's quotes.
fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-=:,@%+".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}
