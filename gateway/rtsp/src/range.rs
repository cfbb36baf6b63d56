//! The Range, Speed and Scale headers (RFC 2326 sections 12.29, 12.34 and 12.35).

use std::time::Duration;

use rtsp_types::headers::{NptRange, NptTime, Range};

/// A client's network decides what it can take; beyond, the disk of others does.
const SPEEDS: core::ops::RangeInclusive<f64> = 0.25..=4.0;
/// Slower, pictures stand; faster, key frames follow each other as pictures do.
pub(crate) const SCALES: core::ops::RangeInclusive<f64> = 0.25..=16.0;
/// No film is longer: hours beyond would overflow.
const SECONDS_MAX: u64 = u32::MAX as u64;

/// The unit of ranges.
pub(crate) const UNIT: &str = "npt";
/// The header of what is live.
pub(crate) const NOW: &str = "npt=now-";

/// A part of a film.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Where it begins; `None`: where the film is now.
    pub(crate) from: Option<Duration>,
    /// Where it ends, if not with the film.
    pub(crate) until: Option<Duration>,
}

/// The part of a film of this length that a header asks for; `None` if there is no such part.
pub(crate) fn part(header: &str, length: Duration) -> Option<Part> {
    // RFC 2326 section 12.29: a time at which to begin may follow.
    let range = header.split(';').next()?.trim();
    let Ok(Range::Npt(range)) = range.parse::<Range>() else {
        return None;
    };
    let (from, until) = match range {
        NptRange::Empty => (NptTime::Now, None),
        NptRange::From(from) => (from, None),
        NptRange::FromTo(from, until) => (from, Some(until)),
        NptRange::To(until) => (NptTime::Now, Some(until)),
    };
    let from = seconds(from)?;
    let until = until.map(seconds);
    let until = match until {
        Some(until) => until?,
        None => None,
    };
    // Backwards is not possible.
    let is_forward = match (from, until) {
        (Some(from), Some(until)) => from <= until,
        _ => true,
    };
    let is_within = from.is_none_or(|from| from <= length);
    (is_forward && is_within).then_some(Part {
        from,
        until: until.filter(|until| *until < length),
    })
}

/// The outer `None`: too long; the inner one: now.
fn seconds(time: NptTime) -> Option<Option<Duration>> {
    let (seconds, nanoseconds) = match time {
        NptTime::Now => return Some(None),
        NptTime::Seconds(seconds, rest) => (seconds, rest),
        NptTime::Hms(hours, minutes, seconds, rest) => {
            let hours = hours.checked_mul(3_600)?;
            let rest_of_hour = u64::from(minutes) * 60 + u64::from(seconds);
            (hours.checked_add(rest_of_hour)?, rest)
        }
    };
    let time = Duration::new(seconds, nanoseconds.unwrap_or(0).min(999_999_999));
    (seconds <= SECONDS_MAX).then_some(Some(time))
}

/// Whether a header is in the unit that is known.
pub(crate) fn is_known(header: &str) -> bool {
    let unit = header.split(['=', ';']).next().unwrap_or_default();
    unit.trim().eq_ignore_ascii_case(UNIT)
}

/// The header of all of a film.
pub(crate) fn whole(length: Duration) -> String {
    format!("npt=0-{:.3}", length.as_secs_f64())
}

/// The header of what was played until then.
pub(crate) fn until(at: Duration) -> String {
    format!("npt=-{:.3}", at.as_secs_f64())
}

/// The header that says what is played.
pub(crate) fn npt(from: Duration, until: Duration) -> String {
    let (from, until) = (from.as_secs_f64(), until.as_secs_f64());
    format!("npt={from:.3}-{until:.3}")
}

/// The speed nearest to what a header asks for.
pub(crate) fn speed(header: Option<&str>) -> f64 {
    positive(header).clamp(*SPEEDS.start(), *SPEEDS.end())
}

/// The same of the scale; backwards is not possible.
pub(crate) fn scale(header: Option<&str>) -> f64 {
    positive(header).clamp(*SCALES.start(), *SCALES.end())
}

fn positive(header: Option<&str>) -> f64 {
    let wanted = header.and_then(|text| text.trim().parse::<f64>().ok());
    let wanted = wanted.filter(|wanted| wanted.is_finite() && *wanted > 0.0);
    wanted.unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(ms: u64) -> Option<Duration> {
        Some(Duration::from_millis(ms))
    }

    #[test]
    fn parts_of_a_film_of_ten_seconds() {
        for (header, expected) in [
            ("npt=0.000-", Some((ms(0), None))),
            ("npt=2.5-4", Some((ms(2_500), ms(4_000)))),
            ("npt=now-", Some((None, None))),
            ("npt=-4", Some((None, ms(4_000)))),
            (
                "npt=0:00:03.25-;time=19970123T153600Z",
                Some((ms(3_250), None)),
            ),
            ("npt=3-20", Some((ms(3_000), None))),
            ("npt=10-", Some((ms(10_000), None))),
            ("npt=10.1-", None),
            ("npt=4-2", None),
            ("npt=99999999999999999999-", None),
            ("npt=18446744073709551615-", None),
            ("npt=9999999999999999999:00:00-", None),
            ("smpte=0:10:00-", None),
            ("npt", Some((None, None))),
            ("", None),
        ] {
            let found = part(header, Duration::from_secs(10));
            let expected = expected.map(|(from, until)| Part { from, until });
            assert_eq!(found, expected, "{header}");
        }
    }

    #[test]
    fn what_is_not_possible_is_answered_with_what_is() {
        for (header, expected) in [
            (None, 1.0),
            (Some("2.0"), 2.0),
            (Some("1000"), 4.0),
            (Some("-1"), 1.0),
            (Some("NaN"), 1.0),
            (Some("much"), 1.0),
        ] {
            assert_eq!(speed(header), expected);
        }
        for (header, expected) in [("8", 8.0), ("-8", 1.0), ("0.5", 0.5), ("1e9", 16.0)] {
            assert_eq!(scale(Some(header)), expected);
        }
    }

    proptest! {
        #[test]
        fn no_range_is_too_strange(header in "(npt=|smpte=|clock=)?[-0-9:.a-zT;]{0,30}|.{0,20}") {
            let _ = part(&header, Duration::from_secs(10));
        }
    }
}
