//! Limits and defaults of this crate, in one place.

use std::time::Duration;

// Permission gate.

/// Life of an unused nonce, where the configuration is silent.
pub const DEFAULT_NONCE_TTL: Duration = Duration::from_secs(10 * 60);
/// Longest life of a grant, whatever the configuration says.
pub const MAX_GRANT_TTL: Duration = Duration::from_secs(8 * 60 * 60);
/// Unused nonces that one session may hold; a further one retires the oldest.
pub const MAX_OUTSTANDING_NONCES: usize = 64;
/// Nonces that a server process remembers, spent ones included.
pub const MAX_REMEMBERED_NONCES: usize = 1_024;
/// Bytes of a nonce that is looked up at all.
pub const MAX_NONCE_LEN: usize = 64;

// Command check.

/// Bytes of a command line that is looked into.
pub const MAX_COMMAND_BYTES: usize = 256 * 1024;
/// Scripts within scripts (`sh -c "sh -c …"`) that are looked into.
pub const MAX_COMMAND_DEPTH: usize = 6;
/// Syntax nodes that are looked at for one line, its inner scripts included.
pub const MAX_COMMAND_NODES: usize = 200_000;
/// Time for the look at one line; what is not seen by then is left to the sandbox.
pub const MAX_COMMAND_TIME: Duration = Duration::from_millis(500);
/// Here-documents of one script; with more it is not parsed.
pub const MAX_HEREDOCS: usize = 32;
/// Bytes of the word that ends a here-document; with a longer one the script is not parsed.
pub const MAX_HEREDOC_WORD: usize = 64;
/// Commands within commands (`env nice env …`) that are followed.
pub const MAX_WRAPPERS: usize = 32;
/// Nested command substitutions that are followed in one word.
pub const MAX_SUBSTITUTIONS: usize = 4;
/// Words that one brace expansion may make, and braces that are tried for one.
pub const MAX_BRACES: usize = 64;
/// Bytes that the expansions in one argument may make; more counts as unknown. Without this a
/// script that doubles a variable again and again would fill the memory.
pub const MAX_EXPANSION_BYTES: usize = 64 * 1024;
/// Bytes of words that are expanded for one line: nested substitutions are read once for each level.
pub const MAX_EXPANDED_BYTES: usize = 16 * MAX_COMMAND_BYTES;
/// Characters of the offending part that a refusal quotes.
pub const MAX_QUOTED_CHARS: usize = 200;

// Redaction.

/// Passes over one text; a pass that finds nothing ends the work.
pub const MAX_REDACT_PASSES: usize = 16;
/// Levels of a JSON value that are looked into; what lies deeper is replaced whole.
pub const MAX_REDACT_DEPTH: usize = 256;

// Path resolution.

/// Longest path text accepted from a planner, in bytes (Linux' PATH_MAX).
pub const PATH_TEXT_BYTES: usize = 4096;

/// Symbolic links followed in one resolution before it is called a loop (what Linux itself allows).
pub const PATH_LINKS: usize = 40;

/// Components walked in one resolution, those that links add included.
pub const PATH_STEPS: usize = 1024;

/// Entries of one folder looked at when a name is searched by its normal form.
pub const FOLDER_SCAN_ENTRIES: usize = 50_000;

/// Entries of one folder compared when a similar name is suggested.
pub const NEAR_NAME_ENTRIES: usize = 5_000;

/// Similar names offered in a "not found" message.
pub const NEAR_NAMES: usize = 3;

/// Files remembered by identity below all credential folders together, to recognise hard links.
pub const SECRET_FILES: usize = 2_000;

/// Files remembered by identity below one credential folder, so that one large folder cannot hide the others.
pub const SECRET_FILES_PER_FOLDER: usize = 400;

/// Depth to which a credential folder is walked for identities.
pub const SECRET_DEPTH: usize = 4;

/// How long identities of protected objects are trusted before they are looked up again.
pub const IDENTITY_CACHE: Duration = Duration::from_secs(5);
/// Bytes of a value by which it is judged; a longer one is judged by its head.
pub const MAX_VALUE_LOOK: usize = 256;
/// Bytes of a quoted value; what an unclosed quote takes with it is bounded by this and its line.
pub const MAX_QUOTED_SECRET: usize = 16 * 1024;

/// Entries of a folder in the person's home that a wildcard is matched with.
pub const HOME_ENTRIES: usize = 10_000;
/// Entries of a workspace that a look for secrets and repositories takes in.
pub const SURVEY_ENTRIES: usize = 10_000;
/// Folders below one another that such a look goes down.
pub const SURVEY_DEPTH: usize = 8;
