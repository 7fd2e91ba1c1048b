//! An MCP server over stdio, of the standard library and a JSON parser, that can be told to
//! misbehave. Its tools are its script; its arguments set how it starts:
//!
//! - `--strict`: answers calls before `initialize` with an error, as strict servers do
//! - `--no-discover`: answers `server/discover` with -32601
//! - `--garbage`: prints lines that are no JSON before the first answer
//! - `--die`: ends at once with code 3
//! - `--starts FILE`: adds a line to FILE at each start
//! - `--deaf`: reads nothing and answers nothing
//! - `--unhurried`: stays when its input ends (to test stopping)

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test double; its standard output is its protocol"
)]

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use serde_json::{Value, json};

#[derive(Default)]
struct Server {
    strict: bool,
    no_discover: bool,
    initialized: AtomicBool,
    /// Methods in the order they came.
    seen: Mutex<Vec<String>>,
    cancelled: Mutex<Vec<Value>>,
    /// Requests to the client that wait for their answers.
    asked: Mutex<HashMap<String, mpsc::Sender<Value>>>,
    asked_so_far: AtomicU64,
    deaf: AtomicBool,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    if let Some(at) = args.iter().position(|arg| arg == "--starts") {
        let mut options = std::fs::OpenOptions::new();
        let file = options.append(true).create(true).open(&args[at + 1]);
        writeln!(file.unwrap(), "{}", std::process::id()).unwrap();
    }
    if has("--die") {
        std::process::exit(3);
    }
    if has("--garbage") {
        println!("npm warn something\n\n{{not json\n[1,2]\n\"text\"");
    }
    if has("--deaf") {
        loop {
            std::thread::park();
        }
    }
    let server = Arc::new(Server {
        strict: has("--strict"),
        no_discover: has("--no-discover"),
        ..Server::default()
    });
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let message: Value = serde_json::from_str(&line).expect("a message is JSON");
        if server.deaf.load(Ordering::Relaxed) {
            continue;
        }
        let server = Arc::clone(&server);
        // A thread for each message, so that a slow one holds nobody up; notifications and the
        // handshake are taken in order.
        if message.get("id").is_none() || message["method"] == "initialize" {
            server.handle(message);
        } else {
            std::thread::spawn(move || server.handle(message));
        }
    }
    if has("--unhurried") {
        loop {
            std::thread::park();
        }
    }
}

fn send(message: &Value) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{message}").expect("the client reads");
    out.flush().expect("the client reads");
}

fn reply(id: &Value, result: Value) {
    send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
}

fn refuse(id: &Value, code: i64, message: &str) {
    let error = json!({"code": code, "message": message});
    send(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
}

fn text(text: impl Into<String>) -> Value {
    json!({"content": [{"type": "text", "text": text.into()}]})
}

impl Server {
    fn handle(&self, message: Value) {
        let Some(method) = message["method"].as_str() else {
            self.take_answer(&message);
            return;
        };
        self.seen.lock().unwrap().push(method.to_owned());
        let params = &message["params"];
        let Some(id) = message.get("id") else {
            if method == "notifications/cancelled" {
                self.cancelled
                    .lock()
                    .unwrap()
                    .push(params["requestId"].clone());
            }
            return;
        };
        match method {
            "initialize" => {
                self.initialized.store(true, Ordering::Relaxed);
                let version = params["protocolVersion"].clone();
                let info = json!({"name": "mcp-echo", "version": "1"});
                reply(
                    id,
                    json!({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}),
                );
            }
            "ping" => reply(id, json!({})),
            "server/discover" if !self.no_discover => {
                reply(
                    id,
                    json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}),
                );
            }
            _ if self.strict && !self.initialized.load(Ordering::Relaxed) => {
                refuse(id, -32602, "not initialized");
            }
            "tools/list" => reply(
                id,
                json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
            ),
            "tools/call" => self.call(id, params),
            _ => refuse(id, -32601, "no such method"),
        }
    }

    fn take_answer(&self, message: &Value) {
        let key = message["id"].to_string();
        if let Some(waiting) = self.asked.lock().unwrap().remove(&key) {
            let _ = waiting.send(message.clone());
        }
    }

    /// Sends a request to the client and waits for its answer.
    fn ask(&self, method: &str) -> Value {
        let number = self.asked_so_far.fetch_add(1, Ordering::Relaxed);
        let id = json!(format!("ask-{number}"));
        let (sender, receiver) = mpsc::channel();
        self.asked.lock().unwrap().insert(id.to_string(), sender);
        send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {}}));
        receiver
            .recv_timeout(Duration::from_secs(5))
            .unwrap_or(Value::Null)
    }

    fn call(&self, id: &Value, params: &Value) {
        let args = &params["arguments"];
        let number = |name: &str, default: u64| args[name].as_u64().unwrap_or(default);
        let pause = || std::thread::sleep(Duration::from_millis(number("ms", 0)));
        match params["name"].as_str().unwrap_or_default() {
            "echo" => {
                pause();
                reply(id, text(args["text"].as_str().unwrap_or_default()));
            }
            "raw" => {
                // The result as the caller wrote it, byte for byte.
                let raw = args["raw"].as_str().unwrap_or("null");
                println!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{raw}}}");
            }
            "progress" => {
                let token = &params["_meta"]["progressToken"];
                for step in 1..=number("steps", 3) {
                    let params = json!({"progressToken": token, "progress": step, "total": 3});
                    send(
                        &json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}),
                    );
                    pause();
                }
                reply(id, text("done"));
            }
            "fail" => refuse(id, -32003, "a capability is missing"),
            "big" => {
                let filler = "x".repeat(number("bytes", 0) as usize);
                if args["id_last"] == json!(true) {
                    println!(
                        "{{\"jsonrpc\":\"2.0\",\"result\":{},\"id\":{id}}}",
                        text(filler)
                    );
                } else {
                    reply(id, text(filler));
                }
            }
            "silent" => {}
            "deaf" => self.deaf.store(true, Ordering::Relaxed),
            "crash" => {
                pause();
                std::process::abort();
            }
            "exit" => std::process::exit(number("code", 0) as i32),
            "garbage" => {
                println!("\u{7}warning: this is not JSON\n{{\"half\": ");
                reply(id, text("after garbage"));
            }
            "ask" => {
                let answer = self.ask(args["method"].as_str().unwrap_or("sampling/createMessage"));
                reply(id, text(answer.to_string()));
            }
            "twice" => {
                reply(id, text("first"));
                reply(id, text("second"));
            }
            "stray" => {
                reply(&json!(987_654_321), text("nobody asked"));
                reply(&json!("a string nobody used"), text("nobody asked"));
                reply(id, text("after a stray"));
            }
            "env" => {
                let name = args["name"].as_str().unwrap_or_default();
                reply(id, text(std::env::var(name).unwrap_or_default()));
            }
            "environment" => {
                let all: Vec<String> = std::env::vars().map(|(k, v)| format!("{k}={v}")).collect();
                reply(id, text(all.join("\n")));
            }
            "pid" => reply(id, text(std::process::id().to_string())),
            "seen" => reply(id, text(self.seen.lock().unwrap().join(" "))),
            "cancelled" => reply(id, text(json!(*self.cancelled.lock().unwrap()).to_string())),
            "my_id" => reply(id, text(id.to_string())),
            other => refuse(id, -32602, &format!("no tool {other}")),
        }
    }
}
