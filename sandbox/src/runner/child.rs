//! The confined child as the runner holds it: starting it, ending it, and how it ended.

use super::{Event, Notifier, Refused};
use crate::backend::Backend;
use crate::plan::Plan;
use crate::report::Ending;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
#[cfg(target_os = "linux")]
use std::sync::mpsc::channel;

const SIGKILL: i32 = 9;

/// What a command that was killed without a word counts as.
pub(super) fn ended_by_kill() -> Ending {
    Ending::Signal(SIGKILL)
}

/// What the helper inside is told to do, once it has its plan.
enum Order {
    Terminate,
}

/// A started command.
pub(super) struct Confined {
    pid: Option<Pid>,
    /// Orders to the helper inside, where the platform has one.
    helper: Option<Sender<Order>>,
    backend: &'static str,
    /// Whether its processes are among all others, and so must be looked for to be ended.
    is_reduced: bool,
    /// Whose calls the broker answers, and whether they are to end.
    #[cfg(target_os = "linux")]
    whose: crate::linux::broker::Whose,
    /// What the helper inside said: nothing yet, or at its end its report, if it made one.
    #[cfg(target_os = "linux")]
    pub(super) inner: Option<Option<crate::linux::inner::InnerReport>>,
    /// What carries out its creating, replacing and removing calls, where there is one.
    #[cfg(target_os = "linux")]
    pub(super) broker: Option<crate::linux::broker::Running>,
    /// What it reaches hosts through, where these are filtered.
    #[cfg(target_os = "linux")]
    pub(super) proxy: Option<crate::linux::proxy::Running>,
}

impl Confined {
    /// Starts `plan`. Must be called from the runner's main thread: the sandbox ends with the
    /// *thread* that started it.
    pub(super) fn start(
        backend: &dyn Backend,
        plan: &Plan,
        stdin: Option<Vec<u8>>,
        notifier: &Notifier,
    ) -> Result<(Self, ChildStdout, ChildStderr), Refused> {
        let (ours, theirs) = UnixStream::pair().map_err(|e| {
            Refused::new(
                format!("hands-runner: socket pair: {e}"),
                "free descriptors",
            )
        })?;
        let launch = backend
            .launch(plan, theirs.as_raw_fd())
            .map_err(|e| Refused::new(e.reason, e.hint))?;
        let mut command = Command::new(&launch.program);
        join_network(&mut command, plan)?;
        if launch.inner.is_some() {
            inherit(&theirs)?;
        }
        // Without bubblewrap the child starts a session first, which also is a group of its own;
        // the leader of a group could not.
        if launch.inner.is_some() && !plan.is_reduced() {
            command.process_group(0);
        }
        if plan.is_reduced() {
            adopt_orphans()?;
        }
        command
            .args(&launch.args)
            .env_clear()
            .envs(launch.env.iter().map(|(name, value)| (name, value)))
            .stdin(if stdin.is_some() {
                Stdio::piped()
            } else {
                Stdio::null()
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| {
            let what = format!("starting {}: {e}", launch.program.display());
            Refused::new(what, "run `handsctl doctor`")
        })?;
        drop(theirs);
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(Refused::new(
                "hands-runner: no pipes",
                "report this as a fault",
            ));
        };
        feed(&mut child, stdin);
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        #[cfg(target_os = "linux")]
        let whose = crate::linux::broker::Whose {
            top: child.id(),
            ..Default::default()
        };
        let helper = match launch.inner {
            #[cfg(target_os = "linux")]
            Some(inner) => Some(talk_to_inner(ours, inner, plan, &whose, notifier)?),
            #[cfg(not(target_os = "linux"))]
            Some(_) => None,
            None => None,
        };
        wait_in_background(child, notifier);
        let confined = Self {
            pid,
            helper,
            backend: backend.name(),
            is_reduced: plan.is_reduced(),
            #[cfg(target_os = "linux")]
            whose,
            #[cfg(target_os = "linux")]
            inner: None,
            #[cfg(target_os = "linux")]
            broker: None,
            #[cfg(target_os = "linux")]
            proxy: None,
        };
        Ok((confined, stdout, stderr))
    }

    /// SIGTERM to everything the command started.
    pub(super) fn terminate(&self) {
        // A child that is gone already needs no signal.
        match (&self.helper, self.pid) {
            (Some(helper), _) => {
                let _ = helper.send(Order::Terminate);
            }
            (None, Some(pid)) => signal_group(pid, Signal::TERM),
            (None, None) => {}
        }
    }

    /// SIGKILL to the sandbox, and so to all in it.
    pub(super) fn kill(&self) {
        self.end_tree();
        if let Some(pid) = self.pid {
            signal_group(pid, Signal::KILL);
        }
    }

    /// Ends what is left of the command where no namespace does; whether nothing is left then.
    pub(super) fn sweep(&self) -> bool {
        self.end_tree()
    }

