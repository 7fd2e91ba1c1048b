//! Opening for reading, where nothing but the broker hides what is not to be read.
//!
//! The broker opens every file itself, and leaves none to the kernel: between its look and the
//! kernel's the path may have changed.

use super::caller::{is_procfs, look_here};
use super::files::Wish;
use super::object::{Id, Kind, Stat, path_of, reopen};
use super::sys::Call;
use super::{Answer, Broker, No};
use crate::linux::ruleset::SHARED_DEVICES;
use crate::plan::Plan;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Devices, terminals, and other programs' memory.
const DEVICES: &str = "/dev";
/// What may be read in `/proc` of a process that is not the command's: no arguments, no environment.
const OF_OTHERS: &[&str] = &["stat", "statm", "status", "comm"];

/// What is not read.
pub(super) struct Reading {
    hidden: Vec<PathBuf>,
    /// The same by identity: by another name it is the same secret.
    ids: HashSet<Id>,
    /// The folders of the plan, one of which may lie among devices.
    places: Vec<PathBuf>,
    /// The private tmp, which lies in what is hidden.
    tmp: PathBuf,
}

impl Reading {
    pub(super) fn of(plan: &Plan) -> Self {
        let seen = plan.masks.iter().filter_map(|path| look_here(path));
        Self {
            ids: seen.map(|seen| seen.id).collect(),
            hidden: plan.masks.clone(),
            places: plan.places().cloned().collect(),
            tmp: plan.tmp.clone(),
        }
    }

    fn is_hidden(&self, path: &Path, id: &Id) -> bool {
        let depth = |place: &PathBuf| place.components().count();
        let around = self.hidden.iter().filter(|hidden| path.starts_with(hidden));
        let hidden = around.map(depth).max();
        let tmp = Some(depth(&self.tmp)).filter(|_| path.starts_with(&self.tmp));
        let is_device = path.starts_with(DEVICES)
            && tmp.is_none()
            && !self.places.iter().any(|place| path.starts_with(place));
        self.ids.contains(id) || hidden > tmp || is_device
    }
}

impl Broker {
    /// Opens for reading what is not hidden.
    pub(super) fn read_there(
        self: &Arc<Self>,
        call: &Call,
        object: &OwnedFd,
        seen: &Stat,
        wish: Wish,
    ) -> Answer {
        if wish.is_exclusive() {
            return Err(Errno::EXIST.into());
        }
        self.may_read(object, seen)?;
        match seen.kind() {
            Kind::Folder if wish.has(OFlags::CREATE) => Err(Errno::ISDIR.into()),
            // What is not the command's to change.
            Kind::File | Kind::Folder if wish.has(OFlags::TRUNC) => Err(Errno::ACCESS.into()),
            Kind::File | Kind::Folder | Kind::Other => match self.reopen_for(object, &wish) {
                Err(No {
                    errno: Errno::AGAIN,
                    ..
                }) if !wish.again => self.open_later(call, wish),
                opened => Ok(wish.reply(opened?)),
            },
            Kind::Link => Err(Errno::LOOP.into()),
            Kind::Pipe => self.read_pipe(call, object, &wish),
            Kind::Socket => Err(Errno::NXIO.into()),
        }
    }

    /// A pipe with a name has its reader wait for a writer: until it writes or has gone again.
    fn read_pipe(self: &Arc<Self>, call: &Call, object: &OwnedFd, wish: &Wish) -> Answer {
        let flags = wish.existing();
        let pipe = reopen(object, flags | OFlags::NONBLOCK)?;
        if flags.contains(OFlags::NONBLOCK) || !path_of(object)?.is_absolute() {
            rustix::fs::fcntl_setfl(&pipe, flags)?;
            return Ok(wish.reply(pipe));
        }
        let (wish, mut pipe) = (*wish, Some(pipe));
        self.wait(call, move |_, _| {
            let opened = pipe
                .take_if(|pipe| has_had_writer(pipe))
                .ok_or(Errno::AGAIN)?;
            rustix::fs::fcntl_setfl(&opened, flags)?;
            Ok(wish.reply(opened))
        })
    }

