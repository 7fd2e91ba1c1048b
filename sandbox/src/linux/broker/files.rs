//! Opening and truncating.

use super::caller::{Caller, Place};
use super::keeper::lock;
use super::object::{Kind, Stat, path_of, reopen, stat};
use super::sys::Call;
use super::{Answer, At, Broker, Ground, No, Reply};
use crate::limits;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// What an open call asks for.
#[derive(Clone, Copy)]
pub(super) struct Wish {
    dir: i32,
    address: u64,
    flags: OFlags,
    mode: u32,
    /// Whether a helper thread tries again, and so nothing may be put off once more.
    pub(super) again: bool,
}

impl Wish {
    pub(super) fn has(&self, flags: OFlags) -> bool {
        self.flags.contains(flags)
    }

    fn writes(&self) -> bool {
        self.flags.bits() & libc::O_ACCMODE as u32 != 0
    }

    fn changes(&self) -> bool {
        self.writes() || self.flags.intersects(OFlags::CREATE | OFlags::TRUNC)
    }

    pub(super) fn is_exclusive(&self) -> bool {
        self.has(OFlags::CREATE | OFlags::EXCL)
    }

    /// The flags for opening what is there.
    pub(super) fn existing(&self) -> OFlags {
        let creating = OFlags::CREATE | OFlags::EXCL | OFlags::TRUNC | OFlags::NOFOLLOW;
        self.flags & !creating
    }

    pub(super) fn reply(&self, file: OwnedFd) -> Reply {
        Reply::File(file, self.has(OFlags::CLOEXEC))
    }
}

impl Broker {
    pub(super) fn open(
        self: &Arc<Self>,
        call: &Call,
        caller: &Caller,
        (dir, address): At,
        flags: i32,
        mode: u32,
    ) -> Answer {
        let wish = Wish {
            dir,
            address,
            flags: OFlags::from_bits_retain(flags as u32),
            mode,
            again: false,
        };
        self.try_open(call, caller, wish)
    }

    fn try_open(self: &Arc<Self>, call: &Call, caller: &Caller, wish: Wish) -> Answer {
        if wish.has(OFlags::PATH) {
            return Ok(Reply::GoOn);
        }
        // Neither reading nor writing: no rule knows it, and it serves for settings of devices.
        if self.reading.is_some() && wish.flags.bits() & libc::O_ACCMODE as u32 == 3 {
            return Err(Errno::ACCESS.into());
        }
        let follow = !wish.has(OFlags::NOFOLLOW) && !wish.is_exclusive();
        let path = match caller.path(wish.address) {
            Ok(path) => path,
            Err(e) => return self.unresolved(&wish, e),
        };
        for _ in 0..limits::BROKER_TRIES {
            // What cannot be resolved, and what lies elsewhere, the kernel judges.
            let place = match caller.resolve(wish.dir, &path, follow) {
                Ok(place) => place,
                Err(e) => return self.unresolved(&wish, e),
            };
            let folder = place.entry.as_ref().map(|(folder, _)| folder);
            let (lies, seen) = match (&place.object, folder) {
                (Some((object, seen)), _) => (object, *seen),
                (None, Some(folder)) => (folder, stat(folder)?),
                (None, None) => return self.unresolved(&wish, Errno::NOENT),
            };
            let ground = self.ground(lies, &seen);
            if !self.listener.still_waits(call) {
                return Ok(Reply::Later);
            }
            let object = place.object.as_ref().filter(|_| self.judges(&wish));
            if let Some((object, _)) =
                object.filter(|_| ground.is_none() || !wish.has(OFlags::TRUNC))
            {
                return self.read_there(call, object, &seen, wish);
            }
            let Some(ground) = ground else {
                let error = match wish.has(OFlags::CREATE) {
                    true => Errno::ACCESS,
                    false => Errno::NOENT,
                };
                return self.unresolved(&wish, error);
            };
            match &place.object {
                None => match self.create_file(caller, &place, &wish) {
                    // Somebody was faster: look again.
                    Err(No {
                        errno: Errno::EXIST,
                        ..
                    }) if !wish.is_exclusive() => {}
                    answer => return answer,
                },
                Some((object, _)) => {
                    return self.open_there(call, caller, object, &seen, ground, wish);
                }
            }
        }
        Err(Errno::AGAIN.into())
    }

