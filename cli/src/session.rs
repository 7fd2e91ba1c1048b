//! One MCP session with a server of its own.

use crate::exit::Failure;
use crate::{Context, limits, output, programs};
use rmcp::model::{CallToolRequestParams, CallToolResult, ClientConfig, Implementation, Tool};
use rmcp::service::{RoleClient, RunningService, ServiceError, serve_client};
use rmcp::transport::TokioChildProcess;
use std::io::Write;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::{ChildStderr, Command};

/// The last part of what the server wrote to stderr.
type Tail = Arc<Mutex<Vec<u8>>>;

/// What the session's one piece of work gave.
type Answer<T> = Result<T, ServiceError>;

/// Calls one tool.
pub(crate) fn call(
    context: &Context,
    params: CallToolRequestParams,
    wait: Duration,
    verbose: bool,
) -> Result<CallToolResult, Failure> {
    with_server(context, wait, verbose, async |client| {
        client.call_tool(params).await
    })
}

/// Lists all tools.
pub(crate) fn tools(context: &Context) -> Result<Vec<Tool>, Failure> {
    with_server(context, limits::CONNECT, false, async |client| {
        client.list_all_tools().await
    })
}

/// Starts a server, does `work`, and ends the server whatever came of it.
fn with_server<T>(
    context: &Context,
    wait: Duration,
    verbose: bool,
    work: impl AsyncFnOnce(&RunningService<RoleClient, ClientConfig>) -> Answer<T>,
) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|cause| Failure::new("starting the client", cause.to_string()))?;
    runtime.block_on(async {
        let (mut client, tail) = connect(context, verbose).await?;
        let answer = tokio::select! {
            answer = tokio::time::timeout(wait, work(&client)) => {
                answer.map_err(|_| Failure::new("the call", format!("no answer within {} s", wait.as_secs()))
                    .hint("give it more time with --wait"))
            }
            _ = tokio::signal::ctrl_c() => {
                Err(Failure::new("the call", "it was interrupted"))
            }
        };
        // Closing its stdin lets the server end its children and finish the trail.
        let _ = client.close().await;
        answer?.map_err(|error| explain(&error, &tail))
    })
}

async fn connect(
    context: &Context,
    verbose: bool,
) -> Result<(RunningService<RoleClient, ClientConfig>, Tail), Failure> {
    let program = programs::MCP.find(&context.env).map_err(|why| {
        Failure::new("finding hands-mcp", why)
            .hint("build it, or set HANDS_MCP_BIN to its absolute path")
    })?;
    let mut command = Command::new(&program);
    command
        .arg("--standalone")
        .env("HANDS_HOME", context.home.root())
        .kill_on_drop(true);
    let what = || format!("starting {}", program.display());
    let (transport, stderr) = TokioChildProcess::builder(command)
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|cause| Failure::new(what(), cause.to_string()))?;
    let tail = Tail::default();
    let reader = stderr.map(|stderr| tokio::spawn(keep_tail(stderr, tail.clone(), verbose)));
    let mut me = ClientConfig::default();
    me.client_info = Implementation::new("handsctl", env!("CARGO_PKG_VERSION"));
    match tokio::time::timeout(limits::CONNECT, serve_client(me, transport)).await {
        Ok(Ok(client)) => Ok((client, tail)),
        Ok(Err(error)) => {
            // The reason for an early end is on stderr; it is complete when the server is gone.
            if let Some(reader) = reader {
                let _ = tokio::time::timeout(limits::VERSION, reader).await;
            }
            Err(Failure::new(what(), with_tail(&error.to_string(), &tail))
                .hint("`handsctl doctor` checks this machine"))
        }
        Err(_) => Err(Failure::new(
            what(),
            with_tail(
                &format!("no answer within {} s", limits::CONNECT.as_secs()),
                &tail,
            ),
        )),
    }
}

/// Reads the server's stderr to its end, so that it never blocks, and keeps the last part.
async fn keep_tail(mut stderr: ChildStderr, tail: Tail, verbose: bool) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        if verbose {
            let text = String::from_utf8_lossy(&buffer[..count]);
            let _ = write!(std::io::stderr(), "{}", output::harmless(&text));
        }
        let Ok(mut kept) = tail.lock() else { return };
        kept.extend_from_slice(&buffer[..count]);
        let surplus = kept.len().saturating_sub(limits::STDERR_TAIL);
        kept.drain(..surplus);
    }
}

/// The message with the server's last words, on one line.
fn with_tail(message: &str, tail: &Tail) -> String {
    let words = tail
        .lock()
        .map(|kept| String::from_utf8_lossy(&kept).trim().to_owned())
        .unwrap_or_default();
    match words.lines().next_back() {
        Some(last) => format!("{message}; it said: {last}"),
        None => message.to_owned(),
    }
}

fn explain(error: &ServiceError, tail: &Tail) -> Failure {
    match error {
        ServiceError::McpError(answer) => Failure::new(
            "the request",
            format!("{} (JSON-RPC error {})", answer.message, answer.code.0),
        )
        .hint("`handsctl tools` lists the tools"),
        other => Failure::new("the request", with_tail(&other.to_string(), tail))
            .hint("see `handsctl logs faults`"),
    }
}