    pub(super) fn may_read(&self, object: &OwnedFd, seen: &Stat) -> Result<(), No> {
        let Some(reading) = &self.reading else {
            return Err(Errno::ACCESS.into());
        };
        let path = path_of(object)?;
        // A name without a beginning slash is of a pipe or the like that the command has already: no
        // other process's was followed.
        let is_free = match seen.kind() {
            Kind::Other => is_harmless(&path),
            _ if !path.is_absolute() => true,
            _ if is_procfs(object) => self.may_read_of_process(&path, seen),
            _ => !reading.is_hidden(&path, &seen.id),
        };
        match is_free {
            true => Ok(()),
            false => Err(Errno::ACCESS.into()),
        }
    }

    /// What `/proc` says of a process is for the command's own; of others little.
    fn may_read_of_process(&self, path: &Path, seen: &Stat) -> bool {
        let Some(pid) = process_of(path) else {
            return true;
        };
        let name = path.file_name().unwrap_or_default();
        let is_little = match seen.is(Kind::Folder) {
            true => name == pid.to_string().as_str(),
            false => OF_OTHERS.iter().any(|of| name == *of),
        };
        is_little || self.is_ours(pid)
    }
}

/// Whether something was written to a pipe since it was opened here, or a writer came and went.
fn has_had_writer(pipe: &OwnedFd) -> bool {
    let mut news = [PollFd::new(pipe, PollFlags::IN)];
    let polled = poll(&mut news, Some(&Timespec::default()));
    polled.is_ok() && !news[0].revents().is_empty()
}

/// Whether a device is one of those that hold nothing.
fn is_harmless(path: &Path) -> bool {
    let name = path.strip_prefix(DEVICES).ok();
    name.is_some_and(|name| SHARED_DEVICES.iter().any(|known| name == Path::new(known)))
}

/// The process that a path in a `/proc` is about, wherever that is mounted.
pub(super) fn process_of(path: &Path) -> Option<u32> {
    path.components().find_map(|part| match part {
        Component::Normal(name) => name.to_str()?.parse().ok(),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_private_tmp_is_read_though_it_lies_in_what_is_hidden() {
        let id = Id {
            dev: 1,
            ino: 2,
            born: (3, 4),
        };
        let reading = Reading {
            hidden: ["/h", "/w/.env", "/h/tmp/x/shut"].map(PathBuf::from).into(),
            places: vec!["/dev/shm/w".into()],
            ids: HashSet::from([Id { ino: 9, ..id }]),
            tmp: "/h/tmp".into(),
        };
        for (path, hidden) in [
            ("/h", true),
            ("/h/key", true),
            ("/h/tmp", false),
            ("/h/tmp/x", false),
            ("/h/tmp/x/shut/y", true),
            ("/w/.env", true),
            ("/w/.envrc", false),
            ("/dev/shm/other", true),
            ("/dev/shm/w/x", false),
            ("/etc/passwd", false),
        ] {
            assert_eq!(reading.is_hidden(Path::new(path), &id), hidden, "{path}");
        }
        assert!(reading.is_hidden(Path::new("/w/link"), &Id { ino: 9, ..id }));
    }

    #[test]
    fn processes_and_devices_are_known_by_their_paths() {
        assert_eq!(process_of(Path::new("/proc/12/task/13/environ")), Some(12));
        assert_eq!(process_of(Path::new("/proc/meminfo")), None);
        assert_eq!(process_of(Path::new("/proc/sys/fs/file-max")), None);
        for (path, harmless) in [
            ("/dev/null", true),
            ("/dev/urandom", true),
            ("/dev/tty", false),
            ("/dev/sda", false),
            ("/dev/pts/0", false),
            ("/w/null", false),
        ] {
            assert_eq!(is_harmless(Path::new(path)), harmless, "{path}");
        }
    }
}
