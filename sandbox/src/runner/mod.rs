//! The life of one `hands-runner`: it owns one command from start to end.

mod child;
mod output;
#[cfg(target_os = "linux")]
mod watch;

use crate::backend::{Backend, backend_of};
use crate::limits;
use crate::plan::Request;
use crate::report::{Done, Ending, Frame, Order, Overuse, Progress, decode_bytes};
use child::{Confined, ended_by_kill};
use output::Output;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{ChildStderr, ChildStdout, ExitStatus};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// How long the pipes may stay open after everything that was started is gone. Nothing that the
/// sandbox holds can keep them open on Linux; a process that left its session can on macOS.
const DRAIN: Duration = Duration::from_millis(500);

/// What the helper threads tell the main loop.
enum Event {
    Stop(Duration),
    Exited(std::io::Result<ExitStatus>),
    #[cfg(target_os = "linux")]
    Inner(Option<crate::linux::inner::InnerReport>),
    #[cfg(target_os = "linux")]
    Guarding(crate::linux::broker::Running),
    #[cfg(target_os = "linux")]
    Proxying(crate::linux::proxy::Running),
}

/// Sends events to the main loop and wakes it from its poll.
#[derive(Clone)]
struct Notifier {
    events: Sender<Event>,
    waker: std::sync::Arc<UnixStream>,
}

impl Notifier {
    fn send(&self, event: Event) {
        // The loop may have ended already; then nobody needs to know.
        let _ = self.events.send(event);
        let _ = (&*self.waker).write(&[0]);
    }
}

/// Reads one request on standard input, runs it, and writes frames on standard output. The exit
/// status is 0 when a last frame was written.
pub fn main() -> i32 {
    let mut input = BufReader::new(std::io::stdin());
    let last = match read_request(&mut input) {
        Ok(request) => match run(backend_of(&request.plan).as_ref(), request, input) {
            Ok(done) => Frame::Done(Box::new(done)),
            Err(refused) => refused.frame(),
        },
        Err(message) => Refused::new(message, "report this as a fault").frame(),
    };
    i32::from(write_frame(&last).is_err())
}

/// Runs a request in this process and this sandbox, with nobody to give orders.
///
/// # Errors
/// The reason and the hint of a command that was not started.
pub(crate) fn run_here(backend: &dyn Backend, request: Request) -> Result<Done, (String, String)> {
    let (input, _owner) = crate::canary::silent_input()
        .map_err(|e| (format!("socket pair: {e}"), "free descriptors".to_string()))?;
    run(backend, request, input).map_err(|refused| (refused.message, refused.hint))
}

/// A command that was not started.
struct Refused {
    message: String,
    hint: String,
    /// See [`Frame::Refused`].
    again: bool,
}

impl Refused {
    fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: hint.into(),
            again: false,
        }
    }

    /// Something changed meanwhile, if `so`.
    fn again(self, so: bool) -> Self {
        Self { again: so, ..self }
    }

    fn frame(self) -> Frame {
        Frame::Refused {
            message: self.message,
            hint: self.hint,
            again: self.again,
        }
    }
}

fn read_request(input: &mut impl BufRead) -> Result<Request, String> {
    let mut line = String::new();
    input
        .take(limits::MAX_REQUEST_BYTES)
        .read_line(&mut line)
        .map_err(|e| format!("hands-runner: reading the request: {e}"))?;
    serde_json::from_str(&line).map_err(|e| format!("hands-runner: the request: {e}"))
}

fn write_frame(frame: &Frame) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(frame)?;
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    out.write_all(&line)?;
    out.flush()
}

