//! Durations as the official client's configuration writes them: `30000ms`, `1m30s`, `1.5h`.

use std::time::Duration;

/// Reads one; none where it is malformed, negative or too long for a clock.
pub fn parse(text: &str) -> Option<Duration> {
    let text = text.trim();
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = 0_f64;
    while !rest.is_empty() {
        let digits = rest
            .bytes()
            .take_while(|b| b.is_ascii_digit() || *b == b'.');
        let (number, after) = rest.split_at(digits.count());
        let letters = after.bytes().take_while(|b| b.is_ascii_alphabetic());
        let (unit, after) = after.split_at(letters.count());
        let seconds = match unit {
            "ns" => 1e-9,
            "us" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * seconds;
        rest = after;
    }
    if text.is_empty() || total > 1e9 {
        return None;
    }
    Duration::try_from_secs_f64(total).ok()
}

/// Writes one as a reader of any version understands it.
pub fn show(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_in_all_forms() {
        let good = [
            ("30000ms", 30_000),
            ("1m30s", 90_000),
            ("1.5s", 1_500),
            ("0", 0),
            ("2h", 7_200_000),
            (" 5s ", 5_000),
        ];
        for (text, ms) in good {
            assert_eq!(parse(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for bad in [
            "",
            "5",
            "s",
            "-1s",
            "1 s",
            "1d",
            "..s",
            "1e3s",
            "9999999999h",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read(ms in 0_u64..1_000_000_000) {
            let duration = Duration::from_millis(ms);
            prop_assert_eq!(parse(&show(duration)), Some(duration));
        }

        #[test]
        fn any_text_can_come_in(text in ".{0,40}") {
            let _ = parse(&text);
        }
    }
}
