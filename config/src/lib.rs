//! Home folder, configuration file, limits and defaults.
