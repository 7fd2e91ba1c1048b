//! Times as the trail writes them: RFC 3339, UTC, milliseconds.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

/// The present moment, e.g. `2026-11-03T09:15:00.042Z`.
pub(crate) fn now() -> String {
    format(OffsetDateTime::now_utc())
}

/// `at` in UTC with three digits of a second.
pub(crate) fn format(at: OffsetDateTime) -> String {
    let shape =
        format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    let utc = at.to_offset(time::UtcOffset::UTC);
    // Formatting into a string fails only for a year beyond 9999; an empty time is then honest.
    utc.format(&shape).unwrap_or_default()
}

/// The UTC date, e.g. `2026-11-03`.
pub(crate) fn date(at: OffsetDateTime) -> String {
    format(at).chars().take(10).collect()
}

/// Reads a time back; nothing if it is not RFC 3339.
pub(crate) fn parse(text: &str) -> Option<OffsetDateTime> {
    OffsetDateTime::parse(text, &Rfc3339).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    #[test]
    fn milliseconds_always_have_three_digits() {
        assert_eq!(
            format(datetime!(2026-11-03 09:15:00.042 UTC)),
            "2026-11-03T09:15:00.042Z"
        );
        assert_eq!(
            format(datetime!(2026-11-03 09:15 +2)),
            "2026-11-03T07:15:00.000Z"
        );
        assert_eq!(date(datetime!(2026-11-03 01:15 +2)), "2026-11-02");
    }

    #[test]
    fn what_was_written_is_read_back() {
        let text = now();
        assert_eq!(parse(&text).map(format), Some(text));
        assert_eq!(parse("yesterday"), None);
    }
}
