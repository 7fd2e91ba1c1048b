//! What happens when two act at once: paths that change while they are read, a person who saves
//! meanwhile, programs that run what they have just written, signals. The attackers are this same
//! test program, started again inside the sandbox.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::World;
use std::ffi::CString;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const TRIES: usize = 10_000;

/// The line that starts an attacker inside.
fn attacker(act: &str) -> String {
    let own = std::env::current_exe().unwrap();
    format!(
        "HANDS_TEST_ACT='{act}' {} --ignored --exact attack --nocapture",
        own.display()
    )
}

/// The attackers, inside the sandbox only.
#[test]
#[ignore = "started by the other tests, inside the sandbox"]
fn attack() {
    let act = std::env::var("HANDS_TEST_ACT").unwrap_or_default();
    let words: Vec<&str> = act.split(' ').collect();
    match words.as_slice() {
        ["flip", how, one, other] => flip(how, one, other),
        ["flip-link"] => flip_link(),
        ["worry", how, file] => worry(how, file),
        ["run-written"] => run_written(),
        ["under-signals"] => under_signals(),
        ["cost"] => cost(),
        _ => {}
    }
}

/// A path in memory that one thread changes while another gives it to the kernel.
struct Flipped([AtomicU8; 64]);

impl Flipped {
    fn set(&self, name: &str) {
        for (at, byte) in name.bytes().chain([0]).enumerate() {
            self.0[at].store(byte, Ordering::Relaxed);
        }
    }

    fn pointer(&self) -> *const libc::c_char {
        self.0.as_ptr().cast()
    }
}

fn flip(how: &str, one: &str, other: &str) {
    let path = Flipped([const { AtomicU8::new(0) }; 64]);
    path.set(other);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                path.set(one);
                path.set(other);
            }
        });
        for _ in 0..TRIES {
            match how {
                "open" => {
                    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
                    // SAFETY: the memory is always NUL-terminated and outlives the call.
                    let fd = unsafe { libc::open(path.pointer(), flags, 0o644) };
                    // SAFETY: a descriptor of our own, or -1, which is refused.
                    unsafe { libc::close(fd) };
                }
                "unlink" => {
                    let _ = std::fs::write(other, "");
                    // SAFETY: as above.
                    unsafe { libc::unlink(path.pointer()) };
                }
                _ => {
                    let _ = std::fs::write("source", "");
                    // SAFETY: as above.
                    unsafe { libc::rename(c"source".as_ptr(), path.pointer()) };
                }
            }
        }
        over.store(true, Ordering::Relaxed);
    });
}

/// A link that leads to one file and another while it is opened.
fn flip_link() {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for target in ["victim", "decoy", "/tmp/decoy", "/dev/null"] {
                    let _ = std::os::unix::fs::symlink(target, "next");
                    let _ = std::fs::rename("next", "link");
                }
            }
        });
        for _ in 0..TRIES {
            drop(std::fs::File::create("link"));
        }
        over.store(true, Ordering::Relaxed);
    });
}

/// Unlinks, replaces or empties a file until it is told to stop.
fn worry(how: &str, file: &str) {
    let name = CString::new(file).unwrap();
    std::fs::write("begun", "").unwrap();
    let mut times = 0;
    while !Path::new("over").exists() {
        times += 1;
        match how {
            "unlink" => {
                let _ = std::fs::File::create_new(file);
                let _ = std::fs::remove_file(file);
            }
            "replace" => {
                std::fs::write("new", "new").unwrap();
                let _ = std::fs::rename("new", file);
            }
            _ if times % 2 == 0 => drop(std::fs::File::create(file)),
            // SAFETY: a NUL-terminated name that outlives the call.
            _ => drop(unsafe { libc::truncate(name.as_ptr(), 0) }),
        }
    }
    eprintln!("worried {times} times");
}

fn run_written() {
    let program = std::fs::read("/bin/true").unwrap();
    let mut busy = 0;
    for number in 0..TRIES / 4 {
        let name = format!("./x{}-{number}", std::process::id());
        std::fs::write(&name, &program).unwrap();
        std::fs::set_permissions(&name, PermissionsExt::from_mode(0o755)).unwrap();
        match std::process::Command::new(&name).status() {
            Err(e) if e.raw_os_error() == Some(libc::ETXTBSY) => busy += 1,
            ran => assert!(ran.unwrap().success()),
        }
        std::fs::remove_file(&name).unwrap();
    }
    eprintln!("busy {busy}");
}

