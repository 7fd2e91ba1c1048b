//! Limits and defaults of this crate.

/// Upper bounds of the buckets of a call's duration, in seconds. Reading a file takes about a millisecond; the
/// reply budget is 45 s and a planner gives up after 60 to 120 s, so the bounds lie close there.
pub const CALL_SECONDS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 45.0, 60.0,
    120.0,
];

/// Format of a [`crate::Snapshot`]; it grows when older readers would misread a newer one.
pub const SNAPSHOT_FORMAT: u32 = 1;

/// Most processes whose snapshots are merged at once.
pub const MAX_SOURCES: usize = 64;

/// Most samples of one snapshot that are looked at; the table with all its label values has fewer.
pub const MAX_SAMPLES: usize = 4096;

/// Longest value of a label that is not from a closed set, in bytes.
pub const MAX_LABEL_BYTES: usize = 64;

/// Largest value taken from a snapshot: beyond it a number no longer counts single steps.
pub const MAX_VALUE: f64 = 9_007_199_254_740_992.0;
