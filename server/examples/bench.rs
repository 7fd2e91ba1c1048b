//! Measures the programs as a client sees them and prints a table. Asserts nothing about time:
//! `scripts/bench` builds and runs it.
//!
//! `bench PROGRAMS FOLDER`: the folder that holds `hands-mcp` and `hands-runner`, and an empty
//! folder outside `/tmp` for the home and the workspace.
#![allow(clippy::print_stdout, reason = "its output is a table on stdout")]

use hands_config::{Config, Home};
use hands_sandbox::Request;
use hands_server::confinement::Confinement;
use hands_server::hub::Hub;
use serde_json::{Value, json};
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const STARTS: usize = 20;
const READS: usize = 2000;
const PAGES: usize = 40;
const COMMANDS: usize = 50;
const CONCURRENT: usize = 200;
const SLEEPERS: usize = 10;

fn main() -> Result<()> {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(programs), Some(folder)) = (args.next(), args.next()) else {
        return Err("usage: bench PROGRAMS FOLDER".into());
    };
    let bench = Bench::new(programs.canonicalize()?, folder.canonicalize()?)?;
    println!("{:<52} {:>12}   target", "figure", "measured");
    bench.start()?;
    let mut server = bench.serve()?;
    bench.idle_memory(&server)?;
    bench.list(&mut server)?;
    bench.small_reads(&mut server)?;
    bench.pages(&mut server)?;
    bench.commands(&mut server)?;
    bench.concurrent_reads(&mut server)?;
    bench.pings_beside_commands(&mut server)?;
    server.close()
}

/// A line of the table.
fn row(figure: &str, measured: String, target: &str) {
    println!("{figure:<52} {measured:>12}   {target}");
}

fn ms(duration: Duration) -> String {
    format!("{:.2} ms", duration.as_secs_f64() * 1e3)
}

/// The value below which `percent` of the samples lie.
fn percentile(samples: &mut [Duration], percent: usize) -> Duration {
    samples.sort_unstable();
    let at = (samples.len() * percent / 100).min(samples.len().saturating_sub(1));
    samples.get(at).copied().unwrap_or_default()
}

fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<Duration> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed())
}

/// The place everything is measured in.
struct Bench {
    programs: PathBuf,
    home: PathBuf,
    workspace: PathBuf,
}

impl Bench {
    fn new(programs: PathBuf, folder: PathBuf) -> Result<Self> {
        let (home, workspace) = (folder.join("home"), folder.join("workspace"));
        std::fs::create_dir(&workspace)?;
        std::fs::write(
            workspace.join("small.txt"),
            "thirty-two bytes are in here ..\n",
        )?;
        let lines: String = (1..=20_000)
            .map(|n| format!("line {n} of a text of ordinary length\n"))
            .collect();
        for n in 0..PAGES {
            std::fs::write(workspace.join(format!("long-{n}.txt")), &lines)?;
        }
        Ok(Self {
            programs,
            home,
            workspace,
        })
    }

