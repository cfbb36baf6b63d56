//! Spans of time as people write them.

use std::str::FromStr;
use std::time::Duration;

/// `90s`, `15m`, `8h` or `30d`; at most a hundred years.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lifetime(pub(crate) Duration);

const CENTURY_S: u64 = 36_525 * 86_400;

impl FromStr for Lifetime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?}: write a number and s, m, h or d, such as 8h");
        let unit = text.chars().next_back().ok_or_else(wrong)?;
        let seconds = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            _ => return Err(wrong()),
        };
        let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
        match number.checked_mul(seconds) {
            Some(total @ 1..=CENTURY_S) => Ok(Self(Duration::from_secs(total))),
            _ => Err(format!("{text:?}: between one second and a hundred years")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_people_write_them() {
        let seconds = |text: &str| text.parse::<Lifetime>().map(|one| one.0.as_secs());
        assert_eq!(seconds("90s"), Ok(90));
        assert_eq!(seconds("8h"), Ok(28_800));
        assert_eq!(seconds("30d"), Ok(2_592_000));
        for text in [
            "",
            "h",
            "8",
            "0s",
            "-1h",
            "8 h",
            "8y",
            "99999999d",
            "18446744073709551615d",
            "1\u{e9}",
        ] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
