//! The removal broker: it carries out a command's creating, replacing and removing calls itself,
//! so that nothing that the command did not make can be lost.
//!
//! Landlock gives the command no right to write in a workspace at all. Its calls that create,
//! truncate, open for writing, remove, rename or link stop in a seccomp filter and arrive here, in
//! the runner, outside every wall. The broker resolves the path through the caller's own view
//! ([`caller`]), asks the rules about the real object ([`policy`]), keeps what would be lost
//! ([`keeper`]), and makes the call on the descriptors that were judged. What lies outside the
//! workspaces it hands back to the kernel, where Landlock judges: a path that is changed between
//! the look and the call gains nothing.
//!
//! What a command may remove is what the [`ledger`] says that it made. Everything else is old: it
//! may be changed and replaced after its content was kept, given a free name in the same
//! workspace, and not removed.

mod attributes;
mod caller;
mod entries;
mod exceptions;
mod explain;
mod files;
mod here;
mod keeper;
mod ledger;
mod mounts;
mod moves;
mod object;
mod policy;
mod reading;
mod signals;
pub(super) mod sys;
mod turn;

pub use explain::Made;
pub(crate) use explain::explain;

use crate::limits;
use crate::plan::{Guard, Plan};
use crate::report::Guarded;
use crate::repository::Repository;
use caller::Caller;
use exceptions::{Exceptions, Held};
use here::Here;
use keeper::{Keeper, lock};
use ledger::Ledger;
use policy::Policy;
use reading::Reading;
use rustix::io::Errno;
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use sys::{Call, Listener};
use turn::Turn;

/// The caller's umask on this thread, for as long as this lives. What the broker makes for itself
/// afterwards must not get it: some programs forbid themselves everything for a moment.
struct Umask {
    own: u32,
    changed: bool,
}

impl Umask {
    fn set(mask: u32) {
        rustix::process::umask(rustix::fs::Mode::from_bits_truncate(mask));
    }
}

impl Drop for Umask {
    fn drop(&mut self) {
        if self.changed {
            Self::set(self.own);
        }
    }
}

/// What a caller gets.
enum Reply {
    /// The kernel carries the call out, within the walls.
    GoOn,
    Value(i64),
    File(OwnedFd, bool),
    /// A helper thread answers, or nobody waits any longer.
    Later,
}

/// Why a call was not carried out.
#[derive(Debug)]
struct No {
    errno: Errno,
    /// For the report, where the number does not say it.
    why: Option<String>,
}

impl From<Errno> for No {
    fn from(errno: Errno) -> Self {
        Self { errno, why: None }
    }
}

impl No {
    fn protected() -> Self {
        Self {
            errno: Errno::ACCESS,
            why: Some("it is protected".into()),
        }
    }

    fn because(why: &str) -> Self {
        Self {
            errno: Errno::ACCESS,
            why: Some(why.into()),
        }
    }
}

type Answer = Result<Reply, No>;

/// A path in the caller's memory, and the folder it is relative to.
type At = (i32, u64);

/// What kind of ground an object lies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ground {
    Workspace,
    /// The private tmp, where a workspace lies in it: nothing there is old.
    Scratch,
}

/// A file that a program set aside to make a new one.
struct Aside {
    dir: Arc<Held>,
    name: CString,
    origin: PathBuf,
    taken: keeper::Taken,
}

/// One command's broker.
struct Broker {
    listener: Listener,
    here: Here,
    /// What is not read, where nothing else sees to that.
    reading: Option<Reading>,
    whose: Whose,
    /// What all callers see alike, known from the first of them.
    view: OnceLock<View>,
    turn: Arc<Turn>,
    policy: Policy,
    ledger: Mutex<Ledger>,
    ledger_file: Option<PathBuf>,
    keeper: Keeper,
    exceptions: Exceptions,
    asides: Mutex<Vec<Aside>>,
    /// What all brokers of this home lock in turns (`moves`).
    move_lock: OnceLock<Option<OwnedFd>>,
    refused: Mutex<Vec<String>>,
    /// Bytes of a file that a caller may write.
    most_bytes: u64,
    /// What callers inherited; somebody who asks for another one sets `umask_called`.
    umask: u32,
    umask_called: AtomicBool,
    waiting: AtomicU32,
}

