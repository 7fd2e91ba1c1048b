//! An MCP client over pipes that believes nothing: each line must be JSON-RPC, and none may be a
//! request to the client.

use super::{ANSWER, END, Place, SOON, none_left, program, search_path};
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How a server is started.
pub(crate) struct Start<'a> {
    place: &'a Place,
    env: Vec<(String, OsString)>,
    args: Vec<String>,
    program: Option<PathBuf>,
}

impl<'a> Start<'a> {
    pub(crate) fn new(place: &'a Place) -> Start<'a> {
        Start {
            place,
            env: vec![("HANDS_WORKSPACES".into(), place.workspace().into())],
            args: vec!["--standalone".into()],
            program: None,
        }
    }

    /// Starts this program instead of the one that was built.
    pub(crate) fn program(mut self, path: PathBuf) -> Start<'a> {
        self.program = Some(path);
        self
    }

    /// Sets a variable.
    pub(crate) fn env(mut self, name: &str, value: impl Into<OsString>) -> Start<'a> {
        self.env.retain(|(n, _)| n != name);
        self.env.push((name.into(), value.into()));
        self
    }

    /// Takes a variable away.
    pub(crate) fn without(mut self, name: &str) -> Start<'a> {
        self.env.retain(|(n, _)| n != name);
        self
    }

    /// Sets the workspaces.
    pub(crate) fn workspaces(self, folders: &[PathBuf]) -> Start<'a> {
        let joined = std::env::join_paths(folders).unwrap();
        self.env("HANDS_WORKSPACES", joined)
    }

    /// The command line.
    pub(crate) fn command(&self) -> Command {
        program("hands-runner");
        let built = || program("hands-mcp");
        let mut command = Command::new(self.program.clone().unwrap_or_else(built));
        command
            .args(&self.args)
            .env_clear()
            .env("PATH", search_path())
            .env("HOME", self.place.ann())
            .env("HANDS_HOME", self.place.home())
            .envs(self.env.iter().map(|(n, v)| (n, v)))
            .current_dir(self.place.root())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Starts it and sends nothing.
    pub(crate) fn spawn(&self) -> Server {
        Server::of(self.command(), self.place.root().to_path_buf())
    }

    /// Starts it and does the handshake.
    pub(crate) fn open(&self) -> Server {
        let mut server = self.spawn();
        server.initialize("2025-06-18");
        server.notify("notifications/initialized", json!({}));
        server
    }
}

/// A running server. Killed when dropped.
pub(crate) struct Server {
    child: Child,
    root: PathBuf,
    input: Option<Sender<Vec<u8>>>,
    lines: Option<Receiver<Vec<u8>>>,
    /// Messages that came and were not asked for yet.
    pending: VecDeque<Value>,
    answers: HashMap<String, usize>,
    stderr: Arc<Mutex<String>>,
    stderr_reader: Option<std::thread::JoinHandle<()>>,
    next_id: u64,
}