    /// Ends the command's processes one by one, but for the helper, which says how that was.
    #[cfg(target_os = "linux")]
    fn end_tree(&self) -> bool {
        use std::sync::atomic::Ordering;
        if self.is_reduced {
            self.whose.ends.store(true, Ordering::SeqCst);
            let (own, top) = (std::process::id(), self.whose.top);
            // Those whose parents are gone are the helper's children or, after its end, ours.
            let left = || crate::linux::tree::living(own);
            return crate::linux::tree::end_all(own, Some(top), || match &self.broker {
                Some(broker) => broker.is_over(),
                None => left().iter().all(|(pid, _)| *pid == top),
            });
        }
        true
    }

    #[cfg(not(target_os = "linux"))]
    fn end_tree(&self) -> bool {
        true
    }

    /// The number of the process that was started, which all of the command's descend from.
    #[cfg(target_os = "linux")]
    pub(super) fn id(&self) -> Option<u32> {
        u32::try_from(self.pid?.as_raw_nonzero().get()).ok()
    }

    /// What came of the calls that the broker carried out, and which hosts were refused.
    #[cfg(target_os = "linux")]
    pub(super) fn guarded(&mut self) -> crate::report::Guarded {
        let broker = self.broker.take();
        let mut guarded = broker.map(|broker| broker.finish()).unwrap_or_default();
        let proxy = self.proxy.take();
        guarded
            .refused
            .extend(proxy.into_iter().flat_map(|proxy| proxy.refused()));
        guarded
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn guarded(&mut self) -> crate::report::Guarded {
        crate::report::Guarded::default()
    }

    /// Whether the helper inside has yet to say how the command ended.
    #[cfg(target_os = "linux")]
    pub(super) fn awaits_report(&self) -> bool {
        self.helper.is_some() && self.inner.is_none()
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn awaits_report(&self) -> bool {
        false
    }

    /// Whether the helper inside has said that the command ended and nothing of it is left.
    #[cfg(target_os = "linux")]
    pub(super) fn left_nothing(&self) -> bool {
        use crate::linux::inner::InnerReport::Ended;
        let said = self.inner.as_ref().and_then(Option::as_ref);
        matches!(said, Some(Ended { left_behind, .. }) if left_behind.is_empty())
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn left_nothing(&self) -> bool {
        false
    }

    /// What the helper inside said, if it did.
    #[cfg(target_os = "linux")]
    pub(super) fn reported(&mut self) -> Result<Option<(Ending, Vec<String>)>, Refused> {
        use crate::linux::inner::InnerReport;
        match self.inner.take().flatten() {
            None => Ok(None),
            Some(InnerReport::Ended {
                ending,
                left_behind,
            }) => Ok(Some((ending, left_behind))),
            Some(InnerReport::Failed(reason)) => {
                let again = reason.contains(crate::linux::CHANGED);
                let message = format!("the sandbox could not be set up: {reason}");
                Err(Refused::new(message, "run `handsctl doctor`").again(again))
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn reported(&mut self) -> Result<Option<(Ending, Vec<String>)>, Refused> {
        Ok(None)
    }

    /// How the command ended when nobody inside said so.
    pub(super) fn ending_without_report(
        &self,
        status: ExitStatus,
        killed_by_us: bool,
        complaint: impl FnOnce() -> String,
    ) -> Result<(Ending, Vec<String>), Refused> {
        if self.helper.is_some() {
            if killed_by_us || status.signal().is_some() {
                return Ok((ended_by_kill(), Vec::new()));
            }
            return Err(not_made(self.backend, status, complaint()));
        }
        let ending = match (status.code(), status.signal()) {
            (Some(code), _) => Ending::Exit(code),
            (None, signal) => Ending::Signal(signal.unwrap_or(SIGKILL)),
        };
        Ok((ending, Vec::new()))
    }
}

/// A sandbox that did not come up, with what stands in its way where that can be told.
fn not_made(backend: &str, status: ExitStatus, complaint: String) -> Refused {
    let message = format!("{backend} failed ({status}): {complaint}");
    // The person has unmounted something just then.
    if complaint.contains("Unable to apply mount flags") {
        return Refused::new(message, "try again").again(true);
    }
    #[cfg(target_os = "linux")]
    if let Some(obstacle) = crate::linux::obstacle::Obstacle::behind(&complaint) {
        let setting = obstacle.setting.map(|setting| format!("; {setting}"));
        return Refused::new(message + &setting.unwrap_or_default(), obstacle.cure);
    }
    Refused::new(message, "run `handsctl doctor`")
}

/// Makes this process the parent of the command's processes whose parents are gone.
#[cfg(target_os = "linux")]
fn adopt_orphans() -> Result<(), Refused> {
    let own = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(own)).map_err(|e| {
        let what = format!("hands-runner: prctl(PR_SET_CHILD_SUBREAPER): {e}");
        Refused::new(what, "report this as a fault")
    })
}

#[cfg(not(target_os = "linux"))]
fn adopt_orphans() -> Result<(), Refused> {
    Ok(())
}

/// Lets the sandbox be made in the network namespace that the plan names, if it names one.
#[cfg(target_os = "linux")]
fn join_network(command: &mut Command, plan: &Plan) -> Result<(), Refused> {
    let Some(file) = plan.network.namespace() else {
        return Ok(());
    };
    crate::linux::netns::join(command, file).map_err(|e| {
        Refused::new(
            format!("the session's network namespace {}: {e}", file.display()),
            "begin a new session, or set `sandbox.network` to `off`",
        )
    })
}

#[cfg(not(target_os = "linux"))]
fn join_network(_: &mut Command, _: &Plan) -> Result<(), Refused> {
    Ok(())
}

/// Lets the next program inherit this descriptor.
fn inherit(socket: &UnixStream) -> Result<(), Refused> {
    rustix::io::fcntl_setfd(socket.as_fd(), rustix::io::FdFlags::empty()).map_err(|e| {
        Refused::new(
            format!("hands-runner: descriptor flags: {e}"),
            "report this",
        )
    })
}

/// Signals the group that `child` leads, or the child alone while it does not lead one yet. One
/// that is gone already needs no signal.
fn signal_group(child: Pid, signal: Signal) {
    if kill_process_group(child, signal).is_err() {
        let _ = kill_process(child, signal);
    }
}

/// Writes the child's standard input from a thread of its own: it may never read it.
fn feed(child: &mut Child, data: Option<Vec<u8>>) {
    if let (Some(mut pipe), Some(data)) = (child.stdin.take(), data) {
        // A child that closes its input early is no fault.
        std::thread::spawn(move || drop(pipe.write_all(&data)));
    }
}

fn wait_in_background(mut child: Child, notifier: &Notifier) {
    let notifier = notifier.clone();
    std::thread::spawn(move || notifier.send(Event::Exited(child.wait())));
}

/// Gives the helper its plan and then its orders, one line each, and hears its report.
#[cfg(target_os = "linux")]
fn talk_to_inner(
    socket: UnixStream,
    mut inner: String,
    plan: &Plan,
    whose: &crate::linux::broker::Whose,
    notifier: &Notifier,
) -> Result<Sender<Order>, Refused> {
    use crate::limits;
    use std::io::{BufRead, BufReader, Read};
    let fail =
        |e: std::io::Error| Refused::new(format!("hands-runner: socket: {e}"), "report this");
    let mut writer = socket.try_clone().map_err(fail)?;
    let (helper, orders) = channel();
    inner.push('\n');
    // Not on the main thread: a helper that never came up does not read, and a long plan would
    // block. Its end is then seen as an exit. One thread writes all, so that an order that comes
    // at once does not get in before the plan.
    std::thread::spawn(move || {
        let mut told = writer.write_all(inner.as_bytes());
        while let (Ok(()), Ok(Order::Terminate)) = (told, orders.recv()) {
            told = writer.write_all(b"term\n");
        }
    });
    let (plan, whose) = (plan.clone(), whose.clone());
    let notifier = notifier.clone();
    std::thread::spawn(move || {
        let mut line = match serve(&socket, &plan, whose, &notifier) {
            Ok(begun) => begun,
            Err(reason) => {
                // Without a broker every call that it would answer fails.
                let failed = crate::linux::inner::InnerReport::Failed(reason);
                return notifier.send(Event::Inner(Some(failed)));
            }
        };
        let bounded = socket.take(limits::INNER_REPORT_BYTES);
        let _ = BufReader::new(bounded).read_line(&mut line);
        // No report, or half of one, is told too: nobody need wait for it any longer.
        notifier.send(Event::Inner(serde_json::from_str(&line).ok()));
    });
    Ok(helper)
}

/// Takes from the helper what it offers, in its order, and puts proxy and broker on it. Returns what
/// of the helper's report came instead, if it failed before.
#[cfg(target_os = "linux")]
fn serve(
    socket: &UnixStream,
    plan: &Plan,
    whose: crate::linux::broker::Whose,
    notifier: &Notifier,
) -> Result<String, String> {
    use crate::linux::{broker, netns::receive, proxy};
    if let Some(rules) = plan.network.rules() {
        match receive(socket) {
            Ok((_, Some(listener))) => {
                let running = proxy::Running::start(listener, rules);
                let running = running.map_err(|e| format!("starting the proxy: {e}"))?;
                notifier.send(Event::Proxying(running));
            }
            Ok((byte, None)) => return Ok(char::from(byte).to_string()),
            Err(_) => return Ok(String::new()),
        }
    }
    if let Some(guard) = plan.active_guard() {
        match receive(socket) {
            Ok((_, Some(listener))) => {
                let running = broker::Running::start(listener, plan, guard, whose);
                let running = running.map_err(|e| format!("starting the removal broker: {e}"))?;
                notifier.send(Event::Guarding(running));
            }
            Ok((byte, None)) => return Ok(char::from(byte).to_string()),
            Err(_) => return Ok(String::new()),
        }
    }
    Ok(String::new())
}