/// What all callers see alike: none gets into another root or namespace.
struct View {
    root: OwnedFd,
    /// The mounts of the roots, where these tell what lies in them.
    mounts: Vec<(u64, Ground)>,
}

/// Whose calls these are.
#[derive(Debug, Clone, Default)]
pub(crate) struct Whose {
    /// The process that all of the command's descend from.
    pub(crate) top: u32,
    /// Set when the command is to end: no process is started any more, where that is asked about.
    pub(crate) ends: Arc<AtomicBool>,
}

/// A broker at work.
pub(crate) struct Running {
    broker: Arc<Broker>,
}

impl Running {
    /// Answers the calls that arrive on `listener` until the command is over.
    pub(crate) fn start(
        listener: OwnedFd,
        plan: &Plan,
        guard: &Guard,
        whose: Whose,
    ) -> std::io::Result<Self> {
        sys::ignore_lease_signals();
        let ledger = session_ledger(plan, guard, true);
        let turn = Arc::new(Turn::default());
        let broker = Arc::new(Broker {
            listener: Listener::new(listener),
            here: Here::of(plan),
            reading: plan.is_reduced().then(|| Reading::of(plan)),
            whose,
            view: OnceLock::new(),
            turn: Arc::clone(&turn),
            policy: Policy::new(plan, guard),
            ledger: Mutex::new(ledger),
            ledger_file: guard.ledger.clone(),
            keeper: Keeper::new(guard, turn),
            exceptions: Exceptions::default(),
            asides: Mutex::default(),
            move_lock: OnceLock::new(),
            refused: Mutex::default(),
            most_bytes: plan.resources.file_bytes,
            umask: inherited_umask(),
            umask_called: AtomicBool::new(false),
            waiting: AtomicU32::new(0),
        });
        let running = Self { broker };
        match running.put_to_work() {
            Ok(()) => Ok(running),
            Err(e) => {
                // Without a listener every call that would be asked about fails.
                running.broker.turn.finish();
                Err(e)
            }
        }
    }

    fn put_to_work(&self) -> std::io::Result<()> {
        let (sender, ready) = std::sync::mpsc::channel();
        for number in 0..limits::BROKER_THREADS {
            let (broker, sender) = (Arc::clone(&self.broker), sender.clone());
            let named = std::thread::Builder::new().name(format!("broker-{number}"));
            let started = named.spawn(move || {
                let prepared = broker.prepare_thread();
                let is_ready = prepared.is_ok();
                // Whoever waits for it is there until all have said so.
                let _ = sender.send(prepared);
                if is_ready {
                    broker.work();
                }
            });
            started?;
        }
        for prepared in ready.iter().take(limits::BROKER_THREADS) {
            prepared?;
        }
        Ok(())
    }

    /// Whether the last process of the command is gone.
    pub(crate) fn is_over(&self) -> bool {
        self.broker.listener.is_over()
    }

    /// Ends with the command: puts back what has no successor and writes the ledger down.
    pub(crate) fn finish(self) -> Guarded {
        self.broker.turn.finish();
        self.broker.finish()
    }
}

/// What the session made so far, with the commits that its repositories were at when it began; the
/// first call of a session `writes` these down.
fn session_ledger(plan: &Plan, guard: &Guard, writes: bool) -> Ledger {
    let found = plan.sealed.iter().filter_map(|path| repository_of(path));
    let heads = || found.map(|repository| (repository.tree().to_path_buf(), repository.head()));
    Ledger::of_session(guard.ledger.as_deref(), writes, heads)
}

/// The repository whose settings a sealed path is.
fn repository_of(sealed: &Path) -> Option<Repository> {
    if !sealed.ends_with(".git/config") {
        return None;
    }
    Repository::around(sealed.parent()?)
}

/// The umask that this process was started with, and so the command too.
fn inherited_umask() -> u32 {
    caller::umask(std::process::id())
}

impl Broker {
    /// A worker's life.
    fn work(self: &Arc<Self>) {
        while self.turn.take() {
            loop {
                let Some(call) = self.listener.receive() else {
                    match self.listener.is_over() {
                        true => return self.turn.leave(),
                        false => continue,
                    }
                };
                self.turn.begin();
                // Whoever waits for an answer that never comes hangs for good.
                let answer = catch_unwind(AssertUnwindSafe(|| self.handle(&call)));
                self.answer(&call, answer.unwrap_or(Err(Errno::IO.into())));
                if !self.turn.end() {
                    break;
                }
            }
        }
    }

