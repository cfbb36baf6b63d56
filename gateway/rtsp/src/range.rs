//! The Range, Speed and Scale headers (RFC 2326 sections 12.29, 12.34 and 12.35).

use std::time::Duration;

use rtsp_types::headers::{NptRange, NptTime, Range};

/// A client's network decides what it can take; beyond, the disk of others does.
const SPEEDS: core::ops::RangeInclusive<f64> = 0.25..=4.0;
/// Slower, pictures stand; faster, key frames follow each other as pictures do. The same backwards.
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
    /// Where it ends, if not with the film; backwards, if not with its begin.
    pub(crate) until: Option<Duration>,
}

/// Which way a film goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// To its end.
    On,
    /// To its begin.
    Back,
}

/// The way of a film at this scale.
pub(crate) fn way(scale: f64) -> Way {
    match scale < 0.0 {
        true => Way::Back,
        false => Way::On,
    }
}

/// The part of a film of this length that a header asks for; `None` if there is no such part.
pub(crate) fn part(header: &str, (length, way): (Duration, Way)) -> Option<Part> {
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
    // RFC 7826 section 18.40: who goes back begins behind where it ends.
    let is_that_way = match (from, until, way) {
        (Some(from), Some(until), Way::On) => from <= until,
        (Some(from), Some(until), Way::Back) => from >= until,
        _ => true,
    };
    let is_within = from.is_none_or(|from| from <= length);
    (is_that_way && is_within).then_some(Part {
        from,
        until: until.filter(|until| match way {
            Way::On => *until < length,
            Way::Back => !until.is_zero(),
        }),
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
    let wanted = number(header).filter(|wanted| *wanted > 0.0);
    let wanted = wanted.unwrap_or(1.0);
    wanted.clamp(*SPEEDS.start(), *SPEEDS.end())
}

/// The same of the scale; below 0 it goes back.
pub(crate) fn scale(header: Option<&str>) -> f64 {
    let wanted = number(header).filter(|wanted| *wanted != 0.0);
    let wanted = wanted.unwrap_or(1.0);
    let quick = wanted.abs().clamp(*SCALES.start(), *SCALES.end());
    quick.copysign(wanted)
}

fn number(header: Option<&str>) -> Option<f64> {
    let wanted = header.and_then(|text| text.trim().parse::<f64>().ok());
    wanted.filter(|wanted| wanted.is_finite())
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
            let found = part(header, (Duration::from_secs(10), Way::On));
            let expected = expected.map(|(from, until)| Part { from, until });
            assert_eq!(found, expected, "{header}");
        }
    }

    #[test]
    fn who_goes_back_begins_behind_where_it_ends() {
        for (header, expected) in [
            ("npt=10-", Some((ms(10_000), None))),
            ("npt=4-2", Some((ms(4_000), ms(2_000)))),
            ("npt=4-0", Some((ms(4_000), None))),
            ("npt=now-", Some((None, None))),
            ("npt=-4", Some((None, ms(4_000)))),
            ("npt=2-4", None),
            ("npt=10.1-", None),
        ] {
            let found = part(header, (Duration::from_secs(10), Way::Back));
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
        for (header, expected) in [
            ("8", 8.0),
            ("-8", -8.0),
            ("0.5", 0.5),
            ("-0.01", -0.25),
            ("0", 1.0),
            ("1e9", 16.0),
            ("-1e9", -16.0),
        ] {
            assert_eq!(scale(Some(header)), expected);
        }
    }

    proptest! {
        #[test]
        fn no_range_is_too_strange(header in "(npt=|smpte=|clock=)?[-0-9:.a-zT;]{0,30}|.{0,20}") {
            for way in [Way::On, Way::Back] {
                let _ = part(&header, (Duration::from_secs(10), way));
            }
        }
    }
}
