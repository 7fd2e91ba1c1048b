//! Mode, owner and times of files, where no read-only mount keeps a command from changing those of
//! every file of the user's.

use super::caller::Caller;
use super::keeper::lock;
use super::object::{Kind, Stat, own_name, path_of};
use super::sys::{self, Call};
use super::{Answer, Broker, No, Reply};
use rustix::fs::{AtFlags, CWD, Gid, Mode, Timespec, Timestamps, UTIME_NOW, Uid};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// `fchmodat2`, newer than the list of calls that is used here.
const SYS_FCHMODAT2: i64 = 452;

/// What is to be set.
enum Setting {
    Mode(u32),
    Owner(u32, u32),
    Times(Timestamps),
}

/// Whose: what stands at a path or behind a descriptor.
#[derive(Clone, Copy)]
struct Target {
    dir: i32,
    /// Absent: the descriptor itself is meant.
    path: Option<u64>,
    follow: bool,
    /// Whether an empty path means the descriptor.
    empty: bool,
}

impl Target {
    fn at(dir: i32, path: u64, flags: i32) -> Self {
        Self {
            dir,
            path: Some(path),
            follow: flags & libc::AT_SYMLINK_NOFOLLOW == 0,
            empty: flags & libc::AT_EMPTY_PATH != 0,
        }
    }

    fn of(descriptor: i32) -> Self {
        Self {
            dir: descriptor,
            path: None,
            follow: true,
            empty: true,
        }
    }
}

impl Broker {
    /// The calls about attributes; none for another one.
    pub(super) fn handle_attributes(
        &self,
        number: i64,
        call: &Call,
        caller: &Caller,
    ) -> Option<Answer> {
        let wish = match attribute_call(number, call, caller)? {
            Ok(wish) => wish,
            Err(errno) => return Some(Err(errno.into())),
        };
        Some(self.set(call, caller, wish))
    }

    fn set(&self, call: &Call, caller: &Caller, (target, setting): (Target, Setting)) -> Answer {
        let (object, seen) = self.target(caller, target)?;
        if !self.listener.still_waits(call) {
            return Ok(Reply::Later);
        }
        let path = path_of(&object)?;
        self.may_set(&object, &seen)
            .and_then(|()| Ok(apply(&object, &seen, setting)?))
            .map(|()| Reply::Value(0))
            .map_err(|no| self.refuse("set the mode, owner or times of", || path, no))
    }

    fn target(&self, caller: &Caller, target: Target) -> Result<(OwnedFd, Stat), No> {
        let path = match target.path {
            Some(address) => caller.path(address)?,
            None => Vec::new(),
        };
        if path.is_empty() && !target.empty {
            return Err(Errno::NOENT.into());
        }
        Ok(caller.object(target.dir, &path, target.follow)?)
    }

    fn may_set(&self, object: &OwnedFd, seen: &Stat) -> Result<(), No> {
        if self.ground(object, seen).is_none() {
            return Err(Errno::PERM.into());
        }
        self.policy.may_change(seen)?;
        self.policy
            .may_write_at(&path_of(object)?, &lock(&self.ledger))
    }
}

fn apply(object: &OwnedFd, seen: &Stat, setting: Setting) -> Result<(), Errno> {
    match setting {
        // A link has no mode of its own.
        Setting::Mode(_) if seen.is(Kind::Link) => Err(Errno::OPNOTSUPP),
        Setting::Mode(mode) => {
            let mode = Mode::from_raw_mode(mode & 0o7777);
            rustix::fs::chmodat(CWD, own_name(object).as_c_str(), mode, AtFlags::empty())
        }
        Setting::Owner(user, group) => {
            let user = (user != u32::MAX).then(|| Uid::from_raw(user));
            let group = (group != u32::MAX).then(|| Gid::from_raw(group));
            rustix::fs::chownat(object, c"", user, group, AtFlags::EMPTY_PATH)
        }
        Setting::Times(times) => rustix::fs::utimensat(object, c"", &times, AtFlags::EMPTY_PATH),
    }
}