static SIGNALS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count(_: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

fn under_signals() {
    let handler = count as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the handler only adds to an atomic number.
    unsafe { libc::signal(libc::SIGALRM, handler) };
    let tick = libc::timeval {
        tv_sec: 0,
        tv_usec: 100,
    };
    let timer = libc::itimerval {
        it_interval: tick,
        it_value: tick,
    };
    // SAFETY: the kernel reads the timer that is passed.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) };
    let mut wrong = 0;
    for number in 0..TRIES {
        let name = CString::new(format!("s{number}")).unwrap();
        // SAFETY: a NUL-terminated name that outlives the call.
        wrong += i32::from(unsafe { libc::mkdir(name.as_ptr(), 0o755) } != 0);
        // SAFETY: as above.
        wrong += i32::from(unsafe { libc::rmdir(name.as_ptr()) } != 0);
    }
    eprintln!("wrong {wrong}; signals {}", SIGNALS.load(Ordering::Relaxed));
}

/// Microseconds for a create and for an unlink.
fn cost() {
    const FILES: u32 = 5000;
    let each = |act: &dyn Fn(u32)| {
        let begun = Instant::now();
        (0..FILES).for_each(act);
        begun.elapsed().as_secs_f64() * 1e6 / f64::from(FILES)
    };
    let create = each(&|n| drop(std::fs::File::create_new(format!("c{n}")).unwrap()));
    let read = each(&|n| drop(std::fs::File::open(format!("c{n}")).unwrap()));
    let rename = each(&|n| std::fs::rename(format!("c{n}"), format!("d{n}")).unwrap());
    let unlink = each(&|n| std::fs::remove_file(format!("d{n}")).unwrap());
    eprintln!("cost create {create:.1} open {read:.1} rename {rename:.1} unlink {unlink:.1} us");
}

#[test]
fn a_path_that_changes_while_it_is_read_loses_nothing() {
    let victim = "victim\n".repeat(2000);
    for (how, decoy) in [
        ("open", "decoy"),
        ("open", "/tmp/decoy"),
        ("open", "/dev/null"),
        ("unlink", "decoy"),
        ("unlink", "/tmp/decoy"),
        ("rename", "decoy"),
        ("link", ""),
    ] {
        let world = World::in_memory();
        world.write("victim", &victim);
        let act = match how {
            "link" => "flip-link".to_string(),
            _ => format!("flip {how} victim {decoy}"),
        };
        let ran = world.run(&attacker(&act));
        assert_eq!(ran.code, Some(0), "{}", ran.out);
        let is_there = world.holds(&victim) || world.has_kept(&victim);
        assert!(is_there, "{act}: lost");
        if how == "unlink" {
            assert!(world.at("victim").exists(), "{act}: removed");
        }
    }
}

/// The person saves in place and by renaming while a command works against the same file. Every
/// save that does not stand when it is looked at must be somewhere else.
#[test]
fn no_save_of_the_persons_is_lost() {
    for how in ["unlink", "unlink-own", "replace", "empty"] {
        let mut world = World::in_memory();
        world.guard().quota_bytes = 1 << 40;
        let file = world.at("file");
        std::fs::write(&file, "at first").unwrap();
        let gone = std::thread::scope(|scope| {
            let saver = scope.spawn(|| {
                while !world.at("begun").exists() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                let gone = save_often(&file, how == "unlink-own");
                std::fs::write(world.at("over"), "").unwrap();
                gone
            });
            let act = how.strip_suffix("-own").unwrap_or(how);
            let ran = world.run(&attacker(&format!("worry {act} file")));
            assert!(ran.out.contains("worried"), "{}", ran.out);
            saver.join().unwrap()
        });
        let kept: std::collections::HashSet<String> = world.kept().into_iter().collect();
        let lost: Vec<&String> = gone
            .iter()
            .filter(|save| !kept.contains(*save) && !world.holds(save))
            .collect();
        eprintln!("{how}: {} saves overtaken, {} lost", gone.len(), lost.len());
        assert!(lost.is_empty(), "{how}: lost {lost:?} of {}", gone.len());
    }
}

/// Saves, and tells which saves did not stand a moment later. Where the command is given the name
/// now and then, what it then makes is its own to remove: the person replaces that by renaming.
fn save_often(file: &Path, gives_name: bool) -> Vec<String> {
    let mut gone = Vec::new();
    let beside = file.with_file_name(".save");
    for number in 0..TRIES {
        let text = format!("the person's {number}");
        if number % 2 == 0 && !gives_name {
            std::fs::write(file, &text).unwrap();
        } else {
            std::fs::write(&beside, &text).unwrap();
            std::fs::rename(&beside, file).unwrap();
        }
        // Long enough for the other side to act, and short enough for it to be in the middle.
        std::thread::sleep(Duration::from_micros(u64::from(number as u32 % 7) * 40));
        if stands(file, &text, gives_name) {
            if gives_name {
                let _ = std::fs::remove_file(file);
                std::thread::sleep(Duration::from_micros(100));
            }
            continue;
        }
        gone.push(text);
    }
    gone
}

/// Whether a save stands. One that was taken for the command's own file is back in a moment.
fn stands(file: &Path, text: &str, may_come_back: bool) -> bool {
    let now = || std::fs::read_to_string(file).is_ok_and(|now| now == text);
    now()
        || may_come_back && {
            std::thread::sleep(Duration::from_millis(5));
            now()
        }
}

#[test]
fn what_was_just_written_runs() {
    let world = World::in_memory();
    let one = attacker("run-written");
    // A file for each: what several programs print at once is not kept in lines.
    let all: String = (0..4)
        .map(|number| format!("{one} >$TMPDIR/said-{number} & "))
        .collect();
    let ran = world.run(&format!("{all} wait; cat $TMPDIR/said-*"));
    assert_eq!(ran.out.matches("busy 0\n").count(), 4, "{}", ran.out);
}

#[test]
fn a_signal_repeats_no_call() {
    let world = World::in_memory();
    let ran = world.run(&attacker("under-signals"));
    assert!(ran.out.contains("wrong 0;"), "{}", ran.out);
    assert!(!ran.out.contains("signals 0\n"), "{}", ran.out);
}

/// The figures themselves; a bound would judge the machine.
#[test]
fn the_cost_of_a_call_is_shown() {
    let world = World::in_memory();
    let ran = world.run(&attacker("cost"));
    let begin = ran.out.find("cost create").expect("figures");
    eprintln!("{}", ran.out[begin..].lines().next().unwrap());
}
