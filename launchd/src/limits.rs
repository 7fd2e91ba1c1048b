//! Names, limits and defaults of this crate.

use std::time::Duration;

/// Label of the LaunchAgent; its file is the label with `.plist`.
pub const LABEL: &str = "dev.hands.handsd";

/// Name of the systemd user unit, and of its file.
pub const UNIT: &str = "handsd.service";

/// The line by which a file is known to be ours. It holds no `--`, which an XML comment may not.
pub const MARKER: &str = "Written by `handsctl service install`, which replaces it. Remove this line to keep changes of your own.";

/// Exit status of a daemon whose configuration is wrong: starting it again would not help. (`EX_CONFIG` of sysexits.)
pub const EXIT_CONFIG: u8 = 78;

/// Seconds between two starts under launchd.
pub const THROTTLE_S: u32 = 10;

/// Seconds between a failure and the next start under systemd.
pub const RESTART_S: u32 = 2;

/// systemd gives up after this many starts …
pub const START_BURST: u32 = 10;

/// … within this many seconds.
pub const START_INTERVAL_S: u32 = 300;

/// Seconds until the daemon must be up.
pub const START_TIMEOUT_S: u32 = 60;

/// Seconds for an ordered stop before the kill; the tunnel client alone takes up to 15.
pub const STOP_TIMEOUT_S: u32 = 30;

/// Seconds without a sign of life after which systemd restarts the daemon.
pub const WATCHDOG_S: u32 = 30;

/// Open files under launchd, whose default of 256 is too few for fifty calls at once.
pub const OPEN_FILES: u64 = 4096;

/// Time for one run of launchctl or systemctl: more than a stop followed by a start.
pub const RUN_TIMEOUT: Duration =
    Duration::from_secs((START_TIMEOUT_S + STOP_TIMEOUT_S + 10) as u64);

/// Time for launchd to let go of a service after `bootout`.
pub const GONE_TIMEOUT: Duration = Duration::from_secs((STOP_TIMEOUT_S + 5) as u64);

/// Time between two looks at something that takes a moment.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Most output kept of a program.
pub const OUTPUT_BYTES: usize = 256 * 1024;

/// Most of a program's output shown in an error.
pub const SHOWN_BYTES: usize = 2 * 1024;

/// Largest file that can be a definition of ours.
pub const FILE_BYTES: u64 = 256 * 1024;
