//! Every limit and default of this crate.

use std::time::Duration;

/// Bytes given to the statistical detector, from just before the first byte that is not ASCII.
pub const DETECT_SAMPLE: usize = 64 * 1024;
/// Bytes of ASCII before the first other byte that go into the sample, for context.
pub const DETECT_LEAD: usize = 1024;
/// Bytes at the beginning in which the NUL pattern of UTF-16 and UTF-32 is looked for.
pub const NUL_SAMPLE: usize = 64 * 1024;
/// Bytes at the beginning that decide between text and binary.
pub const BINARY_SAMPLE: usize = 64 * 1024;
/// One control character in this many bytes makes a head binary (tabs, line ends, escapes and the like apart).
pub const BINARY_CONTROL_SHARE: usize = 20;
/// Valid UTF-8 sequences per invalid one from which a damaged file still counts as UTF-8.
pub const UTF8_MAJORITY: usize = 4;

/// Bytes of one line shown before the rest of it is cut.
pub const LINE_BYTES: usize = 4096;

/// Bytes an edited file may have: `replace_all` could otherwise ask for any amount of memory.
pub const RESULT_BYTES: usize = 256 * 1024 * 1024;
/// Occurrences one edit may replace: each takes memory for what lies before and after it.
pub const REPLACEMENTS: usize = 1_000_000;
/// Line numbers named for an ambiguous or miscounted text.
pub const MATCH_LINES: usize = 20;
/// Nearest places named for a text that was not found.
pub const NEAR_PLACES: usize = 3;
/// Bytes of one line shown for a nearest place.
pub const NEAR_TEXT: usize = 200;
/// Bytes of the file searched for a nearest place.
pub const NEAR_SCAN: usize = 8 * 1024 * 1024;
/// Bytes of the file compared for likeness (a dearer comparison than the one above).
pub const NEAR_LIKENESS_SCAN: usize = 2 * 1024 * 1024;
/// Bytes of one line that take part in a likeness comparison.
pub const NEAR_LINE: usize = 400;
/// Lines of a long text that take part in a likeness comparison.
pub const NEAR_LINES: usize = 40;
/// Comparisons of lines after which the search for a nearest place gives up.
pub const NEAR_COMPARISONS: usize = 2_000_000;
/// Bytes of a text not found up to which all of it is looked at for what differs; beyond, its first differing line.
pub const NEAR_CAUSE: usize = 64 * 1024;
/// Likeness (0 to 1) below which a place is not worth naming.
pub const NEAR_MIN: f32 = 0.5;

/// Lines of context around a change.
pub const DIFF_CONTEXT: usize = 3;
/// Time after which a diff is finished coarsely.
pub const DIFF_TIME: Duration = Duration::from_millis(300);
/// Changed region (bytes on one side) from which a diff shows the region as replaced, without comparing its lines.
pub const DIFF_REGION: usize = 8 * 1024 * 1024;
/// Changed lines on one side from which the same is done.
pub const DIFF_LINES: usize = 100_000;
/// Bytes of a changed long line shown on each side of what differs.
pub const DIFF_LINE_CONTEXT: usize = 120;
/// Bytes of a diff by default.
pub const DIFF_BYTES: usize = 64 * 1024;
