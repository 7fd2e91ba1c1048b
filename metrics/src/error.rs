//! What can go wrong with metrics.

/// Why a registry could not be made or a snapshot not be taken in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetricsError {
    /// The table holds a metric that the registry refuses; a mistake in this crate.
    #[error("cannot register the metric {name}: {source}; its entry in the table is wrong")]
    Table {
        /// Name of the metric.
        name: &'static str,
        /// What the registry said.
        source: prometheus::Error,
    },
    /// The snapshot was made by a version that this one does not understand.
    #[error(
        "cannot merge the metrics of {from}: their format is {found}, this program reads {known}; \
         run the same version of all programs (restart the one that was not updated)"
    )]
    Format {
        /// Who sent it.
        from: String,
        /// Its format.
        found: u32,
        /// The format read here.
        known: u32,
    },
    /// Too many processes send snapshots.
    #[error("cannot merge the metrics of {from}: {limit} processes are merged already; end some")]
    TooManySources {
        /// Who sent it.
        from: String,
        /// The most there may be.
        limit: usize,
    },
}