    /// A server that has answered `initialize`.
    fn serve(&self) -> Result<Server> {
        let mut child = Command::new(self.programs.join("hands-mcp"))
            .arg("--standalone")
            .env("HANDS_HOME", &self.home)
            .env("HANDS_WORKSPACES", &self.workspace)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("hands-mcp has no pipes".into());
        };
        let mut server = Server {
            child,
            input,
            output: BufReader::new(output),
            last_id: 0,
        };
        server.ask(
            "initialize",
            json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "bench", "version": "1"},
            }),
        )?;
        Ok(server)
    }

    fn start(&self) -> Result<()> {
        self.serve()?.close()?; // makes the home
        let mut samples = Vec::new();
        for _ in 0..STARTS {
            let begun = Instant::now();
            let server = self.serve()?;
            samples.push(begun.elapsed());
            server.close()?;
        }
        let figure = format!("start to the initialize answer, p50 of {STARTS}");
        row(&figure, ms(percentile(&mut samples, 50)), "<= 20 ms");
        Ok(())
    }

    fn idle_memory(&self, server: &Server) -> Result<()> {
        std::thread::sleep(Duration::from_secs(1));
        let kib = resident_kib(server.child.id())?;
        let measured = format!("{:.1} MiB", kib as f64 / 1024.0);
        row("resident memory 1 s after the start", measured, "<= 12 MiB");
        Ok(())
    }

    fn list(&self, server: &mut Server) -> Result<()> {
        let bytes = server.ask("tools/list", json!({}))?.to_string().len();
        row("tools/list, four tools", format!("{bytes} B"), "<= 12000 B");
        Ok(())
    }

    fn small_reads(&self, server: &mut Server) -> Result<()> {
        let mut samples = Vec::new();
        for _ in 0..READS {
            samples.push(timed(|| {
                server.call("read_file", json!({"path": "small.txt"}))
            })?);
        }
        let figure = format!("read_file of 32 bytes, p50 of {READS}");
        row(&figure, ms(percentile(&mut samples, 50)), "<= 0.3 ms");
        Ok(())
    }

    /// The first read of a file analyses all of it; later ones use what is known.
    fn pages(&self, server: &mut Server) -> Result<()> {
        // What was changed just now is analysed anew each time.
        std::thread::sleep(hands_server::limits::ANALYSIS_SETTLED + Duration::from_millis(200));
        let mut page = |n: usize| {
            let path = format!("long-{n}.txt");
            let wish = json!({"path": path, "offset": 10_000, "limit": 1000});
            timed(|| server.call("read_file", wish))
        };
        for (what, target) in [("first", "<= 1 ms"), ("repeated", "<= 1 ms")] {
            let mut samples = (0..PAGES).map(&mut page).collect::<Result<Vec<_>>>()?;
            let figure = format!("read_file, 1,000 of 20,000 lines, {what}, p50 of {PAGES}");
            row(&figure, ms(percentile(&mut samples, 50)), target);
        }
        Ok(())
    }

    /// A command by the server against the same command by the sandbox alone, in turns.
    fn commands(&self, server: &mut Server) -> Result<()> {
        let request = self.bare_request()?;
        let (mut whole, mut bare, mut bubblewrap) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..COMMANDS {
            whole.push(timed(|| {
                server.call("bash", json!({"command": "echo hello"}))
            })?);
            bare.push(timed(|| self.bare(&request))?);
            if cfg!(target_os = "linux") {
                bubblewrap.push(timed(plain_bubblewrap)?);
            }
        }
        let (whole, bare) = (percentile(&mut whole, 50), percentile(&mut bare, 50));
        let figure = format!("bash echo, p50 of {COMMANDS}");
        row(&figure, ms(whole), "");
        row(
            "  the same request to hands-runner alone, p50",
            ms(bare),
            "",
        );
        if !bubblewrap.is_empty() {
            let plain = ms(percentile(&mut bubblewrap, 50));
            row("  bwrap with nothing but bash in it, p50", plain, "");
        }
        let ratio = whole.as_secs_f64() / bare.as_secs_f64().max(f64::EPSILON);
        row(
            "  bash against the bare sandbox",
            format!("{ratio:.2} x"),
            "<= 1.5 x",
        );
        Ok(())
    }

    /// The request that the server makes of `echo hello`, from the server's own code.
    fn bare_request(&self) -> Result<String> {
        let user_home = std::env::home_dir().ok_or("HOME is not set")?;
        let home = Home::at(&self.home);
        let tmp = home.scratch_dir().join("bench");
        std::fs::create_dir_all(&tmp)?;
        let config = Config {
            workspaces: vec![self.workspace.clone()],
            ..Config::default()
        };
        let keep = usize::try_from(config.limits.output_bytes)?;
        let hub = Hub::open(home, config.clone(), user_home)?;
        let confinement = Confinement::new(&hub, "s-bench", tmp.clone());
        let argv = ["/bin/bash", "-c", "echo hello"].map(String::from).to_vec();
        let plan = confinement
            .plan("bench", argv, self.workspace.clone(), &[], None, None)
            .map_err(|outcome| outcome.shown())?;
        let request = Request {
            plan,
            stdin: None,
            timeout_ms: 45_000,
            grace_ms: config.limits.kill_grace_ms,
            head_bytes: keep / 3,
            tail_bytes: keep - keep / 3,
            spill: Some(tmp.join("spill")),
            spill_max_bytes: config.limits.spill_bytes,
            progress: false,
        };
        Ok(serde_json::to_string(&request)? + "\n")
    }

    fn bare(&self, request: &str) -> Result<()> {
        let mut child = Command::new(self.programs.join("hands-runner"))
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut input = child.stdin.take().ok_or("hands-runner has no input")?;
        input.write_all(request.as_bytes())?;
        // Its standard input stays open: the end of it would end the command.
        let said = {
            let output = child.stdout.take().ok_or("hands-runner has no output")?;
            let mut line = String::new();
            BufReader::new(output).read_line(&mut line)?;
            line
        };
        drop(input);
        child.wait()?;
        match said.contains("\"exit\":0") {
            true => Ok(()),
            false => Err(format!("hands-runner answered {said}").into()),
        }
    }

    fn concurrent_reads(&self, server: &mut Server) -> Result<()> {
        let took = timed(|| {
            let wish = json!({"name": "read_file", "arguments": {"path": "small.txt"}});
            for _ in 0..CONCURRENT {
                server.send("tools/call", &wish)?;
            }
            for _ in 0..CONCURRENT {
                server.next()?;
            }
            Ok(())
        })?;
        let figure = format!("{CONCURRENT} concurrent read_file calls, all of them");
        row(&figure, ms(took), "");
        Ok(())
    }

    fn pings_beside_commands(&self, server: &mut Server) -> Result<()> {
        let wish = json!({"name": "bash", "arguments": {"command": "sleep 5"}});
        let first = server.last_id + 1;
        for _ in 0..SLEEPERS {
            server.send("tools/call", &wish)?;
        }
        let sleepers = first..=server.last_id;
        let until = Instant::now() + Duration::from_secs(4);
        let (mut samples, mut ended) = (Vec::new(), 0);
        while Instant::now() < until {
            let begun = Instant::now();
            let id = server.send("ping", &json!({}))?;
            while server.next()?.0 != id {
                ended += 1;
            }
            samples.push(begun.elapsed());
            std::thread::sleep(Duration::from_millis(5));
        }
        if ended > 0 {
            return Err(format!("{ended} of the sleeping commands ended too early").into());
        }
        for _ in sleepers {
            server.next()?;
        }
        let figure = format!(
            "ping while {SLEEPERS} sleep 5 run, p99 of {}",
            samples.len()
        );
        row(&figure, ms(percentile(&mut samples, 99)), "<= 50 ms");
        Ok(())
    }
}

