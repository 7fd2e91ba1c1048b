//! Text as bytes: encodings, line endings, the edit engine, unified diffs.
//!
//! **What it is.** Everything the tools need to know about text once a file's bytes are in memory: which encoding
//! they are in, where lines end, which part of a long text to show, how to change one place and nothing else, and how
//! to show what changed.
//!
//! **What it is not.** It reads and writes no files, knows no paths, no permissions and no protocol; it never guesses
//! what an edit meant.
//!
//! **Theory of operation.** [`encoding::detect`] names the encoding: a declared one, a byte order mark, the NUL pattern
//! of UTF-16 and UTF-32, valid UTF-8, or a guess that says it is one. [`edit::apply`] decodes the file once, keeping
//! for each character the bytes it came from, and holds the text as a list of pieces: stretches of the original, and
//! inserted text. Edits cut and replace pieces. At the end the original stretches are copied byte for byte and only the
//! inserted text is encoded, so what no edit names cannot change, whatever the encoding. [`lines`] holds the one
//! definition of a line that reading, editing and diffs share; [`diff::unified`] shows a change for a reader.
#![forbid(unsafe_code)]

pub mod diff;
pub mod edit;
pub mod encoding;
pub mod limits;
pub mod lines;
