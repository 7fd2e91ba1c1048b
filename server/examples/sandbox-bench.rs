//! Measures what the sandbox costs: each figure beside the same work without it, in turns in one
//! run, so that a loaded machine slows both. Asserts nothing about time: `scripts/bench` builds and
//! runs it.
//!
//! `sandbox-bench PROGRAMS FOLDER`: the folder that holds `hands-runner`, and an empty folder on a
//! file system in memory, outside `/tmp`, for the home and the workspace. Linux only.
#![allow(clippy::print_stdout, reason = "its output is a table on stdout")]

use hands_config::{Config, Home};
use hands_sandbox::{Ending, Frame, Request, decode_bytes};
use hands_server::confinement::Confinement;
use hands_server::hub::Hub;
use serde_json::{Value, json};
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const STARTS: usize = 30;
/// Calls of each kind in one round, and rounds.
const CALLS: usize = 2000;
const CALL_ROUNDS: usize = 5;
const BUILDS: usize = 5;
const CLONES: usize = 9;
const CLONED_FILES: usize = 5000;
const CRATES: usize = 6;

fn main() -> Result<()> {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    match (args.next(), args.next()) {
        // What runs in the sandbox.
        (Some(word), Some(folder)) if word.as_os_str() == "calls" => calls(&folder),
        (Some(programs), Some(folder)) => {
            let bench = Bench::new(&programs.canonicalize()?, &folder.canonicalize()?)?;
            bench.start_up()?;
            bench.broker()?;
            bench.build()?;
            bench.clone()
        }
        _ => Err("usage: sandbox-bench PROGRAMS FOLDER".into()),
    }
}

/// A line of the table.
fn row(figure: &str, measured: &str, target: &str) {
    println!("{figure:<52} {measured:>12}   {target}");
}

fn ms(duration: Duration) -> String {
    format!("{:.2} ms", duration.as_secs_f64() * 1e3)
}

fn ratio(one: Duration, other: Duration) -> String {
    let ratio = one.as_secs_f64() / other.as_secs_f64().max(f64::EPSILON);
    format!("{ratio:.2} x")
}

/// The median.
fn p50(mut samples: Vec<Duration>) -> Duration {
    samples.sort_unstable();
    samples.get(samples.len() / 2).copied().unwrap_or_default()
}

/// Runs the two pieces of work in turns; the median of each.
fn in_turns(
    rounds: usize,
    mut one: impl FnMut() -> Result<Duration>,
    mut other: impl FnMut() -> Result<Duration>,
) -> Result<(Duration, Duration)> {
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        ones.push(one()?);
        others.push(other()?);
    }
    Ok((p50(ones), p50(others)))
}

fn succeeded(mut command: Command) -> Result<Duration> {
    let begun = Instant::now();
    let output = command.stdin(Stdio::null()).output()?;
    let took = begun.elapsed();
    match output.status.success() {
        true => Ok(took),
        false => Err(format!("{command:?}: {output:?}").into()),
    }
}

/// The place everything is measured in.
struct Bench {
    runner: PathBuf,
    hub: Hub,
    tmp: PathBuf,
    workspace: PathBuf,
}

impl Bench {
    fn new(programs: &Path, folder: &Path) -> Result<Self> {
        let workspace = folder.join("workspace");
        std::fs::create_dir(&workspace)?;
        let home = Home::at(folder.join("home"));
        let tmp = home.scratch_dir().join("bench/tmp");
        let config = Config {
            workspaces: vec![workspace.clone()],
            ..Config::default()
        };
        let user_home = std::env::home_dir().ok_or("HOME is not set")?;
        let hub = Hub::open(home, config, user_home)?;
        std::fs::create_dir_all(&tmp)?;
        Ok(Self {
            runner: programs.join("hands-runner"),
            hub,
            tmp,
            workspace,
        })
    }

    /// The request that the server makes of a command, by the server's own code.
    fn request(&self, argv: &[&str]) -> Result<Request> {
        let argv = argv.iter().map(ToString::to_string).collect();
        let confinement = Confinement::new(&self.hub, "s-bench", self.tmp.clone());
        let planned = confinement.plan("t", argv, self.workspace.clone(), &[], None, None);
        Ok(Request {
            plan: planned.map_err(|outcome| outcome.shown())?,
            stdin: None,
            timeout_ms: 300_000,
            grace_ms: 200,
            head_bytes: 32 * 1024,
            tail_bytes: 32 * 1024,
            spill: None,
            spill_max_bytes: 0,
            progress: false,
        })
    }