fn run(
    backend: &dyn Backend,
    mut request: Request,
    input: impl BufRead + Send + 'static,
) -> Result<Done, Refused> {
    let started = Instant::now();
    add_aliases(&mut request)?;
    let stdin = match &request.stdin {
        None => None,
        Some(text) => Some(decode_bytes(text).map_err(|e| {
            Refused::new(
                format!("hands-runner: stdin: {e}"),
                "report this as a fault",
            )
        })?),
    };
    let (sender, events) = channel();
    let (wake_read, wake_write) = UnixStream::pair().map_err(|e| {
        Refused::new(
            format!("hands-runner: socket pair: {e}"),
            "free descriptors",
        )
    })?;
    // A full waker has woken the loop already.
    let _ = wake_write.set_nonblocking(true);
    let notifier = Notifier {
        events: sender,
        waker: wake_write.into(),
    };
    let (confined, stdout, stderr) = Confined::start(backend, &request.plan, stdin, &notifier)?;
    std::thread::spawn(move || follow_orders(input, &notifier));
    let mut life = Life {
        output: Output::new(&request),
        deadline: started + Duration::from_millis(request.timeout_ms),
        grace: Duration::from_millis(request.grace_ms),
        progress: request.progress.then_some(started),
        started,
        confined,
        events,
        wake: wake_read,
        kill_at: None,
        exit: None,
        drained_by: None,
        timed_out: false,
        stopped: false,
        overuse: None,
        #[cfg(target_os = "linux")]
        watch: None,
    };
    #[cfg(target_os = "linux")]
    life.watch(&request.plan);
    life.pump(stdout, stderr);
    life.finish()
}

/// What is hidden by one name is hidden by every other that mounts give it.
#[cfg(target_os = "linux")]
fn add_aliases(request: &mut Request) -> Result<(), Refused> {
    crate::linux::aliases::add(&mut request.plan).map_err(|e| {
        let what = format!("this machine's mounts cannot be read: {e}");
        Refused::new(what, "see whether /proc is mounted")
    })
}

#[cfg(not(target_os = "linux"))]
fn add_aliases(_: &mut Request) -> Result<(), Refused> {
    Ok(())
}

/// Reads the owner's orders; the end of the stream is one too.
fn follow_orders(input: impl BufRead, notifier: &Notifier) {
    for line in input.lines().map_while(Result::ok) {
        if let Ok(Order::Stop { grace_ms }) = serde_json::from_str(&line) {
            notifier.send(Event::Stop(Duration::from_millis(grace_ms)));
        }
    }
    notifier.send(Event::Stop(limits::ORPHAN_GRACE));
}

/// One running command.
struct Life {
    output: Output,
    started: Instant,
    deadline: Instant,
    grace: Duration,
    /// When the last progress frame went out, if any are wanted.
    progress: Option<Instant>,
    confined: Confined,
    events: Receiver<Event>,
    wake: UnixStream,
    kill_at: Option<Instant>,
    exit: Option<std::io::Result<ExitStatus>>,
    drained_by: Option<Instant>,
    timed_out: bool,
    stopped: bool,
    overuse: Option<Overuse>,
    #[cfg(target_os = "linux")]
    watch: Option<watch::Watch>,
}

impl Life {
    #[cfg(target_os = "linux")]
    fn watch(&mut self, plan: &crate::plan::Plan) {
        let pid = self.confined.id();
        let own_memory = !plan.is_reduced();
        self.watch = pid.map(|pid| watch::Watch::new(pid, plan.resources, own_memory));
    }