fn plain_bubblewrap() -> Result<()> {
    let ended = Command::new("bwrap")
        .args(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"])
        .args(["--unshare-pid", "bash", "-c", "echo hello"])
        .stdout(Stdio::null())
        .status()?;
    match ended.success() {
        true => Ok(()),
        false => Err(format!("bwrap: {ended}").into()),
    }
}

/// Resident memory of a process, KiB.
fn resident_kib(pid: u32) -> Result<u64> {
    let asked = Command::new("ps")
        .args(["-o", "rss=", "-p", &pid.to_string()])
        .output()?;
    Ok(String::from_utf8_lossy(&asked.stdout).trim().parse()?)
}

/// A client of one server, over pipes.
struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    last_id: u64,
}

impl Server {
    /// Sends a request; its id.
    fn send(&mut self, method: &str, params: &Value) -> Result<u64> {
        self.last_id += 1;
        let id = self.last_id;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(self.input, "{message}")?;
        Ok(id)
    }

    /// The next answer: its id and result.
    fn next(&mut self) -> Result<(u64, Value)> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err("hands-mcp ended".into());
        }
        let mut answer: Value = serde_json::from_str(&line)?;
        match (answer["id"].as_u64(), answer["result"].take()) {
            (Some(id), result) if !result.is_null() => Ok((id, result)),
            _ => Err(format!("hands-mcp answered {line}").into()),
        }
    }

    /// Sends a request and waits for its result.
    fn ask(&mut self, method: &str, params: Value) -> Result<Value> {
        let id = self.send(method, &params)?;
        let (answered, result) = self.next()?;
        match answered == id {
            true => Ok(result),
            false => Err(format!("answer to {answered} instead of {id}").into()),
        }
    }

    /// Calls a tool, which must succeed.
    fn call(&mut self, tool: &str, arguments: Value) -> Result<()> {
        let result = self.ask("tools/call", json!({"name": tool, "arguments": arguments}))?;
        match result["structuredContent"]["ok"] == true {
            true => Ok(()),
            false => Err(format!("{tool} answered {result}").into()),
        }
    }

    fn close(mut self) -> Result<()> {
        drop(self.input);
        let ended = self.child.wait()?;
        match ended.success() {
            true => Ok(()),
            false => Err(format!("hands-mcp: {ended}").into()),
        }
    }
}
