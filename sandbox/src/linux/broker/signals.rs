//! Signals and new processes, where the command's processes are among all others.

use super::caller::Caller;
use super::sys::Call;
use super::{Answer, Broker, Reply};
use crate::linux::reduced::OF_PROCESSES;
use crate::linux::tree;
use rustix::io::Errno;
use rustix::process::Signal;
use std::sync::atomic::Ordering;

impl Broker {
    /// The calls about processes; none for another one.
    pub(super) fn handle_process(
        &self,
        number: i64,
        call: &Call,
        caller: &Caller,
    ) -> Option<Answer> {
        let a = &call.data.args;
        Some(match number {
            libc::SYS_kill => self.kill(a[0] as i32, a[1] as i32, caller),
            libc::SYS_tkill | libc::SYS_rt_sigqueueinfo => self.signal_one(a[0] as i32),
            libc::SYS_tgkill | libc::SYS_rt_tgsigqueueinfo => {
                // The kernel sees to it that the thread is the process's.
                self.signal_one(a[0] as i32)
            }
            libc::SYS_inotify_add_watch => self.watch(call, caller),
            libc::SYS_clone => self.start_one(),
            number if let Some((_, n)) = OF_PROCESSES.iter().find(|(of, _)| *of == number) => {
                self.signal_one(a[*n] as i32)
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_fork | libc::SYS_vfork => self.start_one(),
            _ => return None,
        })
    }

    /// Names in a hidden folder, and what is done there, are not told. (A path that is changed just then
    /// may tell a name, and no content.)
    fn watch(&self, call: &Call, caller: &Caller) -> Answer {
        let path = caller.path(call.data.args[1])?;
        let follow = call.data.args[2] as u32 & libc::IN_DONT_FOLLOW == 0;
        let place = caller.resolve(libc::AT_FDCWD, &path, follow)?;
        let (object, seen) = place.object.ok_or(Errno::NOENT)?;
        self.may_read(&object, &seen).map(|()| Reply::GoOn)
    }

    /// No process is started when the command is to end: what is to be ended must not grow.
    fn start_one(&self) -> Answer {
        match self.whose.ends.load(Ordering::SeqCst) {
            true => Err(Errno::AGAIN.into()),
            false => Ok(Reply::GoOn),
        }
    }

    fn signal_one(&self, pid: i32) -> Answer {
        match u32::try_from(pid) {
            Ok(pid) if self.is_ours(pid) => Ok(Reply::GoOn),
            _ => Err(Errno::PERM.into()),
        }
    }

    pub(super) fn is_ours(&self, pid: u32) -> bool {
        pid > 0 && tree::is_below(pid, self.whose.top)
    }

    fn kill(&self, pid: i32, signal: i32, caller: &Caller) -> Answer {
        match pid {
            -1 => self.signal_all(signal, caller),
            0 => self.signal_group(tree::group(caller.process()?).ok_or(Errno::SRCH)?),
            1.. => self.signal_one(pid),
            group => self.signal_group(group.unsigned_abs()),
        }
    }

    fn signal_group(&self, group: u32) -> Answer {
        let members = tree::members(group);
        if members.is_empty() {
            return Err(Errno::SRCH.into());
        }
        match members.iter().all(|pid| self.is_ours(*pid)) {
            true => Ok(Reply::GoOn),
            false => Err(Errno::PERM.into()),
        }
    }

    /// To every process of the command but the caller, as far as another one would get it.
    fn signal_all(&self, signal: i32, caller: &Caller) -> Answer {
        let own = caller.process()?;
        let mut others = tree::living(self.whose.top);
        others.retain(|(pid, _)| *pid != own);
        if others.is_empty() {
            return Err(Errno::SRCH.into());
        }
        if signal == 0 {
            return Ok(Reply::Value(0));
        }
        let signal = Signal::from_named_raw(signal).ok_or(Errno::INVAL)?;
        for (pid, _) in others {
            // One that is gone by now needs none.
            let _ = tree::signal(pid, self.whose.top, signal);
        }
        Ok(Reply::Value(0))
    }
}