    /// Runs a request to its end; its output, and how long it took from the runner's start on.
    fn run(&self, request: &Request) -> Result<(Duration, Vec<u8>)> {
        let line = serde_json::to_string(request)? + "\n";
        let begun = Instant::now();
        let mut child = Command::new(&self.runner)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut input = child.stdin.take().ok_or("hands-runner has no input")?;
        input.write_all(line.as_bytes())?;
        let output = child.stdout.take().ok_or("hands-runner has no output")?;
        let mut said = String::new();
        // Its standard input stays open: the end of it would end the command.
        BufReader::new(output).read_line(&mut said)?;
        let took = begun.elapsed();
        drop(input);
        child.wait()?;
        match serde_json::from_str(&said) {
            Ok(Frame::Done(done)) if done.ending == Ending::Exit(0) => {
                Ok((took, decode_bytes(&done.stdout.head)?))
            }
            Ok(Frame::Done(done)) => {
                let err = decode_bytes(&done.both.head)?;
                Err(format!("{:?}: {}", done.ending, String::from_utf8_lossy(&err)).into())
            }
            other => Err(format!("hands-runner answered {other:?}").into()),
        }
    }

    fn run_shell(&self, line: &str) -> Result<Duration> {
        Ok(self.run(&self.request(&["/bin/bash", "-ec", line])?)?.0)
    }

    /// The same line outside the sandbox, with the same environment.
    fn run_plain(&self, line: &str) -> Result<Duration> {
        let request = self.request(&[])?;
        let mut command = Command::new("/bin/bash");
        command.args(["-ec", line]).current_dir(&self.workspace);
        command.env_clear().envs(request.plan.env);
        command.env("TMPDIR", &self.tmp);
        succeeded(command)
    }

    fn start_up(&self) -> Result<()> {
        let request = self.request(&["/bin/true"])?;
        let bare = || {
            let mut command = Command::new("bwrap");
            command.args(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]);
            command.args(["--unshare-user", "--unshare-pid", "--unshare-ipc"]);
            command.args(["--unshare-uts", "--die-with-parent", "/bin/true"]);
            succeeded(command)
        };
        let whole = || Ok(self.run(&request)?.0);
        let (whole, bare) = in_turns(STARTS, whole, bare)?;
        row(
            &format!("start-up of the whole stack, p50 of {STARTS}"),
            &ms(whole),
            "",
        );
        row(
            "  bwrap with its namespaces and nothing else",
            &ms(bare),
            "",
        );
        row(
            "  the whole stack against that",
            &ratio(whole, bare),
            "<= 2 x",
        );
        Ok(())
    }

    fn broker(&self) -> Result<()> {
        let own = std::env::current_exe()?;
        let own = own.to_str().ok_or("our own path is no text")?;
        let folder = self.workspace.join("calls");
        let at = folder.to_str().ok_or("the workspace is no text")?;
        let request = self.request(&[own, "calls", at])?;
        let (mut brokered, mut plain) = (Vec::new(), Vec::new());
        for _ in 0..CALL_ROUNDS {
            brokered.push(serde_json::from_slice(&self.run(&request)?.1)?);
            let output = Command::new(own).args(["calls", at]).output()?;
            plain.push(serde_json::from_slice(&output.stdout)?);
        }
        for (call, target) in [
            ("create", "<= 50 us"),
            ("unlink", "<= 50 us"),
            ("rename", ""),
            ("open for writing", ""),
            ("open for reading", ""),
        ] {
            let brokered = middle(&brokered, call)?;
            let plain = middle(&plain, call)?;
            let figure = format!("{call} by the broker, p50 of {CALLS} by {CALL_ROUNDS}");
            row(&figure, &format!("{brokered:.1} us"), target);
            row("  plain", &format!("{plain:.1} us"), "");
        }
        Ok(())
    }

    fn build(&self) -> Result<()> {
        if Command::new("cargo").arg("--version").output().is_err() {
            row("a small cargo build", "no cargo", "<= 1.10 x");
            return Ok(());
        }
        let project = self.workspace.join("project");
        make_project(&project)?;
        let line = format!("cd {0}; cargo build --offline --quiet", project.display());
        let clear = |took: Duration| {
            std::fs::remove_dir_all(project.join("target"))?;
            Ok(took)
        };
        clear(self.run_plain(&line)?)?;
        let (boxed, plain) = in_turns(
            BUILDS,
            || clear(self.run_shell(&line)?),
            || clear(self.run_plain(&line)?),
        )?;
        row(
            &format!("a small cargo build, p50 of {BUILDS}"),
            &ms(boxed),
            "",
        );
        row("  plain", &ms(plain), "");
        row(
            "  in the sandbox against plain",
            &ratio(boxed, plain),
            "<= 1.10 x",
        );
        Ok(())
    }

    fn clone(&self) -> Result<()> {
        let origin = self.workspace.join("origin");
        make_repository(&origin)?;
        let line = format!("cd {}; git clone -q origin copy", self.workspace.display());
        let clear = |took: Duration| {
            std::fs::remove_dir_all(self.workspace.join("copy"))?;
            Ok(took)
        };
        let (boxed, plain) = in_turns(
            CLONES,
            || clear(self.run_shell(&line)?),
            || clear(self.run_plain(&line)?),
        )?;
        let figure = format!("git clone of {CLONED_FILES} files, p50 of {CLONES}");
        row(&figure, &ms(boxed), "");
        row("  plain", &ms(plain), "");
        row(
            "  in the sandbox against plain",
            &ratio(boxed, plain),
            "<= 5 x",
        );
        Ok(())
    }
}