    /// Whether nobody else judges an opening: for one that does not write, no right is needed.
    fn judges(&self, wish: &Wish) -> bool {
        self.reading.is_some() && !wish.writes()
    }

    /// What cannot be resolved, and what lies elsewhere, the kernel judges, where it does.
    fn unresolved(&self, wish: &Wish, error: Errno) -> Answer {
        match self.judges(wish) {
            true => Err(error.into()),
            false => Ok(Reply::GoOn),
        }
    }

    fn create_file(&self, caller: &Caller, place: &Place, wish: &Wish) -> Answer {
        let Some((folder, name)) = &place.entry else {
            return Err(Errno::NOENT.into());
        };
        if !wish.has(OFlags::CREATE) {
            return Err(Errno::NOENT.into());
        }
        if place.slash {
            return Err(Errno::ISDIR.into());
        }
        let above = path_of(folder)?;
        let mut ledger = lock(&self.ledger);
        let named = self.policy.may_name(&above, name, &ledger);
        named.map_err(|no| self.refuse("create", || above.join(super::ledger::os(name)), no))?;
        let _umask = self.take_umask(caller);
        let alone = OFlags::EXCL | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
        let flags = (wish.flags & !OFlags::TRUNC) | alone;
        let mode = Mode::from_bits_truncate(wish.mode & 0o7777);
        let file = rustix::fs::openat(folder, name.as_c_str(), flags, mode)?;
        if !self.takes_an_old_name(&above, name) {
            ledger.note_made(stat(&file)?.id);
        }
        Ok(wish.reply(file))
    }

    fn open_there(
        self: &Arc<Self>,
        call: &Call,
        caller: &Caller,
        object: &OwnedFd,
        seen: &Stat,
        ground: Ground,
        wish: Wish,
    ) -> Answer {
        if wish.has(OFlags::TMPFILE) {
            return self.open_unnamed(caller, object, &wish);
        }
        if wish.is_exclusive() {
            return Err(Errno::EXIST.into());
        }
        let path = path_of(object)?;
        let allowed = self
            .policy
            .may_change(seen)
            .and_then(|()| self.policy.may_write_at(&path, &lock(&self.ledger)));
        match seen.kind() {
            Kind::Link => Err(Errno::LOOP.into()),
            Kind::Folder if wish.changes() => Err(Errno::ISDIR.into()),
            Kind::Folder => Ok(Reply::GoOn),
            Kind::Pipe => self.open_pipe(call, object, &wish),
            Kind::Socket | Kind::Other => Err(Errno::NXIO.into()),
            Kind::File => {
                allowed.map_err(|no| self.refuse("write", || path.clone(), no))?;
                if self.reading.is_some() {
                    self.may_read(object, seen)?;
                }
                self.open_file(call, object, seen, ground, wish)
                    .map_err(|no| self.refuse("write", || path, no))
            }
        }
    }

    /// An unnamed file in a folder.
    fn open_unnamed(&self, caller: &Caller, folder: &OwnedFd, wish: &Wish) -> Answer {
        let _umask = self.take_umask(caller);
        let flags = (wish.flags & !OFlags::NOFOLLOW) | OFlags::CLOEXEC;
        let mode = Mode::from_bits_truncate(wish.mode & 0o7777);
        let file = rustix::fs::openat(folder, c".", flags, mode)?;
        lock(&self.ledger).note_made(stat(&file)?.id);
        Ok(wish.reply(file))
    }

