//! The crate from outside, as the server and the command line use it.

#[cfg(test)]
mod common;
#[cfg(test)]
mod lifecycle_and_faults;
#[cfg(test)]
mod many_writers;
#[cfg(test)]
mod write_and_read;