/// What a call asks for; none for a call about something else.
fn attribute_call(
    number: i64,
    call: &Call,
    caller: &Caller,
) -> Option<Result<(Target, Setting), Errno>> {
    let a = &call.data.args;
    let int = |n: usize| a[n] as i32;
    let word = |n: usize| a[n] as u32;
    let at = |flags: i32| Target::at(int(0), a[1], flags);
    Some(match number {
        libc::SYS_fchmod => Ok((Target::of(int(0)), Setting::Mode(word(1)))),
        libc::SYS_fchmodat => Ok((at(0), Setting::Mode(word(2)))),
        SYS_FCHMODAT2 => Ok((at(int(3)), Setting::Mode(word(2)))),
        libc::SYS_fchown => Ok((Target::of(int(0)), Setting::Owner(word(1), word(2)))),
        libc::SYS_fchownat => Ok((at(int(4)), Setting::Owner(word(2), word(3)))),
        libc::SYS_utimensat => {
            let target = match a[1] {
                0 => Target::of(int(0)),
                _ => at(int(3)),
            };
            times(caller, a[2], Unit::Nanoseconds).map(|times| (target, Setting::Times(times)))
        }
        number => return old_call(number, call, caller),
    })
}

/// The calls that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
fn old_call(number: i64, call: &Call, caller: &Caller) -> Option<Result<(Target, Setting), Errno>> {
    let a = &call.data.args;
    let word = |n: usize| a[n] as u32;
    let here = Target::at(libc::AT_FDCWD, a[0], 0);
    let timed = |target, address, unit| {
        times(caller, address, unit).map(|times| (target, Setting::Times(times)))
    };
    Some(match number {
        libc::SYS_chmod => Ok((here, Setting::Mode(word(1)))),
        libc::SYS_chown => Ok((here, Setting::Owner(word(1), word(2)))),
        libc::SYS_lchown => {
            let link = Target::at(libc::AT_FDCWD, a[0], libc::AT_SYMLINK_NOFOLLOW);
            Ok((link, Setting::Owner(word(1), word(2))))
        }
        libc::SYS_utime => timed(here, a[1], Unit::Seconds),
        libc::SYS_utimes => timed(here, a[1], Unit::Microseconds),
        libc::SYS_futimesat => {
            let target = match a[1] {
                0 => Target::of(a[0] as i32),
                path => Target::at(a[0] as i32, path, 0),
            };
            timed(target, a[2], Unit::Microseconds)
        }
        _ => return None,
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn old_call(_: i64, _: &Call, _: &Caller) -> Option<Result<(Target, Setting), Errno>> {
    None
}

/// How a call tells times.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "calls that only older architectures have")
)]
enum Unit {
    /// Two numbers.
    Seconds,
    /// Two pairs of numbers.
    Microseconds,
    Nanoseconds,
}

/// Access and modification time from the caller's memory; now for both where it names none.
fn times(caller: &Caller, address: u64, unit: Unit) -> Result<Timestamps, Errno> {
    if address == 0 {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        return Ok(Timestamps {
            last_access: now,
            last_modification: now,
        });
    }
    let mut bytes = [0u8; 32];
    let length = if unit == Unit::Seconds { 16 } else { 32 };
    if sys::read_memory(caller.pid, address, &mut bytes[..length])? != length {
        return Err(Errno::FAULT);
    }
    let number = |n: usize| {
        let word = bytes[8 * n..].first_chunk().copied();
        i64::from_ne_bytes(word.unwrap_or_default())
    };
    let time = |n: usize| match unit {
        Unit::Seconds => (number(n), 0),
        Unit::Microseconds => (number(2 * n), number(2 * n + 1).saturating_mul(1000)),
        Unit::Nanoseconds => (number(2 * n), number(2 * n + 1)),
    };
    let stamp = |(tv_sec, tv_nsec)| Timespec { tv_sec, tv_nsec };
    Ok(Timestamps {
        last_access: stamp(time(0)),
        last_modification: stamp(time(1)),
    })
}