    /// Ends a command that uses more than it may, at once: it may be about to use up the machine.
    #[cfg(target_os = "linux")]
    fn check_use(&mut self, now: Instant) {
        let Some(watch) = self.watch.as_mut().filter(|watch| now >= watch.due) else {
            return;
        };
        if let Some(overuse) = watch.look() {
            self.watch = None;
            self.overuse = Some(overuse);
            self.confined.kill();
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn check_use(&mut self, _: Instant) {}

    #[cfg(target_os = "linux")]
    fn next_look(&self) -> Option<Instant> {
        let watch = self.watch.as_ref().filter(|_| self.exit.is_none());
        watch.map(|watch| watch.due)
    }

    #[cfg(not(target_os = "linux"))]
    fn next_look(&self) -> Option<Instant> {
        None
    }

    /// Takes output and events until the command is gone and its pipes are empty.
    fn pump(&mut self, stdout: ChildStdout, stderr: ChildStderr) {
        let mut stdout = Some(stdout);
        let mut stderr = Some(stderr);
        let mut buffer = vec![0; limits::READ_BYTES];
        while self.exit.is_none() || stdout.is_some() || stderr.is_some() {
            if self.drained_by.is_some_and(|at| Instant::now() >= at) {
                return;
            }
            let ready = self.wait(stdout.as_ref(), stderr.as_ref());
            if ready.waker {
                let _ = self.wake.read(&mut [0; 64]);
            }
            if ready.stdout && !self.take(&mut stdout, &mut buffer, Output::push_stdout) {
                stdout = None;
            }
            if ready.stderr && !self.take(&mut stderr, &mut buffer, Output::push_stderr) {
                stderr = None;
            }
            while let Ok(event) = self.events.try_recv() {
                self.handle(event);
            }
            self.check_clock();
            if self.confined.left_nothing() {
                // What it wrote lies in the pipes. That the sandbox's own processes end as well
                // need not be waited for.
                while self.take_ready(&mut stdout, &mut stderr, &mut buffer) {}
                return;
            }
        }
    }

    /// Reads once what is there already; false when that is nothing.
    fn take_ready(
        &mut self,
        stdout: &mut Option<ChildStdout>,
        stderr: &mut Option<ChildStderr>,
        buffer: &mut [u8],
    ) -> bool {
        let ready = self.look(stdout.as_ref(), stderr.as_ref(), Some(Timespec::default()));
        if ready.stdout && !self.take(stdout, buffer, Output::push_stdout) {
            *stdout = None;
        }
        if ready.stderr && !self.take(stderr, buffer, Output::push_stderr) {
            *stderr = None;
        }
        ready.stdout || ready.stderr
    }

    /// Reads once; false at the end of the stream.
    fn take<R: Read>(
        &mut self,
        pipe: &mut Option<R>,
        buffer: &mut [u8],
        push: fn(&mut Output, &[u8]),
    ) -> bool {
        let Some(pipe) = pipe else { return false };
        match pipe.read(buffer) {
            Ok(0) => false,
            Ok(n) => {
                push(&mut self.output, &buffer[..n]);
                true
            }
            Err(e) => e.kind() == std::io::ErrorKind::Interrupted,
        }
    }

    fn wait(&self, stdout: Option<&ChildStdout>, stderr: Option<&ChildStderr>) -> Ready {
        self.look(stdout, stderr, self.until_next_clock())
    }

    fn look(
        &self,
        stdout: Option<&ChildStdout>,
        stderr: Option<&ChildStderr>,
        timeout: Option<Timespec>,
    ) -> Ready {
        let mut fds = vec![PollFd::new(&self.wake, PollFlags::IN)];
        let out_at = stdout.map(|pipe| {
            fds.push(PollFd::new(pipe, PollFlags::IN));
            fds.len() - 1
        });
        let err_at = stderr.map(|pipe| {
            fds.push(PollFd::new(pipe, PollFlags::IN));
            fds.len() - 1
        });
        if poll(&mut fds, timeout.as_ref()).is_err() {
            return Ready::default();
        }
        let fired = |at: usize| !fds[at].revents().is_empty();
        Ready {
            waker: fired(0),
            stdout: out_at.is_some_and(fired),
            stderr: err_at.is_some_and(fired),
        }
    }

    fn until_next_clock(&self) -> Option<Timespec> {
        let deadline = (!self.timed_out && !self.stopped).then_some(self.deadline);
        let progress = self.progress.map(|last| last + limits::PROGRESS_EVERY);
        let next = [
            deadline,
            self.kill_at,
            self.drained_by,
            progress,
            self.next_look(),
        ]
        .into_iter()
        .flatten()
        .min()?;
        let left = next.saturating_duration_since(Instant::now());
        // Rounded up, so that a wait never ends just before the clock it waits for.
        Timespec::try_from(left + Duration::from_millis(1)).ok()
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Stop(grace) => {
                self.stopped = true;
                self.stop(grace);
            }
            Event::Exited(status) => {
                self.confined.sweep();
                self.exit = Some(status);
                self.drained_by = Some(Instant::now() + DRAIN);
            }
            #[cfg(target_os = "linux")]
            Event::Inner(report) => {
                self.confined.inner = Some(report);
                // What the helper could not end holds the pipes open.
                self.confined.sweep();
            }
            #[cfg(target_os = "linux")]
            Event::Guarding(broker) => self.confined.broker = Some(broker),
            #[cfg(target_os = "linux")]
            Event::Proxying(proxy) => self.confined.proxy = Some(proxy),
        }
    }

    fn check_clock(&mut self) {
        let now = Instant::now();
        if self.exit.is_none() {
            self.check_use(now);
            if now >= self.deadline && !self.timed_out && !self.stopped {
                self.timed_out = true;
                self.stop(self.grace);
            }
            if self.kill_at.is_some_and(|at| now >= at) {
                self.kill_at = None;
                self.confined.kill();
            }
        }
        if self
            .progress
            .is_some_and(|last| now >= last + limits::PROGRESS_EVERY)
        {
            self.progress = Some(now);
            let _ = write_frame(&Frame::Progress(Progress {
                bytes: self.output.total(),
                line: self.output.last_line(),
            }));
        }
    }

    /// SIGTERM now, SIGKILL after `grace`; a second order may only shorten the wait.
    fn stop(&mut self, grace: Duration) {
        if self.exit.is_some() {
            return;
        }
        let kill_at = Instant::now() + grace;
        if self.kill_at.is_none_or(|at| kill_at < at) {
            self.kill_at = Some(kill_at);
        }
        self.confined.terminate();
    }

    fn finish(mut self) -> Result<Done, Refused> {
        // The report travels on its own socket and may come just behind the exit.
        while self.confined.awaits_report() {
            match self.events.recv_timeout(DRAIN) {
                Ok(event) => self.handle(event),
                Err(_) => break,
            }
        }
        // As long as the broker answers: it lets none of them start another one.
        let is_over = self.confined.sweep();
        let mut guarded = self.confined.guarded();
        if !is_over {
            guarded.refused.push(
                "end a process of the command, which may still run: it cannot be seen (`ps` as root shows it)"
                    .into(),
            );
        }
        let (ending, left_behind) = self.ending()?;
        let both = self.output.finish();
        Ok(Done {
            ending,
            timed_out: self.timed_out,
            stopped: self.stopped,
            overuse: self.overuse,
            left_behind,
            stdout: both.stdout,
            stderr: both.stderr,
            both: both.both,
            spill: both.spill,
            spilled_bytes: both.spilled_bytes,
            spill_error: both.spill_error,
            wall_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            guarded,
        })
    }

    fn ending(&mut self) -> Result<(Ending, Vec<String>), Refused> {
        if let Some(known) = self.confined.reported()? {
            return Ok(known);
        }
        let status = match self.exit.take() {
            Some(Ok(status)) => status,
            Some(Err(e)) => {
                let what = format!("hands-runner: waiting for the sandbox: {e}");
                return Err(Refused::new(what, "report this as a fault"));
            }
            None => return Ok((ended_by_kill(), Vec::new())),
        };
        let killed_by_us = self.timed_out || self.stopped || self.overuse.is_some();
        self.confined
            .ending_without_report(status, killed_by_us, || self.output.complaint())
    }
}

/// Which descriptors have something to say.
#[derive(Default)]
struct Ready {
    waker: bool,
    stdout: bool,
    stderr: bool,
}
