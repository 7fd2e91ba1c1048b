//! What a command may use of the machine: real programs that use more.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Place, Server, is_root, running_in};
use std::time::Instant;

/// Grows by 8 MiB at a time, and would not stop on a machine with 4 GiB to spare.
const HOG: &str =
    "perl -e 'my @a; for (1..512) { push @a, \"x\" x (8 << 20); } print \"whole\\n\"'";

fn server(place: &Place, settings: &str) -> Server {
    common::put(
        &place.home().join("config.toml"),
        format!("[sandbox]\n{settings}\n"),
    );
    place.open()
}

#[test]
fn a_command_that_uses_too_much_memory_is_ended_and_told() {
    let place = Place::new();
    let mut server = server(&place, "memory_mb = 256");
    let hog = server.bash(HOG).expect("process");
    let said = hog.text();
    assert!(
        said.contains("MiB of memory, and 256 MiB are the most"),
        "{said}"
    );
    assert!(
        said.contains("sandbox.memory_mb") && !said.contains("whole"),
        "{said}"
    );
    let is_hog = |process: &str| process.contains("push @a");
    let left = running_in(place.root()).into_iter();
    assert_eq!(left.filter(|p| is_hog(&p.command)).count(), 0);
    // It is the whole of a command that counts, whichever process has it.
    let many = "for n in 1 2 3 4; do perl -e 'my $a = \"x\" x (90 << 20); sleep 60' & done; wait";
    let reply = server.bash(many).expect("process");
    let said = reply.text();
    assert!(said.contains("256 MiB are the most"), "{said}");
    let files = "head -c 300M /dev/zero > /dev/shm/large; sleep 60";
    let reply = server.bash(files).expect("process");
    let said = reply.text();
    assert!(said.contains("256 MiB are the most"), "{said}");
    server.end();
}

#[test]
fn memory_that_is_shared_counts_once_and_address_space_not_at_all() {
    let place = Place::new();
    let mut server = server(&place, "memory_mb = 256");
    let forks = "perl -e 'my $a = \"x\" x (60 << 20); for (1..8) { next if fork; sleep 2; exit } \
                 wait for 1..8; print \"whole\\n\"'";
    assert!(server.bash(forks).ok().text().contains("whole"));
    let reserves = "python3 -c 'import mmap; m = mmap.mmap(-1, 8 << 30); print(\"whole\")'";
    if common::has("python3") {
        assert!(server.bash(reserves).ok().text().contains("whole"));
    }
    server.end();
}

#[test]
fn processes_are_bounded() {
    let place = Place::new();
    let mut server = server(&place, "processes = 64");
    let began = Instant::now();
    let reply = server.bash("for n in $(seq 200); do sleep 30 & done; echo all; wait");
    let said = reply.text();
    if is_root() {
        // The system's own limit does not bind root; the runner counts.
        assert_eq!(reply.code(), "process");
        assert!(
            said.contains("and 64 are the most") && said.contains("sandbox.processes"),
            "{said}"
        );
    } else {
        assert!(said.contains("Resource temporarily unavailable"), "{said}");
    }
    assert!(began.elapsed().as_secs() < 25, "it did not run to its end");
    server.end();
}

#[test]
fn open_files_and_the_size_of_a_file_are_bounded() {
    let place = Place::new();
    let mut server = server(&place, "open_files = 100\nfile_mb = 2");
    let open = "perl -e 'my @f; for (1..200) { open(my $f, \"<\", \"/dev/null\") or die \"at $_: $!\\n\"; push @f, $f }'";
    let reply = server.bash(open).expect("process");
    let said = reply.text();
    assert!(said.contains("Too many open files"), "{said}");
    let reply = server
        .bash("exec head -c 5M /dev/zero > large")
        .expect("process");
    let said = reply.text();
    assert!(
        said.contains("SIGXFSZ") && said.contains("sandbox.file_mb"),
        "{said}"
    );
    assert_eq!(place.at("large").metadata().unwrap().len(), 2 << 20);
    // A call that the broker makes for the command is bounded as well.
    place.write("old", "old");
    let line = "perl -e 'truncate(\"old\", 5 << 20) or die \"$!\\n\"'";
    let reply = server.bash(line).expect("process");
    let said = reply.text();
    assert!(said.contains("File too large"), "{said}");
    assert_eq!(place.read("old"), b"old");
    server.end();
}
