//! Times as they stand in answers: RFC 3339, UTC.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// This moment.
pub fn now() -> String {
    format(OffsetDateTime::now_utc())
}

/// A moment of the system's clock.
pub fn rfc3339(at: std::time::SystemTime) -> String {
    format(OffsetDateTime::from(at))
}

fn format(at: OffsetDateTime) -> String {
    // Whole milliseconds: all that is measured, and always the same width.
    let at = at.replace_millisecond(at.millisecond()).unwrap_or(at);
    // Only years beyond four digits cannot be written.
    at.format(&Rfc3339).unwrap_or_default()
}
