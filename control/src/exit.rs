//! Exit codes by which the programs of Hands tell each other why they ended (the names of `sysexits.h`).

/// The configuration cannot be used; starting again would not help (`EX_CONFIG`).
pub const CONFIG: u8 = 78;
/// A daemon of this home runs already (`EX_UNAVAILABLE`).
pub const RUNS_ALREADY: u8 = 69;
