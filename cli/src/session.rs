//! One MCP session, through a `hands-mcp` of its own: it relays to the daemon's server where the daemon runs, and is the
//! server itself otherwise, as for any client.
//!
//! It is a child of ours, not of the transport's: a transport that is dropped kills its child, and with it the
//! reason for which the child was about to give up.

use crate::exit::Failure;
use crate::{Context, limits, output, programs};
use rmcp::model::{CallToolRequestParams, CallToolResult, ClientConfig, Implementation, Tool};
use rmcp::service::{
    ClientInitializeError, RoleClient, RunningService, ServiceError, serve_client,
};
use std::io::Write;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, Command};
use tokio::task::JoinHandle;

/// The last part of what the server wrote to stderr.
type Tail = Arc<Mutex<Vec<u8>>>;

/// What the session's one piece of work gave.
type Answer<T> = Result<T, ServiceError>;

/// Which server is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    /// The daemon's where it runs, else one of its own.
    Any,
    /// One of its own.
    Own,
}

impl Server {
    /// By the flag `--standalone`.
    pub(crate) fn wanted(standalone: bool) -> Server {
        match standalone {
            true => Server::Own,
            false => Server::Any,
        }
    }
}

/// Calls one tool.
pub(crate) fn call(
    context: &Context,
    server: Server,
    params: CallToolRequestParams,
    wait: Duration,
    verbose: bool,
) -> Result<CallToolResult, Failure> {
    with_server(context, server, wait, verbose, async |client| {
        client.call_tool(params).await
    })
}

/// Lists all tools.
pub(crate) fn tools(context: &Context, server: Server) -> Result<Vec<Tool>, Failure> {
    with_server(context, server, limits::CONNECT, false, async |client| {
        client.list_all_tools().await
    })
}

/// Starts a server, does `work`, and ends the server whatever came of it.
fn with_server<T>(
    context: &Context,
    wanted: Server,
    wait: Duration,
    verbose: bool,
    work: impl AsyncFnOnce(&RunningService<RoleClient, ClientConfig>) -> Answer<T>,
) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|cause| Failure::new("starting the client", cause.to_string()))?;
    runtime.block_on(async {
        let (mut client, mut server) = connect(context, wanted, verbose).await?;
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
        drop(client);
        server.end().await;
        let failed = matches!(answer, Ok(Err(_)));
        let status = if failed || verbose {
            server.last_words().await
        } else {
            None
        };
        answer?.map_err(|error| explain(&error, &server, status))
    })
}

async fn connect(
    context: &Context,
    wanted: Server,
    verbose: bool,
) -> Result<(RunningService<RoleClient, ClientConfig>, Process), Failure> {
    let program = programs::MCP
        .find(&context.env)
        .map_err(|unusable| Failure::new("finding hands-mcp", unusable.why).hint(unusable.mend))?;
    let what = || format!("starting {}", program.display());
    let standalone = (wanted == Server::Own).then_some("--standalone");
    let mut child = Command::new(&program)
        .args(standalone)
        .env("HANDS_HOME", context.home.root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|cause| Failure::new(what(), cause.to_string()))?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Failure::new(what(), "it has no pipes"));
    };
    let mut server = Process::new(child, verbose);
    let mut me = ClientConfig::default();
    me.client_info = Implementation::new("handsctl", env!("CARGO_PKG_VERSION"));
    // A failed start drops the pipes, and the server sees the end of its input.
    match tokio::time::timeout(limits::CONNECT, serve_client(me, (stdout, stdin))).await {
        Ok(Ok(client)) => Ok((client, server)),
        Ok(Err(error)) => {
            let status = server.last_words().await;
            let hung_up = matches!(
                error,
                ClientInitializeError::ConnectionClosed(_)
                    | ClientInitializeError::TransportError { .. }
            );
            let why = if hung_up {
                ended(status)
            } else {
                error.to_string()
            };
            Err(Failure::new(what(), server.with_tail(&why))
                .hint("`handsctl doctor` checks this machine"))
        }
        Err(_) => {
            let why = format!("no answer within {} s", limits::CONNECT.as_secs());
            server.last_words().await;
            Err(Failure::new(what(), server.with_tail(&why)))
        }
    }
}

/// The server's process. Dropping it kills what still runs.
struct Process {
    child: Child,
    tail: Tail,
    reader: Option<JoinHandle<()>>,
}

impl Process {
    fn new(mut child: Child, verbose: bool) -> Process {
        let tail = Tail::default();
        let stderr = child.stderr.take();
        let reader = stderr.map(|stderr| tokio::spawn(keep_tail(stderr, tail.clone(), verbose)));
        Process {
            child,
            tail,
            reader,
        }
    }

    /// Waits a moment for all of its stderr and for its end.
    async fn last_words(&mut self) -> Option<ExitStatus> {
        let Process { child, reader, .. } = self;
        let both = async {
            let status = child.wait().await.ok();
            if let Some(reader) = reader.as_mut() {
                let _ = reader.await;
            }
            status
        };
        let whole = tokio::time::timeout(limits::LAST_WORDS, both).await;
        self.reader = None;
        // Its end may be known even if something else still holds its stderr open.
        whole
            .ok()
            .flatten()
            .or_else(|| self.child.try_wait().ok().flatten())
    }

    /// Lets it end after its input was closed; asks and then forces it if it does not.
    async fn end(&mut self) {
        let closed = tokio::time::timeout(limits::SERVER_END, self.child.wait()).await;
        if closed.is_ok() {
            return;
        }
        let id = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(pid) = id.and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = tokio::time::timeout(limits::SERVER_END, self.child.wait()).await;
    }

    /// The message with the last line of the server's stderr.
    fn with_tail(&self, message: &str) -> String {
        let words = self
            .tail
            .lock()
            .map(|kept| String::from_utf8_lossy(&kept).trim().to_owned())
            .unwrap_or_default();
        match words.lines().next_back() {
            Some(last) => format!("{message}; it said: {last}"),
            None => message.to_owned(),
        }
    }
}

/// What happened when the server hung up; whether that shows as an end of its output or as a broken pipe is chance.
fn ended(status: Option<ExitStatus>) -> String {
    match status {
        Some(status) => format!("it ended without an answer ({status})"),
        None => "it hung up without an answer".to_owned(),
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

fn explain(error: &ServiceError, server: &Process, status: Option<ExitStatus>) -> Failure {
    match error {
        ServiceError::McpError(answer) => Failure::new(
            "the request",
            format!("{} (JSON-RPC error {})", answer.message, answer.code.0),
        )
        .hint("`handsctl tools` lists the tools"),
        other => {
            let hung_up = matches!(
                other,
                ServiceError::TransportClosed | ServiceError::TransportSend(_)
            );
            let why = if hung_up {
                ended(status)
            } else {
                other.to_string()
            };
            Failure::new("the request", server.with_tail(&why)).hint("see `handsctl logs faults`")
        }
    }
}