    fn open_file(
        self: &Arc<Self>,
        call: &Call,
        object: &OwnedFd,
        seen: &Stat,
        ground: Ground,
        wish: Wish,
    ) -> Answer {
        // The kernel's own checks come before any copy. Without waiting: somebody's lease must
        // not hold up the broker.
        let first = match self.reopen_for(object, &wish) {
            Err(No {
                errno: Errno::AGAIN,
                ..
            }) if !wish.again => return self.open_later(call, wish),
            opened => opened?,
        };
        let free = ground == Ground::Scratch || lock(&self.ledger).is_made(&seen.id);
        if free || self.is_free_to_write(object, seen) {
            if wish.has(OFlags::TRUNC) {
                let file = reopen(object, OFlags::WRONLY | OFlags::NONBLOCK)?;
                rustix::fs::ftruncate(file, 0)?;
            }
            return Ok(wish.reply(first));
        }
        if seen.size > limits::LARGE_COPY && !wish.again {
            // Others must not wait for a long copy.
            drop(first);
            return self.open_later(call, wish);
        }
        if wish.has(OFlags::TRUNC) {
            // A lease is had only by whoever is alone with the file.
            drop(first);
            self.keeper.cut(&self.ledger, object, 0, "truncated")?;
            return Ok(wish.reply(self.reopen_for(object, &wish)?));
        }
        self.keeper
            .keep(&self.ledger, object, "opened for writing")?;
        Ok(wish.reply(first))
    }

    pub(super) fn open_later(self: &Arc<Self>, call: &Call, wish: Wish) -> Answer {
        let again = Wish {
            again: true,
            ..wish
        };
        self.wait(call, move |broker, call| {
            broker.as_caller(call, |caller| broker.try_open(call, caller, again))
        })
    }

    pub(super) fn reopen_for(&self, object: &OwnedFd, wish: &Wish) -> Result<OwnedFd, No> {
        let file = reopen(object, wish.existing() | OFlags::NONBLOCK)?;
        if !wish.has(OFlags::NONBLOCK) {
            let flags = rustix::fs::fcntl_getfl(&file)? & !OFlags::NONBLOCK;
            rustix::fs::fcntl_setfl(&file, flags)?;
        }
        Ok(file)
    }

    pub(super) fn open_pipe(
        self: &Arc<Self>,
        call: &Call,
        object: &OwnedFd,
        wish: &Wish,
    ) -> Answer {
        let flags = wish.existing();
        let close_on_exec = wish.has(OFlags::CLOEXEC);
        if flags.intersects(OFlags::NONBLOCK | OFlags::RDWR) {
            return Ok(Reply::File(reopen(object, flags)?, close_on_exec));
        }
        let object = object.try_clone().map_err(|_| Errno::MFILE)?;
        self.wait(call, move |_, _| {
            match reopen(&object, flags | OFlags::NONBLOCK) {
                // Nobody reads yet.
                Err(Errno::NXIO) => Err(Errno::AGAIN.into()),
                Err(e) => Err(e.into()),
                Ok(pipe) => {
                    rustix::fs::fcntl_setfl(pipe.as_fd(), flags)?;
                    Ok(Reply::File(pipe, close_on_exec))
                }
            }
        })
    }

    pub(super) fn truncate(
        self: &Arc<Self>,
        call: &Call,
        caller: &Caller,
        address: u64,
        length: i64,
    ) -> Answer {
        let place = caller
            .path(address)
            .and_then(|path| caller.resolve(libc::AT_FDCWD, &path, true));
        let Ok(Some((object, seen))) = place.map(|place| place.object) else {
            return Ok(Reply::GoOn);
        };
        let Some(ground) = self.ground(&object, &seen).filter(|_| seen.is(Kind::File)) else {
            return Ok(Reply::GoOn);
        };
        if !self.listener.still_waits(call) {
            return Ok(Reply::Later);
        }
        let path = path_of(&object)?;
        self.truncate_there(&object, &seen, ground, &path, length)
            .map_err(|no| self.refuse("truncate", || path.clone(), no))
    }

    fn truncate_there(
        &self,
        object: &OwnedFd,
        seen: &Stat,
        ground: Ground,
        path: &std::path::Path,
        length: i64,
    ) -> Answer {
        let length = u64::try_from(length).map_err(|_| Errno::INVAL)?;
        if length > self.most_bytes {
            return Err(Errno::FBIG.into());
        }
        self.policy.may_change(seen)?;
        self.policy.may_write_at(path, &lock(&self.ledger))?;
        let free = ground == Ground::Scratch || lock(&self.ledger).is_made(&seen.id);
        if free || self.is_free_to_write(object, seen) {
            let file = reopen(object, OFlags::WRONLY | OFlags::NONBLOCK)?;
            rustix::fs::ftruncate(file, length)?;
        } else {
            self.keeper.cut(&self.ledger, object, length, "truncated")?;
        }
        Ok(Reply::Value(0))
    }
}
