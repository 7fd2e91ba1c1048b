//! `doctor`: each part checked by itself, without serving.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::child::{ChildSpec, Running, describe};
use crate::config::{Config, ConfigError};
use crate::control_plane::{ControlPlane, Trouble};
use crate::jsonrpc::{RawObject, raw};
use crate::limits;
use crate::link::Outcome;
use crate::metrics::Metrics;

/// One check.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// What was checked.
    pub name: &'static str,
    /// Whether it is well.
    pub ok: bool,
    /// What was found; where it is not well, what to do.
    pub found: String,
}

fn check(name: &'static str, result: Result<String, String>) -> Check {
    Check {
        name,
        ok: result.is_ok(),
        found: result.unwrap_or_else(|error| error),
    }
}

/// Runs the checks; those that a failed one makes pointless are left out.
pub async fn checks(config: Result<Config, ConfigError>) -> Vec<Check> {
    let config = match config {
        Ok(config) => config,
        Err(error) => return vec![check("configuration", Err(error.to_string()))],
    };
    let summary = format!(
        "tunnel {} at {}",
        config.endpoint.tunnel_id, config.endpoint.base_url
    );
    vec![
        check("configuration", Ok(summary)),
        check("control plane", control_plane(&config).await),
        check("mcp server", mcp_server(&config).await),
    ]
}

async fn control_plane(config: &Config) -> Result<String, String> {
    let plane = ControlPlane::new(&config.endpoint).map_err(|e| e.to_string())?;
    match plane.metadata().await {
        Ok(record) => Ok(format!("it knows the tunnel as {:?}", record.name)),
        Err(error) => {
            let advice = match &error {
                Trouble::Network { .. } => {
                    "check the network, the proxy and the base URL; this is on this side"
                }
                Trouble::Status {
                    status: 401 | 403, ..
                } => "check the API key and its right to use the tunnel",
                Trouble::Status { status: 404, .. } => "check the tunnel's id",
                Trouble::Status {
                    status: 429 | 500..,
                    ..
                } => "the service is in trouble; try again later",
                _ => "check the base URL",
            };
            Err(format!("{error}; {advice}"))
        }
    }
}

/// Starts the server, asks it one thing and ends it.
async fn mcp_server(config: &Config) -> Result<String, String> {
    let spec = ChildSpec {
        argv: config.mcp_argv.clone(),
        hidden: config.hidden.clone(),
        max_line: config.max_line(),
    };
    let mut running = Running::spawn(&spec, Arc::new(Metrics::default()))
        .map_err(|e| format!("{e}; check mcp.command"))?;
    let mut request = RawObject::default();
    request.set("jsonrpc", raw(&"2.0"));
    request.set("id", raw(&0));
    request.set("method", raw(&"ping"));
    let link = Arc::clone(&running.link);
    let never = CancellationToken::new();
    let asked = link.request(request, None, &never);
    let found = tokio::select! {
        answer = tokio::time::timeout(Duration::from_secs(10), asked) => match answer {
            Ok(Ok(Outcome::Answer(_) | Outcome::TooLong(_))) => Ok("it answers".to_owned()),
            Ok(Err(_)) => Err("it ended"),
            Err(_) => Err("it did not answer a ping within 10 s"),
        },
        () = running.ended() => Err("it ended"),
    };
    let status = running.stop(limits::STOP_CHILD).await;
    found.map_err(|what| format!("{what} ({}); run its command by hand", describe(status)))
}