impl Server {
    fn of(mut command: Command, root: PathBuf) -> Server {
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let stdout = child.stdout.take().unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let (input, to_write) = channel::<Vec<u8>>();
        std::thread::spawn(move || {
            for bytes in to_write {
                // A server that is gone is seen by its exit.
                if stdin
                    .write_all(&bytes)
                    .and_then(|()| stdin.flush())
                    .is_err()
                {
                    return;
                }
            }
        });
        let (to_read, lines) = channel();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(stdout);
            loop {
                let mut line = Vec::new();
                match reader.read_until(b'\n', &mut line) {
                    Ok(1..) if to_read.send(line).is_ok() => {}
                    _ => return,
                }
            }
        });
        let said = Arc::<Mutex<String>>::default();
        let hear = Arc::clone(&said);
        let stderr_reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = stderr.read(&mut buffer) {
                hear.lock()
                    .unwrap()
                    .push_str(&String::from_utf8_lossy(&buffer[..n]));
            }
        });
        Server {
            child,
            root,
            input: Some(input),
            lines: Some(lines),
            pending: VecDeque::new(),
            answers: HashMap::new(),
            stderr: said,
            stderr_reader: Some(stderr_reader),
            next_id: 1000,
        }
    }

    /// The process's number.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it said on standard error so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Sends bytes as they are.
    pub(crate) fn raw(&self, bytes: impl Into<Vec<u8>>) {
        let input = self.input.as_ref().expect("the input is closed");
        // A writer that is gone has met a closed pipe; the exit tells.
        let _ = input.send(bytes.into());
    }

    /// Sends one message.
    pub(crate) fn send(&self, message: &Value) {
        self.raw(format!("{message}\n"));
    }

    /// Sends a notification.
    pub(crate) fn notify(&self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// An id that was not used before.
    pub(crate) fn fresh_id(&mut self) -> Value {
        self.next_id += 1;
        json!(self.next_id)
    }

    /// Sends a request and waits for its whole answer.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.fresh_id();
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        self.answer(&id)
    }

    /// The handshake's first half; the result.
    pub(crate) fn initialize(&mut self, version: &str) -> Value {
        let answer = self.request(
            "initialize",
            json!({
                "protocolVersion": version,
                "capabilities": {},
                "clientInfo": {"name": "test-client", "version": "1.2.3"},
            }),
        );
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    /// Sends a call and does not wait.
    pub(crate) fn start_call(&mut self, tool: &str, args: Value) -> Value {
        let id = self.fresh_id();
        self.start_call_as(&id, tool, args);
        id
    }

    /// Sends a call under this id and does not wait.
    pub(crate) fn start_call_as(&self, id: &Value, tool: &str, args: Value) {
        self.send(&json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": tool, "arguments": args},
        }));
    }

    /// Calls a tool.
    pub(crate) fn call(&mut self, tool: &str, args: Value) -> Reply {
        let id = self.start_call(tool, args);
        self.reply(&id)
    }

    /// Calls `bash`.
    pub(crate) fn bash(&mut self, command: &str) -> Reply {
        self.call("bash", json!({"command": command}))
    }

    /// Calls a tool and, where it asks for permission, says yes.
    pub(crate) fn call_granted(&mut self, tool: &str, args: Value) -> Reply {
        let first = self.call(tool, args.clone());
        if first.code() != "permission_required" {
            return first;
        }
        let mut args = args;
        args["nonce"] = first.field("nonce").clone();
        self.call(tool, args)
    }

    /// Waits for a call's result.
    pub(crate) fn reply(&mut self, id: &Value) -> Reply {
        Reply::of(self.answer(id))
    }

    /// Waits for the answer with this id.
    pub(crate) fn answer(&mut self, id: &Value) -> Value {
        self.wait(&format!("an answer to {id}"), ANSWER, |message| {
            message.get("method").is_none() && message.get("id") == Some(id)
        })
    }

    /// Waits for an answer that has no id of ours: `id` null or none.
    pub(crate) fn answer_without_id(&mut self) -> Value {
        self.wait("an answer without an id", ANSWER, |message| {
            message.get("method").is_none() && message.get("id").is_none_or(Value::is_null)
        })
    }

    /// Waits for any message.
    pub(crate) fn next(&mut self) -> Value {
        self.wait("any message", ANSWER, |_| true)
    }

    /// Waits for a message; others stay for later.
    pub(crate) fn wait(
        &mut self,
        what: &str,
        within: Duration,
        is_it: impl Fn(&Value) -> bool,
    ) -> Value {
        let deadline = Instant::now() + within;
        loop {
            if let Some(at) = self.pending.iter().position(&is_it) {
                return self.pending.remove(at).unwrap();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if !self.pull(left) {
                self.give_up(what);
            }
        }
    }

    /// Fails the test; when the server has hung up, with how it ended.
    fn give_up(&mut self, what: &str) -> ! {
        let mut exit = None;
        for _ in 0..200 {
            exit = self.child.try_wait().unwrap();
            if exit.is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("no {what}; exit {exit:?}; stderr:\n{}", self.stderr());
    }

    /// Whether a message has come already or comes within `within`.
    pub(crate) fn comes(&mut self, within: Duration, is_it: impl Fn(&Value) -> bool) -> bool {
        let deadline = Instant::now() + within;
        loop {
            if self.pending.iter().any(&is_it) {
                return true;
            }
            if !self.pull(deadline.saturating_duration_since(Instant::now())) {
                return false;
            }
        }
    }

    /// How often this id was answered so far.
    pub(crate) fn times_answered(&self, id: &Value) -> usize {
        self.answers.get(&id.to_string()).copied().unwrap_or(0)
    }

    /// Takes one line in; false when there is none in time.
    fn pull(&mut self, within: Duration) -> bool {
        let lines = self.lines.as_ref().expect("the output is closed");
        let Ok(line) = lines.recv_timeout(within) else {
            return false;
        };
        self.take(&line);
        true
    }

    fn take(&mut self, line: &[u8]) {
        let shown = String::from_utf8_lossy(line);
        assert_eq!(line.last(), Some(&b'\n'), "half a line: {shown}");
        let message: Value = serde_json::from_slice(line)
            .unwrap_or_else(|e| panic!("stdout holds something else than JSON ({e}): {shown}"));
        let parts = match &message {
            Value::Array(parts) => parts.clone(),
            one => vec![one.clone()],
        };
        for part in &parts {
            assert_eq!(part["jsonrpc"], "2.0", "no JSON-RPC: {shown}");
            let asks = part.get("method").is_some() && part.get("id").is_some();
            assert!(!asks, "a request to the client: {shown}");
            if let Some(id) = part.get("id") {
                *self.answers.entry(id.to_string()).or_default() += 1;
            }
        }
        self.pending.push_back(message);
    }

    /// Closes its standard input.
    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    /// Stops reading its standard output, as a client that is gone.
    pub(crate) fn forget_output(&mut self) {
        self.lines = None;
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.pid()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Whether it has exited.
    pub(crate) fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Hangs up while another server goes on in the same place: only its own exit is looked at.
    pub(crate) fn end_beside(mut self, _other: &Server) {
        self.close_input();
        let (status, _) = self.exit(END);
        assert_eq!(status.code(), Some(0), "stderr:\n{}", self.stderr());
    }

    /// Kills it as the system does when memory runs out, and waits for it and its children.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        none_left(&self.root);
    }

    /// Waits for its exit.
    pub(crate) fn exit(&mut self, within: Duration) -> (ExitStatus, Duration) {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status, began.elapsed());
            }
            assert!(
                began.elapsed() < within,
                "no exit within {within:?}; stderr:\n{}",
                self.stderr()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Hangs up. It must exit with 0 in time, with every child gone.
    pub(crate) fn end(mut self) -> Ended {
        self.close_input();
        self.ended()
    }

    /// Waits for an exit with 0 in time, with every child gone.
    pub(crate) fn ended(mut self) -> Ended {
        let ended = self.exited(END);
        assert_eq!(ended.status.code(), Some(0), "stderr:\n{}", ended.stderr);
        ended
    }

    /// Waits for its exit with whatever code, and for its children's.
    pub(crate) fn exited(&mut self, within: Duration) -> Ended {
        let (status, _) = self.exit(within);
        none_left(&self.root);
        if self.lines.is_some() {
            while self.pull(SOON) {}
        }
        if let Some(reader) = self.stderr_reader.take() {
            reader.join().unwrap();
        }
        Ended {
            status,
            messages: self.pending.drain(..).collect(),
            stderr: self.stderr(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that is over.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// Messages that nobody asked for.
    pub(crate) messages: Vec<Value>,
    pub(crate) stderr: String,
}

/// A tool's result.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    result: Value,
}

impl Reply {
    fn of(message: Value) -> Reply {
        let result = message.get("result");
        let result = result.unwrap_or_else(|| panic!("no result: {message}"));
        let reply = Reply {
            result: result.clone(),
        };
        let is_error = !matches!(reply.code(), "ok" | "process");
        assert_eq!(result["isError"].as_bool(), Some(is_error), "{result}");
        assert_eq!(reply.field("ok"), &json!(reply.code() == "ok"), "{result}");
        assert!(reply.field("turn_id").is_string(), "{result}");
        if reply.code() != "ok" {
            let begins = format!("[{}] ", reply.code());
            assert!(reply.text().starts_with(&begins), "{}", reply.text());
        }
        reply
    }

    /// What a model reads.
    pub(crate) fn text(&self) -> &str {
        self.result["content"][0]["text"].as_str().unwrap()
    }

    /// The result's structured content.
    pub(crate) fn data(&self) -> &Value {
        &self.result["structuredContent"]
    }

    /// The content blocks.
    pub(crate) fn content(&self) -> &Vec<Value> {
        self.result["content"].as_array().unwrap()
    }

    /// A field of the structured content.
    pub(crate) fn field(&self, name: &str) -> &Value {
        &self.data()[name]
    }

    /// A field that is a string.
    pub(crate) fn string(&self, name: &str) -> &str {
        let field = self.field(name).as_str();
        field.unwrap_or_else(|| panic!("no `{name}`: {}", self.result))
    }

    /// A field that is a path.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(self.string(name))
    }

    /// The diagnostic code.
    pub(crate) fn code(&self) -> &str {
        self.string_or_empty("code")
    }

    fn string_or_empty(&self, name: &str) -> &str {
        self.field(name).as_str().unwrap_or_default()
    }

    /// What a command printed.
    pub(crate) fn stdout(&self) -> &str {
        self.string("stdout")
    }

    /// Must have this code.
    pub(crate) fn expect(self, code: &str) -> Reply {
        assert_eq!(self.code(), code, "{:#}", self.result);
        self
    }

    /// Must have one of these codes.
    pub(crate) fn expect_one_of(self, codes: &[&str]) -> Reply {
        assert!(codes.contains(&self.code()), "{codes:?} {:#}", self.result);
        self
    }

    /// Must have worked.
    pub(crate) fn ok(self) -> Reply {
        self.expect("ok")
    }

    /// Must be a failure.
    pub(crate) fn failed(self) -> Reply {
        assert_ne!(self.code(), "ok", "{:#}", self.result);
        self
    }
}
