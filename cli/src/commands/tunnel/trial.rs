//! `handsctl tunnel test`: tries id, key, network and server, and serves nothing.

use super::{key_file, settings};
use crate::exit::{Exit, Failure};
use crate::output::harmless;
use crate::programs::{MCP, TUNNEL, ask};
use crate::{Context, daemon, limits};
use hands_config::KeyStore;
use hands_control::types::daemon::Status;
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
    let tried = output.status.success();
    let polls = match tried {
        true => polls(context, id)?,
        false => Polls::NotAsked,
    };
    let passed = tried && !matches!(polls, Polls::Bad(_));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let report = serde_json::from_str::<Value>(&text).unwrap_or(Value::Null);
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if context.out.json {
        context.out.object(
            &json!({"ok": passed, "report": report, "said": said, "polls": polls.text()}),
        )?;
    } else {
        for line in lines(&report) {
            context.out.text(&harmless(&line))?;
        }
        if !said.is_empty() {
            context.out.text(&harmless(&said))?;
        }
        context.out.text(&harmless(&polls.text()))?;
    }
    match passed {
        true => Ok(Exit::Ok),
        false => Ok(Exit::Failed),
    }
}

/// What is known of the polls. The trial makes none: it could take commands from the daemon's own client.
enum Polls {
    Good,
    Bad(String),
    Unknown(&'static str),
    NotAsked,
}

impl Polls {
    fn text(&self) -> String {
        let read = "the tunnel's record was read";
        match self {
            Self::Good => "the tunnel works: the daemon's polls are answered".to_owned(),
            Self::Bad(why) => format!("{read}, and yet the tunnel does not work: {why}"),
            Self::Unknown(why) => format!("{read}; {why}"),
            Self::NotAsked => "the tunnel does not work".to_owned(),
        }
    }
}

/// The verdict of the daemon, where one runs with this tunnel.
fn polls(context: &Context, id: &str) -> Result<Polls, Failure> {
    const NOT_TRIED: &str = "polls are tried when the daemon runs with this tunnel (`handsctl up`, then `handsctl status`)";
    daemon::block_on(async {
        let Some(client) = daemon::connect_if_running(context).await? else {
            return Ok(Polls::Unknown(NOT_TRIED));
        };
        let (found, _) = daemon::wait_for(&client, limits::DAEMON_READY, |found| {
            !is_of(found, id) || good(found) || bad(found).is_some()
        })
        .await?;
        Ok(match bad(&found) {
            _ if !is_of(&found, id) => Polls::Unknown(NOT_TRIED),
            Some(why) => Polls::Bad(why),
            None if good(&found) => Polls::Good,
            None => Polls::Unknown(
                "the daemon's polls are not answered yet; `handsctl status` tells when they are",
            ),
        })
    })
}

/// Whether the daemon holds this tunnel; of the id it tells the beginning.
fn is_of(found: &Status, id: &str) -> bool {
    let told = found.tunnel.id.as_deref();
    told.is_some_and(|told| id.starts_with(told.trim_end_matches('…')))
}

fn good(found: &Status) -> bool {
    found.tunnel.ready == Some(true) && found.tunnel.last_good_poll_s.is_some()
}

fn bad(found: &Status) -> Option<String> {
    let mut reasons = found.readiness.reasons.iter();
    let grave = reasons.find(|reason| {
        ["tunnel_needs_operator", "tunnel_unreachable"].contains(&reason.code.as_str())
    });
    grave.map(|reason| reason.message.clone())
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
