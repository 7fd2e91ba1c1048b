//! Figures from `/proc`.

use super::Usage;
use std::fs;
use std::io;

pub(super) fn usage(pid: u32) -> io::Result<Usage> {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}"));
    let stat = Stat::parse(&read("stat")?).ok_or_else(|| unreadable(pid, "stat"))?;
    let pages = resident_pages(&read("statm")?).ok_or_else(|| unreadable(pid, "statm"))?;
    let boot = boot_time(&fs::read_to_string("/proc/stat")?).unwrap_or(0);
    let ticks = rustix::param::clock_ticks_per_second().max(1) as f64;
    Ok(Usage {
        cpu_s: (stat.cpu_ticks as f64) / ticks,
        resident_bytes: pages.saturating_mul(rustix::param::page_size() as u64),
        // Of another user's process the folder cannot be read: that figure alone is missing.
        open_fds: fs::read_dir(format!("/proc/{pid}/fd"))
            .ok()
            .map(|entries| entries.count() as u64)
            .map(|count| without_own(count, pid)),
        max_fds: read("limits").ok().and_then(|text| max_open_files(&text)),
        started_unix_s: boot as f64 + (stat.start_ticks as f64) / ticks,
    })
}

fn unreadable(pid: u32, name: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("cannot understand /proc/{pid}/{name}"),
    )
}

/// Without the descriptor that listing this process's own folder opened.
fn without_own(count: u64, pid: u32) -> u64 {
    if pid == std::process::id() {
        count.saturating_sub(1)
    } else {
        count
    }
}

/// What is needed of `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    start_ticks: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Stat> {
        // The name of the program stands in parentheses and may hold spaces and parentheses itself.
        let (_, rest) = text.rsplit_once(')')?;
        // proc(5) numbers from 1; the first field after the name is number 3.
        let field = |number: usize| -> Option<u64> {
            rest.split_ascii_whitespace().nth(number - 3)?.parse().ok()
        };
        Some(Stat {
            cpu_ticks: field(14)?.checked_add(field(15)?)?,
            start_ticks: field(22)?,
        })
    }
}

fn resident_pages(statm: &str) -> Option<u64> {
    statm.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn boot_time(stat: &str) -> Option<u64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

fn max_open_files(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_moves_no_field() {
        let text = "7 (a) R (b c) S 1 7 7 0 -1 4194560 1 2 3 4 250 50 9 9 20 0 1 0 12345 1 2 3";
        let expected = Stat {
            cpu_ticks: 300,
            start_ticks: 12345,
        };
        assert_eq!(Stat::parse(text), Some(expected));
        assert_eq!(Stat::parse("7 (cut) S 1 7"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn limits_and_boot_time_are_found_among_their_lines() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 524288               files\n";
        assert_eq!(max_open_files(limits), Some(1024));
        assert_eq!(
            max_open_files("Max open files unlimited unlimited files"),
            None
        );
        assert_eq!(
            boot_time("cpu 1 2\nbtime 1700000000\n"),
            Some(1_700_000_000)
        );
    }

    #[test]
    fn our_own_figures_are_plausible_and_follow_what_we_do() {
        let before = Usage::current().unwrap();
        assert!(before.resident_bytes > 100_000, "{before:?}");
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_secs_f64();
        assert!((now - before.started_unix_s).abs() < 3600.0, "{before:?}");
        // Other tests of this process open files too, so many more than they do.
        let files: Vec<_> = (0..200)
            .map(|_| fs::File::open("/proc/self/stat").unwrap())
            .collect();
        let after = Usage::current().unwrap();
        let grown = after.open_fds.unwrap() as i64 - before.open_fds.unwrap() as i64;
        assert!((150..=250).contains(&grown), "{grown}");
        drop(files);
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        assert_eq!(
            Usage::of(u32::MAX).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
