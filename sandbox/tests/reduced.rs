//! What holds without namespaces, besides what the other tests try with `HANDS_TEST_WALLS=reduced`:
//! reading, other processes, the end of a command.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

mod common;

use common::{World, run};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

const SECRET: &str = "a secret of the person";
/// Openings of a path that changes meanwhile.
const TRIES: usize = 10_000;

fn world() -> World {
    let world = World::reduced();
    std::fs::write(world.root.join("secret/key"), SECRET).unwrap();
    world.write("other", "an ordinary file");
    world
}

/// A process of the person's, outside.
struct Victim(Child);

impl Victim {
    fn start() -> Self {
        let mut sleep = Command::new("/bin/sleep");
        sleep.arg("1000").env("TOKEN", SECRET);
        Self(sleep.stdin(Stdio::null()).spawn().unwrap())
    }

    fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn what_is_hidden_is_read_by_no_spelling() {
    let world = world();
    std::os::unix::fs::symlink("../secret", world.at("planted")).unwrap();
    for line in [
        "cat ../secret/key",
        "cd ../secret && cat key; cat < key",
        "ls ../secret; echo ../secret/*; find ../secret; cat planted/key",
        "cat /proc/self/root$S/key; cat /proc/self/cwd/../secret/key; cat /proc/$$/root$S/key",
        "ln -s ../secret/key l; cat l; ln ../secret/key h; cat h; cp ../secret/key c; cat c",
        "mv ../secret/key m; mv ../secret d; cat m d/key",
        "exec 3<>../secret/key; cat <&3; cat 0<../secret/key; . ../secret/key; ../secret/key",
        "/lib64/ld-linux-x86-64.so.2 /bin/cat ../secret/key; tar cf - ../secret | cat",
        "perl -e 'use Fcntl; for my $f (0, 1, 2, 3, O_CREAT, O_TRUNC, O_RDWR|O_CREAT, O_APPEND, 0x200000) { \
         sysopen(my $h, \"../secret/key\", $f) and print <$h> }'",
        "perl -e 'chdir \"../secret\"; opendir(my $d, \".\") and print readdir $d; open(my $h, \"<\", \"key\") \
         and print <$h>'",
    ] {
        let line = format!("S={}/secret; {line}", world.root.display());
        let ran = world.run(&line);
        assert!(!ran.out.contains(SECRET), "{line}: {}", ran.out);
        let listed = ran
            .out
            .lines()
            .any(|line| line == "key" || line == "../secret/key");
        assert!(!listed, "{line}: {}", ran.out);
    }
    let kept = std::fs::read_to_string(world.root.join("secret/key")).unwrap();
    assert_eq!(kept, SECRET);
    assert!(!world.has_kept(SECRET));
    let copies = std::fs::read_dir(world.at("")).unwrap().flatten();
    let mut files = copies.filter(|entry| entry.file_type().unwrap().is_file());
    let is_copy = |path| std::fs::read(path).unwrap() == SECRET.as_bytes();
    assert!(!files.any(|entry| is_copy(entry.path())));
}

/// What the other tests start inside.
#[test]
#[ignore = "started by the other tests, inside the sandbox"]
fn attack() {
    let act = std::env::var("HANDS_TEST_ACT").unwrap_or_default();
    match act.split_once(' ') {
        Some(("read", flags)) => read_what_changes(flags.parse().unwrap()),
        Some(("signal", pid)) => signal_in_every_way(pid.parse().unwrap()),
        Some(("end-first-thread", _)) => end_first_thread(),
        _ => {}
    }
}

/// Leaves a thread behind whose process looks like one that has ended.
fn end_first_thread() {
    // SAFETY: plain numbers; the child has one thread, and so may do what it likes.
    if unsafe { libc::fork() } == 0 {
        std::thread::spawn(|| std::thread::sleep(Duration::from_secs(1000)));
        // SAFETY: ends this thread alone.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
}

fn attacker(act: &str) -> String {
    let own = std::env::current_exe().unwrap();
    format!(
        "HANDS_TEST_ACT='{act}' {} --ignored --exact attack --nocapture",
        own.display()
    )
}

/// Opens a path whose memory another thread changes, and a link that it makes lead elsewhere.
fn read_what_changes(flags: i32) {
    let (one, other) = ("../secret/key", "other");
    let path: [AtomicU8; 32] = [const { AtomicU8::new(0) }; 32];
    let set = |name: &str| {
        for (at, byte) in name.bytes().chain([0]).enumerate() {
            path[at].store(byte, Ordering::Relaxed);
        }
    };
    set(other);
    let over = AtomicBool::new(false);
    let (mut opened, mut found) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                set(one);
                set(other);
            }
        });
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for target in [one, other] {
                    let _ = std::os::unix::fs::symlink(target, "next");
                    let _ = std::fs::rename("next", "link");
                }
            }
        });
        for number in 0..TRIES {
            let name = match number % 2 {
                0 => path.as_ptr().cast(),
                _ => c"link".as_ptr(),
            };
            // SAFETY: the memory is always NUL-terminated and outlives the call.
            let fd = unsafe { libc::open(name, flags, 0o600) };
            if fd < 0 {
                continue;
            }
            opened += 1;
            let mut text = [0u8; 64];
            // SAFETY: as many bytes as there is room for.
            let got = unsafe { libc::read(fd, text.as_mut_ptr().cast(), text.len()) };
            let got = usize::try_from(got).unwrap_or(0);
            found += usize::from(text[..got].starts_with(SECRET.as_bytes()));
            // SAFETY: a descriptor of our own.
            unsafe { libc::close(fd) };
        }
        over.store(true, Ordering::Relaxed);
    });
    eprintln!("opened {opened} found {found}");
}

