//! `handsctl tunnel setup|status|test`: connecting ChatGPT.

mod keep;
mod setup;
mod trial;

use super::status::tunnel as in_one_line;
use crate::args::TunnelWhat;
use crate::exit::{Exit, Failure};
use crate::{Context, daemon};
use hands_config::{Config, Flags, load};
use serde_json::json;
use std::path::PathBuf;

pub(crate) fn run(context: &Context, what: TunnelWhat) -> Result<Exit, Failure> {
    match what {
        TunnelWhat::Setup(args) => setup::run(context, args),
        TunnelWhat::Status => status(context),
        TunnelWhat::Test => trial::run(context),
    }
}

fn status(context: &Context) -> Result<Exit, Failure> {
    let found = daemon::block_on(async {
        let client = daemon::connect(context).await?;
        daemon::status(&client).await
    })?;
    let reasons = found.readiness.reasons.iter();
    let reasons: Vec<_> = reasons
        .filter(|reason| reason.code.starts_with("tunnel_"))
        .collect();
    if context.out.json {
        context
            .out
            .object(&json!({"tunnel": found.tunnel, "reasons": reasons}))?;
    } else {
        context
            .out
            .text(&in_one_line(&found.tunnel, &found.readiness))?;
        for reason in &reasons {
            context.out.text(&reason.message)?;
            if let Some(hint) = &reason.hint {
                context.out.text(&format!("next: {hint}"))?;
            }
        }
    }
    match reasons.is_empty() {
        true => Ok(Exit::Ok),
        false => Ok(Exit::Degraded),
    }
}

/// The settings in force.
fn settings(context: &Context) -> Result<Config, Failure> {
    load(&context.home, &context.env, &Flags::default())
        .map(|loaded| loaded.config)
        .map_err(|error| Failure::new("loading the configuration", error.to_string()))
}

/// Whether an id looks as the service's ids do. They are opaque, so another one is doubted and not impossible.
pub(crate) fn is_usual_id(id: &str) -> bool {
    let digits = id.strip_prefix("tunnel_").unwrap_or_default();
    digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Where the key's file is.
fn key_file(context: &Context, config: &Config) -> PathBuf {
    let named = config.tunnel.key_file.clone();
    named.unwrap_or_else(|| context.home.tunnel_key_file())
}
