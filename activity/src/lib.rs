//! The trail: activity, lifecycle, faults, recovery files, rotation, reading them back.
