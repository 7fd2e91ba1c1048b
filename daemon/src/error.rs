//! Why the daemon cannot start.

use std::path::PathBuf;

/// Why the daemon did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// The configuration or the home cannot be used.
    #[error(transparent)]
    Config(#[from] hands_config::ConfigError),
    /// A daemon of this home runs already.
    #[error(
        "handsd runs already for the home {home}, {}; `handsctl status` shows it, `handsctl down` stops it",
        .pid.map_or_else(|| "its process id is not known".to_owned(), |pid| format!("pid {pid}"))
    )]
    Runs {
        /// The home.
        home: PathBuf,
        /// Its process id, if its file says so.
        pid: Option<u32>,
    },
    /// A file or socket that it needs cannot be used.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was attempted.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A program that it starts is missing.
    #[error(
        "there is no {name} beside {place}; install it there, or set {variable} to its absolute path"
    )]
    Program {
        /// The program.
        name: &'static str,
        /// Where it was looked for.
        place: PathBuf,
        /// The variable that names it instead.
        variable: &'static str,
    },
    /// The control socket cannot be opened.
    #[error(transparent)]
    Control(#[from] hands_control::ControlError),
    /// The metrics cannot be set up.
    #[error(transparent)]
    Metrics(#[from] hands_metrics::MetricsError),
    /// The lifecycle log cannot be opened.
    #[error(transparent)]
    Trail(#[from] hands_activity::TrailError),
    /// The diagnostics log cannot be set up.
    #[error("cannot log to {path}: {reason}")]
    Log {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
}

impl DaemonError {
    /// For `map_err` on a file operation.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}