#[test]
fn what_is_hidden_is_read_through_no_change_of_the_path() {
    for flags in [
        libc::O_RDONLY,
        libc::O_RDONLY | libc::O_CREAT,
        libc::O_RDWR | libc::O_CREAT,
    ] {
        let world = world();
        let ran = world.run(&attacker(&format!("read {flags}")));
        assert!(ran.out.contains(" found 0\n"), "{flags}: {}", ran.out);
        assert!(!ran.out.contains("opened 0 "), "{flags}: {}", ran.out);
    }
}

#[allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one after the other, all for the same reason"
)]
fn signal_in_every_way(pid: i32) {
    let signal = libc::SIGKILL;
    // SAFETY: plain numbers, but for a structure of the kernel's size that is all zeros.
    unsafe {
        libc::kill(pid, signal);
        libc::kill(-pid, signal);
        libc::syscall(libc::SYS_tkill, pid, signal);
        libc::syscall(libc::SYS_tgkill, pid, pid, signal);
        let info = [0u64; 16];
        libc::syscall(libc::SYS_rt_sigqueueinfo, pid, signal, &info);
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, pid, signal, &info);
        let held = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        libc::syscall(libc::SYS_pidfd_send_signal, held, signal, 0usize, 0);
        let mut pair = [0; 2];
        libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr());
        libc::fcntl(pair[0], libc::F_SETOWN, pid);
        libc::fcntl(pair[0], 10, signal);
        libc::fcntl(pair[0], libc::F_SETFL, libc::O_ASYNC);
        libc::write(pair[1], info.as_ptr().cast(), 1);
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        libc::prlimit(pid, libc::RLIMIT_CPU, &none, std::ptr::null_mut());
        libc::setpriority(libc::PRIO_USER, 0, 19);
        libc::setpriority(libc::PRIO_PROCESS, pid as u32, 19);
        libc::kill(-1, libc::SIGCONT);
    }
    eprintln!("tried");
}

#[test]
fn no_signal_and_no_limit_reaches_another_process() {
    let world = world();
    let mut victim = Victim::start();
    let ran = world.run(&attacker(&format!("signal {}", victim.0.id())));
    assert!(ran.out.contains("tried"), "{}", ran.out);
    let parents = "kill -9 $PPID; kill -9 $(awk '/^PPid/{print $2}' /proc/$PPID/status); echo on";
    assert!(world.run(parents).out.contains("on\n"));
    let own =
        "sleep 100 & kill $!; wait $!; echo $?; (sleep 100 & sleep 100 & kill -15 0); echo $?";
    assert!(
        world.run(own).out.starts_with("143\n"),
        "its own are in reach"
    );
    assert!(victim.lives());
    let nice = std::fs::read_to_string(format!("/proc/{}/stat", victim.0.id())).unwrap();
    assert_eq!(nice.split_whitespace().nth(18), Some("0"), "{nice}");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", victim.0.id())).unwrap();
    let cpu = limits.lines().find(|line| line.starts_with("Max cpu time"));
    assert!(cpu.unwrap().contains("unlimited"), "{limits}");
}