    /// A thread that cannot be made harmless answers nothing.
    fn prepare_thread(&self) -> Result<(), Errno> {
        sys::own_umask()?;
        sys::drop_capabilities()
    }

    fn answer(&self, call: &Call, answer: Answer) {
        match answer {
            Ok(Reply::Later) => {}
            Ok(Reply::GoOn) => self.listener.go_on(call),
            Ok(Reply::Value(value)) => self.listener.value(call, value),
            Ok(Reply::File(file, close_on_exec)) => self.listener.file(call, file, close_on_exec),
            Err(no) => self.listener.fail(call, no.errno),
        }
    }

    /// Notes what was refused and why, for the report. Of most refusals there is nothing to be said.
    fn refuse(&self, what: &str, path: impl FnOnce() -> PathBuf, no: No) -> No {
        if let Some(why) = &no.why {
            let line = format!("{what} {}: {why}", path().display());
            let mut refused = lock(&self.refused);
            if refused.len() < limits::BROKER_NOTES && !refused.contains(&line) {
                refused.push(line);
            }
        }
        no
    }

    /// Does something for the caller, as long as it waits.
    fn as_caller(&self, call: &Call, act: impl FnOnce(&Caller) -> Answer) -> Answer {
        let view = match self.view.get() {
            Some(view) => view,
            None => {
                let found = self.look_through(call.pid)?;
                // Only while the caller waits is its number its own.
                if !self.listener.still_waits(call) {
                    return Ok(Reply::Later);
                }
                self.view.get_or_init(|| found)
            }
        };
        act(&Caller {
            pid: call.pid,
            root: &view.root,
            top: self.reading.as_ref().map(|_| self.whose.top),
        })
    }

    fn look_through(&self, pid: u32) -> Result<View, Errno> {
        let mounts = std::fs::read(format!("/proc/{pid}/mountinfo"));
        let mounts = mounts.map_err(|_| Errno::IO)?;
        Ok(View {
            root: caller::own(pid, "root")?,
            mounts: self.here.mounts(&mounts),
        })
    }

    /// Makes this thread's umask the caller's.
    #[must_use]
    fn take_umask(&self, caller: &Caller) -> Umask {
        let wanted = match self.umask_called.load(Ordering::Relaxed) {
            true => caller::umask(caller.pid),
            false => self.umask,
        };
        let changed = wanted != self.umask;
        if changed {
            Umask::set(wanted);
        }
        Umask {
            own: self.umask,
            changed,
        }
    }

    /// Tries again on a thread of its own until the caller is gone: what may wait for ever must
    /// not hold up the others.
    fn wait(
        self: &Arc<Self>,
        call: &Call,
        mut again: impl FnMut(&Arc<Self>, &Call) -> Answer + Send + 'static,
    ) -> Answer {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= limits::BROKER_WAITING {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(Errno::AGAIN.into());
        }
        let (broker, call) = (Arc::clone(self), *call);
        let helper = move || {
            let ready = broker.prepare_thread().is_ok();
            while ready && broker.listener.still_waits(&call) {
                std::thread::sleep(Duration::from_millis(2));
                match again(&broker, &call) {
                    Err(No {
                        errno: Errno::AGAIN,
                        ..
                    })
                    | Ok(Reply::Later) => {}
                    answer => {
                        broker.answer(&call, answer);
                        break;
                    }
                }
            }
            broker.waiting.fetch_sub(1, Ordering::Relaxed);
        };
        let named = std::thread::Builder::new().name("broker-wait".into());
        match named.spawn(helper) {
            Ok(_) => Ok(Reply::Later),
            Err(_) => Err(Errno::AGAIN.into()),
        }
    }

    /// Puts an old file back where it was, unless that folder is one of build products by now.
    fn gets_back(&self, aside: &Aside) -> bool {
        use std::os::fd::AsFd;
        let Some(dir) = aside.dir.open() else {
            return false;
        };
        let lies = object::path_of(&dir).map(|dir| dir.join(ledger::os(&aside.name)));
        lies.is_ok_and(|lies| self.may_come(&aside.origin, &lies))
            && (self.keeper).give_back(&aside.taken, dir.as_fd(), &aside.name)
    }

