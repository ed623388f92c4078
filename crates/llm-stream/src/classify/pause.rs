//! How long a provider wants us to wait.

use std::time::Duration;

use jiff::{
    civil::DateTime,
    fmt::{rfc2822::DateTimeParser, strtime},
    tz::TimeZone,
};
use turnwright_core::Timestamp;

/// The wait of a `retry-after` header. A date in the past is no wait at all.
pub(super) fn of_header(value: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = DateTimeParser::new().parse_timestamp(value).ok().or_else(|| old_date(value))?;
    Some(Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO))
}

/// The two forms of an HTTP date that are no longer sent but must be understood.
fn old_date(value: &str) -> Option<Timestamp> {
    let forms = ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];
    let read = |form: &&str| strtime::parse(form, value).and_then(|parts| parts.to_datetime()).ok();
    let at: DateTime = forms.iter().find_map(read)?;
    TimeZone::UTC.to_timestamp(at).ok()
}

/// The wait in words such as `try again in 1m2.5s`, for errors inside a stream, which have no header.
pub(super) fn of_words(message: &str) -> Option<Duration> {
    const BEFORE: [&str; 3] = ["try again in ", "retry in ", "retry after "];
    let message = message.to_ascii_lowercase();
    let after = BEFORE.iter().find_map(|words| message.split_once(words)).map(|(_, after)| after)?;
    let (mut rest, mut total) = (after, None);
    while let Some((part, after)) = one(rest) {
        total = Some(total.unwrap_or(Duration::ZERO) + part);
        rest = after;
    }
    total
}

/// A number with its unit, and what follows.
fn one(text: &str) -> Option<(Duration, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let number: f64 = text[..end].parse().ok()?;
    let unit = text[end..].trim_start();
    let end = unit.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(unit.len());
    let seconds = match &unit[..end] {
        "ms" | "milliseconds" => 0.001,
        "s" | "sec" | "second" | "seconds" => 1.0,
        "m" | "min" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        _ => return None,
    };
    let pause = Duration::try_from_secs_f64(number * seconds).ok()?;
    // Sums of these do not overflow.
    (pause <= super::MAX_RETRY_AFTER).then_some((pause, unit[end..].trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_in_words_is_read_with_its_unit() {
        let table = [
            ("Rate limit reached. Limit 9, Used 9. Please try again in 11.054s. Visit x", Some(11_054)),
            ("Please try again in 6ms.", Some(6)),
            ("try again in 1m2.5s", Some(62_500)),
            ("Try again in 2h 3m", Some(7_380_000)),
            ("Please retry after 10 seconds.", Some(10_000)),
            ("Please retry in 39.5s.", Some(39_500)),
            ("Please try again in 20 s", Some(20_000)),
            ("try again in a moment", None),
            ("try again in 5", None),
            ("try again in 5 days", None),
            ("try again in 1e9s", None),
            ("try again in 999999999h", None),
            ("try again in .s", None),
            ("try again", None),
        ];
        for (words, milliseconds) in table {
            assert_eq!(of_words(words), milliseconds.map(Duration::from_millis), "{words}");
        }
    }

    #[test]
    fn fault_r7_98_a_date_may_have_any_of_its_three_forms() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        for date in
            ["Thu, 01 Jan 2026 00:01:30 GMT", "Thursday, 01-Jan-26 00:01:30 GMT", "Thu Jan  1 00:01:30 2026"]
        {
            assert_eq!(of_header(date, now), Some(Duration::from_secs(90)), "{date}");
        }
        for date in ["Thu Jan  1", "01-Jan-26", "1 Jan"] {
            assert_eq!(of_header(date, now), None, "{date}");
        }
    }
}