#[test]
fn of_other_processes_only_the_name_is_read() {
    let world = world();
    let victim = Victim::start();
    let ran = world.run(&format!(
        "cd /proc/{}; cat comm; for f in environ cmdline maps auxv mem fd/0 task/*/environ; do \
         cat $f && echo READ $f; done; ls fd; cat /proc/self/environ >$TMPDIR/own && echo own",
        victim.0.id()
    ));
    assert!(
        ran.out.starts_with("sleep\n") && ran.out.contains("own\n"),
        "{}",
        ran.out
    );
    assert!(
        !ran.out.contains(SECRET) && !ran.out.contains("READ"),
        "{}",
        ran.out
    );
}

#[test]
fn no_process_outlives_its_command() {
    let lines = [
        "setsid sleep 1000 & (setsid sleep 1001 &) ; sleep 0.1",
        "(trap '' TERM INT HUP; while :; do sleep 1; done) & sleep 0.1",
        "perl -e 'while (1) { exit if fork; }' & sleep 0.1",
        "perl -e 'for (1..50) { next if fork; while (1) { exit if fork; } }' & sleep 0.1",
        "perl -e 'setpgrp; exit if fork; while (1) { exit if fork; }' & sleep 0.1",
        // Names that are no text, and one whose first thread has ended.
        "cp /bin/sleep $'odd\\xff'; setsid ./$'odd\\xff' 1000 & sleep 0.1",
    ];
    let mut lines: Vec<String> = lines.map(str::to_string).into();
    let first_ends = attacker("end-first-thread now");
    lines.push(format!(
        "(setsid {first_ends} >/dev/null 2>&1 &); sleep 0.3"
    ));
    for line in &lines {
        for ending in ["exit", "sleep 1000"] {
            let world = world();
            let mut request = world.request(&format!("{line}; {ending}"));
            request.timeout_ms = if ending == "exit" { 60_000 } else { 1500 };
            let ran = run(&request);
            assert_eq!(ran.done.timed_out, ending != "exit", "{line}: {}", ran.out);
            let left = hands_testkit::running_in(&world.root);
            assert!(left.is_empty(), "{line}: {left:?}");
        }
    }
}