/// The median of the rounds' medians of one call, in microseconds.
fn middle(rounds: &[Value], call: &str) -> Result<f64> {
    let mut all: Vec<f64> = rounds
        .iter()
        .filter_map(|said| said[call].as_f64())
        .collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2)
        .copied()
        .ok_or_else(|| format!("{call} was not measured").into())
}

/// Makes each call many times in `folder`, and says how long one took, in microseconds.
fn calls(folder: &Path) -> Result<()> {
    std::fs::create_dir(folder)?;
    let names = |word: &str| -> Vec<PathBuf> {
        (0..CALLS)
            .map(|n| folder.join(format!("{word}-{n}")))
            .collect()
    };
    let (first, second) = (names("file"), names("renamed"));
    let each = |call: &mut dyn FnMut(usize) -> std::io::Result<Option<File>>| {
        let mut samples = Vec::new();
        for n in 0..CALLS {
            let begun = Instant::now();
            let file = call(n)?;
            samples.push(begun.elapsed());
            drop(file);
        }
        std::io::Result::Ok(p50(samples).as_secs_f64() * 1e6)
    };
    let create = each(&mut |n| File::create_new(&first[n]).map(Some))?;
    let write = each(&mut |n| File::options().append(true).open(&first[n]).map(Some))?;
    let read = each(&mut |n| File::open(&first[n]).map(Some))?;
    let rename = each(&mut |n| std::fs::rename(&first[n], &second[n]).map(|()| None))?;
    let unlink = each(&mut |n| std::fs::remove_file(&second[n]).map(|()| None))?;
    std::fs::remove_dir(folder)?;
    println!(
        "{}",
        json!({
            "create": create,
            "unlink": unlink,
            "rename": rename,
            "open for writing": write,
            "open for reading": read,
        })
    );
    Ok(())
}

/// A workspace of a few crates without foreign dependencies.
fn make_project(at: &Path) -> Result<()> {
    let members: Vec<String> = (0..CRATES).map(|n| format!("\"c{n}\"")).collect();
    std::fs::create_dir(at)?;
    let manifest = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [{}]\n",
        members.join(", ")
    );
    std::fs::write(at.join("Cargo.toml"), manifest)?;
    for n in 0..CRATES {
        let folder = at.join(format!("c{n}"));
        std::fs::create_dir_all(folder.join("src"))?;
        let needs: String = (0..n)
            .map(|m| format!("c{m} = {{ path = \"../c{m}\" }}\n"))
            .collect();
        let manifest = format!(
            "[package]\nname = \"c{n}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[dependencies]\n{needs}"
        );
        std::fs::write(folder.join("Cargo.toml"), manifest)?;
        let mut source = String::from("use std::collections::BTreeMap;\n");
        for k in 0..60 {
            source.push_str(&format!(
                "#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]\n\
                 pub struct S{k} {{ pub a: String, pub b: BTreeMap<String, Vec<u64>>, pub c: Option<u32> }}\n\
                 pub fn f{k}(s: &mut S{k}) -> String {{ s.b.entry(s.a.clone()).or_default().push({k}); \
                 format!(\"{{s:?}} {{}}\", s.b.values().flatten().map(u64::to_string).collect::<Vec<_>>().join(\",\")) }}\n"
            ));
        }
        std::fs::write(folder.join("src/lib.rs"), source)?;
        let main = format!(
            "fn main() {{ let mut s = c{n}::S1 {{ a: \"a\".into(), b: Default::default(), c: None }}; println!(\"{{}}\", c{n}::f1(&mut s)); }}\n"
        );
        std::fs::write(folder.join("src/main.rs"), main)?;
    }
    Ok(())
}

/// A repository of many small files in one commit, packed.
fn make_repository(at: &Path) -> Result<()> {
    for n in 0..CLONED_FILES {
        let folder = at.join(format!("folder-{}", n % 50));
        std::fs::create_dir_all(&folder)?;
        std::fs::write(
            folder.join(format!("file-{n}.txt")),
            format!("content {n}\n").repeat(20),
        )?;
    }
    let mut git = Command::new("/bin/bash");
    git.args([
        "-ec",
        "git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm all && \
         git -c gc.auto=0 gc -q",
    ]);
    git.current_dir(at);
    succeeded(git).map(drop)
}