    fn finish(&self) -> Guarded {
        let mut put_back = Vec::new();
        for aside in std::mem::take(&mut *lock(&self.asides)) {
            if self.gets_back(&aside) {
                put_back.push(aside.origin);
            }
        }
        self.keeper.close();
        let mut refused = std::mem::take(&mut *lock(&self.refused));
        if let Err(e) = lock(&self.ledger).save(self.ledger_file.as_deref()) {
            refused.push(format!(
                "the session's ledger could not be written ({e}): later commands cannot remove \
                 what this one made"
            ));
        }
        let mut kept = self.keeper.kept();
        let kept_total = kept.len();
        kept.truncate(limits::KEPT_NAMED);
        Guarded {
            kept,
            kept_total,
            put_back,
            dropped: self.keeper.dropped(),
            refused,
        }
    }

    /// One call.
    fn handle(self: &Arc<Self>, call: &Call) -> Answer {
        self.as_caller(call, |caller| self.handle_for(caller, call))
    }

    fn handle_for(self: &Arc<Self>, caller: &Caller, call: &Call) -> Answer {
        let a = &call.data.args;
        let int = |n: usize| a[n] as i32;
        let mode = |n: usize| a[n] as u32;
        let at = |dir: usize, path: usize| (int(dir), a[path]);
        match libc::c_long::from(call.data.nr) {
            libc::SYS_openat => self.open(call, caller, at(0, 1), int(2), mode(3)),
            libc::SYS_truncate => self.truncate(call, caller, a[0], a[1].cast_signed()),
            libc::SYS_unlinkat => {
                let folder = int(2) & libc::AT_REMOVEDIR != 0;
                self.remove(call, caller, at(0, 1), folder)
            }
            libc::SYS_renameat => self.rename(call, caller, at(0, 1), at(2, 3), 0),
            libc::SYS_renameat2 => self.rename(call, caller, at(0, 1), at(2, 3), mode(4)),
            libc::SYS_linkat => self.link(call, caller, at(0, 1), at(2, 3), int(4)),
            libc::SYS_symlinkat => self.symlink(call, caller, a[0], at(1, 2)),
            libc::SYS_mkdirat => self.mkdir(call, caller, at(0, 1), mode(2)),
            libc::SYS_mknodat => self.mknod(call, caller, at(0, 1), mode(2)),
            libc::SYS_umask => {
                self.umask_called.store(true, Ordering::Relaxed);
                Ok(Reply::GoOn)
            }
            number => {
                let answer = self.handle_process(number, call, caller);
                let answer = answer.or_else(|| self.handle_attributes(number, call, caller));
                answer.unwrap_or_else(|| self.handle_old(number, call, caller))
            }
        }
    }

    /// The calls without a folder's descriptor, which newer architectures do not have.
    #[cfg(target_arch = "x86_64")]
    fn handle_old(self: &Arc<Self>, number: i64, call: &Call, caller: &Caller) -> Answer {
        let a = &call.data.args;
        let here = |path: usize| (libc::AT_FDCWD, a[path]);
        let mode = |n: usize| a[n] as u32;
        match number {
            libc::SYS_open => self.open(call, caller, here(0), a[1] as i32, mode(2)),
            libc::SYS_creat => {
                let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
                self.open(call, caller, here(0), flags, mode(1))
            }
            libc::SYS_unlink => self.remove(call, caller, here(0), false),
            libc::SYS_rmdir => self.remove(call, caller, here(0), true),
            libc::SYS_rename => self.rename(call, caller, here(0), here(1), 0),
            libc::SYS_link => self.link(call, caller, here(0), here(1), 0),
            libc::SYS_symlink => self.symlink(call, caller, a[0], here(1)),
            libc::SYS_mkdir => self.mkdir(call, caller, here(0), mode(1)),
            libc::SYS_mknod => self.mknod(call, caller, here(0), mode(1)),
            _ => Ok(Reply::GoOn),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn handle_old(self: &Arc<Self>, _: i64, _: &Call, _: &Caller) -> Answer {
        Ok(Reply::GoOn)
    }
}