#[test]
fn a_killed_runner_takes_its_command_with_it() {
    use std::io::Write;
    let world = world();
    let mut runner = Command::new(common::program())
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = runner.stdin.take().unwrap();
    let line = "(trap '' TERM; setsid sleep 1000) & touch begun; sleep 1000";
    let request = serde_json::to_string(&world.request(line)).unwrap();
    writeln!(stdin, "{request}").unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    let wait = |what: &str, done: &dyn Fn() -> bool| {
        while !done() {
            assert!(Instant::now() < until, "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    wait("it did not begin", &|| world.at("begun").exists());
    runner.kill().unwrap();
    runner.wait().unwrap();
    wait("something is left running", &|| {
        hands_testkit::running_in(&world.root).is_empty()
    });
}

#[test]
fn sockets_reach_nobody_and_a_pair_works() {
    let mut world = world();
    let attempt = "perl -MSocket -e 'socket(my $s, AF_UNIX, SOCK_STREAM, 0) and print \"unix\\n\"; \
        socketpair(my $a, my $b, AF_UNIX, SOCK_DGRAM, 0) and print \"datagrams\\n\"; \
        socketpair($a, $b, AF_UNIX, SOCK_STREAM, 0) and print \"pair\\n\"; \
        socket($s, 16, SOCK_RAW, 2) and print \"netlink\\n\"; socket($s, 16, SOCK_RAW, 0) and print \"routes\\n\"; \
        socket($s, AF_INET, SOCK_STREAM, 0) and print \"network\\n\"'";
    assert_eq!(world.run(attempt).out, "pair\nroutes\n");
    world.plan.network = hands_sandbox::Network::On;
    assert_eq!(world.run(attempt).out, "pair\nroutes\nnetwork\n");
}

#[test]
fn no_program_gets_a_capability() {
    let world = world();
    let ran = world.run("grep -E 'Cap(Prm|Eff|Amb)|NoNewPrivs' /proc/self/status | tr -d '\t'");
    let none = "0".repeat(16);
    let expected = format!("CapPrm:{none}\nCapEff:{none}\nCapAmb:{none}\nNoNewPrivs:1\n");
    assert_eq!(ran.out, expected);
}

#[test]
fn what_was_made_beside_a_secret_is_read_and_run() {
    let mut world = world();
    world.write(".env", SECRET);
    world.plan.masks.push(world.at(".env"));
    let ran = world.run(
        "cp /bin/echo made && ./made runs; mkdir d; echo new > d/f; cat d/f; cat .env; \
         printf '#!/bin/sh\necho script\n' > s; chmod +x s; ./s; cat <(echo pipe); cat /dev/stdin <<<here",
    );
    for part in ["runs\n", "new\n", "script\n", "pipe\n", "here\n"] {
        assert!(ran.out.contains(part), "{part} {}", ran.out);
    }
    assert!(!ran.out.contains(SECRET), "{}", ran.out);
    assert_eq!(world.read(".env").as_deref(), Some(SECRET));
}

#[test]
fn a_reader_of_a_pipe_waits_for_its_writer() {
    let world = world();
    let ran = world.run(
        "mkfifo p; (cat p; echo read) & sleep 0.1; echo one > p; wait; \
         (sleep 0.1; echo two > p) & cat p; wait; timeout 0.2 cat p; echo $?",
    );
    assert_eq!(ran.out, "one\nread\ntwo\n124\n");
}

#[test]
fn what_is_not_listed_is_not_written() {
    let world = world();
    let name = format!("hands-test-{}", std::process::id());
    let line = format!(
        "for f in /tmp /dev/shm /var/tmp {} $HOME/..; do echo x > $f/{name}; done",
        world.root.display()
    );
    world.run(&line);
    for folder in ["/tmp", "/dev/shm", "/var/tmp", world.root.to_str().unwrap()] {
        assert!(
            !std::path::Path::new(folder).join(&name).exists(),
            "{folder}"
        );
    }
    assert!(world.run("echo x > $TMPDIR/x && cat $TMPDIR/x").out == "x\n");
}

#[test]
fn what_another_process_has_open_is_not_reached_through_it() {
    use std::os::fd::AsRawFd;
    let world = world();
    let own = std::process::id();
    let gone = world.root.join("gone");
    std::fs::write(&gone, SECRET).unwrap();
    let file = std::fs::File::open(&gone).unwrap();
    std::fs::remove_file(&gone).unwrap();
    let runner = "R=$(awk '/^PPid/{print $2}' /proc/$PPID/status)";
    let ran = world.run(&format!(
        "cat /proc/{own}/fd/{}; cat /proc/{own}/root/etc/hostname && echo OPEN; \
         echo x > /proc/{own}/cwd/hands-test-x && echo OPEN; {runner}; \
         (exec 9</proc/$R/fd/0) && echo OPEN; ls /proc/$R/fd/ && echo OPEN; \
         ls /proc/$PPID/cwd/ && echo OPEN; cat /proc/self/fd/0; cat /proc/self/root/etc/hostname >/dev/null && echo own",
        file.as_raw_fd()
    ));
    assert!(!ran.out.contains(SECRET), "{}", ran.out);
    assert!(
        !ran.out.contains("OPEN") && ran.out.contains("own\n"),
        "{}",
        ran.out
    );
}

#[test]
fn mode_owner_and_times_are_set_in_the_workspaces_alone() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let mut world = world();
    let outside = world.root.join("outside");
    std::fs::write(&outside, "outside").unwrap();
    world.write(".git/config", "[core]\n");
    world.write("closed/c", "closed");
    world.plan.closed.push(world.at("closed"));
    world.plan.sealed.push(world.at(".git/config"));
    let secret = world.root.join("secret/key");
    let kept = [
        &outside,
        &secret,
        &world.at(".git/config"),
        &world.at("closed/c"),
    ];
    let state = || {
        kept.map(|path| {
            let info = path.metadata().unwrap();
            (info.mode(), info.mtime(), info.ctime_nsec())
        })
    };
    let before = state();
    let paths = "$O/outside $O/secret/key .git/config closed/c $O/secret $O";
    let ran = world.run(&format!(
        "O={}; for f in {paths}; do chmod 777 $f; chmod 000 $f; touch -d 2001-01-01 $f; touch $f; chown :$(id -g) $f; \
         perl -e 'open(my $h, \"<\", $ARGV[0]); chmod 0777, $h; utime 1, 1, $h; utime 1, 1, $ARGV[0]; chmod 0777, $ARGV[0]' $f; \
         done 2>/dev/null; touch made; chmod 751 made other; touch -d 2001-02-03T00:00:00Z made other; \
         chown :$(id -g) made; ln -s made l; touch -h -d 2002-02-03T00:00:00Z l; chmod 700 l; mkdir d; chmod 711 d; \
         touch -r made d; touch $TMPDIR/t; chmod 600 $TMPDIR/t && stat -c '%a %Y' made other d",
        world.root.display()
    ));
    assert_eq!(state(), before, "{}", ran.out);
    let time = 981_158_400;
    assert_eq!(ran.out, format!("700 {time}\n751 {time}\n711 {time}\n"));
    assert_eq!(
        world.at("l").symlink_metadata().unwrap().mtime(),
        1_012_694_400
    );
    assert_eq!(
        world.at("made").metadata().unwrap().permissions().mode() & 0o777,
        0o700
    );
}

#[test]
fn devices_and_terminals_are_opened_by_no_flags() {
    let world = world();
    let ran = world.run(
        "perl -e 'use Fcntl; for my $p (glob(\"/dev/pts/* /dev/tty /dev/tty1 /dev/loop* /dev/vd* /dev/sd* /dev/ptmx /dev/kmsg /dev/mem\")) { \
         for my $f (0, 1, 2, 3, O_TRUNC, O_CREAT, O_TRUNC|O_CREAT, O_NONBLOCK, O_NONBLOCK|O_TRUNC) { \
         sysopen(my $h, $p, $f|O_NOCTTY) and print \"OPEN $p $f\\n\" } }' 2>&1; \
         head -c 2 /dev/zero | wc -c; : > /dev/null; cat /dev/null; dd if=/dev/urandom of=/dev/null bs=4 count=1 2>&1 | tail -1 | cut -c1-7",
    );
    assert_eq!(ran.out, "2\n4 bytes\n");
}

#[test]
fn a_reader_that_gives_up_wakes_no_other() {
    let world = world();
    let pipe = world.root.join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let mut reader = Command::new("cat")
        .arg(&pipe)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    world.run(&format!("timeout 0.3 cat {}", pipe.display()));
    assert!(reader.try_wait().unwrap().is_none(), "it was woken");
    std::fs::write(&pipe, "for the other\n").unwrap();
    let output = reader.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"for the other\n");
}

#[test]
fn what_is_hidden_is_told_by_no_watch_and_no_attribute() {
    let world = world();
    let watch = "perl -e 'my $f = syscall(253); for (@ARGV) { print \"watched $_\\n\" if syscall(254, $f, $_, 0xfff) >= 0 }'";
    let attribute = "perl -e '$b = \" \" x 99; $n = \"user.x\"; for (@ARGV) { print \"read $_\\n\" if syscall(191, $_, $n, $b, 99) >= 0; \
        print \"listed $_\\n\" if syscall(194, $_, $b, 99) >= 0 }'";
    if cfg!(target_arch = "x86_64") {
        let ran = world.run(&format!(
            "{watch} ../secret ../secret/key other; {attribute} ../secret/key other"
        ));
        assert_eq!(ran.out, "watched other\n");
    }
}

#[test]
fn a_plan_that_only_mounts_could_carry_out_is_refused() {
    let mut world = world();
    std::fs::create_dir(world.at("tmp")).unwrap();
    let inside = world.at("tmp");
    let mut request = world.request("echo ran");
    request.plan.tmp = inside;
    let refused = common::try_run(&request).unwrap_err();
    assert!(refused.contains("lie in each other"), "{refused}");
    let mut linked = world.request("echo ran");
    std::os::unix::fs::symlink("secret", world.root.join("link")).unwrap();
    linked.plan.masks.push(world.root.join("link"));
    let refused = common::try_run(&linked).unwrap_err();
    assert!(refused.contains("a link leads to"), "{refused}");
    world.plan.masks.push(world.root.join("tmp/hidden"));
    let refused = common::try_run(&world.request("echo ran")).unwrap_err();
    assert!(refused.contains("lie in each other"), "{refused}");
}
