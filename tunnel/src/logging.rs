//! The log: text or JSON, to a private file or standard error.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Mutex;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

use crate::config::{Level, LogConfig};

/// Sets the process's log up; an error where the file cannot be opened.
pub fn start(config: &LogConfig) -> Result<(), String> {
    let writer = match &config.file {
        None => BoxMakeWriter::new(std::io::stderr),
        Some(path) => {
            let mut options = OpenOptions::new();
            options.create(true).append(true).mode(0o600);
            let file = options
                .open(path)
                .map_err(|error| format!("opening the log {}: {error}", path.display()))?;
            BoxMakeWriter::new(Mutex::new(file))
        }
    };
    let level = match config.level {
        Level::Debug => LevelFilter::DEBUG,
        Level::Info => LevelFilter::INFO,
        Level::Warn => LevelFilter::WARN,
    };
    let builder = tracing_subscriber::fmt()
        .with_writer(writer)
        .with_ansi(false)
        .with_target(false)
        .with_max_level(level);
    let set = if config.json {
        builder.json().flatten_event(true).try_init()
    } else {
        builder.try_init()
    };
    set.map_err(|error| format!("starting the log: {error}"))
}
