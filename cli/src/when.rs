//! Times as a person writes them.

use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

/// Reads `2026-11-30T12:00:00Z`, or `30s`, `10m`, `2h`, `1d` before `now`.
pub(crate) fn parse(text: &str, now: OffsetDateTime) -> Result<OffsetDateTime, String> {
    if let Ok(time) = OffsetDateTime::parse(text, &Rfc3339) {
        return Ok(time);
    }
    length(text)
        .and_then(|span| now.checked_sub(span))
        .ok_or_else(|| {
            format!("{text:?} is not a time: write 2026-11-30T12:00:00Z, or 30s, 10m, 2h, 1d for a time ago")
        })
}

/// Reads an age: `30s`, `10m`, `2h`, `1d`.
pub(crate) fn age(text: &str) -> Result<std::time::Duration, String> {
    let seconds = length(text).and_then(|span| u64::try_from(span.whole_seconds()).ok());
    let seconds = seconds.ok_or_else(|| format!("{text:?} is not an age: write 30s, 10m, 2h, 1d"));
    seconds.map(std::time::Duration::from_secs)
}

/// Reads a size: `1000`, `500K`, `20M`, `10G`, `1T`, in steps of 1,024.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a size: write bytes, or 500K, 20M, 10G, 1T");
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match &text[digits.len()..] {
        "" | "B" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

/// A length of time: `30s`, `10m`, `2h`, `1d`.
pub(crate) fn length(text: &str) -> Option<Duration> {
    let unit = text.chars().next_back()?;
    let number: i64 = text.strip_suffix(unit)?.parse().ok()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return None,
    };
    let total = number.checked_mul(seconds)?;
    (number >= 0).then(|| Duration::seconds(total))
}

/// How far an RFC 3339 time is from `now`, as a person says it; the text itself where it is no time.
pub(crate) fn span(text: &str, now: OffsetDateTime) -> String {
    let Ok(time) = OffsetDateTime::parse(text, &Rfc3339) else {
        return text.to_owned();
    };
    let seconds = (now - time).whole_seconds().unsigned_abs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    #[test]
    fn spans_are_said_in_one_unit() {
        let now = datetime!(2026-11-30 12:00 UTC);
        for (text, wanted) in [
            ("2026-11-30T11:59:58.7Z", "1 s"),
            ("2026-11-30T11:58:01Z", "119 s"),
            ("2026-11-30T11:58:00Z", "2 min"),
            ("2026-11-30T10:00:00Z", "2 h"),
            ("2026-11-27T12:00:00Z", "3 days"),
            // To come.
            ("2026-11-30T12:00:30Z", "30 s"),
            ("soon", "soon"),
        ] {
            assert_eq!(span(text, now), wanted, "{text}");
        }
    }

    #[test]
    fn reads_ages_and_sizes() {
        assert_eq!(age("2h"), Ok(std::time::Duration::from_secs(7200)));
        assert!(age("2").is_err() && age("-1d").is_err() && age("1w").is_err());
        for (text, wanted) in [("0", 0), ("10", 10), ("3K", 3072), ("1GiB", 1 << 30)] {
            assert_eq!(size(text), Ok(wanted), "{text}");
        }
        for wrong in ["", "K", "1 K", "-1", "1kb", "99999999999T", "é"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn reads_times_and_spans() {
        let now = datetime!(2026-11-30 12:00 UTC);
        let read = |text| parse(text, now);
        assert_eq!(read("10m"), Ok(datetime!(2026-11-30 11:50 UTC)));
        assert_eq!(read("1d"), Ok(datetime!(2026-11-29 12:00 UTC)));
        assert_eq!(
            read("2026-11-30T13:00:00+02:00"),
            Ok(datetime!(2026-11-30 11:00 UTC))
        );
        for wrong in [
            "",
            "m",
            "-1m",
            "10",
            "10w",
            "é",
            "99999999999999999d",
            "yesterday",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
