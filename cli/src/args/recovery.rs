//! The command line of `handsctl recovery`.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum RecoveryWhat {
    /// List what was kept, oldest first.
    List(ListArgs),
    /// Print what an entry holds, byte for byte.
    Show {
        /// The entry: its id, the beginning of one, or the path of its recovery file.
        id: String,
    },
    /// Compare an entry with what is there now: `-` is what was kept, `+` what is there.
    Diff {
        /// The entry: its id, the beginning of one, or the path of its recovery file.
        id: String,
        /// Compare with this file instead of the one it came from.
        #[arg(long, value_name = "PATH")]
        with: Option<PathBuf>,
    },
    /// Put an entry back where it came from, with its permissions and its time.
    ///
    /// What it replaces is kept as a recovery file first. Links on the way are not followed. With
    /// `--under` it brings back every file that was kept from below a folder and is not there now.
    Restore(RestoreArgs),
    /// Compress old entries, then drop what is beyond the limits, the oldest first.
    ///
    /// Limits that are not given are those of the configuration (`limits.recovery_…`).
    Rotate(RotateArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// How many of the youngest (default: 50).
    #[arg(short = 'n', long = "last", value_name = "N")]
    pub(crate) last: Option<usize>,
    #[command(flatten)]
    pub(crate) which: WhichArgs,
    /// Only what came from this file or from below this folder.
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,
    /// Only entries of this kind.
    #[arg(long, value_enum)]
    pub(crate) kind: Option<KindName>,
}

/// Which entries are meant.
#[derive(Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct WhichArgs {
    /// Only entries of this session.
    #[arg(long, value_name = "SESSION_ID")]
    pub(crate) session: Option<String>,
    /// Only entries of this turn.
    #[arg(long, value_name = "TURN_ID")]
    pub(crate) turn: Option<String>,
    /// Only entries kept from this time on: RFC 3339, or 30s, 10m, 2h, 1d ago.
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only entries kept up to this time.
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
}

/// What an entry was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KindName {
    File,
    Symlink,
    Folder,
    Output,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The entry: its id, the beginning of one, or the path of its recovery file.
    #[arg(required_unless_present = "under")]
    pub(crate) id: Option<String>,
    /// Put it here instead; into it, if it is a folder.
    #[arg(long, value_name = "PATH")]
    pub(crate) to: Option<PathBuf>,
    /// Bring back all files kept from below this folder that are not there now, each as it was
    /// first kept.
    #[arg(long, value_name = "DIR", conflicts_with = "id")]
    pub(crate) under: Option<PathBuf>,
    /// With --under: also replace what is there. It is kept first.
    #[arg(long, requires = "under")]
    pub(crate) replace: bool,
    #[command(flatten)]
    pub(crate) which: WhichArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RotateArgs {
    /// Drop entries older than this, as in 90d or 12h.
    #[arg(long, value_name = "AGE")]
    pub(crate) max_age: Option<String>,
    /// Leave at most so many entries.
    #[arg(long, value_name = "N")]
    pub(crate) max_entries: Option<u64>,
    /// Leave at most so many bytes, as in 500M or 10G.
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_bytes: Option<String>,
    /// Drop nothing younger than this for its number or size.
    #[arg(long, value_name = "AGE")]
    pub(crate) min_age: Option<String>,
    /// Leave contents uncompressed.
    #[arg(long)]
    pub(crate) no_compress: bool,
    /// Only say what would be done.
    #[arg(long)]
    pub(crate) dry_run: bool,
}
